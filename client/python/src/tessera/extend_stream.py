"""The ExtendStream RPC: steps on resident sequences that are sent ahead of their answers."""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

import grpc
from google.protobuf.message import DecodeError

from tessera import errors
from tessera.deadlines import Deadlines
from tessera.message_stream import MessageStream
from tessera.options import Priority, Window
from tessera.pending import PendingExtension
from tessera.sequences import ExtendCall, Extension, Step, split_answer
from tessera.transport import SEQUENCE_SERVICE, Transport
from tessera.v1 import sequence_pb2

# How long an answer may take beyond its call's time, which the server keeps to by itself.
GRACE_SECONDS = 1.0


@dataclass(frozen=True)
class _Sent:
    call: ExtendCall
    pending: PendingExtension


@dataclass(frozen=True)
class _Held:
    call: ExtendCall
    pending: PendingExtension
    body: bytes
    deadline: float | None  # by time.monotonic()


class ExtendStream(MessageStream):
    """Threads may share it. One thread of its own reads the answers, and runs the callbacks of their futures; those of
    futures whose time runs out run on the client's other threads.

    Calls that name the same sequence are done in the order in which they were submitted; others as the server pleases.
    A call that fails, for want of pages or bytes, of time, or by `cancel`, is left out, and those after it are done all
    the same: the sequence then lacks its rows in the middle. Truncate it to the last length that came before, and go on
    from there.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        transport: Transport,
        *,
        max_calls: int,
        deadlines: Deadlines,
        ended: Callable[[ExtendStream], object],
    ) -> None:
        """For Client.extend_stream. At most `max_calls` are on their way at a time; more wait here, in order. `ended`
        is called once, on the reading thread.
        """
        self._transport = transport
        self._max_calls = max_calls
        self._deadlines = deadlines
        self._when_ended = ended
        self._ids = itertools.count(1)
        self._held: OrderedDict[int, _Held] = OrderedDict()  # guarded by _lock
        # Guarded by _lock. Without an answer, whatever became of their futures: they count for the server.
        self._sent: dict[int, _Sent] = {}
        super().__init__(channel, SEQUENCE_SERVICE + "ExtendStream", transport.metadata(), "tessera-extend")

    def submit(
        self,
        steps: Iterable[Step],
        *,
        causal: bool = True,
        window: Window | None = None,
        scale: float | None = None,
        softcap: float = 0.0,
        return_lse: bool = False,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
    ) -> PendingExtension:
        """As Client.extend, but returns at once. CancelledError from the future where the stream is closed,
        DeadlineExceededError at the latest a second after the call's time.
        """
        call = ExtendCall(
            steps,
            causal=causal,
            window=window,
            scale=scale,
            softcap=softcap,
            return_lse=return_lse,
            priority=priority,
        )
        body = call.serialize_streamed()
        limit = self._transport.limit(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        call_id = next(self._ids)
        pending = PendingExtension(lambda: self._withdraw(call_id))
        with self._lock:
            ended = self._ended
            if ended is None:
                self._held[call_id] = _Held(call, pending, body, deadline)
        if ended is not None:
            pending.settle(ended)
            return pending
        if deadline is not None:
            expiry = self._deadlines.add(deadline + GRACE_SECONDS, lambda: self._expire(call_id, pending))
            pending.add_done_callback(lambda _: self._deadlines.discard(expiry))
        self._send_held()
        return pending

    def close(self) -> None:
        """Ends the stream; calls that have no answer yet fail with CancelledError. Not from a future's callback."""
        self._end(errors.CancelledError("the stream is closed"))
        self._rpc.cancel()
        self._reader.join()

    def __enter__(self) -> ExtendStream:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send_held(self) -> None:
        """Sends what has been held back, as far as the server may take it."""
        late: list[PendingExtension] = []
        with self._lock:
            while self._ended is None and self._held and len(self._sent) < self._max_calls:
                call_id, held = self._held.popitem(last=False)
                left = None if held.deadline is None else held.deadline - time.monotonic()
                if left is not None and left <= 0:
                    late.append(held.pending)
                    continue
                head = sequence_pb2.ExtendStreamRequest(id=call_id, timeout_us=_microseconds(left))
                self._sent[call_id] = _Sent(held.call, held.pending)
                self._requests.put(head.SerializeToString() + held.body)
        for pending in late:
            pending.settle(errors.DeadlineExceededError("the call's time ran out before it was sent"))

    def _withdraw(self, call_id: int) -> None:
        message = sequence_pb2.ExtendStreamRequest(id=call_id, cancel=True).SerializeToString()
        with self._lock:
            if self._held.pop(call_id, None) is None and self._ended is None and call_id in self._sent:
                self._requests.put(message)

    def _expire(self, call_id: int, pending: PendingExtension) -> None:
        self._withdraw(call_id)
        pending.settle(errors.DeadlineExceededError("the call's time ran out; it may have been done all the same"))

    def _answer(self, message: bytes) -> None:
        """InternalError where it cannot be read, so that nobody knows whose it is."""
        small, payloads = split_answer(message)
        try:
            response = sequence_pb2.ExtendStreamResponse.FromString(small)
        except DecodeError as error:
            raise errors.InternalError(f"malformed answer: {error}") from error
        with self._lock:
            sent = self._sent.get(response.id)
        if sent is None:
            return
        outcome = _outcome(sent.call, response, payloads)
        with self._lock:
            del self._sent[response.id]
        # The next one is on its way before the future's callbacks take their time.
        self._send_held()
        sent.pending.settle(outcome)

    def _settle_all(self, end: errors.Error) -> None:
        with self._lock:
            pending = [sent.pending for sent in self._sent.values()]
            pending += [held.pending for held in self._held.values()]
            self._sent.clear()
            self._held.clear()
        for each in pending:
            each.settle(end)
        self._when_ended(self)


def _microseconds(timeout: float | None) -> int:
    return 0 if timeout is None else max(1, round(timeout * 1e6))


def _outcome(
    call: ExtendCall, response: sequence_pb2.ExtendStreamResponse, payloads: dict[int, memoryview]
) -> Extension | errors.Error:
    status = response.status
    if status.code != 0:
        retry_after = status.retry_after_ms / 1000 if status.retry_after_ms else None
        return errors.from_number(status.code, status.message, retry_after, status.redirect or None)
    try:
        return call.extension(response.result, payloads)
    except errors.InternalError as error:
        return error
