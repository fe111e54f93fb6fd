from __future__ import annotations

import os
import random
from collections.abc import Iterator

import numpy as np
import pytest

from fake_server import FakeServer
from live_server import LiveServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    if fake.hold is not None:
        fake.hold.set()
    fake.stop()


@pytest.fixture(scope="session")
def server_binary() -> str:
    """The program that TESSERA_SERVER names; tests that want it are skipped without."""
    binary = os.environ.get("TESSERA_SERVER")
    if not binary:
        pytest.skip("TESSERA_SERVER does not name a tessera-server")
    return binary


@pytest.fixture(scope="session")
def live(server_binary: str) -> Iterator[LiveServer]:
    with LiveServer(server_binary) as started:
        yield started


@pytest.fixture
def rng() -> np.random.Generator:
    """Seeded anew in every run; the seed is printed with a failure."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)
