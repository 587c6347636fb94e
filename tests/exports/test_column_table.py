"""Tables that analyses return: text, HTML, CSV, pandas, arrow, Parquet, order and choice of rows."""

from __future__ import annotations

import csv
import io
import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow.parquet
import pytest

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.exports import frames
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.csv_text import csv_text

NAN = math.nan


def table() -> ColumnTable:
    return ColumnTable(
        {
            "image_id": np.array([7, 9, 8]),
            "class": np.array(["cat", None, 'a "big", dog'], object),
            "partner": np.ma.MaskedArray([1, 2, 3], [False, True, False]),
            "iou": np.array([0.1 + 0.2, NAN, -0.0]),
            "note": ["x", None, "two\nlines"],
            "kept": np.array([True, False, True]),
        },
        {"metric": "COCOeval", "iou": 0.5, "score": None, "edges": (0, 1)},
    )


def test_rows_have_plain_values() -> None:
    rows = table().rows()
    assert [type(value) for value in rows[0].values()] == [int, str, int, float, str, bool]
    assert rows[1] == {
        "image_id": 9,
        "class": None,
        "partner": None,
        "iou": rows[1]["iou"],
        "note": None,
        "kept": False,
    }
    assert math.isnan(rows[1]["iou"])


def test_text() -> None:
    lines = str(table()).split("\n")
    assert lines[-2:] == ["3 rows", "metric:COCOeval|iou:0.5|score:none|edges:0,1"]
    assert lines[0].split() == ["image_id", "class", "partner", "iou", "note", "kept"]
    assert lines[2].split() == ["9", "nan", "False"]
    assert repr(table()) == "ColumnTable(3 rows: image_id, class, partner, iou, note, kept)"


def test_text_of_many_rows_shows_the_first() -> None:
    many = ColumnTable({"image_id": np.arange(1234), "f1": np.full(1234, 0.25)})
    lines = str(many).splitlines()
    assert lines[0] == "image_id      f1"
    assert lines[1:3] == ["       0  0.2500", "       1  0.2500"]
    assert lines[-2:] == ["... 1,214 more", "1,234 rows"]
    assert len(lines) == 1 + 20 + 2
    assert str(ColumnTable({"f1": [0.5]})).splitlines()[-1] == "1 row"
    assert str(ColumnTable({"f1": []})).splitlines() == ["f1", "0 rows"]


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["td"]:
            self.cells[-1] += data


def test_html_is_escaped_and_whole() -> None:
    html = ColumnTable({"class": ["<b>&", "x"] * 30, "n": range(60)}, {"iou": "<i>"})._repr_html_()
    reader = _Cells()
    reader.feed(html)
    assert reader.cells[:4] == ["<b>&", "0", "x", "1"] and not reader.open
    assert len(reader.cells) == 40
    assert "and 40 more rows" in html and "<b>" not in html and "<i>" not in html and "http" not in html


def by_csv(columns: dict[str, Any]) -> str:
    """By the module, whose lines end in CR LF so that it quotes both."""
    rows = [tuple(columns), *zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()))]
    lines = []
    for row in rows:
        text = io.StringIO(newline="")
        csv.writer(text).writerow(row)
        lines.append(text.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


@pytest.mark.parametrize("seed", range(20))
def test_csv_has_the_bytes_of_the_csv_module(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 60))
    words = np.array(["", " ", "a,b", 'q"', "l\nf", "c\rr", "é", "x", None, "'"], object)
    special = np.array([0.0, -0.0, NAN, math.inf, -math.inf, 1e-300, 0.1, 1e22, 5e-324])
    columns: dict[str, Any] = {
        "a,b": words[rng.integers(0, len(words), count)],
        "number": np.where(rng.random(count) < 0.5, special[rng.integers(0, len(special), count)], rng.random(count)),
        "narrow": rng.random(count).astype(np.float32),
        "whole": rng.integers(-(2**62), 2**62, count),
        "masked": np.ma.MaskedArray(rng.integers(0, 9, count), rng.random(count) < 0.4),
        "masked float": np.ma.MaskedArray(rng.random(count), rng.random(count) < 0.4),
        "flag": rng.random(count) < 0.5,
        "mixed": [(1, 1.0, True, "1", None, 2.5)[k] for k in rng.integers(0, 6, count)],
    }
    chosen = rng.permutation(list(columns))[: int(rng.integers(1, len(columns) + 1))].tolist()
    part = {name: columns[name] for name in chosen}
    assert csv_text(part) == by_csv(part)
    assert csv_text({"w": columns["a,b"]}) == by_csv({"w": columns["a,b"]})  # an empty cell alone is quoted


