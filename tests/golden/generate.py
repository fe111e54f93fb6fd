#!/usr/bin/env python3
"""Writes the golden vectors; README.md beside this file describes them."""

import argparse
import dataclasses
import json
import pathlib
import struct
import sys

import numpy as np

VECTORS = pathlib.Path(__file__).parent / "vectors"

# ---- elements ----------------------------------------------------------------------------------------------------


def bfloat16_bits(x):
    """float32 to the bits of bfloat16, round to nearest even; NaN stays NaN."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def encode_elements(x, dtype):
    """The little-endian bytes of `x` in `dtype`, and what they stand for in float64."""
    if dtype == "bfloat16":
        bits = bfloat16_bits(x)
        values = (bits.astype(np.uint32) << 16).view(np.float32)
        return bits.astype("<u2").tobytes(), values.astype(np.float64)
    rounded = x.astype({"float32": "<f4", "float16": "<f2"}[dtype])
    return rounded.tobytes(), rounded.astype(np.float64)


# ---- the protobuf wire format ------------------------------------------------------------------------------------

DTYPES = {"float32": 1, "float16": 2, "bfloat16": 3}
MASKS = {"full": 1, "causal": 2, "window": 3}


def varint(value):
    value &= (1 << 64) - 1  # negative int64: two's complement
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(number, value):
    return varint(number << 3) + varint(value) if value else b""


def float_field(number, value):
    return varint(number << 3 | 5) + struct.pack("<f", value)


def bytes_field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def packed_field(number, values):
    return bytes_field(number, b"".join(varint(v) for v in values)) if values else b""


def encode_mask(mask, left, right):
    return varint_field(1, MASKS[mask]) + varint_field(2, left) + varint_field(3, right)


def encode_options(case):
    out = b""
    if case.scale is not None:
        out += float_field(1, case.scale)
    out += bytes_field(2, encode_mask(case.mask, case.window_left, case.window_right))
    if case.softcap != 0:
        out += float_field(3, case.softcap)
    return out + varint_field(4, int(case.return_lse))


def encode_header(case):
    return (
        varint_field(1, DTYPES[case.dtype])
        + varint_field(2, case.q_heads)
        + varint_field(3, case.kv_heads)
        + varint_field(4, case.head_dim)
        + packed_field(5, case.q_lengths)
        + (packed_field(6, case.kv_lengths) if case.kv_lengths != case.q_lengths else b"")
        + bytes_field(7, encode_options(case))
    )


def encode_request(header, q, k, v):
    out = bytes_field(1, header)
    for number, payload in ((13, q), (14, k), (15, v)):
        if payload:
            out += bytes_field(number, payload)
    return out


# ---- attention in float64 ----------------------------------------------------------------------------------------


def visible(case, q_length, kv_length):
    """[q_length, kv_length] booleans, bottom-right aligned."""
    p = np.arange(q_length)[:, None] + kv_length - q_length
    j = np.arange(kv_length)[None, :]
    if case.mask == "full":
        return np.ones((q_length, kv_length), bool)
    if case.mask == "causal":
        return j <= p
    seen = np.ones((q_length, kv_length), bool)
    if case.window_left != -1:
        seen &= j >= p - case.window_left
    if case.window_right != -1:
        seen &= j <= p + case.window_right
    return seen


def attend_row(q, k, v, scale, softcap):
    """One row against the keys that it sees: its o and LSE."""
    if len(k) == 0:
        return np.zeros(v.shape[1]), -np.inf
    scores = scale * (k @ q)
    if softcap > 0:
        scores = softcap * np.tanh(scores / softcap)
    peak = scores.max()
    weights = np.exp(scores - peak)
    total = weights.sum()
    return weights @ v / total, peak + np.log(total)


def attend(case, q, k, v):
    scale = np.float32(1 / np.sqrt(case.head_dim)) if case.scale is None else np.float32(case.scale)
    o = np.zeros(q.shape)
    lse = np.zeros(q.shape[:2])
    group = case.q_heads // case.kv_heads
    q_start = kv_start = 0
    for q_length, kv_length in zip(case.q_lengths, case.kv_lengths):
        seen = visible(case, q_length, kv_length)
        for i in range(q_length):
            for h in range(case.q_heads):
                keys = slice(kv_start, kv_start + kv_length)
                row = attend_row(
                    q[q_start + i, h],
                    k[keys, h // group][seen[i]],
                    v[keys, h // group][seen[i]],
                    float(scale),
                    case.softcap,
                )
                o[q_start + i, h], lse[q_start + i, h] = row
        q_start += q_length
        kv_start += kv_length
    return o, lse


# ---- the cases ---------------------------------------------------------------------------------------------------


def normal(rng, shape):
    return rng.standard_normal(shape)


def small_integers(rng, shape):
    """Products of these are exact in float32, so that only the softmax's range is tested."""
    return rng.integers(-3, 4, shape).astype(np.float64)


