"""The benchmark of Studio's pages gives numbers only to pages that show the rows that they must."""

from __future__ import annotations

import math

import pytest

from benchmarks import report, run, studio
from benchmarks.studio import Shown


@pytest.mark.slow
def test_pages_of_small_stores_show_what_they_must() -> None:
    arguments = run.parse(["studio", "--quick", "--repeats", "1"])
    rows = studio.benchmark(arguments)["rows"]
    assert [row["status"] for row in rows] == ["ok"] * 18
    assert all(0 < row["seconds"]["median"] < math.inf for row in rows)


@pytest.mark.parametrize(("status", "text"), [(200, '<tr id="r8">'), (500, '<tr id="r7">')])
def test_a_wrong_page_gets_no_number(status: int, text: str) -> None:
    shown = Shown("first page", "/runs/x", [7])
    right = (0.01, 200, '<tr id="r7">')
    good = studio._row("rows", 10, shown, [right, right])
    bad = studio._row("rows", 10, shown, [right, (0.01, status, text)])
    assert good["status"] == "ok"
    assert bad["status"] == "mismatch" and "seconds" not in bad
    result = {"rows": [good, bad], "repeats": 1, "date": "2026-11-22T", "commit": "abc", "machine": {}, "versions": {}}
    result["machine"] = {"cpus": 2, "processor": "p", "python": "3"}
    result["versions"] = {"starlette": "1", "uvicorn": "1"}
    lines = report.TEXTS["studio"]([result]).splitlines()
    assert lines[2] == "| 10 rows: first page | 10 | 10 | 10 |"
    assert lines[3] == "| 10 rows: first page | mismatch |  |  |"
