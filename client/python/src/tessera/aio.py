"""The asyncio client."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import Any

import grpc
import numpy.typing as npt

from tessera import dtypes, errors, retry
from tessera.call import AttendCall, Attention
from tessera.chunks import Incoming, Outgoing
from tessera.connections import Connections
from tessera.options import Priority, Window
from tessera.security import FilePath, Tls
from tessera.transport import (
    ATTEND,
    ATTEND_STREAM,
    GET_SERVER_INFO,
    PLAN_TILES,
    SURELY_TAKEN_BYTES,
    Rotation,
    Transport,
)
from tessera.v1 import server_pb2

# What grpc.aio says of a stream that ends while it is written to, in place of the server's status, which it has lost
# (https://github.com/grpc/grpc/issues/36066).
_WRITE_FAILED = "Internal error from Core"


class AsyncClient:
    """As Client, for one event loop: the one running when its first method is awaited.

    The parameters are Client's. Cancelling a task that awaits a call withdraws the call from the server.
    """

    def __init__(
        self,
        target: str,
        *,
        every_address: bool = Transport.every_address,
        connections: int = Transport.connections,
        tenant: str | None = Transport.tenant,
        timeout: float | None = Transport.timeout,
        chunk_bytes: int = Transport.chunk_bytes,
        stream_threshold: int = Transport.stream_threshold,
        stripe_threshold: int | None = Transport.stripe_threshold,
        credentials: grpc.ChannelCredentials | None = None,
        tls: bool | Tls = False,
        token: str | None = None,
        token_file: FilePath | None = None,
    ) -> None:
        self._transport = Transport(
            target=target,
            every_address=every_address,
            connections=connections,
            tenant=tenant,
            timeout=timeout,
            chunk_bytes=chunk_bytes,
            stream_threshold=stream_threshold,
            stripe_threshold=stripe_threshold,
            credentials=credentials,
            tls=tls,
            token=token,
            token_file=token_file,
        )
        self._transport.channel_credentials()  # ValueError now rather than at the first call
        self._connections: Connections[grpc.aio.Channel] | None = None  # before the first call and after close
        self._closed = False
        self._closing: asyncio.Event | None = None  # made with the connections
        self._rotation = Rotation(connections)
        self._largest_message: int | None = None  # None: the server has not been asked

    async def attend(
        self,
        q: npt.ArrayLike,
        k: npt.ArrayLike,
        v: npt.ArrayLike,
        *,
        q_lengths: Sequence[int] | None = None,
        kv_lengths: Sequence[int] | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
        softcap: float = 0.0,
        return_lse: bool = False,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
    ) -> Attention:
        """As Client.attend. The arrays must not change before it returns."""
        call = AttendCall(
            q,
            k,
            v,
            q_lengths=q_lengths,
            kv_lengths=kv_lengths,
            causal=causal,
            window=window,
            scale=scale,
            softcap=softcap,
            return_lse=return_lse,
            priority=priority,
        )
        limit = self._transport.limit(timeout)
        if await self._fits_a_message(call, limit):
            return call.parse(await self._ask(ATTEND, call.serialize(), limit))
        return await self._attend_streamed(call, limit)

    async def server_info(self, *, timeout: float | None = None) -> server_pb2.GetServerInfoResponse:
        """As Client.server_info."""
        request = server_pb2.GetServerInfoRequest()
        return server_pb2.GetServerInfoResponse.FromString(
            await self._ask(GET_SERVER_INFO, request.SerializeToString(), self._transport.limit(timeout))
        )

    async def plan_tiles(
        self,
        *,
        sram_bytes: int = 0,
        head_dim: int = 0,
        dtype: str = "float16",
        stages: int = 0,
        sequence_length: int = 0,
        tile: int = 0,
        timeout: float | None = None,
    ) -> server_pb2.PlanTilesResponse:
        """As Client.plan_tiles."""
        request = server_pb2.PlanTilesRequest(
            sram_bytes=sram_bytes,
            head_dim=head_dim,
            dtype=dtypes.parse(dtype),
            stages=stages,
            sequence_length=sequence_length,
            tile=tile,
        )
        return server_pb2.PlanTilesResponse.FromString(
            await self._ask(PLAN_TILES, request.SerializeToString(), self._transport.limit(timeout))
        )

    async def close(self) -> None:
        """Cancels what is in flight, which then fails with CancelledError as does any further call, and closes the
        connections.
        """
        self._closed = True
        if self._closing is not None:
            self._closing.set()
        connections, self._connections = self._connections, None
        if connections is not None:
            await asyncio.gather(*(channel.close() for channel in connections.all()))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @contextlib.asynccontextmanager
    async def _channels(self) -> AsyncIterator[list[grpc.aio.Channel]]:
        """The connections for one call. Made at the first call, for a channel belongs to the loop that runs when it is
        made.
        """
        if self._closed:
            raise errors.CancelledError("the client is closed")
        if self._connections is None:
            self._closing = asyncio.Event()
            self._connections = Connections(self._connect, self._transport.stamp)
        connections = self._connections
        generation = connections.take()
        try:
            await asyncio.gather(*(channel.close() for channel in connections.idle()))
            yield generation.channels
        finally:
            connections.give_back(generation)

    def _connect(self) -> list[grpc.aio.Channel]:
        """As Client's."""
        target, credentials = self._transport.target, self._transport.channel_credentials()
        arguments = self._transport.channel_arguments()
        return [
            grpc.aio.insecure_channel(target, arguments)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, arguments)
            for _ in range(self._transport.connections)
        ]

    async def _ask(self, method: str, request: bytes, timeout: float | None) -> bytes:
        """One unary call, serialized in and out."""
        async with self._channels() as channels:
            stub: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channels[self._rotation.take()].unary_unary(method)
            with self._raising_errors():
                return await stub(request, timeout=timeout, metadata=self._transport.metadata())

    async def _fits_a_message(self, call: AttendCall, timeout: float | None) -> bool:
        """As Client's."""
        if self._transport.streamed(call.payload_bytes):
            return False
        return call.message_bytes <= SURELY_TAKEN_BYTES or call.message_bytes <= await self._message_limit(timeout)

    async def _message_limit(self, timeout: float | None) -> int:
        """As Client's."""
        if self._largest_message is None:
            try:
                self._largest_message = (await self.server_info(timeout=timeout)).limits.max_message_bytes
            except errors.Error:
                return 0
        return self._largest_message

    async def _attend_streamed(self, call: AttendCall, timeout: float | None) -> Attention:
        deadline = None if timeout is None else time.monotonic() + timeout
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self._channels() as channels:
                    return await self._attempt(call, channels, retry.remaining(deadline))
            except errors.Error as error:
                wait = retry.delay(error, attempt, deadline)
                if wait is None:
                    raise
            await self._pause(wait)

    async def _attempt(self, call: AttendCall, channels: list[grpc.aio.Channel], timeout: float | None) -> Attention:
        stripes = self._transport.stripes(call.payload_bytes)
        if stripes == 1:
            channels = [channels[self._rotation.take()]]
        outgoing = Outgoing(call, streams=stripes, chunk_bytes=self._transport.chunk_bytes, timeout=timeout)
        incoming = Incoming(call, streams=stripes)
        streams: list[Any] = []
        readers: list[asyncio.Future[None]] = []
        try:
            for index, channel in enumerate(channels):
                method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(ATTEND_STREAM)
                streams.append(method(outgoing.messages(index), timeout=timeout, metadata=self._transport.metadata()))
            readers += [asyncio.ensure_future(_read(stream, index, incoming)) for index, stream in enumerate(streams)]
            with self._raising_errors():
                await asyncio.gather(*readers)
        finally:
            # After a failure or a cancellation; otherwise all have ended.
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        return incoming.attention()

    async def _pause(self, seconds: float) -> None:
        """CancelledError where the client is closed meanwhile."""
        if self._closing is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)
        if self._closed:
            raise errors.CancelledError("the client was closed")

    @contextlib.contextmanager
    def _raising_errors(self) -> Iterator[None]:
        """Turns what gRPC raises into tessera's errors."""
        try:
            yield
        except (grpc.RpcError, errors.CancelledError) as error:
            failure = error if isinstance(error, errors.Error) else errors.from_rpc(error)
            if failure.message == _WRITE_FAILED:
                failure = errors.UnavailableError("the stream ended while the call was being sent")
            raise (failure if self._closed else errors.by_server(failure)) from None
        except asyncio.CancelledError:
            # Closing a channel ends its calls as the cancellation of the task that awaits them would.
            if self._closed and not _task_is_cancelled():
                raise errors.CancelledError("the client was closed") from None
            raise


def _task_is_cancelled() -> bool:
    """Whether someone cancels the current task. Unknown, and False, before Python 3.11."""
    task = asyncio.current_task()
    return sys.version_info >= (3, 11) and task is not None and task.cancelling() > 0


async def _read(stream: Any, index: int, incoming: Incoming) -> None:
    async for message in stream:
        incoming.absorb(index, message)
