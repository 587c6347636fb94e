"""Files that tell which images belong together. Imports no torch."""

from __future__ import annotations

import csv

from valor_gpu.errors import InputError

_COLUMNS = "image,cluster"


def read_clusters(path: str) -> dict[str, str]:
    """Reads the cluster of every image: CSV with the header ``image,cluster``.

    Args:
        path: the file.

    Raises:
        InputError: it has another header, a line with other columns, or an image twice.
        OSError: it cannot be read.
    """
    found: dict[str, str] = {}
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        lines = csv.reader(file)
        header = [name.strip() for name in next(lines, [])]
        if header != _COLUMNS.split(","):
            raise InputError(f"{path} must begin with the line {_COLUMNS} but begins with {','.join(header)!r}")
        for line in lines:
            if not line:
                continue
            if len(line) != 2:
                raise InputError(f"{path} must have 2 columns but line {lines.line_num} has {len(line)}")
            image, cluster = line
            if image in found:
                raise InputError(f"{path} must have each image once but line {lines.line_num} has {image!r} again")
            found[image] = cluster
    return found
