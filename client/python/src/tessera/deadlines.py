"""What is to happen at given times."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable


class Deadlines:
    """Runs actions at their times, all on one thread, which ends when it wakes and finds none. Threads may share it.

    An action must be short, for it delays the others, and must not raise. Times are by time.monotonic().
    """

    def __init__(self) -> None:
        self._keys = itertools.count()
        self._changed = threading.Condition()
        self._actions: dict[int, tuple[float, Callable[[], object]]] = {}  # guarded by _changed
        self._running = False  # guarded by _changed
        self._wakes_at = 0.0  # guarded by _changed; of the thread that runs

    def add(self, at: float, action: Callable[[], object]) -> int:
        """Has `action` run at `at`, once. Returns what names it to `discard`."""
        with self._changed:
            if not self._running:
                self._wakes_at = at
                threading.Thread(target=self._run, name="tessera-deadlines", daemon=True).start()
                self._running = True
            elif at < self._wakes_at:
                self._changed.notify()
            key = next(self._keys)
            self._actions[key] = (at, action)
            return key

    def discard(self, key: int) -> None:
        """The action will not begin any more. It may have run, or be running."""
        with self._changed:
            self._actions.pop(key, None)

    def close(self) -> None:
        """Discards every action."""
        with self._changed:
            self._actions.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._actions:
                    self._running = False
                    return
                key = min(self._actions, key=lambda key: self._actions[key][0])
                at, action = self._actions[key]
                wait = at - time.monotonic()
                if wait > 0:
                    self._wakes_at = at
                    self._changed.wait(min(wait, threading.TIMEOUT_MAX))
                    continue
                del self._actions[key]
            action()
