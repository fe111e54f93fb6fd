"""The servers of sequences: what a handle says of its own, and who goes there."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tessera import errors

SERVER_ID_BYTES = 8
NO_SERVER_ID = bytes(SERVER_ID_BYTES)  # of a server that is not advertised


def server_id(address: str) -> bytes:
    """What handles of the server that is advertised under `address`, "host:port", begin with: FNV-1a, little-endian."""
    value = 0xCBF29CE484222325
    for byte in address.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value.to_bytes(SERVER_ID_BYTES, "little")


class Closable(Protocol):
    def close(self) -> None: ...


Connected = TypeVar("Connected", bound=Closable)


class Homes(Generic[Connected]):
    """Clients of the servers that redirects have named, one each. Threads may share it."""

    def __init__(self, connect: Callable[[str], Connected]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._by_id: dict[bytes, Connected] = {}  # guarded by _lock, as is all below
        self._closed = False

    def of(self, handle: bytes) -> Connected | None:
        """Whoever goes to the server that the handle names; None where no redirect has named it yet."""
        with self._lock:
            return self._by_id.get(handle[:SERVER_ID_BYTES])

    def follow(self, address: str) -> None:
        """Remembers a server. InternalError where `address` is none, CancelledError once closed."""
        if not re.fullmatch(r"[^/,\s]+:[0-9]{1,5}", address) or address.startswith("unix"):
            raise errors.InternalError("the server names no host and port as the place of the sequence")
        with self._lock:
            if self._closed:
                raise errors.CancelledError("the client is closed")
            if server_id(address) not in self._by_id:
                self._by_id[server_id(address)] = self._connect(address)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connected = list(self._by_id.values())
        for each in connected:
            each.close()
