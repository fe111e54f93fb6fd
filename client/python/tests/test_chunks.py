"""Streamed answers put together, and those that a server must not send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tessera.chunks import Incoming
from tessera.v1 import attention_pb2

Q = np.zeros((4, 2, 8), np.float32)
O_BYTES, LSE_BYTES = 256, 32
CALL = tessera.AttendCall(Q, Q, Q, return_lse=True)
ANSWER = np.arange(O_BYTES + LSE_BYTES, dtype=np.uint8).tobytes()  # where every byte tells its place


def message(*parts: Any, begin: int | None = None, end: int = 0, call: int = 1) -> bytes:
    """An AttendStreamResponse of `parts` (a result, a status), and of the answer's bytes where `begin` is given."""
    response = attention_pb2.AttendStreamResponse(id=call)
    for part in parts:
        name = "result" if isinstance(part, attention_pb2.AttendResult) else "status"
        getattr(response, name).CopyFrom(part)
    if begin is not None:
        response.payload_offset = begin
        response.payload = (ANSWER * 2)[begin:end]
    return response.SerializeToString()


RESULT = attention_pb2.AttendResult(o_bytes=O_BYTES, lse_bytes=LSE_BYTES, timing=attention_pb2.Timing(batch_requests=7))
OK = attention_pb2.CallStatus()


def assert_whole(incoming: Incoming) -> None:
    result = incoming.attention()
    assert result.lse is not None
    assert result.o.tobytes() + result.lse.tobytes() == ANSWER
    assert result.timing.batch_requests == 7


@pytest.mark.parametrize("chunk", [1, 100, 288])
def test_one_stream(chunk: int) -> None:
    incoming = Incoming(CALL, streams=1)
    incoming.absorb(0, message(RESULT))
    for begin in range(0, 288, chunk):
        incoming.absorb(0, message(begin=begin, end=min(begin + chunk, 288)))
    incoming.absorb(0, message(OK))
    assert_whole(incoming)


def test_one_message() -> None:
    incoming = Incoming(CALL, streams=1)
    incoming.absorb(0, message(RESULT, OK, begin=0, end=288))
    assert_whole(incoming)


def test_streams_bring_a_range_each_in_any_order() -> None:
    incoming = Incoming(CALL, streams=5)  # of 58 bytes, the last of 56
    for stream in (3, 0, 4, 1, 2):
        incoming.absorb(stream, message(RESULT, OK, begin=58 * stream, end=min(58 * stream + 58, 288)))
    assert_whole(incoming)


def test_streams_past_the_answer_bring_nothing() -> None:
    call = tessera.AttendCall(Q[:0], Q, Q)
    incoming = Incoming(call, streams=3)
    for stream in range(3):
        incoming.absorb(stream, message(attention_pb2.AttendResult(), OK))
    assert incoming.attention().o.shape == (0, 2, 8)


@pytest.mark.parametrize(
    ("streams", "messages", "complaint"),
    [
        # As many bytes as are due, but some twice and some never.
        (1, [message(RESULT, begin=0, end=144), message(begin=100, end=244)], "100 to 244 where those from 144 to 288"),
        (1, [message(RESULT, begin=0, end=100), message(begin=144, end=288)], "144 to 288 where those from 100 to 288"),
        (1, [message(RESULT, begin=1, end=288)], "1 to 288 where those from 0 to 288"),
        (1, [message(RESULT, begin=0, end=289)], "0 to 289 where those from 0 to 288"),
        (1, [message(RESULT, OK, begin=0, end=288), message(begin=288, end=289)], "288 to 289 where"),
        (2, [message(RESULT, begin=144, end=288)], "144 to 288 where those from 0 to 144"),
        (2, [message(RESULT, begin=0, end=145)], "0 to 145 where those from 0 to 144"),
        (1, [message(begin=0, end=288)], "ahead of its result"),
        (1, [message(RESULT, OK, begin=0, end=287)], "ended at byte 287, 288 were due"),
        (1, [message(OK)], "no result"),
        (1, [message(RESULT, call=2)], "to call 2"),
        (1, [message(attention_pb2.AttendResult(o_bytes=O_BYTES))], "256 bytes of o and 0 of LSE, not 256 and 32"),
        (1, [b"\x7a\x05abc"], "malformed"),
        (1, [b"\x12\x01\xff"], "malformed"),  # a result that ends in mid-field
    ],
)
def test_refuses(streams: int, messages: list[bytes], complaint: str) -> None:
    incoming = Incoming(CALL, streams=streams)
    *fine, wrong = messages
    for each in fine:
        incoming.absorb(0, each)
    with pytest.raises(tessera.InternalError, match=complaint):
        incoming.absorb(0, wrong)


@pytest.mark.parametrize("messages", [[], [message(RESULT, begin=0, end=144)]])
def test_stream_that_ends_early(messages: list[bytes]) -> None:
    incoming = Incoming(CALL, streams=2)
    incoming.absorb(1, message(RESULT, OK, begin=144, end=288))
    for each in messages:
        incoming.absorb(0, each)
    with pytest.raises(tessera.InternalError, match="ended before the answer's status"):
        incoming.attention()
