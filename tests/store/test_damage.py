"""A damaged store raises errors that name the place: nothing is read wrong, and nothing raises another error."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import seeds
from tests.store.damages import NAMES, READERS, N, damaged, entries, fill, outcomes
from tests.store.old_versions import as_version
from valor_gpu import evaluate
from valor_gpu.errors import DamageError
from valor_gpu.store import Feedback, Store, StoredRow, StoredScore
from valor_gpu.store.checksums import _encoded_by_hand, checksum, encoded
from valor_gpu.store.runs import Run

# What the index of words and that of traces have lost is not noticed (docs/evaluation/store.md): these say less then,
# and nothing else.
_FEWER = ("words of capitals é", "rows with text of capitals é", "traces of capitals é", "prompts of capitals é")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    """A store of every kind of content, and what its readers say."""
    path = tmp_path_factory.mktemp("whole") / "s.sqlite"
    fill(path)
    said = dict(outcomes(path))
    assert not [name for name, value in said.items() if isinstance(value, Exception)]
    return path.read_bytes(), said


@pytest.fixture
def path(whole: tuple[bytes, dict[str, Any]], tmp_path: Path) -> Path:
    """A file of its own with the same store."""
    (tmp_path / "s.sqlite").write_bytes(whole[0])
    return tmp_path / "s.sqlite"


@pytest.mark.parametrize("seed", seeds(24))
def test_a_damaged_store_is_read_rightly_or_not_at_all(
    seed: int, whole: tuple[bytes, dict[str, Any]], tmp_path: Path
) -> None:
    content, right = whole
    (tmp_path / "whole.sqlite").write_bytes(content)
    path = tmp_path / "s.sqlite"
    path.write_bytes(damaged(content, seed))
    found = dict(outcomes(path))
    lost = lost_unnoticed(path, entries(tmp_path / "whole.sqlite"))
    wrong = [
        name for name, said in found.items() if not isinstance(said, Exception) and not _is_right(said, right, name)
    ]
    assert not [name for name in wrong if not (lost and name.endswith(" of live"))]


def _is_right(said: Any, right: dict[str, Any], name: str) -> bool:
    """Whether a reader says what it said of the whole store, or that it cannot say all."""
    if said.is_part or name in _FEWER:
        return set(said.items) <= set(right[name].items)
    return bool(said == right[name])


def lost_unnoticed(path: Path, right: dict[str, dict[str, Any]]) -> list[str]:
    """Indexes of the run that goes on of which the docs say that nobody notices their damage.

    These are entries that are another's, and what all indexes of a kind have lost.
    """
    return [
        what
        for what, names in entries(path).items()
        if all(names[each] != right[what][each] for each in names)
        or any(names[each] != right[what][each] and len(names[each]) == len(right[what][each]) for each in names)
    ]


def change(path: Path, sql: str, *values: Any) -> None:
    """Changes a store as no trigger sees it."""
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(sql, values)
    connection.commit()
    connection.close()


CHANGES: dict[str, tuple[str, str, str]] = {
    "a cell": ("UPDATE rows SET inputs = replace(inputs, 'What', 'That') WHERE number = 17", "rows",
               "row 17 of run {id}"),
    "broken JSON": ("UPDATE rows SET outputs = '{' WHERE number = 17", "rows", "row 17 of run {id}"),
    "a status": ("UPDATE rows SET status = 'okay' WHERE number = 17", "columns of statuses", "run {id}"),
    "a value": ("UPDATE scores SET value = 0.75 WHERE row = 17 AND evaluator = 'f1_score'", "scores",
                "score of row 17 by 'f1_score' in run {id}"),
    "a value of an index": ("UPDATE scores SET value = 0.75 WHERE row = 17 AND evaluator = 'f1_score'", "histogram",
                            "scores by 'f1_score' in run {id}"),
    "a value of a summary": ("UPDATE scores SET value = 0.75 WHERE row = 17 AND evaluator = 'f1_score'", "summary",
                             "scores by 'f1_score' in run {id}"),
    "a lost row": ("DELETE FROM rows WHERE number = 17", "rows", "rows of run {id}"),
    "a lost score": ("DELETE FROM scores WHERE row = 17 AND evaluator = 'f1_score'", "summary", "scores of run {id}"),
    "a lost opinion": ("DELETE FROM feedback WHERE row = 5", "feedback", "feedback of run {id}"),
    "an opinion": ("UPDATE feedback SET value = 1 WHERE row = 5", "feedback", "feedback on row 5 of run {id}"),
    "a trace": ("UPDATE traces SET content = X'789c' WHERE row = 1 AND evaluator = ''", "traces",
                "trace of the answer of row 1 in run {id}"),
    "a name": ("UPDATE runs SET tags = '{\"model\": \"e\"}' WHERE id = 1", "run",
               "name, configuration, tags or summary of run {id}"),
    "progress": ("UPDATE progress SET content = replace(content, '60', '61')", "progress", "progress of run {id}"),
    "a lost last try": ("DELETE FROM views WHERE kind = 'last try'", "last try", "table views"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_the_place_is_named(what: str, path: Path) -> None:
    sql, reader, place = CHANGES[what]
    with Store(path) as store:
        uid = store.run("capitals é").id
    change(path, sql)
    said = dict(outcomes(path, {reader: READERS[f"{reader} of capitals é"]}))[reader]
    assert isinstance(said, DamageError)
    assert said.place.endswith(place.format(id=uid)) and said.path == str(path)
    assert str(said).startswith(f"store {path} is damaged: {said.place}: ")
    assert f"`valor-gpu store check {path}` lists every damaged place" in str(said)


def test_a_damaged_row_leaves_the_others(path: Path) -> None:
    change(path, "UPDATE rows SET inputs = CAST(X'7b22ff22' AS TEXT) WHERE number = 17 AND run = 1")
    with Store(path) as store:
        run = store.run("capitals é")
        for number in range(1, N + 1):
            if number == 17:
                with pytest.raises(DamageError, match=f"row 17 of run {run.id}: its checksum differs"):
                    run.rows(numbers=[number])
            else:
                assert run.rows(numbers=[number])[0].number == number


def test_versions_of_evaluators_have_their_content(path: Path) -> None:
    change(path, "UPDATE evaluator_contents SET content = replace(content, '2 é', '3 é')")
    with Store(path) as store:
        assert store.evaluators.get("politeness", 1).content["n"] == 0
        with pytest.raises(DamageError, match="version 3 of evaluator 'politeness': its content does not"):
            store.evaluators.get("politeness")


def test_a_writer_that_meets_damage_leaves_all_as_it_was(path: Path) -> None:
    change(path, "UPDATE runs SET config = replace(config, 'f1', 'f2')")
    before = path.read_bytes()
    with Store(path) as store, pytest.raises(DamageError, match="is damaged: name, configuration, tags or summary of"):
        store.run("live")
    assert path.read_bytes() == before


def _resumable(path: Path) -> Run:
    with Store(path) as store:
        run = store.create_run("more", {})
        run.add_rows([StoredRow(1, "a", {"question": "padding"}, {}, "timeout"), StoredRow(2, "b", {"question": "b"})])
        run.finish("stopped", {})
        return run


def test_a_damaged_row_is_not_continued_by_half(path: Path) -> None:
    uid = _resumable(path).id
    change(path, "UPDATE rows SET inputs = '{' WHERE key = 'a'")
    with Store(path) as store:
        run = store.run(uid)
        with pytest.raises(DamageError, match=f"row 1 of run {uid}"):
            run.add_rows([StoredRow(1, "a", {}, {"answer": "x"})])
        assert run.rows(numbers=[2])[0].key == "b"
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT inputs, status FROM rows WHERE key = 'a'").fetchall() == [("{", "timeout")]
    connection.close()


@pytest.mark.parametrize("mark", ["0.0", "5", "1e999", "'abc'", "x'ff'"])
@pytest.mark.parametrize("state", ["draft", "stopped"])
def test_a_run_of_which_the_mark_is_damaged_is_not_purged(state: str, mark: str, path: Path) -> None:
    with Store(path) as store:
        run = store.create_run("kept", {})
        run.add_rows([StoredRow(1, "a", {"question": "kept"})])
        if state != "draft":
            run.finish(state, {})
        store.create_run("gone", {}).delete()
    change(path, f"UPDATE runs SET deleted = {mark} WHERE name = 'kept'")
    with Store(path) as store:
        assert store.purge(0) == 1
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM runs")}
    assert "kept" in names and "gone" not in names
    assert connection.execute("SELECT count(*) FROM rows WHERE inputs LIKE '%kept%'").fetchone() == (1,)
    connection.close()


def test_what_an_older_process_writes_is_no_damage(path: Path) -> None:
    """Statements of version 3, by a process that had opened the store before."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("UPDATE runs SET state = 'running', finished = NULL WHERE id = 1")
    connection.execute("UPDATE runs SET name = 'other', edited = 5.0 WHERE id = 1")
    row = "INSERT INTO rows (run, number, key, inputs, outputs, status, error) VALUES (1, ?, ?, '{}', '{}', ?, '')"
    row += " ON CONFLICT (run, number) DO UPDATE SET outputs = excluded.outputs, status = excluded.status"
    connection.execute(row, (61, "k61", "ok"))
    connection.execute(row, (9, "k9", "ok"))
    score = "INSERT INTO scores (run, row, evaluator, repeat, value, status, reason, level)"
    score += " VALUES (1, ?, ?, 0, ?, 'ok', '', '')"
    score += " ON CONFLICT (run, row, evaluator, repeat) DO UPDATE SET value = excluded.value, status = 'ok'"
    connection.execute(score, (61, NAMES[0], 0.5))
    connection.execute(score, (8, NAMES[1], 2.5))
    connection.execute("UPDATE scores SET value = NULL, status = 'withdrawn' WHERE row = 10 AND evaluator = 'f1_score'")
    opinion = "INSERT INTO feedback (run, row, evaluator, author, value, passed, note, created)"
    opinion += " VALUES (1, ?, 'f1_score', ?, 1, 1, 'x', 5)"
    connection.execute(opinion + " ON CONFLICT (run, row, evaluator, author) DO UPDATE SET note = 'y'", (2, "ana2"))
    connection.execute(opinion, (61, "bo"))
    connection.execute("INSERT OR REPLACE INTO views VALUES ('filter', 'view 1', '{}', 1.0)")
    connection.execute("INSERT OR REPLACE INTO views VALUES ('filter', 'view 9', '{}', 1.0)")
    name = "INSERT INTO evaluators (name) VALUES ('politeness') ON CONFLICT (name) DO UPDATE SET deleted = NULL"
    connection.execute(name)
    version = "SELECT id, 4, (SELECT hash FROM evaluator_contents), 'n', 1.0 FROM evaluators"
    connection.execute(f"INSERT INTO evaluator_versions {version}")
    trace = "SELECT content FROM traces WHERE row = 2 AND evaluator = ''"
    connection.execute(f"UPDATE traces SET content = ({trace}) WHERE row = 1 AND evaluator = ''")
    connection.execute("UPDATE datasets SET name = 'other'")
    connection.execute("UPDATE runs SET state = 'finished', name = 'capitals é' WHERE id = 1")
    connection.close()
    for name, said in outcomes(path):
        assert not isinstance(said, Exception), name
    with Store(path) as store:
        assert store.run("capitals é").summary()[NAMES[0]].n_scores == N - 6 - 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_stores_are_read_without_checksums(version: int, path: Path, whole: tuple[bytes, dict[str, Any]]) -> None:
    as_version(path, version)
    said = dict(outcomes(path))
    assert not [name for name, value in said.items() if isinstance(value, Exception)]
    names = ["rows of capitals é", "scores of capitals é", "summary of capitals é", "library", "views", "data sets"]
    names += ["values of capitals é", "feedback of capitals é", *(["traces of capitals é"] if version == 3 else [])]
    assert [said[name] for name in names] == [whole[1][name] for name in names]


