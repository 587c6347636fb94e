"""docs/evaluation/run.md: its examples run, its words are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation import evaluate
from valor_gpu.evaluation.engine.metrics import DEFAULTS

PAGE = (Path(__file__).parents[2] / "docs/evaluation/run.md").read_text()


def test_examples_run(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block.replace("/tmp/", f"{tmp_path}/"), "docs/evaluation/run.md", "exec"), names)
    assert names["more"].run_id == names["result"].run_id


@pytest.mark.parametrize("name", [name for names in DEFAULTS.values() for name in names])
def test_defaults_are_named(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_every_argument_is_explained_in_its_docstring() -> None:
    from valor_gpu.evaluation.config import ARGUMENTS

    explained = re.findall(r"^        (\w+): ", str(evaluate.__doc__), re.MULTILINE)
    assert set(ARGUMENTS) <= set(explained)
