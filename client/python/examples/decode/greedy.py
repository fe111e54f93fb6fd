"""The likeliest token, one after the other, of several prompts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attention import K
from decoder import Decoder
from weights import Floats


@dataclass
class Generated:
    """tokens: [prompts][new tokens]. logits: [prompts, new tokens, vocabulary], those that each token was chosen by."""

    tokens: list[list[int]]
    logits: Floats


def generate(
    decoder: Decoder[K],
    prompts: Sequence[Sequence[int]],
    count: int,
    *,
    chunk: int,
    forced: Sequence[Sequence[int]] | None = None,
) -> Generated:
    """`count` tokens after each prompt. With `forced` these are the ones that the next logits come after, whatever
    those before them say: so the logits of two decoders can be compared beyond the first token in which they differ.
    """
    kept = decoder.attention.create(len(prompts))
    try:
        logits = [decoder.prefill(kept, prompts, chunk)]
        tokens = [[int(token)] for token in logits[0].argmax(axis=-1)]
        for i in range(1, count):
            given = forced if forced is not None else tokens
            lengths = [len(prompt) + i - 1 for prompt in prompts]
            logits.append(decoder.step(kept, [one[i - 1] for one in given], lengths))
            for one, token in zip(tokens, logits[-1].argmax(axis=-1)):
                one.append(int(token))
    finally:
        for each in kept:
            each.release()
    return Generated(tokens, np.stack(logits, axis=1))
