"""GGUF files: their metadata, and their tensors as numpy arrays."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32  # of the tensors, where the file says nothing else
_BLOCK = 32  # elements that share a scale
_F32, _F16, _Q4_1, _Q8_0 = 0, 1, 3, 8


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        size = self.scalar("Q")
        self.at += size
        return bytes(self._data[self.at - size : self.at]).decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            element, count = self.scalar("I"), self.scalar("Q")
            return [self.value(element) for _ in range(count)]
        return self.scalar(_SCALARS[kind])


@dataclass(frozen=True)
class _Place:
    shape: tuple[int, ...]  # as numpy has it, the last one contiguous
    kind: int
    offset: int


class Gguf:
    """ValueError from the constructor for a file of another kind, from `tensor` for elements that it cannot read."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        reader = _Reader(self._data)
        if reader.scalar("4s") != b"GGUF" or reader.scalar("I") not in (2, 3):
            raise ValueError(f"{path} is no GGUF file of version 2 or 3")
        tensors, entries = reader.scalar("Q"), reader.scalar("Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            name = reader.string()
            self.metadata[name] = reader.value(reader.scalar("I"))
        self._places: dict[str, _Place] = {}
        for _ in range(tensors):
            name = reader.string()
            shape = tuple(reader.scalar("Q") for _ in range(reader.scalar("I")))[::-1]
            self._places[name] = _Place(shape, reader.scalar("I"), reader.scalar("Q"))
        alignment = self.metadata.get("general.alignment", _ALIGNMENT)
        self._start = -(-reader.at // alignment) * alignment

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        place = self._places[name]
        size = int(np.prod(place.shape))
        data = self._data[self._start + place.offset :]
        if place.kind == _F32:
            values = np.frombuffer(data, "<f4", size)
        elif place.kind == _F16:
            values = np.frombuffer(data, "<f2", size)
        elif place.kind == _Q8_0:
            blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("q", "i1", _BLOCK)]), size // _BLOCK)
            values = blocks["scale"].astype(np.float32)[:, None] * blocks["q"]
        elif place.kind == _Q4_1:
            packed = np.dtype([("scale", "<f2"), ("least", "<f2"), ("q", "u1", _BLOCK // 2)])
            blocks = np.frombuffer(data, packed, size // _BLOCK)
            # The lower halves of the bytes are the first 16 elements, the upper ones the others.
            q = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1)
            values = blocks["scale"].astype(np.float32)[:, None] * q + blocks["least"].astype(np.float32)[:, None]
        else:
            raise ValueError(f"{name} has elements of type {place.kind}, which is none of F32, F16, Q4_1, Q8_0")
        return values.astype(np.float32).reshape(place.shape)
