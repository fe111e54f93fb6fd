"""When a call is tried again. Attention has no side effects, so every call may be.

gRPC's own machinery retries unary calls, by the service config below, and heeds the server's pushback. The answers of a
stream carry a status of their own, which gRPC does not see; streamed calls are retried by the client, by the same rule.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any

from tessera.errors import DeadlineExceededError, Error, ResourceExhaustedError, UnavailableError

ATTEMPTS = 5
_INITIAL_BACKOFF = 0.05  # seconds
_MAX_BACKOFF = 2.0
_MULTIPLIER = 2.0


def service_config(*, every_address: bool) -> str:
    """gRPC's, in JSON. `every_address`: calls take turns on all addresses of the name, rather than go to the first one
    that answers.
    """
    config: dict[str, Any] = {
        "methodConfig": [
            {
                "name": [
                    {"service": "tessera.v1.AttentionService", "method": "Attend"},
                    {"service": "tessera.v1.ServerService"},
                ],
                "retryPolicy": {
                    "maxAttempts": ATTEMPTS,
                    "initialBackoff": f"{_INITIAL_BACKOFF}s",
                    "maxBackoff": f"{_MAX_BACKOFF}s",
                    "backoffMultiplier": _MULTIPLIER,
                    # A server that shuts down may say CANCELLED; a call that is cancelled here is not tried again.
                    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED"],
                },
            }
        ]
    }
    if every_address:
        config["loadBalancingConfig"] = [{"round_robin": {}}]
    return json.dumps(config)


def remaining(deadline: float | None) -> float | None:
    """Seconds left until `deadline`, by time.monotonic(); None is unbounded. DeadlineExceededError where none are."""
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceededError("the call's time ran out before it was sent")
    return left


def delay(error: Error, attempt: int, deadline: float | None) -> float | None:
    """Seconds to wait after the failure of attempt number `attempt`, from 1; None: give up.

    The server's pushback goes before the client's own backoff, which is random between 0 and a bound that doubles.
    Nothing is waited for past `deadline`.
    """
    if not isinstance(error, (ResourceExhaustedError, UnavailableError)) or attempt >= ATTEMPTS:
        return None
    if error.retry_after is not None:
        wait = error.retry_after
    else:
        wait = random.uniform(0, min(_MAX_BACKOFF, _INITIAL_BACKOFF * _MULTIPLIER ** (attempt - 1)))
    return wait if deadline is None or time.monotonic() + wait < deadline else None
