"""Templates: all of them are read before the first page asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from valor_gpu.web import render


def test_all_templates_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_ENVIRONMENT", render._environment())
    render.prepare()
    cache = render._ENVIRONMENT.cache
    assert cache is not None
    read = {name for _, name in cache}
    folder = Path(render.__file__).parent / "templates"
    assert read == {str(path.relative_to(folder)) for path in folder.rglob("*.html")}
