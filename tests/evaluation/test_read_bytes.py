"""Bytes and objects from elsewhere: each reader gives the right value, or an error of that row or file alone."""

from __future__ import annotations

import datetime
import enum
import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.evaluation.config import read_mapping
from valor_gpu.evaluation.prompts.prompty import read_prompt
from valor_gpu.evaluation.rows._source_rows import plain_row
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.panoptic_files import read_panoptic_json
from valor_gpu.inputs.tables import read_table
from valor_gpu.judge.metrics.messages import messages_of
from valor_gpu.offline.formats.tar_rows import read_webdataset
from valor_gpu.offline.shards import Shard
from valor_gpu.valor.geojson import polygon_of
from valor_gpu.valor.schemas import Polygon


def rows_of(path: Path) -> list[Any]:
    """Values of rows, or their errors."""
    return [row.error or row.values for row in open_data(path)]


def check(got: list[Any], expected: list[Any]) -> None:
    """Rows are as they must be; a text stands for an error that has it."""
    assert len(got) == len(expected), got
    for one, wanted in zip(got, expected):
        assert wanted in one if isinstance(wanted, str) else one == wanted, (one, wanted)


CSV = {
    "mark": (b"\xef\xbb\xbfq,a\n1,2\n", [{"q": "1", "a": "2"}]),
    "latin-1": (b"q,a\nM\xe1,2\nx,y\n", ["'q' must be UTF-8 but has the byte 0xE1", {"q": "x", "a": "y"}]),
    "surrogates": (b"q,a\n\xed\xa0\x80,2\nx,y\n", ["must be UTF-8", {"q": "x", "a": "y"}]),
    "ends": (b"q,a\r\n1,2\n3,4\r5,6", [{"q": "1", "a": "2"}, {"q": "3", "a": "4"}, {"q": "5", "a": "6"}]),
    "separators": ("q,a\n1\u20282,\x85\x0c\x1c\n".encode(), [{"q": "1\u20282", "a": "\x85\x0c\x1c"}]),
    "NUL": (b"q,a\n1\0,2\n", [{"q": "1\0", "a": "2"}]),
    "quotes": (b'q,a\n"x ""y""\nz",2\n"x"y,3\n4,5\n', [{"q": 'x "y"\nz', "a": "2"}, "close its", {"q": "4", "a": "5"}]),
    "digits": (b"q,a\n9007199254740993,0.100000000001\n", [{"q": "9007199254740993", "a": "0.100000000001"}]),
    "joined gzip": (gzip.compress(b"q,a\n1,2", mtime=0) + gzip.compress(b"3\n", mtime=0), [{"q": "1", "a": "23"}]),
    "words": (b"q,a\nNA,nan\nnull,\n", [{"q": "NA", "a": "nan"}, {"q": "null", "a": None}]),
}  # fmt: skip


@pytest.mark.parametrize("name", CSV)
def test_csv(name: str, tmp_path: Path) -> None:
    content, expected = CSV[name]
    (tmp_path / "a.csv").write_bytes(content)
    check(rows_of(tmp_path / "a.csv"), expected)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("q,a\n1,2\n".encode("utf-16"), "must be UTF-8 but is UTF-16"),
        ("q,a\n1,2\n".encode("utf-16-be"), r"looks like UTF-16 \(big-endian\)"),
        ("\u6e2f\u6e2f,\u6e2f\u6e2f\n1,2\n".encode("utf-16-le"), "line 1 must name columns in UTF-8 but has a NUL"),
        ("M\xe1,a\n1,2\n".encode("latin-1"), "line 1, column 1 must be UTF-8 but has the byte 0xE1"),
        (b"q,q\n1,2\n", "must name every column once but has 'q' more than once"),
        (gzip.compress(b"q,a\n1,2\n", mtime=0)[:-9], "must be gzip but is damaged"),
        (gzip.compress(b"q,a\n1,2\n", mtime=0) + b"x", "must be gzip but is damaged"),
    ],
)
def test_files_that_are_no_csv(content: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=error):
        rows_of(tmp_path / "a.csv")


