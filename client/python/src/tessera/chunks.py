"""AttendStream: a call cut into chunks, on one stream or striped over several, and its answer put together again."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from google.protobuf.message import DecodeError

from tessera import errors, wire
from tessera.call import AttendCall, Attention
from tessera.v1 import attention_pb2

_PAYLOAD = 15  # in AttendStreamRequest and AttendStreamResponse
_CALL_ID = 1  # every stream carries a single call


class Outgoing:
    """The messages of one call, stream by stream. Each stream's messages may be drawn on a thread of its own."""

    def __init__(self, call: AttendCall, *, streams: int, chunk_bytes: int, timeout: float | None) -> None:
        self._header = call.header
        self._timeout_us = 0 if timeout is None else max(1, int(timeout * 1e6))
        self._streams = streams
        self._transfer = os.urandom(16)
        self._chunks: list[tuple[int, memoryview]] = []
        base = 0
        for part in call.payload:
            for at in range(0, len(part), chunk_bytes):
                self._chunks.append((base + at, part[at : at + chunk_bytes]))
            base += len(part)

    def messages(self, stream: int) -> Iterator[bytes]:
        """Serialized AttendStreamRequests: the opening, with the first chunk, and then chunks in order."""
        opening = attention_pb2.AttendStreamRequest(id=_CALL_ID, header=self._header, timeout_us=self._timeout_us)
        if self._streams > 1:
            opening.stripe.transfer = self._transfer
            opening.stripe.index = stream
            opening.stripe.count = self._streams
        message = opening
        for offset, chunk in self._chunks[stream :: self._streams]:
            message.payload_offset = offset
            yield b"".join((message.SerializeToString(), wire.bytes_field_prefix(_PAYLOAD, len(chunk)), chunk))
            message = attention_pb2.AttendStreamRequest(id=_CALL_ID)
        if message is opening:
            yield opening.SerializeToString()


class Incoming:
    """The answer of one call, of which every stream brings one range of bytes, in order.

    Each stream's messages may be absorbed on a thread of its own.
    """

    def __init__(self, call: AttendCall, *, streams: int) -> None:
        self._call = call
        self._buffer = np.empty(call.o_bytes + call.lse_bytes, np.uint8)
        share = -(-len(self._buffer) // streams)
        bounds = [min(index * share, len(self._buffer)) for index in range(streams + 1)]
        self._next, self._end = bounds[:-1], bounds[1:]  # of each stream: where it goes on, and is to end
        self._results: list[attention_pb2.AttendResult | None] = [None] * streams
        self._finished = [False] * streams

    def absorb(self, stream: int, message: bytes) -> None:
        """Takes one serialized AttendStreamResponse. Raises the call's Error where its status is not OK, and
        InternalError where it does not go on where the stream's last one ended.
        """
        try:
            small, payloads = wire.split(message, (_PAYLOAD,))
            response = attention_pb2.AttendStreamResponse.FromString(small)
        except (ValueError, DecodeError) as error:
            raise errors.InternalError(f"malformed answer: {error}") from error
        if response.id != _CALL_ID:
            raise errors.InternalError(f"the answer is to call {response.id}, not {_CALL_ID}")
        if response.HasField("result"):
            self._check_sizes(response.result)
            self._results[stream] = response.result
        payload = payloads.get(_PAYLOAD)
        if payload:
            self._write(stream, response.payload_offset, payload)
        if response.HasField("status"):
            self._finish(stream, response.status)

    def attention(self) -> Attention:
        """The whole answer, once every stream has ended. InternalError where some of it is missing."""
        result = self._results[0]
        if result is None or not all(self._finished):
            raise errors.InternalError("a stream ended before the answer's status")
        return self._call.attention(self._buffer, result.timing)

    def _write(self, stream: int, offset: int, payload: memoryview) -> None:
        if self._results[stream] is None:
            raise errors.InternalError("the answer has bytes ahead of its result")
        begin, end = self._next[stream], self._end[stream]
        if offset != begin or len(payload) > end - begin:
            raise errors.InternalError(
                f"the answer has bytes {offset} to {offset + len(payload)} where those from {begin} to {end} are due"
            )
        self._buffer[begin : begin + len(payload)] = payload
        self._next[stream] += len(payload)

    def _finish(self, stream: int, status: attention_pb2.CallStatus) -> None:
        if status.code != 0:
            retry_after = status.retry_after_ms / 1000 if status.retry_after_ms else None
            raise errors.from_number(status.code, status.message, retry_after)
        if self._results[stream] is None:
            raise errors.InternalError("the answer has no result")
        if self._next[stream] != self._end[stream]:
            raise errors.InternalError(
                f"the answer has ended at byte {self._next[stream]}, {self._end[stream]} were due"
            )
        self._finished[stream] = True

    def _check_sizes(self, result: attention_pb2.AttendResult) -> None:
        if (result.o_bytes, result.lse_bytes) != (self._call.o_bytes, self._call.lse_bytes):
            raise errors.InternalError(
                f"the answer has {result.o_bytes} bytes of o and {result.lse_bytes} of LSE, "
                f"not {self._call.o_bytes} and {self._call.lse_bytes}"
            )
