"""Fixtures of runs in processes; modules with a store of their own have a ``path`` of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judge.server import ChatServer
from tests.web.work import KEY, ROWS, Pace


@pytest.fixture
def pace() -> Pace:
    return Pace()


@pytest.fixture
def server(pace: Pace) -> Iterator[ChatServer]:
    with ChatServer(pace) as found:
        yield found


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STUDIO_TEST_KEY", KEY)
    lines = ["question,answer", *(f"What is {n}?,It is {n}." for n in range(ROWS))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "s.sqlite"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait for trials on a slow machine, too."""
    monkeypatch.setattr("valor_gpu.web.errands.PATIENCE", 30.0)
