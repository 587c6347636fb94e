"""Tables of predictions: the same columns from every format, and errors that say where."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.inputs.tables import column_names, read_table

CLASSES = ["p_cat", "p_dög", "p_3"]


def random_columns(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    truth = [["cat", "dög", "3", 'a, "b"', ""][k] for k in rng.integers(0, 5, rows)]
    scores = rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-12, 12, (rows, 3))
    return {"truth": truth, **dict(zip(CLASSES, scores.T)), "w": rng.random(rows)}


def write(path: Path, columns: dict[str, Any]) -> Path:
    """The columns in the format of the ending."""
    rows = list(zip(*columns.values()))
    if path.suffix == ".csv":
        lines = [",".join(columns)]
        lines += [",".join([json.dumps(row[0]).replace('\\"', '""'), *map(repr, map(float, row[1:]))]) for row in rows]
        path.write_text("\n".join([*lines, ""]).replace("\\u00f6", "ö"), encoding="utf-8")
    elif path.suffix == ".jsonl":
        objects = ({n: v if isinstance(v, str) else float(v) for n, v in zip(columns, row)} for row in rows)
        path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        parquet.write_table(arrow.table(columns), path)
    return path


@pytest.mark.parametrize("rows", [0, 1, 257])
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".npz"])
def test_every_format_gives_the_same_bits(ending: str, rows: int, tmp_path: Path) -> None:
    columns = random_columns(rows)
    path = write(tmp_path / f"data{ending}", columns)
    if rows == 0 and ending == ".jsonl":
        with pytest.raises(InputError, match="must have a JSON object in each line but has no line"):
            column_names(path)
        return
    assert column_names(path) == list(columns)
    table = read_table(path, ["truth"], [["p_3", "p_cat"], ["w"]])
    assert table.texts == (columns["truth"],)
    expected = np.stack([columns["p_3"], columns["p_cat"]], 1)
    assert table.numbers[0].dtype == np.float64 and table.numbers[0].tobytes() == expected.tobytes()
    assert table.numbers[1].shape == (rows, 1) and np.array_equal(table.numbers[1][:, 0], columns["w"])


def test_columns_of_lists_are_matrices(tmp_path: Path) -> None:
    scores, targets = np.arange(6.0).reshape(3, 2), np.array([1, 0, 1])
    np.savez(tmp_path / "a.npz", scores=scores, target=targets)
    rows = [{"target": t, "scores": s} for t, s in zip(targets.tolist(), scores.tolist())]
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    for ending in ("npz", "jsonl", "parquet"):
        table = read_table(tmp_path / f"a.{ending}", ["target"], [["scores"], ["scores", "target"]])
        assert table.texts[0] == ["1", "0", "1"]
        assert np.array_equal(table.numbers[0], scores)
        assert np.array_equal(table.numbers[1], np.column_stack([scores, targets]))


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (3.0, "3"), (0.5, "0.5"), (True, "1"), (False, "0"), (None, ""), (np.nan, ""), ("x y", "x y")],
)
def test_values_as_text(value: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"t": value}))
    assert read_table(tmp_path / "a.jsonl", ["t"]).texts == ([text],)
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = arrow.table({"t": arrow.array([value]).dictionary_encode() if isinstance(value, str) else [value]})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", ["t"]).texts == ([text],)
    if value is not None:
        np.savez(tmp_path / "a.npz", t=np.array([value]))
        assert read_table(tmp_path / "a.npz", ["t"]).texts == ([text],)


def test_csv_as_spreadsheets_write_it(tmp_path: Path) -> None:
    path = tmp_path / "A.CSV"
    path.write_bytes('\ufefftruth, p\r\n"two\r\nlines", 1e-3\r\n\r\n dog,"2"\r\n'.encode())
    table = read_table(path, ["truth"], [["p"]])
    assert table.texts[0] == ["two\r\nlines", "dog"] and table.numbers[0].tolist() == [[0.001], [2.0]]
    assert [table.place(row) for row in range(2)] == [f"{path}, line 2", f"{path}, line 5"]


CSV = "t,p,q\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "must have a line with the names of its columns but is empty"),
        ("a.csv", CSV + "a,1,2\n\nb,1,x y\n", r"a.csv, line 4, column 'q' must hold a finite number but got 'x y'"),
        ("a.csv", CSV + "a,1,2\nb,,3\n", r"a.csv, line 3, column 'p' must hold a finite number but got ''"),
        ("a.csv", CSV + "a,1,2\nb,1,nan\n", r"a.csv, line 3, column 'q' must hold a finite number but got nan"),
        ("a.csv", CSV + "a,1\n", r"a.csv, line 2 must have 3 cells, as the header has, but has 2: column 3"),
        ("a.csv", CSV + 'a,1,"2\n', r"a.csv, line 2 must close its quotes but the quote of column 3 is open at the"),
        ("a.csv", b"t,p,q\n\xff,1,2\n", r"a.csv, line 2, column 't' must be UTF-8 but has the byte 0xFF"),
        ("a.csv", "t,p\na,1\n", r"must have one column 'q' but has no such column among t, p$"),
        ("a.csv", "t,p,q,q\na,1,1,1\n", r"must have one column 'q' but has 2 of that name among t, p, q, q$"),
        ("a.csv", ",".join("abcdefghijklmn") + "\n", r"among a, b, c, d, e, f, g, h, i, j, k, l, ... \(14 columns\)$"),
        ("a.jsonl", '{"t": 1, "p": 1, "q": 2}\n{"t": 1,}\n', r"a.jsonl, line 2, character \d+: "),
        ("a.jsonl", '{"t": 1, "p": 1, "q": 2}\n[1]\n', r"a.jsonl, line 2 must be a JSON object but is \[1\]"),
        ("a.jsonl", '{"t": 1, "p": 1, "q": 2}\n{"t": 1, "p": 2}\n', "line 2 must have 'q' but has only t, p"),
        ("a.jsonl", '{"t": 1, "p": 1, "q": "2"}\n', "line 1, 'q' must hold numbers but got \"2\""),
        ("a.jsonl", '{"t": 1, "p": 1, "q": NaN}\n', r"line 1, column 'q' must hold a finite number but got nan"),
        ("a.jsonl", '{"t": 1, "p": [true], "q": 2}\n', "line 1, 'p' must hold numbers but got true"),
        ("a.jsonl", '{"t": [1], "p": 1, "q": 2}\n', r"line 1, 't' must be text or a number but got \[1\]"),
        ("a.jsonl", '{"t": 1, "p": [1], "q": 2}\n{"t": 1, "p": [1, 2], "q": 2}\n',
         "line 2, 'p', 'q' must hold 2 numbers as before but got 3"),
        ("a.npz", "no zip", r"must be an npz file but cannot be read: "),
        ("a.parquet", "no parquet", r"must be a Parquet file but cannot be read: "),
        ("a.xls", "", r"the table must end in one of .csv, .tsv, .jsonl, .*, .jsonl.gz but got .*a.xls"),
    ],
)  # fmt: skip
def test_errors_say_where(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    if name == "a.parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name, ["t"], [["p", "q"]])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"t": [1, 2], "p": [1.0]}, r"must have columns of one length but has t \[2\], p \[1\]"),
        ({"t": 1, "p": [1.0]}, r"must have columns of one length but has t \[\], p \[1\]"),
        ({"t": [[1]], "p": [1.0]}, r"'t' must have shape \[N\] but is \[1, 1\]"),
        ({"t": [1], "p": ["x"]}, r"'p' must hold numbers, \[N\] or \[N, C\], but is <U1 \[1\]"),
        ({"t": [1], "p": [[[1.0]]]}, r"'p' must hold numbers, \[N\] or \[N, C\], but is float64 \[1, 1, 1\]"),
        (
            {"t": [1], "p": [[0.5, np.nan]]},
            r"a.npz: row 0 \(counted from 0\), column 'p', item 1 must hold a finite number",
        ),
    ],
)
def test_arrays_that_do_not_fit(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **columns)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "a.npz", ["t"], [["p"]])


def test_lists_of_several_lengths_and_null_in_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"t": ["a", "b"], "p": [[1.0], [1.0, 2.0]]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="lists of one column must have one length but have 1 to 2"):
        read_table(tmp_path / "a.parquet", ["t"], [["p"]])
    parquet.write_table(arrow.table({"t": ["a", None], "p": [1.0, None]}), tmp_path / "b.parquet")
    assert read_table(tmp_path / "b.parquet", ["t"]).texts == (["a", ""],)
    with pytest.raises(InputError, match=r"row 1 \(counted from 0\), column 'p' must hold a finite number but got nan"):
        read_table(tmp_path / "b.parquet", ["t"], [["p"]])


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(MissingExtraError, match=r"a.parquet needs pyarrow: pip install 'valor_gpu\[arrow\]'"):
        column_names(tmp_path / "a.parquet")
