"""Columns of tables about images, whatever they come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.value_tables import read_columns

COLUMNS = {"image_id": [1, 2, 3], "weather": ["rain", None, "sun"], "hour": [6.5, 7.0, None]}


def test_values_stay_what_they_are(tmp_path: Path) -> None:
    frame = pandas.DataFrame(COLUMNS | {"night": [True, False, True]})
    expected = COLUMNS | {"night": [True, False, True]}
    parquet.write_table(pyarrow.table(expected), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", image_id=np.arange(1, 4), hour=np.array([6.5, 7.0, np.nan]))
    (tmp_path / "t.jsonl").write_text('{"image_id": 1, "weather": "rain"}\n\n{"image_id": 2, "night": null}\n')
    for form in (expected, frame, pyarrow.table(expected), tmp_path / "t.parquet"):
        assert read_columns(form) == expected, type(form)
    assert read_columns(tmp_path / "t.jsonl") == {
        "image_id": [1, 2], "weather": ["rain", None], "night": [None, None]
    }  # fmt: skip
    assert read_columns(tmp_path / "t.npz") == {"image_id": ["1", "2", "3"], "hour": ["6.5", "7", None]}
    assert read_columns({"a": np.array([1.0, np.nan]), "b": (None, " ")}) == {"a": [1.0, None], "b": [None, None]}
    assert read_columns([]) == {} and read_columns({}) == {}


def test_csv_is_text_and_an_empty_cell_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\ufeffimage_id; weather ;note\n1;rain;\n2; ;x\n")
    assert read_columns(path) == {"image_id": ["1", "2"], "weather": ["rain", None], "note": [None, "x"]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": [1, 2], "b": [1]}, "table must have columns of one length but has {'a': 2, 'b': 1}"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "table must name each column once but has 'a' 2 times"),
        ({"a": "rain"}, "must be a column of values but is 'rain'"),
        ({"a": 3}, "must be a column of values but is 3"),
        ([{"a": 1}, 3], r"table\[1\] must be a mapping of columns but is int"),
        (object(), "table must be a frame, a mapping of columns, a list of rows or the path of a file but is object"),
    ],
)
def test_what_is_no_table_is_an_error(given: Any, said: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=said):
        read_columns(given)


def test_names_that_come_twice_and_damage_are_errors(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    with pytest.raises(InputError, match="must name each column once but has 'a' 2 times"):
        read_columns(tmp_path / "t.csv")
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="must be a Parquet file but cannot be read"):
        read_columns(tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text("[1]\n")
    with pytest.raises(InputError, match="line 1 must be a JSON object"):
        read_columns(str(tmp_path / "t.jsonl"))
    with pytest.raises(InputError, match="must end in one of"):
        read_columns(tmp_path / "t.xls") if (tmp_path / "t.xls").write_text("a") else None


@pytest.mark.parametrize("unit", ["s", "ns", "D"])
def test_moments_of_numpy(unit):
    moments = np.array(["2020-01-02", "NaT"], f"datetime64[{unit}]")
    expected = ["2020-01-02" + " 00:00:00", None]
    for column in (moments, list(moments)):
        found = read_columns({"day": column})["day"]
        assert [None if each is None else str(each) for each in found] == expected


@pytest.mark.parametrize("column", [{0: "a", 1: "b"}, {"a", "b"}])
def test_columns_without_an_order(column):
    with pytest.raises(InputError, match=r"table\['w'\] must be a column of values but is"):
        read_columns({"w": column})
