"""ghz loads the server with JSON; what it sends and expects it knows by reflection."""

from __future__ import annotations

import json
import subprocess

from json_call import TOOLS, attend_request


def test_load(target: str) -> None:
    call = ["--insecure", "--call", "tessera.v1.AttentionService.Attend", "-d", json.dumps(attend_request())]
    load = ["-n", "2000", "-c", "16", "--connections", "4", "--timeout", "20s"]
    done = subprocess.run(
        [str(TOOLS / "ghz"), *call, *load, "-O", "json", target], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["count"] == 2000
    assert report["statusCodeDistribution"] == {"OK": 2000}
    assert not report["errorDistribution"]
