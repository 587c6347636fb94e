"""The one reader of csv files: as the module csv on right files, and one record is lost where quotes are wrong."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._csv_rows import csv_rows
from valor_gpu.inputs import csv_records
from valor_gpu.inputs.cluster_files import read_clusters, read_row_clusters
from valor_gpu.inputs.csv_records import DELIMITERS, open_csv
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.tables import read_table
from valor_gpu.inputs.value_tables import read_columns

Read = tuple[list[str], list[tuple[int, list[str] | str]]]


class Quoted(csv.excel):
    quoting = csv.QUOTE_ALL


def read(folder: Path, text: str | bytes, delimiters: str = DELIMITERS, spaced: bool = False) -> Read:
    path = folder / "a.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    with open_csv(InputFile(path), delimiters, spaced) as table:
        return table.header, list(table.records)


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("spaced", [False, True])
def test_right_files_are_read_as_the_module_csv_reads_them(tmp_path: Path, delimiter: str, spaced: bool) -> None:
    for seed in seeds(40):
        random_ = random.Random(seed)
        dialect: type[csv.Dialect] = Quoted if seed % 2 else csv.excel
        rows = [
            ["".join(random_.choices(f'ab{delimiter}"\n\r é 7', k=random_.randrange(6))) for _ in range(3)]
            for _ in range(60)
        ]
        file = io.StringIO(newline="")
        csv.writer(file, dialect, delimiter=delimiter).writerows([["x", "y", "z"], *rows])
        text, skips = file.getvalue(), spaced and delimiter != "\t"
        expected = [
            *csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=skips, strict=True)
        ]
        header, records = read(tmp_path, text, spaced=spaced)
        assert [header, *(cells for _, cells in records)] == expected, seed


def test_random_quotes_lose_no_line_that_is_right_alone(tmp_path: Path) -> None:
    """Every line is in a record, or an error has its number; lines without quotes behind a bad one are read."""
    for seed in seeds(300):
        random_ = random.Random(seed)
        lines = ["".join(random_.choices('a,"', weights=(4, 2, 1), k=random_.randrange(1, 9))) for _ in range(30)]
        text = "x,y\n" + "\n".join([*lines, "p,q"]) + "\n"
        _, records = read(tmp_path, text)
        numbers = [number for number, _ in records]
        assert numbers == sorted(set(numbers)) and numbers[0] == 2
        for (number, cells), after in zip(records, [*numbers[1:], len(lines) + 3]):
            if isinstance(cells, str) and "must close its quotes" in cells:
                assert after == number + 1, (seed, number)
                continue
            together = "\n".join([*lines, "p,q"][number - 2 : after - 2]) + "\n"
            expected = list(csv.reader(io.StringIO(together), strict=True))
            assert [cells] == expected or (isinstance(cells, str) and len(expected) == 1 != len(expected[0]) - 1), seed


def test_a_quote_that_nobody_closes_costs_its_line_and_fills_no_memory(tmp_path: Path) -> None:
    header, records = read(tmp_path, 'a,b\n1,"2\n' + "3,4\n" * 50)
    assert header == ["a", "b"] and records[1:] == [(n, ["3", "4"]) for n in range(3, 53)]
    assert records[0][0] == 2 and "must close its quotes but the quote of column 2 is open at the end" in records[0][1]


def test_the_field_limit_of_the_process_is_of_no_account(tmp_path: Path) -> None:
    before = csv.field_size_limit(10)
    try:
        text = 'a,b\n"' + "x" * 200_000 + '",1\n"y,\n' + "z" * 50 + '",2\n'
        assert read(tmp_path, text)[1] == [(2, ["x" * 200_000, "1"]), (3, ["y,\n" + "z" * 50, "2"])]
    finally:
        csv.field_size_limit(before)
    (tmp_path / "b.csv").write_text("t,p\na," + "0" * 200_000 + "\n")
    assert read_table(tmp_path / "b.csv", ["t"], [["p"]]).numbers[0].tolist() == [[0.0]]


def test_spaces_before_cells(tmp_path: Path) -> None:
    text = 'a, b\n "x, y",  z w\n "x,\ny", 1\n5" disk , "2"\n'
    assert read(tmp_path, text, spaced=True) == (
        ["a", "b"],
        [(2, ["x, y", "z w"]), (3, ["x,\ny", "1"]), (5, ['5" disk ', "2"])],
    )
    before = csv.field_size_limit(1)
    try:
        assert read(tmp_path, text, spaced=True)[1][0] == (2, ["x, y", "z w"])
    finally:
        csv.field_size_limit(before)
    assert read(tmp_path, "a\tb\n x\t y\n", spaced=True)[1] == [(2, [" x", " y"])]


def test_every_caller_says_the_same_of_a_bad_record(tmp_path: Path) -> None:
    for text, message in (
        (
            'image,cluster\n1,a\n2,"b\n3,c\n',
            "line 3 must close its quotes but the quote of column 2 is open at the end",
        ),
        (
            "image,cluster\n1\n",
            "line 2 must have 2 cells, as the header has, but has 1: column 2, 'cluster', is",
        ),
        ('image,cluster\n"1"x,a\n', "line 2 must close its quotes but column 1, in line 2, has 'x' behind a closing"),
    ):
        path = tmp_path / "a.csv"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        for reads in (lambda p: read_table(p, ["image"]), read_columns, read_clusters, read_row_clusters):
            with pytest.raises(InputError, match=f"a.csv, {message}"):
                reads(str(path))
        assert any(f"a.csv, {message}" in row.error for row in csv_rows(InputFile(path)))


def test_bytes_that_are_no_utf8_are_errors_but_in_clusters_whose_images_are_names_of_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'image,cluster,\n"caf\xe9\n",Z\xfcrich,\n2,a,\n')
    for reads in (lambda p: read_table(p, ["image"]), read_columns):
        with pytest.raises(InputError, match=r"a\.csv, line 2, column 'image' must be UTF-8 but has the byte 0xE9"):
            reads(str(path))
    assert [bool(row.error) for row in csv_rows(InputFile(path))] == [True, False]
    assert read_clusters(str(path)) == {"caf\udce9": "Z\udcfcrich", "2": "a"}
    assert read_row_clusters(str(path)) == ["Z\udcfcrich", "a"]


def test_a_column_without_a_name_is_called_as_pandas_calls_it(tmp_path: Path) -> None:
    [(_, error)] = read(tmp_path, "a,\n1\n")[1]
    assert isinstance(error, str) and error.endswith("but has 1: column 2, 'Unnamed: 1', is missing")


def test_clusters_name_their_columns_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("image,cluster,image\n1,a,2\n")
    with pytest.raises(InputError, match=r"a\.csv must name each column once but has 'image' 2 times"):
        read_clusters(str(path))
    assert read_row_clusters(str(path)) == ["a"]
    path.write_text("image,cluster,cluster\n1,a,2\n")
    for reads in (read_clusters, read_row_clusters):
        with pytest.raises(InputError, match=r"a\.csv must name each column once but has 'cluster' 2 times"):
            reads(str(path))


def test_commas_in_the_header_of_a_tsv_file_are_part_of_names(tmp_path: Path) -> None:
    for name in ("a.tsv", "B.TSV"):
        path = tmp_path / name
        path.write_text("image\tcluster\tx, y\n1\ta\t2\n")
        assert read_clusters(str(path)) == {"1": "a"}
        assert [row.values for row in csv_rows(InputFile(path))] == [{"image": "1", "cluster": "a", "x, y": "2"}]
        path.write_text("image,cluster\n1,a\n")
        assert read_clusters(str(path)) == {"1": "a"}


def test_records_of_several_lines_are_split_by_the_module_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of this module would take three times as long."""
    monkeypatch.setattr(csv_records, "_record", None)
    lines = 'a,"x\ny"\n"1\n\n"",""",é\n"é\n","b\nc\n"\n'
    assert read(tmp_path, "p,q\n" + lines)[1] == [(2, ["a", "x\ny"]), (4, ['1\n\n","', "é"]), (7, ["é\n", "b\nc\n"])]


