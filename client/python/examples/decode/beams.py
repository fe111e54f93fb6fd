"""Beam search: sequences that fork where several of the best continuations share a beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from attention import K
from decoder import Decoder
from weights import Floats


@dataclass
class Beam(Generic[K]):
    kept: K
    tokens: list[int]
    score: float  # log-probability


def search(decoder: Decoder[K], prompt: Sequence[int], count: int, *, width: int, chunk: int) -> list[Beam[K]]:
    """The best `width` continuations of `count` tokens, best first; their sequences are released."""
    (trunk,) = decoder.attention.create(1)
    beams = [Beam(trunk, [], 0.0)]
    try:
        logits = decoder.prefill([trunk], [prompt], chunk)
        for i in range(count):
            beams = _choose(beams, _log_probabilities(logits), width)
            if i + 1 < count:
                lengths = [len(prompt) + i] * len(beams)
                logits = decoder.step([beam.kept for beam in beams], [beam.tokens[-1] for beam in beams], lengths)
    finally:
        for beam in beams:
            beam.kept.release()
    return beams


def _choose(beams: list[Beam[K]], log_probabilities: Floats, width: int) -> list[Beam[K]]:
    """The best continuations by one token. Sequences without one are released, those with several forked. Where that
    fails there are no more forks than before.
    """
    scores = np.array([[beam.score] for beam in beams]) + log_probabilities
    best = np.argsort(-scores, axis=None, kind="stable")[:width]
    parents, tokens = np.unravel_index(best, scores.shape)
    chosen: list[Beam[K]] = []
    forks: list[K] = []
    used: set[int] = set()
    try:
        for parent, token in zip(parents.tolist(), tokens.tolist()):
            beam = beams[parent]
            kept = beam.kept
            if parent in used:
                kept = kept.fork()
                forks.append(kept)
            used.add(parent)
            chosen.append(Beam(kept, [*beam.tokens, token], float(scores[parent, token])))
        for parent, beam in enumerate(beams):
            if parent not in used:
                beam.kept.release()
    except BaseException:
        for fork in forks:
            fork.release()
        raise
    return chosen


def _log_probabilities(logits: Floats) -> Floats:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
