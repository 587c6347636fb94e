"""docs/judged.md: its examples print what it shows, and it names every metric and prompt folder."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from valor_gpu.text.judged import METRICS

PAGE = (Path(__file__).parents[3] / "docs" / "judged.md").read_text()


def test_examples_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```python") == 4
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/judged.md", "exec"), names)
        assert printed.getvalue() == shown


def test_every_metric_is_in_the_table() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
    assert set(METRICS) <= {name.strip() for row in rows for name in row.split(",")}
