"""Measures the forward kernels beside PyTorch's cuDNN and FlashAttention-2 backends, all in one process on one GPU.

    bench.py LIBRARY [--dims D,D,...] [--quick] [--json FILE]

FLOPs are 4 * heads * D * (visible query-key pairs).
"""

import argparse
import json
import random

import torch
from torch.nn.attention import SDPBackend

from library import Tessera, measure, measure_host, torch_call

# FlashAttention-3's rate over cuDNN's, from one earlier run of both on this kind of GPU (D, mask, S).
FA3_OVER_CUDNN = {
    (64, "full", 1024): 0.97, (64, "full", 4096): 1.10, (64, "full", 16384): 1.14,
    (64, "causal", 1024): 1.03, (64, "causal", 4096): 1.05, (64, "causal", 16384): 1.10,
    (128, "full", 1024): 0.97, (128, "full", 4096): 1.09, (128, "full", 16384): 1.11,
    (128, "causal", 1024): 1.14, (128, "causal", 4096): 1.18, (128, "causal", 16384): 1.17,
    (256, "full", 1024): 0.87, (256, "full", 4096): 0.86, (256, "full", 16384): 1.04,
    (256, "causal", 1024): 0.96, (256, "causal", 4096): 1.20, (256, "causal", 16384): 1.15,
}


