"""The server's mean batch size, from its metrics."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass

_SAMPLE = re.compile(r"^tessera_batch_requests_(sum|count)(?:\{[^}]*\})? (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Batches:
    """Batches that a server has run, and the requests in them."""

    requests: float
    batches: float

    def since(self, earlier: Batches) -> Batches:
        return Batches(self.requests - earlier.requests, self.batches - earlier.batches)

    @property
    def mean(self) -> float:
        return self.requests / self.batches if self.batches else 0.0


def parse(exposition: str) -> Batches:
    """From the text of /metrics; all label sets added up."""
    totals = {"sum": 0.0, "count": 0.0}
    for kind, value in _SAMPLE.findall(exposition):
        totals[kind] += float(value)
    return Batches(totals["sum"], totals["count"])


def read(url: str) -> Batches:
    with urllib.request.urlopen(url, timeout=10) as response:
        return parse(response.read().decode())
