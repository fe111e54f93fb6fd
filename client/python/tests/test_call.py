"""What the client refuses, and how arrays become bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tessera.call import AttendCall
from tessera.v1 import attention_pb2, tensor_pb2


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


QKV = (zeros(4, 2, 8), zeros(4, 2, 8), zeros(4, 2, 8))


@pytest.mark.parametrize(
    ("q", "k", "v", "options", "complaint"),
    [
        (zeros(4, 8), *QKV[1:], {}, "q has 2 dimensions"),
        (zeros(1, 4, 2, 8), *QKV[1:], {}, "k has 3 dimensions, q has 4"),
        (QKV[0], zeros(4, 2, 8, dtype=np.float16), QKV[2], {}, "k is float16, q is float32"),
        (*(zeros(4, 2, 8, dtype=np.float64),) * 3, {}, "dtype is float64"),
        (*(zeros(4, 2, 8, dtype=np.int16),) * 3, {}, "dtype is int16"),
        (QKV[0], zeros(4, 2, 16), QKV[2], {}, "k has head_dim 16, q has 8"),
        (QKV[0], QKV[1], zeros(5, 2, 8), {}, "k is .4, 2, 8., v is .5, 2, 8."),
        (zeros(4, 3, 8), *QKV[1:], {}, "q has 3 heads, k and v have 2"),
        (zeros(4, 0, 8), *QKV[1:], {}, "q has 0 heads"),
        (*(zeros(4, 2, 12),) * 3, {}, "head_dim is 12"),
        (*(zeros(4, 2, 264),) * 3, {}, "head_dim is 264"),
        (zeros(2, 4, 2, 8), zeros(3, 4, 2, 8), zeros(3, 4, 2, 8), {}, "batch of 2, k and v of 3"),
        (*(zeros(2, 4, 2, 8),) * 3, {"q_lengths": [4, 4]}, "the batch dimension implies them"),
        (*QKV, {"q_lengths": [3]}, "q_lengths sum to 3, but there are 4"),
        (*QKV, {"q_lengths": [1, 3], "kv_lengths": [4]}, "q_lengths has 2 sequences, kv_lengths 1"),
        (*QKV, {"kv_lengths": [1, 3]}, "q_lengths must be given too"),
        (*QKV, {"q_lengths": [-1, 5]}, "q_lengths has -1"),
        (*QKV, {"q_lengths": []}, "at least 1"),
        (*QKV, {"q_lengths": [4], "kv_lengths": [5]}, "kv_lengths sum to 5"),
        (*QKV, {"scale": float("inf")}, "scale is inf"),
        (*QKV, {"softcap": -1.0}, "softcap is -1.0"),
        (*QKV, {"softcap": float("nan")}, "softcap is nan"),
        (*QKV, {"window": (-2, 0)}, "window is"),
        (*QKV, {"priority": 7}, "7 is not a valid Priority"),
    ],
)
def test_refuses(q: Any, k: Any, v: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        AttendCall(q, k, v, **options)


def test_contiguous_arrays_are_viewed_and_joined_once() -> None:
    q = np.arange(4 * 2 * 8, dtype=np.float32).reshape(4, 2, 8)
    call = AttendCall(q, q, q)
    q[0, 0, 0] = 42
    assert bytes(call.payload[0][:4]) == np.float32(42).tobytes()
    request = attention_pb2.AttendRequest.FromString(call.serialize())
    assert request.header == call.header
    assert (request.q, request.k, request.v) == (q.tobytes(),) * 3


def test_size_as_one_message_is_not_told_too_small() -> None:
    for lengths in ([4], [1, 0, 3], [0] * 1000 + [4]):
        call = AttendCall(*QKV, q_lengths=lengths)
        assert 0 <= call.message_bytes - len(call.serialize()) < 64


def test_numbers_may_be_those_of_numpy() -> None:
    options: dict[str, Any] = {"q_lengths": np.array([1, 3]), "window": np.int64(2), "scale": np.float32(0.5)}
    call = AttendCall(*QKV, softcap=np.float64(3), **options)
    assert list(call.header.q_lengths) == [1, 3]
    assert (call.header.options.mask.window_left, call.header.options.mask.window_right) == (2, 2)
    assert (call.header.options.scale, call.header.options.softcap) == (0.5, 3.0)


@pytest.mark.parametrize("options", [{"q_lengths": [1.5, 2.5]}, {"window": 1.5}, {"window": (1.5, 0)}])
def test_fractions_are_no_counts(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="integer"):
        AttendCall(*QKV, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ">f2"])
def test_no_tokens_at_all(dtype: Any) -> None:
    call = AttendCall(zeros(0, 2, 8, dtype=dtype), zeros(3, 2, 8, dtype=dtype)[::-1], zeros(3, 2, 8, dtype=dtype))
    item = np.dtype(dtype).itemsize
    assert [len(part) for part in call.payload] == [0, 48 * item, 48 * item]
    assert call.o_bytes == 0


@pytest.mark.parametrize("kind", ["transposed", "strided", "big-endian", "read-only"])
def test_any_layout_means_its_elements(kind: str, rng: np.random.Generator) -> None:
    base = rng.standard_normal((4, 6, 8)).astype(np.float32)
    q = {
        "transposed": base.transpose(1, 0, 2),
        "strided": base[:, ::2],
        "big-endian": base.astype(">f4"),
        "read-only": base,
    }[kind]
    if kind == "read-only":
        q.flags.writeable = False
    call = AttendCall(q, q, q)
    assert bytes(call.payload[1]) == q.astype("<f4").tobytes()


def test_options_reach_the_header() -> None:
    header = AttendCall(*QKV, scale=0.5, softcap=3.0, return_lse=True, causal=True, window=(5, 9)).header
    mask = tensor_pb2.Mask(kind=tensor_pb2.MASK_KIND_WINDOW, window_left=5, window_right=0)
    assert header.options == tensor_pb2.AttentionOptions(
        scale=0.5, softcap=3.0, return_lse=True, mask=mask, priority=tensor_pb2.PRIORITY_NORMAL
    )
    assert not AttendCall(*QKV).header.options.HasField("scale")