def grid(tessera, rows, dims, quick):
    for d in dims:
        for mask in ("full", "causal"):
            for s in (1024, 4096, 16384):
                causal = mask == "causal"
                batch, heads = 16384 // s, 2048 // d
                q, k, v = (torch.randn(batch, s, heads, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
                o = torch.empty_like(q)
                flat = [x.view(batch * s, heads, d) for x in (q, k, v, o)]
                views = [x.transpose(1, 2) for x in (q, k, v)]
                calls = {"tessera": lambda: tessera.forward(*flat, [s] * batch, causal),
                         "cudnn": torch_call(SDPBackend.CUDNN_ATTENTION, *views, causal)}
                if not quick:
                    packed = [x.contiguous() for x in views]
                    calls["cudnn_bhsd"] = torch_call(SDPBackend.CUDNN_ATTENTION, *packed, causal)
                    calls["fa2"] = torch_call(SDPBackend.FLASH_ATTENTION, *views, causal)
                times = measure(calls, 9 if quick else 15)
                error = (o.transpose(1, 2).float() - calls["cudnn"]().float()).abs().max().item()
                flops = 4 * batch * heads * s * s * d * (0.5 if causal else 1)
                rate = {name: flops / ms / 1e9 for name, ms in times.items()}
                cudnn = max(rate["cudnn"], rate.get("cudnn_bhsd", 0))
                best = cudnn * max(1.0, FA3_OVER_CUDNN[d, mask, s])
                rows.append({"D": d, "mask": mask, "S": s, "tessera": rate["tessera"], "cudnn": cudnn,
                             "fa2": rate.get("fa2"), "fa3_expected": cudnn * FA3_OVER_CUDNN[d, mask, s],
                             "ratio_to_best": rate["tessera"] / best, "difference_to_cudnn": error})
                r = rows[-1]
                print(f"| {d} | {mask} | {s} | {r['tessera']:.0f} | {cudnn:.0f} | {rate.get('fa2', 0):.0f} | "
                      f"{r['fa3_expected']:.0f} | {r['ratio_to_best']:.2f} | {rate['tessera'] / cudnn:.2f} | {error:.4f} |", flush=True)


def ragged(tessera, rows):
    """64 sequences of random lengths against equal ones of the same FLOPs: 16 heads, D 128, causal."""
    generator = random.Random(7)
    lengths = [generator.randint(16, 4096) for _ in range(64)]
    pairs = sum(n * (n + 1) // 2 for n in lengths)
    equal = round((2 * pairs / 64) ** 0.5)
    result = {}
    for name, lens in (("ragged", lengths), ("equal", [equal] * 64)):
        tokens = sum(lens)
        q, k, v = (torch.randn(tokens, 16, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        o = torch.empty_like(q)
        ms = measure({"tessera": lambda: tessera.forward(q, k, v, o, lens, True)})["tessera"]
        result[name] = 4 * 16 * 128 * sum(n * (n + 1) // 2 for n in lens) / ms / 1e9
    rows.append({"ragged": result["ragged"], "equal": result["equal"], "ratio": result["ragged"] / result["equal"]})
    print(f"\nragged {result['ragged']:.0f} TFLOP/s, equal {result['equal']:.0f}, ratio {rows[-1]['ratio']:.2f}", flush=True)


def small(tessera, rows):
    """64 requests in one launch: 16 heads, D 128, causal. The host's time beside the device's."""
    print("\n| 64 x S | | " + " | ".join(("sm90a", "sm80", "fa2", "cudnn")) + " |\n|---|---|---|---|---|---|")
    for s in (16, 128, 512):
        q, k, v = (torch.randn(64, s, 16, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        o = torch.empty_like(q)
        flat = [x.view(64 * s, 16, 128) for x in (q, k, v, o)]
        views = [x.transpose(1, 2) for x in (q, k, v)]
        calls = {family: lambda family=family: tessera.forward(*flat, [s] * 64, True, family)
                 for family in ("sm90a", "sm80")}
        calls["fa2"] = torch_call(SDPBackend.FLASH_ATTENTION, *views, True)
        calls["cudnn"] = torch_call(SDPBackend.CUDNN_ATTENTION, *views, True)
        for where, ms in (("device", measure(calls, 25, 2_000_000)), ("host", measure_host(calls))):
            rows.append({"S": s, "where": where, **{name: time * 1000 for name, time in ms.items()}})
            print(f"| {s} | {where} | " + " | ".join(f"{time * 1000:.0f} us" for time in ms.values()) + " |", flush=True)


def portable(tessera, rows):
    """The portable kernels at S = 4096 beside PyTorch's FlashAttention-2, and in fp32 its memory-efficient attention."""
    print("\n| dtype | D | mask | sm80 | PyTorch | ratio |\n|---|---|---|---|---|---|")
    for dtype, dims, backend in ((torch.bfloat16, (64, 96, 128, 192, 256), SDPBackend.FLASH_ATTENTION),
                                 (torch.float32, (64, 128, 256), SDPBackend.EFFICIENT_ATTENTION)):
        batch = 4 if dtype == torch.bfloat16 else 1
        for d in dims:
            heads = 2048 // d
            q, k, v = (torch.randn(batch, 4096, heads, d, device="cuda", dtype=dtype) for _ in range(3))
            o = torch.empty_like(q)
            flat = [x.view(batch * 4096, heads, d) for x in (q, k, v, o)]
            views = [x.transpose(1, 2) for x in (q, k, v)]
            for causal in (False, True):
                ms = measure({"sm80": lambda: tessera.forward(*flat, [4096] * batch, causal, "sm80"),
                              "torch": torch_call(backend, *views, causal)}, 7)
                flops = 4 * batch * heads * 4096 * 4096 * d * (0.5 if causal else 1)
                name, mask = str(dtype).removeprefix("torch."), "causal" if causal else "full"
                rows.append({"dtype": name, "D": d, "mask": mask, **{n: flops / t / 1e9 for n, t in ms.items()}})
                print(f"| {name} | {d} | {mask} | {rows[-1]['sm80']:.0f} | {rows[-1]['torch']:.0f} | "
                      f"{ms['torch'] / ms['sm80']:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--quick", action="store_true", help="Tessera and cuDNN only, few rounds")
    arguments = parser.parse_args()
    tessera = Tessera(arguments.library)
    torch.manual_seed(1)
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "grid": [], "ragged": [], "small": [],
               "portable": []}
    print("| D | mask | S | Tessera | cuDNN | FA2 | FA3 expected | to the better | to cuDNN | max difference |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    grid(tessera, results["grid"], [int(d) for d in arguments.dims.split(",")], arguments.quick)
    ragged(tessera, results["ragged"])
    small(tessera, results["small"])
    if not arguments.quick:
        portable(tessera, results["portable"])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
