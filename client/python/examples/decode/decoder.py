"""The whole model: tokens in, logits out, attention by somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

import numpy as np

from attention import Attention, K
from llama import Llama
from weights import Floats


class Decoder(Generic[K]):
    def __init__(self, model: Llama, attention: Attention[K]) -> None:
        self._model = model
        self.attention = attention

    def run(self, kept: Sequence[K], ids: Sequence[Sequence[int]], starts: Sequence[int]) -> list[Floats]:
        """Appends tokens to each of several sequences, that are `starts` tokens long. The last layer's rows, [tokens,
        hidden] for each.
        """
        bounds = np.cumsum([len(part) for part in ids])[:-1]
        positions = np.concatenate([start + np.arange(len(part)) for start, part in zip(starts, ids)])
        hidden = self._model.embed(np.concatenate(ids))
        for layer in range(self._model.shape.layers):
            q, k, v = (np.split(rows, bounds) for rows in self._model.project(layer, hidden, positions))
            o = self.attention.extend(layer, kept, q, k, v)
            hidden = self._model.finish(layer, hidden, np.concatenate(o))
        return np.split(hidden, bounds)

    def logits(self, hidden: Floats) -> Floats:
        """[tokens, vocabulary]"""
        return self._model.logits(hidden)

    def prefill(self, kept: Sequence[K], prompts: Sequence[Sequence[int]], chunk: int) -> Floats:
        """Prompts into empty sequences, `chunk` tokens of each at a time. The logits after each, [prompts, vocabulary].

        REQUIRES: no prompt is empty.
        """
        last: list[Floats] = [np.empty(0)] * len(prompts)
        for start in range(0, max(map(len, prompts)), chunk):
            going = [i for i, prompt in enumerate(prompts) if start < len(prompt)]
            parts = [prompts[i][start : start + chunk] for i in going]
            for i, hidden in zip(going, self.run([kept[i] for i in going], parts, [start] * len(going))):
                last[i] = hidden[-1]
        return self.logits(np.stack(last))

    def step(self, kept: Sequence[K], tokens: Sequence[int], lengths: Sequence[int]) -> Floats:
        """One more token for each sequence of these lengths. The logits after it, [sequences, vocabulary]."""
        hidden = self.run(kept, [[token] for token in tokens], lengths)
        return self.logits(np.concatenate(hidden))
