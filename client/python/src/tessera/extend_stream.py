"""The ExtendStream RPC: steps on resident sequences that are sent ahead of their answers."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

import grpc

from tessera import errors
from tessera.options import Priority, Window
from tessera.pending import PendingExtension
from tessera.sequences import ExtendCall, Extension, Step, split_answer
from tessera.transport import SEQUENCE_SERVICE, Transport
from tessera.v1 import sequence_pb2


class ExtendStream:
    """Threads may share it. One thread of its own reads the answers, and runs the callbacks of their futures.

    Calls that name the same sequence are done in the order in which they were submitted; others as the server pleases.
    """

    def __init__(self, channel: grpc.Channel, transport: Transport, ended: Callable[[ExtendStream], object]) -> None:
        """For Client.extend_stream. `ended` is called once, on the reading thread."""
        self._transport = transport
        self._when_ended = ended
        self._ids = itertools.count(1)
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[ExtendCall, PendingExtension]] = {}  # guarded by _lock
        self._ended: errors.Error | None = None  # guarded by _lock; nothing is sent once it is set
        # Messages are bytes already, hence no serializers.
        method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(SEQUENCE_SERVICE + "ExtendStream")
        self._rpc: Any = method(self._outgoing(), metadata=transport.metadata())
        self._reader = threading.Thread(target=self._read, name="tessera-extend", daemon=True)
        self._reader.start()

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
        """As Client.extend, but returns at once. CancelledError from the future where the stream is closed."""
        call = ExtendCall(
            steps,
            causal=causal,
            window=window,
            scale=scale,
            softcap=softcap,
            return_lse=return_lse,
            priority=priority,
        )
        call_id = next(self._ids)
        message = call.serialize_streamed(call_id, self._transport.limit(timeout))
        pending = PendingExtension(lambda: self._withdraw(call_id))
        with self._lock:
            ended = self._ended
            if ended is None:
                self._waiting[call_id] = (call, pending)
                self._requests.put(message)
        if ended is not None:
            pending.settle(ended)
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

    def _withdraw(self, call_id: int) -> None:
        message = sequence_pb2.ExtendStreamRequest(id=call_id, cancel=True).SerializeToString()
        with self._lock:
            if self._ended is None and call_id in self._waiting:
                self._requests.put(message)

    def _outgoing(self) -> Iterator[bytes]:
        while (message := self._requests.get()) is not None:
            yield message

    def _read(self) -> None:
        end: errors.Error = errors.UnavailableError("the server has ended the stream")
        try:
            for message in self._rpc:
                self._answer(message)
        except grpc.RpcError as error:
            end = errors.by_server(errors.from_rpc(error))
        except errors.InternalError as error:
            end = error
        self._end(end)
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            ended = self._ended or end
        for _, pending in waiting.values():
            pending.settle(ended)
        self._rpc.cancel()
        self._when_ended(self)

    def _answer(self, message: bytes) -> None:
        """InternalError where it cannot be read, so that nobody knows whose it is."""
        small, payloads = split_answer(message)
        try:
            response = sequence_pb2.ExtendStreamResponse.FromString(small)
        except ValueError as error:
            raise errors.InternalError(f"malformed answer: {error}") from error
        with self._lock:
            call, pending = self._waiting.pop(response.id, (None, None))
        if call is None or pending is None:
            return
        pending.settle(_outcome(call, response, payloads))

    def _end(self, reason: errors.Error) -> None:
        """Sends no more."""
        with self._lock:
            if self._ended is None:
                self._ended = reason
                self._requests.put(None)


def _outcome(
    call: ExtendCall, response: sequence_pb2.ExtendStreamResponse, payloads: dict[int, memoryview]
) -> Extension | errors.Error:
    status = response.status
    if status.code != 0:
        retry_after = status.retry_after_ms / 1000 if status.retry_after_ms else None
        return errors.from_number(status.code, status.message, retry_after)
    try:
        return call.extension(response.result, payloads)
    except errors.InternalError as error:
        return error
