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


def same_tokens(
    here: Decoder[Here], there: Decoder[There], together: Decoder[There], task: Task, tie: float = 0.0
) -> list[Check]:
    """`here` rounds as the server's pages do. There, prompts come in chunks, here each at once.

    tie: how much less than the best a token's logit may be, in units of the logits' standard deviation, that is chosen
    in its stead; tokens after that one are not compared. The server adds up in float32, so now and then an element
    of o rounds the other way, and the layers that follow make more of that.
    """
    longest = max(map(len, task.prompts))
    expected = greedy.generate(here, task.prompts, task.tokens, chunk=longest)
    answer = greedy.generate(there, task.prompts, task.tokens, chunk=task.chunk)
    ties = [Tie.find(expected, i, tokens) for i, tokens in enumerate(answer.tokens)]
    error = max(
        np.abs(answer.logits[i, : each.at + 1] - expected.logits[i, : each.at + 1]).max() for i, each in enumerate(ties)
    )
    checks = [
        Check(
            all(each.by <= tie for each in ties),
            f"{len(task.prompts)} prompts x {task.tokens} tokens, all at once over a stream, prefill in chunks of "
            f"{task.chunk}: {sum(each.at for each in ties)} of {len(ties) * task.tokens} tokens are the same"
            f"{_of_ties(ties)}; logits differ by {error:.1e} at most, least margin of a token {margin(expected):.1e}",
        )
    ]
    again = greedy.generate(together, task.prompts, task.tokens, chunk=task.chunk)
    checks.append(
        Check(np.array_equal(again.logits, answer.logits), "all prompts' rows of a layer in one call: the same bits")
    )

    length = task.tokens // 2
    found = beams.search(there, task.prompts[0], length, width=task.width, chunk=task.chunk)
    wanted = beams.search(here, task.prompts[0], length, width=task.width, chunk=longest)
    same = sum(a.tokens == b.tokens for a, b in zip(found, wanted))
    differ = max(abs(a.score - b.score) for a, b in zip(found, wanted))
    checks.append(
        Check(
            same == task.width or differ <= beams_tie(expected, 0, length, tie),
            f"{task.width} beams of {length} tokens: {same} are the same, log-probabilities differ by "
            f"{differ:.1e} at most",
        )
    )
    for name, draft in (
        ("what came before", speculative.lookup(task.guesses)),
        ("two thirds right", speculative.mostly_knowing(task.prompts[0], expected.tokens[0], task.guesses, seed=1)),
    ):
        result = speculative.generate(there, task.prompts[0], task.tokens, draft, chunk=task.chunk)
        met = Tie.find(expected, 0, result.tokens)
        checks.append(
            Check(
                met.by <= tie,
                f"guesses ({name}): {result.accepted} of {result.guessed} accepted, {result.steps} steps for "
                f"{task.tokens} tokens, {met.at} of them the same{_of_ties([met])}",
            )
        )
    return checks


@dataclass(frozen=True)
class Tie:
    """Where tokens first differ from those expected, and by how much the other one's logit was less than the best, in
    units of their standard deviation. `at` is the number of tokens, and `by` zero, where they are the same.
    """

    at: int
    by: float

    @staticmethod
    def find(expected: greedy.Generated, prompt: int, tokens: Sequence[int]) -> Tie:
        for i, (token, wanted) in enumerate(zip(tokens, expected.tokens[prompt])):
            if token != wanted:
                logits = expected.logits[prompt, i]
                return Tie(i, float((logits.max() - logits[token]) / logits.std()))
        return Tie(len(tokens), 0.0)


def beams_tie(expected: greedy.Generated, prompt: int, length: int, tie: float) -> float:
    """By how much the log-probabilities of beams of `length` tokens may differ, each token's logit by `tie` standard
    deviations of the logits.
    """
    return tie * length * float(expected.logits[prompt].std(axis=-1).mean())


def _of_ties(ties: Sequence[Tie]) -> str:
    met = [f"{each.by:.1e}" for each in ties if each.by > 0]
    return f" (less than a deviation's {', '.join(met)} apart where they first differ)" if met else ""


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
