"""A server of the protocol by grpcio and numpy, with failures on a script, for tests of the client alone.

It reads and writes messages with the protobuf runtime, so that the client's own framing meets an independent one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc

import reference
from tessera.v1 import attention_pb2, server_pb2


@dataclass
class Failure:
    """How a call is to fail, in place of an answer."""

    code: grpc.StatusCode
    message: str = "on the script"
    pushback_ms: int | None = None
    ends_stream: bool = False  # a streamed call's RPC ends with the code, rather than its answer


@dataclass
class Shared:
    """A striped call, gathered from its streams."""

    header: attention_pb2.AttendHeader
    chunks: dict[int, bytes] = field(default_factory=dict)
    answer: tuple[bytes, bytes] | None = None


class FakeServer:
    """Serves on a free port of the loopback until `stop`."""

    def __init__(self, chunk_bytes: int = 1 << 16) -> None:
        self.failures: list[Failure] = []  # taken one by one, by calls of either method
        self.calls: list[str] = []  # "Attend" or "AttendStream", one an attempt
        self.metadata: list[dict[str, str]] = []
        self.openings: list[attention_pb2.AttendStreamRequest] = []
        self.peers: set[str] = set()
        self.truncate_answers = False
        self.max_message_bytes = 0  # as GetServerInfo says; nothing is refused for it
        self.info_requests = 0
        self.hold: threading.Event | None = None  # where set, calls wait for it
        self.entered = threading.Semaphore(0)  # released when a call begins to wait
        self.withdrawn = threading.Semaphore(0)  # released when the client has withdrawn a call
        self._chunk_bytes = chunk_bytes
        self._changed = threading.Condition()
        self._transfers: dict[bytes, Shared] = {}  # guarded by _changed
        # Unlimited messages; a thread for each stream.
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=32), options=[("grpc.max_receive_message_length", -1)]
        )
        attention: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Attend": grpc.unary_unary_rpc_method_handler(
                self._attend, attention_pb2.AttendRequest.FromString, attention_pb2.AttendResponse.SerializeToString
            ),
            "AttendStream": grpc.stream_stream_rpc_method_handler(
                self._attend_stream,
                attention_pb2.AttendStreamRequest.FromString,
                attention_pb2.AttendStreamResponse.SerializeToString,
            ),
        }
        server: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "GetServerInfo": grpc.unary_unary_rpc_method_handler(
                self._server_info,
                server_pb2.GetServerInfoRequest.FromString,
                server_pb2.GetServerInfoResponse.SerializeToString,
            ),
            "PlanTiles": grpc.unary_unary_rpc_method_handler(
                lambda request, context: server_pb2.PlanTilesResponse(tile=request.head_dim, fits=request.stages == 2),
                server_pb2.PlanTilesRequest.FromString,
                server_pb2.PlanTilesResponse.SerializeToString,
            ),
        }
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("tessera.v1.AttentionService", attention),
                grpc.method_handlers_generic_handler("tessera.v1.ServerService", server),
            )
        )
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def _server_info(
        self, request: server_pb2.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> server_pb2.GetServerInfoResponse:
        with self._changed:
            self.info_requests += 1
        info = server_pb2.GetServerInfoResponse(version="1.2.3", backend="cpu")
        info.limits.max_message_bytes = self.max_message_bytes
        return info

    def _enter(self, method: str, context: grpc.ServicerContext) -> Failure | None:
        with self._changed:
            self.calls.append(method)
            self.metadata.append({key: str(value) for key, value in context.invocation_metadata()})
            self.peers.add(context.peer())
            failure = self.failures.pop(0) if self.failures else None
        if self.hold is not None:
            if not context.add_callback(self.withdrawn.release):
                self.withdrawn.release()  # it already has
            self.entered.release()
            self.hold.wait()
        return failure

    def _attend(
        self, request: attention_pb2.AttendRequest, context: grpc.ServicerContext
    ) -> attention_pb2.AttendResponse:
        failure = self._enter("Attend", context)
        if failure is not None:
            if failure.pushback_ms is not None:
                context.set_trailing_metadata((("grpc-retry-pushback-ms", str(failure.pushback_ms)),))
            context.abort(failure.code, failure.message)
        o, lse = reference.answer_bytes(request.header, request.q + request.k + request.v)
        if self.truncate_answers:
            o = o[:-1]
        result = attention_pb2.AttendResult(o_bytes=len(o), lse_bytes=len(lse))
        result.timing.run_ns = 1_500_000
        result.timing.batch_requests = 3
        return attention_pb2.AttendResponse(result=result, o=o, lse=lse)

    def _attend_stream(
        self, requests: Iterator[attention_pb2.AttendStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[attention_pb2.AttendStreamResponse]:
        opening = next(requests)
        self.openings.append(opening)
        failure = self._enter("AttendStream", context)
        if failure is not None and failure.ends_stream:
            context.abort(failure.code, failure.message)
        if failure is not None:
            status = attention_pb2.CallStatus(
                code=failure.code.value[0], message=failure.message, retry_after_ms=failure.pushback_ms or 0
            )
            yield attention_pb2.AttendStreamResponse(id=opening.id, status=status)
            return
        chunks = {opening.payload_offset: opening.payload}
        for request in requests:
            assert request.id == opening.id
            assert not request.HasField("header")
            chunks[request.payload_offset] = request.payload
        if opening.HasField("stripe"):
            o, lse = self._gather(opening, chunks, context)
            index, count = opening.stripe.index, opening.stripe.count
        else:
            o, lse = reference.answer_bytes(opening.header, _laid_out(chunks))
            index, count = 0, 1
        yield from self._answer(opening.id, o, lse, index, count)

    def _gather(
        self, opening: attention_pb2.AttendStreamRequest, chunks: dict[int, bytes], context: grpc.ServicerContext
    ) -> tuple[bytes, bytes]:
        """Adds one stream's chunks to its transfer, and waits for those of the others."""
        context.add_callback(self._wake)
        with self._changed:
            key = opening.stripe.transfer
            shared = self._transfers.setdefault(key, Shared(opening.header))
            assert shared.header == opening.header
            shared.chunks.update(chunks)
            size = sum(map(len, shared.chunks.values()))
            if size == _payload_bytes(opening.header):
                shared.answer = reference.answer_bytes(opening.header, _laid_out(shared.chunks))
                self._changed.notify_all()
            self._changed.wait_for(lambda: shared.answer is not None or not context.is_active())
            return shared.answer or (b"", b"")

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _answer(self, call_id: int, o: bytes, lse: bytes, index: int, count: int) -> Iterator[Any]:
        result = attention_pb2.AttendResult(o_bytes=len(o), lse_bytes=len(lse))
        result.timing.batch_requests = 2
        yield attention_pb2.AttendStreamResponse(id=call_id, result=result)
        whole = o + lse
        share = -(-len(whole) // count)
        end = min(len(whole), (index + 1) * share) - (1 if self.truncate_answers else 0)
        for at in range(index * share, end, self._chunk_bytes):
            payload = whole[at : min(at + self._chunk_bytes, end)]
            yield attention_pb2.AttendStreamResponse(id=call_id, payload_offset=at, payload=payload)
        yield attention_pb2.AttendStreamResponse(id=call_id, status=attention_pb2.CallStatus())


def _laid_out(chunks: dict[int, bytes]) -> bytes:
    """The payload, whose chunks must leave no gap and not overlap."""
    whole = b""
    for offset in sorted(chunks):
        assert offset == len(whole) or not chunks[offset]
        whole += chunks[offset]
    return whole


def _payload_bytes(header: attention_pb2.AttendHeader) -> int:
    rows = sum(header.q_lengths) * header.q_heads + 2 * sum(header.kv_lengths or header.q_lengths) * header.kv_heads
    return rows * header.head_dim * reference.ELEMENTS[header.dtype].itemsize