def test_tables_and_clusters_take_what_excel_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sep=;\r\nimage;cluster\r\n1;a\r\n\r\n2;b\r\n")
    assert read_table(path, ["cluster"]).texts == (["a", "b"],)
    assert read_clusters(str(path)) == {"1": "a", "2": "b"} and read_row_clusters(str(path)) == ["a", "b"]
    path.write_bytes("image,cluster\n1,a\n".encode("utf-16"))
    for reads in (lambda p: read_table(p, ["image"]), read_columns, read_clusters):
        with pytest.raises(InputError, match=r"a.csv must be UTF-8 but is UTF-16 .* save it as UTF-8"):
            reads(str(path))


def test_a_line_of_commas_is_no_header(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1 must name at most 100,000 columns but has 200,001"):
        read(tmp_path, "," * 200_000)


@pytest.mark.parametrize("line", ['x","y\n', '"x",y\n"x\n', 'x","y\n' * 9 + '"x"y"\n'])
def test_quotes_that_stay_open_are_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    path, split, work = tmp_path / "a.csv", csv_records._split, 0

    def counted(*arguments: Any) -> Any:
        nonlocal work
        work += 1
        return split(*arguments)

    pull = csv_records._Lines.pull

    def pulled(lines: Any) -> str:
        nonlocal work
        work += 1
        return pull(lines)

    monkeypatch.setattr(csv_records, "_split", counted)
    monkeypatch.setattr(csv_records._Lines, "pull", pulled)
    path.write_text("a,b\n" + line * 300 + "1,2\n")
    with open_csv(InputFile(path)) as table:
        found = list(table.records)
    lines = line.count("\n") * 300
    assert len(found) == lines + 1 and found[-1] == (lines + 2, ["1", "2"])
    assert work < 5 * lines
