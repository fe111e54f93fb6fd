"""A streamed call over blocking gRPC streams."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import grpc

from tessera import errors, retry
from tessera.call import AttendCall, Attention
from tessera.chunks import Incoming, Outgoing

_CANCELLED = "cancelled by the caller, or the client was closed"


class Transfer:
    """Runs one call, on one stream for each of `methods`, which must lead to one server over connections of their own.

    `run` blocks its thread; `cancel` may be called from any.
    """

    def __init__(
        self,
        call: AttendCall,
        methods: Sequence[grpc.StreamStreamMultiCallable[Any, Any]],
        *,
        chunk_bytes: int,
        deadline: float | None,
        metadata: tuple[tuple[str, str], ...],
    ) -> None:
        """`deadline` is by time.monotonic()."""
        self._call = call
        self._methods = methods
        self._chunk_bytes = chunk_bytes
        self._deadline = deadline
        self._metadata = metadata
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._streams: list[Any] = []  # guarded by _lock; of the current attempt
        self._failure: Exception | None = None  # guarded by _lock; the first of the current attempt

    def run(self) -> Attention:
        """The answer; the call's Error where it fails for good."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._attempt()
            except errors.Error as error:
                wait = retry.delay(error, attempt, self._deadline)
                if wait is None:
                    raise
            if self._cancelled.wait(wait):
                raise errors.CancelledError(_CANCELLED)

    def forbid(self) -> None:
        """No attempt begins any more; `run` fails with CancelledError unless the one under way succeeds."""
        self._cancelled.set()

    def cancel(self) -> None:
        """Ends `run` soon, with CancelledError unless it has ended otherwise by then."""
        self.forbid()
        with self._lock:
            streams = self._streams
        _end(streams)

    def _attempt(self) -> Attention:
        timeout = retry.remaining(self._deadline)
        count = len(self._methods)
        outgoing = Outgoing(self._call, streams=count, chunk_bytes=self._chunk_bytes, timeout=timeout)
        incoming = Incoming(self._call, streams=count)
        streams = self._open(outgoing, timeout)
        try:
            readers = [
                threading.Thread(
                    target=self._read, args=(index, stream, incoming), name=f"tessera-stripe-{index}", daemon=True
                )
                for index, stream in enumerate(streams[1:], start=1)
            ]
            for reader in readers:
                reader.start()
            self._read(0, streams[0], incoming)
            for reader in readers:
                reader.join()
        finally:
            _end(streams)
        with self._lock:
            if self._failure is not None:
                raise self._failure
        return incoming.attention()

    def _open(self, outgoing: Outgoing, timeout: float | None) -> list[Any]:
        """Begins an attempt: all of its streams, or none."""
        streams: list[Any] = []
        with self._lock:
            if self._cancelled.is_set():
                raise errors.CancelledError(_CANCELLED)
            try:
                for index, method in enumerate(self._methods):
                    streams.append(method(outgoing.messages(index), timeout=timeout, metadata=self._metadata))
            except BaseException:
                _end(streams)
                raise
            self._streams = streams
            self._failure = None
        return streams

    def _read(self, index: int, stream: Any, incoming: Incoming) -> None:
        """Reads one stream to its end. A failure of one ends the others, which could only wait for it."""
        try:
            for message in stream:
                incoming.absorb(index, message)
        except Exception as error:
            failure = errors.from_rpc(error) if isinstance(error, grpc.RpcError) else error
            if isinstance(failure, errors.Error) and not self._cancelled.is_set():
                failure = errors.by_server(failure)
            with self._lock:
                if self._failure is None:
                    self._failure = failure
                streams = self._streams
            _end(streams)


def _end(streams: Sequence[Any]) -> None:
    """Has no effect on streams that have ended."""
    for stream in streams:
        stream.cancel()
