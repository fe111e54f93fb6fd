"""RegionStream against a server that answers what nobody can read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

import tessera
from tessera.region_stream import RegionStream
from tessera.v1 import region_pb2


def test_an_answer_that_cannot_be_read_ends_every_call() -> None:
    def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for _ in requests:
            yield b"\xff"

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("tessera.v1.RegionService", {"AttendInRegions": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stream = RegionStream(channel, ())
        for _ in range(2):  # the stream has ended by the second
            with pytest.raises(tessera.InternalError, match="DecodeError"):
                stream.ask(region_pb2.AttendInRegionsRequest(), 30.0)
        stream.close()
    server.stop(None).wait()
