"""Tables that are damaged, hostile, packed or without a name: a table comes of them, or an error with its place."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fuzz import seeds
from tests.inputs.mutations import mutated
from valor_gpu.errors import InputError
from valor_gpu.inputs.predictions import Columns, read_predictions
from valor_gpu.inputs.tables import column_names, read_table

CSV = "t,p,q\n"
ROWS = [{"t": f"c{k % 3}", "p": k / 8, "q": 1e-3 * k} for k in range(30)]


def contents(ending: str, compressed: bool = False) -> bytes:
    """The rows in a format."""
    if ending == ".csv":
        return (CSV + "".join(f"{r['t']},{r['p']},{r['q']}\n" for r in ROWS)).encode()
    if ending == ".tsv":
        return contents(".csv").replace(b",", b"\t")
    if ending == ".jsonl":
        return "".join(json.dumps(r) + "\n" for r in ROWS).encode()
    columns = {name: np.array([r[name] for r in ROWS]) for name in "tpq"}
    out = io.BytesIO()
    if ending == ".npz":
        (np.savez_compressed if compressed else np.savez)(out, **columns)
    else:
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), out)
    return out.getvalue()


def test_joined_files_and_damaged_pages_of_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, columns = tmp_path / "table.parquet", {name: np.array([r[name] for r in ROWS]) for name in "tpq"}
    choices: dict[str, Any] = {"compression": "NONE", "use_dictionary": False, "write_page_checksum": True}
    parquet.write_table(arrow.table(columns), path, **choices)
    whole = path.read_bytes()
    check_rows(read_table(path, ["t"], [["p", "q"]]))
    path.write_bytes(whole.replace(np.float64(1 / 8).tobytes(), np.float64(7 / 8).tobytes(), 1))
    with pytest.raises(InputError, match=r"table.parquet must be a Parquet file but cannot be read: .*CRC"):
        read_table(path, ["t"], [["p", "q"]])
    path.write_bytes(whole + whole)
    with pytest.raises(InputError, match=r"table.parquet must be one Parquet file but is several that were joined"):
        read_table(path, ["t"], [["p", "q"]])


def check_rows(table: Any) -> None:
    assert table.texts[0] == [r["t"] for r in ROWS]
    assert table.numbers[0].tolist() == [[r["p"], r["q"]] for r in ROWS]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet", ".npz", ".npz compressed"])
def test_damaged_files_give_a_table_or_an_error_with_their_name(ending: str, tmp_path: Path) -> None:
    whole = contents(ending.split()[0], compressed=" " in ending)
    path = tmp_path / f"damaged{ending.split()[0]}"
    for seed in seeds(300):
        path.write_bytes(mutated(whole, seed))
        try:
            table = read_table(path, ["t"], [["p", "q"]])
        except InputError as error:
            assert "/damaged." in str(error), seed
        else:
            assert table.numbers[0].shape == (len(table.texts[0]), 2) and np.isfinite(table.numbers[0]).all()


# ------------------------------------------------------------------------------------------------------- plain numbers


@pytest.mark.parametrize(
    "number",
    ["0_5", "1_0", "\u0660.\u0665", "\uff10.\uff15", "0x1p-1", "inf", "-Infinity", "nan", "True", "0,5"],
)
def test_csv_numbers_are_plain(number: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'{CSV}a,1,2\nb,"{number}",3\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"a.csv, line 3, column 'p' must hold a finite number but got "):
        read_table(path, ["t"], [["p", "q"]])


def test_csv_numbers_may_have_signs_exponents_and_space(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV + 'a, +1.5e-3 ,-.5\nb,"\t7",1.E2\n')
    assert read_table(tmp_path / "a.csv", ["t"], [["p", "q"]]).numbers[0].tolist() == [[0.0015, -0.5], [7, 100]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", CSV + "a,1,2\nb,1e400,2\n", "a.csv, line 3, column 'p' must hold a finite number but got inf"),
        ("a.csv", (CSV + "a,1,2\n").encode("utf-16"), r"a.csv must be UTF-8 but is UTF-16 \(little-endian\)"),
        ("a.jsonl", '{"t":0,"p":1,"q":Infinity}', "a.jsonl, line 1, column 'q' must hold a finite number but got inf"),
        ("a.jsonl", '{"t":0,"p":1,"q":1' + "0" * 400 + "}", "line 1, 'q' must hold finite numbers but got an integer"),
        ("a.jsonl", '{"t":0,"p":1,"q":' + "9" * 5000 + "}", "must be flat JSON that can be read but: .*4300 digits"),
        ("a.jsonl", '{"t":0,"p":1,"q":' + "[" * 100_000, "a.jsonl, line 1 must be a flat object but is nested too"),
        ("a.jsonl", '{"t":"\\ud800","p":1,"q":2}', "a.jsonl, line 1 must be text but has half of a surrogate pair"),
        (
            "a.jsonl",
            b'{"t":0,"p":1,"q":2}\n{"t":"\xff"}',
            "a.jsonl, line 2 must be UTF-8 but has the byte 0xFF at column 7",
        ),
        ("a.jsonl", '{"t":0,"p":[],"q":[]}', "line 1, column 'p' must hold at least one number but holds none"),
    ],
)
def test_hostile_text(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name, ["t"], [["p", "q"]])


# --------------------------------------------------------------------------------------------------------------- npz


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    """The beginning of a .npy file."""
    text = str({"descr": descr, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (header((10**13,)), r"'p' must have 80000000000000 bytes for shape \[10000000000000\] but has 0"),
        (header((-1,)), r"'p' must have -8 bytes for shape \[-1\] but has 0"),
        (header((2**62, 2**62)), "'p' must have .* bytes for shape"),
        (header((2,), "|O"), "'p' must hold numbers or texts but holds Python objects, which are not loaded"),
        (header((2,), "<M8[s]") + bytes(16), r"'p' must hold numbers, \[N\] or \[N, C\], but is datetime64"),
        (b"\x93NUMPY\x01\x00\x30\x00{'descr': (", "must be an npz file but cannot be read: "),
        (b"\x93NUMPY\x03\x00\x30\x00\x00\x00", "'p' must hold numbers or texts but has fields of its own"),
        (b"text", "must be an npz file but cannot be read: ValueError: "),
    ],
)
def test_hostile_arrays(member: bytes, message: str, tmp_path: Path) -> None:
    good = io.BytesIO()
    np.save(good, np.zeros(2))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as members:
        for name in "tq":
            members.writestr(f"{name}.npy", good.getvalue())
        members.writestr("p.npy", member)
    with pytest.raises(InputError, match=f"a.npz:? {message}"):
        read_table(tmp_path / "a.npz", ["t"], [["p", "q"]])


def test_a_renamed_npy_and_a_member_that_is_no_array(tmp_path: Path) -> None:
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match=r"a\.npz must be an npz file but cannot be read: BadZipFile"):
        column_names(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as members:
        members.writestr("notes.txt", b"abc")
    assert column_names(tmp_path / "b.npz") == []


def test_matrices_in_columns_first_order(tmp_path: Path) -> None:
    matrix = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    np.savez(tmp_path / "a.npz", p=matrix, t=np.arange(3))
    assert read_table(tmp_path / "a.npz", ["t"], [["p"]]).numbers[0].tolist() == matrix.tolist()


def test_texts_that_are_not_utf8(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", t=np.array([b"a", b"\xff"]))
    message = r"a.npz: row 1 \(counted from 0\), column 't' must be text but: invalid start byte"
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "a.npz", ["t"])


# ----------------------------------------------------------------------------------------- separators, packed, no name


@pytest.mark.parametrize(
    ("name", "separator"), [("a.csv", ","), ("a.csv", "\t"), ("a.csv", ";"), ("a.TSV", "\t"), ("a.csv.gz", ";")]
)
def test_separators_and_packed_text(name: str, separator: str, tmp_path: Path) -> None:
    data = contents(".csv").replace(b",", separator.encode())
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    check_rows(read_table(tmp_path / name, ["t"], [["p", "q"]]))


def test_the_comma_goes_before_other_separators(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b,c\n1;2,3\n")
    assert column_names(tmp_path / "a.csv") == ["a;b", "c"]
    (tmp_path / "a.tsv").write_text("a,b\tc\n1,2\t3\n")
    assert column_names(tmp_path / "a.tsv") == ["a,b", "c"]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet", ".npz"])
@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_and_pipes(ending: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(contents(ending)) if packed else contents(ending)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    found = read_predictions("-", Columns("t", ("p", "q")), labels=("c0", "c1"), ignore="c2")
    assert found.scores is not None and found.scores.tolist() == [[r["p"], r["q"]] for r in ROWS]
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    check_rows(read_table(tmp_path / "pipe", ["t"], [["p", "q"]]))
    writer.join()


def test_packed_arrays_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.npz.gz").write_bytes(gzip.compress(contents(".npz")))
    with pytest.raises(InputError, match=r"the table must end in one of .*, \.jsonl\.gz but got .*a.npz.gz"):
        column_names(tmp_path / "a.npz.gz")


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(contents(".csv"))
    found = read_predictions(os.fspath(tmp_path / "a.csv"), Columns("t", pred="t"))
    assert found.names == ("c0", "c1", "c2")


def test_a_table_that_changes_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(contents(".csv"))
    monkeypatch.setattr("valor_gpu.inputs.tables.column_names", lambda file: path.write_bytes(b"t,p\n") and ["t"])
    with pytest.raises(InputError, match=r"a\.csv must stay as it is while it is read but has changed"):
        read_table(path, ["t"])
