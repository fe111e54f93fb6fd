"""GPU allocations of this process, named so that another process can open them. By the driver's library alone."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Allocation:
    """The whole allocation that an address is in."""

    address: int
    size: int
    handle: bytes  # CUipcMemHandle
    device_uuid: bytes


class CudaDriver:
    """Threads may share it. OSError from the constructor where the machine has no driver, or no GPU."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)

    def allocation(self, address: int) -> Allocation:
        """Of the allocation that `address` is in. ValueError where that is none, or cannot be shared: memory of
        cudaMallocAsync or of PyTorch's expandable segments.
        """
        device = ctypes.c_int()
        _check(
            self._call("cuPointerGetAttribute", ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_ulonglong(address)),
            "the address is in no GPU's memory",
        )
        with self._context(device.value):
            base, size = ctypes.c_ulonglong(), ctypes.c_size_t()
            _check(
                self._call(
                    "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_ulonglong(address)
                ),
                "the address is in no allocation",
            )
            handle, uuid = ctypes.create_string_buffer(64), ctypes.create_string_buffer(16)
            _check(self._call("cuIpcGetMemHandle", handle, base), "the allocation cannot be shared")
            number = ctypes.c_int()
            self._call("cuDeviceGet", ctypes.byref(number), device)
            _check(self._call("cuDeviceGetUuid", uuid, number), "the GPU has no UUID")
        return Allocation(address=base.value, size=size.value, handle=handle.raw, device_uuid=uuid.raw)

    def await_stream(self, address: int, stream: int) -> None:
        """Waits for what a stream (as __cuda_array_interface__ names it) of the GPU at `address` has been given."""
        device = ctypes.c_int()
        self._call("cuPointerGetAttribute", ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_ulonglong(address))
        with self._context(device.value):
            _check(self._call("cuStreamSynchronize", ctypes.c_void_p(stream)), "the stream has failed")

    def _context(self, ordinal: int) -> _Context:
        return _Context(self._library, ordinal)

    def _call(self, name: str, *arguments: Any) -> int:
        result: int = getattr(self._library, name)(*arguments)
        if name == "cuInit" and result != 0:
            raise OSError(f"no GPU: CUDA error {result}")
        return result


class _Context:
    """A device's primary context, which CUDA's runtime and PyTorch use, current on this thread."""

    def __init__(self, library: ctypes.CDLL, ordinal: int) -> None:
        self._library = library
        self._device = ctypes.c_int()
        self._context = ctypes.c_void_p()
        _check(library.cuDeviceGet(ctypes.byref(self._device), ordinal), "there is no such GPU")

    def __enter__(self) -> None:
        _check(
            self._library.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), self._device), "the GPU has no context"
        )
        _check(self._library.cuCtxPushCurrent_v2(self._context), "the GPU's context is of no use")

    def __exit__(self, *_: object) -> None:
        self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        self._library.cuDevicePrimaryCtxRelease_v2(self._device)


_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


def _check(result: int, problem: str) -> None:
    if result != 0:
        raise ValueError(f"{problem}: CUDA error {result}")


@functools.lru_cache(maxsize=1)
def driver() -> CudaDriver:
    """The process's. OSError where there is none."""
    return CudaDriver()
