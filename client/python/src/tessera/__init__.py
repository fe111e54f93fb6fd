"""Attention as a network service: numpy arrays in, numpy arrays out."""

from tessera.aio import AsyncClient
from tessera.call import AttendCall, Attention, Timing
from tessera.client import Client
from tessera.errors import (
    CancelledError,
    DeadlineExceededError,
    Error,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from tessera.options import Priority, Window
from tessera.pending import PendingAttention
from tessera.security import Tls

__all__ = [
    "AsyncClient",
    "AttendCall",
    "Attention",
    "CancelledError",
    "Client",
    "DeadlineExceededError",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "PendingAttention",
    "PermissionDeniedError",
    "Priority",
    "ResourceExhaustedError",
    "Timing",
    "Tls",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Window",
]
