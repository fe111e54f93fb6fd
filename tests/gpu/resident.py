"""Keys and values that stay on the GPU, through the server and its Python client."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

from service_programs import PROGRAMS, Echo, Server, decode_load, device_account, run
from standard import standard


class Rows:
    """A sequence's keys and values, [tokens, kv_heads, d] of each layer, kept here as well."""

    def __init__(self, layers):
        self.k, self.v = layers

    def cut(self, length):
        return Rows(([k[:length] for k in self.k], [v[:length] for v in self.v]))


def sequences():
    """Keys and values that stay on the GPU: prefill by chunks, decoding together and alone, fork, rollback, many threads;
    every answer against PyTorch in double precision, at most twice standard attention's error. Then a step's time."""
    import numpy as np
    import tessera
    import torch

    layers, heads, kv_heads, d, pages = 2, 32, 8, 128, 4096
    page_bytes = 2 * layers * 64 * kv_heads * d * 2
    rng = np.random.default_rng(11)
    worst = []

    def random(tokens, of):
        return rng.standard_normal((tokens, of, d)).astype(np.float16)

    def check(rows, layer, q, o):
        tensors = [torch.from_numpy(t).cuda() for t in (q, rows.k[layer], rows.v[layer])]
        tensors[1:] = [t.repeat_interleave(heads // kv_heads, 1) for t in tensors[1:]]
        exact = standard(*(t.double() for t in tensors), True, torch.float64)
        allowed = 2 * (standard(*tensors, True, torch.float16).double() - exact).abs().max().item() + 1e-5
        worst.append((torch.from_numpy(o).cuda().double() - exact).abs().max().item() / allowed)
        if not worst[-1] <= 1:
            raise AssertionError(f"{len(q)} rows over {len(rows.k[layer])}: {worst[-1]} of what is allowed")

    def step(client, layer, tokens, *pairs):
        """The same step of several sequences, as one call."""
        steps = [tessera.Step(sequence, layer, random(tokens, heads), random(tokens, kv_heads), random(tokens, kv_heads))
                 for sequence, _ in pairs]
        done = client.extend(steps)
        for (_, rows), each, o in zip(pairs, steps, done.o):
            rows.k[layer] = np.concatenate([rows.k[layer], each.k])
            rows.v[layer] = np.concatenate([rows.v[layer], each.v])
            check(rows, layer, each.q, o)
        return done

    def empty():
        return Rows([[random(0, kv_heads) for _ in range(layers)] for _ in range(2)])

    flag = f"--kv_profiles=name=h,layers={layers},kv_heads={kv_heads},head_dim={d},dtype=float16,pages={pages}"
    with Server(flag) as server, tessera.Client(server.target) as client:
        memory = 'tessera_device_memory_bytes{device="0",kind="used"}'
        at_start = server.metrics()[memory]
        trunk = client.create_sequences("h", 1)[0]
        rows = empty()
        for tokens in (512, 100, 1, 1, 27):
            for layer in range(layers):
                step(client, layer, tokens, (trunk, rows))
        q = random(3, heads)
        again = trunk.extend(0, q)
        check(rows, 0, q, again)
        with trunk.fork() as whole, trunk.fork(333) as part:
            if not np.array_equal(whole.extend(0, q), again):
                raise AssertionError("a fork does not answer as what it was forked from")
            branches = [(trunk, rows), (whole, rows.cut(641)), (part, rows.cut(333))]
            for _ in range(20):
                step(client, 1, 1, *branches)
            whole.truncate(600)
            rolled_back = branches[1][1].cut(600)
            for tokens in (1, 70):
                step(client, 1, tokens, (whole, rolled_back))
            step(client, 0, 1, branches[2])
        trunk.release()

        many = [(sequence, empty()) for sequence in client.create_sequences("h", 32)]
        for pair in many:
            step(client, 0, 1 + int(rng.integers(700)), pair)
        batches = [step(client, 0, 1, *many).timing.batch_requests]
        inputs = {sequence: [(random(1, heads), random(1, kv_heads), random(1, kv_heads)) for _ in range(25)]
                  for sequence, _ in many}

        def decode(sequence, rows):
            for q, k, v in inputs[sequence]:
                done = client.extend([tessera.Step(sequence, 0, q, k, v)])
                batches.append(done.timing.batch_requests)
                rows.k[0], rows.v[0] = np.concatenate([rows.k[0], k]), np.concatenate([rows.v[0], v])
            check(rows, 0, q, done.o[0])
        with ThreadPoolExecutor(len(many)) as threads:
            list(threads.map(decode, *zip(*many)))
        checked = len(worst)
        for sequence, _ in many:
            sequence.release()
        left = server.metrics()

        times = {}
        with client.create_sequences("h", 1)[0] as alone:
            for tokens in (1, 8192):
                length = alone.info().lengths[0]
                while length < tokens - 1:
                    chunk = min(1024, tokens - 1 - length)
                    alone.extend(0, random(chunk, heads), random(chunk, kv_heads), random(chunk, kv_heads))
                    length += chunk
                q, k, v = random(1, heads), random(1, kv_heads), random(1, kv_heads)
                measured = []
                before = server.metrics()
                for _ in range(300):
                    began = time.perf_counter()
                    done = client.extend([tessera.Step(alone, 0, q, k, v)])
                    measured.append((time.perf_counter() - began, done.timing.run))
                times[tokens] = {"client_p50_us": 1e6 * sorted(t for t, _ in measured)[150],
                                 "run_p50_us": 1e6 * sorted(t for _, t in measured)[150],
                                 "devices": device_account(before, server.metrics(), 1)}
    result = {"checked": checked, "worst_error_over_allowed": max(worst), "largest_batch": max(batches),
              "page_bytes": pages * page_bytes, "device_bytes_at_start": at_start,
              "kv_pages_used_at_end": left['tessera_kv_pages{profile="h",state="used"}'],
              "sequences_at_end": left['tessera_kv_sequences{profile="h"}'],
              "device_bytes_at_end": left[memory], "one_sequence_of_tokens": times}
    if not (at_start == left[memory] == pages * page_bytes and result["kv_pages_used_at_end"] == 0):
        raise AssertionError(f"the pages are not all there: {result}")
    return result


def spill():
    """Pools that are too small: every answer as defined, refusals counted as the callers saw them, pages moved to the host
    and back. Then sequences that decode in a pool of their size, and in one of half of it with room on the host."""
    done = run("sequence_pool", f"--server={PROGRAMS / 'tessera-server'}", "--backend=cuda", "--callers=16",
               "--operations=400", "--tolerance=5e-5", name="sequence_pool", timeout=60)
    result = {"exit_code": done.returncode, "pools": [json.loads(line) for line in done.stdout.splitlines()],
              "decoding": {}}
    layers, moved = 8, 'tessera_kv_moved_pages_total{profile="main",to="%s"}'
    result["page_bytes"] = 2 * layers * 64 * 8 * 128 * 2
    for name, pages, host_pages in (("roomy", 1280, 0), ("half", 640, 1024)):
        profile = f"name=main,layers={layers},kv_heads=8,page_tokens=64,max_tokens=2048,pages={pages},host_pages={host_pages}"
        with Server(f"--kv_profiles={profile}") as server:
            load = decode_load(server, "--decode=profile=main,heads=32,prefill=512..1024,steps=64", "--callers=64",
                               "--connections=16", "--duration=4s", "--verify=16", name=f"spill_{name}")
            metrics = server.metrics()
        load["moved_pages"] = {to: metrics[moved % to] for to in ("host", "device")}
        result["decoding"][name] = load
        if load["exit_code"] or (min(load["moved_pages"].values()) > 0) != (host_pages > 0):
            raise AssertionError(f"{name}: {load}")
    if done.returncode:
        raise AssertionError(f"{result}: {done.stderr}")
    return result


def sequence_soak():
    """Random operations of processes that are killed, cancel and try each other's sequences: every page is free at the end."""
    done = run("sequence_soak", f"--server={PROGRAMS / 'tessera-server'}", "--operations=200000", name="sequence_soak")
    result = {"exit_code": done.returncode, "output": done.stdout.splitlines()}
    if done.returncode:
        raise AssertionError(f"{result}: {done.stderr}")
    return result


def steps():
    """Steps on the device without a server around it."""
    return [json.loads(line) for line in run("extend_bench", name="extend_bench").stdout.splitlines()]


ONE_LAYER = "name=one,layers=1,kv_heads=8,head_dim=128,dtype=bfloat16,pages=2048"
DEEP = "name=deep,layers=32,kv_heads=8,head_dim=128,dtype=bfloat16,pages=8192"


def stream_alone():
    """Decoding over ExtendStream, one caller with one sequence, beside the raw echo of the same bytes, which has a process
    of its own as the server has: where server and echo may roam all processors, and where each has two."""
    results = {}
    for processors, of_echo, name in ((None, None, ""), ("0,1", "2,3", "_by_two_processors")):
        with Server(f"--kv_profiles={ONE_LAYER}", processors=processors) as server, Echo(processors=of_echo) as echo:
            for prefill in (1, 8192):
                results[f"one_sequence_of_{prefill}{name}"] = decode_load(
                    server, f"--decode=profile=one,heads=32,prefill={prefill},steps=4000", "--callers=1", "--connections=1",
                    f"--echo_target={echo.target}", "--duration=2s", "--rounds=3", name=f"decode_one_sequence_of_{prefill}{name}")
    return results


def stream():
    """256 sequences of 32 layers that decode over 16 streams, as calls of their own and 16 in one, beside the raw echo."""
    results = {}
    with Server(f"--kv_profiles={DEEP}") as server, Echo() as echo:
        for group in (1, 16):
            results[f"256_sequences_by_{group}"] = decode_load(
                server, f"--decode=profile=deep,heads=32,prefill=256,chunk=64,steps=1000,group={group}", f"--callers={256 // group}",
                "--connections=16", f"--echo_target={echo.target}", "--warm_up=8s", "--duration=4s", "--rounds=2",
                "--verify=4", name=f"decode_256_by_{group}")
    return results
