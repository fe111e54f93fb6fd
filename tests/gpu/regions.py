"""Regions on a GPU: right answers, figures, and clients that go away.

    regions.py PROGRAMS OUT [STEP...]

PROGRAMS is what tests/gpu/service.sh packed. Every step's result goes into OUT/regions.json; a figure is one run's.
"""

import json
import os
import signal
import subprocess
import sys
import time

from service import standard
from service_programs import ENVIRONMENT, OUT, PROGRAMS, REGIONS_ALLOWED, S128, S4096, Server, load, loaded


def check():
    """Tensors of PyTorch's, in place, against PyTorch in double precision and against the same call by messages."""
    import numpy as np
    import tessera
    import torch

    worst, same = 0.0, True
    generator = torch.Generator("cuda").manual_seed(11)
    with Server(*REGIONS_ALLOWED) as server, tessera.RegionSession(server.target) as session:
        with tessera.Client(server.target) as client:
            for rows, keys, heads, d, causal in (
                (1, 1, 1, 64, False),
                (128, 128, 16, 128, True),
                (77, 300, 8, 64, True),
                (4096, 4096, 4, 128, False),
            ):

                def random(tokens):
                    return torch.randn(tokens, heads, d, device="cuda", dtype=torch.float16, generator=generator)  # noqa: B023

                q, k, v = random(rows), random(keys), random(keys)
                out = torch.full_like(q, torch.nan)
                for tensor in (q, k, v, out):
                    session.share(tensor)
                session.attend(q, k, v, out, causal=causal, kv_lengths=[keys])
                by_messages = client.attend(*(t.cpu().numpy() for t in (q, k, v)), causal=causal, kv_lengths=[keys]).o
                same = same and np.array_equal(out.cpu().numpy(), by_messages)
                exact = standard(q.double(), k.double(), v.double(), causal, torch.float64)
                allowed = 2 * (standard(q, k, v, causal, torch.float16).double() - exact).abs().max().item() + 1e-5
                worst = max(worst, (out.double() - exact).abs().max().item() / allowed)
            region = session.open_shared_memory(1 << 20)
            arrays = [region.array((64, 16, 64), np.float16) for _ in range(4)]
            for array in arrays[:3]:
                array[:] = np.random.default_rng(1).standard_normal(array.shape)
            session.attend(*arrays)
            same = same and np.array_equal(arrays[3], client.attend(*arrays[:3]).o)
    if not (worst <= 1 and same):
        raise AssertionError(f"error {worst} of what is allowed, the same bits as messages: {same}")
    return {"worst_error_over_allowed": worst, "same_bits_as_messages": same}


def kernel_tflops(result):
    """What the kernel does while it runs: of a load by one caller, nothing else is on the GPU then."""
    server, account = result["server"], result["devices"]
    return server["tflops"] / server["requests_per_second"] / (account["us_per_batch"]["compute"] * 1e-6)


def cuda():
    """S=4096 in the client's own GPU memory: TFLOP/s through the service against the kernel alone."""
    common = ("--regions=cuda", "--payloads=2")
    with Server(*REGIONS_ALLOWED) as server:
        verified = load(server.target, f"--shape={S4096}", *common, "--callers=2", "--connections=1", "--verify=2",
                        "--duration=1s", name="cuda_verified")
        alone = loaded(server, f"--shape={S4096}", *common, "--callers=1", "--connections=1", "--duration=2s",
                       name="cuda_by_1")
        results = {"check": verified["check"], "kernel_alone_tflops": kernel_tflops(alone), "callers_1": alone}
        for connections in (1, 4):
            results[connections] = loaded(server, f"--shape={S4096}", *common, "--callers=8", f"--connections={connections}",
                                          "--duration=4s", name=f"cuda_{connections}")
            results[f"service_over_kernel_{connections}"] = (results[connections]["server"]["tflops"]
                                                             / results["kernel_alone_tflops"])
        results["s128"] = loaded(server, f"--shape={S128}", *common, "--callers=64", "--connections=8", "--duration=2s",
                                 name="cuda_s128")
    return results


def shm():
    """S=4096 in shared memory: GB/s, both directions together; pinned copies reach 55 in each."""
    common = ("--regions=shm", "--payloads=2")
    with Server(*REGIONS_ALLOWED) as server:
        verified = load(server.target, f"--shape={S4096}", *common, "--callers=2", "--connections=1", "--verify=2",
                        "--duration=1s", name="shm_verified")
        results = {"check": verified["check"]}
        for callers in (8, 16):
            results[callers] = loaded(server, f"--shape={S4096}", *common, f"--callers={callers}", "--connections=2",
                                      "--duration=4s", name=f"shm_{callers}")
        results["s128"] = loaded(server, f"--shape={S128}", *common, "--callers=64", "--connections=8", "--duration=2s",
                                 name="shm_s128")
    return results


def death():
    """A client is killed while calls are under way in its GPU's memory, again and again: the server serves on."""
    with Server(*REGIONS_ALLOWED) as server:
        for _ in range(3):
            client = subprocess.Popen(
                [
                    str(PROGRAMS / "tessera-load"),
                    f"--target={server.target}",
                    f"--shape={S4096}",
                    "--regions=cuda",
                    "--callers=8",
                    "--connections=1",
                    "--payloads=1",
                    "--duration=30s",
                    "--progress=false",
                ],
                env=ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            deadline = time.monotonic() + 15
            while server.metrics()["tessera_inflight_bytes"] == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.3)
            client.send_signal(signal.SIGKILL)
            client.wait()
        deadline = time.monotonic() + 5
        while server.metrics()["tessera_regions"] > 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        metrics = server.metrics()
        after = load(server.target, f"--shape={S128}", "--callers=8", "--duration=1s", "--verify=4", name="death_after")
    if metrics["tessera_regions"] != 0 or after["check"]["wrong_rows"] != 0:
        raise AssertionError("the server has not got over it")
    return {
        "regions_left": metrics["tessera_regions"],
        "device_up": metrics['tessera_device_up{device="0"}'],
        "after": after,
    }


STEPS = [check, cuda, shm, death]


def main():
    results, failed = {"cores": os.cpu_count()}, False
    by_name = {step.__name__: step for step in STEPS}
    for step in [by_name[name] for name in sys.argv[3:]] or STEPS:
        began = time.monotonic()
        try:
            results[step.__name__] = step()
        except Exception as error:  # the other steps' figures are worth having
            results[step.__name__] = {"error": f"{type(error).__name__}: {error}"}
            failed = True
        print(f"== {step.__name__} {time.monotonic() - began:.1f} s", flush=True)
        (OUT / "regions.json").write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
