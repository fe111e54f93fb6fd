"""Load that moves every metric: calls that are answered, by RPC and by stream, of every type, and calls that are
refused for want of room, refused as wrong, and given up."""

import pathlib
import subprocess

from programs import BIN

# So small that the mix fills the queue, and that a sequence of 2048 is beyond what the server takes.
SERVER_FLAGS = (
    "--backend=cpu",
    "--max_queue_requests=24",
    "--max_sequence_tokens=1024",
    "--kv_profiles=name=watched,layers=2,kv_heads=2,head_dim=64,dtype=bfloat16,pages=16",
)

ANSWERED = [
    ["--callers=12", "--transport=unary", "--shape=s=64,heads=4,d=64,dtype=fp32,mask=causal"],
    ["--callers=12", "--transport=stream", "--shape=s=256,heads=4,d=64,dtype=bf16,mask=causal"]
    + ["--shape=s=96,heads=4,d=64,dtype=fp16", "--connections=2"],
]
OVERLOAD = [
    ["--callers=64", "--shape=s=128,heads=8,d=64,dtype=bf16,mask=causal"],
    ["--callers=4", "--timeout=3ms", "--shape=s=512,heads=8,d=64,dtype=bf16"],
    ["--callers=1", "--shape=s=2048,heads=1,d=8,dtype=bf16"],
]


def offer(target: str, loads: list[list[str]], seconds: int, folder: pathlib.Path) -> None:
    """Runs the loads side by side. A load whose calls all fail says so by its exit code, which is not looked at."""
    processes = []
    for number, load in enumerate(loads):
        command = [BIN / "tessera-load", f"--target={target}", f"--duration={seconds}s", "--warm_up=0s", *load]
        with (folder / f"load-{number}.log").open("a") as log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log))
    for process in processes:
        process.wait(timeout=seconds + 120)
