"""What a decoder asks of whoever keeps its keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from weights import Floats

K = TypeVar("K", bound="Kept")


class Kept(Protocol):
    """A sequence's keys and values, of all layers."""

    def fork(self: K) -> K:
        """A sequence that begins as this one does now."""
        ...

    def truncate(self, length: int) -> None:
        """Keeps the first `length` tokens."""
        ...

    def release(self) -> None:
        """Ends it. Once more does nothing."""
        ...


class Attention(Protocol[K]):
    def create(self, count: int) -> Sequence[K]: ...

    def extend(
        self, layer: int, kept: Sequence[K], q: Sequence[Floats], k: Sequence[Floats], v: Sequence[Floats]
    ) -> Sequence[Floats]:
        """Appends the rows k and v of new tokens to a layer of each sequence, then attends q to all that is there,
        causal. o, of q's shapes.
        """
        ...
