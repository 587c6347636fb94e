"""``valor-gpu store check`` and ``store export``: text, JSON and exit status."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.store.full_store import fill, records
from tests.test_imports import loaded_by
from valor_gpu.cli import BAD_INPUT, main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fill(tmp_path / "s.sqlite", 20)
    return tmp_path / "s.sqlite"


def damage(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE rows SET inputs = '{' WHERE run = 1 AND number < 15")
    connection.execute("UPDATE scores SET status = '\x1b[31m' WHERE run = 2 AND row = 3 AND evaluator = 'f1'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def test_whole(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "3 runs\n" in said and "  rows: 43 whole, 0 lost\n" in said and said.endswith("\nwhole\n")
    assert main(["store", "export", str(path), str(tmp_path / "new.sqlite")]) == 0
    assert capsys.readouterr().out.endswith(f"wrote {tmp_path / 'new.sqlite'}: all is saved\n")
    assert records(tmp_path / "new.sqlite") == records(path)


def test_damaged(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(path)
    assert main(["store", "check", str(path), "--json", str(tmp_path / "found.json")]) == 1
    said = capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["command"], found["store"], found["is_whole"]) == ("store check", str(path), False)
    assert found["lost"]["rows"] == 14 and found["whole"]["rows"] == 29
    [run] = [each for each in found["runs"] if each["name"] == "first"]
    assert run["lost"]["rows"] == 14 and run["whole"]["rows"] == 7
    first = found["damages"][0]
    assert (first["table"], first["run"], first["row"], first["is_lost"]) == ("rows", run["id"], 1, True)
    assert f"row 1 of run {run['id']}: inputs: it is no JSON\n" in said and "\x1b" not in said
    assert f"damaged: valor-gpu store export {path} NEW saves the rest into a new store" in said
    assert main(["store", "export", str(path), str(tmp_path / "new.sqlite"), "--json", "-"]) == 1
    saved = json.loads(capsys.readouterr().out)
    assert saved["command"] == "store export" and saved["lost"] == found["lost"]
    assert len(records(tmp_path / "new.sqlite")["rows"]) == 29


def test_a_long_list_says_how_much_it_leaves_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE rows SET inputs = '{' WHERE run < 3")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert main(["store", "check", str(path)]) == 1
    said = capsys.readouterr().out
    assert "more places: --json FILE lists all\n" in said and len(said.splitlines()) < 130


def test_what_cannot_be_read_or_written(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there.sqlite").write_bytes(b"mine")
    (tmp_path / "gone.sqlite").write_bytes(bytes(4096) + path.read_bytes()[20 * 4096 :])
    new = str(tmp_path / "new.sqlite")
    for arguments, said in (
        (["check", str(tmp_path / "nowhere")], "STORE must be the file of a store but"),
        (["check", str(tmp_path / "gone.sqlite")], "what is left is `.recover` of SQLite's own program"),
        (["export", str(tmp_path / "gone.sqlite"), new], "what is left is `.recover` of SQLite's own program"),
        (["export", str(path), str(tmp_path / "there.sqlite")], "NEW must not exist but"),
        (["export", str(path), new, "--json", str(path)], "--json"),
    ):
        before = sorted(tmp_path.iterdir())
        assert main(["store", *arguments]) == BAD_INPUT
        captured = capsys.readouterr()
        assert said in captured.err and not captured.out and sorted(tmp_path.iterdir()) == before


def test_it_loads_no_torch(path: Path) -> None:
    loaded = loaded_by(f"from valor_gpu.cli import main; assert main(['store', 'check', {str(path)!r}]) == 0")
    assert "torch" not in loaded and "starlette" not in loaded
