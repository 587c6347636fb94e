"""Lists the files of a checkout as git knows them."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git_files(root: Path) -> list[Path]:
    """Returns the files that git tracks or would add, relative to the checkout; deleted ones too.

    Raises:
        subprocess.CalledProcessError: git does not know the checkout.
        OSError: no git is installed.
    """
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in names if name]
