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
    names, rows = _rows_of(path)
    column = next((name for name in _IMAGES if name in names), None)
    if column is None or _CLUSTER not in names:
        raise InputError(f"{path} must have the columns image and cluster but has {', '.join(names) or 'none'}")
    for line, row in rows:
        image, cluster = row[column], row[_CLUSTER]
        if not image or not cluster:
            raise InputError(f"{path} line {line} must have an image and a cluster but lacks one")
        if image in found:
            raise InputError(f"{path} line {line} must name another image but {image!r} came before")
        found[image] = cluster
    return found


def read_row_clusters(path: str) -> list[str]:
    """Reads the cluster of every row: CSV with the column ``cluster`` and one line per row, in the order of the rows.

    Args:
        path: the file.

    Raises:
        InputError: it lacks the column, or a line lacks a value.
        OSError: it cannot be read.
    """
    names, rows = _rows_of(path)
    if _CLUSTER not in names:
        raise InputError(f"{path} must have the column cluster but has {', '.join(names) or 'none'}")
    lacking = next((line for line, row in rows if not row[_CLUSTER]), None)
    if lacking is not None:
        raise InputError(f"{path} line {lacking} must have a cluster but lacks one")
    return [row[_CLUSTER] for _, row in rows]


def _rows_of(path: str) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Names of the columns, and for each row its line and its values without spaces around them."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        names = [name.strip() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        return names, [(rows.line_num, {name: (row[name] or "").strip() for name in names}) for row in rows]
