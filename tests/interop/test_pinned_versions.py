from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_oldest_are_those_of_the_client() -> None:
    project = (ROOT / "client/python/pyproject.toml").read_text()
    pins = dict(re.findall(r"^(\w+)==([0-9.]+)$", (ROOT / "tests/interop/requirements-oldest.txt").read_text(), re.M))
    for package in ("grpcio", "protobuf", "numpy", "ml_dtypes"):
        (lowest,) = set(re.findall(rf'"{package}>=([0-9.]+)', project))
        assert (pins[package] + ".").startswith(lowest + "."), f"{package} is pinned at {pins[package]}, not {lowest}"
