"""RPCs of many messages each way: what goes out is queued, and a thread reads what comes in."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import grpc

from tessera import errors


class MessageStream(ABC):
    """Threads may share it. Messages are serialized ones; subclasses know what they mean."""

    def __init__(self, channel: grpc.Channel, method: str, metadata: tuple[tuple[str, str], ...], reader: str) -> None:
        """Begins to read, on a thread of the name `reader`. REQUIRES: what the subclass reads with is there."""
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ended: errors.Error | None = None  # guarded by _lock; nothing is sent once it is set
        # Messages are bytes already, hence no serializers.
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(method)
        self._rpc: Any = call(self._outgoing(), metadata=metadata)
        self._reader = threading.Thread(target=self._read, name=reader, daemon=True)
        self._reader.start()

    @abstractmethod
    def _answer(self, message: bytes) -> None:
        """Takes a message, on the reading thread. An exception ends the stream: the Error itself, or InternalError."""

    @abstractmethod
    def _settle_all(self, end: errors.Error) -> None:
        """Ends whatever waits for an answer, on the reading thread. Nothing is sent or comes any more."""

    def _end(self, reason: errors.Error) -> None:
        """Sends no more."""
        with self._lock:
            if self._ended is None:
                self._ended = reason
                self._requests.put(None)

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
        except errors.Error as error:
            end = error
        except Exception as error:
            end = errors.InternalError(f"an answer could not be read: {error!r}")
            end.__cause__ = error
        finally:
            self._end(end)
            self._rpc.cancel()
            with self._lock:
                ended = self._ended or end
            self._settle_all(ended)
