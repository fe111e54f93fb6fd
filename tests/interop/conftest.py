from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from live_server import LiveServer


@pytest.fixture(scope="session")
def target() -> Iterator[str]:
    """Of the program that TESSERA_SERVER names."""
    with LiveServer(os.environ["TESSERA_SERVER"]) as server:
        yield server.target
