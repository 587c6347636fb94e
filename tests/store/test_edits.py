"""Name, tags and note of a run edited in a store, and labels of rows with how they were drawn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.store.old_versions import as_version
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.store import Feedback, Store, StoredRow, StoredScore, opinions
from valor_gpu.store.edits import edit_run, edits_of
from valor_gpu.store.label_queues import LabelQueue, keep_label, label_queues
from valor_gpu.store.opinions import answered_rows, labelled_rows, rows_by_score, withdraw

HOSTILE = "<b>\u202eok\x00\ud800 'Ω'\n; DROP TABLE runs"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.sqlite")


def test_what_is_not_given_stays(store: Store) -> None:
    run = store.create_run("a", {"x": 1}, {"model": "small"})
    assert edits_of(run) == ("", None) and store.heads()[0].edited is None
    edit_run(run, note="seen")
    first = edits_of(run)
    edit_run(run, name="b")
    edit_run(run)
    again = store.run(run.id)
    assert (again.name, again.tags, again.config, edits_of(again).note) == ("b", {"model": "small"}, {"x": 1}, "seen")
    head = store.heads()[0]
    assert (head.name, head.note, head.state) == ("b", "seen", "draft")
    assert head.edited is not None and first.edited is not None and head.edited > first.edited
    edit_run(run, tags={}, note="", name="")
    again = store.run(run.id)
    assert (again.name, again.tags, edits_of(again).note) == ("", {}, "") == (run.name, run.tags, "")


def test_texts_come_back_as_they_were(store: Store) -> None:
    run = store.create_run("a", {})
    edit_run(run, name=HOSTILE, tags={HOSTILE: [HOSTILE, 3, None]}, note=HOSTILE)
    again = store.run(run.id)
    assert (again.name, again.tags, edits_of(again).note) == (HOSTILE, {HOSTILE: [HOSTILE, 3, None]}, HOSTILE)


def test_a_run_that_is_worked_on_is_edited(store: Store) -> None:
    run = store.create_run("a", {})
    with run.lease():
        other = store.run(run.id)
        edit_run(other, name="b", note="while it runs")
        run.add_rows([StoredRow(1, "a", {})])
    assert store.run(run.id).name == "b"


def test_the_later_of_two_is_told(store: Store) -> None:
    run = store.create_run("a", {})
    mine, theirs = store.run(run.id), store.run(run.id)
    seen = edits_of(mine).edited
    edit_run(theirs, note="first", edited=seen)
    with pytest.raises(InputError, match="was edited after this form was read, so nothing was changed"):
        edit_run(mine, note="second", name="b", edited=seen)
    assert edits_of(mine).note == "first" and store.run(run.id).name == "a" == mine.name
    edit_run(mine, note="second", edited=edits_of(mine).edited)
    assert edits_of(mine).note == "second"


def test_edits_are_told_apart_when_the_clock_is_set_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.create_run("a", {})
    edit_run(run, note="one")
    first = edits_of(run).edited
    monkeypatch.setattr("valor_gpu.store.edits.time.time", lambda: 5.0)
    edit_run(run, note="two")
    second = edits_of(run).edited
    assert first is not None and second is not None and second > first


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "n" * 201}, "name must have at most 200 characters but has 201"),
        ({"note": "n" * 4001}, "note must have at most 4,000 characters but has 4,001"),
        ({"tags": {str(n): n for n in range(51)}}, "tags must be at most 50 but are 51"),
        ({"tags": {"": 1}}, "the name of a tag must have 1 to 500 characters but has 0"),
        ({"tags": {"a": "x" * 500}}, "the value of the tag 'a' must have at most 500 characters as JSON but has 502"),
        ({"tags": {"a": float("nan")}}, "must hold JSON values"),
    ],
)
def test_what_is_out_of_bounds_changes_nothing(store: Store, change: dict[str, object], words: str) -> None:
    run = store.create_run("a", {}, {"b": 1})
    with pytest.raises(InputError, match=words):
        edit_run(run, **{"name": "c", "note": "d", **change})  # type: ignore[arg-type]
    again = store.run(run.id)
    assert (again.name, again.tags, edits_of(again)) == ("a", {"b": 1}, ("", None))


def test_other_types_are_refused(store: Store) -> None:
    run = store.create_run("a", {})
    for change in ({"name": 3}, {"note": b"x"}, {"tags": ["a"]}, {"tags": {1: 2}}):
        with pytest.raises(InputTypeError, match="must be"):
            edit_run(run, **change)  # type: ignore[arg-type]


def test_a_purged_run_is_not_edited(store: Store) -> None:
    run = store.create_run("a", {})
    run.delete()
    store.purge(0)
    for call in (lambda: edits_of(run), lambda: edit_run(run, name="b")):
        with pytest.raises(InputError, match="no longer in the store"):
            call()


def test_a_store_of_version_2_is_edited(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        uid = store.create_run("old", {}, {"a": 1}).id
    as_version(tmp_path / "s.sqlite", 2)
    with Store(tmp_path / "s.sqlite") as store:
        run = store.run(uid)
        assert edits_of(run) == ("", None) and store.heads()[0].note == ""
        edit_run(run, note="new", tags={**run.tags, "b": 2})
        assert store.heads()[0].note == "new" and store.run(uid).tags == {"a": 1, "b": 2}


def test_words_of_one_author_on_one_score_are_taken_back(store: Store) -> None:
    run = store.create_run("a", {})
    run.add_rows([StoredRow(1, "a", {}), StoredRow(2, "b", {})])
    for row, name, who in ((1, "f", "ana"), (1, "f", "bo"), (1, "", "ana"), (2, "f", "ana")):
        run.add_feedback(Feedback(row, name, who, value=1))
    assert withdraw(run, 1, "f", "ana") and not withdraw(run, 1, "f", "ana")
    left = [(each.row, each.evaluator, each.author) for each in run.feedback()]
    assert left == [(1, "", "ana"), (1, "f", "bo"), (2, "f", "ana")]


def test_labels_are_scores_and_verdicts(store: Store) -> None:
    run = store.create_run("a", {})
    run.add_rows([StoredRow(n, str(n), {}, {}, "ok" if n != 4 else "timeout") for n in range(1, 7)])
    run.add_scores([StoredScore(n, "f", repeat, value) for n, repeat, value in
                    ((1, 0, 3.0), (1, 1, 1.0), (2, 0, 1.0), (3, 0, 5.0), (5, 0, 2.0))])  # fmt: skip
    run.add_scores([StoredScore(6, "f", 0, None, "timeout")])
    for said in (Feedback(1, "f", "ana", 2), Feedback(2, "f", "ana", passed=False), Feedback(3, "f", "ana", note="x"),
                 Feedback(5, "f", "bo", 2), Feedback(6, "", "ana", 2)):  # fmt: skip
        run.add_feedback(said)
    assert labelled_rows(run, "f", "ana") == [1, 2] and labelled_rows(run, "", "ana") == [6]
    assert answered_rows(run) == [1, 2, 3, 5, 6]
    assert rows_by_score(run, "f") == [2, 1, 5, 3] and rows_by_score(run, "f", descending=True) == [3, 1, 5, 2]


def test_answered_rows_are_found_by_an_index_alone(store: Store) -> None:
    draw, run = random.Random(5), store.create_run("a", {})
    numbers = draw.sample(range(1, 5000), 800)
    status = {number: draw.choice(["ok", "ok", "timeout", "error"]) for number in numbers}
    run.add_rows([StoredRow(number, str(number), {}, {}, status[number]) for number in numbers])
    assert answered_rows(run) == sorted(number for number in numbers if status[number] == "ok")
    with store._database.read() as connection:
        for sql in (opinions._NUMBERS, opinions._FAILED):
            plan = str(connection.execute(f"EXPLAIN QUERY PLAN {sql}", (run._number,)).fetchall())
            assert "USING COVERING INDEX" in plan, "rows may hold 100 kB of text each"


def test_queues_keep_how_their_rows_were_drawn(store: Store) -> None:
    run = store.create_run("a", {})
    random, lowest = LabelQueue("f", "ana", "random", 7), LabelQueue("f", "ana", "lowest", selection="q=x")
    for queue, row in ((random, 9), (lowest, 3), (random, 2), (random, 9)):
        keep_label(store, run, queue, row)
    assert [(each.design, each.rows) for each in label_queues(store, run)] == [
        (random.design, (9, 2)), (lowest.design, (3,)),
    ]  # fmt: skip
    with pytest.raises(InputError, match="order must be one of"):
        keep_label(store, run, LabelQueue("f", "ana", "by name"), 1)
    assert label_queues(store, store.create_run("b", {})) == []
