"""The server's mean batch size, and how long its requests waited for one, from its metrics."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass

_REQUESTS = re.compile(r"^tessera_batch_requests_(sum|count)(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_SECONDS = re.compile(r'^tessera_stage_seconds_sum\{(?:[^}]*,)?stage="(queue|compute)"[^}]*\} (\S+)', re.MULTILINE)


@dataclass(frozen=True)
class Batches:
    """Batches that a server has run, the requests in them, the seconds that the requests waited in the queue and those
    that the batches computed, all added up."""

    requests: float = 0.0
    batches: float = 0.0
    queue: float = 0.0
    compute: float = 0.0

    def since(self, earlier: Batches) -> Batches:
        return Batches(
            self.requests - earlier.requests,
            self.batches - earlier.batches,
            self.queue - earlier.queue,
            self.compute - earlier.compute,
        )

    @property
    def mean(self) -> float:
        return self.requests / self.batches if self.batches else 0.0

    @property
    def wait(self) -> float:
        """How many batches a request waited for, in the mean. One by one, n requests wait for n / 2; batched, for one
        or two. Where the server keeps up with its caller, there is nothing to wait for and nothing to batch."""
        if not self.batches or not self.compute:
            return 0.0
        return (self.queue / self.requests) / (self.compute / self.batches)


def parse(exposition: str) -> Batches:
    """From the text of /metrics; all label sets added up."""
    totals = dict.fromkeys(("sum", "count", "queue", "compute"), 0.0)
    for kind, value in _REQUESTS.findall(exposition) + _SECONDS.findall(exposition):
        totals[kind] += float(value)
    return Batches(totals["sum"], totals["count"], totals["queue"], totals["compute"])


def read(url: str) -> Batches:
    with urllib.request.urlopen(url, timeout=10) as response:
        return parse(response.read().decode())
