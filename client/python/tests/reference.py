"""Attention in float64, row by row, for the answers that tests expect."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tessera.v1 import attention_pb2, tensor_pb2

ELEMENTS: dict[int, np.dtype[Any]] = {
    tensor_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
    tensor_pb2.DATA_TYPE_BFLOAT16: np.dtype(ml_dtypes.bfloat16),
}


def visible(mask: tensor_pb2.Mask, q_length: int, kv_length: int) -> npt.NDArray[np.bool_]:
    """[q_length, kv_length]"""
    position = np.arange(q_length)[:, None] + kv_length - q_length
    key = np.arange(kv_length)[None, :]
    if mask.kind == tensor_pb2.MASK_KIND_CAUSAL:
        return key <= position
    seen = np.ones((q_length, kv_length), bool)
    if mask.kind == tensor_pb2.MASK_KIND_WINDOW:
        if mask.window_left >= 0:
            seen &= key >= position - mask.window_left
        if mask.window_right >= 0:
            seen &= key <= position + mask.window_right
    return seen


def attend(
    header: attention_pb2.AttendHeader, q: npt.NDArray[Any], k: npt.NDArray[Any], v: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """o [tokens, heads, head_dim] and LSE [tokens, heads] of packed tensors."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    options = header.options
    scale = options.scale if options.HasField("scale") else header.head_dim**-0.5
    o, lse = np.zeros_like(q), np.full(q.shape[:2], -np.inf)
    q_start = kv_start = 0
    for q_length, kv_length in zip(header.q_lengths, header.kv_lengths or header.q_lengths):
        seen = visible(options.mask, q_length, kv_length)
        for head in range(header.q_heads):
            kv_head = head // (header.q_heads // header.kv_heads)
            keys = k[kv_start : kv_start + kv_length, kv_head]
            values = v[kv_start : kv_start + kv_length, kv_head]
            scores = scale * (q[q_start : q_start + q_length, head] @ keys.T)
            if options.softcap > 0:
                scores = options.softcap * np.tanh(scores / options.softcap)
            for row in np.flatnonzero(seen.any(axis=1)):
                mine = scores[row, seen[row]]
                weights = np.exp(mine - mine.max())
                o[q_start + row, head] = weights @ values[seen[row]] / weights.sum()
                lse[q_start + row, head] = mine.max() + np.log(weights.sum())
        q_start += q_length
        kv_start += kv_length
    return o, lse


def answer_bytes(header: attention_pb2.AttendHeader, payload: bytes) -> tuple[bytes, bytes]:
    """o and LSE, in the wire's form, of q, k, v laid end to end; LSE is empty unless asked for."""
    dtype = ELEMENTS[header.dtype]
    q_tokens, kv_tokens = sum(header.q_lengths), sum(header.kv_lengths or header.q_lengths)
    shapes = [(q_tokens, header.q_heads), (kv_tokens, header.kv_heads), (kv_tokens, header.kv_heads)]
    tensors, at = [], 0
    for tokens, heads in shapes:
        count = tokens * heads * header.head_dim
        tensors.append(np.frombuffer(payload, dtype, count, at).reshape(tokens, heads, header.head_dim))
        at += count * dtype.itemsize
    assert at == len(payload)
    o, lse = attend(header, *tensors)
    return o.astype(dtype).tobytes(), lse.astype("<f4").tobytes() if header.options.return_lse else b""
