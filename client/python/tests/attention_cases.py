"""Calls that cover what the API can say, with their answers by the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import reference
from tessera.call import AttendCall, Attention

TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Case:
    name: str
    q: tuple[int, ...]
    kv: tuple[int, ...]
    dtype: Any = np.float32
    options: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("full", (9, 2, 16), (9, 2, 16)),
    Case("causal", (9, 2, 16), (13, 2, 16), options={"causal": True, "return_lse": True}),
    Case("unseen rows", (9, 2, 16), (5, 2, 16), options={"causal": True, "return_lse": True}),
    Case("window", (12, 1, 8), (12, 1, 8), options={"window": (3, 1)}),
    Case("window of one number", (12, 1, 8), (12, 1, 8), options={"window": 2}),
    Case("causal window", (12, 1, 8), (12, 1, 8), options={"causal": True, "window": 2}),
    Case("open window", (12, 1, 8), (12, 1, 8), options={"window": (-1, 2)}),
    Case("grouped", (7, 6, 8), (7, 2, 8), options={"scale": 0.7}),
    Case("softcap", (7, 2, 8), (7, 2, 8), options={"softcap": 1.5, "return_lse": True}),
    Case("float16", (7, 2, 32), (7, 2, 32), dtype=np.float16),
    Case("bfloat16", (7, 2, 32), (7, 2, 32), dtype=ml_dtypes.bfloat16, options={"return_lse": True}),
    Case(
        "ragged",
        (11, 2, 8),
        (10, 2, 8),
        options={"q_lengths": [4, 0, 7], "kv_lengths": [5, 3, 2], "return_lse": True, "causal": True},
    ),
    Case("ragged, kv as q", (11, 2, 8), (11, 2, 8), options={"q_lengths": [4, 0, 7]}),
    Case("batch", (3, 5, 2, 8), (3, 6, 2, 8), options={"causal": True, "return_lse": True}),
    Case("no queries", (0, 2, 8), (4, 2, 8), options={"return_lse": True}),
    Case("no keys", (4, 2, 8), (0, 2, 8), options={"return_lse": True}),
]


def make(case: Case, rng: np.random.Generator) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    def tensor(shape: tuple[int, ...]) -> npt.NDArray[Any]:
        return rng.standard_normal(shape).astype(case.dtype)

    return tensor(case.q), tensor(case.kv), tensor(case.kv)


def check(
    result: Attention, q: npt.NDArray[Any], k: npt.NDArray[Any], v: npt.NDArray[Any], options: dict[str, Any]
) -> None:
    """AssertionError where `result` is not the attention of these arguments, or not of their kind."""
    header = AttendCall(q, k, v, **options).header
    packed = [t.reshape(-1, *t.shape[-2:]) for t in (q, k, v)]
    o, lse = reference.attend(header, *packed)
    tolerance = TOLERANCE[q.dtype.name]
    assert result.o.dtype == q.dtype
    assert result.o.shape == q.shape
    np.testing.assert_allclose(result.o.astype(np.float64), o.reshape(q.shape), rtol=tolerance, atol=tolerance)
    if options.get("return_lse"):
        assert result.lse is not None
        np.testing.assert_allclose(result.lse, lse.reshape(q.shape[:-1]), rtol=1e-4, atol=1e-4)
        assert result.lse.dtype == np.float32
    else:
        assert result.lse is None
