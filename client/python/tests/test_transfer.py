"""A streamed call whose streams cannot all be opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessera
from tessera.transfer import Transfer

Q = np.zeros((4, 2, 8), np.float32)


class OpenStream:
    """As gRPC's, of a server that does not answer."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def refuses(*_: Any, **__: Any) -> OpenStream:
    raise ValueError("Cannot invoke RPC on closed channel!")


def transfer(*methods: Callable[..., Any], deadline: float | None = None) -> Transfer:
    streams: Any = methods
    return Transfer(tessera.AttendCall(Q, Q, Q), streams, chunk_bytes=100, deadline=deadline, metadata=())


def test_streams_already_open_are_cancelled() -> None:
    opened = [OpenStream(), OpenStream()]
    with pytest.raises(ValueError, match="closed channel"):
        transfer(*(lambda *_, stream=stream, **__: stream for stream in opened), refuses).run()
    assert [stream.cancelled for stream in opened] == [True, True]


def test_cancelled_before_it_runs_is_not_sent() -> None:
    cancelled = transfer(refuses)
    cancelled.cancel()
    with pytest.raises(tessera.CancelledError):
        cancelled.run()


def test_past_its_deadline_is_not_sent() -> None:
    with pytest.raises(tessera.DeadlineExceededError):
        transfer(refuses, deadline=0.0).run()
