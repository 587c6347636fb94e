"""What an ended run had, by its totals: damage is noticed, and neither pages nor polls read more than they need."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.test_damage import change
from valor_gpu.errors import DamageError, InputTypeError
from valor_gpu.store import Store, StoredRow, StoredScore, checksums, totals
from valor_gpu.store.columns import Columns
from valor_gpu.store.records import checked_scores
from valor_gpu.store.runs import Run
from valor_gpu.store.values import unpacked_json

N = 40
NAMES = ("f1_score", "gpt_fluency")


def _fill(run: Run) -> None:
    run.add_rows([StoredRow(n, f"k{n}", {"question": f"What is {n}?", "part": "ab"[n % 2]}) for n in range(1, N)])
    run.add_rows([StoredRow(N, f"k{N}", {"question": "?"}, {}, "timeout")])
    run.add_scores([StoredScore(n, NAMES[0], 0, n / N) for n in range(1, N)])
    told: dict[str, Any] = {
        "details": {"counts": [3]},
        "level": "High",
        "usage": {"prompt": 9, "completion": 1},
        "seconds": 0.5,
    }
    run.add_scores([StoredScore(n, NAMES[1], 0, 4.0, **told) for n in range(1, N - 1)])
    run.add_scores([StoredScore(N - 1, NAMES[1], 0, None, "timeout", "after 9 s")])


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions of 16 rows."""
    monkeypatch.setattr(totals, "PORTION", 16)
    monkeypatch.setattr(Columns._ranges, "__defaults__", (16,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of an ended run of some portions of rows, and of one that goes on."""
    with Store(tmp_path / "s.sqlite") as store:
        ended = store.create_run("ended", {})
        _fill(ended)
        ended.finish("finished", {})
        _fill(store.create_run("live", {}))
    return tmp_path / "s.sqlite"


@pytest.mark.parametrize("name", ["ended", "live"])
def test_columns_are_those_of_the_scores(path: Path, name: str) -> None:
    with Store(path) as store:
        run = store.run(name)
        columns, scores, rows = Columns(run), list(run.scores()), run.rows(limit=N)
        assert sum(each.details is not None for each in scores) == N - 2
        for evaluator in NAMES:
            own = [each for each in scores if each.evaluator == evaluator]
            good = [each for each in own if each.value is not None]
            assert list(columns.details(evaluator)) == [(each.row, each.repeat, each.details) for each in good]
            levels = [each.level for each in good if each.level]
            assert columns.levels(evaluator) == {level: levels.count(level) for level in set(levels)}
            failed = [(each.row, each.status) for each in own if each.value is None]
            assert list(zip(*columns.failures(evaluator))) == failed
            values = columns.values(evaluator)
            assert sorted(zip(values.rows, values.values)) == [(each.row, each.value) for each in good]
        told = [each for each in scores if each.usage is not None or each.seconds is not None]
        assert list(columns.usage()) == [(each.evaluator, each.usage, each.seconds or 0.0) for each in told]
        assert list(columns.score_pages()) and [one for page in columns.score_pages() for one in page] == scores
        keys = [pair for page in columns.row_keys() for pair in zip(*page)]
        assert keys == [(each.number, each.key) for each in rows]
        statuses = [pair for page in columns.statuses() for pair in zip(*page)]
        assert statuses == [(each.number, each.status) for each in rows]
        facts = [(each.number, each.inputs, each.outputs) for each in columns.rows(inputs=True, outputs=True)]
        assert facts == [(each.number, each.inputs, each.outputs) for each in rows]


READERS: dict[str, Callable[[Run], Any]] = {
    "keys": lambda run: [list(zip(*page)) for page in Columns(run).row_keys()],
    "statuses": lambda run: [list(zip(*page)) for page in Columns(run).statuses()],
    "levels": lambda run: [Columns(run).levels(name) for name in NAMES],
    "usage": lambda run: list(Columns(run).usage()),
    "details": lambda run: [list(Columns(run).details(name)) for name in NAMES],
    "missing": lambda run: [list(run.missing(NAMES, 2, retry)) for retry in ((), ("timeout",))],
    "slices": lambda run: run.slices("part"),
    "row statuses": lambda run: run.row_statuses(range(1, N + 2)),
}


@pytest.mark.parametrize("what", READERS)
def test_an_ended_run_says_what_it_said_while_it_went_on(what: str, path: Path) -> None:
    with Store(path) as store:
        ended, live = (READERS[what](store.run(name)) for name in ("ended", "live"))
    assert ended == live and len(ended) > 0


def test_columns_are_right(path: Path) -> None:
    with Store(path) as store:
        run = store.run("ended")
        pages = list(Columns(run).row_keys())
        assert [len(numbers) for numbers, _ in pages] == [16, 16, 8]
        assert [key for _, keys in pages for key in keys] == [f"k{n}" for n in range(1, N + 1)]
        statuses = [status for _, page in Columns(run).statuses() for status in page]
        assert statuses == ["ok"] * (N - 1) + ["timeout"]
        assert Columns(run).levels(NAMES[1]) == {"High": N - 2} and Columns(run).levels(NAMES[0]) == {}
        assert list(Columns(run).usage()) == [(NAMES[1], {"prompt": 9, "completion": 1}, 0.5)] * (N - 2)
        lacking = [(n, name, 1) for n in range(1, N) for name in NAMES]
        assert list(run.missing(NAMES, 2)) == lacking
        assert set(run.missing(NAMES, 2, ["timeout"])) == {*lacking, (N - 1, NAMES[1], 0)}
        with pytest.raises(InputTypeError, match="each of evaluators must be"):
            run.missing([1])  # type: ignore[list-item]


CHANGES = {
    "a key": ("UPDATE rows SET key = 'other' WHERE number = 17 AND run = 1", "keys", "row 17 of run "),
    "a lost level": ("UPDATE scores SET level = '' WHERE row = 3 AND run = 1", "levels", "scores of run "),
    "a level": ("UPDATE scores SET level = 'Low' WHERE row = 3 AND run = 1", "levels", "score of row 3 by "),
    "lost tokens": ("UPDATE scores SET usage = NULL, seconds = NULL WHERE row = 3 AND run = 1", "usage",
                    "scores of run "),
    "tokens": ("UPDATE scores SET usage = replace(usage, '9', '8') WHERE row = 3 AND run = 1", "usage",
               "score of row 3 by "),
    "a cell": ("UPDATE rows SET inputs = replace(inputs, '\"a\"', '\"b\"') WHERE number = 2 AND run = 1", "slices",
               "row 2 of run "),
    "a status": ("UPDATE rows SET status = 'timeout' WHERE number = 2 AND run = 1", "statuses", "without an answer of"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_damage_of_what_is_read_by_totals_is_noticed(what: str, path: Path) -> None:
    sql, reader, place = CHANGES[what]
    change(path, sql)
    with Store(path) as store, pytest.raises(DamageError, match=place):
        READERS[reader](store.run("ended"))


def test_a_row_of_an_older_process_is_no_damage(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE rows SET key = 'other' WHERE number = 17 AND run = 1")
    connection.execute("UPDATE scores SET level = '' WHERE row = 3 AND run = 1")
    connection.commit()
    connection.close()
    with Store(path) as store:
        assert READERS["keys"](store.run("ended"))[1][0] == (17, "other")
        assert Columns(store.run("ended")).levels(NAMES[1]) == {"High": N - 3}


def _statements(store: Store, read: Callable[[], Any]) -> Iterator[str]:
    found: list[str] = []
    with store._database.read() as connection:
        connection.set_trace_callback(found.append)
    read()
    with store._database.read() as connection:
        connection.set_trace_callback(None)
    return iter(found)


def _counts(store: Store, read: Callable[[], Any]) -> list[str]:
    return [sql for sql in _statements(store, read) if "count(" in sql and ("FROM scores" in sql or "FROM rows" in sql)]


def test_a_run_that_goes_on_is_counted_once(path: Path) -> None:
    with Store(path) as store:
        run = store.run("live")

        def page() -> object:
            return run.rows(limit=5), next(run.scores()), run.score_page(NAMES[0], limit=5)

        assert len(_counts(store, page)) == 4
        run.add_scores([StoredScore(1, "other", 0, 0.5)])
        assert _counts(store, page) == []
        run.finish("finished", {})
        assert len(_counts(store, page)) > 4  # against the totals
        assert _counts(store, page) == []


def test_traces_of_a_run_that_goes_on_are_counted_when_they_have_doubled(path: Path) -> None:
    with Store(path) as store, store._database.write() as connection:
        counted = 0
        for n in range(1, 33):
            connection.execute("UPDATE counts SET n = n + 1 WHERE about = 'progress' AND run = 2")
            state = totals._state_of_count(connection, 2, n)
            counted += state != totals._state_of_count(connection, 2, n - 1)
        assert counted == 6
        assert totals._state_of_count(connection, 1, 5) == 5


def test_keys_of_an_ended_run_are_read_without_its_texts(path: Path) -> None:
    with Store(path) as store:
        run = store.run("ended")
        for name in ("keys", "statuses"):
            assert not [sql for sql in _statements(store, lambda name=name: READERS[name](run)) if "inputs" in sql]  # type: ignore[misc]


def _lose_index(path: Path, name: str, like: str) -> None:
    """Gives an index the entries of an empty one."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"CREATE INDEX lost ON {like}")
    pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_master").fetchall())
    connection.execute("PRAGMA writable_schema = ON")
    for one, other in ((name, "lost"), ("lost", name)):
        connection.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (pages[other], one))
    connection.close()


@pytest.mark.parametrize("lost", ["scores_failed", "scores_value"])
def test_a_lost_index_of_a_run_that_goes_on_is_noticed(lost: str, path: Path) -> None:
    where = " WHERE value IS NULL AND run < 0" if lost == "scores_failed" else " WHERE run < 0"
    _lose_index(path, lost, f"scores (run, evaluator, status, row, repeat){where}")
    with Store(path) as store, pytest.raises(DamageError, match="scores of run"):
        list(store.run("live").missing(NAMES, 1, ["timeout"]))


def test_a_run_with_a_lost_index_does_not_end_as_if_it_were_whole(path: Path) -> None:
    _lose_index(path, "scores_value", "scores (run, evaluator, value, row, repeat) WHERE run < 0")
    with Store(path) as store:
        with pytest.raises(DamageError, match="scores of run"):
            store.run("live").finish("finished", {})
        with store._database.read() as connection:
            assert totals.totals_of(connection, 2) is None


def test_a_run_that_has_its_words_compares_its_rows_when_it_ends_again(path: Path) -> None:
    change(path, "UPDATE rows SET key = 'other' WHERE number = 17 AND run = 1")
    with Store(path) as store, pytest.raises(DamageError, match="row 17 of run"):
        store.run("ended").finish("finished", {})


def test_checksums_are_compared_whatever_marshal_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    values = (1, "f1_score", 0, 0.5, "ok", "", "", None, None, None)
    right = checksums.sealed((7, *values))[1:]
    monkeypatch.setattr(checksums, "_IS_AS_BY_HAND", False)
    assert checksums.sealed((7, *values))[1:] == right
    assert checked_scores([right], 7) == [right]
    with pytest.raises(DamageError, match="score of row 1 by 'f1_score'"):
        checked_scores([right, (*values[:3], 0.25, *right[4:])], 7)


def test_json_is_read_to_its_end() -> None:
    assert unpacked_json(' {"a": [1, NaN]}\n')["a"][0] == 1
    for text in ('{"a": 1} x', '{"a": 1', "", "x", '"a\n"'):
        with pytest.raises(DamageError, match="its JSON cannot be read: "):
            unpacked_json(text)
