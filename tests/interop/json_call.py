"""A call in protobuf's JSON, whose answer is known."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parents[2] / ".tools" / "go" / "bin"


def encode(values: list[float]) -> str:
    """A float32 tensor."""
    return b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def decode(tensor: str) -> list[float]:
    raw = b64decode(tensor)
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def attend_request() -> dict[str, Any]:
    """One query over two keys that it sees alike: o is the mean of v, 2 everywhere, and the LSE is ln 2.

    Field names are the protocol's: the descriptors that the server reflects have no others.
    """
    return {
        "header": {
            "dtype": "DATA_TYPE_FLOAT32",
            "q_heads": 1,
            "kv_heads": 1,
            "head_dim": 8,
            "q_lengths": [1],
            "kv_lengths": [2],
            "options": {"return_lse": True},
        },
        "q": encode([0.0] * 8),
        "k": encode([0.0] * 16),
        "v": encode([1.0] * 8 + [3.0] * 8),
    }
