"""examples/evaluate_texts.py: real answers, and a rule in the place of the judge."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "evaluate_texts.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def rows(example: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in example["DATA"].read_text("utf-8").splitlines()]


def test_the_rule_agrees_with_the_published_verdicts(example: dict[str, Any]) -> None:
    found = rows(example)
    assert len(found) == 22
    for row in found:
        for model in ("6b", "175b"):
            same = example["final_number"](row[f"answer_{model}"]) == example["final_number"](row["ground_truth"])
            assert same == row[f"correct_{model}"], row["id"]
    assert [sum(row[f"correct_{model}"] for row in found) for model in ("6b", "175b")] == [5, 10]
    assert not any("<<" in str(row) for row in found)


def test_equations_are_checked(example: dict[str, Any]) -> None:
    check = example["right_equations"]
    assert check("16 - 3 - 4 = 9, 9 * 2 = $18") == 1  # the end of a longer sum is no equation of two numbers
    assert check("2 + 2 = 5 and 2+2=4") == 0.5
    assert check("80,000+50,000=$130,000") == check("no sum") == check("$204 + $160 + $330 = $694") == 1
    assert check("1 / 0 = 0") == 0
    wrong = [
        (row["id"], model) for row in rows(example) for model in ("6b", "175b") if check(row[f"answer_{model}"]) < 1
    ]
    assert wrong == [("gsm8k-14", "6b")]  # 5/3 = 1.6


def test_the_example_runs_and_shows_what_the_guide_says(
    example: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example["main"](tmp_path / "out")
    printed = capsys.readouterr().out
    lines = {line.split()[0]: " ".join(line.split()) for line in printed.splitlines() if line.split()}
    assert "22 rows\n" in printed and "22 shared rows, 22 differ" in printed
    assert "3.045 2.136 0.9091" in lines["mean_gpt_similarity"] and lines["mean_gpt_similarity"].endswith("not shown")
    assert "pass rate 45.5%" in printed
    files = sorted({path.name.removesuffix("-shm").removesuffix("-wal") for path in (tmp_path / "out").iterdir()})
    assert files == ["eval_results.jsonl", "metrics.json", "report.html", "rows.csv", "run.json", "store.sqlite"]
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "RULE of the final number, no language model" in page and "Difference from" in page
    assert (tmp_path / "out" / "rows.csv").read_bytes().count(b"\r\n") == 23
