from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    if fake.hold is not None:
        fake.hold.set()
    fake.stop()


@pytest.fixture
def rng() -> np.random.Generator:
    """Seeded anew in every run; the seed is printed with a failure."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)
