"""Every command of ``valor-gpu eval`` and ``store``, evaluate and resume over a store that can be read alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from valor_gpu import evaluate
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.evaluation.resume import resume_run
from valor_gpu.store import Store, StoreError

REFUSED = "cannot be written: the file or its folder is read-only"
ROWS = [{"response": "Paris", "ground_truth": "Paris"}, {"response": "Rom", "ground_truth": "Rome"}]
READS = (
    ["list"],
    ["show", "first"],
    ["show", "first", "--failures"],
    ["compare", "first", "stopped"],
    ["export", "first", "--jsonl", "-"],
    ["evaluators", "list"],
)
WRITES = (
    ["run", "--data", "DATA", "--metrics", "exact_match"],
    ["resume", "stopped"],
    ["rescore", "first", "--metrics", "exact_match"],
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a finished run and one that stopped, which this process may not write to."""
    made, folder = tmp_path / "made.sqlite", tmp_path / "store"
    for name in ("first", "stopped"):
        evaluate(data=ROWS, metrics_list=["exact_match"], store=made, evaluation_name=name)
    with Store(made) as store:
        with store._database.write() as connection:
            connection.execute("UPDATE runs SET state = 'stopped' WHERE name = 'stopped'")
            connection.execute("DELETE FROM scores WHERE run = 2 AND row = 2")
        store._database.checkpoint()
    folder.mkdir()
    (folder / "s.sqlite").write_bytes(made.read_bytes())
    monkeypatch.setattr("valor_gpu.store.database._may_write", lambda path: False)
    return folder / "s.sqlite"


def nothing_is_made(path: Path, work: Callable[[], Any]) -> Any:
    before = path.read_bytes()
    found = work()
    assert path.read_bytes() == before and [each.name for each in path.parent.iterdir()] == ["s.sqlite"]
    return found


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_commands_that_read_do(path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert nothing_is_made(path, lambda: main(["eval", *command, "--store", str(path)])) == OK
    assert not capsys.readouterr().err


@pytest.mark.parametrize("command", WRITES, ids=" ".join)
def test_commands_that_write_say_why_they_cannot(
    path: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.jsonl").write_text('{"response": "a", "ground_truth": "a"}\n')
    given = [str(tmp_path / "data.jsonl") if each == "DATA" else each for each in command]
    assert nothing_is_made(path, lambda: main(["eval", *given, "--store", str(path)])) == FAILURE
    assert REFUSED in capsys.readouterr().err


def test_check_and_export_read_it(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nothing_is_made(path, lambda: main(["store", "check", str(path)])) == OK
    assert nothing_is_made(path, lambda: main(["store", "export", str(path), "/proc/new.sqlite"])) == BAD_INPUT
    said = capsys.readouterr().err
    assert "NEW /proc/new.sqlite cannot be written: " in said and "nothing was made, STORE is as it was" in said


def test_an_export_of_it_can_be_written(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    path.chmod(0o444)
    assert nothing_is_made(path, lambda: main(["store", "export", str(path), str(tmp_path / "new.sqlite")])) == OK
    with Store(tmp_path / "new.sqlite") as store:
        assert [run.name for run in store.runs()] == ["stopped", "first"]
        store.run("stopped").delete()


def test_evaluate_and_resume_say_it_before_anything_is_asked(path: Path) -> None:
    asked = []

    def target(question: str) -> str:
        asked.append(question)
        return "Paris"

    def works() -> None:
        with pytest.raises(StoreError, match=REFUSED):
            data = [{"question": "?", "ground_truth": "a"}]
            evaluate(data=data, target=target, metrics_list=["exact_match"], store=path)
        with pytest.raises(StoreError, match=REFUSED):
            resume_run(path, "stopped")

    nothing_is_made(path, works)
    assert not asked
