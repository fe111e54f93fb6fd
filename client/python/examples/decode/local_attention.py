"""Attention computed here, over keys and values kept here: what the server's answers are measured against.

Rows are rounded as they are on their way to the server and in its pages; all that is computed with them is float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rounding import Rounding
from weights import Floats, Shape

Rows = npt.NDArray[np.float64]
# Given a layer and the rows k and v that are appended to it.
Watch = Callable[[int, Floats, Floats], object]


class LocalSequence:
    def __init__(self, shape: Shape) -> None:
        empty = np.empty((0, shape.kv_heads, shape.head_dim))
        self.k: list[Rows] = [empty] * shape.layers
        self.v: list[Rows] = [empty] * shape.layers

    def fork(self) -> LocalSequence:
        other = object.__new__(LocalSequence)
        other.k, other.v = list(self.k), list(self.v)  # arrays are replaced, never written
        return other

    def truncate(self, length: int) -> None:
        self.k = [rows[:length] for rows in self.k]
        self.v = [rows[:length] for rows in self.v]

    def release(self) -> None:
        pass


class LocalAttention:
    def __init__(self, shape: Shape, rounding: Rounding, watch: Watch | None = None) -> None:
        self._shape = shape
        self._rounding = rounding
        self._watch = watch

    def create(self, count: int) -> Sequence[LocalSequence]:
        return [LocalSequence(self._shape) for _ in range(count)]

    def extend(
        self,
        layer: int,
        kept: Sequence[LocalSequence],
        q: Sequence[Floats],
        k: Sequence[Floats],
        v: Sequence[Floats],
    ) -> Sequence[Floats]:
        answers = []
        for sequence, rows, keys, values in zip(kept, q, k, v):
            if self._watch is not None:
                self._watch(layer, keys, values)
            sequence.k[layer] = np.concatenate([sequence.k[layer], self._rounding.keys(layer, keys)])
            sequence.v[layer] = np.concatenate([sequence.v[layer], self._rounding.values(layer, values)])
            o = attend(self._rounding.wire(rows), sequence.k[layer], sequence.v[layer])
            answers.append(self._rounding.wire(o))
        return answers


def attend(q: Rows, k: Rows, v: Rows) -> Rows:
    """By the definition, the last row at the last key. q [rows, q_heads, d]; k, v [keys, kv_heads, d]"""
    rows, q_heads, head_dim = q.shape
    grouped = q.reshape(rows, k.shape[1], -1, head_dim)
    scores = np.einsum("ighd,jgd->ghij", grouped, k) / np.sqrt(head_dim)
    future = np.arange(len(k)) > np.arange(rows)[:, None] + len(k) - rows
    scores[..., future] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    o: Rows = np.einsum("ghij,jgd->ighd", weights, v).reshape(rows, q_heads, head_dim)
    return o
