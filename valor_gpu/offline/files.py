"""Files that are whole or absent, whatever kills their writer. No torch."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import uuid
from pathlib import Path

from valor_gpu.errors import StoreError

_PART = re.compile(r"\.part-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{32}$")


def write_whole(path: Path, *chunks: bytes) -> None:
    """Writes a file in one step: under another name first, then on disk, then renamed.

    Several processes may write one file at the same time; one of them wins, and no reader sees a part of it.

    Raises:
        StoreError: the disk is full, or the system refuses it otherwise; what was there before is as it was.
    """
    part = path.with_name(f"{path.name}.part-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}")
    try:
        with open(part, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise unwritten(path, error) from error
        raise
    _sync_folder(path.parent)


def unwritten(path: Path, error: OSError) -> StoreError:
    """The error about a file or folder that cannot be written."""
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}: make room or choose another output, then run again,"
        " which goes on from what is there"
    )


def _sync_folder(folder: Path) -> None:
    """Makes the new name last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_parts(folder: Path) -> int:
    """Removes what killed processes of this machine left half written, and says how many files that was."""
    removed = 0
    for path in folder.iterdir():
        found = _PART.search(path.name)
        if found and found["host"] == socket.gethostname() and not is_alive(int(found["pid"])):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def is_alive(pid: int) -> bool:
    """Returns whether this machine has such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
