"""A client's connections, made anew when their certificates have changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tessera.security import LOOK_SECONDS

Channel = TypeVar("Channel")


class Generation(Generic[Channel]):
    """Channels that were made together, and how many calls are on them."""

    def __init__(self, channels: list[Channel]) -> None:
        self.channels = channels
        self.calls = 0  # guarded by Connections._lock


class Connections(Generic[Channel]):
    """Calls that begin once the files have changed go over new channels; those under way keep the old ones, which are
    idle with their last call. Threads may share it.
    """

    def __init__(self, make: Callable[[], list[Channel]], stamp: Callable[[], Any]) -> None:
        """`make` raises ValueError where the files are no good; `stamp` returns something else once they changed."""
        self._make = make
        self._stamp_of_files = stamp
        self._lock = threading.Lock()
        self._stamp = stamp()  # guarded by _lock, as are all below
        self._next_look = time.monotonic() + LOOK_SECONDS
        self._current = Generation(make())
        self._old: list[Generation[Channel]] = []

    def take(self) -> Generation[Channel]:
        """The newest ones, for one call. Give them back at its end."""
        with self._lock:
            now = time.monotonic()
            if now >= self._next_look:
                self._next_look = now + LOOK_SECONDS
                self._look()
            self._current.calls += 1
            return self._current

    def give_back(self, generation: Generation[Channel]) -> None:
        with self._lock:
            generation.calls -= 1

    def idle(self) -> list[Channel]:
        """Old channels without calls, which are forgotten here: close them."""
        with self._lock:
            idle = [generation for generation in self._old if generation.calls == 0]
            self._old = [generation for generation in self._old if generation.calls > 0]
        return [channel for generation in idle for channel in generation.channels]

    def all(self) -> list[Channel]:
        with self._lock:
            return [channel for generation in (*self._old, self._current) for channel in generation.channels]

    def _look(self) -> None:
        stamp = self._stamp_of_files()
        if stamp == self._stamp:
            return
        try:
            made = Generation(self._make())
        except ValueError:
            return  # the old ones go on; the next look tries again
        self._stamp = stamp
        self._old.append(self._current)
        self._current = made
