"""Protobuf framing by hand, for the messages that carry tensors.

The protobuf runtime would copy every payload into its own memory and once more into a bytes object. Here the small
fields go through protobuf, and the payload is joined to them, or cut from them, once.
"""

from __future__ import annotations

from collections.abc import Collection

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def bytes_field_prefix(number: int, size: int) -> bytes:
    """What precedes the `size` bytes of the bytes or message field `number`."""
    return _varint(number << 3 | _BYTES) + _varint(size)


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("truncated varint")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def split(message: bytes, payload_fields: Collection[int]) -> tuple[bytes, dict[int, memoryview]]:
    """Separates a serialized message into its small fields, still serialized, and views of its payload fields.

    Of a payload field that occurs twice the last counts, as protobuf has it. ValueError where `message` is malformed.
    """
    data = memoryview(message)
    payloads: dict[int, memoryview] = {}
    small: list[memoryview] = []
    at = 0
    while at < len(data):
        start = at
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            size, at = _read_varint(data, at)
            end = at + size
        elif kind == _VARINT:
            _, end = _read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            end = at + (8 if kind == _FIXED64 else 4)
        else:
            raise ValueError(f"field {number} has wire type {kind}")
        if end > len(data):
            raise ValueError(f"field {number} is truncated")
        if kind == _BYTES and number in payload_fields:
            payloads[number] = data[at:end]
        else:
            small.append(data[start:end])
        at = end
    return b"".join(small), payloads
