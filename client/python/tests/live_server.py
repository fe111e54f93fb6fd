"""The real tessera-server as a child process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from types import TracebackType


class LiveServer:
    """On free ports of the loopback, unless `listen` names one, for as long as the `with` lasts."""

    def __init__(self, binary: str, *flags: str, listen: str = "127.0.0.1:0") -> None:
        ports = [f"--listen={listen}", "--metrics_address=127.0.0.1:0"]
        self._process = subprocess.Popen(
            [binary, *ports, "--backend=cpu", "--drain_grace=0s", "--log_level=warning", *flags], stdout=subprocess.PIPE
        )
        self._terminated = False
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{binary} ended with {self._process.wait()} before it served")
        serving = json.loads(line)
        self.target = f"{listen.partition(':')[0]}:{serving['grpc_port']}"
        self.metrics_url = f"http://127.0.0.1:{serving['metrics_port']}/metrics"

    def __enter__(self) -> LiveServer:
        return self

    def freeze(self) -> None:
        """Returns once no thread of it runs any more, which is a while after the signal."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Asks the server, once, to drain and exit; does not wait for it. A second signal would end it at once."""
        if not self._terminated:
            self._terminated = True
            self._process.terminate()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops the server. AssertionError unless it drains and exits with 0."""
        self.terminate()
        try:
            code = self._process.wait(timeout=40)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()
        assert code == 0
