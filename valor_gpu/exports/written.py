"""What a path of an output leads to: a regular file is replaced at once, a device or pipe is fed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import IO


def is_fed(path: Path) -> bool:
    """Returns whether a path is there and no regular file, or reaches one through a descriptor, as /dev/fd/3 does.

    What stands behind an open descriptor may not be replaced: its owner would go on with the old file.
    """
    if path.exists() and not path.is_file():
        return True
    link = os.path.abspath(path)
    for _ in range(40):  # as many links as Linux follows
        parent = os.path.realpath(os.path.dirname(link))
        if re.fullmatch(r"/proc/[^/]+(/task/[^/]+)?/fd|/dev/fd", parent):
            return True
        if not os.path.islink(link):
            return False
        link = os.path.join(parent, os.readlink(link))
    return False


def write_all(stream: IO[bytes], content: bytes) -> None:
    """Writes everything, although an unbuffered write may take only a part."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]


def take_permissions(part: Path, target: Path) -> None:
    """Gives a file the owner and the permissions of another, if that is there."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(PermissionError):  # only root gives files away
        os.chown(part, old.st_uid, old.st_gid)
    part.chmod(stat.S_IMODE(old.st_mode))
