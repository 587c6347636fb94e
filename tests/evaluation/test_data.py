"""Files and lists as rows: dialects, bad rows, bad files, memory."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import random
import subprocess
import sys
import threading
import tracemalloc
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.rows.data import DataSource, SourceRow, open_data
from valor_gpu.inputs import csv_records, text_lines


def opened(folder: Path, content: str | bytes, name: str = "data.csv") -> DataSource:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_data(path)


def values(source: DataSource) -> list[dict[str, Any]]:
    rows = list(source)
    assert [row.error for row in rows] == [""] * len(rows)
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    return [row.values for row in rows]


# ---------------------------------------------------------------------------------------------------------------- csv


def test_cells_are_texts_and_empty_ones_are_missing(tmp_path: Path) -> None:
    """As in case evaluate_csv of azure-ai-evaluation: "007", "1.0" and "42" stay as they are written."""
    source = opened(tmp_path, 'response,ground_truth,n\n42,42,007\n,x,1.0\n"a,b",a b,\n"",NA, \n')
    assert (source.format, source.columns) == ("csv", ("response", "ground_truth", "n"))
    assert values(source) == [
        {"response": "42", "ground_truth": "42", "n": "007"},
        {"response": None, "ground_truth": "x", "n": "1.0"},
        {"response": "a,b", "ground_truth": "a b", "n": None},
        {"response": None, "ground_truth": "NA", "n": " "},
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_dialects(tmp_path: Path, end: str, mark: bytes, delimiter: str) -> None:
    text = end.join(delimiter.join(cells) for cells in (["a", "b"], ["1", '"x\r\ny ""q"""'], [], ["é", '""']))
    source = opened(tmp_path, mark + text.encode())
    assert source.columns == ("a", "b")
    assert values(source) == [{"a": "1", "b": 'x\r\ny "q"'}, {"a": "é", "b": None}]


def test_excel_may_name_its_delimiter_and_pandas_leaves_the_index_without_a_name(tmp_path: Path) -> None:
    assert values(opened(tmp_path, "sep=;\r\na;b,c\r\n1;2\r\n")) == [{"a": "1", "b,c": "2"}]
    assert values(opened(tmp_path, ",a\n0,x\n")) == [{"Unnamed: 0": "0", "a": "x"}]
    assert opened(tmp_path, '"a;b",c\n1,2\n').columns == ("a;b", "c")


def test_rows_are_those_of_the_csv_module(tmp_path: Path) -> None:
    """Random cells as the standard library writes them, in all of its quotings."""
    random_ = random.Random(0)
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC):
        cells = ["".join(random_.choices('ab,;"\n\r\té 7', k=random_.randrange(6))) for _ in range(900)]
        rows = [cells[begin : begin + 3] for begin in range(0, 900, 3)]
        file = io.StringIO(newline="")
        csv.writer(file, quoting=quoting).writerows([["x", "y", "z"], *rows])
        read = [list(row.values()) for row in values(opened(tmp_path, file.getvalue()))]
        assert read == [[cell or None for cell in row] for row in rows]


def test_a_quote_inside_a_bare_cell_is_a_quote(tmp_path: Path) -> None:
    assert values(opened(tmp_path, 'a,b\n5" disk,x\n')) == [{"a": '5" disk', "b": "x"}]


