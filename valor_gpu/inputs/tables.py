"""Predictions in a file to columns: CSV, JSON lines, Parquet and npz. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import PurePath

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.inputs._array_tables import NPZ, PARQUET
from valor_gpu.inputs._table import Format, Numbers, Table, listed
from valor_gpu.inputs._text_tables import CSV, JSON_LINES, TSV
from valor_gpu.inputs.files import InputFile

__all__ = ["Numbers", "Table", "column_names", "read_table"]

FORMATS = {".csv": CSV, ".tsv": TSV, ".jsonl": JSON_LINES, ".parquet": PARQUET, ".npz": NPZ}
_PACKED = ("*.csv.gz", "*.tsv.gz", "*.jsonl.gz")
_MAGIC = ((b"PAR1", PARQUET), (b"PK\x03\x04", NPZ))

Source = str | os.PathLike[str] | InputFile


def column_names(source: Source) -> list[str]:
    """Names of the columns: the first line of CSV, the keys of the first line of JSON lines, the arrays of npz.

    Args:
        source: as for :func:`read_table`.

    Raises:
        InputError: the ending of the name is unknown, or the file is not what its name says.
        MissingExtraError: Parquet without pyarrow.
    """
    file = _input_file(source)
    return _format(file).names(file)


def read_table(source: Source, texts: Sequence[str], numbers: Sequence[Sequence[str]] = ()) -> Table:
    r"""Columns of a file of predictions.

    Numbers are written in ASCII digits with an optional sign, point and exponent, and are finite: ``inf``, ``nan``,
    ``1_000`` and digits of other scripts are errors.

    Args:
        source: path of a ``.csv`` or ``.tsv`` file (the first line names the columns; the separator of CSV is the comma
            or, if the first line has none, the tab, the semicolon or else ``|``), ``.jsonl`` (one object per line),
            ``.parquet`` or ``.npz`` (one array per column, all of one length); ``.csv.gz``, ``.tsv.gz`` or
            ``.jsonl.gz``; or ``-`` for standard input. What comes from standard input or a pipe without such an ending
            is npz or Parquet if it begins as these do, JSON lines if it begins with ``{``, and else CSV. An
            ``InputFile`` can be read several times even if it is a pipe.
        texts: columns to be read as text, such as class names.
        numbers: groups, of at least one column each, to be read as numbers; each group becomes one matrix.

    Raises:
        InputError: a column is missing, a value is not a finite number, or the file is damaged or changes while it is
            read: the message has the file and, where there is one, the line and column.
        MissingExtraError: Parquet without pyarrow.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "predictions.csv"
        ...     _ = path.write_text("truth,p_cat,p_dog\ncat,0.75,0.25\ndog,0.5,0.5\n")
        ...     table = read_table(path, ["truth"], [["p_cat", "p_dog"]])
        >>> table.texts, table.numbers[0].tolist()
        ((['cat', 'dog'],), [[0.75, 0.25], [0.5, 0.5]])
    """
    file = _input_file(source)
    with nullcontext() if file.is_stream else file.unchanged():
        known = column_names(file)
        for name in (*texts, *(name for group in numbers for name in group)):
            times = known.count(name)
            if times != 1:
                has = "no such column" if not times else f"{times} of that name"
                raise InputError(f"{file.name} must have one column {name!r} but has {has} among {listed(known)}")
        table = _format(file).read(file, texts, numbers)
    for group, matrix in zip(numbers, table.numbers):
        _check_finite(table, group, matrix)
    return table


def _input_file(source: Source) -> InputFile:
    return source if isinstance(source, InputFile) else InputFile(source)


def _check_finite(table: Table, group: Sequence[str], matrix: Numbers) -> None:
    if not matrix.shape[1] and len(matrix):
        raise InputError(f"{table.place(0)}, column {group[0]!r} must hold at least one number but holds none")
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        name = f"column {group[column]!r}" if len(group) == matrix.shape[1] else f"column {group[0]!r}, item {column}"
        raise InputError(f"{table.place(row)}, {name} must hold a finite number but got {matrix[row, column]}")


def _format(file: InputFile) -> Format:
    name = PurePath(file.path.lower())
    packed = name.suffix == ".gz"
    found = FORMATS.get(PurePath(name.stem).suffix if packed else name.suffix)
    if found is None and file.is_stream:
        return _format_of(file)
    if found is None or (packed and not found.is_text):
        endings = ", ".join((*FORMATS, *(ending.removeprefix("*") for ending in _PACKED)))
        raise InputError(f"the table must end in one of {endings} but got {file.name}")
    return found


def _format_of(file: InputFile) -> Format:
    """The format of what has no name."""
    with file.open() as stream:
        begin = stream.read(4096).removeprefix(b"\xef\xbb\xbf")
    for magic, found in _MAGIC:
        if begin.startswith(magic):
            return found
    return JSON_LINES if begin.lstrip().startswith(b"{") else CSV