def test_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table().to_csv(path)
    assert path.read_bytes().decode() == (
        "image_id,class,partner,iou,note,kept\n"
        "7,cat,1,0.30000000000000004,x,True\n"
        "9,,,nan,,False\n"
        '8,"a ""big"", dog",3,-0.0,"two\nlines",True\n'
    )
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_pandas() -> None:
    frame = table().to_pandas()
    assert frame["partner"].dtype == "Int64" and frame["image_id"].dtype == np.int64
    assert frame["partner"].isna().tolist() == [False, True, False] and frame["partner"].tolist()[2] == 3
    assert frame["class"].isna().tolist() == [False, True, False]
    assert frame["iou"].tolist()[0] == 0.1 + 0.2 and frame["iou"].dtype == np.float64
    assert frame.attrs == {"metric": "COCOeval", "iou": 0.5, "score": None, "edges": [0, 1]}


def test_arrow_and_parquet_keep_nan_apart_from_missing(tmp_path: Path) -> None:
    arrow = table().to_arrow()
    assert arrow.column("iou").null_count == 0 and math.isnan(arrow.column("iou").to_pylist()[1])
    assert arrow.column("partner").to_pylist() == [1, None, 3]
    assert arrow.column("class").to_pylist() == ["cat", None, 'a "big", dog']
    assert json.loads(arrow.schema.metadata[b"iou"]) == 0.5
    table().to_parquet(tmp_path / "t.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "t.parquet")
    assert read.schema.equals(arrow.schema, check_metadata=True)
    assert read.drop(["iou"]).equals(arrow.drop(["iou"]))
    assert np.array_equal(read.column("iou").to_numpy(), arrow.column("iou").to_numpy(), equal_nan=True)
    assert ColumnTable({"f1": [0.5]}).to_arrow().schema.metadata is None
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_json() -> None:
    found = json.loads(table().to_json())
    assert found["iou"] == [0.1 + 0.2, None, -0.0] and found["partner"] == [1, None, 3]
    assert table().to_json(indent=1).startswith('{\n "image_id": [\n')


def test_order_and_choice_of_rows() -> None:
    t = table()
    assert t.sort_by("iou")["image_id"].tolist() == [8, 7, 9]
    assert t.sort_by("iou", descending=True)["image_id"].tolist() == [7, 8, 9]
    assert t.sort_by("class")["image_id"].tolist() == [8, 7, 9]
    assert t.sort_by("partner", descending=True)["note"] == ["two\nlines", "x", None]
    assert t.sort_by("partner")["partner"].tolist() == [1, 3, None]
    assert t.head(2)["image_id"].tolist() == [7, 9] and len(t.head(9)) == 3 and len(t.head(0)) == 0
    assert t.head(2).choices == t.choices and len(t) == 3
    equal = ColumnTable({"k": [1, 0, 1, 0], "n": [0, 1, 2, 3]})
    assert equal.sort_by("k", descending=True)["n"] == [0, 2, 1, 3] and equal.sort_by("k")["n"] == [1, 3, 0, 2]
    assert pandas.DataFrame(equal.columns).sort_values("k", kind="stable")["n"].tolist() == equal.sort_by("k")["n"]


def test_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"columns must have one length but have \{'a': 1, 'b': 2\}"):
        ColumnTable({"a": [1], "b": [1, 2]})
    with pytest.raises(InputError, match=r"there is no column 'c': the table has a, b"):
        ColumnTable({"a": [], "b": []})["c"]
    with pytest.raises(InputError, match=r"count must be at least 0 but got -1"):
        table().head(-1)

    def absent(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(frames.importlib, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"ColumnTable\.to_pandas"):
        table().to_pandas()
    with pytest.raises(MissingExtraError, match=r"ColumnTable\.to_arrow"):
        table().to_parquet(tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())
