"""A streamed call over blocking gRPC streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import grpc

from tessera import errors, retry
from tessera.call import AttendCall, Attention
from tessera.chunks import Incoming, Outgoing


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
        self._streams: list[Any] = []  # guarded by _lock
        self._failure: Exception | None = None  # guarded by _lock; the first of the current attempt

    def run(self) -> Attention:
        """The answer; the call's Error where it fails for good."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._attempt()
            except errors.Error as error:
                wait = retry.delay(error, attempt, self._remaining())
                if wait is None or self._cancelled.wait(wait):
                    raise

    def cancel(self) -> None:
        self._cancelled.set()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.cancel()

    def _remaining(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def _attempt(self) -> Attention:
        timeout = self._remaining()
        if timeout is not None and timeout <= 0:
            raise errors.DeadlineExceededError("the call's time ran out before it was sent")
        count = len(self._methods)
        outgoing = Outgoing(self._call, streams=count, chunk_bytes=self._chunk_bytes, timeout=timeout)
        incoming = Incoming(self._call, streams=count)
        with self._lock:
            if self._cancelled.is_set():
                raise errors.CancelledError("cancelled by the caller")
            self._failure = None
            self._streams = [
                method(outgoing.messages(index), timeout=timeout, metadata=self._metadata)
                for index, method in enumerate(self._methods)
            ]
        readers = [
            threading.Thread(target=self._read, args=(index, incoming), name=f"tessera-stripe-{index}", daemon=True)
            for index in range(1, count)
        ]
        for reader in readers:
            reader.start()
        self._read(0, incoming)
        for reader in readers:
            reader.join()
        if self._failure is not None:
            raise self._failure
        return incoming.attention()

    def _read(self, index: int, incoming: Incoming) -> None:
        """Reads one stream to its end. A failure of one ends the others, which could only wait for it."""
        try:
            for message in self._streams[index]:
                incoming.absorb(index, message)
        except Exception as error:
            with self._lock:
                if self._failure is None:
                    self._failure = errors.from_rpc(error) if isinstance(error, grpc.RpcError) else error
                streams = list(self._streams)
            for stream in streams:
                stream.cancel()