@pytest.mark.parametrize("reader", ["rows", "columns of rows", "texts", "stream"])
@pytest.mark.parametrize("bad", ["'{'", "'[1]'", "X'ff'", "5", "CAST(X'22ff22' AS TEXT)"])
def test_an_unchecked_row_that_cannot_be_read_is_damage(bad: str, reader: str, path: Path) -> None:
    change(path, f"UPDATE rows SET checksum = NULL, inputs = {bad} WHERE number = 17 AND run = 1")
    said = dict(outcomes(path, {reader: READERS[f"{reader} of capitals é"]}))[reader]
    assert isinstance(said, DamageError) and said.place.startswith("row 17 of run ")


def test_an_unchecked_state_file_begins_as_one(path: Path) -> None:
    change(path, "UPDATE states SET checksum = NULL, content = X'3c3c'")
    with Store(path) as store, pytest.raises(DamageError, match=r"state file of run .*: it does not begin as one"):
        store.state_file(store.run("capitals é"))


def test_results_of_a_damaged_run_are_told(tmp_path: Path) -> None:
    from valor_gpu.cli import main
    from valor_gpu.evaluation.result import EvaluationResult

    path = tmp_path / "s.sqlite"
    rows = [{"answer": f"a {n}", "ground_truth": "a 1"} for n in range(20)]
    result = evaluate(data=rows, metrics_list=["f1_score"], store=path, evaluation_name="r")
    uid = result.run.id
    change(path, "UPDATE scores SET value = 0.123 WHERE row = 3")
    with Store(path) as store:
        found = EvaluationResult(store, store.run(uid))
        page = tmp_path / "x.html"
        for call in (lambda: list(found.rows), lambda: found.compare(found.run), lambda: found.to_html(page)):
            with pytest.raises(DamageError, match=r"(row 3|scores) (of|by)"):
                call()
    commands = (["show", uid], ["export", uid, "--csv", str(tmp_path / "x.csv")])
    for command in commands:
        assert main(["eval", *command, "--store", str(path)]) not in (0, None)


NUMBERS: tuple[Any, ...] = (None, 0, 1, -1, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 0.0, -0.0, 0.1, 1e308)
VALUES = (*NUMBERS, "", "a", "é", "\ud800", b"", b"a")


def test_checksums_differ_where_values_do() -> None:
    sums = {checksum((value,)) for value in VALUES}
    assert len(sums) == len(VALUES)
    assert checksum(("ab", "c")) != checksum(("a", "bc")) and checksum(()) != checksum((None,))
    assert encoded(VALUES) == _encoded_by_hand(VALUES)


def test_checksums_are_those_of_every_version() -> None:
    assert checksum((1, 17, "é", b"\xe9", 0.5, None)) == 6296620018020029706


def test_zeros_of_both_signs_are_one_value(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("r", {})
        run.add_rows([StoredRow(1, "a", {})])
        run.add_scores([StoredScore(1, "f1_score", 0, -0.0, seconds=-0.0)])
        run.add_feedback(Feedback(1, "f1_score", value=-0.0))
        assert [score.value for score in run.scores()] == [0.0] and run.feedback()[0].value == 0.0
