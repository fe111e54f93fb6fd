"""The AttendInRegions RPC of a session: requests and their answers, by id."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable
from typing import Union

import grpc

from tessera import errors
from tessera.message_stream import MessageStream
from tessera.v1 import region_pb2

ATTEND_IN_REGIONS = "/tessera.v1.RegionService/AttendInRegions"

# How long an answer may take beyond the time that was asked for. The server keeps to that by itself, but answers only
# when the device has let go of the arrays.
GRACE_SECONDS = 1.0

# The answer, or why there is none.
Outcome = Union[region_pb2.AttendInRegionsResponse, errors.Error]


class RegionStream(MessageStream):
    """Threads may share it. Answers are passed on by one thread of its own."""

    def __init__(self, channel: grpc.Channel, metadata: tuple[tuple[str, str], ...]) -> None:
        self._ids = itertools.count(1)
        self._waiting: dict[int, Callable[[Outcome], object]] = {}  # guarded by _lock
        super().__init__(channel, ATTEND_IN_REGIONS, metadata, "tessera-regions")

    def send(self, request: region_pb2.AttendInRegionsRequest, answered: Callable[[Outcome], object]) -> int:
        """Sends under a new id, which is returned. `answered` is called once, possibly before this returns. It must be
        short.
        """
        request_id = next(self._ids)
        request.id = request_id
        with self._lock:
            ended = self._ended
            if ended is None:
                self._waiting[request_id] = answered
                self._requests.put(request.SerializeToString())
        if ended is not None:
            answered(ended)
        return request_id

    def ask(
        self, request: region_pb2.AttendInRegionsRequest, limit: float | None
    ) -> region_pb2.AttendInRegionsResponse:
        """The same, and waits. Raises the answer's Error, and DeadlineExceededError where there is none `limit` seconds
        and a little later: a region that is opened after that is closed. None: no bound. Where the wait is interrupted,
        a call is withdrawn.
        """
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        request_id = self.send(request, answers.put)
        try:
            outcome = answers.get(timeout=None if limit is None else max(0.0, limit) + GRACE_SECONDS)
        except queue.Empty:
            outcome = self._give_up(request_id, answers)
        except BaseException:
            self.cancel(request_id)
            raise
        return _checked(outcome)

    def cancel(self, request_id: int) -> None:
        """Withdraws a call."""
        request = region_pb2.AttendInRegionsRequest(id=request_id, cancel=True)
        with self._lock:
            if self._ended is None and request_id in self._waiting:
                self._requests.put(request.SerializeToString())

    def _give_up(self, request_id: int, answers: queue.SimpleQueue[Outcome]) -> Outcome:
        """What to say in place of an answer, unless it is just coming."""
        with self._lock:
            comes = request_id not in self._waiting
            if not comes:
                self._waiting[request_id] = self._undo
        if comes:
            return answers.get()
        return errors.DeadlineExceededError("the server has not answered, and may still use what it was asked to use")

    def _undo(self, late: Outcome) -> None:
        """Closes a region that nobody waits for any more."""
        if not isinstance(late, errors.Error) and late.HasField("opened"):
            self.send(close_request(late.opened.region), lambda _: None)

    def close(self) -> None:
        """Half-closes, and waits for the server to end the stream; not for long."""
        self._end(errors.CancelledError("the session is closed"))
        self._reader.join(timeout=2)
        self._rpc.cancel()
        self._reader.join()

    def _answer(self, message: bytes) -> None:
        answer = region_pb2.AttendInRegionsResponse.FromString(message)
        with self._lock:
            answered = self._waiting.pop(answer.id, None)
        if answered is not None:
            answered(answer)

    def _settle_all(self, end: errors.Error) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            answered(end)


def close_request(region: int) -> region_pb2.AttendInRegionsRequest:
    request = region_pb2.AttendInRegionsRequest()
    request.close.region = region
    return request


def _checked(outcome: Outcome) -> region_pb2.AttendInRegionsResponse:
    """The answer. Raises what came in its place, or the Error that it says."""
    if isinstance(outcome, errors.Error):
        raise outcome
    status = outcome.status
    if status.code != 0:
        raise errors.from_number(
            status.code, status.message, status.retry_after_ms / 1000 if status.retry_after_ms else None
        )
    return outcome
