"""Files that tell which images belong together. Imports no torch."""

from __future__ import annotations

import csv

from valor_gpu.errors import InputError

_IMAGES = ("image", "image_id")
_CLUSTER = "cluster"


def read_clusters(path: str) -> dict[str, str]:
    """Reads the cluster of every image: CSV with the columns ``image`` (or ``image_id``) and ``cluster``.

    Args:
        path: the file.

    Raises:
        InputError: it lacks a column, a line lacks a value, or an image comes twice.
        OSError: it cannot be read.
    """
    found: dict[str, str] = {}
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        names = [name.strip() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        column = next((name for name in _IMAGES if name in names), None)
        if column is None or _CLUSTER not in names:
            raise InputError(f"{path} must have the columns image and cluster but has {', '.join(names) or 'none'}")
        for row in rows:
            image, cluster = ((row[name] or "").strip() for name in (column, _CLUSTER))
            if not image or not cluster:
                raise InputError(f"{path} line {rows.line_num} must have an image and a cluster but lacks one")
            if image in found:
                raise InputError(f"{path} line {rows.line_num} must name another image but {image!r} came before")
            found[image] = cluster
    return found
