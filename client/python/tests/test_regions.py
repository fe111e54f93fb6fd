"""Calls in shared memory against the real server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tessera
from live_server import LiveServer
from tessera.shared_memory import open_shared_memory

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def sharing(server_binary: str) -> Iterator[LiveServer]:
    with LiveServer(server_binary, "--allow-shared-memory", "--max-region-bytes=8MiB", "--max-regions=4") as started:
        yield started


def test_a_call_in_a_region_gives_what_messages_give(sharing: LiveServer, rng: np.random.Generator) -> None:
    with tessera.RegionSession(sharing.target) as session, session.open_shared_memory(MEBIBYTE) as region:
        q, k, v = (region.array(shape, np.float16) for shape in ((50, 4, 32), (60, 2, 32), (60, 2, 32)))
        out, lse = region.array((50, 4, 32), np.float16), region.array((50, 4))
        for array in (q, k, v):
            array[:] = rng.standard_normal(array.shape)
        timing = session.attend(q, k, v, out, lse=lse, kv_lengths=[60], causal=True)
        with tessera.Client(sharing.target) as client:
            expected = client.attend(q, k, v, kv_lengths=[60], causal=True, return_lse=True)
            assert client.server_info().regions.regions == 1
        np.testing.assert_array_equal(out, expected.o)
        assert expected.lse is not None
        np.testing.assert_array_equal(lse, expected.lse)
        assert timing.batch_requests == 1


def test_batches_and_several_threads(sharing: LiveServer, rng: np.random.Generator) -> None:
    with tessera.RegionSession(sharing.target) as session:
        region = session.open_shared_memory(MEBIBYTE)
        calls = []
        for rows in range(1, 9):
            arrays = [region.array((3, rows, 2, 16)) for _ in range(4)]
            for array in arrays[:3]:
                array[:] = rng.standard_normal(array.shape)
            calls.append(arrays)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda arrays: session.attend(*arrays), calls))
        with tessera.Client(sharing.target) as client:
            for q, k, v, out in calls:
                np.testing.assert_array_equal(out, client.attend(q, k, v).o)


def test_arrays_that_do_not_fit_are_refused_here(sharing: LiveServer) -> None:
    with tessera.RegionSession(sharing.target) as session, session.open_shared_memory(MEBIBYTE) as region:
        q, out = region.array((4, 2, 16)), region.array((4, 2, 16))
        with pytest.raises(ValueError, match="k is in no region"):
            session.attend(q, np.zeros((4, 2, 16), np.float32), q, out)
        with pytest.raises(ValueError, match="out is"):
            session.attend(q, q, q, region.array((3, 2, 16)))
        with pytest.raises(ValueError, match="lse is"):
            session.attend(q, q, q, out, lse=region.array((4, 3)))
        with pytest.raises(ValueError, match="contiguous"):
            session.attend(q[::2], q, q, out)
        with pytest.raises(ValueError, match="list"):
            session.attend([1.0], q, q, out)
        with pytest.raises(MemoryError):
            region.array((MEBIBYTE,))
        with pytest.raises(MemoryError):
            region.array((1 << 32, 1 << 32))
        with pytest.raises(ValueError, match="negative"):
            region.array((-4, 16))
        with pytest.raises(tessera.InvalidArgumentError, match="overlaps"):
            session.attend(q, q, q, q)
        session.attend(q, q, q, out)


def test_a_closed_region_is_given_back_and_its_arrays_are_zeros(sharing: LiveServer) -> None:
    with tessera.RegionSession(sharing.target) as session, tessera.Client(sharing.target) as client:
        region = session.open_shared_memory(8 * MEBIBYTE)
        array = region.array((4, 2, 16))
        array[:] = 3
        with pytest.raises(tessera.ResourceExhaustedError):
            session.open_shared_memory(1)
        region.close()
        region.close()
        assert client.server_info().regions.bytes == 0
        with pytest.raises(ValueError, match="no region"):
            session.attend(array, array, array, array)
        assert (array == 0).all()
        session.open_shared_memory(8 * MEBIBYTE)


def test_the_end_of_a_session_gives_its_regions_back(sharing: LiveServer) -> None:
    session = tessera.RegionSession(sharing.target)
    session.open_shared_memory(8 * MEBIBYTE)
    session.close()
    with tessera.RegionSession(sharing.target) as other:
        other.open_shared_memory(8 * MEBIBYTE)
    with pytest.raises(tessera.CancelledError):
        session.open_shared_memory(1)


def test_a_server_that_does_not_allow_it_says_so(live: LiveServer) -> None:
    with tessera.RegionSession(live.target) as session, pytest.raises(tessera.FailedPreconditionError, match="allow"):
        session.open_shared_memory(1)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with tessera.RegionSession("127.0.0.1:1") as session, pytest.raises(tessera.UnavailableError):
        session.open_shared_memory(1)


def test_a_server_that_does_not_answer_is_not_waited_for(server_binary: str) -> None:
    with (
        LiveServer(server_binary, "--allow-shared-memory", "--max-region-bytes=1MiB") as server,
        tessera.RegionSession(server.target, timeout=0.1) as session,
    ):
        region = session.open_shared_memory(MEBIBYTE // 4)
        q, out = region.array((4, 2, 16)), region.array((4, 2, 16))
        server.freeze()
        try:
            with pytest.raises(tessera.DeadlineExceededError, match="has not answered"):
                session.attend(q, q, q, out)
            with pytest.raises(tessera.DeadlineExceededError, match="has not answered"):
                session.open_shared_memory(MEBIBYTE // 2)
        finally:
            server.thaw()
        # What it opens too late is closed again: otherwise there would never be room.
        deadline = time.monotonic() + 20
        while True:
            try:
                session.open_shared_memory(MEBIBYTE // 2)
                break
            except (tessera.ResourceExhaustedError, tessera.DeadlineExceededError):
                assert time.monotonic() < deadline
        session.attend(q, q, q, out, timeout=20)


def test_a_path_that_leads_elsewhere_is_not_opened() -> None:
    for path in ("/nowhere", "/proc/self/exe"):
        with pytest.raises(tessera.FailedPreconditionError, match="does not lead"):
            open_shared_memory(path, "tessera-0", 1)
    file = os.memfd_create("tessera-unsealed")
    try:
        with pytest.raises(tessera.FailedPreconditionError, match="something else"):
            open_shared_memory(f"/proc/self/fd/{file}", "tessera-unsealed", 1)
    finally:
        os.close(file)
