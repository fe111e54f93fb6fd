"""Arrays as calls in regions see them: where they lie, whatever library made them."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera import dtypes
from tessera.v1 import tensor_pb2

_CUDA_TYPES = {"<f4": "float32", "<f2": "float16"}


@dataclass(frozen=True)
class Placed:
    """An array in C order. `stream`: of its GPU, where what wrote it may be under way still."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    on_gpu: bool
    stream: int | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def data_type(self) -> tensor_pb2.DataType:
        return dtypes.parse(self.dtype)

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * (4 if self.dtype == "float32" else 2)


def place(name: str, array: Any) -> Placed:
    """Of a numpy array, a PyTorch tensor, or anything with __cuda_array_interface__. ValueError where it is of another
    type or not contiguous; `name` is for that.
    """
    if isinstance(array, np.ndarray):
        dtypes.wire_type(array.dtype)
        if not array.flags.c_contiguous or array.dtype.byteorder == ">":
            raise ValueError(f"{name} is not contiguous and little-endian; a call in a region does not copy it")
        return Placed(array.ctypes.data, array.shape, array.dtype.name, on_gpu=False)
    if _is_torch(array):
        if not array.is_contiguous():
            raise ValueError(f"{name} is not contiguous; a call in a region does not copy it")
        stream = sys.modules["torch"].cuda.current_stream(array.device).cuda_stream if array.is_cuda else None
        return Placed(
            array.data_ptr(), tuple(array.shape), str(array.dtype).replace("torch.", ""), array.is_cuda, stream
        )
    interface: dict[str, Any] | None = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        raise ValueError(f"{name} is a {type(array).__name__}; must be a numpy array, or an array on a GPU")
    shape, typestr = tuple(interface["shape"]), interface["typestr"]
    if typestr not in _CUDA_TYPES:
        raise ValueError(f"{name} has type {typestr}; must be one of {', '.join(_CUDA_TYPES)}")
    dtype = _CUDA_TYPES[typestr]
    if interface.get("strides") not in (None, _packed(shape, np.dtype(dtype).itemsize)):
        raise ValueError(f"{name} is not contiguous; a call in a region does not copy it")
    return Placed(interface["data"][0], shape, dtype, on_gpu=True, stream=interface.get("stream"))


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))
