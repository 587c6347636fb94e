"""docs/evaluation/results.md: its examples print what it shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs/evaluation/results.md").read_text()


def test_examples_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```text") == PAGE.count("```python") == 6
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/evaluation/results.md", "exec"), names)
        assert printed.getvalue() == shown
    names["store"].close()
    names["folder"].cleanup()
