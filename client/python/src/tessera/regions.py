"""Calls whose arrays do not travel, to a server on the same host: they lie in memory that both have."""

from __future__ import annotations

import math
import mmap
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt

from tessera import cuda, dtypes
from tessera.call import Timing, make_header
from tessera.dtypes import Array
from tessera.options import Priority, Window, make_options
from tessera.placed import Placed, place
from tessera.region_stream import RegionStream, close_request
from tessera.security import FilePath, Tls
from tessera.shared_memory import open_shared_memory
from tessera.transport import Transport
from tessera.v1 import region_pb2

_ALIGNMENT = 256


class Region:
    """Memory of a session's. Close it, or use it in `with`, or leave it to the session's end."""

    def __init__(self, session: RegionSession, number: int, address: int, size: int, memory: mmap.mmap | None) -> None:
        self._session = session
        self._memory = memory  # None of a GPU's
        self._taken = 0
        self.number = number
        self.address = address
        self.size = size

    def array(self, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Array:
        """A numpy array in the region, behind those made before: of zeros, unless the memory has been used. For shared
        memory alone, and one thread at a time. MemoryError where there is no room for it.
        """
        if self._memory is None:
            raise TypeError("the region is a GPU's memory")
        kind = dtypes.wire_type(np.dtype(dtype))[1] if np.dtype(dtype).name != "uint8" else np.dtype(np.uint8)
        count = math.prod(shape)
        if min(shape, default=0) < 0:
            raise ValueError(f"shape is {tuple(shape)}; must not be negative")
        begin = -(-self._taken // _ALIGNMENT) * _ALIGNMENT
        if begin + count * kind.itemsize > self.size:
            raise MemoryError(f"{count * kind.itemsize} bytes do not fit behind {begin} of the region's {self.size}")
        self._taken = begin + count * kind.itemsize
        return np.frombuffer(self._memory, kind, count, begin).reshape(shape)

    def close(self) -> None:
        """Ends the region, and waits until the server has let go of it. Arrays in shared memory are all zeros then:
        copy what is still wanted first.
        """
        self._session._close_region(self)

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class RegionSession:
    """A connection to a server on this host, and the regions opened on it. Threads may share a session.

    The server must allow regions: --allow-shared-memory, --allow-cuda-ipc. Nothing is tried again.
    tenant, timeout, tls, token, token_file, credentials: as of Client; files are read when the session begins. The
    timeout bounds the opening and closing of regions, too. Where the server has not answered a second after a call's
    timeout, DeadlineExceededError: it may still write to the call's arrays then.
    """

    def __init__(
        self,
        target: str,
        *,
        tenant: str | None = Transport.tenant,
        timeout: float | None = Transport.timeout,
        credentials: grpc.ChannelCredentials | None = None,
        tls: bool | Tls = False,
        token: str | None = None,
        token_file: FilePath | None = None,
    ) -> None:
        self._transport = Transport(
            target=target,
            connections=1,
            tenant=tenant,
            timeout=timeout,
            credentials=credentials,
            tls=tls,
            token=token,
            token_file=token_file,
        )
        arguments, secure = self._transport.channel_arguments(), self._transport.channel_credentials()
        self._channel = (
            grpc.insecure_channel(target, arguments)
            if secure is None
            else grpc.secure_channel(target, secure, arguments)
        )
        self._stream = RegionStream(self._channel, self._transport.metadata())
        self._lock = threading.Lock()
        self._regions: dict[int, Region] = {}  # guarded by _lock; by number

    def open_shared_memory(self, size: int) -> Region:
        """`size` bytes of shared memory, for numpy arrays."""
        request = region_pb2.AttendInRegionsRequest()
        request.open.shared_memory.bytes = size
        opened = self._stream.ask(request, self._transport.limit(None)).opened
        try:
            memory = open_shared_memory(opened.path, opened.name, size)
        except BaseException:
            self._stream.send(close_request(opened.region), lambda _: None)
            raise
        address = np.frombuffer(memory, np.uint8).ctypes.data
        return self._add(Region(self, opened.region, address, size, memory))

    def share(self, array: Any) -> Region:
        """The GPU allocation that `array` is in, with every other array there. A PyTorch tensor, or anything with
        __cuda_array_interface__. It must not be freed before the region, or the session, is closed. ValueError where
        it is on no GPU or cannot be shared; OSError where the machine has no GPU.
        """
        placed = place("array", array)
        if not placed.on_gpu:
            raise ValueError("the array is not on a GPU")
        known = self._region_of(placed)
        if known is not None:
            return known
        allocation = cuda.driver().allocation(placed.address)
        request = region_pb2.AttendInRegionsRequest()
        memory = request.open.cuda_memory
        memory.handle, memory.device_uuid, memory.used_bytes = (
            allocation.handle,
            allocation.device_uuid,
            allocation.size,
        )
        opened = self._stream.ask(request, self._transport.limit(None)).opened
        return self._add(Region(self, opened.region, allocation.address, allocation.size, None))

    def attend(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        *,
        lse: Any = None,
        q_lengths: Sequence[int] | None = None,
        kv_lengths: Sequence[int] | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
        softcap: float = 0.0,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
    ) -> Timing:
        """As Client.attend, but every array lies in this session's regions: numpy arrays in shared memory, or arrays on
        one GPU. Blocks; returns when `out`, and `lse` where it is given, hold the answer.

        q, k, v, out: [tokens, heads, head_dim] or with a leading batch dimension, contiguous; `out` is as q.
        lse: float32, [tokens, heads], or [batch, tokens, heads].
        What is on a GPU is awaited first: PyTorch's current stream, or the stream that an array's interface names.
        """
        arrays = {"q": place("q", q), "k": place("k", k), "v": place("v", v), "out": place("out", out)}
        if arrays["out"].shape != arrays["q"].shape or arrays["out"].dtype != arrays["q"].dtype:
            raise ValueError(f"out is {arrays['out'].dtype} {arrays['out'].shape}; must be as q")
        if lse is not None:
            arrays["lse"] = place("lse", lse)
            if arrays["lse"].shape != arrays["q"].shape[:-1] or arrays["lse"].dtype != "float32":
                raise ValueError(
                    f"lse is {arrays['lse'].dtype} {arrays['lse'].shape}; must be float32, as q without head_dim"
                )
        request = region_pb2.AttendInRegionsRequest()
        request.attend.header.CopyFrom(
            make_header(
                {name: arrays[name] for name in ("q", "k", "v")},
                arrays["q"].data_type,
                q_lengths=q_lengths,
                kv_lengths=kv_lengths,
                options=make_options(
                    causal=causal,
                    window=window,
                    scale=scale,
                    softcap=softcap,
                    return_lse=lse is not None,
                    priority=priority,
                ),
            )
        )
        limit = self._transport.limit(timeout)
        request.attend.timeout_us = 0 if limit is None else max(1, int(limit * 1e6))
        fields = {"q": request.attend.q, "k": request.attend.k, "v": request.attend.v, "out": request.attend.o}
        fields["lse"] = request.attend.lse
        for name, placed in arrays.items():
            self._locate(name, placed, fields[name])
        for placed in {array.stream: array for array in arrays.values()}.values():
            if placed.stream is not None:
                cuda.driver().await_stream(placed.address, placed.stream)
        return Timing.of(self._stream.ask(request, limit).result.timing)

    def close(self) -> None:
        """Withdraws what is in flight and gives the regions back."""
        self._stream.close()
        self._channel.close()

    def __enter__(self) -> RegionSession:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _add(self, region: Region) -> Region:
        with self._lock:
            self._regions[region.number] = region
        return region

    def _close_region(self, region: Region) -> None:
        with self._lock:
            if self._regions.pop(region.number, None) is None:
                return
        self._stream.ask(close_request(region.number), self._transport.limit(None))

    def _region_of(self, placed: Placed) -> Region | None:
        with self._lock:
            for region in self._regions.values():
                if region.address <= placed.address and placed.address + placed.size <= region.address + region.size:
                    return region
        return None

    def _locate(self, name: str, placed: Placed, tensor: region_pb2.RegionTensor) -> None:
        """Says in `tensor` where the array is. One without elements is nowhere."""
        if placed.size == 0:
            return
        region = self._region_of(placed)
        if region is None:
            raise ValueError(f"{name} is in no region of the session")
        tensor.region, tensor.offset, tensor.bytes = region.number, placed.address - region.address, placed.size
