"""Numbers of rows: as many as reading gives, whatever is wrong with a file."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import seeds
from valor_gpu.evaluation.config import RunConfig
from valor_gpu.evaluation.engine.plan import make_plan, total_of
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.evaluation.results.config_difference import config_differences
from valor_gpu.evaluation.rows import data as data_module
from valor_gpu.evaluation.rows import row_counts
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.store import Store

CSV = [
    "a,b\n1,2\n3,4",
    "a,b\r\n1,2\r\n\r\n\r\n3,4\r\n",
    'a,b\n"x\ny",2\n\n"p""q",3\n',
    'a,b\n1,2\n5" disk,4\n7" disk,8\n',
    'a,b\n1,2\n"open,4\n5,6\n7,8',
    "a,b\n1,2,3\n4\n5,6\n\n",
    "\ufeffa,b\n1,2\n",
    "sep=;\na;b\n1;2\n3;4",
    "a,b\r1,2\r3,4\r",
]
JSONL = [
    '{"a": 1}\n{"a": 2}',
    '\ufeff{"a": 1}\r\n\r\n  \n\t{"a": 2}\r\n\n',
    '{"a": 1}\n[1]\nnonsense\n{"a": Infinity}\n',
    '{"a": 1}\n\x0b\n\xa0\n',
    '{"a": "' + "x" * (3 << 20) + '"}\n' + " " * (2 << 20) + '\n{"a": 1}',
]


@pytest.mark.parametrize(("name", "text"), [*(("a.csv", each) for each in CSV), *(("a.jsonl", each) for each in JSONL)])
@pytest.mark.parametrize("packed", [False, True])
def test_counts_are_those_of_reading(tmp_path: Path, name: str, text: str, packed: bool) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    rows = sum(1 for _ in open_data(str(path)))
    assert open_data(str(path)).count_rows() == rows
    source = open_data(str(path))
    assert [source.count_rows(most) for most in (1, rows, rows + 1, None, 1)] == [min(1, rows), rows, rows, rows, 1]


@pytest.mark.parametrize("seed", range(30))
def test_counts_of_odd_files(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    csv = tmp_path / "a.csv"
    csv.write_bytes(("a,b\n1,2\n" + "".join(rng.choices('a",\n\r ', k=200))).encode())
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(('{"a": 1}\n' + "".join(rng.choices('{}" \n\r\t', k=200))).encode())
    for path in (csv, lines):
        assert open_data(str(path)).count_rows() == sum(1 for _ in open_data(str(path)))


@pytest.mark.parametrize("seed", seeds(60))
def test_lines_of_csv_without_quotes_are_counted_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(row_counts, "_PIECE", rng.randint(3, 9))  # a byte order mark at least
    heads = ["a,b", "\ufeffa,b", "\ufeff\r\na,b", "sep=;\na;b", "\n\r\nsep=;\r\n\r\na;b", "\ufeffsep=,\ra,b"]
    head = rng.choice(heads)
    text = f"{head}\n1{head[-2]}2\n" + "".join(rng.choices("a,\u2028\x0b\n\r ;", k=rng.randint(0, 60)))
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode() + rng.choice([b"", b'"', b"\xff", b"\n"]))
    rows = sum(1 for _ in open_data(str(path)))
    assert open_data(str(path)).count_rows() == rows
    most = rng.randint(1, rows + 1)
    assert open_data(str(path)).count_rows(most) == min(most, rows)


def test_a_parquet_file_says_its_number(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": list(range(2345))}), tmp_path / "a.parquet")
    source = open_data(str(tmp_path / "a.parquet"))
    assert (source.count_rows(), source.count_rows(10), sum(1 for _ in source)) == (2345, 10, 2345)


def plan_of(tmp_path: Path, **given: Any) -> Any:
    with Store(tmp_path / "s.sqlite") as store:
        return make_plan(Settings(metrics_list=["length"], **given), store)


def test_a_run_knows_its_rows_before_the_first(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("question,answer\n" + "q,a\n" * 7)
    rows = [{"question": "q", "answer": "a"}] * 7
    assert [plan_of(tmp_path, data=data).total for data in (str(file), rows)] == [7, 7]
    assert plan_of(tmp_path, data=str(file)).config.data["rows"] == 7
    limited = plan_of(tmp_path, data=str(file), limit=3)
    assert (limited.total, limited.config.data["rows"]) == (3, None)  # the rest was not counted
    assert plan_of(tmp_path, data=str(file), limit=30).total == 7
    epochs = {"epochs": 2, "target": lambda question: "a"}
    assert plan_of(tmp_path, data=str(file), limit=3, **epochs).total == 6
    config = RunConfig.from_dict({**limited.config.to_dict()})
    assert (total_of(config), total_of(config, open_data(str(file)))) == (None, 3)


def test_a_data_set_of_the_store_is_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("question,answer\n" + "q,a\n" * 7)
    with Store(tmp_path / "s.sqlite") as store:
        store.datasets.save(open_data(str(file)).hash, "rows.csv", ["question", "answer"], 7, str(file))
        monkeypatch.setattr(data_module, "count_file_rows", None)
        plan = make_plan(Settings(metrics_list=["length"], data=str(file), limit=2), store)
    assert (plan.total, plan.config.data["rows"]) == (2, 7)


def test_runs_of_a_grid_read_their_data_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from valor_gpu import evaluate

    counted = []
    plain = data_module.count_file_rows
    monkeypatch.setattr(data_module, "count_file_rows", lambda *given: counted.append(given) or plain(*given))
    file = tmp_path / "rows.csv"
    file.write_text("question,answer\n" + "q,a\n" * 3)
    found = evaluate(
        data=str(file), target=lambda question, n: f"{n}", params_grid={"n": [1, 2, 3]}, metrics_list=["length"],
        store=str(tmp_path / "s.sqlite"),
    )  # fmt: skip
    assert len(found) == 3 and len(counted) == 1
    assert [each.summary["rows"]["n"] for each in found] == [3, 3, 3]


def test_runs_that_did_not_count_do_not_differ_by_it() -> None:
    first, second = {"data": {"rows": None, "hash": "a"}}, {"data": {"rows": 7, "hash": "a"}}
    assert config_differences(first, second) == []
    assert [each["name"] for each in config_differences(second, {"data": {"rows": 8, "hash": "b"}})] == [
        "data.hash",
        "data.rows",
    ]
