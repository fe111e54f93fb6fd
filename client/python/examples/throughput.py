"""What a call costs from Python, by size and by how it travels: the figures of docs/python.md.

q, k and v are [tokens, 16, 128] in float16 with 8 keys, so that the wire is nearly all there is to measure: q goes out
and o comes back. One message of 64 MiB needs a server with --max_message_bytes=80MiB --transport_bytes=8GiB; what the
server does not take as one message is left out.
"""

from __future__ import annotations

import argparse
import collections
import time
from typing import Any

import numpy as np

import tessera

WAYS: dict[str, dict[str, Any]] = {
    "one message": {"stream_threshold": 1 << 40},
    "chunks": {"stream_threshold": -1, "stripe_threshold": None},
    "striped over 4": {"stream_threshold": -1, "stripe_threshold": 0},
}


def measure(client: tessera.Client, tokens: int, in_flight: int, seconds: float) -> tuple[float, float]:
    """Median latency in seconds, and bytes per second each way."""
    q = np.ones((tokens, 16, 128), np.float16)
    kv = np.ones((8, 16, 128), np.float16)
    latencies = []
    pending: collections.deque[tuple[float, tessera.PendingAttention]] = collections.deque()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or pending:
        while len(pending) < in_flight and time.perf_counter() - begin < seconds:
            pending.append((time.perf_counter(), client.submit(q, kv, kv)))
        started, call = pending.popleft()
        call.result()
        latencies.append(time.perf_counter() - started)
    return float(np.median(latencies)), len(latencies) * q.nbytes / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="host:port of the server")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    arguments = parser.parse_args()
    with tessera.Client(arguments.target) as client:
        most = client.server_info().limits.max_message_bytes
    print("| q | way | in flight | p50 | calls/s | GB/s each way |")
    print("|---|---|---|---|---|---|")
    for tokens in (4, 64, 256, 1024, 4096, 16384):
        size = tokens * 16 * 128 * 2
        for way, settings in WAYS.items():
            if size <= 1 << 18 and way != "one message":
                continue
            if way == "one message" and size + (1 << 20) > most:
                continue
            for in_flight in (1, 16) if size <= 1 << 20 else (1, 4):
                with tessera.Client(arguments.target, **settings) as client:
                    measure(client, tokens, in_flight, 0.2)
                    latency, rate = measure(client, tokens, in_flight, arguments.seconds)
                name = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
                print(
                    f"| {name} | {way} | {in_flight} | {latency * 1e3:.2f} ms | {rate / size:.0f} | {rate / 1e9:.2f} |"
                )


if __name__ == "__main__":
    main()
