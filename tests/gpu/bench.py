"""Measures the forward kernels beside PyTorch's cuDNN and FlashAttention-2 backends, all in one process on one GPU.

    bench.py LIBRARY [--grid] [--ragged] [--small] [--json FILE]

Times are medians of event-timed calls; the backends take turns, so that all see the same clocks. FLOPs are
4 * heads * D * (visible query-key pairs).
"""

import argparse
import ctypes
import json
import random
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

# FlashAttention-3's rate over cuDNN's, from one earlier run of both on this kind of GPU (D, mask, S).
FA3_OVER_CUDNN = {
    (64, "full", 1024): 0.97, (64, "full", 4096): 1.10, (64, "full", 16384): 1.14,
    (64, "causal", 1024): 1.03, (64, "causal", 4096): 1.05, (64, "causal", 16384): 1.10,
    (128, "full", 1024): 0.97, (128, "full", 4096): 1.09, (128, "full", 16384): 1.11,
    (128, "causal", 1024): 1.14, (128, "causal", 4096): 1.18, (128, "causal", 16384): 1.17,
    (256, "full", 1024): 0.87, (256, "full", 4096): 0.86, (256, "full", 16384): 1.04,
    (256, "causal", 1024): 0.96, (256, "causal", 4096): 1.20, (256, "causal", 16384): 1.15,
}
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Tessera:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.tessera_forward.argtypes = (
            [ctypes.c_char_p] + [ctypes.c_int] * 4 + [ctypes.c_float] + [ctypes.c_int64] * 2
            + [ctypes.c_float, ctypes.c_int] + [ctypes.c_void_p] * 8)

    def forward(self, q, k, v, o, lengths, causal, family=b"sm90a"):
        """q, k, v, o: [tokens, heads, D], the sequences one after another."""
        lens = (ctypes.c_int64 * len(lengths))(*lengths)
        status = self.library.tessera_forward(
            family, DTYPES[q.dtype], q.shape[1], k.shape[1], q.shape[2], q.shape[2] ** -0.5, -1, 0 if causal else -1,
            0.0, len(lengths), lens, lens, q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), None,
            torch.cuda.current_stream().cuda_stream)
        assert status == 0


def measure(calls, rounds=15):
    """Median time in ms of each of `calls` (name -> function), taking turns."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(200000)  # keeps the host ahead of the device
            start.record()
            call()
            end.record()
            times[name].append((start, end))
        torch.cuda.synchronize()
    return {name: statistics.median(s.elapsed_time(e) for s, e in pairs) for name, pairs in times.items()}


def torch_call(backend, q, k, v, causal):
    def call():
        with sdpa_kernel(backend):
            return sdpa(q, k, v, is_causal=causal)
    return call


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
    print(f"ragged {result['ragged']:.0f} TFLOP/s, equal {result['equal']:.0f}, ratio {rows[-1]['ratio']:.2f}", flush=True)


def small(tessera, rows):
    """64 requests in one launch: 16 heads, D 128, causal."""
    for s in (16, 128, 512):
        q, k, v = (torch.randn(64, s, 16, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        o = torch.empty_like(q)
        flat = [x.view(64 * s, 16, 128) for x in (q, k, v, o)]
        views = [x.transpose(1, 2) for x in (q, k, v)]
        times = measure({"tessera": lambda: tessera.forward(*flat, [s] * 64, True),
                         "fa2": torch_call(SDPBackend.FLASH_ATTENTION, *views, True),
                         "cudnn": torch_call(SDPBackend.CUDNN_ATTENTION, *views, True)})
        rows.append({"S": s, **{name: ms * 1000 for name, ms in times.items()}})
        print(f"64 x S={s}: " + ", ".join(f"{name} {ms * 1000:.0f} us" for name, ms in times.items()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--quick", action="store_true", help="Tessera and cuDNN only, few rounds")
    arguments = parser.parse_args()
    tessera = Tessera(arguments.library)
    torch.manual_seed(1)
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "grid": [], "ragged": [], "small": []}
    print("| D | mask | S | Tessera | cuDNN | FA2 | FA3 expected | to the better | to cuDNN | max difference |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    grid(tessera, results["grid"], [int(d) for d in arguments.dims.split(",")], arguments.quick)
    ragged(tessera, results["ragged"])
    small(tessera, results["small"])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
