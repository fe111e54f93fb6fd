"""What must be the same through a server as here, for one profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

import beams
import greedy
import speculative
from attention import Kept
from decoder import Decoder

Here = TypeVar("Here", bound=Kept)
There = TypeVar("There", bound=Kept)


@dataclass(frozen=True)
class Task:
    prompts: Sequence[Sequence[int]]
    tokens: int  # after each prompt
    chunk: int  # tokens of a prefill that the server gets at a time
    width: int  # beams
    guesses: int


@dataclass(frozen=True)
class Check:
    good: bool
    claim: str


def same_tokens(here: Decoder[Here], there: Decoder[There], together: Decoder[There], task: Task) -> list[Check]:
    """`here` rounds as the server's pages do. There, prompts come in chunks, here each at once."""
    longest = max(map(len, task.prompts))
    expected = greedy.generate(here, task.prompts, task.tokens, chunk=longest)
    answer = greedy.generate(there, task.prompts, task.tokens, chunk=task.chunk)
    error = np.abs(answer.logits - expected.logits).max()
    checks = [
        Check(
            answer.tokens == expected.tokens,
            f"{len(task.prompts)} prompts x {task.tokens} tokens, all at once over a stream, prefill in chunks of "
            f"{task.chunk}: logits differ by {error:.1e} at most, least margin of a token {margin(expected):.1e}",
        )
    ]
    answer = greedy.generate(together, task.prompts, task.tokens, chunk=task.chunk)
    checks.append(Check(answer.tokens == expected.tokens, "all prompts' rows of a layer in one call"))

    found = beams.search(there, task.prompts[0], task.tokens // 2, width=task.width, chunk=task.chunk)
    wanted = beams.search(here, task.prompts[0], task.tokens // 2, width=task.width, chunk=longest)
    checks.append(
        Check(
            [beam.tokens for beam in found] == [beam.tokens for beam in wanted],
            f"{task.width} beams of {task.tokens // 2} tokens: log-probabilities differ by "
            f"{max(abs(a.score - b.score) for a, b in zip(found, wanted)):.1e} at most",
        )
    )
    for name, draft in (
        ("what came before", speculative.lookup(task.guesses)),
        ("two thirds right", speculative.half_knowing(task.prompts[0], expected.tokens[0], task.guesses, seed=1)),
    ):
        result = speculative.generate(there, task.prompts[0], task.tokens, draft, chunk=task.chunk)
        checks.append(
            Check(
                result.tokens == expected.tokens[0],
                f"guesses ({name}): {result.accepted} of {result.guessed} accepted, {result.steps} steps for "
                f"{task.tokens} tokens",
            )
        )
    return checks


def margin(generated: greedy.Generated) -> float:
    """By how much the second best logit misses, where it misses least."""
    best = np.partition(generated.logits, -2, axis=-1)[..., -2:]
    return float((best[..., 1] - best[..., 0]).min())


@dataclass(frozen=True)
class RoundingError:
    """Of logits, in units of their own standard deviation: root mean square, and the largest one."""

    mean: float
    largest: float
    agreeing: int
    tokens: int


def rounding_error(exact: greedy.Generated, there: Decoder[There], task: Task) -> RoundingError:
    """What the server's types cost against float32 throughout, given the same tokens before."""
    answer = greedy.generate(there, task.prompts, task.tokens, chunk=task.chunk, forced=exact.tokens)
    error = (answer.logits - exact.logits) / exact.logits.std(axis=-1, keepdims=True)
    agreeing = np.array(answer.tokens) == np.array(exact.tokens)
    return RoundingError(
        float(np.sqrt(np.square(error).mean())), float(np.abs(error).max()), int(agreeing.sum()), agreeing.size
    )
