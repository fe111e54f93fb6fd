"""The futures of submitted calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tessera.call import Attention
from tessera.sequences import Extension

Result = TypeVar("Result")


class Pending(Future[Result]):
    """A call in flight. `cancel` withdraws it from the server, whether it waits or runs there.

    Callbacks run on the client's own threads: they must be short, and must not close the client.
    """

    def __init__(self, withdraw: Callable[[], object]) -> None:
        """`withdraw` ends the call's work. It may be called more than once, on any thread."""
        super().__init__()
        self._withdraw: Callable[[], object] | None = withdraw
        self._outcome = threading.Lock()  # taken with the call's outcome, and kept

    def cancel(self) -> bool:
        cancelled = super().cancel()
        withdraw = self._withdraw
        if cancelled and withdraw is not None:
            withdraw()
            self._take_outcome()
        return cancelled

    def settle(self, outcome: Result | Exception) -> None:
        """Ends the call. Of several outcomes the first counts, and none after a cancellation. For the client alone."""
        if not self._take_outcome():
            return
        if isinstance(outcome, Exception):
            self.set_exception(outcome)
        else:
            self.set_result(outcome)

    def _take_outcome(self) -> bool:
        """Whether the caller is to set the outcome. Tells those who wait for a cancelled call."""
        if not self._outcome.acquire(blocking=False):
            return False
        # The work is over, and what it held (the answer's message, the caller's arrays) may go.
        self._withdraw = None
        return self.set_running_or_notify_cancel()


class PendingAttention(Pending[Attention]):
    """Of Client.submit."""


class PendingExtension(Pending[Extension]):
    """Of ExtendStream.submit. A call that is cancelled may have been done all the same."""
