"""Attention as a network service: numpy arrays in, numpy arrays out."""

from tessera.aio import AsyncClient
from tessera.call import AttendCall, Attention, Timing
from tessera.client import Client
from tessera.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    Error,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from tessera.extend_stream import ExtendStream
from tessera.options import Priority, Window
from tessera.pending import PendingAttention, PendingExtension
from tessera.regions import Region, RegionSession
from tessera.security import Tls
from tessera.sequences import Extension, Profile, ResidentSequence, SequenceInfo, Step

__all__ = [
    "AbortedError",
    "AsyncClient",
    "AttendCall",
    "Attention",
    "CancelledError",
    "Client",
    "DeadlineExceededError",
    "Error",
    "ExtendStream",
    "Extension",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "PendingAttention",
    "PendingExtension",
    "PermissionDeniedError",
    "Priority",
    "Profile",
    "Region",
    "RegionSession",
    "ResidentSequence",
    "ResourceExhaustedError",
    "SequenceInfo",
    "Step",
    "Timing",
    "Tls",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Window",
]
