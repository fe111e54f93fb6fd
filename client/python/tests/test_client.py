"""The blocking client against the fake server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest

import attention_cases
import tessera
from fake_server import Failure, FakeServer

Q = np.ones((4, 2, 8), np.float32)

# How a call of any size is made to travel: by one message, in chunks, in chunks over all connections.
UNARY: dict[str, Any] = {}
CHUNKED: dict[str, Any] = {"stream_threshold": -1, "stripe_threshold": None, "chunk_bytes": 100}
STRIPED: dict[str, Any] = {"stream_threshold": -1, "stripe_threshold": 0, "chunk_bytes": 100, "connections": 3}
TRANSPORTS = pytest.mark.parametrize("transport", [UNARY, CHUNKED, STRIPED], ids=["unary", "chunked", "striped"])
# On a machine that is busy, a call's time may run out before it is there.
TIMES_TO_REACH_A_SERVER = (0.2, 2, 20)
STREAMED = pytest.mark.parametrize("transport", [CHUNKED, STRIPED], ids=["chunked", "striped"])


@pytest.fixture
def client(server: FakeServer, transport: dict[str, Any]) -> Iterator[tessera.Client]:
    with tessera.Client(server.target, **transport) as made:
        yield made


@TRANSPORTS
@pytest.mark.parametrize("case", attention_cases.CASES, ids=lambda case: case.name)
def test_attends(client: tessera.Client, case: attention_cases.Case, rng: np.random.Generator) -> None:
    q, k, v = attention_cases.make(case, rng)
    attention_cases.check(client.attend(q, k, v, **case.options), q, k, v, case.options)


@TRANSPORTS
def test_answer_may_be_written_to(client: tessera.Client) -> None:
    result = client.attend(Q, Q, Q, return_lse=True)
    assert result.lse is not None
    assert result.o.flags.writeable
    assert result.lse.flags.writeable


@pytest.mark.parametrize("transport", [UNARY, STRIPED], ids=["unary", "striped"])
def test_every_address_has_its_turn(server: FakeServer, transport: dict[str, Any]) -> None:
    other = FakeServer()
    try:
        addresses = ",".join(one.target for one in (server, other))
        with tessera.Client(f"ipv4:{addresses}", every_address=True, **{**transport, "connections": 1}) as client:
            # Until both are connected, the one that is has all of them.
            while not (server.calls and other.calls):
                client.attend(Q, Q, Q)
            before = len(server.calls), len(other.calls)
            for _ in range(20):
                client.attend(Q, Q, Q)
            assert (len(server.calls) - before[0], len(other.calls) - before[1]) == (10, 10)
            server.stop()
            for _ in range(5):
                client.attend(Q, Q, Q)
    finally:
        other.stop()
    assert not any(opening.HasField("stripe") for opening in server.openings + other.openings)


def test_large_calls_are_striped_by_default(server: FakeServer) -> None:
    q = np.ones((1100, 2, 256), np.float32)  # 2.1 MiB
    k = np.zeros((4, 2, 256), np.float32)
    with tessera.Client(server.target) as client:
        client.attend(k, k, k)
        client.attend(q, k, k)
    assert server.calls == ["Attend", "AttendStream"]
    with tessera.Client(server.target, stripe_threshold=1 << 20) as client:
        client.attend(q, k, k)
    stripes = [opening.stripe for opening in server.openings[1:]]
    assert sorted(stripe.index for stripe in stripes) == [0, 1, 2, 3]
    assert {stripe.count for stripe in stripes} == {4}
    assert len({stripe.transfer for stripe in stripes}) == 1
    assert len(stripes[0].transfer) == 16
    assert len(server.peers) == 1 + 1 + 4  # connections: of each unstriped call's turn, and one a stripe


def of_size(mebibytes: float) -> tuple[np.ndarray, np.ndarray]:
    """q of so many MiB, and small k or v."""
    return np.ones((int(mebibytes * 512), 2, 256), np.float32), np.zeros((1, 2, 256), np.float32)


def test_calls_above_what_the_server_takes_are_streamed(server: FakeServer) -> None:
    server.max_message_bytes = 6 << 20
    with tessera.Client(server.target, stream_threshold=1 << 40, stripe_threshold=None) as client:
        for size in (3, 5, 6, 7):
            q, kv = of_size(size)
            client.attend(q, kv, kv)
    assert server.calls == ["Attend", "Attend", "AttendStream", "AttendStream"]  # 6 MiB of q and something more
    assert server.info_requests == 1


def test_server_is_not_asked_what_it_takes_for_usual_calls(server: FakeServer) -> None:
    with tessera.Client(server.target) as client:
        for size in (1, 1.9, 3):
            q, kv = of_size(size)
            client.attend(q, kv, kv)
    assert server.calls == ["Attend", "Attend", "AttendStream"]
    assert server.info_requests == 0


def test_timing(server: FakeServer) -> None:
    with tessera.Client(server.target) as client:
        timing = client.attend(Q, Q, Q).timing
    assert timing.run == pytest.approx(1.5e-3)
    assert timing.batch_requests == 3


def test_tenant_is_sent(server: FakeServer) -> None:
    with tessera.Client(server.target, tenant="search") as client:
        client.attend(Q, Q, Q)
    assert server.metadata[0]["tessera-tenant"] == "search"


def test_server_info_and_plan(server: FakeServer) -> None:
    with tessera.Client(server.target) as client:
        assert client.server_info().version == "1.2.3"
        plan = client.plan_tiles(head_dim=64, stages=2)
        assert (plan.tile, plan.fits) == (64, True)
        with pytest.raises(ValueError, match="dtype is 'int8'"):
            client.plan_tiles(dtype="int8")


@pytest.mark.parametrize("connections", [1, 4])
def test_many_in_flight(server: FakeServer, connections: int, rng: np.random.Generator) -> None:
    server.hold = threading.Event()
    calls = [rng.standard_normal((3, 1, 8)).astype(np.float32) for _ in range(20)]
    with tessera.Client(server.target, connections=connections) as client:
        pending = [client.submit(q, q, q) for q in calls]
        for _ in calls:
            assert server.entered.acquire(timeout=10)
        assert not any(future.done() for future in pending)
        server.hold.set()
        for q, future in zip(calls, pending):
            attention_cases.check(future.result(timeout=10), q, q, q, {})
    assert len(server.peers) == connections


def test_submit_all_takes_calls_of_any_size(server: FakeServer, rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal((tokens, 1, 8)).astype(np.float32) for tokens in (3, 40, 5)]
    with tessera.Client(server.target, stream_threshold=2000) as client:
        pending = client.submit_all([tessera.AttendCall(q, q, q, causal=True) for q in arrays])
        for q, future in zip(arrays, pending):
            attention_cases.check(future.result(timeout=10), q, q, q, {"causal": True})
    assert sorted(server.calls) == ["Attend", "Attend", "AttendStream"]


# Of what a call is tried again after.
RETRIED = pytest.mark.parametrize(
    "failure",
    [
        Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, pushback_ms=1),
        Failure(grpc.StatusCode.UNAVAILABLE, pushback_ms=1),
        Failure(grpc.StatusCode.UNAVAILABLE, ends_stream=True),
        Failure(grpc.StatusCode.CANCELLED),
        Failure(grpc.StatusCode.CANCELLED, ends_stream=True),
    ],
    ids=lambda failure: f"{failure.code.name} of the {'stream' if failure.ends_stream else 'call'}",
)

CODES = [
    (grpc.StatusCode.INVALID_ARGUMENT, tessera.InvalidArgumentError),
    (grpc.StatusCode.NOT_FOUND, tessera.NotFoundError),
    (grpc.StatusCode.INTERNAL, tessera.InternalError),
    (grpc.StatusCode.UNIMPLEMENTED, tessera.UnimplementedError),
    (grpc.StatusCode.PERMISSION_DENIED, tessera.PermissionDeniedError),
    (grpc.StatusCode.UNAUTHENTICATED, tessera.UnauthenticatedError),
    (grpc.StatusCode.DEADLINE_EXCEEDED, tessera.DeadlineExceededError),
    (grpc.StatusCode.DATA_LOSS, tessera.Error),
]


@TRANSPORTS
@pytest.mark.parametrize(("code", "kind"), CODES, ids=lambda value: getattr(value, "name", ""))
def test_status_becomes_its_error(
    server: FakeServer, client: tessera.Client, code: grpc.StatusCode, kind: type[tessera.Error]
) -> None:
    server.failures = [Failure(code, "head_dim is 12")]
    with pytest.raises(kind, match="head_dim is 12") as raised:
        client.attend(Q, Q, Q)
    assert type(raised.value) is kind
    assert raised.value.code == code
    assert raised.value.message == "head_dim is 12"


@TRANSPORTS
@RETRIED
def test_full_or_stopping_server_is_tried_again(server: FakeServer, client: tessera.Client, failure: Failure) -> None:
    server.failures = [failure]
    attention_cases.check(client.attend(Q, Q, Q), Q, Q, Q, {})
    assert len(server.calls) > 1


@TRANSPORTS
@pytest.mark.parametrize("ends_stream", [False, True])
def test_cancelled_by_the_server_is_unavailable(server: FakeServer, client: tessera.Client, ends_stream: bool) -> None:
    server.failures = [Failure(grpc.StatusCode.CANCELLED, "shutting down", ends_stream=ends_stream)] * 100
    with pytest.raises(tessera.UnavailableError, match="shutting down"):
        client.attend(Q, Q, Q)
    assert len(server.calls) >= 5


@TRANSPORTS
def test_gives_up_after_five_attempts(server: FakeServer, client: tessera.Client) -> None:
    server.failures = [Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "queue is full", pushback_ms=1)] * 100
    with pytest.raises(tessera.ResourceExhaustedError, match="queue is full") as raised:
        client.attend(Q, Q, Q)
    assert raised.value.retry_after == pytest.approx(1e-3)
    stripes = max(1, len({opening.stripe.index for opening in server.openings}))
    assert 5 <= len(server.calls) <= 5 * stripes


@STREAMED
def test_pushback_past_the_deadline_is_not_waited_for(server: FakeServer, client: tessera.Client) -> None:
    server.failures = [Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, pushback_ms=60_000)] * 3
    started = time.monotonic()
    with pytest.raises(tessera.ResourceExhaustedError):
        client.attend(Q, Q, Q, timeout=30)
    assert time.monotonic() - started < 20


@TRANSPORTS
def test_timeout(server: FakeServer, client: tessera.Client) -> None:
    server.hold = threading.Event()
    for timeout in TIMES_TO_REACH_A_SERVER:
        with pytest.raises(TimeoutError) as raised:
            client.attend(Q, Q, Q, timeout=timeout)
        assert isinstance(raised.value, tessera.DeadlineExceededError)
        if server.entered.acquire(blocking=False):
            break
    assert server.withdrawn.acquire(timeout=10)


@TRANSPORTS
def test_cancel_reaches_the_server(server: FakeServer, client: tessera.Client) -> None:
    server.hold = threading.Event()
    pending = client.submit(Q, Q, Q)
    assert server.entered.acquire(timeout=10)
    assert pending.cancel()
    assert server.withdrawn.acquire(timeout=10)
    assert pending.cancelled()
    with pytest.raises(futures.CancelledError):
        pending.result(timeout=10)


def test_cancel_after_the_answer_changes_nothing(server: FakeServer) -> None:
    with tessera.Client(server.target) as client:
        pending = client.submit(Q, Q, Q)
        pending.result(timeout=10)
        assert not pending.cancel()
        assert pending.result().o.shape == Q.shape


@TRANSPORTS
def test_close_ends_what_is_in_flight(server: FakeServer, client: tessera.Client) -> None:
    server.hold = threading.Event()
    pending = client.submit(Q, Q, Q)
    assert server.entered.acquire(timeout=10)
    client.close()
    with pytest.raises(tessera.CancelledError):
        pending.result(timeout=10)


@TRANSPORTS
def test_closed_client_refuses(server: FakeServer, client: tessera.Client) -> None:
    client.attend(Q, Q, Q)
    client.close()
    before = list(server.calls)
    with pytest.raises(tessera.CancelledError, match="closed"):
        client.submit(Q, Q, Q)
    with pytest.raises(tessera.CancelledError, match="closed"):
        client.server_info()
    client.close()
    assert server.calls == before


@TRANSPORTS
def test_close_while_others_submit(server: FakeServer, client: tessera.Client) -> None:
    server.hold = threading.Event()  # no answer comes
    pending: list[tessera.PendingAttention] = []
    raised: list[BaseException] = []

    def submit_until_refused() -> None:
        try:
            while True:
                pending.append(client.submit(Q, Q, Q))
        except BaseException as error:
            raised.append(error)

    submitters = [threading.Thread(target=submit_until_refused) for _ in range(2)]
    for submitter in submitters:
        submitter.start()
    assert server.entered.acquire(timeout=10)
    client.close()
    for submitter in submitters:
        submitter.join(10)
    assert [type(error) for error in raised] == [tessera.CancelledError] * 2
    assert pending
    for future in pending:
        assert isinstance(future.exception(timeout=10), tessera.CancelledError)


@STREAMED
def test_close_ends_the_wait_for_another_attempt(server: FakeServer, client: tessera.Client) -> None:
    server.failures = [Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, pushback_ms=30_000)] * 3
    pending = client.submit(Q, Q, Q)
    while not server.calls:
        assert not pending.done()
    client.close()
    assert isinstance(pending.exception(timeout=10), tessera.CancelledError)


@pytest.fixture
def busy(server: FakeServer) -> Iterator[tessera.Client]:
    """Has as many streamed calls under way as it moves at a time, none of which is answered."""
    server.hold = threading.Event()
    with tessera.Client(server.target, **{**CHUNKED, "connections": 1}) as made:
        for _ in range(2):
            made.submit(Q, Q, Q)
        for _ in range(2):
            assert server.entered.acquire(timeout=10)
        yield made


def test_timeout_of_a_call_that_waits_for_others(server: FakeServer, busy: tessera.Client) -> None:
    pending = busy.submit(Q, Q, Q, timeout=0.1)
    assert isinstance(pending.exception(timeout=10), tessera.DeadlineExceededError)
    assert len(server.calls) == 2


def test_cancel_of_a_call_that_waits_for_others(server: FakeServer, busy: tessera.Client) -> None:
    pending = busy.submit(Q, Q, Q)
    assert pending.cancel()
    assert pending.cancel()
    done, _ = futures.wait([pending], timeout=10)
    assert done == {pending}
    assert len(server.calls) == 2


def test_close_ends_calls_that_wait_for_others(server: FakeServer, busy: tessera.Client) -> None:
    waiting = [busy.submit(Q, Q, Q) for _ in range(3)]
    busy.close()
    assert [type(pending.exception(timeout=10)) for pending in waiting] == [tessera.CancelledError] * 3
    assert len(server.calls) == 2


@TRANSPORTS
def test_short_answer_is_an_internal_error(server: FakeServer, client: tessera.Client) -> None:
    server.truncate_answers = True
    with pytest.raises(tessera.InternalError, match="the answer has"):
        client.attend(Q, Q, Q)


def test_nobody_listens() -> None:
    with tessera.Client("127.0.0.1:1") as client, pytest.raises(tessera.UnavailableError):
        client.attend(Q, Q, Q, timeout=5)


@pytest.mark.parametrize(
    "settings",
    [
        {"connections": 0},
        {"connections": 65},
        {"chunk_bytes": 0},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"tenant": "a\nb"},
        {"tenant": "größer"},
    ],
)
def test_settings_out_of_range(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        tessera.Client("localhost:1", **settings)


@pytest.mark.parametrize(
    "target",
    [
        "localhost:65536",
        "127.0.0.1:70000",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "ipv4:1.2.3.4:65536,1.2.3.5:1",
        "ipv4:1.2.3.4:-1,1.2.3.5:1",
        "a:" + "9" * 9999,
    ],
)
def test_ports_that_would_be_read_as_others(target: str) -> None:
    for client in (tessera.Client, tessera.AsyncClient, tessera.RegionSession):
        with pytest.raises(ValueError, match="from 0 to 65535"):
            client(target)


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("localhost:1,localhost:2", "a list"),
        ("localhost:1, localhost:2", "space"),
        ("localhost :1", "space"),
        (["localhost:1", "localhost:2"], "one server"),
        ("", "empty"),
        (None, "one server"),
    ],
)
def test_targets_that_name_no_server(target: Any, complaint: str) -> None:
    for client in (tessera.Client, tessera.AsyncClient, tessera.RegionSession):
        with pytest.raises(ValueError, match=complaint):
            client(target)


@pytest.mark.parametrize(
    "target",
    [
        "localhost:065535",
        "localhost",
        "unix:/tmp/a:70000",
        "unix:/tmp/a, b",
        "[::1]:7171",
        "ipv4:1.2.3.4:1,1.2.3.5:1",
        "a-1:1",
    ],
)
def test_targets_that_may_be(target: str) -> None:
    tessera.Client(target).close()


@TRANSPORTS
def test_timeout_without_meaning(server: FakeServer, client: tessera.Client) -> None:
    for timeout in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout is"):
            client.submit(Q, Q, Q, timeout=timeout)
    with pytest.raises(tessera.DeadlineExceededError):
        client.attend(Q, Q, Q, timeout=-1)
    assert server.calls == []


@TRANSPORTS
@pytest.mark.parametrize("timeout", [1e9, 1e10, 1e300])
def test_timeout_beyond_all_times(client: tessera.Client, timeout: float) -> None:
    attention_cases.check(client.attend(Q, Q, Q, timeout=timeout), Q, Q, Q, {})
