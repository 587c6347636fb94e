"""docs/evaluation/targets.md: its examples print what it shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets import open_target
from valor_gpu.evaluation.targets.http import KEYS

PAGE = (Path(__file__).parents[3] / "docs/evaluation/targets.md").read_text()


def test_examples_print_what_the_page_shows() -> None:
    pytest.importorskip("yaml")
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```text") >= 1
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/evaluation/targets.md", "exec"), names)
        assert printed.getvalue() == shown


def test_the_endpoint_of_the_page_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("BOT_CODE", "a-code-1234")
    monkeypatch.setenv("BOT_TOKEN", "a-token-1234")
    names: dict[str, Any] = {}
    exec(next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if '"url"' in code), names)
    made = open_target(names["target"], secrets=Secrets())
    assert made.requires == {"question"} and made.outputs == ("answer", "context")
    table = PAGE.split("## Endpoints")[1].split("\n## ")[0]
    for key in KEYS:
        assert f"`{key}`" in table


def test_the_model_of_the_page_is_one() -> None:
    pytest.importorskip("jinja2")
    names: dict[str, Any] = {}
    exec(next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if '"model"' in code), names)
    made = open_target(names["target"], secrets=Secrets())
    assert made.requires == {"question", "context"} and made.outputs == ("answer",)
