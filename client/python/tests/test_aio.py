"""The asyncio client against the fake server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import grpc
import numpy as np
import pytest

import attention_cases
import tessera
from fake_server import Failure, FakeServer
from test_client import CODES, RETRIED, STREAMED, STRIPED, TIMES_TO_REACH_A_SERVER, TRANSPORTS, Q, of_size
from test_transfer import OpenStream


async def attend(server: FakeServer, transport: dict[str, Any], *arrays: Any, **options: Any) -> tessera.Attention:
    async with tessera.AsyncClient(server.target, **transport) as client:
        return await client.attend(*arrays, **options)


async def released(semaphore: threading.Semaphore) -> None:
    """Waits for the fake server, whose threads are not asyncio's."""
    assert await asyncio.get_running_loop().run_in_executor(None, lambda: semaphore.acquire(timeout=10))


@TRANSPORTS
@pytest.mark.parametrize("case", attention_cases.CASES, ids=lambda case: case.name)
def test_attends(
    server: FakeServer, transport: dict[str, Any], case: attention_cases.Case, rng: np.random.Generator
) -> None:
    q, k, v = attention_cases.make(case, rng)
    result = asyncio.run(attend(server, transport, q, k, v, **case.options))
    attention_cases.check(result, q, k, v, case.options)


@TRANSPORTS
@pytest.mark.parametrize(("code", "kind"), CODES, ids=lambda value: getattr(value, "name", ""))
def test_status_becomes_its_error(
    server: FakeServer, transport: dict[str, Any], code: grpc.StatusCode, kind: type[tessera.Error]
) -> None:
    server.failures = [Failure(code, "head_dim is 12")]
    with pytest.raises(kind, match="head_dim is 12"):
        asyncio.run(attend(server, transport, Q, Q, Q))


@TRANSPORTS
@RETRIED
def test_full_or_stopping_server_is_tried_again(
    server: FakeServer, transport: dict[str, Any], failure: Failure
) -> None:
    server.failures = [failure]
    attention_cases.check(asyncio.run(attend(server, transport, Q, Q, Q)), Q, Q, Q, {})
    assert len(server.calls) > 1


@TRANSPORTS
@pytest.mark.parametrize("ends_stream", [False, True])
def test_cancelled_by_the_server_is_unavailable(
    server: FakeServer, transport: dict[str, Any], ends_stream: bool
) -> None:
    server.failures = [Failure(grpc.StatusCode.CANCELLED, "shutting down", ends_stream=ends_stream)] * 100
    # grpc.aio may lose what ends a stream that is written to.
    words = "shutting down|while the call was being sent" if ends_stream else "shutting down"
    with pytest.raises(tessera.UnavailableError, match=words):
        asyncio.run(attend(server, transport, Q, Q, Q))
    assert len(server.calls) >= 5


@TRANSPORTS
def test_timeout(server: FakeServer, transport: dict[str, Any]) -> None:
    server.hold = threading.Event()
    for timeout in TIMES_TO_REACH_A_SERVER:
        with pytest.raises(tessera.DeadlineExceededError):
            asyncio.run(attend(server, transport, Q, Q, Q, timeout=timeout))
        if server.entered.acquire(blocking=False):
            break
    assert server.withdrawn.acquire(timeout=10)


@TRANSPORTS
def test_cancelled_task_withdraws_the_call(server: FakeServer, transport: dict[str, Any]) -> None:
    server.hold = threading.Event()

    async def scenario() -> None:
        async with tessera.AsyncClient(server.target, **transport) as client:
            task = asyncio.ensure_future(client.attend(Q, Q, Q))
            await released(server.entered)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await released(server.withdrawn)

    asyncio.run(scenario())


@TRANSPORTS
def test_close_ends_what_is_in_flight(server: FakeServer, transport: dict[str, Any]) -> None:
    server.hold = threading.Event()

    async def scenario() -> None:
        client = tessera.AsyncClient(server.target, **transport)
        task = asyncio.ensure_future(client.attend(Q, Q, Q))
        await released(server.entered)
        await client.close()
        with pytest.raises(tessera.CancelledError, match="closed"):
            await task

    asyncio.run(scenario())


