"""A server's shared memory, mapped into this process."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

from tessera.errors import FailedPreconditionError

_F_GET_SEALS = 1034  # of Linux; Python 3.9 does not name them
_F_SEAL_SHRINK = 2


def open_shared_memory(path: str, name: str, size: int) -> mmap.mmap:
    """Maps what RegionOpened describes. A file that is not that memory is never opened.

    FailedPreconditionError where the path does not lead to the memory of that name, as on another host or in another
    container, or this user may not open it.
    """
    target = f"/memfd:{name} (deleted)"
    if not _leads_to(path, target):
        raise _not_here(f"{path} does not lead to it")
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise _not_here(str(error)) from None
    try:
        # What the path led to may have changed since.
        sealed = fcntl.fcntl(file, _F_GET_SEALS) & _F_SEAL_SHRINK
        if not sealed or not _leads_to(f"/proc/self/fd/{file}", target) or os.fstat(file).st_size < size:
            raise _not_here(f"{path} is something else")
        return mmap.mmap(file, size)
    except OSError as error:
        raise _not_here(str(error)) from None
    finally:
        os.close(file)


def _leads_to(link: str, target: str) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(link) == target
    return False


def _not_here(why: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "the server's shared memory cannot be opened here, as it can by a process of the same user, or of root, that "
        f"sees the same /proc: {why}"
    )
