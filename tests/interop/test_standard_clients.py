"""gRPC's own Python packages for health and reflection."""

from __future__ import annotations

import os
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from live_server import LiveServer

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def channel(target: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(target) as opened:
        yield opened


@pytest.mark.parametrize("service", ["", "tessera.v1.AttentionService", "tessera.v1.ServerService"])
def test_health_check(channel: grpc.Channel, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status == SERVING


def test_health_of_nothing(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=10)
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND


def test_health_watch_sees_the_drain() -> None:
    """NOT_SERVING is told while the server still takes calls."""
    with (
        LiveServer(os.environ["TESSERA_SERVER"], "--drain_grace=2s") as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=20)
        assert next(watch).status == SERVING
        server.terminate()
        assert next(watch).status == NOT_SERVING
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == NOT_SERVING
        watch.cancel()


def test_reflection(channel: grpc.Channel) -> None:
    """A call by nothing but what reflection has said."""
    database = ProtoReflectionDescriptorDatabase(channel)
    assert "tessera.v1.AttentionService" in database.get_services()
    pool = DescriptorPool(database)
    attend = pool.FindServiceByName("tessera.v1.AttentionService").FindMethodByName("Attend")
    assert attend.input_type.fields_by_name["v"].number == 15
    plan = pool.FindServiceByName("tessera.v1.ServerService").FindMethodByName("PlanTiles")
    request, response = GetMessageClass(plan.input_type), GetMessageClass(plan.output_type)
    call = channel.unary_unary("/tessera.v1.ServerService/PlanTiles", request.SerializeToString, response.FromString)
    assert call(request(head_dim=128), timeout=10).tile == 128