GOOD = b'\n{"q": 1}\n'
LINES = {
    "mark": (b'\xef\xbb\xbf{"q": 1}', {"q": 1}),
    "latin-1": ('{"q": "M\xe1"}'.encode("latin-1"), "must be UTF-8 but has the byte 0xE1 at column 9"),
    "surrogates": (b'{"q": "\xed\xa0\x80"}', "must be UTF-8"),
    "key twice": (b'{"q": 1, "q": 2}', "has the key 'q' more than once"),
    "inner key twice": (b'{"q": [{"a": 1, "a": 1}]}', "has the key 'a' more than once"),
    "NaN": (b'{"q": NaN}', {"q": None}),
    "Infinity": (b'{"q": -Infinity}', "has -Infinity at column 7"),
    "beyond float64": (b'{"q": 1e400}', "the number 1e400, which is beyond float64"),
    "many digits": (b'{"q": ' + b"9" * 6000 + b"}", "has a number of 6000 digits"),
    "beyond 2**53": (b'{"q": 9007199254740993}', {"q": 9007199254740993}),
    "nearest float": (b'{"q": 0.1000000000000000055511151231257827}', {"q": 0.1}),
    "deep": (b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "at most 100 levels"),
    "cut": (b'{"q": "1', "must be JSON but has unterminated string"),
    "two": (b'{"q": 1}{"q": 2}', "must be JSON but has extra data"),
    "list": (b"[1]", "must be a JSON object but is a list"),
    "NUL": (b'{"q": "a\0b"}', "invalid control character"),
    "separators": ('{"q": "\u2028\x85"}\r'.encode(), {"q": "\u2028\x85"}),
}


@pytest.mark.parametrize("name", LINES)
def test_json_lines(name: str, tmp_path: Path) -> None:
    content, expected = LINES[name]
    (tmp_path / "a.jsonl").write_bytes(content + GOOD)
    check(rows_of(tmp_path / "a.jsonl"), [expected, {"q": 1}])


class Colour(str, enum.Enum):
    RED = "red"


def times(kind: str, *given: Any) -> Any:
    return np.array(given, dtype=kind)


CELLS: list[tuple[Any, Any]] = [
    (times("datetime64[ns]", "2024-01-01T00:00:00.123456789", "NaT"), ["2024-01-01T00:00:00.123456789", None]),
    (times("timedelta64[ns]", [5], [7]), [["5 nanoseconds"], ["7 nanoseconds"]]),
    (np.array([(1, "2024-05-21")], dtype=[("a", "i8"), ("b", "datetime64[us]")]), [[1, "2024-05-21T00:00:00.000000"]]),
    (times("datetime64[D]", "2024-05-21")[0], "2024-05-21"),
    (Colour.RED, "red"),
    ({"a": [Colour.RED]}, {"a": ["red"]}),
    (np.float32(0.1), 0.10000000149011612),
    (np.ma.array([1, 2], mask=[False, True]), [1, None]),
    (datetime.datetime(2024, 5, 21, tzinfo=datetime.timezone.utc), "2024-05-21T00:00:00+00:00"),
    (b"caf\xc3\xa9", "caf\xe9"),
    (2**60 + 1, 2**60 + 1),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), CELLS)
def test_cells_of_python_and_numpy(value: Any, expected: Any) -> None:
    found = plain_row("row 1", {"q": value})["q"]
    assert found == expected and json.loads(json.dumps(found)) == expected and type(found) is type(expected)


@pytest.mark.parametrize("value", [{1, 2}, 1j, np.longdouble(1), b"\xff", {1: 2}, object(), float("inf"), 1 << 1400])
def test_cells_that_json_does_not_have(value: Any) -> None:
    with pytest.raises(InputError, match="row 1, column 'q' must"):
        plain_row("row 1", {"q": value})


def test_a_named_index_of_pandas_is_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"q": ["x"], "id": [7]})
    assert rows_of(frame.set_index("id")) == rows_of(frame.set_index("id", drop=False)) == [{"id": 7, "q": "x"}]
    assert rows_of(frame.set_index(["id"], append=True)) == [{"id": 7, "q": "x"}]
    assert rows_of(frame.rename_axis(index=None)) == [{"q": "x", "id": 7}]


