"""A server of the protocol whose ExtendStream answers when and what a test says."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from concurrent import futures
from types import TracebackType
from typing import Any

import grpc

from tessera.v1 import sequence_pb2, server_pb2


class FakeSequences:
    """Serves one stream on a free port of the loopback, for as long as the `with` lasts."""

    def __init__(self, max_stream_calls: int) -> None:
        self.requests: queue.SimpleQueue[sequence_pb2.ExtendStreamRequest] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        info = server_pb2.GetServerInfoResponse(limits=server_pb2.Limits(max_stream_calls=max_stream_calls))
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        server: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "GetServerInfo": grpc.unary_unary_rpc_method_handler(
                lambda request, context: info,
                server_pb2.GetServerInfoRequest.FromString,
                server_pb2.GetServerInfoResponse.SerializeToString,
            )
        }
        sequence: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "ExtendStream": grpc.stream_stream_rpc_method_handler(
                self._extend_stream, sequence_pb2.ExtendStreamRequest.FromString
            )
        }
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("tessera.v1.ServerService", server),
                grpc.method_handlers_generic_handler("tessera.v1.SequenceService", sequence),
            )
        )
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def answer(self, request: sequence_pb2.ExtendStreamRequest, length: int) -> None:
        """An o of zeros, and the length of each layer."""
        header = request.header
        self.say(
            sequence_pb2.ExtendStreamResponse(
                id=request.id,
                result=sequence_pb2.ExtendResult(lengths=[length] * len(header.entries)),
                o=bytes(len(request.q)),
            ).SerializeToString()
        )

    def say(self, message: bytes) -> None:
        self._answers.put(message)

    def __enter__(self) -> FakeSequences:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._answers.put(None)
        self._server.stop(None).wait()

    def _extend_stream(
        self, requests: Iterator[sequence_pb2.ExtendStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        context.add_callback(lambda: self._answers.put(None))
        threading.Thread(target=self._take, args=(requests,), daemon=True).start()
        while (message := self._answers.get()) is not None:
            yield message

    def _take(self, requests: Iterator[sequence_pb2.ExtendStreamRequest]) -> None:
        with contextlib.suppress(grpc.RpcError):  # of a stream that was cancelled
            for request in requests:
                self.requests.put(request)
