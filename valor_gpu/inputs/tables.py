"""Predictions in a file to columns: CSV, JSON lines, Parquet and npz. Imports no torch."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import zipfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, MissingExtraError

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of N rows.

    Attributes:
        path: of the file.
        texts: for each text column asked for, N strings: a number without fraction as an integer, a bool as ``0`` or
            ``1``, what is missing as the empty string.
        numbers: for each group of number columns asked for, float64 ``[N, M]``: its columns side by side, a column of
            lists as wide as they are. No NaN.
        lines: the line in the file of each row; None where a file has no lines.
    """

    path: Path
    texts: tuple[list[str], ...]
    numbers: tuple[Numbers, ...]
    lines: Sequence[int] | None = None

    def place(self, row: int) -> str:
        """How a message calls row ``row``, counted from 0."""
        return _place(self.path, self.lines, row)


def _place(path: Path, lines: Sequence[int] | None, row: int) -> str:
    return f"{path}: row {row} (counted from 0)" if lines is None else f"{path}: line {lines[row]}"


@dataclass(frozen=True)
class _Format:
    """One kind of file.

    Attributes:
        names: its column names.
        read: text columns and groups of number columns, to the table; NaN is still allowed.
    """

    names: Callable[[Path], list[str]]
    read: Callable[[Path, Sequence[str], Sequence[Sequence[str]]], Table]


def column_names(path: Path) -> list[str]:
    """Names of the columns: the first line of CSV, the keys of the first line of JSON lines, the arrays of npz.

    Raises:
        InputError: the ending of the name is unknown, or the file is not what it says.
        MissingExtraError: Parquet without pyarrow.
    """
    with _damage_told(path):
        return _format(path).names(path)


def read_table(path: Path, texts: Sequence[str], numbers: Sequence[Sequence[str]] = ()) -> Table:
    r"""Read columns of a file of predictions.

    Args:
        path: ``.csv`` (comma, first line names), ``.jsonl`` (an object a line), ``.parquet`` or ``.npz`` (an array a
            column, all of one length).
        texts: columns to be read as text, such as class names.
        numbers: groups, of at least one column each, to be read as numbers; each group becomes one matrix.

    Raises:
        InputError: a column is missing, a value is no number, or the file is damaged: the message has file, line and
            column.
        MissingExtraError: Parquet without pyarrow.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "predictions.csv"
        ...     _ = path.write_text("truth,p_cat,p_dog\ncat,0.75,0.25\ndog,0.5,0.5\n")
        ...     table = read_table(path, ["truth"], [["p_cat", "p_dog"]])
        >>> table.texts, table.numbers[0].tolist()
        ((['cat', 'dog'],), [[0.75, 0.25], [0.5, 0.5]])
    """
    known = column_names(path)
    for name in (*texts, *(name for group in numbers for name in group)):
        times = known.count(name)
        if times != 1:
            has = "no such column" if not times else f"{times} of that name"
            raise InputError(f"{path} must have one column {name!r} but has {has} among {_listed(known)}")
    with _damage_told(path):
        table = _format(path).read(path, texts, numbers)
    for group, matrix in zip(numbers, table.numbers):
        _refuse_nan(table, group, matrix)
    return table


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} columns)" if len(names) > 12 else ""
    return f"{', '.join(names[:12])}{more}"


def _refuse_nan(table: Table, group: Sequence[str], matrix: Numbers) -> None:
    bad = np.isnan(matrix)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        name = f"column {group[column]!r}" if len(group) == matrix.shape[1] else f"column {group[0]!r}, item {column}"
        raise InputError(f"{table.place(row)}, {name} must hold a number but got nan")


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """What readers raise for files that are damaged, as :class:`InputError` with the file."""
    try:
        yield
    except InputError:
        raise
    except (UnicodeDecodeError, csv.Error, zipfile.BadZipFile, ValueError, EOFError) as error:
        raise InputError(f"{path} must be a {path.suffix} file but cannot be read: {error}") from None


