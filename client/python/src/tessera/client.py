"""The blocking client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from types import TracebackType
from typing import Any

import grpc
import numpy.typing as npt

from tessera import dtypes, errors
from tessera.call import AttendCall, Attention
from tessera.connections import Connections, Generation
from tessera.deadlines import Deadlines
from tessera.extend_stream import ExtendStream
from tessera.homes import NO_SERVER_ID, Homes
from tessera.options import Priority, Window
from tessera.pending import PendingAttention
from tessera.retry import remaining
from tessera.security import FilePath, Tls
from tessera.sequences import ExtendCall, Extension, ResidentSequence, Step, to_profile
from tessera.transfer import Transfer
from tessera.transport import (
    ATTEND,
    ATTEND_STREAM,
    GET_SERVER_INFO,
    PLAN_TILES,
    SEQUENCE_SERVICE,
    SURELY_TAKEN_BYTES,
    Rotation,
    Transport,
)
from tessera.v1 import sequence_pb2, server_pb2


class Client:
    """A server's attention, over several connections. Threads may share a client; close it, or use it in `with`.

    every_address: each address that the target's name has is a server, and calls take turns on them: a headless
        Service, or "ipv4:10.0.0.7:7171,10.0.0.8:7171". False: the first one that answers.
    connections: HTTP/2 connections, to each server; calls take turns on them.
    tenant: whose fair share of the server the calls draw on; None is the server's default tenant.
    timeout: seconds a call may take unless it says otherwise; None is unbounded.
    chunk_bytes: payload of one message of a streamed call.
    stream_threshold: calls with more bytes of q + k + v than this are streamed in chunks, as are those that make a
        message larger than the server takes; it is asked at the first call above 4 MiB.
    stripe_threshold: calls with at least so many are streamed over all connections at once, which needs a target that
        is a single server; None: never. Not with every_address.
    tls: True, or a Tls that names files; False is plaintext. Files that change are read again.
    token, token_file: the bearer token that calls carry, or a file that holds it and is read again when it changes.
    credentials: gRPC's own, in place of tls.
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
        self._connections: Connections[grpc.Channel] = Connections(self._connect, self._transport.stamp)
        self._rotation = Rotation(connections)
        # One thread for each streamed call under way.
        self._executor = ThreadPoolExecutor(max_workers=2 * connections, thread_name_prefix="tessera-transfer")
        self._deadlines = Deadlines()  # of streamed calls; gRPC keeps those of the others
        self._lock = threading.Lock()
        self._closed = False  # guarded by _lock; nothing is started once it is set
        self._largest_message: int | None = None  # guarded by _lock; None: the server has not been asked
        self._transfers: set[Transfer] = set()  # guarded by _lock; those not done
        self._extend_streams: set[ExtendStream] = set()  # guarded by _lock; those not ended
        self._homes: Homes[Client] = Homes(self._connect_to)

    def attend(
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
        """softmax(scale * q k^T + mask) v. Blocks; raises tessera.Error where the call fails, ValueError where the
        arguments cannot be right.

        q: [tokens, q_heads, head_dim]; k, v: [kv_tokens, kv_heads, head_dim], all rows of sequence 0, then of sequence
            1, ...; or each with a leading batch dimension. float32, float16 or bfloat16 (of ml_dtypes).
        q_lengths, kv_lengths: tokens of each sequence. Without them the arrays are one sequence; without kv_lengths
            they are q_lengths.
        causal: rows see keys up to their own position; the last row stands at the last key.
        window: (left, right) keys seen on either side, -1 unbounded; one number for both. With `causal`, left only.
        scale: default 1 / sqrt(head_dim).
        softcap: c > 0 makes scores c * tanh(score / c).
        timeout: seconds, in place of the client's.
        """
        pending = self.submit(
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
            timeout=timeout,
        )
        try:
            return pending.result()
        except BaseException:
            pending.cancel()
            raise

    def submit(
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
    ) -> PendingAttention:
        """As attend, but returns at once. The arrays of a streamed call must not change until it is done.

        CancelledError where the client is closed.
        """
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
        return self.submit_all([call], timeout=timeout)[0]

    def submit_all(self, calls: Iterable[AttendCall], *, timeout: float | None = None) -> list[PendingAttention]:
        """Sends calls that were made beforehand, close together: what arrives while the server is busy with the first
        of them can share a batch. An AttendCall takes the arguments of attend, without the timeout.
        """
        limit = self._transport.limit(timeout)
        # Everything that can be done before the first one leaves.
        ready = [(call, call.serialize() if self._fits_a_message(call, limit) else None) for call in calls]
        return [
            self._submit_streamed(call, limit) if message is None else self._submit_unary(call, message, limit)
            for call, message in ready
        ]

    def create_sequences(self, profile: str, count: int = 1, *, timeout: float | None = None) -> list[ResidentSequence]:
        """Empty sequences under a profile that the server declares, all on one server. With every_address the servers
        must know each other (--advertise, --peers); FailedPreconditionError where they do not say who they are.
        """
        request = sequence_pb2.CreateSequencesRequest(profile=profile, count=count)
        answer = sequence_pb2.CreateSequencesResponse.FromString(
            self._ask(SEQUENCE_SERVICE + "CreateSequences", request.SerializeToString(), timeout)
        )
        if self._transport.every_address and any(handle.startswith(NO_SERVER_ID) for handle in answer.sequences):
            raise errors.FailedPreconditionError("every_address: the servers must be advertised to keep sequences")
        shape = to_profile(answer.profile)
        return [ResidentSequence(self, handle, shape) for handle in answer.sequences]

    def attach_sequence(self, handle: bytes, *, timeout: float | None = None) -> ResidentSequence:
        """The sequence of a handle that any client, in any program, has of it (ResidentSequence.handle). It is on the
        target's server, or on one that this one knows of. NotFoundError where it is not there.
        """
        request = sequence_pb2.GetSequenceRequest(sequence=handle)
        answer = self._ask_home("GetSequence", [handle], request.SerializeToString(), timeout)
        return ResidentSequence(self, handle, to_profile(sequence_pb2.GetSequenceResponse.FromString(answer).profile))

    def extend(
        self,
        steps: Iterable[Step],
        *,
        causal: bool = True,
        window: Window | None = None,
        scale: float | None = None,
        softcap: float = 0.0,
        return_lse: bool = False,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
    ) -> Extension:
        """Steps on resident sequences, done as a whole or not at all. Blocks; raises as attend does.

        Options are those of attend, but that steps are causal unless they say otherwise. All sequences of a call are on
        one server. Calls are not tried again: one whose answer was lost may have been done. Sequence.info says how long
        its layers are.
        """
        steps = list(steps)
        call = ExtendCall(
            steps,
            causal=causal,
            window=window,
            scale=scale,
            softcap=softcap,
            return_lse=return_lse,
            priority=priority,
        )
        handles = [step.sequence.handle for step in steps]
        return call.parse(self._ask_home("Extend", handles, call.serialize(), timeout))

    def extend_stream(self, at: ResidentSequence | None = None, *, timeout: float | None = None) -> ExtendStream:
        """A stream of its own for steps that are sent ahead, without waiting for each other's answers. Close it, or use
        it in `with`. Asks the server first how many calls it takes on one, which may take `timeout`.

        at: a sequence whose server the stream goes to; None: the target. Steps on sequences of other servers fail with
            NotFoundError.
        """
        if at is not None:
            at.info(timeout=timeout)  # finds out which server it is
            home = self._homes.of(at.handle)
            if home is not None:
                return home.extend_stream(timeout=timeout)
        max_calls = max(1, self.server_info(timeout=timeout).limits.max_stream_calls)
        with self._lock:
            generation = self._take()

            def ended(stream: ExtendStream) -> None:
                self._connections.give_back(generation)
                with self._lock:
                    self._extend_streams.discard(stream)

            stream = ExtendStream(
                generation.channels[self._rotation.take()],
                self._transport,
                max_calls=max_calls,
                deadlines=self._deadlines,
                ended=ended,
            )
            self._extend_streams.add(stream)
        return stream

    def server_info(self, *, timeout: float | None = None) -> server_pb2.GetServerInfoResponse:
        """Version, backend, devices, limits and occupancy of the server."""
        request = server_pb2.GetServerInfoRequest()
        return server_pb2.GetServerInfoResponse.FromString(
            self._ask(GET_SERVER_INFO, request.SerializeToString(), timeout)
        )

    def plan_tiles(
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
        """On-chip memory of a tiled kernel, the tile that fits, and its traffic. 0 takes the server's default."""
        request = server_pb2.PlanTilesRequest(
            sram_bytes=sram_bytes,
            head_dim=head_dim,
            dtype=dtypes.parse(dtype),
            stages=stages,
            sequence_length=sequence_length,
            tile=tile,
        )
        return server_pb2.PlanTilesResponse.FromString(self._ask(PLAN_TILES, request.SerializeToString(), timeout))

    def close(self) -> None:
        """Cancels what is in flight, which then fails with CancelledError as does any further call, and closes the
        connections.
        """
        with self._lock:
            self._closed = True
            transfers = list(self._transfers)
            extend_streams = list(self._extend_streams)
        # All of them before the first one's thread is free for another.
        for transfer in transfers:
            transfer.forbid()
        for transfer in transfers:
            transfer.cancel()
        for stream in extend_streams:
            stream.close()
        self._executor.shutdown()
        self._deadlines.close()
        for channel in self._connections.all():
            channel.close()
        self._homes.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _connect(self) -> list[grpc.Channel]:
        """A channel for each connection, by what the files of certificates hold now."""
        target, credentials = self._transport.target, self._transport.channel_credentials()
        arguments = self._transport.channel_arguments()
        return [
            grpc.insecure_channel(target, arguments)
            if credentials is None
            else grpc.secure_channel(target, credentials, arguments)
            for _ in range(self._transport.connections)
        ]

    def _take(self) -> Generation[grpc.Channel]:
        """Connections for one call. REQUIRES: _lock is held."""
        self._check_open()
        generation = self._connections.take()
        for channel in self._connections.idle():
            channel.close()
        return generation

    def _fits_a_message(self, call: AttendCall, timeout: float | None) -> bool:
        """Whether the call goes as one message: the settings are for it, and the server takes it."""
        if self._transport.streamed(call.payload_bytes):
            return False
        return call.message_bytes <= SURELY_TAKEN_BYTES or call.message_bytes <= self._message_limit(timeout)

    def _message_limit(self, timeout: float | None) -> int:
        """Bytes of the largest message that the server takes, which is asked once; 0 where it does not answer."""
        with self._lock:
            limit = self._largest_message
        if limit is None:
            try:
                limit = self.server_info(timeout=timeout).limits.max_message_bytes
            except errors.Error:
                return 0
            with self._lock:
                self._largest_message = limit
        return limit

    def _submit_unary(self, call: AttendCall, message: bytes, timeout: float | None) -> PendingAttention:
        rpc = self._start(ATTEND, message, timeout)
        pending = PendingAttention(rpc.cancel)
        rpc.add_done_callback(lambda _: _settle(pending, lambda: call.parse(self._result(rpc))))
        return pending

    def _submit_streamed(self, call: AttendCall, timeout: float | None) -> PendingAttention:
        stripes = self._transport.stripes(call.payload_bytes)
        deadline = None if timeout is None else time.monotonic() + timeout
        expiry = None
        with self._lock:
            generation = self._take()
            channels = generation.channels if stripes > 1 else [generation.channels[self._rotation.take()]]
            transfer = Transfer(
                call,
                # Messages are bytes already, hence no serializers.
                [channel.stream_stream(ATTEND_STREAM) for channel in channels],
                chunk_bytes=self._transport.chunk_bytes,
                deadline=deadline,
                metadata=self._transport.metadata(),
            )
            pending = PendingAttention(transfer.cancel)
            if deadline is not None:
                # A transfer that waits for a thread cannot keep its deadline itself.
                expiry = self._deadlines.add(deadline, lambda: _expire(pending, transfer))
            self._executor.submit(self._run, transfer, pending, generation)
            self._transfers.add(transfer)
        if expiry is not None:
            pending.add_done_callback(lambda _: self._deadlines.discard(expiry))
        return pending

    def _run(self, transfer: Transfer, pending: PendingAttention, generation: Generation[grpc.Channel]) -> None:
        _settle(pending, transfer.run)
        self._connections.give_back(generation)
        with self._lock:
            self._transfers.discard(transfer)

    def _ask(self, method: str, request: bytes, timeout: float | None) -> bytes:
        """One unary call without payload to watch, serialized in and out."""
        rpc = self._start(method, request, self._transport.limit(timeout))
        try:
            return self._result(rpc)
        except BaseException:
            rpc.cancel()
            raise

    def _ask_home(self, method: str, handles: Sequence[bytes], request: bytes, timeout: float | None) -> bytes:
        """As _ask, of SequenceService, at the server of the handles' sequences. A redirect is followed, once."""
        limit = self._transport.limit(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        try:
            return self._home(handles)._ask(SEQUENCE_SERVICE + method, request, limit)
        except errors.NotFoundError as error:
            if error.redirect is None:
                raise
            self._homes.follow(error.redirect)
        return self._home(handles)._ask(SEQUENCE_SERVICE + method, request, remaining(deadline))

    def _home(self, handles: Sequence[bytes]) -> Client:
        """Whoever goes to the server of all these sequences, as far as is known."""
        homes = {self._homes.of(handle) or self for handle in handles}
        if len(homes) > 1:
            raise ValueError("the sequences of a call must be on one server")
        return homes.pop()

    def _connect_to(self, address: str) -> Client:
        """A client like this one, of the one server at `address`."""
        own = {field.name: getattr(self._transport, field.name) for field in fields(self._transport)}
        return Client(**{**own, "target": address, "every_address": False})

    def _start(self, method: str, request: bytes, timeout: float | None) -> Any:
        """A unary call under way: gRPC's Call and Future of the answer."""
        with self._lock:
            generation = self._take()
            # Messages are bytes already, hence no serializers.
            stub: grpc.UnaryUnaryMultiCallable[bytes, bytes] = generation.channels[self._rotation.take()].unary_unary(
                method
            )
            rpc = stub.future(request, timeout=timeout, metadata=self._transport.metadata())
        rpc.add_done_callback(lambda _: self._connections.give_back(generation))
        return rpc

    def _result(self, rpc: Any) -> bytes:
        """Waits for a unary call's answer. Raises the call's Error."""
        try:
            answer: bytes = rpc.result()
        except grpc.FutureCancelledError:
            raise errors.CancelledError("the client was closed") from None
        except grpc.RpcError as error:
            failure = errors.from_rpc(error)
            with self._lock:
                closed = self._closed
            # Closing a channel ends its calls with CANCELLED, too.
            raise (failure if closed else errors.by_server(failure)) from None
        return answer

    def _check_open(self) -> None:
        """CancelledError from a closed client. REQUIRES: _lock is held."""
        if self._closed:
            raise errors.CancelledError("the client is closed")


def _settle(pending: PendingAttention, work: Callable[[], Attention]) -> None:
    """Ends `pending` by the outcome of `work`."""
    outcome: Attention | Exception
    try:
        outcome = work()
    except Exception as error:
        outcome = error
    pending.settle(outcome)


def _expire(pending: PendingAttention, transfer: Transfer) -> None:
    pending.settle(errors.DeadlineExceededError("the call's time ran out"))
    transfer.cancel()
