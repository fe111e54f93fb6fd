"""Runs tessera-server on this machine's GPUs, checks its answers against PyTorch and measures it beside its peers.

    service.py PROGRAMS OUT [STEP...]

PROGRAMS is what tests/gpu/service.sh packed. Every step's result goes into OUT/service.json as soon as it is there;
without steps, all run but `decode` and those of two_devices.py, which need two GPUs. A figure is one run's.
"""

import json
import math
import os
import re
import subprocess
import sys
import threading
import time

import resident
import two_devices
from service_programs import (ENVIRONMENT, HERE, OUT, PROGRAMS, S16, S128, S4096, TURN, TURNS, Server, beside_echo, load,
                              loaded, run)
from standard import standard

# What `batches` must see for its comparison to mean anything.
LARGE_BATCH = 8


def check():
    """Answers through the Python client against PyTorch in double precision: at most twice standard attention's error."""
    import numpy as np
    import tessera
    import torch

    worst, cases = 0.0, 0
    rng = np.random.default_rng(7)
    with Server() as server, tessera.Client(server.target) as client:
        for dtype, torch_dtype in (("float16", torch.float16), ("float32", torch.float32)):
            for rows, keys, heads, kv_heads, d, causal in (
                    (1, 1, 1, 1, 8, False), (16, 16, 16, 16, 128, True), (128, 128, 16, 16, 128, True),
                    (77, 300, 8, 2, 64, True), (513, 513, 4, 4, 256, True), (1024, 1024, 16, 4, 128, False),
                    (4096, 4096, 4, 4, 128, True), (1, 2000, 32, 8, 128, False), (300, 77, 8, 8, 96, False)):
                q = rng.standard_normal((rows, heads, d)).astype(dtype)
                k, v = (rng.standard_normal((keys, kv_heads, d)).astype(dtype) for _ in range(2))
                o = torch.from_numpy(client.attend(q, k, v, causal=causal).o.copy()).cuda().double()
                tensors = [torch.from_numpy(t).cuda() for t in (q, k, v)]
                tensors[1:] = [t.repeat_interleave(heads // kv_heads, 1) for t in tensors[1:]]
                exact = standard(*(t.double() for t in tensors), causal, torch.float64)
                allowed = 2 * (standard(*tensors, causal, torch_dtype).double() - exact).abs().max().item() + 1e-5
                error = (o - exact).abs().max().item()
                worst, cases = max(worst, error / allowed), cases + 1
                if not error <= allowed:
                    raise AssertionError(f"{dtype} {rows}x{keys}, {heads}/{kv_heads} heads of {d}: {error} > {allowed}")
    return {"cases": cases, "worst_error_over_allowed": worst}


def batches():
    """The same calls alone and together give the same bits. The server has one slot, and after the calls made alone it
    keeps the first of those made together for a while: the others wait meanwhile, and share batches."""
    import numpy as np
    import tessera

    rng = np.random.default_rng(7)
    lengths = [int(n) for n in rng.integers(1, 128, size=64)]
    calls = [tessera.AttendCall(*(rng.standard_normal((n, 16, 128)).astype("float16") for _ in range(3)), causal=True,
                                return_lse=True) for n in lengths]
    with Server("--device=0", "--slots=1", f"--fault_script=run@{len(calls) + 1}=delay:2s") as server:
        with tessera.Client(server.target) as client:
            alone = [client.submit_all([call])[0].result() for call in calls]
            together = [pending.result() for pending in client.submit_all(calls)]
    largest = max(result.timing.batch_requests for result in together)
    same = all(a.o.tobytes() == b.o.tobytes() and a.lse.tobytes() == b.lse.tobytes() for a, b in zip(alone, together))
    if any(result.timing.batch_requests != 1 for result in alone) or largest < LARGE_BATCH or not same:
        raise AssertionError(f"the same bits: {same}; the largest batch: {largest}, to be at least {LARGE_BATCH}")
    return {"calls": len(calls), "bitwise_same": same, "largest_batch": largest}


def decode():
    """A language model whose keys and values the server keeps: the same tokens as with attention computed here, for every
    type of pages. Its weights are PROGRAMS/smollm2.gguf, SmolLM2-135M-Instruct's, if that is there, otherwise random.
    """
    example = [sys.executable, str(HERE.parents[1] / "client/python/examples/decode/smollm.py")]
    gguf, scales = PROGRAMS / "smollm2.gguf", f"--scales={OUT / 'scales.txt'}"
    weights = f"--gguf={gguf}" if gguf.exists() else "--random"
    flag = subprocess.run([*example, "flag", scales, weights], capture_output=True, text=True, check=True).stdout.strip()
    with Server(flag) as server:
        done = subprocess.run([*example, "run", f"--target={server.target}", scales, weights], capture_output=True, text=True)
        metrics = server.metrics()
    (OUT / "decode.txt").write_text(done.stdout + done.stderr)
    print(done.stdout, done.stderr[-2000:], flush=True)
    used = sum(value for name, value in metrics.items() if name.startswith("tessera_kv_pages") and '"used"' in name)
    if done.returncode or used:
        raise AssertionError(f"exit code {done.returncode}, {used:.0f} pages in use at the end; see decode.txt")
    return {"weights": weights, "output": done.stdout.splitlines()}


def device():
    checked = run("device_check", name="device_check")
    return {"exit_code": checked.returncode, "passed": re.findall(r"\[       OK \] (\S+)", checked.stdout)}


def bench():
    measured = run("device_bench", name="device_bench")
    return [json.loads(line) for line in measured.stdout.splitlines()]


def s128():
    with Server() as server:
        return beside_echo(server, f"--shape={S128}", "--callers=64", "--connections=16", name="s128", check=8)


def s16():
    with Server() as server:
        results = beside_echo(server, f"--shape={S16}", "--callers=64", "--connections=16", name="s16", check=8)
        for callers in (1, 8):
            results[f"callers_{callers}"] = loaded(server, f"--shape={S16}", f"--callers={callers}",
                                                   f"--connections={callers}", "--duration=1s", name=f"s16_by_{callers}")
    with Server("--light_cost=0") as server:
        results["collecting_nothing"] = loaded(server, f"--shape={S16}", "--callers=64", "--connections=16",
                                               f"--duration={TURN}", name="s16_collecting_nothing")
    return results


def s4096():
    """Two payloads: making 48 MiB of random numbers takes longer than sending them."""
    flags = (f"--shape={S4096}", "--callers=8", "--payloads=2")
    results = {}
    with Server() as server:
        results[16] = beside_echo(server, *flags, "--connections=16", name="s4096_16", check=2)
        for connections in (8, 32):
            at = (*flags, f"--connections={connections}", f"--duration={TURN}")
            results[connections] = {"server": loaded(server, *at, name=f"s4096_{connections}"),
                                    "echo": load("", *at, "--echo", name=f"s4096_{connections}_echo")}
    return results


def peer():
    command = [sys.executable if sys.executable.endswith("python3") else "python3", str(HERE / "peers" / "torch_server.py"),
               f"--stubs={PROGRAMS / 'python'}"]
    with Server(command=command) as server:
        return load(server.target, f"--shape={S128}", "--callers=64", "--connections=16", "--transport=unary",
                    "--verify=4", f"--duration={TURN}", name="peer")


def idle():
    with Server() as server:
        load(server.target, f"--shape={S128}", "--callers=4", "--duration=1s", name="idle")
        time.sleep(1)
        cpu, began = server.cpu_seconds(), time.monotonic()
        time.sleep(8)
        return {"cores": (server.cpu_seconds() - cpu) / (time.monotonic() - began), "start_seconds": server.start_seconds}


def gpu_memory():
    """MiB in use on each GPU."""
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                         text=True).stdout
    return [int(line) for line in out.split()]


def soak():
    samples, stop = [], threading.Event()

    def sample():
        while not stop.wait(1.0):
            samples.append(gpu_memory())
    sampler = threading.Thread(target=sample)
    sampler.start()
    done = run("server_soak", f"--server={PROGRAMS / 'tessera-server'}", "--requests=200000", "--callers=24", name="soak")
    stop.set()
    sampler.join()
    settled = samples[len(samples) // 5:-1]
    return {"exit_code": done.returncode, "output": done.stdout.splitlines()[-20:], "gpu_memory_mib": samples[:200],
            "gpu_memory_flat": len({tuple(s) for s in settled}) == 1}


def arena():
    """An arena that holds one call of the eight: the others are refused, nothing else happens."""
    with Server("--memory_fraction=0.0006") as server:
        result = load(server.target, f"--shape={S4096}", "--callers=8", "--connections=8", "--duration=4s", name="arena")
        after = load(server.target, f"--shape={S128}", "--callers=16", "--duration=2s", "--verify=4", name="arena_after")
        metrics = server.metrics()
    return {"full": result, "after": after,
            "memory": {name: value for name, value in metrics.items() if name.startswith("tessera_device_memory")}}


def loss(server):
    """From the first call that fails to health's NOT_SERVING, the codes of the calls, and the exit code. No retries."""
    import grpc
    from tessera.v1 import attention_pb2, tensor_pb2

    channel = grpc.insecure_channel(server.target)
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    attend = channel.unary_unary("/tessera.v1.AttentionService/Attend")
    header = attention_pb2.AttendHeader(dtype=tensor_pb2.DATA_TYPE_FLOAT16, q_heads=16, kv_heads=16, head_dim=128,
                                        q_lengths=[128])
    tensor = bytes(128 * 16 * 128 * 2)
    request = attention_pb2.AttendRequest(header=header, q=tensor, k=tensor, v=tensor).SerializeToString()
    codes, times = {}, {}
    stop = threading.Event()

    def call():
        while not stop.is_set():
            try:
                attend(request, timeout=5)
                name = "OK"
            except grpc.RpcError as error:
                name = error.code().name
                times.setdefault("first_failure", time.monotonic())
            codes[name] = codes.get(name, 0) + 1
            if name != "OK":
                return

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and "not_serving" not in times:
        try:
            if check(b"", timeout=1) != b"\x08\x01":
                times["not_serving"] = time.monotonic()
        except grpc.RpcError:
            times["not_serving"] = time.monotonic()
        time.sleep(0.002)
    stop.set()
    for caller in callers:
        caller.join()
    exit_code = server.process.wait(15)
    return {"codes": codes, "exit_code": exit_code,
            "not_serving_after_first_failure_s": times.get("not_serving", math.inf) - times.get("first_failure", math.nan)}


def sticky():
    with Server("--fault_script=run@200=sticky") as server:
        return loss(server)


def trap():
    trapping = dict(ENVIRONMENT, TESSERA_TRAP_AFTER="200")
    with Server(command=[str(PROGRAMS / "trapping_server")], environment=trapping) as server:
        return loss(server)


STEPS = [check, resident.sequences, resident.spill, batches, device, s128, s16, s4096, peer, idle, arena, sticky, trap, soak,
         resident.sequence_soak, bench, resident.steps, resident.stream_alone, resident.stream]
BY_NAME = {step.__name__: step for step in [*STEPS, decode, *two_devices.STEPS]}


def main():
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                         text=True).stdout.split("\n")[0]
    results = {"gpu": gpu, "cores": os.cpu_count(), "turns": f"{TURNS} of {TURN}"}
    failed = False
    for step in [BY_NAME[name] for name in sys.argv[3:]] or STEPS:
        began = time.monotonic()
        try:
            results[step.__name__] = step()
        except Exception as error:  # the other steps' figures are worth having
            results[step.__name__] = {"error": f"{type(error).__name__}: {error}"}
            failed = True
        print(f"== {step.__name__} {time.monotonic() - began:.1f} s", flush=True)
        (OUT / "service.json").write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
