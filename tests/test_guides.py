"""Every example of the guides runs and gives the output that is shown below it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDES = ("docs/torchmetrics.md", "docs/guides/probabilities.md")
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("guide", GUIDES)
def test_examples_give_what_is_shown(guide: str) -> None:
    text = (ROOT / guide).read_text()
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python") > 0
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, guide, "exec"), {})
        assert printed.getvalue() == shown
