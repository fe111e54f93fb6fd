"""The packed programs: a server, loads of it, and the raw echo beside it; the shapes of the loads.

PROGRAMS is what tests/gpu/service.sh packed, OUT where logs go.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = Path(sys.argv[1])
OUT = Path(sys.argv[2])
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=str(PROGRAMS / "lib"))
# Of each turn of a load, after a second of warm-up; turns of the server and of the echo alternate.
TURN = "3s"
TURNS = 2

S16 = "s=16,heads=16,d=128,dtype=bf16,mask=causal"
S128 = "s=128,heads=16,d=128,dtype=bf16,mask=causal"
S4096 = "s=4096,heads=16,d=128,dtype=bf16,mask=full"

REGIONS_ALLOWED = ("--allow-shared-memory", "--allow-cuda-ipc", "--max-region-bytes=4GiB")


def confined(command, processors):
    return command if processors is None else ["taskset", "--cpu-list", processors, *command]


class Server:
    """A server process; flags are tessera-server's. `processors`: the only ones that it runs on, as taskset has them."""

    def __init__(self, *flags, command=None, environment=None, processors=None):
        command = command or [str(PROGRAMS / "tessera-server")]
        base = ["--listen=127.0.0.1:0", "--metrics_address=127.0.0.1:0", "--backend=cuda", "--max_tenant_memory_share=1",
                "--staging_bytes=4GiB", "--max_inflight_bytes=8GiB", "--drain_grace=0s"]
        if command[0].endswith("python3"):
            base = []
        command = confined(command, processors)
        self.log = open(OUT / "server.log", "a")
        began = time.monotonic()
        self.process = subprocess.Popen(command + base + list(flags), stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=environment or (ENVIRONMENT if base else None))
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server does not start: {self.process.wait()}")
        serving = json.loads(line)
        self.start_seconds = time.monotonic() - began
        self.target = f"127.0.0.1:{serving['grpc_port']}"
        self.metrics_port = serving["metrics_port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def metrics(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5).read().decode()
        samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report_of(target, *flags, name, gpu=None):
    """A run of tessera-load: its exit code and its report, without targets if it wrote none. `gpu`: the only one that it
    sees, and so the one where its regions are."""
    path = OUT / f"load_{name}.json"
    command = [str(PROGRAMS / "tessera-load"), f"--target={target}", f"--json={path}", "--progress=false", "--warm_up=1s",
               *flags]
    environment = ENVIRONMENT if gpu is None else dict(ENVIRONMENT, CUDA_VISIBLE_DEVICES=str(gpu))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    (OUT / f"load_{name}.txt").write_text(" ".join(command) + "\n" + done.stdout + done.stderr)
    print(done.stdout[-1600:], done.stderr[-600:], flush=True)
    text = path.read_text() if path.exists() else ""
    report = json.loads(text) if text else {"targets": []}  # a load that gives up leaves it empty
    path.unlink(missing_ok=True)
    return done.returncode, report


def load(target, *flags, name, gpu=None):
    """A load of calls, in short."""
    exit_code, report = report_of(target, *flags, name=name, gpu=gpu)
    result = {"exit_code": exit_code, "check": report.get("check")}
    for each in report["targets"]:
        total = each["total"]
        result[each["name"]] = {
            "requests_per_second": total["requests_per_second"],
            "gb_per_second": (total["upload_bytes_per_second"] + total["download_bytes_per_second"]) / 1e9,
            "tflops": total["flops_per_second"] / 1e12,
            "p50_us": total["latency_us"]["p50"], "p99_us": total["latency_us"]["p99"],
            "ok": total["ok"], "failed": total["failed"], "errors": total["errors"],
            "server_us": {stage: {q: times[q] for q in ("mean", "p50", "p99")}
                          for stage, times in total.get("server", {}).items()},
        }
    return result


def decode_load(server, *flags, name):
    """A load of sequences that grow (`--decode`), in short, and what the devices did meanwhile."""
    before = server.metrics()
    exit_code, report = report_of(server.target, *flags, name=name)
    result = {"exit_code": exit_code, "check": report.get("check"), "server_over_echo": report.get("server_over_echo")}
    kept = ("tokens_per_second", "layers_per_second", "calls_per_second", "upload_bytes_per_second",
            "prefill_tokens_per_second", "sequences", "steps", "refused_steps", "failed_steps", "errors")
    for each in report["targets"]:
        times = dict({name: each.get(name) for name in ("token_us", "inter_token_us", "step_us", "elsewhere_us")},
                     **each.get("server", {}))
        short = {name: {q: time[q] for q in ("mean", "p50", "p99")} for name, time in times.items() if time}
        result[each["name"]] = {**{name: each[name] for name in kept}, **short}
    layers_per_second = result.get("server", {}).get("layers_per_second", 0)
    result["devices"] = device_account(before, server.metrics(), layers_per_second)
    return result


def device_account(before, after, requests_per_second):
    """What the devices did between two scrapes. stages_over_wall: stage seconds in a second of the load."""
    def grown(name):
        return after.get(name, 0) - before.get(name, 0)
    stages = {stage: grown(f'tessera_stage_seconds_sum{{stage="{stage}"}}') for stage in ("copy_in", "compute", "copy_out")}
    batches = grown("tessera_batch_requests_count")
    requests = grown("tessera_batch_requests_sum")
    if not requests:
        return None
    buckets = {}
    below = 0
    for name in after:
        bucket = re.fullmatch(r'tessera_batch_requests_bucket\{le="(.*)"\}', name)
        if bucket:
            count = grown(name)
            buckets[bucket[1]] = count - below
            below = count
    return {"us_per_batch": {stage: 1e6 * seconds / batches for stage, seconds in stages.items()},
            "stages_over_wall": sum(stages.values()) / requests * requests_per_second,
            "batches": batches, "requests": requests, "requests_per_batch": requests / batches,
            "batch_size_histogram": buckets}


def loaded(server, *flags, name):
    """A load of a server, and what its devices did meanwhile."""
    before, cpu = server.metrics(), server.cpu_seconds()
    result = load(server.target, *flags, name=name)
    result["devices"] = device_account(before, server.metrics(), result.get("server", {}).get("requests_per_second", 0))
    if result["devices"]:
        result["server_cpu_us_per_request"] = 1e6 * (server.cpu_seconds() - cpu) / result["devices"]["requests"]
    return result


class Echo:
    """A raw echo in a process of its own, as the server is, and confined as it may be."""

    def __init__(self, processors=None):
        command = confined([str(PROGRAMS / "tessera-load"), "--serve_echo=127.0.0.1:0"], processors)
        self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        self.target = f"127.0.0.1:{int(self.process.stdout.readline().split()[-1])}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def beside_echo(server, *flags, name, check=0):
    """Turns of the server and of the raw echo with the same bytes: `--echo`, which answers from the load's own process.
    Then one turn of an echo in a process of its own. `check`: answers to check in double precision."""
    turns = {"server": [], "echo": []}
    for turn in range(TURNS):
        verify = [f"--verify={check}"] if turn == 0 else []
        turns["server"].append(loaded(server, *flags, f"--duration={TURN}", *verify, name=f"{name}_{turn}"))
        turns["echo"].append(load("", *flags, f"--duration={TURN}", "--echo", name=f"{name}_echo_{turn}"))
    with Echo() as echo:
        apart = load("", *flags, f"--duration={TURN}", f"--echo_target={echo.target}", name=f"{name}_echo_apart")
    rates = {who: sum(turn[who]["requests_per_second"] for turn in turns[who]) / TURNS for who in turns}
    return {"requests_per_second": rates, "server_over_echo": rates["server"] / rates["echo"],
            "server_over_echo_apart": rates["server"] / apart["echo"]["requests_per_second"],
            "turns": turns, "echo_apart": apart}


def run(*command, name, timeout=150):
    done = subprocess.run([str(PROGRAMS / command[0]), *command[1:]], env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=timeout)
    (OUT / f"{name}.log").write_text(done.stdout + done.stderr)
    print(done.stdout[-1500:], done.stderr[-800:], flush=True)
    return done
