"""libtessera_attention.so beside PyTorch in one process, and how calls of both are timed."""

import ctypes
import statistics
import time

import torch
from torch.nn.attention import sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Tessera:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.tessera_forward.argtypes = (
            [ctypes.c_char_p] + [ctypes.c_int] * 4 + [ctypes.c_float] + [ctypes.c_int64] * 2
            + [ctypes.c_float, ctypes.c_int] + [ctypes.c_void_p] * 8)
        self.library.tessera_peak_scratch_bytes.argtypes = [ctypes.c_char_p]
        self.library.tessera_peak_scratch_bytes.restype = ctypes.c_int64
        self.library.tessera_release.argtypes = [ctypes.c_char_p]
        self.library.tessera_release.restype = None

    def forward(self, q, k, v, o, lengths, causal, family="sm90a", kv_lengths=None):
        """q, k, v, o: [tokens, heads, D], the sequences one after another. kv_lengths: of K and V, where not as of Q."""
        lens = (ctypes.c_int64 * len(lengths))(*lengths)
        kv_lens = (ctypes.c_int64 * len(lengths))(*(kv_lengths or lengths))
        status = self.library.tessera_forward(
            family.encode(), DTYPES[q.dtype], q.shape[1], k.shape[1], q.shape[2], q.shape[2] ** -0.5, -1,
            0 if causal else -1, 0.0, len(lengths), lens, kv_lens, q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(),
            None, torch.cuda.current_stream().cuda_stream)
        assert status == 0

    def peak_bytes(self, family, call):
        """Device memory that `call` of a family takes beside its tensors."""
        self.library.tessera_release(family.encode())
        call()
        torch.cuda.synchronize()
        return self.library.tessera_peak_scratch_bytes(family.encode())


def torch_call(backend, q, k, v, causal):
    def call():
        with sdpa_kernel(backend):
            return sdpa(q, k, v, is_causal=causal)
    return call


def measure(calls, rounds=15, head_start=1_000_000):
    """Median time on the device, in ms, of each of `calls` (name -> function), taking turns so that all see the same
    clocks. head_start: cycles that the device is kept busy while the host prepares a call, up to 0.15 ms."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(head_start)
            start.record()
            call()
            end.record()
            times[name].append((start, end))
        torch.cuda.synchronize()
    return {name: statistics.median(s.elapsed_time(e) for s, e in pairs) for name, pairs in times.items()}


def measure_host(calls, rounds=30):
    """Median time, in ms, that the calling thread spends in each of `calls`; the device is idle when a call begins."""
    result = {}
    for name, call in calls.items():
        times = []
        for _ in range(rounds):
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1000)
        torch.cuda.synchronize()
        result[name] = statistics.median(times)
    return result
