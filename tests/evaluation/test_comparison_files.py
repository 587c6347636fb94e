"""Comparisons as Markdown and as csv."""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.cli import main
from valor_gpu.evaluation import compare_group, compare_runs
from valor_gpu.evaluation.results.comparison_files import comparison_markdown, group_markdown, joined_csv
from valor_gpu.store import Run, Store, StoredRow, StoredScore
from valor_gpu.web.comparison.background import ComparedRuns
from valor_gpu.web.comparison.rows import Asked, compared_rows

INFOS = [
    {"name": name, "kind": "text", "low": 0, "high": 1, "higher_is_better": True}
    for name in ("f1_score", "rougeL", "m|<i>")
]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Run]]:
    with Store(tmp_path / "s.sqlite") as store:
        yield [made(store, seed) for seed in range(3)]


def made(store: Store, seed: int) -> Run:
    draw = random.Random(seed)
    run = store.create_run(f"run {seed} | @me", {"evaluators": INFOS[: 3 - (seed == 1)], "data": {"hash": str(seed)}})
    run.add_rows([StoredRow(n, f"=k{(n * 7 + seed) % 40}", {}) for n in range(1, 31)])
    scores = [(n, info["name"]) for n in range(1, 31) for info in run.config["evaluators"] if draw.random() < 0.9]
    run.add_scores([StoredScore(n, str(name), 0, draw.random()) for n, name in scores])
    with run.lease():
        run.finish("finished", {})
    return run


def test_markdown_is_that_of_the_command(tmp_path: Path, runs: list[Run], capsys: Any) -> None:
    ids = [run.id for run in runs]
    file = tmp_path / "summary.md"
    store = str(tmp_path / "s.sqlite")
    assert main(["eval", "compare", ids[1], ids[0], "--store", store, "--markdown", str(file), "--quiet"]) == 0
    text = comparison_markdown(compare_runs(runs[1], runs[0]))
    assert file.read_text(encoding="utf-8").rstrip("\n") == text.rstrip("\n")
    assert group_markdown(compare_group([runs[1]], runs[0])) == text
    assert "| <code>mean_f1_score</code> |" in text and "p-values are adjusted over the metrics (Holm)" in text


def test_markdown_of_three_runs_has_the_numbers_of_the_group(runs: list[Run]) -> None:
    found = compare_group(runs)
    text = group_markdown(found)
    parts = text.split("### ")[1:]
    assert len(parts) == 2 and text.count("adjusted over the metrics of all runs (Holm)") == 2
    for part, each in zip(parts, found):
        for metric in each.metrics.values():
            assert metric.difference is not None and metric.p_adjusted is not None
            assert f"| {metric.difference:+.4g} |" in part and f"| {metric.p_adjusted:.4g} |" in part


def test_csv_has_every_joined_row_with_its_scores(runs: list[Run]) -> None:
    found = compare_group(runs, resamples=20)
    text = "".join(joined_csv(found, "ABC"))
    assert text.startswith("\ufeffkey,A.row,A.f1_score") and text.count("\n") == text.count("\r\n")
    lines = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    stored = [{row.key: row.number for row in run.rows()} for run in runs]
    values = [{(score.row, score.evaluator): score.value for score in run.scores()} for run in runs]
    assert {line["key"].removeprefix("'") for line in lines} == set(stored[0]) & (set(stored[1]) | set(stored[2]))
    for line in lines:
        key = line["key"]
        assert key.startswith("'="), "a spreadsheet would run it"
        for letter, numbers, scores in zip("ABC", stored, values):
            number = numbers.get(key[1:])
            assert line[f"{letter}.row"] == ("" if number is None else str(number))
            for info in INFOS:
                column = f"{letter}.{info['name']}"
                if column in line:
                    value = scores.get((number or 0, str(info["name"])))
                    assert line[column] == ("" if value is None else repr(value))
                    if letter != "A" and number is not None:
                        base = values[0].get((stored[0][key[1:]], str(info["name"])))
                        cell = line[f"{letter}.difference.{info['name']}"]
                        assert (cell == "") == (value is None or base is None)
                        assert not cell or math.isclose(float(cell), (value or 0) - (base or 0))
    assert "C.m|<i>" in lines[0] and "B.m|<i>" not in lines[0]


def test_a_row_whose_first_epoch_is_not_there_yet_stands_by_its_second(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        pair = []
        for skipped in ((1, 3), (4, 5)):
            run = store.create_run("half done", {"evaluators": INFOS, "data": {"hash": "h"}, "epochs": 2})
            there = [n for n in range(1, 7) if n not in skipped]
            keys = {n: f"k{(n + 1) // 2}" + ("" if n % 2 else "@2") for n in there}
            run.add_rows([StoredRow(n, keys[n], {}) for n in there])
            run.add_scores([StoredScore(n, "f1_score", 0, n / 10) for n in there])
            pair.append(run)
        found = compare_group([pair[1]], pair[0], resamples=20)
        text = "".join(joined_csv(found, "AB")).removeprefix("\ufeff")
        lines = [(line["key"], line["A.row"], line["B.row"]) for line in csv.DictReader(io.StringIO(text))]
        assert lines == [("k1@2", "2", "1"), ("k2@2", "4", "3"), ("k3", "5", "6")]
        compared = ComparedRuns(pair[0], [pair[1]], None)
        compared.work()
        shown = compared_rows(compared, Asked(kind="all", sort="number"), "AB")["lines"]
        assert [(each["number"], each["open"]) for each in shown] == [(2, None), (4, None), (5, None)]
