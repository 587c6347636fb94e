"""docs/evaluation/judged.md: its examples print what it shows, its tables are those of the code."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from valor_gpu.evaluation.judged import LEVELS, RATINGS

PAGE = (Path(__file__).parents[3] / "docs/evaluation/judged.md").read_text()


def rows_of(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_examples_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```python") == 6
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/evaluation/judged.md", "exec"), names)
        assert printed.getvalue() == shown


def test_the_table_has_every_metric_with_what_it_sends() -> None:
    table = {name: row[1:] for row in rows_of("Metrics") for name in row[0].split(", ")}
    for name, rating in RATINGS.items():
        scale, of_row, *of_turn = table[name]
        assert scale.startswith(f"{rating.low} to {rating.high}") and ("lower" in scale) == rating.is_safety
        assert set(of_row.split(", ")) == rating.fields["qa"]
        sent = {"context" if one == "citations" else one for one in of_turn[0].split(", ")} if of_turn else set()
        assert sent - {""} == rating.fields.get("chat", frozenset())


def test_the_levels_are_those_of_the_code() -> None:
    assert {row[1]: float(row[0].split()[0]) for row in rows_of("Severities")} == LEVELS


def test_the_page_says_that_agreement_is_unmeasured() -> None:
    assert "own judge has not been measured" in PAGE
