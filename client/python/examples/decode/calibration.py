"""Scales for keys and values that are kept as fp8: one for each layer's key head, K's and V's apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from decoder import Decoder
from llama import Llama
from local_attention import LocalAttention
from rounding import Rounding
from weights import Floats

Scales = npt.NDArray[np.float32]  # [layers, 2, kv_heads]

_LARGEST_FLOAT8 = 448.0
# How many times larger than the largest element seen another one may be before it is cut off.
_HEADROOM = 2.0


def measure(model: Llama, prompts: Sequence[Sequence[int]]) -> Scales:
    """From the largest elements that the prompts give rise to."""
    shape = model.shape
    largest = np.full((shape.layers, 2, shape.kv_heads), 1e-6)

    def watch(layer: int, k: Floats, v: Floats) -> None:
        for plane, rows in enumerate((k, v)):
            np.maximum(largest[layer, plane], np.abs(rows).max(axis=(0, 2)), out=largest[layer, plane])

    decoder = Decoder(model, LocalAttention(shape, Rounding("float32", "float32"), watch))
    decoder.prefill(decoder.attention.create(len(prompts)), prompts, max(map(len, prompts)))
    return (largest * _HEADROOM / _LARGEST_FLOAT8).astype(np.float32)


def write(scales: Scales, path: Path) -> None:
    """As --kv_profiles reads it: a layer's line has K's scales, then V's."""
    np.savetxt(path, scales.reshape(len(scales), -1), fmt="%.9g")


def read(path: Path, shape: tuple[int, int]) -> Scales:
    """shape: layers and kv_heads. ValueError where the file is of others."""
    layers, kv_heads = shape
    return np.loadtxt(path, np.float32, ndmin=2).reshape(layers, 2, kv_heads)
