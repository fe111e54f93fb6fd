"""The framing by hand against the protobuf runtime."""

from __future__ import annotations

import pytest

from tessera import wire
from tessera.v1 import attention_pb2


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 16384, 2097152])
def test_prefix_and_bytes_are_a_field(size: int) -> None:
    payload = b"x" * size
    message = attention_pb2.AttendRequest.FromString(wire.bytes_field_prefix(15, size) + payload)
    assert message.v == payload


def test_split_separates_payload_from_the_rest() -> None:
    response = attention_pb2.AttendStreamResponse(id=1 << 60, payload_offset=300, payload=b"p" * 1000)
    response.status.message = "m" * 200
    small, payloads = wire.split(response.SerializeToString(), (15,))
    assert bytes(payloads[15]) == response.payload
    response.ClearField("payload")
    assert attention_pb2.AttendStreamResponse.FromString(small) == response


def test_split_keeps_unknown_fields_of_every_type() -> None:
    unknown = b"\xa1\x06" + b"8bytes.." + b"\xad\x06" + b"4byt" + b"\xb0\x06\x96\x01" + b"\xba\x06\x02hi"
    small, payloads = wire.split(b"\x7a\x01a" + unknown + b"\x7a\x01b", (15,))
    assert small == unknown
    assert bytes(payloads[15]) == b"b"  # the last one counts


@pytest.mark.parametrize("message", [b"\x80", b"\x7a\x05abc", b"\x0b", b"\xa1\x06123", b"\x7a", b"\xff" * 11])
def test_split_refuses_malformed_messages(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"truncated|wire type"):
        wire.split(message, (15,))
