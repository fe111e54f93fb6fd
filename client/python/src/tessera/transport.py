"""How calls travel: the settings that both clients share, and gRPC's channel arguments."""

from __future__ import annotations

import functools
import itertools
import math
import re
from dataclasses import dataclass
from typing import Any

import grpc

from tessera import retry, security

ATTEND = "/tessera.v1.AttentionService/Attend"
ATTEND_STREAM = "/tessera.v1.AttentionService/AttendStream"
SEQUENCE_SERVICE = "/tessera.v1.SequenceService/"
GET_SERVER_INFO = "/tessera.v1.ServerService/GetServerInfo"
PLAN_TILES = "/tessera.v1.ServerService/PlanTiles"

# Messages up to this size are sent without asking what the server takes: it is gRPC's own default limit.
SURELY_TAKEN_BYTES = 4 << 20

_MAX_STRIPES = 64

# Seconds. gRPC takes times beyond what its clock can say for such as have passed.
_LONGEST_TIMEOUT = 1e9


@dataclass(frozen=True)
class Transport:
    """ValueError from the constructor for settings out of range. Sizes are in bytes of q + k + v, times in seconds."""

    target: str
    every_address: bool = False
    connections: int = 4
    tenant: str | None = None
    timeout: float | None = 60.0
    chunk_bytes: int = 1 << 20
    stream_threshold: int = 2 << 20
    stripe_threshold: int | None = 16 << 20
    credentials: grpc.ChannelCredentials | None = None
    tls: bool | security.Tls = False
    token: str | None = None
    token_file: security.FilePath | None = None

    def __post_init__(self) -> None:
        _check_target(self.target)
        if not 1 <= self.connections <= _MAX_STRIPES:
            raise ValueError(f"connections is {self.connections}; must be from 1 to {_MAX_STRIPES}")
        if self.chunk_bytes < 1:
            raise ValueError(f"chunk_bytes is {self.chunk_bytes}; must be positive")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise ValueError(f"timeout is {self.timeout}; must be positive and finite, or None")
        if self.tenant is not None and not (self.tenant.isascii() and self.tenant.isprintable()):
            raise ValueError(f"tenant is {self.tenant!r}; must be printable ASCII")
        if self.credentials is not None and self.tls:
            raise ValueError("credentials and tls exclude each other")
        if self.token is not None and self.token_file is not None:
            raise ValueError("token and token_file exclude each other")
        if self.token is not None:
            security.check_token(self.token, "token")
        if self.call_credentials is not None and self.credentials is None and not self.tls:
            raise ValueError("a token needs TLS: in plain text it is anybody's")

    @functools.cached_property
    def call_credentials(self) -> grpc.CallCredentials | None:
        """The token of every call."""
        if self.token_file is not None:
            return grpc.metadata_call_credentials(security.Bearer(security.TokenFile(self.token_file).token))
        if self.token is not None:
            token = security.check_token(self.token, "token")
            return grpc.metadata_call_credentials(security.Bearer(lambda: token))
        return None

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """By what the files hold now; None: plain text. ValueError for files that are no good."""
        channel = self.credentials
        if self.tls:
            channel = (security.Tls() if self.tls is True else self.tls).credentials()
        if channel is None or self.call_credentials is None:
            return channel
        return grpc.composite_channel_credentials(channel, self.call_credentials)

    def stamp(self) -> Any:
        """Another one once what channel_credentials reads has changed."""
        return self.tls.stamp() if isinstance(self.tls, security.Tls) else None

    def limit(self, timeout: float | None) -> float | None:
        """Seconds that a call may take which asks for `timeout`. None asks for the client's, and answers no bound."""
        if timeout is None:
            timeout = self.timeout
        elif not math.isfinite(timeout):
            raise ValueError(f"timeout is {timeout}; must be finite")
        return None if timeout is None else min(timeout, _LONGEST_TIMEOUT)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return () if self.tenant is None else (("tessera-tenant", self.tenant),)

    def streamed(self, payload_bytes: int) -> bool:
        """Whether a call goes through AttendStream in chunks rather than in one message, whatever the server takes."""
        return payload_bytes > self.stream_threshold

    def stripes(self, payload_bytes: int) -> int:
        """Connections that a streamed call is spread over. Its stripes must meet in one server."""
        striped = (
            not self.every_address and self.stripe_threshold is not None and payload_bytes >= self.stripe_threshold
        )
        return self.connections if striped else 1

    def channel_arguments(self) -> list[tuple[str, Any]]:
        """Of one connection; channels made with them share none."""
        named = isinstance(self.tls, security.Tls) and self.tls.server_name is not None
        return [
            *([("grpc.ssl_target_name_override", self.tls.server_name)] if named else []),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            # The peer is told that nothing but identity is understood, so that it never compresses either.
            ("grpc.default_compression_algorithm", 0),
            ("grpc.compression_enabled_algorithms_bitset", 1),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.enable_retries", 1),
            ("grpc.service_config", retry.service_config(every_address=self.every_address)),
            # A call larger than this buffer would not be retried. An int of C.
            ("grpc.per_rpc_retry_buffer_size", min(2 * max(0, self.stream_threshold) + (1 << 20), (1 << 31) - 1)),
        ]


def _check_target(target: object) -> None:
    """ValueError for what a resolver would take for something else, or for a name that nobody has."""
    if not isinstance(target, str):
        raise ValueError(f"target is {target!r}; must be a string that names one server")
    if not target:
        raise ValueError("target is empty; must name one server")
    if target.startswith("unix"):
        return
    if any(character.isspace() for character in target):
        raise ValueError(f"target is {target!r}, with a space in it")
    if "," in target and not target.startswith(("ipv4:", "ipv6:")):
        raise ValueError(f"target is {target}, a list; must name one server or be ipv4:IP:PORT,... with every_address")
    # Resolvers read a port above 65535 as another one, and so -1.
    ports = re.findall(r":([-+]?)0*([0-9]+)(?:,|$)", target)
    if any(sign or len(digits) > 5 or int(digits) > 65535 for sign, digits in ports):
        raise ValueError(f"target is {target}; its port must be from 0 to 65535")


class Rotation:
    """Hands out indices 0 to count - 1 in turn. Threads may share it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._next = itertools.count()

    def take(self) -> int:
        return next(self._next) % self._count
