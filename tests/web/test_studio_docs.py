"""docs/studio.md: its example of agreement prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/studio.md").read_text()


def test_the_example_of_agreement_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (block, said), *more = re.findall(r"```python\n([^`]*people_agreement[^`]*)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert not more
    exec(compile(block, "docs/studio.md", "exec"), {})
    assert capsys.readouterr().out == said
