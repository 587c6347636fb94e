"""docs/judge.md: its examples print what it shows, its tables are those of the code."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from valor_gpu.judge import Limits, Status

PAGE = (Path(__file__).parents[2] / "docs" / "judge.md").read_text()


def test_examples_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    shown = ""
    for language, code in re.findall(r"```(python|text)\n(.*?)```", PAGE, re.DOTALL):
        if language == "text":
            assert shown == code
            shown = ""
            continue
        assert shown == ""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/judge.md", "exec"), names)
        shown = printed.getvalue()
    assert shown == ""


def first_column(heading: str) -> set[str]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_tables_are_complete() -> None:
    assert first_column("Limits") == {field.name for field in fields(Limits)}
    assert first_column("Failures") == {str(status) for status in Status} - {"ok"}
