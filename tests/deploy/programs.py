"""The programs under test, started and stopped: Tessera's server, its load tester, Prometheus.

TESSERA_BIN names the folder of Tessera's programs, PROMETHEUS_BIN that of prometheus and promtool; the defaults are
where the build and deploy/local/setup.sh --deploy put them.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TESSERA_BIN", ROOT / "build/cuda/bin"))
PROMETHEUS_BIN = pathlib.Path(os.environ.get("PROMETHEUS_BIN", ROOT / ".tools/prometheus/usr/bin"))
STARTS_WITHIN_SECONDS = 60


@contextlib.contextmanager
def running(command, log: pathlib.Path, stdout=None):
    """`command` as a process that is told to end, and waited for, when the block is left."""
    with log.open("w") as stderr:
        process = subprocess.Popen([str(word) for word in command], stdout=stdout or stderr, stderr=stderr)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def await_line(process, log: pathlib.Path, pattern: str) -> re.Match:
    """What matches `pattern` in `log`, as soon as `process` has written it."""
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while not (match := re.search(pattern, log.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args[0]} did not say {pattern!r}:\n{log.read_text()}")
        time.sleep(0.05)
    return match


class Server:
    """A tessera-server on free ports of the loopback."""

    def __init__(self, process, ports):
        self.process = process
        self.target = f"127.0.0.1:{ports['grpc_port']}"
        self.metrics = f"127.0.0.1:{ports['metrics_port']}"
        self.health = f"127.0.0.1:{ports['health_port']}"


@contextlib.contextmanager
def tessera_server(folder: pathlib.Path, *flags: str, command=(BIN / "tessera-server",), listen="127.0.0.1:0"):
    """A Server; `command` is how it is started, less the flags."""
    said = folder / "server.json"
    flags = (f"--listen={listen}", "--metrics_address=127.0.0.1:0", *flags)
    with said.open("w") as stdout, running([*command, *flags], folder / "server.log", stdout) as process:
        yield Server(process, json.loads(await_line(process, said, r"\{.*\}\n")[0]))


def shipped_prometheus(folder: pathlib.Path, targets) -> pathlib.Path:
    """deploy/prometheus copied into `folder`, for `targets`, every 2 s; the path of its configuration."""
    for shipped in ("rules", "targets"):
        shutil.copytree(ROOT / "deploy/prometheus" / shipped, folder / shipped)
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}
    for found in (folder / "targets").iterdir():
        found.unlink()
    (folder / "targets/tested.yml").write_text(yaml.safe_dump([{"targets": list(targets)}]))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    return folder / "prometheus.yml"


@contextlib.contextmanager
def prometheus(folder: pathlib.Path, targets):
    """A Prometheus that scrapes `targets` every 2 s by the shipped configuration; its address."""
    log = folder / "prometheus.log"
    command = [
        PROMETHEUS_BIN / "prometheus",
        f"--config.file={shipped_prometheus(folder, targets)}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with running(command, log) as process:
        await_line(process, log, r'msg="Server is ready to receive web requests\."')
        yield await_line(process, log, r'msg="Listening on" address=(\S+)')[1]


def promtool(*arguments, stdin: str | None = None) -> subprocess.CompletedProcess:
    command = [str(PROMETHEUS_BIN / "promtool"), *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
