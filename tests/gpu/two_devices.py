"""Two GPUs of one server against one, and one of the two lost.

Calls are in the GPUs' own memory, so that nothing but the GPUs and what the server does for a call is measured: a
tessera-load for each GPU, all at the same time, and the server's own counters over a time in which all of them run.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service_programs import ENVIRONMENT, PROGRAMS, REGIONS_ALLOWED, S128, S4096, Server, load

WARM_UP = 0.7  # s, after the last of the loads has begun
WINDOW = 1.5
LOAD = "--duration=2500ms"  # behind tessera-load's own warm-up of 1 s: WARM_UP, WINDOW and what the loads begin apart
BY_MEMORY = ("--regions=cuda", "--payloads=2")
LARGE = (f"--shape={S4096}", *BY_MEMORY, "--callers=8", "--connections=1")
SMALL = (f"--shape={S128}", *BY_MEMORY, "--callers=64", "--connections=8")


def flops(metrics):
    """By device."""
    total = {}
    for name, value in metrics.items():
        labels = re.fullmatch(r'tessera_flops_total\{device="(\d+)",.*\}', name)
        if labels:
            total[int(labels[1])] = total.get(int(labels[1]), 0) + value
    return total


def busy_core_seconds():
    """Of the whole machine: user, nice, system, interrupts."""
    user, nice, system, _, _, irq, softirq = (int(n) for n in Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / 100


def at_once(server, gpus, *flags, name):
    """A load in the memory of each of `gpus`: what they do, and what the machine's cores do, in a time in which all of
    the loads run."""
    def growing(before):
        now = flops(server.metrics())
        return all(now.get(gpu, 0) > before.get(gpu, 0) for gpu in gpus)

    idle = flops(server.metrics())
    with ThreadPoolExecutor() as threads:
        loads = [threads.submit(load, server.target, *flags, LOAD, name=f"{name}_{gpu}", gpu=gpu) for gpu in gpus]
        deadline = time.monotonic() + 20
        while not growing(idle) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(WARM_UP)
        before, busy, server_busy, begun = server.metrics(), busy_core_seconds(), server.cpu_seconds(), time.monotonic()
        time.sleep(WINDOW)
        seconds = time.monotonic() - begun
        after = server.metrics()
        cores = {"machine": (busy_core_seconds() - busy) / seconds, "server": (server.cpu_seconds() - server_busy) / seconds}
        if any(each.done() for each in loads):
            raise AssertionError(f"{name}: a load ended within the time measured")
    tflops = {gpu: (flops(after)[gpu] - flops(before)[gpu]) / seconds / 1e12 for gpu in gpus}
    reports = [each.result() for each in loads]
    if any(report["exit_code"] != 0 or report["server"]["failed"] for report in reports):
        raise AssertionError(f"{name}: calls failed")
    requests = after["tessera_batch_requests_sum"] - before["tessera_batch_requests_sum"]
    return {"tflops": sum(tflops.values()), "tflops_by_gpu": tflops, "requests_per_second": requests / seconds,
            "busy_cores": cores, "p50_us": [report["server"]["p50_us"] for report in reports],
            "p99_us": [report["server"]["p99_us"] for report in reports]}


def devices():
    """The large calls are the figure; the small ones say what a call costs the host."""
    with Server(*REGIONS_ALLOWED, "--device=0") as server:
        one = {"large": at_once(server, [0], *LARGE, name="one_large"), "small": at_once(server, [0], *SMALL, name="one_small")}
    with Server(*REGIONS_ALLOWED, "--device=all") as server:
        other = at_once(server, [1], *LARGE, name="other_large")
        turns = [at_once(server, [0, 1], *LARGE, name=f"both_large_{turn}") for turn in range(2)]
        small = at_once(server, [0, 1], *SMALL, name="both_small")
    both = sum(turn["tflops"] for turn in turns) / len(turns)
    return {"one": one, "other_of_two": {"large": other}, "both": {"large": turns, "small": small},
            "large_both_over_one": both / one["large"]["tflops"],
            "large_both_over_sum": both / (one["large"]["tflops"] + other["tflops"]),
            "small_both_over_one": small["requests_per_second"] / one["small"]["requests_per_second"]}


def whole(report):
    """All calls of the load were served, and those looked at are right."""
    return (report["exit_code"] == 0 and report["server"]["ok"] > 0 and not report["server"]["failed"]
            and report["check"]["wrong_rows"] == 0)


def loaded_while_it_breaks(target, *flags, name):
    """Every call counts, from the first one on."""
    return load(target, f"--shape={S128}", "--callers=64", "--connections=16", "--warm_up=0s", "--duration=4s", "--verify=4",
                *flags, name=name)


def devices_loss():
    """GPU 0 is lost, by a script, under a load of both: GPU 1 serves on, callers that have their memory there, too."""
    with Server(*REGIONS_ALLOWED, "--fault_script=0/run@1000=sticky") as server:
        result = loaded_while_it_breaks(server.target, "--attempts=4", name="devices_loss")
        metrics = server.metrics()
        up = [metrics[f'tessera_device_up{{device="{device}"}}'] for device in (0, 1)]
        at = (server.target, f"--shape={S128}", *BY_MEMORY, "--callers=8", "--connections=1", "--duration=1s")
        on_the_other = load(*at, "--verify=4", name="devices_loss_other", gpu=1)
        on_the_lost = load(*at, name="devices_loss_lost", gpu=0)
        serves = server.process.poll() is None
    outcome = {"load": result, "up": up, "regions_on_the_other": on_the_other, "regions_on_the_lost": on_the_lost}
    if up != [0, 1] or not (serves and whole(result) and whole(on_the_other)) or on_the_lost["exit_code"] == 0:
        raise AssertionError(f"{outcome}, serves: {serves}")
    return outcome


def devices_trap():
    """A kernel traps on GPU 0. After that CUDA fails every call of the process, on GPU 1 as well: a server of both ends.
    Where each GPU has a server of its own, callers of both lose no call."""
    trapping = dict(ENVIRONMENT, TESSERA_TRAP_AFTER="1000", TESSERA_TRAP_DEVICE="0")
    trapping_server = {"command": [str(PROGRAMS / "trapping_server")], "environment": trapping}
    with Server(**trapping_server) as server:
        together = loaded_while_it_breaks(server.target, name="devices_trap_together")
        together_exit = server.process.wait(15)
    with Server("--device=0", **trapping_server) as doomed, Server("--device=1") as other:
        apart = loaded_while_it_breaks(f"{doomed.target},{other.target}", "--attempts=4", name="devices_trap_apart")
        apart_exit, serves = doomed.process.wait(15), other.process.poll() is None
    outcome = {"one_server": {"load": together, "exit_code": together_exit},
               "a_server_each": {"load": apart, "exit_code_of_the_lost": apart_exit}}
    if (together_exit, apart_exit) != (70, 70) or not (serves and whole(apart)):
        raise AssertionError(f"{outcome}, the other serves: {serves}")
    return outcome


STEPS = [devices, devices_loss, devices_trap]
