"""One attention call: arrays checked and laid out for the wire, and the answer's bytes made arrays again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from tessera import dtypes, wire
from tessera.dtypes import Array
from tessera.errors import InternalError
from tessera.options import Priority, Window, make_options
from tessera.v1 import attention_pb2, tensor_pb2

_Q, _K, _V = 13, 14, 15  # AttendRequest
_O, _LSE = 14, 15  # AttendResponse
_MOST_FRAMING_BYTES = 4 * 11  # a tag and a size ahead of the header, q, k and v


@dataclass(frozen=True)
class Timing:
    """Where the server spent its time on a call, in seconds, and how many calls shared its batch."""

    receive: float
    queue: float
    run: float
    batch_requests: int

    @classmethod
    def of(cls, timing: attention_pb2.Timing) -> Timing:
        return cls(
            receive=timing.receive_ns * 1e-9,
            queue=timing.queue_ns * 1e-9,
            run=timing.run_ns * 1e-9,
            batch_requests=timing.batch_requests,
        )


@dataclass(frozen=True)
class Attention:
    """An answer. `o` has q's shape and dtype; `lse`, natural log, [tokens, heads] (or [batch, tokens, heads])."""

    o: Array
    lse: npt.NDArray[np.float32] | None
    timing: Timing


class AttendCall:
    """A checked call. ValueError from the constructor where no server could accept it.

    q is [tokens, q_heads, head_dim], k and v are [kv_tokens, kv_heads, head_dim], packed sequence by sequence; or all
    have a leading batch dimension, whose entries are then sequences of equal length. Arrays that are contiguous and in
    the wire's byte order are viewed, not copied: they must not change until the call has ended.
    """

    def __init__(
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
    ) -> None:
        tensors = {"q": np.asarray(q), "k": np.asarray(k), "v": np.asarray(v)}
        data_type, self._dtype = dtypes.wire_type(tensors["q"].dtype)
        self._o_shape = tensors["q"].shape
        self._lse_shape = self._o_shape[:-1]
        self.header = make_header(
            tensors,
            data_type,
            q_lengths=q_lengths,
            kv_lengths=kv_lengths,
            options=make_options(
                causal=causal,
                window=window,
                scale=scale,
                softcap=softcap,
                return_lse=return_lse,
                priority=priority,
            ),
        )
        # q, k and v as bytes.
        self.payload = tuple(_bytes_view(t, self._dtype) for t in tensors.values())
        self.payload_bytes = sum(len(part) for part in self.payload)
        # At least those of the call as one message, and hardly more.
        self.message_bytes = self.payload_bytes + self.header.ByteSize() + _MOST_FRAMING_BYTES
        self.o_bytes = len(self.payload[0])
        self.lse_bytes = math.prod(self._lse_shape) * 4 if return_lse else 0

    def serialize(self) -> bytes:
        """The call as an AttendRequest."""
        header = self.header.SerializeToString()
        pieces: list[bytes | memoryview] = [wire.bytes_field_prefix(1, len(header)), header]
        for field, part in zip((_Q, _K, _V), self.payload):
            pieces += [wire.bytes_field_prefix(field, len(part)), part]
        return b"".join(pieces)

    def parse(self, response: bytes) -> Attention:
        """An AttendResponse to this call. InternalError where it does not fit."""
        try:
            small, payloads = wire.split(response, (_O, _LSE))
            result = attention_pb2.AttendResponse.FromString(small).result
        except (ValueError, DecodeError) as error:
            raise InternalError(f"malformed answer: {error}") from error
        empty = memoryview(b"")
        o, lse = payloads.get(_O, empty), payloads.get(_LSE, empty)
        if (len(o), len(lse)) != (self.o_bytes, self.lse_bytes):
            raise InternalError(
                f"the answer has {len(o)} bytes of o and {len(lse)} of LSE, not {self.o_bytes} and {self.lse_bytes}"
            )
        answer = np.empty(self.o_bytes + self.lse_bytes, np.uint8)
        answer[: self.o_bytes] = o
        answer[self.o_bytes :] = lse
        return self.attention(answer, result.timing)

    def attention(self, answer: npt.NDArray[np.uint8], timing: attention_pb2.Timing) -> Attention:
        """The answer whose o and LSE lie end to end in `answer`. The arrays are views of it."""
        lse = None
        if self.header.options.return_lse:
            lse = answer[self.o_bytes :].view("<f4").reshape(self._lse_shape)
        return Attention(
            o=answer[: self.o_bytes].view(self._dtype).reshape(self._o_shape),
            lse=lse,
            timing=Timing.of(timing),
        )


