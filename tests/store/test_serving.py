"""Which Studio serves a store, as readers of the store see it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.store import Store, leases, serving
from valor_gpu.store.serving import announced, run_address, studio_address


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with Store(tmp_path / "runs [1].sqlite") as store:
        yield store.path


def write(store: Path, name: str = "x", **changed: Any) -> Path:
    """A file as of a server that is this process, but for what is changed."""
    own = {
        "pid": os.getpid(),
        "started": leases.start_time(os.getpid()),
        "machine": leases.machine(),
        "port": 9,
        "since": 1.0,
    }
    path = store.with_name(f"{store.name}.{name}.studio")
    path.write_text(json.dumps({**own, **changed}))
    return path


def ended_process() -> int:
    """The number of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_a_store_is_served_while_its_server_lives(path: Path) -> None:
    assert studio_address(path) is None
    with announced(path, 8765) as file:
        assert studio_address(path) == "http://127.0.0.1:8765" and file.parent == path.parent
        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text()).keys() == {"pid", "started", "machine", "port", "since"}
        assert studio_address(path.with_name("other.sqlite")) is None
    assert studio_address(path) is None and not file.exists()


def test_the_newest_of_several_is_taken_and_then_the_one_that_is_left(path: Path) -> None:
    with ExitStack() as older:
        older.enter_context(announced(path, 1001))
        with announced(path, 1002):
            assert studio_address(path) == "http://127.0.0.1:1002"
            older.close()
            assert studio_address(path) == "http://127.0.0.1:1002"
        older.enter_context(announced(path, 1003))
        assert studio_address(path) == "http://127.0.0.1:1003"


@pytest.mark.parametrize("newest", [1, 2, 3])
def test_the_newest_is_told_by_its_begin_alone(path: Path, newest: int) -> None:
    for port in (1, 2, 3):
        write(path, f"{port}", port=port, since=float((port - newest) % 3 == 0))
    assert studio_address(path) == f"http://127.0.0.1:{newest}"


def test_a_link_to_the_store_leads_to_the_same_server(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    with announced(link, 1001):
        assert studio_address(path) == studio_address(link) == "http://127.0.0.1:1001"


@pytest.mark.parametrize(
    "changed",
    [
        {"started": "1"},
        {"machine": "another"},
        {"port": 0},
        {"port": 70000},
        {"port": "x"},
        {"pid": 0},
        {"pid": None},
        {"since": []},
    ],
)  # fmt: skip
def test_a_file_of_no_server_of_this_machine_counts_for_nothing(path: Path, changed: dict[str, Any]) -> None:
    write(path, **changed)
    assert studio_address(path) is None


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 4000, '{"pid": 1e999}', "\0\xff"])
def test_a_damaged_file_counts_for_nothing(path: Path, text: str) -> None:
    path.with_name(f"{path.name}.x.studio").write_text(text, encoding="latin-1")
    path.with_name(f"{path.name}.folder.studio").mkdir()
    assert studio_address(path) is None


def test_a_server_that_was_killed_is_known_as_gone_and_the_next_clears_its_file(path: Path) -> None:
    dead, other = write(path, "dead", pid=ended_process()), write(path, "other", machine="another")
    assert studio_address(path) is None
    with announced(path, 1001):
        assert not dead.exists() and other.exists()


def test_without_start_times_the_port_must_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "start_time", lambda pid: "")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        write(path, port=port)
        assert studio_address(path) == f"http://127.0.0.1:{port}"
    assert studio_address(path) is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no user ids")
def test_a_file_of_another_user_counts_for_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path)
    assert studio_address(path) is not None
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert studio_address(path) is None


def test_a_forked_process_leaves_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with announced(path, 1001) as file:
        monkeypatch.setattr(os, "getpid", lambda: 1)
    assert file.exists()


def test_the_address_of_a_run_goes_before_that_of_mlflow(path: Path) -> None:
    with Store(path) as store:
        run = store.create_run("capitals", {})
        result = EvaluationResult(store, run)
        assert result.studio_url is None and run_address(run) is None
        run.finish("finished", {"tracking": {"uri": "http://mlflow", "url": "http://mlflow/#/run"}})
        assert result.studio_url == "http://mlflow/#/run"
        with announced(path, 8765):
            assert result.studio_url == run_address(run) == f"http://127.0.0.1:8765/runs/{run.id}"
        assert result.studio_url == "http://mlflow/#/run"
