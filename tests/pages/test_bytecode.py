"""Compiled templates beside their sources: taken when they belong to the source, never in the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest

from valor_gpu.pages.bytecode import TemplateBytecode


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "a.html").write_text("<b>{{ x }}</b>")
    return tmp_path


def _rendered(folder: Path) -> tuple[str, bool]:
    """A template of a new environment, and whether it was compiled."""
    compiled: list[str] = []

    class Environment(jinja2.Environment):
        def compile(self, *arguments: Any, **named: Any) -> Any:
            compiled.append(str(arguments[0]))
            return super().compile(*arguments, **named)

    cache = TemplateBytecode(folder, "test")
    environment = Environment(autoescape=True, loader=jinja2.FileSystemLoader(folder), bytecode_cache=cache)
    return environment.get_template("a.html").render(x="<"), bool(compiled)


def test_a_template_is_compiled_once(folder: Path) -> None:
    assert _rendered(folder) == ("<b>&lt;</b>", True)
    (kept,) = (folder / "__pycache__").iterdir()
    assert kept.name.startswith("a.html-test-jinja") and kept.suffix == ".pyc"
    assert _rendered(folder) == ("<b>&lt;</b>", False)


def test_another_source_is_compiled_again(folder: Path) -> None:
    _rendered(folder)
    (folder / "a.html").write_text("<i>{{ x }}</i>")
    assert _rendered(folder) == ("<i>&lt;</i>", True)
    assert _rendered(folder) == ("<i>&lt;</i>", False)


@pytest.mark.parametrize("broken", [b"", b"nonsense", None])
def test_what_cannot_be_read_is_compiled(folder: Path, broken: bytes | None) -> None:
    _rendered(folder)
    (kept,) = (folder / "__pycache__").iterdir()
    kept.write_bytes(kept.read_bytes()[:-20] if broken is None else broken)
    assert _rendered(folder) == ("<b>&lt;</b>", True)


def test_nothing_is_written_where_python_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert _rendered(folder) == ("<b>&lt;</b>", True)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / "__pycache__").write_text("a file where the folder should be")
    assert _rendered(folder) == ("<b>&lt;</b>", True)
    assert sorted(path.name for path in folder.iterdir()) == ["__pycache__", "a.html"]
