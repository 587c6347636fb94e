"""Files that tell which images belong together. Imports no torch."""

from __future__ import annotations

from valor_gpu.errors import InputError
from valor_gpu.inputs.csv_records import open_csv
from valor_gpu.inputs.files import InputFile

_IMAGES = ("image", "image_id")
_CLUSTER = "cluster"


def read_clusters(path: str) -> dict[str, str]:
    """Reads the cluster of every image: CSV with the columns ``image`` (or ``image_id``) and ``cluster``.

    Args:
        path: the file.

    Raises:
        InputError: it lacks a column or names it twice, a line lacks a value or cannot be read, or an image comes
            twice.
        OSError: it cannot be read.
    """
    found: dict[str, str] = {}
    names, rows = _rows_of(path)
    column = next((name for name in _IMAGES if name in names), None)
    if column is None or _CLUSTER not in names:
        raise InputError(f"{path} must have the columns image and cluster but has {', '.join(names) or 'none'}")
    places = _place(path, names, column), _place(path, names, _CLUSTER)
    for line, cells in rows:
        image, cluster = (cells[place] for place in places)
        if not image or not cluster:
            raise InputError(f"{path}, line {line} must have an image and a cluster but lacks one")
        if image in found:
            raise InputError(f"{path}, line {line} must name another image but {image!r} came before")
        found[image] = cluster
    return found


def read_row_clusters(path: str) -> list[str]:
    """Reads the cluster of every row: CSV with the column ``cluster`` and one line per row, in the order of the rows.

    Args:
        path: the file.

    Raises:
        InputError: it lacks the column or names it twice, or a line lacks a value or cannot be read.
        OSError: it cannot be read.
    """
    names, rows = _rows_of(path)
    if _CLUSTER not in names:
        raise InputError(f"{path} must have the column cluster but has {', '.join(names) or 'none'}")
    place = _place(path, names, _CLUSTER)
    lacking = next((line for line, cells in rows if not cells[place]), None)
    if lacking is not None:
        raise InputError(f"{path}, line {lacking} must have a cluster but lacks one")
    return [cells[place] for _, cells in rows]


def _place(path: str, names: list[str], name: str) -> int:
    if names.count(name) > 1:
        raise InputError(f"{path} must name each column once but has {name!r} {names.count(name)} times")
    return names.index(name)


def _rows_of(path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Names of the columns, and for each row its line and its values without spaces around them.

    A value is what the names of files hold, so its bytes need not be UTF-8.
    """
    rows = []
    with open_csv(InputFile(path), spaced=True, any_bytes=True) as table:
        names = [name.strip() for name in table.header]
        for line, cells in table.records:
            if isinstance(cells, str):
                raise InputError(cells)
            rows.append((line, [*map(str.strip, cells)]))
    return names, rows