def test_bad_rows_have_errors_with_their_lines_and_cost_no_other_row(tmp_path: Path) -> None:
    content = b'a,b\n1,"x\ny"\n5\n1,2,3\n6,\xff\n"7"x,2\n"open,1\n8,a\x00b\n"shut"\n9,z\n'
    rows = list(opened(tmp_path, content))
    name = str(tmp_path / "data.csv")
    assert [row.error.replace(name, "") for row in rows] == [
        "",
        ", line 4 must have 2 cells, as the header has, but has 1: column 2, 'b', is missing",
        ", line 5 must have 2 cells, as the header has, but has 3: column 3 has no name",
        ", line 6, column 'b' must be UTF-8 but has the byte 0xFF",
        ", line 7 must close its quotes but column 1, in line 7, has 'x' behind a closing quote",
        ", line 8 must close its quotes but column 1, in line 10, has 's' behind a closing quote",
        "",
        ", line 10 must have 2 cells, as the header has, but has 1: column 2, 'b', is missing",
        "",
    ]
    assert [row.line for row in rows] == [2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert [row.number for row in rows] == list(range(1, 10))
    assert [row.values for row in rows if row.values] == [
        {"a": "1", "b": "x\ny"},
        {"a": "8", "b": "a\x00b"},
        {"a": "9", "b": "z"},
    ]


def test_a_quote_that_nobody_closes_costs_its_line(tmp_path: Path) -> None:
    rows = list(opened(tmp_path, 'a,b\n1,"2\n' + "3,4\n" * 50))
    assert rows[0].error.endswith(
        "line 2 must close its quotes but the quote of column 2 is open at the end of the file"
    )
    assert [row.values for row in rows[1:]] == [{"a": "3", "b": "4"}] * 50


def test_lines_full_of_open_quotes_take_time_that_grows_as_the_file_does(tmp_path: Path, monkeypatch: Any) -> None:
    """Counts characters that are looked at, not seconds."""
    looked_at = 0
    split = csv_records._split

    def counted(line: str, *others: Any) -> Any:
        nonlocal looked_at
        looked_at += len(line)
        return split(line, *others)

    monkeypatch.setattr(csv_records, "_split", counted)
    for line in ('"', 'a,"b', '"""', '"a""', '""', '"\n""""', '"x"y'):
        text = "a,b\n1,2\n" + f"{line}\n" * 2000
        path = tmp_path / "quotes.csv"
        path.write_text(text)
        source = open_data(path)
        looked_at = 0
        assert source.count_rows() > 600
        assert looked_at <= 3 * len(text), line


def test_rows_have_a_longest_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (csv_records, text_lines):
        monkeypatch.setattr(module, "LONGEST_ROW", 100)
    long = "x" * 1000
    for text in (f"a,b\n1,{long}\n3,4\n", f'a,b\n1,"{long}"\n3,4\n', 'a,b\n1,"' + "y\n" * 99 + '"\n3,4\n'):
        rows = list(opened(tmp_path, text))
        assert rows[0].error.endswith("line 2 must have at most 100 characters but has more")
        assert rows[-1].values == {"a": "3", "b": "4"}
    rows = list(opened(tmp_path, f'{{"a": "{long}"}}\n{{"a": 1}}\n', "data.jsonl"))
    assert [bool(row.error) for row in rows] == [True, False]


# --------------------------------------------------------------------------------------------------------- JSON lines


def test_json_lines(tmp_path: Path) -> None:
    content = (
        '\ufeff{"a": 1, "b": [1.5, {"c": null}]}\r\n\n  \t\r\n{"b": true, "d": "\u2028\\u0000\\ud800"}\n{"a": NaN}'
    )
    source = opened(tmp_path, content, "data.jsonl")
    assert (source.format, source.columns) == ("jsonl", ("a", "b", "d"))
    assert values(source) == [{"a": 1, "b": [1.5, {"c": None}]}, {"b": True, "d": "\u2028\0\ud800"}, {"a": None}]
    assert [row.line for row in source] == [1, 4, 5]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{bad", "must be JSON but has expecting property name enclosed in double quotes at column 2"),
        (b'{"a": Infinity}', "must be JSON but has Infinity at column 7"),
        (b'{"a": [-Infinity]}', "must be JSON but has -Infinity at column 8"),
        (b'{"a": 1e999}', "must be JSON but has the number 1e999, which is beyond float64, at column 7"),
        (b'{"a": ' + b"9" * 5000 + b"}", "must be JSON but has a number of 5000 digits at column 7"),
        (b'{"a": {"b": 1, "b": 2}}', "must be JSON but has the key 'b' more than once"),
        (b"[1]", "must be a JSON object but is a list"),
        (b"null", "must be a JSON object but is null"),
        (b'{"a": "\xff"}', "must be UTF-8 but has the byte 0xFF at column 8"),
        (b'{"a": "\xed\xa0\x80"}', "must be UTF-8 but has the byte 0xED at column 8"),
        (b'{"a": "\0"}', "must be JSON but has invalid control character at at column 8"),
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "must have at most 100 levels of lists and objects but has more"),
        (b'{"a": ' + b"[" * 100_000, "must have at most 100 levels of lists and objects but has more"),
    ],
)
def test_bad_lines_cost_no_other_row(tmp_path: Path, line: bytes, error: str) -> None:
    rows = list(opened(tmp_path, b'{"a": 1}\n' + line + b'\n{"a": 2}\n', "data.jsonl"))
    assert [row.values for row in rows] == [{"a": 1}, {}, {"a": 2}]
    assert rows[1].error == f"{tmp_path / 'data.jsonl'}, line 2 {error}"


def test_a_hundred_levels_are_read(tmp_path: Path) -> None:
    source = opened(tmp_path, '{"a": ' + "[" * 100 + "]" * 100 + "}", "data.jsonl")
    assert json.dumps(values(source)[0]["a"]) == "[" * 100 + "]" * 100