@dataclasses.dataclass
class Case:
    name: str
    about: str
    dtype: str = "float32"
    q_heads: int = 2
    kv_heads: int = 2
    head_dim: int = 16
    q_lengths: tuple = (8,)
    kv_lengths: tuple = None
    scale: float = None
    mask: str = "full"
    window_left: int = 0
    window_right: int = 0
    softcap: float = 0.0
    return_lse: bool = True
    draw: object = normal
    nan_key: int = None  # this row of k is NaN

    def __post_init__(self):
        if self.kv_lengths is None:
            self.kv_lengths = self.q_lengths


CASES = [
    Case("full_float32", "two sequences, all defaults, no LSE", q_lengths=(5, 9), return_lse=False),
    Case("full_float16", "an explicit scale", dtype="float16", head_dim=32, q_lengths=(6,), scale=0.25),
    Case("causal_float16", "as many keys as queries", dtype="float16", head_dim=32, q_lengths=(7, 3), mask="causal"),
    Case("causal_bfloat16_cross", "more keys than queries", dtype="bfloat16", q_lengths=(3, 5), kv_lengths=(8, 11),
         mask="causal"),
    Case("causal_unseen_rows", "more queries than keys: the first rows see none", q_lengths=(6,), kv_lengths=(4,),
         mask="causal"),
    Case("window_both", "bounded on both sides", q_lengths=(16,), mask="window", window_left=3, window_right=1),
    Case("window_open_left", "unbounded on the left", dtype="float16", q_lengths=(9,), kv_lengths=(12,), mask="window",
         window_left=-1, window_right=2),
    Case("window_open_right", "unbounded on the right", q_lengths=(10,), kv_lengths=(7,), mask="window", window_left=2,
         window_right=-1),
    Case("window_own_key", "a window of one key", q_lengths=(5,), mask="window"),
    Case("grouped_8_2", "grouped queries", q_heads=8, kv_heads=2, head_dim=8, q_lengths=(6, 2), mask="causal"),
    Case("grouped_4_1", "one key head; a head_dim that is no power of two", dtype="bfloat16", q_heads=4, kv_heads=1,
         head_dim=24, q_lengths=(9,)),
    Case("ragged", "lengths from 0 to 33", q_lengths=(1, 0, 17, 4, 33), kv_lengths=(9, 5, 17, 0, 20), head_dim=8),
    Case("empty", "no query row at all", q_lengths=(0, 0), kv_lengths=(0, 3)),
    Case("softcap", "with a causal mask", q_lengths=(11,), mask="causal", softcap=1.5, scale=0.7),
    Case("extreme_scores", "scores in the tens of thousands", q_lengths=(12,), scale=256.0, draw=small_integers),
    Case("nan_key", "row 3 of k is NaN: only rows that see it are", q_lengths=(8,), mask="causal", nan_key=3),
    Case("head_dim_256", "the widest head", dtype="bfloat16", q_heads=1, kv_heads=1, head_dim=256, q_lengths=(6,)),
    Case("decode", "one query over keys of several tiles", dtype="float16", q_heads=2, kv_heads=1, head_dim=32,
         q_lengths=(1,), kv_lengths=(290,), mask="causal"),
    Case("prefill", "rows and keys of several tiles", dtype="bfloat16", q_heads=1, kv_heads=1, head_dim=16,
         q_lengths=(150,), mask="causal"),
]

TOLERANCES = {  # atol, rtol of o: a few roundings of the dtype, for values of order 1
    "float32": (4e-6, 1e-5),
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1.6e-2),
}
LSE_TOLERANCES = (1e-4, 1e-5)


def draw_tensor(case, rng, lengths, heads):
    return case.draw(rng, (sum(lengths), heads, case.head_dim))


def write_case(case, rng, files):
    q = draw_tensor(case, rng, case.q_lengths, case.q_heads)
    k = draw_tensor(case, rng, case.kv_lengths, case.kv_heads)
    v = draw_tensor(case, rng, case.kv_lengths, case.kv_heads)
    if case.nan_key is not None:
        k[case.nan_key] = np.nan
    (q_bytes, q), (k_bytes, k), (v_bytes, v) = (encode_elements(x, case.dtype) for x in (q, k, v))
    o, lse = attend(case, q, k, v)
    if not case.return_lse:
        lse = lse[:0]
    files[f"{case.name}.request"] = encode_request(encode_header(case), q_bytes, k_bytes, v_bytes)
    files[f"{case.name}.expected"] = o.astype("<f8").tobytes() + lse.astype("<f8").tobytes()
    entry = {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}
    del entry["draw"], entry["nan_key"]
    entry.update(o_elements=o.size, lse_elements=lse.size)
    entry["atol"], entry["rtol"] = TOLERANCES[case.dtype]
    entry["lse_atol"], entry["lse_rtol"] = LSE_TOLERANCES
    return entry


