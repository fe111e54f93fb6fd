"""numpy's element types against the protocol's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessera.v1 import tensor_pb2

Array = npt.NDArray[Any]

# The wire is little-endian whatever the host.
_BY_NAME: dict[str, tuple[tensor_pb2.DataType, np.dtype[Any]]] = {
    "float32": (tensor_pb2.DATA_TYPE_FLOAT32, np.dtype("<f4")),
    "float16": (tensor_pb2.DATA_TYPE_FLOAT16, np.dtype("<f2")),
}


def wire_type(dtype: np.dtype[Any]) -> tuple[tensor_pb2.DataType, np.dtype[Any]]:
    """The protocol's name of `dtype`, and the numpy type that has the wire's byte order. ValueError if it has none."""
    if dtype.name == "bfloat16":
        return tensor_pb2.DATA_TYPE_BFLOAT16, dtype
    if dtype.name not in _BY_NAME:
        raise ValueError(f"dtype is {dtype}; must be float32, float16 or bfloat16 (of ml_dtypes)")
    return _BY_NAME[dtype.name]


def parse(name: str) -> tensor_pb2.DataType:
    """'float32', 'float16' or 'bfloat16' as the protocol's value. ValueError for any other."""
    if name == "bfloat16":
        return tensor_pb2.DATA_TYPE_BFLOAT16
    if name not in _BY_NAME:
        raise ValueError(f"dtype is {name!r}; must be 'float32', 'float16' or 'bfloat16'")
    return _BY_NAME[name][0]
