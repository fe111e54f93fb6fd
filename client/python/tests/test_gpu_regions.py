"""Calls in GPU memory, with a driver and a server that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest

import tessera
from tessera import cuda
from tessera.region_stream import ATTEND_IN_REGIONS
from tessera.v1 import region_pb2

BASE, SIZE = 0x7F0000000000, 1 << 20


class FakeDriver:
    """One allocation of SIZE bytes at BASE."""

    def __init__(self) -> None:
        self.awaited: list[int] = []

    def allocation(self, address: int) -> cuda.Allocation:
        assert BASE <= address < BASE + SIZE
        return cuda.Allocation(address=BASE, size=SIZE, handle=bytes(range(64)), device_uuid=bytes(16))

    def await_stream(self, address: int, stream: int) -> None:
        self.awaited.append(stream)


class GpuArray:
    """What CuPy, Numba and others say of an array."""

    def __init__(self, offset: int, shape: tuple[int, ...], **changes: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<f2",
            "data": (BASE + offset, False),
            "version": 3,
            "strides": None,
            "stream": 1,
            **changes,
        }


class FakeRegionService:
    """Opens everything, and answers every call with OK."""

    def __init__(self) -> None:
        self.requests: list[region_pb2.AttendInRegionsRequest] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        service, method = ATTEND_IN_REGIONS.strip("/").split("/")
        handler: Any = grpc.stream_stream_rpc_method_handler(
            self._attend_in_regions, region_pb2.AttendInRegionsRequest.FromString, None
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def _attend_in_regions(self, requests: Iterator[region_pb2.AttendInRegionsRequest], _: Any) -> Iterator[bytes]:
        for request in requests:
            self.requests.append(request)
            answer = region_pb2.AttendInRegionsResponse(id=request.id)
            answer.status.code = 0
            if request.WhichOneof("request") == "open":
                answer.opened.region = len(self.requests)
            elif request.WhichOneof("request") == "attend":
                answer.result.timing.batch_requests = 7
            yield answer.SerializeToString()


@pytest.fixture
def service() -> Iterator[FakeRegionService]:
    started = FakeRegionService()
    yield started
    started.stop()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    return fake


def test_arrays_of_one_allocation_are_shared_once_and_named_by_their_places(
    service: FakeRegionService, driver: FakeDriver
) -> None:
    q, k, v, out = (GpuArray(offset, (4, 2, 16)) for offset in (0, 4096, 8192, 12288))
    lse = GpuArray(65536, (4, 2), typestr="<f4")
    with tessera.RegionSession(service.target) as session:
        region = session.share(q)
        assert session.share(out) is region
        timing = session.attend(q, k, v, out, lse=lse, timeout=5)
        region.close()
    opening, attend, closing = service.requests
    memory = opening.open.cuda_memory
    assert (memory.handle, memory.device_uuid, memory.used_bytes) == (bytes(range(64)), bytes(16), SIZE)
    call = attend.attend
    places = [(t.region, t.offset, t.bytes) for t in (call.q, call.k, call.v, call.o, call.lse)]
    assert places == [(1, 0, 256), (1, 4096, 256), (1, 8192, 256), (1, 12288, 256), (1, 65536, 32)]
    assert call.timeout_us == 5_000_000
    assert list(call.header.q_lengths) == [4]
    assert call.header.options.return_lse
    assert closing.close.region == 1
    assert timing.batch_requests == 7
    assert driver.awaited == [1], "what the stream was given is awaited once"


def test_arrays_without_a_stream_are_not_awaited(service: FakeRegionService, driver: FakeDriver) -> None:
    arrays = [GpuArray(offset, (4, 2, 16), stream=None) for offset in (0, 4096, 8192, 12288)]
    with tessera.RegionSession(service.target) as session:
        session.share(arrays[0])
        session.attend(*arrays)
    assert driver.awaited == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"typestr": "<f8"}, "type"),
        ({"strides": (128, 64, 4)}, "contiguous"),
    ],
)
def test_arrays_that_cannot_be_sent_are_refused(
    service: FakeRegionService, driver: FakeDriver, changes: dict[str, Any], problem: str
) -> None:
    with tessera.RegionSession(service.target) as session, pytest.raises(ValueError, match=problem):
        session.share(GpuArray(0, (4, 2, 16), **changes))


def test_packed_strides_are_contiguous(service: FakeRegionService, driver: FakeDriver) -> None:
    with tessera.RegionSession(service.target) as session:
        session.share(GpuArray(0, (4, 2, 16), strides=(64, 32, 2)))


def test_numpy_arrays_are_not_on_a_gpu(service: FakeRegionService, driver: FakeDriver) -> None:
    with tessera.RegionSession(service.target) as session:
        with pytest.raises(ValueError, match="not on a GPU"):
            session.share(np.zeros(4, np.float32))
        region = session.share(GpuArray(0, (4, 2, 16)))
        with pytest.raises(TypeError):
            region.array((4,))


def test_a_machine_without_a_gpu_says_so(service: FakeRegionService) -> None:
    try:
        cuda.driver()
    except OSError:
        pass
    else:
        pytest.skip("this machine has a GPU")
    with tessera.RegionSession(service.target) as session, pytest.raises(OSError, match=r"cuda|GPU"):
        session.share(GpuArray(0, (4, 2, 16)))
