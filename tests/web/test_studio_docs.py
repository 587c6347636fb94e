"""docs/studio.md: its examples print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/studio.md").read_text()


@pytest.mark.parametrize("name", ["people_agreement", "edit_run", "label_queues"])
def test_examples_print_what_the_page_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (block, said), *more = re.findall(rf"```python\n([^`]*{name}[^`]*)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert not more
    exec(compile(block, "docs/studio.md", "exec"), {})
    assert capsys.readouterr().out == said
