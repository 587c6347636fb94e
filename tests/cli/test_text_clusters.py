"""``valor-gpu text --cluster-column``: rows of a cluster are drawn as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.cli import main
from valor_gpu.stats import Bootstrap
from valor_gpu.text import TokenF1

ROWS = [
    {"answer": f"one {'two' if row % 3 else 'six'} {row}", "truth": f"one two {row % 5}", "question": f"q{row // 2}"}
    for row in range(20)
]


def table(folder: Path, rows: list[dict[str, Any]]) -> str:
    path = folder / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return str(path)


def arguments(path: str, *more: str) -> list[str]:
    columns = ["--prediction-column", "answer", "--reference-column", "truth"]
    return ["text", "--predictions", path, *columns, "--metrics", "f1_score", *more]


def test_clusters_are_drawn_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    more = ["--intervals", "100", "--cluster-column", "question", "--json", str(out), "--quiet"]
    assert main(arguments(table(tmp_path, ROWS), *more)) == 0
    metric = TokenF1()
    metric.update([row["answer"] for row in ROWS], [row["truth"] for row in ROWS])
    expected = metric.result(intervals=Bootstrap(100, clusters=[row["question"] for row in ROWS])).intervals["f1"]
    found = json.loads(out.read_text())
    name = next(iter(found["intervals"]))
    assert found["interval_choices"]["clusters"] == 10
    assert (found["intervals"][name]["low"], found["intervals"][name]["high"]) == (expected.low, expected.high)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--cluster-column", "question"], "--cluster-column needs --intervals N but that is missing"),
        (
            ["--intervals", "9", "--cluster-column", "topic"],
            "answers.jsonl but 'topic' is none of answer, truth, question",
        ),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main(arguments(table(tmp_path, ROWS), *more)) == 2
    assert message in capsys.readouterr().err


def test_a_row_without_a_cluster_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*ROWS[:4], {**ROWS[4], "question": None}]
    assert main(arguments(table(tmp_path, rows), "--intervals", "9", "--cluster-column", "question")) == 2
    assert "--cluster-column must have a cluster for every row but row 5 has none" in capsys.readouterr().err
