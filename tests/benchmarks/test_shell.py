"""The benchmark from the shell gives numbers only to processes that print the same twelve numbers."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import machine, run, shell
from benchmarks.baselines import OURS
from benchmarks.summary import summary
from benchmarks.verify import REFERENCE
from testing.datasets import CASES
from testing.formats import Files, cached

NUMBERS = [f"0.{n:03}" for n in range(12)]
HEAD = {"case": "5k", "images": 5_000}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return cached(CASES["val2017"], 20, folder=tmp_path_factory.mktemp("bench_data"))


def test_command_and_script_print_the_same_numbers(files: Files) -> None:
    runs = {tool: shell.run_once(tool, files, 1) for tool in (OURS, shell.SCRIPT, REFERENCE)}
    numbers = [run["numbers"] for run in runs.values()]
    assert numbers[0] == numbers[1] == numbers[2] and len(numbers[0]) == 12
    assert all(run["seconds"] > 0 for run in runs.values())


def test_a_process_that_fails_says_why(files: Files) -> None:
    got = shell.run_once(OURS, files._replace(gt=files.gt.with_name("absent.json")), 1)
    assert got["failed"].startswith("exit code 2: valor-gpu detect: error: --gt must be a file but")


def inside(seconds: float = 1.0, **row: Any) -> dict[str, Any]:
    return {"status": "ok", "package": "p", "seconds": {"median": seconds}, "parity": {"map": 0.5}, **row}


def ran(seconds: float, numbers: list[str] = NUMBERS) -> dict[str, Any]:
    return {"seconds": seconds, "numbers": numbers, "load": 0.5}


def rows_of(runs: dict[str, list[dict[str, Any]]], **warm: dict[str, Any]) -> dict[str, dict[str, Any]]:
    known = {OURS: inside(0.1), "ultrafast-pycocotools": inside(0.4), REFERENCE: inside(9.0), **warm}
    return {row["tool"]: row for row in shell.rows(known, runs, HEAD)}


def test_only_processes_that_print_the_reference_numbers_get_a_time() -> None:
    wrong = [*NUMBERS[:-1], "0.999"]
    runs = {OURS: [ran(0.2), ran(0.3), ran(0.1)], shell.SCRIPT: [ran(0.4), ran(0.4, wrong)],
            "ultrafast-pycocotools": [ran(0.5)], REFERENCE: [ran(11.0)]}  # fmt: skip
    rows = rows_of(runs, hotcoco={"status": "mismatch", "reason": "differs"})
    assert {name: row["status"] for name, row in rows.items()} == {
        OURS: "ok", shell.SCRIPT: "mismatch", "ultrafast-pycocotools": "ok", "hotcoco": "mismatch",
        "faster-coco-eval": "missing", REFERENCE: "ok",
    }  # fmt: skip
    assert rows[OURS]["seconds"]["median"] == 0.2 and rows[OURS]["without_imports"] == {"median": 0.1}
    assert "seconds" not in rows[shell.SCRIPT]
    assert rows_of({OURS: [ran(0.1)]})[OURS]["status"] == "unverified"
    assert rows_of({OURS: [{"failed": "boom"}], REFERENCE: [ran(1.0)]})[OURS]["reason"] == "boom"


def test_the_report_shows_both_figures() -> None:
    runs = {OURS: [ran(0.2)], "ultrafast-pycocotools": [ran(0.5)], REFERENCE: [ran(11.0)]}
    found = list(rows_of(runs).values())
    result = {"kind": "shell", **machine.describe(["numpy"], "abc"), "repeats": 5, "slow_repeats": 1, "threads": 2,
              "rows": found}  # fmt: skip
    text = shell.report([result])
    assert "| `valor-gpu detect` | **0.200 s**; 0.100 s |" in text
    assert "| ultrafast-pycocotools | 0.500 s (2.5x); 0.400 s |" in text
    assert "| hotcoco | missing |" in text and "the same twelve numbers" in text
    line = summary({"shell": [result]}).splitlines()[-1]
    assert line.startswith(
        "| COCO AP from the shell, imports included, 5,000 images | **0.200 s**, 0.100 s without | ultrafast"
    )


def test_command_line() -> None:
    assert run.parse(["shell", "--case", "60k"]).case == "60k"