def test_a_cell_of_a_megabyte(tmp_path: Path) -> None:
    big = 'x"\n' * 350_000
    assert values(opened(tmp_path, 'a,b\n1,"{}"\n'.format(big.replace('"', '""'))))[0]["b"] == big
    assert values(opened(tmp_path, json.dumps({"b": big}), "data.jsonl"))[0]["b"] == big


# -------------------------------------------------------------------------------------------------- files as a whole


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["data.csv", "data.jsonl"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str, name: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be UTF-8 but (is|looks like) {encoding[:6].upper()}"):
        opened(tmp_path, '{"a": "question,answer"}\n'.encode(encoding), name)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.csv", b"", "a.csv must have a line with the names of its columns but is empty"),
        ("a.csv", b"\n\n", "a.csv must have a line with the names of its columns but is empty"),
        ("a.csv", b"a,b\n", "a.csv must have at least one row but has none"),
        ("a.csv", b"a,b,a\n1,2,3\n", "a.csv, line 1 must name every column once but has 'a' more than once"),
        ("a.csv", b"a,,Unnamed: 1\n1,2,3\n", "has 'Unnamed: 1' more than once"),
        ("a.csv", b'"a,b\n1,2\n', "a.csv, line 1 must close its quotes but the quote of column 1 is open at the end"),
        ("a.csv", b"a,\xff\n1,2\n", "a.csv, line 1, column 2 must be UTF-8 but has the byte 0xFF"),
        ("a.csv", b"a,b\n1\n2\n", "must have a row that can be read but has none: .*line 2 must have 2 cells"),
        ("a.csv", b"PK\x03\x04 and so on", "a.csv must be text but is a zip archive or an Excel workbook"),
        ("a.jsonl", b"PAR1 and so on", "a.jsonl must be text but is Parquet: give it the ending .parquet"),
        ("a.jsonl", b"\n \n", "a.jsonl must have at least one row but has none"),
        ("a.jsonl", b"{bad\nworse}\n", "must have a row that can be read but has none: .*line 1 must be JSON but"),
        ("a.jsonl", b"{}\n{}\n", "must have columns but its first 2 rows have none"),
        ("a.jsonl", b'{\n  "a": 1\n}\n', "but its first object goes on in the next line: write each on a line"),
        ("a.jsonl", b'{"a": 1},\n', "extra data at column 9: end the line without the comma"),
        (
            "a.csv",
            b"a,b\n1,2,\n",
            "has 3: column 3 has no name; if all rows end in a delimiter, let the header end in one",
        ),
        ("a.json", b'[\n{"a": 1}\n]\n', "must have one JSON object a line but is one JSON list"),
        ("a.json", b'[{"a": 1}, {"a": 2}]', "must have one JSON object a line but is one JSON list"),
        ("a.csv.gz", b"a,b\n1,2\n", "a.csv.gz must be gzip, as its name says, but begins with b'a,'"),
    ],
)
def test_unusable_files(tmp_path: Path, name: str, content: bytes, error: str) -> None:
    with pytest.raises(InputError, match=error):
        opened(tmp_path, content, name)


def test_one_good_row_behind_many_bad_ones_is_found(tmp_path: Path) -> None:
    source = opened(tmp_path, "bad\n" * 150 + '{"late": 1}\n', "data.jsonl")
    assert (source.columns, source.count_rows()) == (("late",), 151)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"but there is no '.*row.jsonl'; did you mean 'rows.jsonl'\?"):
        open_data(tmp_path / "row.jsonl")
    with pytest.raises(InputError, match=r"there is no '/nonexistent/x\.jsonl'$"):
        open_data("/nonexistent/x.jsonl")
    with pytest.raises(InputError, match="is a folder"):
        open_data(tmp_path)
    with pytest.raises(InputError, match="must be the path of a file"):
        open_data("a\0b")


def test_addresses_are_named_without_their_secrets() -> None:
    with pytest.raises(InputError, match="begins with azureml://: download it and give its path") as caught:
        open_data("azureml://me:word@host/data.jsonl?sig=TOKEN")
    assert "TOKEN" not in str(caught.value) and "word" not in str(caught.value)


