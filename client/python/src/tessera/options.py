"""Masks, priorities and the other options of a call, in Python's terms, and their checks."""

from __future__ import annotations

import enum
import math
from operator import index
from typing import Union

from tessera.v1 import tensor_pb2

# Keys before and after a row's own position that it sees, both ends included; -1 is unbounded. A single number stands
# for both sides.
Window = Union[int, tuple[int, int]]


class Priority(enum.IntEnum):
    """How urgently a call is wanted; within one priority, tenants share the server by cost."""

    LOW = tensor_pb2.PRIORITY_LOW
    NORMAL = tensor_pb2.PRIORITY_NORMAL
    HIGH = tensor_pb2.PRIORITY_HIGH


def make_mask(causal: bool, window: Window | None) -> tensor_pb2.Mask:
    """With both, a row sees the keys that both let it see: those of the window up to its own position."""
    if window is None:
        return tensor_pb2.Mask(kind=tensor_pb2.MASK_KIND_CAUSAL if causal else tensor_pb2.MASK_KIND_FULL)
    left, right = window if isinstance(window, (tuple, list)) else (window, window)
    left, right = index(left), index(right)
    if left < -1 or right < -1:
        raise ValueError(f"window is {window}; each side must be -1 (unbounded) or more")
    if causal:
        right = 0
    return tensor_pb2.Mask(kind=tensor_pb2.MASK_KIND_WINDOW, window_left=left, window_right=right)


def make_options(
    *,
    causal: bool,
    window: Window | None,
    scale: float | None,
    softcap: float,
    return_lse: bool,
    priority: Priority,
) -> tensor_pb2.AttentionOptions:
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale is {scale}; must be finite")
    if not math.isfinite(softcap) or softcap < 0:
        raise ValueError(f"softcap is {softcap}; must be finite and not negative")
    return tensor_pb2.AttentionOptions(
        scale=scale,
        mask=make_mask(causal, window),
        softcap=softcap,
        return_lse=return_lse,
        priority=tensor_pb2.Priority.Name(Priority(priority)),
    )
