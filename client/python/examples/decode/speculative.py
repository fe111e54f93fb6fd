"""Greedy decoding that guesses ahead: guesses are verified in one step of several rows, wrong ones rolled back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from attention import K
from decoder import Decoder

# Tokens that may follow those given (the prompt and what has been generated), the likeliest continuation.
Draft = Callable[[Sequence[int]], Sequence[int]]


@dataclass
class Speculated:
    tokens: list[int]
    steps: int
    guessed: int
    accepted: int


def generate(decoder: Decoder[K], prompt: Sequence[int], count: int, draft: Draft, *, chunk: int) -> Speculated:
    """`count` tokens, the same as without guesses."""
    (kept,) = decoder.attention.create(1)
    try:
        result = Speculated([int(decoder.prefill([kept], [prompt], chunk)[0].argmax())], 0, 0, 0)
        length = len(prompt)  # of the sequence, which lacks the last token
        while len(result.tokens) < count:
            guesses = list(draft([*prompt, *result.tokens]))[: count - len(result.tokens) - 1]
            (hidden,) = decoder.run([kept], [[result.tokens[-1], *guesses]], [length])
            answers = decoder.logits(hidden).argmax(axis=-1).tolist()
            right = 0
            while right < len(guesses) and guesses[right] == answers[right]:
                right += 1
            # The rows after the first wrong guess saw what is not there.
            result.tokens += answers[: right + 1]
            length += right + 1
            if right < len(guesses):
                kept.truncate(length)
            result.steps += 1
            result.guessed += len(guesses)
            result.accepted += right
    finally:
        kept.release()
    return result


def lookup(length: int) -> Draft:
    """Guesses that what followed the last two tokens before follows them again."""

    def guess(tokens: Sequence[int]) -> Sequence[int]:
        for at in range(len(tokens) - 3, -1, -1):
            if tokens[at : at + 2] == tokens[-2:]:
                return tokens[at + 2 : at + 2 + length]
        return [tokens[-1]] * length

    return guess


def mostly_knowing(prompt: Sequence[int], answer: Sequence[int], length: int, seed: int) -> Draft:
    """Guesses the known answer, a third of its tokens replaced by others."""
    rng = np.random.default_rng(seed)
    known = [*prompt, *answer]

    def guess(tokens: Sequence[int]) -> Sequence[int]:
        guesses = known[len(tokens) : len(tokens) + length]
        # Another token of the vocabulary: the one before, and 1 for 0.
        return [abs(token - 1) if rng.random() < 1 / 3 else token for token in guesses]

    return guess
