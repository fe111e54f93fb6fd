"""Standard attention against tiled, and causal against full: the article's figures, measured.

    article.py LIBRARY [--json FILE]
"""

import argparse
import json

import torch

from library import Tessera, measure

HEAD_DIM = 128


def standard_against_tiled(tessera):
    """Full attention, fp16, head_dim 128: time and scratch memory."""
    rows = []
    print("| heads | N | standard | tiled | ratio | scratch memory: standard | tiled |")
    print("|---|---|---|---|---|---|---|")
    for heads in (1, 16):
        for n in (1024, 2048, 4096, 8192, 16384):
            q, k, v = (torch.randn(n, heads, HEAD_DIM, device="cuda", dtype=torch.float16) for _ in range(3))
            outputs = {family: torch.empty_like(q) for family in ("standard", "sm90a")}
            calls = {family: lambda family=family, o=o: tessera.forward(q, k, v, o, [n], False, family)
                     for family, o in outputs.items()}
            peak = {family: tessera.peak_bytes(family, call) for family, call in calls.items()}
            ms = measure(calls, 9)
            difference = (outputs["standard"].float() - outputs["sm90a"].float()).abs().max().item()
            assert difference < 2e-3, difference
            rows.append({"heads": heads, "N": n, "standard_us": ms["standard"] * 1000, "tiled_us": ms["sm90a"] * 1000,
                         "standard_bytes": peak["standard"], "tiled_bytes": peak["sm90a"]})
            print(f"| {heads} | {n} | {ms['standard'] * 1000:.0f} us | {ms['sm90a'] * 1000:.0f} us | "
                  f"{ms['standard'] / ms['sm90a']:.1f} | {peak['standard'] / 2**20:.1f} MiB | "
                  f"{peak['sm90a'] / 2**10:.1f} KiB |", flush=True)
    return rows


def causal_against_full(tessera):
    """One sequence of 16384 tokens, bf16, 2048 / D heads."""
    rows = []
    print("\n| D | full | causal | ratio |")
    print("|---|---|---|---|")
    for d in (64, 128, 256):
        q, k, v = (torch.randn(16384, 2048 // d, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        o = torch.empty_like(q)
        ms = measure({mask: lambda causal=mask == "causal": tessera.forward(q, k, v, o, [16384], causal)
                      for mask in ("full", "causal")})
        rows.append({"D": d, "full_ms": ms["full"], "causal_ms": ms["causal"], "ratio": ms["full"] / ms["causal"]})
        print(f"| {d} | {ms['full']:.2f} ms | {ms['causal']:.2f} ms | {rows[-1]['ratio']:.2f} |", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    tessera = Tessera(arguments.library)
    torch.manual_seed(1)
    results = {"standard_against_tiled": standard_against_tiled(tessera),
               "causal_against_full": causal_against_full(tessera)}
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
