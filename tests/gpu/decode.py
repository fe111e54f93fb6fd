"""Measures decoding over pages beside PyTorch's attention over contiguous K and V, and chunks of a prefill over pages beside
the forward kernel over the same rows in contiguous tensors, in one process on one GPU.

    decode.py LIBRARY [--without-graphs] [--json FILE]

Bytes are those of K and V, each read once; the bandwidth limit is that of a read-only sum in the same run. Pages are drawn at
random from the pool. Times are of calls with their launch table, on a device that the host keeps busy; and of graph replays,
which leave the host out.
"""

import argparse
import ctypes
import json
import math
import random
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from library import DTYPES, Tessera, measure

Q_HEADS, KV_HEADS = 32, 8


class Pages:
    """K and V of `lengths` tokens in random pages, and the same rows in contiguous tensors where asked for. rows: query rows
    of each sequence, and new rows of k and v that may be appended."""

    def __init__(self, lengths, head_dim, page_tokens=64, heads_outer=False, fp8=False, rows=1, dtype=torch.bfloat16, seed=1):
        self.lengths, self.head_dim, self.page_tokens, self.heads_outer = lengths, head_dim, page_tokens, heads_outer
        generator = torch.Generator(device="cuda").manual_seed(seed)
        counts = [(n + page_tokens - 1) // page_tokens for n in lengths]
        total, width = sum(counts), max(counts)
        shape = (total, 2, KV_HEADS, page_tokens, head_dim) if heads_outer else (total, 2, page_tokens, KV_HEADS, head_dim)
        self.pages = torch.randn(shape, device="cuda", dtype=dtype, generator=generator)
        self.scales = None
        if fp8:
            self.pages = self.pages.to(torch.float8_e4m3fn)
            self.scales = torch.full((2, KV_HEADS), 1.0, device="cuda")
        order = torch.randperm(total, device="cuda", generator=generator, dtype=torch.int64).to(torch.int32)
        self.tables = torch.zeros((len(lengths), width), device="cuda", dtype=torch.int32)
        at = 0
        for i, count in enumerate(counts):
            self.tables[i, :count] = order[at:at + count]
            at += count
        self.q = torch.randn((len(lengths), rows, Q_HEADS, head_dim), device="cuda", dtype=dtype, generator=generator)
        self.k, self.v = (torch.randn((len(lengths), rows, KV_HEADS, head_dim), device="cuda", dtype=dtype,
                                      generator=generator) for _ in range(2))
        self.o = torch.full_like(self.q, float("nan"))
        self.host_lengths = (ctypes.c_int64 * len(lengths))(*lengths)
        self.bytes = 2 * sum(lengths) * KV_HEADS * head_dim * self.pages.element_size()

    def contiguous(self, i):
        """K and V of sequence i, [1, KV_HEADS, tokens, head_dim]."""
        count = (self.lengths[i] + self.page_tokens - 1) // self.page_tokens
        pages = self.pages[self.tables[i, :count].long()].to(self.q.dtype)
        pages = pages if self.heads_outer else pages.transpose(2, 3)
        rows = pages.permute(1, 2, 0, 3, 4).reshape(2, 1, KV_HEADS, count * self.page_tokens, self.head_dim)
        return rows[0, :, :, :self.lengths[i]].contiguous(), rows[1, :, :, :self.lengths[i]].contiguous()


class Decoder:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.tessera_decode.argtypes = (
            [ctypes.c_int] * 4 + [ctypes.c_float] + [ctypes.c_int] * 5 + [ctypes.c_void_p] * 7
            + [ctypes.c_int64] + [ctypes.c_void_p] * 2)

    def __call__(self, pages, append=0):
        """The attention of all of `pages`' query rows, once `append` (0 or all) new rows of each sequence are in."""
        status = self.library.tessera_decode(
            DTYPES[pages.q.dtype], Q_HEADS, KV_HEADS, pages.head_dim, pages.head_dim ** -0.5, pages.page_tokens,
            int(pages.heads_outer), len(pages.lengths), pages.q.shape[1], append, pages.host_lengths, pages.q.data_ptr(),
            pages.k.data_ptr(), pages.v.data_ptr(), pages.o.data_ptr(), pages.pages.data_ptr(), pages.tables.data_ptr(),
            pages.tables.shape[1], None if pages.scales is None else pages.scales.data_ptr(),
            torch.cuda.current_stream().cuda_stream)
        assert status == 0


def replayed(call, rounds=10, calls=10):
    """Median time of one of `calls` calls in a graph, in ms."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                call()
        times = []
        for _ in range(rounds):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(start.elapsed_time(end) / calls)
    return statistics.median(times)


def read_limit():
    """Bytes a second of a read-only sum."""
    data = torch.randn(2 ** 30, device="cuda", dtype=torch.bfloat16)
    ms = measure({"sum": lambda: torch.sum(data.view(torch.float32))}, 9)["sum"]
    return data.numel() * 2 / ms * 1e3


def error(pages):
    """Largest difference to PyTorch over the first sequences."""
    worst = 0.0
    for i in range(min(3, len(pages.lengths))):
        k, v = pages.contiguous(i)
        rows, keys = pages.q.shape[1], k.shape[2]
        seen = torch.ones(rows, keys, device="cuda", dtype=torch.bool).tril(keys - rows)
        expected = sdpa(pages.q[i:i + 1].transpose(1, 2).float(), k.float(), v.float(), attn_mask=seen, enable_gqa=True)
        difference = (pages.o[i].float() - expected[0].transpose(0, 1)).abs().max().item()
        assert math.isfinite(difference)
        worst = max(worst, difference)
    return worst


def peers(batch, length, head_dim):
    """PyTorch's calls over contiguous K and V of equally long sequences, those of them that it has a kernel for."""
    q = torch.randn(batch, Q_HEADS, 1, head_dim, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch, KV_HEADS, length, head_dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def call(backend):
        def run():
            with sdpa_kernel(backend):
                return sdpa(q, k, v, enable_gqa=True)
        return run
    calls = {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("fa2", SDPBackend.FLASH_ATTENTION)):
        try:
            call(backend)()
            calls[name] = call(backend)
        except RuntimeError as refused:
            print(f"{name}: {refused}", flush=True)
    return calls


def report(rows, limit, name, pages, ms, graph_ms=None):
    row = {"case": name, **{which: time * 1000 for which, time in ms.items()}}
    row["gb_s"] = pages.bytes / ms["tessera"] / 1e6
    row["of_limit"] = row["gb_s"] * 1e9 / limit
    if "cudnn" in ms:
        row["to_cudnn"] = ms["cudnn"] / ms["tessera"]
    if graph_ms is not None:
        row["graph"] = graph_ms * 1000
    row["difference"] = error(pages)
    rows.append(row)
    fields = ("tessera", "graph", "cudnn", "fa2", "gb_s", "of_limit", "to_cudnn", "difference")
    print(f"| {name} | " + " | ".join(f"{row[f]:.4g}" if f in row else "" for f in fields) + " |", flush=True)


def chunks(decode, forward, rows):
    """A chunk of a prefill at the end of a context: append and attend over pages, beside the forward kernel alone."""
    chunk, head_dim = 512, 128
    print("\n| chunk | us | forward kernel, us | TFLOP/s | of the forward kernel's rate | difference |\n" + "|---" * 6 + "|")
    for context in (8192, 32768):
        for options in ({}, {"heads_outer": True}, {"page_tokens": 32}, {"page_tokens": 16}):
            torch.cuda.empty_cache()
            pages = Pages([context], head_dim, rows=chunk, **options)
            decode(pages, chunk)
            k, v = (x[0].transpose(0, 1).contiguous() for x in pages.contiguous(0))
            o = torch.empty_like(pages.q[0])
            ms = measure({"tessera": lambda: decode(pages, chunk),
                          "forward": lambda: forward(pages.q[0], k, v, o, [chunk], True, kv_lengths=[context])},
                         9, head_start=600_000)
            flops = 4 * Q_HEADS * head_dim * (chunk * context - chunk * (chunk - 1) / 2)
            name = ", ".join([f"{chunk} at {context}", *(f"{option} {value}" for option, value in options.items())])
            rows.append({"case": name, "tessera": ms["tessera"] * 1000, "forward": ms["forward"] * 1000,
                         "tflop_s": flops / ms["tessera"] / 1e9, "to_forward": ms["forward"] / ms["tessera"],
                         "difference": error(pages)})
            print("| " + " | ".join(x if isinstance(x, str) else f"{x:.4g}" for x in rows[-1].values()) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--without-graphs", action="store_true")
    arguments = parser.parse_args()
    decode = Decoder(arguments.library)
    graph = (lambda call: None) if arguments.without_graphs else replayed
    limit = read_limit()
    rows = []
    print(f"read-only sum: {limit / 1e9:.0f} GB/s\n")
    print("| case | us | in a graph | cuDNN | FA2 | GB/s | of the limit | cuDNN / Tessera | difference |\n" + "|---" * 9 + "|")
    for batch, length, head_dim in ((1, 8192, 128), (1, 65536, 128), (32, 8192, 128), (128, 4096, 128), (128, 8192, 128),
                                    (64, 8192, 64), (64, 8192, 256)):
        torch.cuda.empty_cache()
        pages = Pages([length] * batch, head_dim)
        ms = measure({"tessera": lambda: decode(pages), **peers(batch, length, head_dim)}, 9)
        report(rows, limit, f"{batch} x {length}, D {head_dim}", pages, ms, graph(lambda: decode(pages)))
    generator = random.Random(3)
    skewed = [int(100 * 600 ** generator.random()) for _ in range(256)]
    for name, options in (("tokens outer", {}), ("heads outer", {"heads_outer": True}), ("pages of 16", {"page_tokens": 16}),
                          ("fp8", {"fp8": True})):
        torch.cuda.empty_cache()
        pages = Pages([8192] * 128, 128, **options)
        report(rows, limit, f"128 x 8192, {name}", pages, measure({"tessera": lambda: decode(pages)}, 9))
        pages = Pages(skewed, 128, **options)
        report(rows, limit, f"256 of 100..60000, {name}", pages, measure({"tessera": lambda: decode(pages)}, 9))
    pages = Pages([8192] * 128, 128)
    report(rows, limit, "128 x 8192, appending", pages, measure({"tessera": lambda: decode(pages, 1)}, 9))
    pages = Pages([8192], 128)
    report(rows, limit, "1 x 8192, appending", pages, measure({"tessera": lambda: decode(pages, 1)}, 9),
           graph(lambda: decode(pages, 1)))
    chunk_rows = []
    chunks(decode, Tessera(arguments.library).forward, chunk_rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "limit_gb_s": limit / 1e9,
                       "rows": rows, "chunks": chunk_rows}, file, indent=1)


if __name__ == "__main__":
    main()
