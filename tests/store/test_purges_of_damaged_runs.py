"""A damaged run can be got rid of: the index of words is made anew without it, or nothing is changed."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.store.test_damaged_lists import change
from valor_gpu.errors import DamageError, StoreError
from valor_gpu.store import Store, StoredRow, search

NAMES = ("left", "gone", "other", "older")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with runs of which all but one have the words of a row in the index."""
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for name in (*NAMES, "draft"):
            run = store.create_run(name, {})
            run.add_rows([StoredRow(n, f"k{n}", {"question": f"{name} words {n} \u6771\u4eac"}) for n in (1, 2, 3)])
            if name != "draft":
                run.finish("finished", {})
    connection = sqlite3.connect(path)  # one that a version without copies of texts has indexed
    connection.execute("UPDATE runs SET indexed = 1, checksum = NULL WHERE name = 'older'")
    connection.commit()
    connection.close()
    return path


def marked(path: Path) -> None:
    with Store(path) as store:
        store.run("gone").delete()


def found(store: Store, name: str) -> Any:
    said = store.run(name).search(f"{name} words")
    return [row.number for row in said.rows], said.how


DAMAGES = {
    "a row": ("UPDATE rows SET inputs = replace(inputs, 'words', 'woods') WHERE run = 2 AND number = 2",),
    "no JSON": ("UPDATE rows SET inputs = '{', checksum = NULL WHERE run = 2",),
    "a key": ("UPDATE rows SET key = X'ff', checksum = NULL WHERE run = 2 AND number = 1",),
    "its index": ("UPDATE row_words_data SET block = X'00' WHERE id > 10",),
    "nothing": (),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_run_goes_and_the_words_of_the_others_stay(what: str, path: Path) -> None:
    marked(path)
    change(path, *DAMAGES[what])
    with Store(path) as store:
        totals = connection_of(store).execute("SELECT * FROM totals WHERE run <> 2").fetchall()
        assert store.purge(0) == 1 and store.heads(deleted=True) == [] and store.purge(0) == 0
        assert [found(store, name) for name in ("left", "other", "older")] == [([1, 2, 3], "words")] * 3
        assert found(store, "draft") == ([1, 2, 3], "substring")
        assert [row.number for row in store.run("left").search("\u6771\u4eac").rows] == [1, 2, 3]
        assert connection_of(store).execute("SELECT * FROM totals").fetchall() == totals
        connection_of(store).execute("INSERT INTO row_words (row_words) VALUES ('integrity-check')")
    assert b"gone words" not in path.read_bytes()


def connection_of(store: Store) -> sqlite3.Connection:
    with store._database.read() as connection:
        return connection


def test_another_damaged_run_is_kept_without_an_index(path: Path) -> None:
    marked(path)
    sql = "UPDATE rows SET inputs = replace(inputs, 'words', 'woods') WHERE number = 2 AND run IN (2, 3)"
    change(path, sql, "UPDATE runs SET name = 'LEFT' WHERE id = 1")
    with Store(path) as store:
        assert store.purge(0) == 1
        assert found(store, "older") == ([1, 2, 3], "words")
        with pytest.raises(DamageError, match="row 2 of run"):
            found(store, "other")
        assert store.run("other").rows(numbers=[1, 3])[0].number == 1
        assert [each.name for each in store.heads() if each.damage] == ["LEFT"]
    change(path, "UPDATE runs SET name = 'left' WHERE id = 1")
    with Store(path) as store:
        assert found(store, "left") == ([1, 2, 3], "words")


@pytest.mark.parametrize("step", ["_prepare", "_add_words"])
def test_a_purge_that_fails_changes_nothing(step: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked(path)
    change(path, *DAMAGES["a row"])
    before = dump(path)
    with Store(path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(search, step, _full)
            with pytest.raises(StoreError, match="cannot be written: database or disk is full"):
                store.purge(0)
        assert dump(path) == before
        assert store.purge(0) == 1


def _full(*_: Any) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def dump(path: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    every = [row for name in sorted(names) for row in connection.execute(f'SELECT * FROM "{name}"')]
    connection.close()
    return every


def test_a_damaged_record_is_no_mark(path: Path) -> None:
    marked(path)
    with Store(path) as store:
        store.run("other").delete()
    change(path, "UPDATE runs SET deleted = 5.0 WHERE name IN ('gone', 'left')")
    with Store(path) as store:
        assert store.purge(0) == 1, "of the one whose mark is right"
        assert [each.name for each in store.heads() if each.damage] == ["gone", "left"]
        assert [each.name for each in store.heads() if not each.damage] == ["draft", "older"]


def test_a_run_that_cannot_go_does_not_keep_the_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked(path)
    with Store(path) as store:
        store.run("other").delete()
        real = search.forget_for_good

        def broken(connection: sqlite3.Connection, run: int) -> None:
            if run == 2:
                raise sqlite3.DatabaseError("database disk image is malformed")
            real(connection, run)

        monkeypatch.setattr(search, "forget_for_good", broken)
        with pytest.raises(DamageError, match="is damaged: the file: database disk image is malformed"):
            store.purge(0)
        assert [each.name for each in store.heads(deleted=True)] == ["gone"]
        assert found(store, "left") == ([1, 2, 3], "words")
