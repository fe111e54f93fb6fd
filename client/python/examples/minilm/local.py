"""The model computed here alone: what the server's answers are measured against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model import Floats, MiniLM


def attend(q: Floats, k: Floats, v: Floats) -> Floats:
    """Standard attention of one text. All [tokens, heads, head_dim]."""
    scores = np.einsum("ihd,jhd->hij", q, k) / np.float32(np.sqrt(q.shape[-1]))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    o: Floats = np.einsum("hij,jhd->ihd", weights, v)
    return o


def embed(model: MiniLM, texts: Sequence[list[int]]) -> Floats:
    """Token ids to embeddings. [texts, hidden]"""
    bounds = np.cumsum([len(ids) for ids in texts])[:-1]
    hidden = np.concatenate([model.embed(ids) for ids in texts])
    for layer in range(model.layers):
        parts = zip(*(np.split(tensor, bounds) for tensor in model.project(layer, hidden)))
        hidden = model.finish(layer, hidden, np.concatenate([attend(q, k, v) for q, k, v in parts]))
    return np.stack([model.pool(part) for part in np.split(hidden, bounds)])
