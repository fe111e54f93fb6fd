"""Actions at their times."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator

import pytest

from tessera.deadlines import Deadlines


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tessera-deadlines"]


def await_no_thread() -> None:
    for thread in threads():
        thread.join(10)
    assert threads() == []


@pytest.fixture
def deadlines() -> Iterator[Deadlines]:
    await_no_thread()  # of the tests before
    made = Deadlines()
    yield made
    made.close()


def test_runs_at_its_time_not_before(deadlines: Deadlines) -> None:
    ran = threading.Event()
    at = time.monotonic() + 0.05
    deadlines.add(at, ran.set)
    assert ran.wait(10)
    assert time.monotonic() >= at


def test_an_earlier_one_need_not_wait_for_a_later(deadlines: Deadlines) -> None:
    late, early = threading.Event(), threading.Event()
    deadlines.add(time.monotonic() + 3600, late.set)
    deadlines.add(time.monotonic() + 0.01, early.set)
    assert early.wait(10)
    assert not late.is_set()


def test_in_order_of_time(deadlines: Deadlines) -> None:
    ran: list[int] = []
    done = threading.Event()
    now = time.monotonic()
    deadlines.add(now + 0.2, done.set)
    for place in (2, 0, 1):
        deadlines.add(now + 0.1 + 0.01 * place, functools.partial(ran.append, place))
    assert done.wait(10)
    assert ran == [0, 1, 2]


def test_discarded_does_not_run(deadlines: Deadlines) -> None:
    discarded, kept = threading.Event(), threading.Event()
    at = time.monotonic() + 0.1
    key = deadlines.add(at, discarded.set)
    deadlines.add(at + 0.01, kept.set)
    deadlines.discard(key)
    assert kept.wait(10)
    assert not discarded.is_set()


def test_works_again_after_its_thread_has_ended(deadlines: Deadlines) -> None:
    for _ in range(2):
        ran = threading.Event()
        deadlines.add(time.monotonic(), ran.set)
        assert ran.wait(10)
        await_no_thread()


def test_close_discards_and_ends_the_thread(deadlines: Deadlines) -> None:
    ran = threading.Event()
    deadlines.add(time.monotonic() + 3600, ran.set)
    assert len(threads()) == 1
    deadlines.close()
    await_no_thread()
    assert not ran.is_set()