def test_arrow_keeps_nanoseconds() -> None:
    arrow = pytest.importorskip("pyarrow")
    stamps = [1_704_067_200_123_456_789, -1, 1_704_067_200_000_000_000, None]
    table = arrow.table(
        {
            "t": arrow.array(stamps, arrow.timestamp("ns")),
            "u": arrow.array(stamps, arrow.timestamp("ns", "UTC")),
            "v": arrow.array([5, 3_600_000_000_000, 0, None], arrow.time64("ns")),
        }
    )
    assert rows_of(table) == [
        {"t": "2024-01-01T00:00:00.123456789", "u": "2024-01-01T00:00:00.123456789+00:00", "v": "00:00:00.000000005"},
        {"t": "1969-12-31T23:59:59.999999999", "u": "1969-12-31T23:59:59.999999999+00:00", "v": "01:00:00"},
        {"t": "2024-01-01T00:00:00", "u": "2024-01-01T00:00:00+00:00", "v": "00:00:00"},
        {"t": None, "u": None, "v": None},
    ]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.json", b'{"a": 1, "a": 2}', "has the key 'a' more than once"),
        ("a.json", b'{"a": NaN}', "NaN is no number of JSON"),
        ("a.json", b'{"a": 1e400}', "1e400 is no number of JSON that float64 has"),
        ("a.json", b'{"a": ' + b"9" * 6000 + b"}", "must be JSON"),
        ("a.json", b"[" * 100_000, "must be JSON"),
        ("a.json", '{"a": "\xe1"}'.encode("latin-1"), "must be a file of UTF-8"),
        ("a.json", '{"a": 1}'.encode("utf-16"), "must be a file of UTF-8"),
        ("a.yaml", b"a: 1\na: 2\n", "must have each key once but an object has the key 'a' more than once"),
        ("a.yaml", b"a: 2024-13-45\n", "must be YAML: month must be in 1..12"),
        ("a.yaml", b"a: " + b"[" * 5000 + b"]" * 5000, "must be YAML"),
        ("a.yaml", b"a: 1\n---\na: 2\n", "must be YAML"),
    ],
)
def test_files_that_are_no_configuration(name: str, content: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=error):
        read_mapping(tmp_path / name)


def test_a_prompt_file_has_each_key_once() -> None:
    with pytest.raises(InputError, match="front matter must have each key once but an object has the key 'name'"):
        read_prompt("---\nname: a\nmodel:\n  x: 1\nname: b\n---\nIs it? {{answer}}")


