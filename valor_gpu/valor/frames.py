"""Columns of a frame: pandas, polars, pyarrow, a mapping of arrays, or what pyarrow reads. None is required."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.valor.geometry import Raster


class _ArrowStream(Protocol):
    """pyarrow tables, frames of pandas and polars, relations of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class _Interchange(Protocol):
    """Frames of the dataframe interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any: ...


Frame: TypeAlias = "Mapping[str, Any] | _ArrowStream | _Interchange"
"""Columns by name: what :func:`open_frame` takes."""


def is_frame(data: object) -> bool:
    """Whether ``data`` has columns: a mapping, a frame with named columns, or one of the exchange protocols."""
    return (
        isinstance(data, Mapping)
        or _is_lazy(data)
        or any(hasattr(data, name) for name in ("__arrow_c_stream__", "__dataframe__", "column_names", "columns"))
    )


def open_frame(name: str, data: Any) -> Any:
    """The frame itself when its columns can be read by name, else its contents as a pyarrow table.

    Raises:
        InputTypeError: the frame is a query, such as a LazyFrame of polars.
        MissingExtraError: only pyarrow could read it, and pyarrow is not installed.
    """
    if _is_lazy(data):
        raise InputTypeError(
            f"{name} must be a frame in memory but is a {type(data).__name__}, whose rows are not there yet: collect it"
        )
    if isinstance(data, Mapping) or (hasattr(data, "__getitem__") and _holds_arrays(data)):
        return data
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "arrow", f"{name} of type {type(data).__name__}")
    if hasattr(data, "__arrow_c_stream__"):
        return importlib.import_module("pyarrow").table(data)
    return importlib.import_module("pyarrow.interchange").from_dataframe(data)


def _is_lazy(data: object) -> bool:
    """Whether data is a query; those of polars and Spark have no length, and names of columns only at a price."""
    return callable(getattr(type(data), "collect", None)) and not hasattr(type(data), "__len__")


def _names(frame: Any) -> list[str] | None:
    """Names of the columns of a pyarrow table, a pandas or polars frame or a mapping."""
    if isinstance(frame, Mapping):
        return [str(name) for name in frame]
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    if names is None or callable(names):
        return None
    found = [str(name) for name in names]
    return found if all(isinstance(name, str) for name in names) else None


def _holds_arrays(frame: Any) -> bool:
    """Whether columns are read by name as arrays, and not, as from DuckDB, as other queries."""
    names = _names(frame)
    return names is not None and (not names or hasattr(frame[names[0]], "__array__"))


def column_names(frame: Any) -> list[str]:
    """Names of the columns of an opened frame."""
    return _names(frame) or []


def column(name: str, frame: Any, wanted: str) -> NDArray[Any]:
    """One column as a numpy array; missing values are None, NaN or NaT, as its library has them.

    Args:
        name: of the frame, for messages.
        frame: from :func:`open_frame`.
        wanted: name of the column.

    Raises:
        InputError: there is no such column.
    """
    names = column_names(frame)
    if wanted not in names:
        raise InputError(f"{name} must have a column {wanted!r} but has {', '.join(map(repr, names)) or 'none'}")
    values = frame[wanted]
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name} column {wanted!r} must be one-dimensional but has shape {list(array.shape)}")
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray) and not hasattr(values, "to_numpy"):
        return np.asarray(values, object)  # texts of a list: numpy would write None and NaN out as texts
    return np.asarray(array)


def values(name: str, frame: Any, wanted: str) -> list[Any]:
    """One column as a list of objects: dicts, geometries, texts; missing values as its library has them."""
    if wanted not in column_names(frame):
        column(name, frame, wanted)  # raises
    data = frame[wanted]
    if isinstance(data, np.ndarray) and data.ndim > 1:
        return list(data)  # such as masks, not lists of their pixels
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(data, method):
            data = getattr(data, method)()
            break
    return list(data)


def check_lengths(name: str, frame: Any, columns: Iterable[str], rows: int) -> None:
    """Raises unless columns of a mapping, the one frame that may hold any, have a length.

    Args:
        name: of the frame, for messages.
        frame: from :func:`open_frame`.
        columns: names of columns that it has.
        rows: the length.
    """
    for column in columns if isinstance(frame, Mapping) else ():
        if len(frame[column]) != rows:
            raise InputError(
                f"{name} must have columns of one length but {column!r} has {len(frame[column])}, not {rows}"
            )


def is_missing(value: object) -> bool:
    """Whether a value of a column stands for nothing: None, NaN, NaT or the NA of pandas.

    Example:
        >>> [is_missing(value) for value in (None, float("nan"), "nan", 0)]
        [True, True, False, False]
    """
    if value is None or type(value).__name__ == "NAType":
        return True
    if isinstance(value, (np.ndarray, Raster)):
        return False  # a comparison would read every pixel
    differs = value != value
    return isinstance(differs, (bool, np.bool_)) and bool(differs)


def missing(listed: Sequence[Any]) -> NDArray[np.bool_]:
    """Bool ``[N]``, :func:`is_missing` of each value; texts are told apart by their type alone."""
    if set(map(type, listed)) <= {str}:
        return np.zeros(len(listed), np.bool_)
    return np.fromiter(map(is_missing, listed), np.bool_, len(listed))


def text_of(value: Any) -> Any:
    """A uid or label as text, so that 1, 1.0 and "1" of two frames are one; what is missing stays what it is.

    Example:
        >>> [text_of(value) for value in (1, 1.0, "1", 0.5, b"1", None)]
        ['1', '1', '1', '0.5', '1', None]
    """
    if isinstance(value, str) or is_missing(value):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def numbers(name: str, frame: Any, wanted: str) -> NDArray[np.float64]:
    """One column as float64; missing values are NaN.

    Args:
        name: of the frame, for messages.
        frame: from :func:`open_frame`.
        wanted: name of the column.

    Raises:
        InputTypeError: the column holds something else than numbers.
    """
    array = column(name, frame, wanted)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    listed = [float("nan") if is_missing(value) else value for value in array.tolist()]
    for row, value in enumerate(listed):
        if not isinstance(value, (int, float, Decimal)):
            raise InputTypeError(f"{name} column {wanted!r} must hold numbers but row {row} has {value!r}")
    try:
        return np.array(list(map(float, listed)), np.float64)
    except OverflowError:
        raise InputError(f"{name} column {wanted!r} must hold numbers of at most 1.8e308") from None


_DIGITS = 7  # after the point; float32 numbers of at most 1 have no more that differ


def scores(name: str, frame: Any) -> NDArray[np.float64]:
    """The column ``score`` as float64; a float32 number as the decimal that it stands for: 0.9, not 0.89999998.

    Args:
        name: of the frame, for messages.
        frame: from :func:`open_frame`.

    Raises:
        InputTypeError: the column holds something else than numbers.
    """
    found = numbers(name, frame, "score")
    if column(name, frame, "score").dtype != np.float32:
        return found
    decimal = np.round(found, _DIGITS)
    return np.where(decimal.astype(np.float32) == found, decimal, found)


def encode(values: Iterable[Any], codes: dict[Any, int], as_text: bool = False) -> NDArray[np.int32]:
    """Each value's place in ``codes``; values that are new get the next place.

    Args:
        values: what to encode.
        codes: place of each value so far; grows.
        as_text: encode what :func:`text_of` makes of each value.

    Example:
        >>> codes = {"a": 0}
        >>> encode(["b", "a", "b"], codes).tolist(), codes
        ([1, 0, 1], {'a': 0, 'b': 1})
    """
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    places = {}
    for value in dict.fromkeys(listed):
        places[value] = codes.setdefault(text_of(value) if as_text else value, len(codes))
    return np.fromiter(map(places.__getitem__, listed), np.int32, len(listed))
