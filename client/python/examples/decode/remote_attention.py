"""Attention by a Tessera server, which keeps the keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import rounding
import tessera
from weights import Floats, Shape


class RemoteAttention:
    """Steps of one layer on several sequences go as a call each, over one stream: all are in flight at once, as those
    of independent callers would be. With `together` they are one call instead, in one message.
    """

    def __init__(self, client: tessera.Client, profile: str, *, together: bool = False) -> None:
        self._client = client
        self._profile = profile
        self._stream = None if together else client.extend_stream()
        self.calls = 0
        self.batched = 0  # calls that shared a batch with others, by what their answers say

    def create(self, count: int) -> Sequence[tessera.ResidentSequence]:
        return self._client.create_sequences(self._profile, count)

    def extend(
        self,
        layer: int,
        kept: Sequence[tessera.ResidentSequence],
        q: Sequence[Floats],
        k: Sequence[Floats],
        v: Sequence[Floats],
    ) -> Sequence[Floats]:
        dtype = _element(kept[0].profile.dtype)

        def sent(x: Floats) -> npt.NDArray[np.generic]:
            return rounding.to(dtype.name, x).astype(dtype)

        steps = [tessera.Step(one, layer, *map(sent, rows)) for one, *rows in zip(kept, q, k, v)]
        if self._stream is None:
            answers = [self._client.extend(steps)]
        else:
            pending = [self._stream.submit([step]) for step in steps]
            answers = [each.result() for each in pending]
        self.calls += len(answers)
        self.batched += sum(answer.timing.batch_requests > 1 for answer in answers)
        return [o.astype(np.float64) for answer in answers for o in answer.o]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


def _element(name: str) -> np.dtype[np.generic]:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes  # only here: whoever has float16 profiles does not need it

    element: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
    return element


def check_profile(profile: tessera.Profile, shape: Shape, max_tokens: int) -> None:
    """ValueError where the profile is not for the model."""
    mine = (shape.layers, shape.kv_heads, shape.head_dim)
    theirs = (profile.layers, profile.kv_heads, profile.head_dim)
    if mine != theirs:
        raise ValueError(f"profile {profile.name} has layers, kv_heads, head_dim = {theirs}; the model has {mine}")
    if profile.max_tokens < max_tokens:
        raise ValueError(f"profile {profile.name} has max_tokens = {profile.max_tokens}; {max_tokens} are needed")
