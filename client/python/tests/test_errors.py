"""What a failed RPC becomes."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from tessera import errors


class FailedCall(grpc.RpcError):
    """As gRPC raises it: an error that is also the call."""

    def __init__(self, pushback: str) -> None:
        self._pushback = pushback

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.RESOURCE_EXHAUSTED

    def details(self) -> str:
        return "queue is full"

    def trailing_metadata(self) -> Any:
        return (("other", "5"), ("grpc-retry-pushback-ms", self._pushback))


@pytest.mark.parametrize(("pushback", "retry_after"), [("0", 0.0), ("250", 0.25), ("4294967295", 4294967.295)])
def test_pushback_in_seconds(pushback: str, retry_after: float) -> None:
    assert errors.from_rpc(FailedCall(pushback)).retry_after == pytest.approx(retry_after)


@pytest.mark.parametrize("pushback", ["-1", "", "soon", "1.5", "1_000", "²", "9" * 400, "9" * 5000])
def test_pushback_that_names_no_time_is_ignored(pushback: str) -> None:
    error = errors.from_rpc(FailedCall(pushback))
    assert isinstance(error, errors.ResourceExhaustedError)
    assert error.message == "queue is full"
    assert error.retry_after is None
