"""The model with every attention done by a Tessera server: one call for each text and layer, all texts in flight."""

from __future__ import annotations

import functools
import queue
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

import tessera
from model import Floats, MiniLM


@dataclass
class Embedded:
    embeddings: Floats  # [texts, hidden]
    calls: int
    max_in_flight: int


class RemoteEmbedder:
    """Texts move through the layers on their own: a call's answer lets its text go on, whatever the others do.

    Answers that have come in by the time the processor is free go on together, `group` of them at least (or all that
    are out), since a product of many rows costs little more than one of few.
    """

    def __init__(self, client: tessera.Client, model: MiniLM, *, group: int) -> None:
        self._client = client
        self._model = model
        self._group = group
        self._answers: queue.SimpleQueue[tuple[int, int, Future[tessera.Attention]]] = queue.SimpleQueue()
        self._in_flight = 0

    def embed(self, texts: Sequence[list[int]]) -> Embedded:
        """Token ids to embeddings."""
        hidden = [self._model.embed(ids) for ids in texts]
        result = Embedded(np.empty((len(texts), hidden[0].shape[1]), np.float32), 0, 0)
        self._ask(0, range(len(texts)), hidden, result)
        while self._in_flight:
            for layer, attention in self._collect().items():
                self._advance(layer, attention, hidden)
                if layer + 1 < self._model.layers:
                    self._ask(layer + 1, list(attention), hidden, result)
                else:
                    for i in attention:
                        result.embeddings[i] = self._model.pool(hidden[i])
        return result

    def _ask(self, layer: int, which: Sequence[int], hidden: list[Floats], result: Embedded) -> None:
        """Sends the calls of `layer` for the texts `which`, the longest first: they take the server longest."""
        which = sorted(which, key=lambda i: -len(hidden[i]))
        q, k, v = self._model.project(layer, np.concatenate([hidden[i] for i in which]))
        calls = []
        start = 0
        for i in which:
            rows = slice(start, start + len(hidden[i]))
            start = rows.stop
            calls.append(tessera.AttendCall(q[rows], k[rows], v[rows]))
        self._in_flight += len(calls)
        result.calls += len(calls)
        result.max_in_flight = max(result.max_in_flight, self._in_flight)
        for i, pending in zip(which, self._client.submit_all(calls)):
            pending.add_done_callback(functools.partial(self._arrived, layer, i))

    def _arrived(self, layer: int, i: int, answer: Future[tessera.Attention]) -> None:
        """On a thread of the client."""
        self._answers.put((layer, i, answer))

    def _collect(self) -> dict[int, dict[int, Floats]]:
        """Waits for answers. Layer to text to o."""
        collected: dict[int, dict[int, Floats]] = defaultdict(dict)
        taken = 0
        while taken < min(self._group, self._in_flight) or not self._answers.empty():
            layer, i, answer = self._answers.get()
            collected[layer][i] = answer.result().o
            taken += 1
        self._in_flight -= taken
        return collected

    def _advance(self, layer: int, attention: dict[int, Floats], hidden: list[Floats]) -> None:
        """Finishes `layer` for the texts whose attention is in."""
        tokens = np.concatenate([hidden[i] for i in attention])
        finished = self._model.finish(layer, tokens, np.concatenate(list(attention.values())))
        bounds = np.cumsum([len(hidden[i]) for i in attention])[:-1]
        for i, part in zip(attention, np.split(finished, bounds)):
            hidden[i] = part
