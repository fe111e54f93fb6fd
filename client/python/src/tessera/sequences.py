"""Resident sequences: keys and values that stay on the server between calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from tessera import dtypes, wire
from tessera.call import Timing
from tessera.dtypes import Array
from tessera.errors import InternalError
from tessera.options import Priority, Window, make_options
from tessera.v1 import sequence_pb2, tensor_pb2

if TYPE_CHECKING:
    from tessera.client import Client

_Q, _K, _V = 13, 14, 15  # ExtendRequest
_O, _LSE = 14, 15  # ExtendResponse; all of them also of the stream's messages
_DTYPES = {
    tensor_pb2.DATA_TYPE_FLOAT32: "float32",
    tensor_pb2.DATA_TYPE_FLOAT16: "float16",
    tensor_pb2.DATA_TYPE_BFLOAT16: "bfloat16",
    tensor_pb2.DATA_TYPE_FLOAT8_E4M3: "float8_e4m3",
}


@dataclass(frozen=True)
class Profile:
    """What all sequences of a profile have in common.

    dtype: of q, k, v and o; kv_dtype is what k and v are kept as: dtype, or "float8_e4m3".
    lease: how long one lives unused, in seconds.
    """

    name: str
    layers: int
    kv_heads: int
    head_dim: int
    dtype: str
    kv_dtype: str
    max_tokens: int
    lease: float


@dataclass(frozen=True)
class SequenceInfo:
    """A sequence as it is on the server: tokens of each layer, pages, seconds until its lease ends unused."""

    lengths: list[int]
    pages: int
    expires_in: float


@dataclass(frozen=True)
class Step:
    """What is done to one layer of one sequence: rows k and v are appended, then q attends to all that is there.

    q: [tokens, q_heads, head_dim]; k, v: [new tokens, kv_heads, head_dim], or None to read only.
    """

    sequence: ResidentSequence
    layer: int
    q: npt.ArrayLike
    k: npt.ArrayLike | None = None
    v: npt.ArrayLike | None = None


@dataclass(frozen=True)
class Extension:
    """What steps came to, one entry each: `o` of q's shape, `lse` [tokens, q_heads] where it was asked for, and the
    layer's length afterwards.
    """

    o: list[Array]
    lse: list[npt.NDArray[np.float32]] | None
    lengths: list[int]
    timing: Timing


class ResidentSequence:
    """A sequence on the server. `with` releases it at the end. Threads may share it; steps on it are done in order.

    It stays on its server. Calls go there wherever the client's target leads: where another server answers, and says
    which one keeps the sequence, the call is made there, as are the next ones.
    """

    def __init__(self, client: Client, handle: bytes, profile: Profile) -> None:
        self._client = client
        self.handle = handle
        self.profile = profile

    def extend(
        self,
        layer: int,
        q: npt.ArrayLike,
        k: npt.ArrayLike | None = None,
        v: npt.ArrayLike | None = None,
        *,
        timeout: float | None = None,
    ) -> Array:
        """One step by itself, causal: o. Client.extend does many at once, which share the way there and back."""
        return self._client.extend([Step(self, layer, q, k, v)], timeout=timeout).o[0]

    def fork(self, length: int | None = None, *, timeout: float | None = None) -> ResidentSequence:
        """A new sequence that begins as this one, or as its first `length` tokens, and shares its memory."""
        request = sequence_pb2.ForkSequenceRequest(sequence=self.handle, length=length)
        answer = self._client._ask_home("ForkSequence", [self.handle], request.SerializeToString(), timeout)
        return ResidentSequence(
            self._client, sequence_pb2.ForkSequenceResponse.FromString(answer).sequence, self.profile
        )

    def truncate(self, length: int, *, timeout: float | None = None) -> None:
        """Keeps the first `length` tokens of every layer."""
        request = sequence_pb2.TruncateSequenceRequest(sequence=self.handle, length=length)
        self._client._ask_home("TruncateSequence", [self.handle], request.SerializeToString(), timeout)

    def info(self, *, timeout: float | None = None) -> SequenceInfo:
        """How long it is, and for how long it will be there. Renews the lease, as every use does."""
        request = sequence_pb2.GetSequenceRequest(sequence=self.handle)
        answer = sequence_pb2.GetSequenceResponse.FromString(
            self._client._ask_home("GetSequence", [self.handle], request.SerializeToString(), timeout)
        )
        return SequenceInfo(lengths=list(answer.lengths), pages=answer.pages, expires_in=answer.expires_in_ms / 1000)

    def release(self, *, timeout: float | None = None) -> None:
        """Ends the sequence. Does nothing where it is not there any more."""
        request = sequence_pb2.ReleaseSequencesRequest(sequences=[self.handle])
        self._client._ask_home("ReleaseSequences", [self.handle], request.SerializeToString(), timeout)

    def __enter__(self) -> ResidentSequence:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def to_profile(message: sequence_pb2.CacheProfile) -> Profile:
    return Profile(
        name=message.name,
        layers=message.layers,
        kv_heads=message.kv_heads,
        head_dim=message.head_dim,
        dtype=_DTYPES.get(message.dtype, "unknown"),
        kv_dtype=_DTYPES.get(message.kv_dtype or message.dtype, "unknown"),
        max_tokens=message.max_tokens,
        lease=message.lease_ms / 1000,
    )


class ExtendCall:
    """A checked call. ValueError from the constructor where no server could accept it."""

    def __init__(
        self,
        steps: Iterable[Step],
        *,
        window: Window | None,
        causal: bool,
        scale: float | None,
        softcap: float,
        return_lse: bool,
        priority: Priority,
    ) -> None:
        steps = list(steps)
        if not steps:
            raise ValueError("there are no steps; must be at least 1")
        tensors = [_tensors(i, step) for i, step in enumerate(steps)]
        q_heads = {q.shape[1] for q, _, _ in tensors}
        if len(q_heads) > 1:
            raise ValueError(f"q has {sorted(q_heads)} heads; must be the same in all steps of a call")
        if len({step.sequence.profile.name for step in steps}) > 1:
            raise ValueError("the sequences of a call must be of one profile")
        self._dtype = tensors[0][0].dtype
        self._q_shapes = [q.shape for q, _, _ in tensors]
        self._return_lse = return_lse
        self.header = sequence_pb2.ExtendHeader(
            q_heads=q_heads.pop(),
            entries=[
                sequence_pb2.ExtendEntry(
                    sequence=step.sequence.handle, layer=step.layer, q_tokens=q.shape[0], append_tokens=k.shape[0]
                )
                for step, (q, k, _) in zip(steps, tensors)
            ],
            options=make_options(
                causal=causal,
                window=window,
                scale=scale,
                softcap=softcap,
                return_lse=return_lse,
                priority=priority,
            ),
        )
        self._payload = [[t[part].reshape(-1).view(np.uint8).data for t in tensors] for part in range(3)]

    def serialize(self) -> bytes:
        """The call as an ExtendRequest."""
        return self._serialize(1)

    def serialize_streamed(self) -> bytes:
        """The call as an ExtendStreamRequest, but for its id and time, which may be put before it."""
        return self._serialize(2)

    def parse(self, response: bytes) -> Extension:
        """An ExtendResponse to this call. InternalError where it does not fit."""
        small, payloads = split_answer(response)
        try:
            result = sequence_pb2.ExtendResponse.FromString(small).result
        except DecodeError as error:
            raise InternalError(f"malformed answer: {error}") from error
        return self.extension(result, payloads)

    def extension(self, result: sequence_pb2.ExtendResult, payloads: Mapping[int, memoryview]) -> Extension:
        """What an answer of these parts says. InternalError where they do not fit the call."""
        empty = memoryview(b"")
        o = _cut(payloads.get(_O, empty), self._dtype, self._q_shapes, "o")
        lse_shapes = [shape[:2] for shape in self._q_shapes] if self._return_lse else []
        lse = _cut(payloads.get(_LSE, empty), np.dtype("<f4"), lse_shapes, "LSE")
        if len(result.lengths) != len(o):
            raise InternalError(f"the answer has {len(result.lengths)} lengths for {len(o)} steps")
        return Extension(
            o=o,
            lse=lse if self._return_lse else None,
            lengths=list(result.lengths),
            timing=Timing.of(result.timing),
        )

    def _serialize(self, header_field: int) -> bytes:
        header = self.header.SerializeToString()
        pieces: list[bytes | memoryview] = [wire.bytes_field_prefix(header_field, len(header)), header]
        for field, parts in zip((_Q, _K, _V), self._payload):
            pieces += [wire.bytes_field_prefix(field, sum(len(part) for part in parts)), *parts]
        return b"".join(pieces)


def split_answer(message: bytes) -> tuple[bytes, dict[int, memoryview]]:
    """The small fields of an answer, unary or streamed, and its payloads. InternalError where it is malformed."""
    try:
        return wire.split(message, (_O, _LSE))
    except ValueError as error:
        raise InternalError(f"malformed answer: {error}") from error


def _tensors(i: int, step: Step) -> tuple[Array, Array, Array]:
    """q, k and v of a step, contiguous and in the wire's byte order."""
    profile = step.sequence.profile
    if (step.k is None) != (step.v is None):
        raise ValueError(f"step {i}: k and v go together")
    nothing = np.empty((0, profile.kv_heads, profile.head_dim), np.asarray(step.q).dtype)
    named = {"q": np.asarray(step.q)}
    for name, given in (("k", step.k), ("v", step.v)):
        named[name] = nothing if given is None else np.asarray(given)
    for name, tensor in named.items():
        if tensor.ndim != 3 or tensor.shape[2] != profile.head_dim:
            raise ValueError(f"step {i}: {name} is {list(tensor.shape)}; must be [tokens, heads, {profile.head_dim}]")
        if tensor.dtype.name != profile.dtype:
            raise ValueError(f"step {i}: {name} is {tensor.dtype}; the profile's dtype is {profile.dtype}")
    for name in ("k", "v"):
        if named[name].shape[1] != profile.kv_heads:
            raise ValueError(f"step {i}: {name} has {named[name].shape[1]} heads, the profile {profile.kv_heads}")
    if named["k"].shape != named["v"].shape:
        raise ValueError(f"step {i}: k and v must be of the same shape")
    if named["q"].shape[1] == 0 or named["q"].shape[1] % profile.kv_heads:
        raise ValueError(f"step {i}: q has {named['q'].shape[1]} heads; must be a multiple of {profile.kv_heads}")
    if not 0 <= step.layer < profile.layers:
        raise ValueError(f"step {i}: layer is {step.layer}; must be from 0 to {profile.layers - 1}")
    _, dtype = dtypes.wire_type(named["q"].dtype)
    q, k, v = (np.ascontiguousarray(tensor, dtype=dtype) for tensor in named.values())
    return q, k, v


def _cut(data: memoryview, dtype: np.dtype[np.generic], shapes: Sequence[tuple[int, ...]], name: str) -> list[Array]:
    """Arrays of these shapes that lie end to end in `data`, copied out of it at once."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    if len(data) != sum(sizes) * dtype.itemsize:
        raise InternalError(f"the answer has {len(data)} bytes of {name}, not {sum(sizes) * dtype.itemsize}")
    whole = np.frombuffer(data, np.uint8).copy().view(dtype)
    ends = np.cumsum(sizes)
    return [whole[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes)]
