"""Both clients against the real server."""

from __future__ import annotations

import asyncio
from concurrent import futures
from typing import Any

import numpy as np
import pytest

import attention_cases
import batch_size
import tessera
from live_server import LiveServer
from test_client import STREAMED, TRANSPORTS

EACH_CASE = pytest.mark.parametrize("case", attention_cases.CASES, ids=lambda case: case.name)


@TRANSPORTS
@EACH_CASE
def test_attends(
    live: LiveServer, transport: dict[str, Any], case: attention_cases.Case, rng: np.random.Generator
) -> None:
    q, k, v = attention_cases.make(case, rng)
    with tessera.Client(live.target, **transport) as client:
        attention_cases.check(client.attend(q, k, v, **case.options), q, k, v, case.options)


@TRANSPORTS
def test_attends_asyncio(live: LiveServer, transport: dict[str, Any], rng: np.random.Generator) -> None:
    async def scenario() -> None:
        async with tessera.AsyncClient(live.target, **transport) as client:
            made = [attention_cases.make(case, rng) for case in attention_cases.CASES]
            results = await asyncio.gather(
                *(client.attend(*qkv, **case.options) for case, qkv in zip(attention_cases.CASES, made))
            )
            for case, qkv, result in zip(attention_cases.CASES, made, results):
                attention_cases.check(result, *qkv, case.options)

    asyncio.run(scenario())


def test_large_call_is_striped(live: LiveServer, rng: np.random.Generator) -> None:
    q = rng.standard_normal((8192, 4, 128)).astype(np.float32)  # 16 MiB
    k, v = rng.standard_normal((2, 8, 4, 128)).astype(np.float32)
    with tessera.Client(live.target) as client:
        attention_cases.check(client.attend(q, k, v, return_lse=True), q, k, v, {"return_lse": True})


def occupy(client: tessera.Client) -> list[tessera.PendingAttention]:
    """Keeps every slot of the device busy for a while, so that what is sent next waits."""
    q = np.ones((2048, 8, 128), np.float32)
    return [client.submit(q, q, q) for _ in range(8)]


def test_waiting_calls_are_batched(server_binary: str, rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal((1 + n % 40, 4, 32)).astype(np.float32) for n in range(200)]
    calls = [tessera.AttendCall(q, q, q, causal=True) for q in arrays]
    # A device this slow lets calls gather however slowly they are sent.
    with LiveServer(server_binary, "--fault_script=run@*=delay:100ms") as slow, tessera.Client(slow.target) as client:
        for q, pending in zip(arrays, client.submit_all(calls)):
            attention_cases.check(pending.result(timeout=60), q, q, q, {"causal": True})
        batches = batch_size.read(slow.metrics_url)
    assert batches.requests == len(calls)
    assert batches.mean > 4


def test_cancelled_calls_leave_the_others_alone(live: LiveServer, rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal((64, 8, 64)).astype(np.float32) for _ in range(60)]
    with tessera.Client(live.target) as client:
        busy = occupy(client)
        pending = client.submit_all(tessera.AttendCall(q, q, q) for q in arrays)
        assert sum(future.cancel() for future in pending[::2]) > 0
        for q, future in zip(arrays[1::2], pending[1::2]):
            attention_cases.check(future.result(timeout=60), q, q, q, {})
        for future in pending[::2]:
            if future.cancelled():
                with pytest.raises(futures.CancelledError):
                    future.result(timeout=60)
        futures.wait(busy)


@STREAMED
def test_refusal_names_field_and_limit(live: LiveServer, transport: dict[str, Any]) -> None:
    with tessera.Client(live.target, **transport) as client:
        heads = client.server_info().limits.max_heads + 1
        q = np.zeros((1, heads, 8), np.float32)
        with pytest.raises(tessera.InvalidArgumentError, match=f"(?s)heads.*{heads - 1}"):
            client.attend(q, q, q)


@TRANSPORTS
def test_deadline(live: LiveServer, transport: dict[str, Any]) -> None:
    q = np.zeros((4096, 8, 128), np.float32)  # seconds of work
    with tessera.Client(live.target, **transport) as client, pytest.raises(tessera.DeadlineExceededError):
        client.attend(q, q, q, timeout=0.02)


def test_server_info(live: LiveServer) -> None:
    with tessera.Client(live.target) as client:
        info = client.server_info()
    assert info.backend == "cpu"
    assert len(info.devices) == 1
    assert info.limits.max_request_bytes > 0


def test_plan_of_the_article(live: LiveServer) -> None:
    with tessera.Client(live.target) as client:
        plan = client.plan_tiles(head_dim=128, tile=128, sequence_length=4096)
    assert plan.total_bytes == 2 * (4 * 128 * 128 + 128 * 128) + 8 * 128
    assert plan.fits
    assert plan.flops == 4 * 4096**2 * 128


def test_timing(live: LiveServer) -> None:
    q = np.ones((128, 8, 64), np.float32)
    with tessera.Client(live.target) as client:
        timing = client.attend(q, q, q).timing
    assert timing.batch_requests == 1
    assert 0 < timing.run < 60
    assert 0 <= timing.queue < 60
    assert 0 < timing.receive < 60
