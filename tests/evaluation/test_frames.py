"""Rows of data frames and Parquet files."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.evaluation.rows._frame_rows import PORTION
from valor_gpu.evaluation.rows.data import open_data


def values(data: Any) -> list[dict[str, Any]]:
    rows = list(open_data(data))
    assert [row.error for row in rows] == [""] * len(rows)
    return [row.values for row in rows]


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "text": ["007", None, "nan"],
            "whole": pandas.array([1, None, 3], dtype="Int64"),
            "real": [0.5, float("nan"), 2.0],
            "when": pandas.to_datetime(["2024-05-21", None, "2024-05-22"]),
            "any": [[1, 2], {"a": 1}, pandas.NA],
        },
        index=[5, 5, 5],
    )
    source = open_data(frame)
    assert (source.name, source.format) == ("pandas DataFrame", "frame")
    assert source.columns == ("text", "whole", "real", "when", "any")
    assert values(frame) == [
        {"text": "007", "whole": 1, "real": 0.5, "when": "2024-05-21T00:00:00", "any": [1, 2]},
        {"text": None, "whole": None, "real": None, "when": None, "any": {"a": 1}},
        {"text": "nan", "whole": 3, "real": 2.0, "when": "2024-05-22T00:00:00", "any": None},
    ]
    many = pandas.DataFrame({"a": range(2 * PORTION + 1)})
    assert [row["a"] for row in values(many)] == list(range(2 * PORTION + 1))


def test_a_column_is_no_frame() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputTypeError, match="data must be a data frame that pyarrow can read but is a pandas Series"):
        open_data(pandas.Series([1, 2]))


def test_names_of_columns_of_frames() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="pandas DataFrame must name every column once but has 'a' more than once"):
        open_data(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InputError, match="pandas DataFrame must have texts as names of columns but has 0"):
        open_data(pandas.DataFrame([[1, 2]]))
    with pytest.raises(InputError, match="pandas DataFrame must have at least one row but has none"):
        open_data(pandas.DataFrame({"a": []}))


class LikePolars:
    """What polars' frames offer."""

    columns = ("a", "b")

    def iter_rows(self) -> Iterator[tuple[Any, ...]]:
        yield from [(1, None), (datetime(2024, 5, 21, tzinfo=timezone.utc), ["x"]), (float("inf"), 1)]


def test_polars() -> None:
    rows = list(open_data(LikePolars()))
    assert [row.values for row in rows] == [{"a": 1, "b": None}, {"a": "2024-05-21T00:00:00+00:00", "b": ["x"]}, {}]
    assert rows[2].error.endswith("LikePolars, row 3, column 'a' must be a finite number but is inf")
    polars = pytest.importorskip("polars")
    assert values(polars.DataFrame({"a": [1, None]})) == [{"a": 1}, {"a": None}]


def table() -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table(
        {
            "text": pyarrow.array(["007", None, "é"]).dictionary_encode(),
            "list": [[1, 2], [], None],
            "struct": [{"a": 1.5}, {"a": None}, None],
            "when": pyarrow.array([0, 1, None], pyarrow.timestamp("ns", "UTC")),
        }
    )


ARROW_ROWS = [
    {"text": "007", "list": [1, 2], "struct": {"a": 1.5}, "when": "1970-01-01T00:00:00+00:00"},
    {"text": None, "list": [], "struct": {"a": None}, "when": "1970-01-01T00:00:00.000000001+00:00"},
    {"text": "é", "list": None, "struct": None, "when": None},
]


class OfArrow:
    """A frame that gives Arrow and nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OfInterchange:
    """A frame that gives the dataframe interchange protocol and nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __dataframe__(self, *args: Any, **kwargs: Any) -> Any:
        return self._table.__dataframe__(*args, **kwargs)


def test_arrow() -> None:
    assert values(table()) == values(OfArrow(table())) == ARROW_ROWS
    assert values(table().to_batches()[0]) == ARROW_ROWS
    assert values(OfInterchange(table().select(["text"]))) == [{"text": row["text"]} for row in ARROW_ROWS]
    with pytest.raises(InputError, match=r"must be readable more than once but is a .*: give data.read_all\(\)"):
        open_data(table().to_reader())
    with pytest.raises(InputError, match="pyarrow Table must name every column once but has 'a' more than once"):
        open_data(table().select(["text", "list"]).rename_columns(["a", "a"]))


def test_texts_of_arrow_that_are_no_utf8_cost_their_row() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    offsets, texts = pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pyarrow.py_buffer(b"\xffx")
    broken = pyarrow.table({"a": pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets, texts])})
    rows = list(open_data(broken))
    assert [row.values for row in rows] == [{}, {"a": "x"}]
    assert "row 1, column 'a' must be text but has bytes that are no UTF-8" in rows[0].error


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "data.parquet"
    parquet.write_table(table(), path)
    source = open_data(path)
    assert (source.format, source.columns) == ("parquet", ("text", "list", "struct", "when"))
    assert values(path) == [row.values for row in source] == ARROW_ROWS
    assert len(source.hash) == 64
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"data.parquet must be a Parquet file but cannot be read: "):
        open_data(path)
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"data.parquet must be a Parquet file but cannot be read: "):
        open_data(path)


def test_damaged_pages_and_joined_files_of_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "data.parquet"
    choices: dict[str, Any] = {"compression": "NONE", "use_dictionary": False, "write_page_checksum": True}
    parquet.write_table(pyarrow.table({"text": ["paris"] * 9}), path, **choices)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"paris\x05", b"tunis\x05", 1))
    with pytest.raises(InputError, match=r"data.parquet must be a Parquet file but cannot be read: .*CRC"):
        list(open_data(path))
    path.write_bytes(whole + whole)
    with pytest.raises(InputError, match=r"data.parquet must be one Parquet file but is several that were joined"):
        open_data(path)


def test_offsets_of_damaged_pages_are_no_raw_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "data.parquet"
    parquet.write_table(pyarrow.table({"a": [[1]]}), path)
    source = open_data(path)
    offsets = pyarrow.py_buffer(b"\0\0\0\0\x7f\0\0\0\x01\0\0\0")
    wild = pyarrow.ListArray.from_buffers(
        pyarrow.list_(pyarrow.int64()), 2, [None, offsets], 0, 0, [pyarrow.array([1])]
    )
    batch = pyarrow.RecordBatch.from_arrays([wild], ["a"])
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *args: iter([batch]))
    with pytest.raises(InputError, match=r"data.parquet must be a Parquet file but cannot be read: "):
        list(source)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name))
    with pytest.raises(MissingExtraError, match=r"data.parquet needs pyarrow: pip install 'valor_gpu\[arrow\]'"):
        open_data(path)
    with pytest.raises(
        MissingExtraError, match=r"reading a .* OfArrow needs pyarrow: pip install 'valor_gpu\[arrow\]'"
    ):
        open_data(OfArrow(None))