class Shaped(Protocol):
    """What an array, wherever it is, says of itself."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...


def make_header(
    tensors: Mapping[str, Shaped],
    data_type: tensor_pb2.DataType,
    *,
    q_lengths: Sequence[int] | None,
    kv_lengths: Sequence[int] | None,
    options: tensor_pb2.AttentionOptions,
) -> attention_pb2.AttendHeader:
    """Of a call with these q, k and v. ValueError where no server could accept it."""
    _check_shapes(tensors)
    q, k = tensors["q"], tensors["k"]
    if q.ndim == 4:
        if q_lengths is not None or kv_lengths is not None:
            raise ValueError("q_lengths and kv_lengths are for packed 3-d arrays; the batch dimension implies them")
        q_lengths, kv_lengths = ([t.shape[1]] * t.shape[0] for t in (q, k))
    q_tokens, kv_tokens = (math.prod(t.shape[:-2]) for t in (q, k))
    q_lengths, kv_lengths = _check_lengths(q_tokens, kv_tokens, q_lengths, kv_lengths)
    return attention_pb2.AttendHeader(
        dtype=data_type,
        q_heads=q.shape[-2],
        kv_heads=k.shape[-2],
        head_dim=q.shape[-1],
        q_lengths=q_lengths,
        kv_lengths=kv_lengths,
        options=options,
    )


def _check_shapes(tensors: Mapping[str, Shaped]) -> None:
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    for name, tensor in tensors.items():
        if tensor.ndim not in (3, 4):
            raise ValueError(
                f"{name} has {tensor.ndim} dimensions; must be [tokens, heads, head_dim] or "
                "[batch, tokens, heads, head_dim]"
            )
        if tensor.ndim != q.ndim:
            raise ValueError(f"{name} has {tensor.ndim} dimensions, q has {q.ndim}; must be the same")
        if tensor.dtype != q.dtype:
            raise ValueError(f"{name} is {tensor.dtype}, q is {q.dtype}; must be the same")
        if tensor.shape[-1] != q.shape[-1]:
            raise ValueError(f"{name} has head_dim {tensor.shape[-1]}, q has {q.shape[-1]}; must be the same")
    if k.shape != v.shape:
        raise ValueError(f"k is {list(k.shape)}, v is {list(v.shape)}; must be the same")
    if q.ndim == 4 and q.shape[0] != k.shape[0]:
        raise ValueError(f"q has a batch of {q.shape[0]}, k and v of {k.shape[0]}; must be the same")
    q_heads, kv_heads, head_dim = q.shape[-2], k.shape[-2], q.shape[-1]
    if q_heads == 0 or kv_heads == 0 or q_heads % kv_heads:
        raise ValueError(
            f"q has {q_heads} heads, k and v have {kv_heads}; q's must be a multiple of theirs, at least 1"
        )
    if not 8 <= head_dim <= 256 or head_dim % 8:
        raise ValueError(f"head_dim is {head_dim}; must be a multiple of 8 from 8 to 256")


def _check_lengths(
    q_tokens: int, kv_tokens: int, q_lengths: Sequence[int] | None, kv_lengths: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """Both lists in full. Without any, the arrays are one sequence; without kv_lengths, they are the same as q's."""
    if q_lengths is None:
        if kv_lengths is not None and len(kv_lengths) != 1:
            raise ValueError(f"kv_lengths has {len(kv_lengths)} sequences; q_lengths must be given too")
        q_lengths = [q_tokens]
        kv_lengths = [kv_tokens] if kv_lengths is None else kv_lengths
    elif kv_lengths is None:
        kv_lengths = q_lengths
    q_list, kv_list = [index(n) for n in q_lengths], [index(n) for n in kv_lengths]
    if not q_list or len(q_list) != len(kv_list):
        raise ValueError(
            f"q_lengths has {len(q_list)} sequences, kv_lengths {len(kv_list)}; must be as many, at least 1"
        )
    for name, tokens, lengths in (("q", q_tokens, q_list), ("kv", kv_tokens, kv_list)):
        if min(lengths) < 0:
            raise ValueError(f"{name}_lengths has {min(lengths)}; must not be negative")
        if sum(lengths) != tokens:
            raise ValueError(f"{name}_lengths sum to {sum(lengths)}, but there are {tokens} {name} tokens")
    return q_list, kv_list


def _bytes_view(tensor: Array, dtype: np.dtype[np.generic]) -> memoryview:
    """The elements in C order and the wire's byte order: `tensor`'s own memory where that is how they lie."""
    return np.ascontiguousarray(tensor, dtype=dtype).reshape(-1).view(np.uint8).data
