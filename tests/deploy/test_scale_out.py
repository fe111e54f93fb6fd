"""Three servers behind the shipped client: calls are spread evenly, and a rolling restart costs none."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import time
import urllib.request

import programs
import pytest

CALLS = re.compile(r'^tessera_stage_seconds_count\{[^}]*stage="queue"[^}]*\} (\d+)', re.MULTILINE)
FLAGS = ("--backend=cpu", "--threads=1", "--drain_grace=300ms", "--log_level=warning")


def calls_of(server: programs.Server) -> int:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as answer:
        return int(CALLS.search(answer.read().decode())[1])


@contextlib.contextmanager
def load(targets, report, *flags):
    """tessera-load at the servers until the block is left, when `report` has been written."""
    command = [programs.BIN / "tessera-load", f"--target={','.join(targets)}", "--duration=120s", "--warm_up=0s"]
    command += ["--progress=false", f"--json={report}", "--attempts=4", *flags]
    process = subprocess.Popen([str(word) for word in command])
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)  # ends the run, and reports it
        process.wait(timeout=60)


def total(report):
    return json.loads(report.read_text())["targets"][0]["total"]


@pytest.mark.parametrize("transport", ["stream", "unary"])
def test_calls_are_spread_evenly(tmp_path, transport):
    with contextlib.ExitStack() as stack:
        servers = []
        for name in ("a", "b", "c"):
            folder = tmp_path / name
            folder.mkdir()
            servers.append(stack.enter_context(programs.tessera_server(folder, *FLAGS)))
        report = tmp_path / "load.json"
        # Well below what they can do: a server that is slower than the others would rightly get less.
        flags = (f"--transport={transport}", "--mode=constant", "--rate=300")
        with load([server.target for server in servers], report, *flags, "--shape=s=32,heads=2,d=64,dtype=bf16"):
            while sum(calls_of(server) for server in servers) < 900:
                time.sleep(0.1)
        calls = [calls_of(server) for server in servers]
    assert total(report)["failed"] == 0
    mean = sum(calls) / 3
    assert all(abs(count - mean) < 0.1 * mean for count in calls), calls


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]


@pytest.mark.parametrize("transport", ["stream", "unary"])
def test_rolling_restart_fails_no_call(tmp_path, transport):
    targets = [f"127.0.0.1:{port}" for port in free_ports(3)]
    report = tmp_path / "load.json"
    # Large calls, striped over connections, among the small ones.
    flags = (f"--transport={transport}", "--callers=24", "--shape=s=64,heads=4,d=64,dtype=bf16,mask=causal,weight=20")
    flags += ("--shape=s=2048,heads=16,d=64,dtype=bf16,mask=window:64:0",)
    with contextlib.ExitStack() as stack:

        def start(number, life):
            folder = tmp_path / f"{number}-{life}"
            folder.mkdir()
            return stack.enter_context(programs.tessera_server(folder, *FLAGS, listen=targets[number]))

        def await_calls(server):
            deadline = time.monotonic() + 30
            while calls_of(server) < 20:
                assert time.monotonic() < deadline, "the server gets no calls"
                time.sleep(0.1)

        servers = [start(number, 0) for number in range(3)]
        with load(targets, report, *flags):
            for number in range(3):
                await_calls(servers[number])
                servers[number].process.send_signal(signal.SIGTERM)
                assert servers[number].process.wait(timeout=60) == 0
                servers[number] = start(number, 1)
                await_calls(servers[number])
    result = total(report)
    assert (result["failed"], result["dropped"], result["errors"]) == (0, 0, {})