@pytest.mark.parametrize(
    ("column", "content", "expected"),
    [
        ("x.json", b'\xef\xbb\xbf{"a": [1, 9007199254740993]}', {"a": [1, 9007199254740993]}),
        ("x.json", '{"a": "\xe1"}'.encode("utf-16"), {"a": "\xe1"}),
        ("x.json", b'{"a": 1, "a": 2}', "has the key 'a' more than once"),
        ("x.json", b'"\xed\xa0\x80"', "x.json must be json but"),
        ("x.json", b'"\xe1"', "x.json must be json but"),
        ("x.json", b"[" * 100_000, "x.json must be json but"),
        ("x.cls", b" 12\n", 12),
        ("x.cls", b"1_0", "must be a whole number but: is '1_0'"),
        ("x.cls", "\u0661".encode(), "must be a whole number but"),
        ("x.txt", b"\xef\xbb\xbfcaf\xc3\xa9\r\n", "caf\xe9\r\n"),
        ("x.txt", b"caf\xe9", "x.txt must be txt but"),
    ],
)
def test_members_of_tar_shards(column: str, content: bytes, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for key, data in (("0", content), ("1", b"7")):
            member = tarfile.TarInfo(f"{key}.{column}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    shard = Shard(0, {"data": str(path)})
    [chunk] = read_webdataset(shard, [column], 8)
    values, errors = list(chunk.columns[column]), [each.message for each in chunk.bad]
    assert len(values) + len(errors) == 2
    check([*errors, *values][:1], [expected])


def read_tables(path: Path) -> Any:
    table = read_table(path, ["c"], [["n"]])
    return list(zip(*table.texts)), table.numbers[0].tolist()


REFUSED: list[tuple[Callable[[Path], Any], bytes, str]] = [
    (read_tables, b'{"c": "a", "n": 1, "n": 2}', "an object has the key 'n' more than once"),
    (read_tables, b'{"c": "a", "n": NaN}', "must hold a finite number but got nan"),
    (read_tables, b'{"c": "\xe1", "n": 1}', "must be UTF-8 but has the byte 0xE1"),
    (lambda path: read_panoptic_json(str(path), True), b'{"annotations": [], "annotations": []}', "more than once"),
    (lambda path: read_panoptic_json(str(path), True), b'{"a": "\xed\xa0\x80"}', "must be JSON but is not"),
    (lambda path: messages_of(path.read_text()), b'[{"role": "user", "role": "assistant"}]', "more than once"),
    (lambda path: polygon_of("row 0", path.read_text(), Polygon), b'{"type": "Polygon", "type": 1}', "more than once"),
    (lambda path: polygon_of("row 0", path.read_text(), Polygon), b"[" * 100_000, "which is no JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "content", "error"), REFUSED)
def test_what_other_readers_refuse(read: Callable[[Path], Any], content: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=error):
        read(tmp_path / "a.jsonl")


PIECES = ["a", '"', ",", "\\", "\u2028", "\xe1", "\U0001f600", " ", "7", "\r", "\x85", "\ufeff", "'", ";"]


def text(draw: random.Random) -> str:
    return "".join(draw.choices(PIECES, k=draw.randrange(1, 6))) + "z"


def damaged(draw: random.Random, line: bytes, kept: bytes) -> bytes:
    """A line in which one byte that is none of ``kept`` is another one."""
    at = draw.choice([place for place in range(len(line)) if line[place : place + 1] not in kept])
    other = draw.choice([byte for byte in range(256) if bytes([byte]) not in kept])
    return line[:at] + bytes([other]) + line[at + 1 :]


@pytest.mark.parametrize("seed", seeds(40))
def test_a_damaged_line_of_json_costs_itself_alone(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows = [{"q": text(draw), "n": draw.choice([draw.random(), 2**53 + 1, None, [text(draw)]])} for _ in range(5)]
    lines = [json.dumps(row, ensure_ascii=draw.random() < 0.3).encode() for row in rows]
    at = draw.randrange(5)
    lines[at] = damaged(draw, lines[at], b"\n")
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    got = rows_of(tmp_path / "a.jsonl")
    assert [row for place, row in enumerate(got) if place != at] == [
        row for place, row in enumerate(rows) if place != at
    ]
    try:
        expected = json.loads(lines[at].decode().removeprefix("\ufeff" if at == 0 else ""))
        assert isinstance(expected, dict) and len(expected) == 2
    except (ValueError, AssertionError):
        assert isinstance(got[at], str), (lines[at], got[at])
    else:
        assert got[at] == expected or "beyond float64" in got[at], (lines[at], got[at])


@pytest.mark.parametrize("seed", seeds(40))
def test_a_damaged_line_of_csv_costs_itself_alone(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows = [[text(draw).replace('"', "x"), text(draw).replace('"', "x")] for _ in range(5)]
    lines = [f'"{row[0]}","{row[1]}"'.encode() for row in rows]
    at = draw.randrange(5)
    lines[at] = damaged(draw, lines[at], b'",\n')
    (tmp_path / "a.csv").write_bytes(b"q,a\n" + b"\n".join(lines))
    got = rows_of(tmp_path / "a.csv")
    for place, row in enumerate(rows):
        if place != at:
            assert got[place] == {"q": row[0], "a": row[1]}
    try:
        first, second = (cell.decode() for cell in lines[at][1:-1].split(b'","'))
    except UnicodeDecodeError:
        assert "must be UTF-8" in got[at]
    else:
        assert got[at] == {"q": first, "a": second}


def test_standard_readers_keep_what_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"c": "x", "n": 1}\r{"c": "y", "n": 2.5}')
    assert read_tables(tmp_path / "a.jsonl") == ([("x",), ("y",)], [[1.0], [2.5]])
    assert InputFile(tmp_path / "a.jsonl").read().count(b"\r") == 1