def test_compressed_files_and_formats_that_are_given(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.CSV", tmp_path / "a.csv.gz"
    plain.write_text("a\n007\n")
    packed.write_bytes(gzip.compress(b"a\n007\n"))
    assert values(open_data(plain)) == values(open_data(str(packed))) == [{"a": "007"}]
    assert open_data(plain).hash == open_data(packed).hash
    odd = tmp_path / "rows.txt"
    odd.write_text("a\tb\n1\t2\n")
    assert values(open_data(odd, "csv")) == [{"a": "1", "b": "2"}]
    with pytest.raises(InputError, match="format must be one of None, 'csv', 'jsonl', 'parquet' but got 'xls'"):
        open_data(odd, "xls")


def test_pipes_can_be_read_several_times(tmp_path: Path) -> None:
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=('{"a": 1}\n',))
    writer.start()
    source = open_data(path)
    writer.join()
    assert values(source) == values(source) == [{"a": 1}]


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    source = opened(tmp_path, "a\n1\n")
    (tmp_path / "data.csv").write_text("a\n1\n2\n")
    with pytest.raises(InputError, match="must stay as it is while it is read but has changed"):
        list(source)


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    source = opened(tmp_path, b"abc\n1\n")
    assert source.hash == "5cb310b6f87a23bce211e77652daf4e4931a010ffbca35148659961a9207e0fb"  # sha256sum
    assert opened(tmp_path, b"abc\n2\n").hash != source.hash
    assert open_data([{"a": 1, "b": 2}]).hash == open_data([{"b": 2, "a": 1}]).hash != open_data([{"a": 1}]).hash


@pytest.mark.parametrize("name", ["data.csv", "data.jsonl"])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, name: str) -> None:
    def peak(count: int) -> int:
        row = '"question, the same",answer\n' if name == "data.csv" else '{"question": "q", "answer": "a"}\n'
        path = tmp_path / f"{count}{name}"
        path.write_text(("question,answer\n" if name == "data.csv" else "") + row * count)
        tracemalloc.start()
        source = open_data(path)
        assert source.count_rows() == count and source.hash
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(100)  # what is imported at first
    assert peak(20_000) < peak(1000) + 50_000


# --------------------------------------------------------------------------------------------------------------- rows


def test_lists_of_dicts() -> None:
    source = open_data(({"a": 1, "b": math.nan}, {"c": (1, {"d": None})}))
    assert (source.format, source.columns) == ("rows", ("a", "b", "c"))
    assert values(source) == [{"a": 1, "b": None}, {"c": [1, {"d": None}]}]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.datetime64("2024-05-21"), "2024-05-21"),
        (np.datetime64("NaT"), None),
        (date(2024, 5, 21), "2024-05-21"),
        (Decimal("1.10"), "1.10"),
        (Decimal("NaN"), None),
        (b"caf\xc3\xa9", "café"),
        (True, True),
    ],
)
def test_values_of_other_types(value: Any, plain: Any) -> None:
    found = values(open_data([{"a": value}]))[0]["a"]
    assert found == plain and type(found) is type(plain)


def cycle() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (3, "data, row 2 must be a dict but is int"),
        ({1: 2}, "data, row 2 must have texts as names of columns but has 1"),
        ({"a": {1: 2}}, "data, row 2, column 'a' must have texts as keys but has 1"),
        ({"a": math.inf}, "data, row 2, column 'a' must be a finite number but is inf"),
        ({"a": [np.float32("inf")]}, "data, row 2, column 'a' must be a finite number but is inf"),
        ({"a": 10**400}, "data, row 2, column 'a' must be a number of JSON but is an int of 1329 bits"),
        ({"a": object()}, "data, row 2, column 'a' must be a value of JSON but is object"),
        ({"a": {1}}, "data, row 2, column 'a' must be a value of JSON but is set"),
        ({"a": b"\xff"}, "data, row 2, column 'a' must be text but has bytes that are no UTF-8"),
        ({"a": cycle()}, "data, row 2, column 'a' must have at most 100 levels of lists but has more"),
    ],
)
def test_bad_rows_of_a_list(row: Any, error: str) -> None:
    rows = list(open_data([{"a": 1}, row, {"a": 2}]))
    assert [each.values for each in rows] == [{"a": 1}, {}, {"a": 2}]
    assert rows[1].error.startswith(error)


@pytest.mark.parametrize("data", [3, None, b"bytes", {"a": [1]}, iter([{"a": 1}])])
def test_what_is_no_data(data: Any) -> None:
    with pytest.raises(InputTypeError, match="data must be a path, a list of dicts or a data frame but is"):
        open_data(data)


def test_an_empty_list() -> None:
    with pytest.raises(InputError, match="data must have at least one row but has none"):
        open_data([])


def test_rows_compare_and_show_what_they_hold() -> None:
    assert next(iter(open_data([{"a": 1}]))) == SourceRow(1, {"a": 1})


def test_reading_loads_no_torch_and_no_pandas(tmp_path: Path) -> None:
    program = (
        "import sys; from valor_gpu.evaluation.rows.data import open_data; import valor_gpu.evaluation.rows.keys;"
        f"list(open_data({str(tmp_path / 'a.csv')!r}));"
        "print([name for name in ('torch', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    (tmp_path / "a.csv").write_text("a\n1\n")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
