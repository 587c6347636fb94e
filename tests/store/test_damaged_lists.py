"""A damaged entry of a list takes no other with it, and is named: in the list, or as a warning."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import DamageError, InputError
from valor_gpu.store import Store
from valor_gpu.store.checksums import WRONG, damages_met
from valor_gpu.store.heads import RunHead


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three runs, and three of each of what stands beside them; the blank needs quotes in a shell."""
    path = tmp_path / "my runs.sqlite"
    with Store(path) as store:
        for number in range(3):
            run = store.create_run(f"run {number}", {"n": number}, dataset=f"d{number}")
            run.finish("finished", {"n": number})
            store.datasets.save(f"d{number}", f"data {number}", ["a"], 1)
            store.evaluators.save(f"e{number}", {"n": number})
            store.views.save("kind", f"v{number}", {"n": number})
    return path


def change(path: Path, *statements: str) -> None:
    """Changes a store as no trigger sees it."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for each in (*statements, *(sql for _, sql in triggers)):
        connection.execute(each)
    connection.commit()
    connection.close()


DAMAGES = {
    "configuration": "config = '{'",
    "no text": "config = CAST(X'7bff7d' AS TEXT)",
    "state": "state = 'stopped'",
    "data set": "dataset = 'd2'",
    "mark": "deleted = 5.0",
    "time": "created = 1e300",
    "older than checksums": "checksum = NULL, state = 'odd'",
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_run_takes_no_other_with_it(what: str, path: Path) -> None:
    change(path, f"UPDATE runs SET {DAMAGES[what]} WHERE id = 2")
    with Store(path) as store:
        heads = store.heads()
        assert [(each.name, each.state, bool(each.damage)) for each in heads] == [
            ("run 2", "finished", False), ("run 1", "damaged", True), ("run 0", "finished", False),
        ]  # fmt: skip
        assert store.heads(deleted=True) == []
        with pytest.warns(UserWarning, match=rf"run {heads[1].id}: .*`valor-gpu store check '.*my runs.sqlite'`"):
            assert [run.name for run in store.runs()] == ["run 2", "run 0"]
        for asked in ({"state": "finished"}, {"limit": 2}, {"before": store.run("run 2"), "limit": 1}):
            met: list[RunHead] = []
            shown = [run.name for run in store.runs(**asked, damaged=met)]
            assert shown == ["run 2", "run 0"]["before" in asked :] and met == heads[1:2]
        assert [run.name for run in store.runs(dataset="d2", damaged=[])] == ["run 2"]
        assert store.runs(deleted=True) == [] and [run.name for run in store.runs(1)] == ["run 2"]
        assert store.run("run 2").config == {"n": 2}


def test_contents_of_the_others(path: Path) -> None:
    with Store(path) as store:
        ids = [each.id for each in store.heads()]
        change(path, "UPDATE runs SET tags = '{ }' WHERE id = 2")
        damaged: dict[str, str] = {}
        found = store.contents([*ids, "none"], damaged)
        assert found == {ids[0]: ({"n": 2}, {}, {"n": 2}), ids[2]: ({"n": 0}, {}, {"n": 0})}
        assert damaged == {ids[1]: WRONG}
        with pytest.raises(DamageError, match=f"summary of run {ids[1]}: its checksum differs"):
            store.contents(ids)


def test_a_name_may_be_that_of_a_newer_damaged_run(path: Path) -> None:
    with Store(path) as store:
        older = store.run("run 0").id
        change(path, "UPDATE runs SET name = 'run O' WHERE id = 2")
        for name in ("run 0", "run O", "run 1", "none"):
            with pytest.raises(DamageError, match="name, configuration, tags or summary of run "):
                store.run(name)
        assert store.run(older).name == "run 0" and store.run("run 2").name == "run 2"
    change(path, "DELETE FROM runs WHERE id = 2", "UPDATE counts SET n = 2 WHERE about = 'runs'")
    with Store(path) as store, pytest.raises(InputError, match="no run with the id or name 'none'"):
        store.run("none")


def test_a_run_on_a_page_that_cannot_be_read(path: Path) -> None:
    with Store(path) as store:
        uid = store.create_run("large", {"text": "x" * 20_000}).id
        store.create_run("newest", {})
    content = path.read_bytes()
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    [first, *_] = [number for number, page in enumerate(pages) if page[4:].startswith(b"x" * 4000)]
    pages[first] = b"\xff" * 4096  # where the rest of the text is to be found
    path.write_bytes(b"".join(pages))
    with Store(path) as store:
        assert [each.name for each in store.heads() if not each.damage] == ["newest", "run 2", "run 1", "run 0"]
        [lost] = [each for each in store.heads() if each.damage]
        assert lost.id == uid and "malformed" in lost.damage
        with pytest.raises(DamageError, match="malformed"):
            store.run(uid)


LISTS: dict[str, tuple[Any, str, str, list[str]]] = {
    "data sets": (lambda store: [each.hash for each in store.datasets.list()],
                  "UPDATE datasets SET rows = 7 WHERE hash = 'd1'", "data set 'd1'", ["d2", "d0"]),
    "evaluators": (lambda store: [each.name for each in store.evaluators.list()],
                   "UPDATE evaluator_versions SET note = 'n' WHERE evaluator = 2", "version 1 of evaluator 'e1'",
                   ["e0", "e2"]),
    "a lost version": (lambda store: [each.name for each in store.evaluators.list()],
                       "UPDATE evaluator_versions SET evaluator = 7 WHERE evaluator = 2", "evaluator 'e1'",
                       ["e0", "e2"]),
    "a mark of an evaluator": (lambda store: [each.name for each in store.evaluators.list()],
                               "UPDATE evaluators SET deleted = 5.0 WHERE id = 2", "version 1 of evaluator 'e1'",
                               ["e0", "e2"]),
    "settings": (lambda store: store.views.list("kind"),
                 "UPDATE views SET settings = '{}' WHERE name = 'v1'", "settings 'v1' of the kind 'kind'",
                 ["v0", "v2"]),
    "lost settings": (lambda store: store.views.list("kind"),
                      "UPDATE views SET kind = 'kine' WHERE name = 'v1'", "settings 'v1' of the kind 'kind'",
                      ["v0", "v2"]),
}  # fmt: skip


@pytest.mark.parametrize("what", LISTS)
def test_lists_have_the_others(what: str, path: Path) -> None:
    read, sql, place, others = LISTS[what]
    change(path, sql)
    with Store(path) as store:
        with pytest.warns(UserWarning, match=f"what is damaged is left out of the list: store .*: {place}: ") as told:
            assert read(store) == others
        assert [each.filename for each in told] == [__file__], "the warning is about the call of the list"
        with damages_met() as met:
            assert read(store) == read(store) == others
        assert [(each.place, each.path) for each in met] == [(place, str(path))]
        assert store.evaluators.list(deleted=True) == []


def test_an_older_version_does_not_stand_in_for_the_newest_one(path: Path) -> None:
    with Store(path) as store:
        store.evaluators.save("e1", {"n": 11})
    change(path, "UPDATE evaluator_versions SET number = 7 WHERE evaluator = 2 AND number = 2")
    change(path, "UPDATE evaluator_versions SET evaluator = 7 WHERE evaluator = 2 AND number = 7")
    with Store(path) as store:
        with damages_met() as met:
            assert [each.name for each in store.evaluators.list()] == ["e0", "e2"]
        assert [each.place for each in met] == ["evaluator 'e1'"]
        with pytest.raises(DamageError, match="evaluator 'e1': its newest version is not where it was written"):
            store.evaluators.get("e1")
        assert store.evaluators.get("e1", 1).content == {"n": 1}


def test_the_list_of_the_command_has_the_others(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from valor_gpu.cli import main

    change(path, "UPDATE runs SET note = 'é' WHERE id = 3")
    with Store(path) as store:
        uid = store.heads()[0].id
    assert main(["eval", "list", "--store", str(path)]) in (0, None)
    shown = capsys.readouterr().out
    assert "run 0" in shown and "run 1" in shown
    assert f"run {uid} (run 2) is damaged: {WRONG}\nvalor-gpu store check '{path}' lists every damaged place" in shown
    assert main(["eval", "list", "--store", str(path), "--json", "-"]) in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["runs"]] == ["run 1", "run 0"]
    assert found["damaged"] == [{"id": uid, "name": "run 2", "damage": WRONG}]
    assert main(["eval", "show", "--store", str(path)]) not in (0, None), "the newest run is not another one"
    assert f"run {uid}, the newest one: {WRONG}" in capsys.readouterr().err
