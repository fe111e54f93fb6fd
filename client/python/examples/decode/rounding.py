"""How rows are rounded on their way to the server's pages, and so are here: the same values, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]

_LARGEST_FLOAT8 = 448.0
_FRACTION_BITS = {"float32": 23, "float16": 10, "bfloat16": 7, "float8_e4m3": 3}
_LEAST_EXPONENT = {"float32": -126, "float16": -14, "bfloat16": -126, "float8_e4m3": -6}


def to(dtype: str, x: npt.ArrayLike) -> Rows:
    """To nearest even. Of what is too large only fp8 is right: it becomes the largest value."""
    x = np.asarray(x, np.float64)
    if dtype == "float8_e4m3":
        x = np.clip(x, -_LARGEST_FLOAT8, _LARGEST_FLOAT8)
    _, exponents = np.frexp(x)  # x = m 2^e, 1/2 <= m < 1
    last_bit = np.ldexp(1.0, np.maximum(exponents - 1, _LEAST_EXPONENT[dtype]) - _FRACTION_BITS[dtype])
    rounded: Rows = np.rint(x / last_bit) * last_bit
    return rounded


@dataclass(frozen=True)
class Rounding:
    """dtype: of q, k, v and o on the wire; kv_dtype is the pages'. scales: of fp8, [layers, 2, kv_heads]."""

    dtype: str
    kv_dtype: str
    scales: npt.NDArray[np.float32] | None = None

    def wire(self, x: npt.ArrayLike) -> Rows:
        return to(self.dtype, x)

    def keys(self, layer: int, k: npt.ArrayLike) -> Rows:
        return self._page(layer, 0, k)

    def values(self, layer: int, v: npt.ArrayLike) -> Rows:
        return self._page(layer, 1, v)

    def _page(self, layer: int, plane: int, rows: npt.ArrayLike) -> Rows:
        sent = to(self.dtype, rows)
        if self.kv_dtype != "float8_e4m3":
            return sent
        if self.scales is None:
            return to("float8_e4m3", sent)
        scale = self.scales[layer, plane][:, None]
        # The quotient is rounded to float32 before it is to fp8, as on the server.
        kept: Rows = to("float8_e4m3", sent.astype(np.float32) / scale) * scale
        return kept
