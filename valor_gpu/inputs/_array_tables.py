"""Tables as arrays, Parquet and npz: whatever is wrong with a file, the error has its name."""

from __future__ import annotations

import importlib.util
import math
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.inputs._table import Format, Numbers, Table, cell_text, row_place
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.npy_headers import NpyHeader, read_npy_header

Array = NDArray[Any]
_SUFFIX = ".npy"


@contextmanager
def _damage(file: InputFile, kind: str) -> Iterator[None]:
    """Turns what numpy, zipfile or pyarrow raise for damaged bytes, which is nearly anything, into InputError."""
    with file.unchanged():
        try:
            yield
        except (InputError, MissingExtraError):
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": ")
            raise InputError(f"{file.name} must be {kind} but cannot be read: {text}") from error


# ------------------------------------------------------------------------------------------------------------ Parquet


@contextmanager
def _parquet(file: InputFile) -> Iterator[Any]:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "arrow", f"reading {file.name}")
    import pyarrow
    from pyarrow import parquet

    from valor_gpu.inputs.parquet_ends import check_one_parquet

    with _damage(file, "a Parquet file"):
        source = file.read() if file.is_stream else file.path
        given = pyarrow.BufferReader(source) if file.is_stream else source
        with parquet.ParquetFile(given, page_checksum_verification=True) as opened:
            check_one_parquet(file.name, source, opened.metadata)
            yield opened


def _parquet_names(file: InputFile) -> list[str]:
    with _parquet(file) as opened:
        return list(opened.schema_arrow.names)


def _read_parquet(file: InputFile, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    wanted = _wanted(texts, numbers)
    with _parquet(file) as opened:
        found = opened.read(columns=wanted)
        found.validate(full=True)
        columns = {name: _arrow_array(found.column(name)) for name in wanted}
        return _from_arrays(file, columns, texts, numbers)


def _wanted(texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys((*texts, *(name for group in numbers for name in group))))


def _arrow_array(column: Any) -> Array:
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


# ---------------------------------------------------------------------------------------------------------------- npz


@contextmanager
def _npz(file: InputFile) -> Iterator[dict[str, tuple[zipfile.ZipFile, zipfile.ZipInfo]]]:
    """The members that are arrays, by column name."""
    with _damage(file, "an npz file"), file.open() as stream, zipfile.ZipFile(stream) as members:
        yield {
            info.filename.removesuffix(_SUFFIX): (members, info)
            for info in members.infolist()
            if info.filename.endswith(_SUFFIX)
        }


def _npz_names(file: InputFile) -> list[str]:
    with _npz(file) as members:
        return list(members)


def _read_npz(file: InputFile, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    with _npz(file) as members:
        columns = {name: _member(f"{file.name}: {name!r}", *members[name]) for name in _wanted(texts, numbers)}
        return _from_arrays(file, columns, texts, numbers)


def _member(place: str, members: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array. Its header is held against its size first: numpy allocates whatever a header asks for."""
    with members.open(info) as file:
        header = read_npy_header(file)
        if not isinstance(header, NpyHeader):
            raise InputError(f"{place} must hold numbers or texts but has fields of its own")
        shape, in_columns, dtype = header
        if dtype.hasobject:
            raise InputError(f"{place} must hold numbers or texts but holds Python objects, which are not loaded")
        has, needs = info.file_size - file.tell(), math.prod(shape) * dtype.itemsize
        if has != needs or min(shape, default=0) < 0:
            raise InputError(f"{place} must have {needs} bytes for shape {list(shape)} but has {has}")
        flat = np.frombuffer(file.read(), dtype)
    return flat.reshape(shape, order="F" if in_columns else "C")


# -------------------------------------------------------------------------------------------------------------- both


def _from_arrays(
    file: InputFile, columns: dict[str, Array], texts: Sequence[str], numbers: Sequence[Sequence[str]]
) -> Table:
    rows = {len(values) if values.ndim else -1 for values in columns.values()}
    if len(rows) > 1 or -1 in rows:
        shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in columns.items())
        raise InputError(f"{file.name} must have columns of one length but has {shapes}")
    for name in texts:
        if columns[name].ndim != 1:
            raise InputError(f"{file.name}: {name!r} must have shape [N] but is {list(columns[name].shape)}")
    cells = tuple(_texts(file.name, name, columns[name].tolist()) for name in texts)
    matrices = (_matrix(file.name, {name: columns[name] for name in group}) for group in numbers)
    return Table(file.name, cells, tuple(matrices))


def _texts(file_name: str, name: str, values: Iterable[Any]) -> list[str]:
    texts = []
    for row, value in enumerate(values):
        try:
            text = cell_text(value)
            text.encode()
        except UnicodeError as error:
            place = row_place(file_name, row)
            raise InputError(f"{place}, column {name!r} must be text but: {error.reason}") from None  # type: ignore[attr-defined]
        texts.append(text)
    return texts


def _matrix(file_name: str, columns: dict[str, Array]) -> Numbers:
    for name, values in columns.items():
        if values.ndim > 2 or values.dtype.kind not in "fiub":
            raise InputError(
                f"{file_name}: {name!r} must hold numbers, [N] or [N, C], but is {values.dtype} {list(values.shape)}"
            )
    parts = [values.reshape(len(values), -1 if values.size else 1) for values in columns.values()]
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit float64 becomes infinite, an error later
        return np.asarray(parts[0] if len(parts) == 1 else np.concatenate(parts, 1), np.float64)


PARQUET = Format(_parquet_names, _read_parquet, is_text=False)
NPZ = Format(_npz_names, _read_npz, is_text=False)
