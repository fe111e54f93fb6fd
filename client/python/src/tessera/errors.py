"""Exceptions: one class for each gRPC status code that the server answers with."""

from __future__ import annotations

import re
from typing import Any

import grpc


class Error(Exception):
    """A call that failed. `code` is the gRPC status, `message` the server's words."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode | None = None,
        retry_after: float | None = None,
        redirect: str | None = None,
    ):
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message
        # Seconds after which the server expects to have room; None where it did not say.
        self.retry_after = retry_after
        # "host:port" of the server that keeps the sequence which the one asked does not; None where it did not say.
        self.redirect = redirect

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class InvalidArgumentError(Error):
    """The request can never succeed: a shape, type, length or option that the server refuses."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class ResourceExhaustedError(Error):
    """No room now: the queue, the byte budget or the device is full. `attend` has tried again."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class UnavailableError(Error):
    """The server is draining, restarting or unreachable, or cancelled the call. `attend` has tried again."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceededError(Error, TimeoutError):
    """`timeout` ran out; the server has dropped the work."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class CancelledError(Error):
    """The client is closed."""

    code = grpc.StatusCode.CANCELLED


class NotFoundError(Error):
    """The named thing does not exist."""

    code = grpc.StatusCode.NOT_FOUND


class FailedPreconditionError(Error):
    """Not as things are: the server does not allow it, or its shared memory cannot be opened here."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class AbortedError(Error):
    """Another call uses the sequence. Once that one has ended, this one may be made again."""

    code = grpc.StatusCode.ABORTED


class UnimplementedError(Error):
    """The server has no such method or option."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InternalError(Error):
    """A fault in the server, or an answer that does not fit its request."""

    code = grpc.StatusCode.INTERNAL


class PermissionDeniedError(Error):
    """The caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class UnauthenticatedError(Error):
    """The caller's credentials are missing or wrong."""

    code = grpc.StatusCode.UNAUTHENTICATED


_CLASSES: dict[grpc.StatusCode, type[Error]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        ResourceExhaustedError,
        UnavailableError,
        DeadlineExceededError,
        CancelledError,
        NotFoundError,
        FailedPreconditionError,
        AbortedError,
        UnimplementedError,
        InternalError,
        PermissionDeniedError,
        UnauthenticatedError,
    )
}
_MILLISECONDS = re.compile("[0-9]{1,10}")
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def from_status(
    code: grpc.StatusCode, message: str, retry_after: float | None = None, redirect: str | None = None
) -> Error:
    """The exception of a status that is not OK."""
    return _CLASSES.get(code, Error)(message, code=code, retry_after=retry_after, redirect=redirect)


def by_server(error: Error) -> Error:
    """`error`, but UnavailableError for CANCELLED. For calls that nobody here has cancelled: the server has, because it
    stops or because it has given the call up.
    """
    if not isinstance(error, CancelledError):
        return error
    return UnavailableError(f"the server has cancelled the call: {error.message}", retry_after=error.retry_after)


def from_number(code: int, message: str, retry_after: float | None = None, redirect: str | None = None) -> Error:
    """As from_status, for a google.rpc.Code value; unknown values become UNKNOWN."""
    return from_status(_CODES.get(code, grpc.StatusCode.UNKNOWN), message, retry_after, redirect)


def from_rpc(error: grpc.RpcError) -> Error:
    """The exception of a failed RPC, sync or asyncio, with the server's pushback and redirect if it sent them."""
    failed: Any = error  # what gRPC raises is also a Call, which its types do not say
    retry_after = redirect = None
    for key, value in failed.trailing_metadata() or ():
        # A number below 0, or none at all, forbids to try again; it names no time.
        if key == "grpc-retry-pushback-ms" and _MILLISECONDS.fullmatch(value):
            retry_after = int(value) / 1000
        elif key == "tessera-redirect":
            redirect = value
    return from_status(failed.code(), failed.details() or "", retry_after, redirect)
