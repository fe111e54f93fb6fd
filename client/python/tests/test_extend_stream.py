"""ExtendStream against a server that answers late, wrongly, or not at all."""

from __future__ import annotations

import concurrent.futures
import queue
import time
from collections.abc import Iterator

import numpy as np
import pytest

import tessera
from fake_sequences import FakeSequences
from live_server import LiveServer
from tessera.extend_stream import ExtendStream

PROFILE = tessera.Profile("any", 1, 1, 8, "float32", "float32", 64, 60.0)
ROW = np.zeros((1, 1, 8), np.float32)
MAX_CALLS = 3
SOON = 30.0  # seconds, for what happens at once on a machine that is not busy


@pytest.fixture
def server() -> Iterator[FakeSequences]:
    with FakeSequences(MAX_CALLS) as fake:
        yield fake


@pytest.fixture
def client(server: FakeSequences) -> Iterator[tessera.Client]:
    with tessera.Client(server.target) as made:
        yield made


@pytest.fixture
def stream(client: tessera.Client) -> Iterator[ExtendStream]:
    with client.extend_stream() as made:
        yield made


@pytest.fixture
def step(client: tessera.Client) -> tessera.Step:
    return tessera.Step(tessera.ResidentSequence(client, b"handle", PROFILE), 0, ROW, ROW, ROW)


def assert_nothing_comes(server: FakeSequences) -> None:
    with pytest.raises(queue.Empty):
        server.requests.get(timeout=0.1)


def test_calls_beyond_the_servers_limit_wait_in_order(
    server: FakeSequences, stream: ExtendStream, step: tessera.Step
) -> None:
    pending = [stream.submit([step], timeout=1000 + i) for i in range(10)]
    open_calls = [server.requests.get(timeout=SOON) for _ in range(MAX_CALLS)]
    assert_nothing_comes(server)
    for i, each in enumerate(pending):
        request = open_calls.pop(0)
        assert request.id == i + 1
        assert request.q == request.k == request.v == ROW.tobytes()
        # What is left of the call's time when it is sent.
        assert (1000 + i - SOON) * 1e6 < request.timeout_us <= (1000 + i) * 1e6
        server.answer(request, i)
        assert each.result(SOON).lengths == [i]
        if i + MAX_CALLS < len(pending):
            open_calls.append(server.requests.get(timeout=SOON))
        assert len(open_calls) <= MAX_CALLS


def test_a_call_that_waits_can_be_withdrawn(server: FakeSequences, stream: ExtendStream, step: tessera.Step) -> None:
    pending = [stream.submit([step]) for _ in range(MAX_CALLS + 2)]
    requests = [server.requests.get(timeout=SOON) for _ in range(MAX_CALLS)]
    assert pending[MAX_CALLS].cancel()
    # One that has been sent still counts until the server has answered it.
    assert pending[0].cancel()
    withdrawal = server.requests.get(timeout=SOON)
    assert (withdrawal.id, withdrawal.cancel) == (requests[0].id, True)
    assert_nothing_comes(server)
    server.answer(requests[0], 1)
    assert server.requests.get(timeout=SOON).id == MAX_CALLS + 2


def test_a_server_that_does_not_answer(server: FakeSequences, stream: ExtendStream, step: tessera.Step) -> None:
    """Sent or waiting, a call ends a second after its time; later ones get their turn."""
    started = time.monotonic()
    unbounded = [stream.submit([step], timeout=1000) for _ in range(MAX_CALLS - 1)]
    late = [stream.submit([step], timeout=0.1) for _ in range(3)]
    requests = [server.requests.get(timeout=SOON) for _ in range(MAX_CALLS)]
    for each in late:
        assert isinstance(each.exception(SOON), tessera.DeadlineExceededError)
    assert time.monotonic() - started >= 1.1
    withdrawal = server.requests.get(timeout=SOON)
    assert (withdrawal.id, withdrawal.cancel) == (requests[-1].id, True)
    assert not any(each.done() for each in unbounded)
    after = stream.submit([step])
    server.answer(requests[0], 1)
    assert unbounded[0].result(SOON).lengths == [1]
    server.answer(server.requests.get(timeout=SOON), 2)
    assert after.result(SOON).lengths == [2]


def test_a_call_whose_time_is_over_is_not_sent(server: FakeSequences, stream: ExtendStream, step: tessera.Step) -> None:
    sent = [stream.submit([step]) for _ in range(MAX_CALLS)]
    late, last = stream.submit([step], timeout=0.01), stream.submit([step])
    requests = [server.requests.get(timeout=SOON) for _ in range(MAX_CALLS)]
    time.sleep(0.02)
    server.answer(requests[0], 1)
    assert isinstance(late.exception(SOON), tessera.DeadlineExceededError)
    assert sent[0].result(SOON).lengths == [1]
    assert server.requests.get(timeout=SOON).id == MAX_CALLS + 2
    assert not last.done()


@pytest.mark.parametrize(
    "message",
    [
        b"\x08",  # ends in mid-field
        b"\x12\x01\xff",  # has a result that does
        b"\x08\x01\x12\x03\x0a\x01\x05\x12\x00\x7a\x03abc",  # an LSE that nobody asked for
    ],
)
def test_an_answer_that_cannot_be_read(
    server: FakeSequences, stream: ExtendStream, step: tessera.Step, message: bytes
) -> None:
    pending = stream.submit([step])
    server.requests.get(timeout=SOON)
    server.say(message)
    assert isinstance(pending.exception(SOON), tessera.InternalError)


def test_a_fault_of_the_reader_ends_every_call(
    server: FakeSequences, stream: ExtendStream, step: tessera.Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("on the script")

    monkeypatch.setattr("tessera.extend_stream._outcome", fail)
    pending = [stream.submit([step]) for _ in range(MAX_CALLS + 1)]
    server.answer(server.requests.get(timeout=SOON), 1)
    for each in pending:
        with pytest.raises(tessera.InternalError, match="on the script"):
            each.result(SOON)
    with pytest.raises(tessera.InternalError):
        stream.submit([step]).result(SOON)


def test_close_ends_what_waits(server: FakeSequences, client: tessera.Client, step: tessera.Step) -> None:
    stream = client.extend_stream()
    pending = [stream.submit([step]) for _ in range(MAX_CALLS + 1)]
    stream.close()
    done, _ = concurrent.futures.wait(pending, SOON)
    assert len(done) == len(pending)
    assert all(isinstance(each.exception(), tessera.CancelledError) for each in pending)


def test_no_step_is_lost_to_the_real_servers_limit(server_binary: str) -> None:
    profile = "name=any,layers=1,kv_heads=1,head_dim=8,dtype=float32,pages=8"
    with (
        LiveServer(server_binary, f"--kv_profiles={profile}", "--max_stream_calls=2") as live,
        tessera.Client(live.target) as client,
        client.extend_stream() as stream,
        client.create_sequences("any")[0] as sequence,
    ):
        pending = [stream.submit([tessera.Step(sequence, 0, ROW, ROW, ROW)]) for _ in range(100)]
        assert [each.result(SOON).lengths for each in pending] == [[i + 1] for i in range(100)]