def refused_requests():
    """(name, about, the word that the error names, request bytes): all INVALID_ARGUMENT."""

    def request(case, cut=0, grow=0):
        rows = sum(case.q_lengths), sum(case.kv_lengths)
        q, kv = (n * case.head_dim * 4 for n in (rows[0] * case.q_heads, rows[1] * case.kv_heads))
        return encode_request(encode_header(case), bytes(q - cut), bytes(kv), bytes(kv + grow))

    base = Case("", "", q_lengths=(2,))
    valid = request(base)
    yield "payload_short", "q lacks its last byte", "q", request(base, cut=1)
    yield "payload_long", "v has a byte too many", "v", request(base, grow=1)
    yield "head_dim_12", "not a multiple of 8", "head_dim", request(dataclasses.replace(base, head_dim=12))
    yield "head_dim_264", "above 256", "head_dim", request(dataclasses.replace(base, head_dim=264))
    yield "heads_3_2", "q_heads is no multiple of kv_heads", "q_heads", request(dataclasses.replace(base, q_heads=3))
    yield "heads_0", "no heads", "kv_heads", request(dataclasses.replace(base, q_heads=0, kv_heads=0))
    yield "lengths_differ", "two q_lengths, one of kv_lengths", "kv_lengths", request(
        dataclasses.replace(base, q_lengths=(1, 1), kv_lengths=(2,)))
    yield "no_sequences", "no lengths", "q_lengths", request(dataclasses.replace(base, q_lengths=(), kv_lengths=()))
    yield "softcap_negative", "softcap below 0", "softcap", request(dataclasses.replace(base, softcap=-1.0))
    yield "scale_nan", "a scale that is not finite", "scale", request(dataclasses.replace(base, scale=float("nan")))
    yield "window_with_causal", "window_left without a window", "window_left", request(
        dataclasses.replace(base, mask="causal", window_left=1))
    yield "window_below_unbounded", "window_left below -1", "window_left", request(
        dataclasses.replace(base, mask="window", window_left=-2))
    yield "no_header", "payload only", "header", bytes_field(15, bytes(8))
    yield "truncated", "the message ends within v", "malformed", valid[:-5]
    overflow = dataclasses.replace(base, q_lengths=(2**32 - 1,) * 4, kv_lengths=(2**32 - 1,) * 4)
    yield "lengths_overflow", "lengths whose product with the heads is above 2^40", "q_lengths", encode_request(
        encode_header(overflow), bytes(64), b"", b"")


def generate():
    files = {}
    # A generator for each case, by its place, so that a new case at the end changes no other.
    cases = [write_case(case, np.random.Generator(np.random.PCG64(i)), files) for i, case in enumerate(CASES)]
    refused = []
    for name, about, names, request in refused_requests():
        files[f"refused_{name}.request"] = request
        refused.append({"name": f"refused_{name}", "about": about, "code": "INVALID_ARGUMENT", "names": names})
    manifest = json.dumps({"cases": cases, "refused": refused}, indent=1)
    files["manifest.json"] = (manifest + "\n").encode()
    return files


def differences(files):
    found = {path.name for path in VECTORS.iterdir()}
    yield from (f"{name}: not generated by this script" for name in sorted(found - files.keys()))
    for name, content in files.items():
        if name not in found:
            yield f"{name}: missing"
        elif not same(name, (VECTORS / name).read_bytes(), content):
            yield f"{name}: differs"


def same(name, stored, generated):
    """Requests byte for byte; answers but for the last bits, which depend on the machine's libm."""
    if not name.endswith(".expected"):
        return stored == generated
    a, b = np.frombuffer(stored, "<f8"), np.frombuffer(generated, "<f8")
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=1e-14, equal_nan=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with vectors/ instead of writing it")
    arguments = parser.parse_args()
    files = generate()
    if arguments.check:
        found = list(differences(files))
        sys.exit("\n".join(found) if found else 0)
    VECTORS.mkdir(exist_ok=True)
    for path in VECTORS.iterdir():
        path.unlink()
    for name, content in files.items():
        (VECTORS / name).write_bytes(content)
    print(f"{len(files)} files, {sum(map(len, files.values())) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