def _format(path: Path) -> _Format:
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise InputError(f"the table must end in one of {', '.join(_FORMATS)} but got {path}")
    return found


def _text(value: Any) -> str:
    """A cell as text, see :class:`Table`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return value.decode() if isinstance(value, bytes) else str(value)


# ---------------------------------------------------------------------------------------------------------------- CSV


def _csv_names(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        header = next(csv.reader(file, skipinitialspace=True, strict=True), None)
    if not header:
        raise InputError(f"{path} must have the names of its columns in the first line but that is empty")
    return header


def _read_csv(path: Path, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    header = _csv_names(path)
    places = [header.index(name) for name in texts]
    groups = [[header.index(name) for name in group] for group in numbers]
    pick = [_picker(group) for group in groups]
    cells: list[list[str]] = [[] for _ in texts]
    flat = [array("d") for _ in groups]
    lines = array("q")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, skipinitialspace=True, strict=True)
        end = (next(reader), reader.line_num)[1]
        for row in reader:
            line, end = end + 1, reader.line_num
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(f"{path}: line {line} must have {len(header)} cells but has {len(row)}")
            lines.append(line)
            for column, place in zip(cells, places):
                column.append(row[place])
            for take, values, group in zip(pick, flat, groups):
                values.extend(_floats(take, row) or _no_number(f"{path}: line {line}", header, row, group))
    matrices = tuple(_reshaped(values, len(lines), len(group)) for values, group in zip(flat, groups))
    return Table(path, tuple(cells), matrices, lines)


def _floats(take: Callable[[list[str]], Iterable[str]], row: list[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in take(row)]
    except ValueError:
        return None


def _reshaped(values: array[float], rows: int, width: int) -> Numbers:
    flat = np.frombuffer(values, np.float64) if values else np.empty(0)
    return flat.reshape(rows, width)


def _picker(places: Sequence[int]) -> Callable[[list[str]], Iterable[str]]:
    if len(places) == 1:
        return lambda row: (row[places[0]],)
    return itemgetter(*places)


def _no_number(place: str, header: Sequence[str], row: list[str], group: Sequence[int]) -> list[float]:
    """Raise for the first cell of ``group`` that is no number."""
    for column in group:
        if _floats(_picker([column]), row) is None:
            raise InputError(f"{place}, column {header[column]!r} must hold a number but got {row[column]!r}")
    return []


# --------------------------------------------------------------------------------------------------------- JSON lines


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of every line that is not blank."""
    with path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                found = json.loads(text)
            except json.JSONDecodeError as error:
                raise InputError(f"{path}: line {line}, character {error.colno}: {error.msg}") from None
            if not isinstance(found, dict):
                raise InputError(f"{path}: line {line} must be a JSON object but is {text.strip()[:40]}")
            yield line, found


def _json_names(path: Path) -> list[str]:
    first = next(_objects(path), None)
    if first is None:
        raise InputError(f"{path} must have a JSON object in each line but has no line")
    return list(first[1])


