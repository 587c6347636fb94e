"""docs/evaluation/index.md and report.md: their examples, run in order, print what is shown."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.cli import main
from valor_gpu.evaluation.report import bounds

DOCS = Path(__file__).parents[2] / "docs" / "evaluation"


def masked(text: str) -> str:
    """Without what another run has another of: ids and times."""
    return re.sub(r"\d+\.\d s\n", "0.0 s\n", re.sub(r"\b[0-9a-f]{12}\b", "0" * 12, text))


@pytest.mark.parametrize("name", ["index.md", "report.md"])
def test_examples_print_what_the_page_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", (DOCS / name).read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, Any] = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), names)
        assert masked(printed.getvalue()) == masked(shown)


def test_commands_of_the_guide_have_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    lines = re.findall(r"^valor-gpu (.*)$", (DOCS / "index.md").read_text("utf-8"), re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line)
        with pytest.raises(SystemExit, match="0"):
            main([*words[:2], "--help"])
        help_text = capsys.readouterr().out
        assert [word for word in words if word.startswith("--") and word not in help_text] == []


def test_the_page_names_the_bounds_of_the_report() -> None:
    text = (DOCS / "report.md").read_text("utf-8")
    assert f"at most {bounds.PAGE_BYTES // 1_000_000} MB" in text and f"{bounds.ROWS}: the {bounds.WORST} worst" in text
    assert (
        f"{bounds.CELL:,} characters, {bounds.CLIP} in tables" in text
        and f"more than {bounds.ROW_BYTES // 1_000_000} MB" in text
    )
    assert (
        f"| {bounds.FIELDS}; {bounds.TURNS} |" in text and f"{bounds.EVALUATORS} figures; {bounds.COLUMNS} with" in text
    )
    assert f"{bounds.SLICE_COLUMNS} columns of {bounds.SLICES} values and {bounds.SLICE_EVALUATORS} evaluators" in text
    assert f"{bounds.FAILURES} of rows, {bounds.FAILURES} of scores" in text