@STREAMED
def test_close_ends_the_wait_for_another_attempt(server: FakeServer, transport: dict[str, Any]) -> None:
    server.failures = [Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, pushback_ms=30_000)] * 3

    async def scenario() -> None:
        client = tessera.AsyncClient(server.target, **transport)
        task = asyncio.ensure_future(client.attend(Q, Q, Q))
        while not server.calls:
            assert not task.done()
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(tessera.CancelledError, match="closed"):
            await asyncio.wait_for(task, 10)

    asyncio.run(scenario())


@TRANSPORTS
@pytest.mark.parametrize("used", [False, True], ids=["never used", "used"])
def test_closed_client_refuses(server: FakeServer, transport: dict[str, Any], used: bool) -> None:
    async def scenario() -> None:
        client = tessera.AsyncClient(server.target, **transport)
        if used:
            await client.attend(Q, Q, Q)
        await client.close()
        before = list(server.calls)
        with pytest.raises(tessera.CancelledError, match="closed"):
            await client.attend(Q, Q, Q)
        with pytest.raises(tessera.CancelledError, match="closed"):
            await client.server_info()
        await client.close()
        assert server.calls == before

    asyncio.run(scenario())


class FirstStreamOnly:
    """A channel of which only the first opens a stream."""

    opened: ClassVar[list[OpenStream]] = []

    def __init__(self, *_: Any) -> None:
        pass

    def stream_stream(self, _: str) -> Callable[..., OpenStream]:
        return self._open

    def _open(self, *_: Any, **__: Any) -> OpenStream:
        if self.opened:
            raise ValueError("metadata was invalid")
        self.opened.append(OpenStream())
        return self.opened[0]

    async def close(self) -> None:
        pass


def test_streams_already_open_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc.aio, "insecure_channel", FirstStreamOnly)
    monkeypatch.setattr(FirstStreamOnly, "opened", [])

    async def scenario() -> None:
        async with tessera.AsyncClient("localhost:1", **STRIPED) as client:
            with pytest.raises(ValueError, match="metadata was invalid"):
                await client.attend(Q, Q, Q)

    asyncio.run(scenario())
    assert [stream.cancelled for stream in FirstStreamOnly.opened] == [True]


@TRANSPORTS
def test_short_answer_is_an_internal_error(server: FakeServer, transport: dict[str, Any]) -> None:
    server.truncate_answers = True
    with pytest.raises(tessera.InternalError, match="the answer has"):
        asyncio.run(attend(server, transport, Q, Q, Q))


def test_calls_above_what_the_server_takes_are_streamed(server: FakeServer) -> None:
    server.max_message_bytes = 6 << 20

    async def scenario() -> None:
        async with tessera.AsyncClient(server.target, stream_threshold=1 << 40, stripe_threshold=None) as client:
            for size in (3, 5, 6, 7):
                q, kv = of_size(size)
                await client.attend(q, kv, kv)

    asyncio.run(scenario())
    assert server.calls == ["Attend", "Attend", "AttendStream", "AttendStream"]
    assert server.info_requests == 1


def test_many_in_flight(server: FakeServer) -> None:
    server.hold = hold = threading.Event()

    async def scenario() -> list[tessera.Attention]:
        async with tessera.AsyncClient(server.target) as client:
            tasks = [asyncio.ensure_future(client.attend(i * Q, Q, i * Q)) for i in range(20)]
            for _ in tasks:
                await released(server.entered)
            hold.set()
            return await asyncio.gather(*tasks)

    for i, result in enumerate(asyncio.run(scenario())):
        np.testing.assert_allclose(result.o, i)
    assert len(server.peers) == 4


def test_server_info_and_plan(server: FakeServer) -> None:
    async def scenario() -> tuple[str, int]:
        async with tessera.AsyncClient(server.target) as client:
            info, plan = await asyncio.gather(client.server_info(), client.plan_tiles(head_dim=64))
            return info.version, plan.tile

    assert asyncio.run(scenario()) == ("1.2.3", 64)
