"""A Llama (RMSNorm, rotary positions, grouped queries, SwiGLU) in numpy, with attention left out.

Works on the tokens of any number of sequences laid end to end: outside attention, no token sees another. Computes in
the weights' own type, float32 or float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weights import Floats, Weights

Positions = npt.NDArray[np.int64]


class Llama:
    def __init__(self, weights: Weights) -> None:
        self.shape = weights.shape
        self._weights = weights
        pairs = np.arange(self.shape.head_dim // 2)
        self._frequencies = self.shape.rope_base ** (-2.0 * pairs / self.shape.head_dim)

    def embed(self, ids: npt.ArrayLike) -> Floats:
        """[tokens, hidden]"""
        hidden: Floats = self._weights.embedding[np.asarray(ids)]
        return hidden

    def project(self, layer: int, hidden: Floats, positions: Positions) -> tuple[Floats, Floats, Floats]:
        """q [tokens, q_heads, head_dim], k and v [tokens, kv_heads, head_dim] of a layer's attention."""
        weights = self._weights.layers[layer]
        x = self._norm(weights.attention_norm, hidden)
        q, k, v = (
            (x @ matrix.T).reshape(len(x), -1, self.shape.head_dim) for matrix in (weights.q, weights.k, weights.v)
        )
        return self._rotate(q, positions), self._rotate(k, positions), v

    def finish(self, layer: int, hidden: Floats, attention: Floats) -> Floats:
        """What the layer makes of its input and its attention's o. [tokens, hidden]"""
        weights = self._weights.layers[layer]
        hidden = hidden + attention.reshape(len(hidden), -1).astype(hidden.dtype) @ weights.o.T
        x = self._norm(weights.feed_forward_norm, hidden)
        gate = x @ weights.gate.T
        wide = gate / (1 + np.exp(-gate)) * (x @ weights.up.T)
        finished: Floats = hidden + wide @ weights.down.T
        return finished

    def logits(self, hidden: Floats) -> Floats:
        """Of the last layer's output. [tokens, vocabulary]"""
        logits: Floats = self._norm(self._weights.norm, hidden) @ self._weights.output.T
        return logits

    def _norm(self, weight: Floats, x: Floats) -> Floats:
        mean_square = np.square(x).mean(axis=-1, keepdims=True)
        y: Floats = x / np.sqrt(mean_square + x.dtype.type(self.shape.epsilon)) * weight
        return y

    def _rotate(self, x: Floats, positions: Positions) -> Floats:
        """Turns each pair of neighbouring elements by an angle of its token's position."""
        angles = positions[:, None, None] * self._frequencies
        cosine, sine = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = np.empty_like(x)
        turned[..., 0::2] = even * cosine - odd * sine
        turned[..., 1::2] = even * sine + odd * cosine
        return turned
