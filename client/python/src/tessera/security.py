"""TLS and tokens: files that are read again when they change."""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import grpc

FilePath = Union[str, "os.PathLike[str]"]

# How long a file's contents are believed without a look at the file.
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Tls:
    """Files in PEM. When they change, the connections of calls that begin later are made with what they then hold.

    ca: who signs the server's certificate; None: whom gRPC trusts by itself.
    certificate, private_key: the client's own, for servers that ask for one; both or neither.
    server_name: what the server's certificate must bear; None: the target's host.
    """

    ca: FilePath | None = None
    certificate: FilePath | None = None
    private_key: FilePath | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key go together")

    def credentials(self) -> grpc.ChannelCredentials:
        """By what the files hold now. ValueError where one cannot be read or holds no PEM, or where key and certificate
        are of different pairs, as while they are being replaced.
        """
        made = grpc.ssl_channel_credentials(
            root_certificates=_read_pem(self.ca),
            private_key=_read_pem(self.private_key),
            certificate_chain=_read_pem(self.certificate),
        )
        if self.certificate is not None and self.private_key is not None:
            _check_pair(self.certificate, self.private_key)
        return made

    def stamp(self) -> tuple[Any, ...]:
        """Another one once a file has changed."""
        return tuple(_stamp(path) for path in (self.ca, self.certificate, self.private_key) if path is not None)


class TokenFile:
    """A bearer token in a file. Threads may share it."""

    def __init__(self, path: FilePath) -> None:
        """ValueError where the file cannot be read or holds no token."""
        self._path = path
        self._lock = threading.Lock()
        self._token = self._read()  # guarded by _lock
        self._next_look = time.monotonic() + LOOK_SECONDS  # guarded by _lock

    def token(self) -> str:
        """What the file held at the last look; what it held before, where it holds none."""
        with self._lock:
            now = time.monotonic()
            if now >= self._next_look:
                self._next_look = now + LOOK_SECONDS
                with contextlib.suppress(ValueError):
                    self._token = self._read()
            return self._token

    def _read(self) -> str:
        return check_token(_read(self._path).decode(errors="replace"), str(self._path))


class Bearer(grpc.AuthMetadataPlugin):
    """Sends what `token` returns with every call."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        callback((("authorization", f"Bearer {self._token()}"),), None)


def check_token(text: str, source: str) -> str:
    """The token without the white space around it. ValueError, which does not quote it, where it is none."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{source} is no token: it must be printable ASCII without spaces, and not empty")
    return token


def _read(path: FilePath) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def _read_pem(path: FilePath | None) -> bytes | None:
    if path is None:
        return None
    contents = _read(path)
    if b"-----BEGIN " not in contents:
        raise ValueError(f"{path} holds nothing in PEM")
    return contents


def _check_pair(certificate: FilePath, private_key: FilePath) -> None:
    """gRPC would say nothing, and fail every handshake."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, private_key, password=lambda: b"")
    except OSError as error:
        raise ValueError(f"{private_key} is no key of {certificate}, which are read together: {error}") from None


def _stamp(path: FilePath) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