def _read_json_lines(path: Path, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    cells: list[list[str]] = [[] for _ in texts]
    flat = [array("d") for _ in numbers]
    widths: list[int] = [0 for _ in numbers]
    lines = array("q")
    for line, found in _objects(path):
        place = f"{path}: line {line}"
        for name in (*texts, *(name for group in numbers for name in group)):
            if name not in found:
                raise InputError(f"{place} must have {name!r} but has only {_listed(list(found))}")
        for column, name in zip(cells, texts):
            column.append(_scalar(place, name, found[name]))
        for k, group in enumerate(numbers):
            values = [number for name in group for number in _cell_numbers(place, name, found[name])]
            if lines and len(values) != widths[k]:
                names = ", ".join(map(repr, group))
                raise InputError(f"{place}, {names} must hold {widths[k]} numbers as before but got {len(values)}")
            widths[k] = len(values)
            flat[k].extend(values)
        lines.append(line)
    matrices = tuple(_reshaped(values, len(lines), width) for values, width in zip(flat, widths))
    return Table(path, tuple(cells), matrices, lines)


def _scalar(place: str, name: str, value: Any) -> str:
    if isinstance(value, (list, dict)):
        raise InputError(f"{place}, {name!r} must be text or a number but got {json.dumps(value)[:40]}")
    return _text(value)


def _cell_numbers(place: str, name: str, value: Any) -> list[float]:
    """A number, or the numbers of a list."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            raise InputError(f"{place}, {name!r} must hold numbers but got {json.dumps(item)[:40]}")
    return items


# ------------------------------------------------------------------------------------------------------ Parquet, npz


def _parquet(path: Path) -> Any:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "arrow", f"reading {path}")
    from pyarrow import parquet

    return parquet.ParquetFile(path)


def _parquet_names(path: Path) -> list[str]:
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def _read_parquet(path: Path, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    wanted = list(dict.fromkeys((*texts, *(name for group in numbers for name in group))))
    with _parquet(path) as file:
        found = file.read(columns=wanted)
    columns = {name: _arrow_array(found.column(name)) for name in wanted}
    return _from_arrays(path, columns, texts, numbers)


def _arrow_array(column: Any) -> NDArray[Any]:
    """A column, of lists as a matrix; null as NaN or None."""
    from pyarrow import types

    whole = column.combine_chunks()
    if types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    if types.is_list(whole.type) or types.is_large_list(whole.type) or types.is_fixed_size_list(whole.type):
        flat = whole.flatten().to_numpy(zero_copy_only=False)
        lengths = {0 if item is None else item for item in whole.value_lengths().to_pylist()}
        if len(lengths) > 1:
            raise ValueError(f"lists of one column must have one length but have {min(lengths)} to {max(lengths)}")
        return np.asarray(flat.reshape(len(whole), -1) if len(whole) else flat.reshape(0, 1))
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def _npz_names(path: Path) -> list[str]:
    with np.load(path, allow_pickle=False) as file:
        return list(file)


def _read_npz(path: Path, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    with np.load(path, allow_pickle=False) as file:
        columns = {name: file[name] for name in dict.fromkeys((*texts, *(n for group in numbers for n in group)))}
    return _from_arrays(path, columns, texts, numbers)


def _from_arrays(
    path: Path, columns: dict[str, NDArray[Any]], texts: Sequence[str], numbers: Sequence[Sequence[str]]
) -> Table:
    rows = {len(values) if values.ndim else -1 for values in columns.values()}
    if len(rows) > 1 or -1 in rows:
        shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in columns.items())
        raise InputError(f"{path} must have columns of one length but has {shapes}")
    for name in texts:
        if columns[name].ndim != 1:
            raise InputError(f"{path}: {name!r} must have shape [N] but is {list(columns[name].shape)}")
    cells = tuple([_text(value) for value in columns[name].tolist()] for name in texts)
    return Table(path, cells, tuple(_matrix(path, {n: columns[n] for n in group}) for group in numbers))


def _matrix(path: Path, columns: dict[str, NDArray[Any]]) -> Numbers:
    for name, values in columns.items():
        if values.ndim > 2 or values.dtype.kind not in "fiub":
            raise InputError(
                f"{path}: {name!r} must hold numbers, [N] or [N, C], but is {values.dtype} {list(values.shape)}"
            )
    parts = [values.reshape(len(values), -1 if values.size else 1) for values in columns.values()]
    return np.asarray(parts[0] if len(parts) == 1 else np.concatenate(parts, 1), np.float64)


_FORMATS = {
    ".csv": _Format(_csv_names, _read_csv),
    ".jsonl": _Format(_json_names, _read_json_lines),
    ".parquet": _Format(_parquet_names, _read_parquet),
    ".npz": _Format(_npz_names, _read_npz),
}
