"""What a store keeps comes back as it was; what it cannot keep is an error that says so."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.store import Feedback, Run, Store, StoredRow, StoredScore, StoreError, schema

HOSTILE = [
    "a\0b\0",
    "\0",
    "lone \ud800 and \udfff",
    "\ud83d\ude00",  # two surrogates that are not one sign
    "x" * 1_000_000,
    "'; DROP TABLE runs; --",
    '"},{"',
    "<script>alert(1)</script>",
    "日本語 é \u2028 \ufffe \U0001f600",
    "",
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite", busy=5) as opened:
        yield opened


def rows_of(*answers: str) -> list[StoredRow]:
    return [StoredRow(n, f"key {n}", {"group": n % 2}, {"answer": answer}) for n, answer in enumerate(answers, 1)]


def sql(store: Store, statement: str, *values: Any) -> list[Any]:
    connection = sqlite3.connect(store.path)
    try:
        with connection:
            return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_come_back_as_they_were(store: Store, text: str) -> None:
    run = store.create_run(text, {"text": text}, {"tag": text}, text)
    row = StoredRow(1, text, {"cell": text, text: 1}, {"answer": [text, {"deep": text}]}, "failed", text)
    score = StoredScore(1, text, 3, 0.1, reason=text, level=text, details={"reply": text}, usage={"n": 1}, seconds=0.5)
    run.add_rows([row])
    run.add_scores([score])
    run.add_feedback(Feedback(1, text, text, 0.25, True, text))
    store.evaluators.save(text + "e", {"prompt": text}, text)
    store.views.save("list", text, {"q": text})
    store.datasets.save(text + "h", text, [text, "b"], 1, text)
    run.finish("failed", {"message": text})
    again = store.run(run.id)
    assert (again.name, again.config, again.tags, again.dataset) == (text, {"text": text}, {"tag": text}, text)
    assert (again.rows(), list(again.scores(text)), again.finished_summary) == ([row], [score], {"message": text})
    assert again.summary()[text].mean == 0.1
    assert again.slices("cell")[0][0] == text or text == "\ud83d\ude00"  # JSON's escapes make one sign of these two
    (said,) = again.feedback()
    assert (said.evaluator, said.author, said.note, said.value, said.passed) == (text, text, text, 0.25, True)
    assert store.evaluators.get(text + "e").content == {"prompt": text}
    assert (store.views.list("list"), store.views.get("list", text)) == ([text], {"q": text})
    assert store.datasets.list()[0].columns == (text, "b")
    assert sql(store, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (StoredRow(2, "k", {"a": math.nan}), "inputs of row 2 must hold JSON values: Out of range"),
        (StoredRow(2, "k", {}, {"a": [math.inf]}), "outputs of row 2 must hold JSON values: Out of range"),
        (StoredRow(2, "k", {"a": {1: 2}}), "inputs of row 2 must have texts as keys but has the int 1"),
        (StoredRow(2, "k", {"a": {1, 2}}), "inputs of row 2 must hold JSON values: set is no JSON value"),
        (StoredRow(0, "k", {}), "number must be at least 1 but got 0"),
        (StoredRow(2**63, "k", {}), "number must be at most 9223372036854775807"),
        (StoredRow(2, 5, {}), "key of row 2 must be str but got int"),  # type: ignore[arg-type]
        (StoredRow(2, "k", {}, status=""), "status of row 2 must not be empty"),
        (StoredRow(2, "key 1", {}), "rows 1 and 2 have 'key 1'"),
        (StoredRow(1, "k", {}), "row 1 is stored under the key 'key 1' but came as 'k': is this other data?"),
    ],
)
def test_a_row_that_cannot_be_kept_keeps_none_of_its_list(store: Store, bad: StoredRow, message: str) -> None:
    run = store.create_run("r", {})
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        run.add_rows([*rows_of("a"), bad])
    assert run.rows() == []


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (StoredScore(1, "m", 0, math.inf), "must have a finite value with status 'ok'"),
        (StoredScore(1, "m", 0, math.nan), "must have a finite value with status 'ok'.* but got nan and 'ok'"),
        (StoredScore(1, "m", 0, None), "or None with another status, but got None and 'ok'"),
        (StoredScore(1, "m", 0, 1.0, "timeout"), "but got 1.0 and 'timeout'"),
        (StoredScore(1, "m", 0, None, ""), "but got None and ''"),
        (StoredScore(1, "m", 0, "3"), "value of the score of row 1 by 'm' must be a number but got '3'"),  # type: ignore[arg-type]
        (StoredScore(1, "m", 0, True), "must be a number but got True"),
        (StoredScore(7, "m", 0, 1.0), "scores must be of stored rows but row 7 is not in run"),
        (StoredScore(1, "m", -1, 1.0), "repeat of row 1 must be at least 0 but got -1"),
        (StoredScore(1, "m", 0, 1.0, details={"x": math.nan}), "details of the score of row 1 by 'm' must hold JSON"),
        (StoredScore(1, "m", 0, 1.0, seconds=math.nan), "seconds of the score of row 1 by 'm' must be in"),
    ],
)
def test_a_score_that_cannot_be_kept_keeps_none_of_its_list(store: Store, bad: StoredScore, message: str) -> None:
    run = store.create_run("r", {})
    run.add_rows(rows_of("a"))
    with pytest.raises(InputError, match=message):
        run.add_scores([StoredScore(1, "other", 0, 1.0), bad])
    assert list(run.scores()) == []


def test_nan_with_a_reason_is_none_and_json_is_strict(store: Store) -> None:
    run = store.create_run("r", {})
    run.add_rows(rows_of("a\0"))
    run.add_scores([StoredScore(1, "m", 0, math.nan, "missing_field", "no context", details={"a": None})])
    assert next(run.scores()).value is None
    for (text,) in sql(
        store, "SELECT inputs FROM rows UNION SELECT outputs FROM rows UNION SELECT details FROM scores"
    ):
        json.loads(text, parse_constant=pytest.fail)
    with pytest.raises(InputError, match="config must hold JSON values"):
        store.create_run("r", {"a": math.nan})
    with pytest.raises(InputTypeError, match="config must be Mapping but got list"):
        store.create_run("r", [])  # type: ignore[arg-type]


def test_answered_rows_and_values_are_final_and_failures_are_replaced(store: Store) -> None:
    run = store.create_run("r", {})
    failed = StoredRow(2, "b", {}, {}, "timeout", "slow")
    assert run.add_rows([StoredRow(1, "a", {}, {"x": 1}), failed]) == 2
    scores = [
        StoredScore(1, "m", 0, 1.0),
        StoredScore(1, "m", 1, None, "timeout"),
        StoredScore(2, "m", 0, None, "missing_field"),
    ]
    assert run.add_scores(scores) == 3
    assert run.add_rows([StoredRow(1, "a", {}, {"x": 9}), StoredRow(2, "b", {}, {"x": 2})]) == 1
    assert [row.outputs for row in run.rows()] == [{"x": 1}, {"x": 2}]
    assert [(score.row, score.repeat) for score in run.scores()] == [(1, 0), (1, 1)]  # row 2 has another answer now
    assert run.add_scores([StoredScore(1, "m", 0, 9.0), StoredScore(1, "m", 1, 2.0)]) == 1
    assert [score.value for score in run.scores()] == [1.0, 2.0]
    assert run.row_statuses([1, 2, 3]) == {1: "ok", 2: "ok"}


def test_missing_scores_are_those_of_answered_rows(store: Store) -> None:
    run = store.create_run("r", {})
    run.add_rows([*rows_of("a", "b"), StoredRow(3, "c", {}, {}, "timeout")])
    run.add_scores([StoredScore(1, "m", 0, 1.0), StoredScore(2, "m", 1, None, "timeout")])
    assert list(run.missing(["m"], 2)) == [(1, "m", 1), (2, "m", 0)]
    assert list(run.missing(["m"], 2, retry=["timeout"])) == [(1, "m", 1), (2, "m", 0), (2, "m", 1)]
    assert list(run.missing(["n"])) == [(1, "n", 0), (2, "n", 0)]
    assert run.counts() == {"ok": 2, "timeout": 1}
    assert [row.number for row in run.rows(status="ok")] == [1, 2]
    assert [row.number for row in run.rows(status="timeout")] == [3]


def scored(store: Store) -> Run:
    run = store.create_run("scored", {})
    run.add_rows(StoredRow(n, str(n), {"group": n % 3} if n % 5 else {}) for n in range(1, 2501))
    for repeat in range(2):
        run.add_scores(
            StoredScore(n, "m", repeat, float(n % 7 + repeat))
            if n % 11
            else StoredScore(n, "m", repeat, None, f"s{n % 2}")
            for n in range(1, 2501)
        )
    return run


def test_summary_histogram_and_slices_are_those_of_the_scores(store: Store) -> None:
    run = scored(store)
    (one,) = run.summary().values()
    numbers = [n for n in range(1, 2501) if n % 11]
    means = [n % 7 + 0.5 for n in numbers]
    assert (one.n, one.n_scores, one.low, one.high, one.n_unscored) == (len(numbers), 2 * len(numbers), 0, 7, 227)
    assert one.mean == pytest.approx(statistics.fmean(means), abs=1e-12)
    assert one.n_failed == {"s0": 226, "s1": 228}
    values = [n % 7 + repeat for n in numbers for repeat in range(2)]
    counted = run.histogram("m", [1, 2, 4, 6])
    assert counted.counts == tuple(sum(low <= v < high for v in values) for low, high in [(1, 2), (2, 4), (4, 6.5)])
    assert (counted.below, counted.above, counted.failed) == (values.count(0), values.count(7), 454)
    slices = run.slices("group")
    assert [value for value, _ in slices] == [0, 1, 2, None]
    for value, summaries in slices:
        own = [n % 7 + 0.5 for n in numbers if (n % 3 if n % 5 else None) == value]
        assert (summaries["m"].n, summaries["m"].mean) == (len(own), pytest.approx(statistics.fmean(own), abs=1e-12))
    assert sum(sum(summaries["m"].n_failed.values()) for _, summaries in slices) == 454
    with pytest.raises(InputError, match="column must have at most 3 values to slice by but 'group' has 4"):
        run.slices("group", 3)
    with pytest.raises(InputError, match="edges must be at least two increasing numbers"):
        run.histogram("m", [1, 1])
    assert store.create_run("empty", {}).summary() == {}


@pytest.mark.parametrize("descending", [False, True])
def test_pages_by_key_are_the_whole(store: Store, descending: bool) -> None:
    run = scored(store)
    assert [row.number for row in run.stream_rows()] == list(range(1, 2501))
    assert [row.number for row in run.rows(after=2495)] == [2496, 2497, 2498, 2499, 2500]
    assert [row.number for row in run.rows(numbers=[9, 3, 9999])] == [9, 3]
    everything = list(run.scores())
    assert [(score.row, score.repeat) for score in everything] == [(n, r) for n in range(1, 2501) for r in range(2)]
    assert list(run.scores("m", first=10, last=11, repeat=1)) == [everything[19], everything[21]]
    pages, after = [], None
    while page := run.score_page("m", after, 333, descending, repeat=1):
        pages += page
        after = page[-1]
    own = [score for score in everything if score.repeat == 1]
    wanted = sorted(own, key=lambda s: (-1 if s.value is None else s.value, s.row), reverse=descending)
    assert [(score.value, score.row) for score in pages] == [(score.value, score.row) for score in wanted]


@pytest.mark.parametrize("ended", [False, True])
def test_rows_are_found_by_their_texts_alone(store: Store, ended: bool) -> None:
    other = store.create_run("other", {})
    other.add_rows(rows_of("Paris in spring"))
    other.finish("finished", {})
    run = store.create_run("r", {})
    run.add_rows(rows_of("the city of Paris", "Rome", 'quoted "OR" \n Rome*', "Paris\0after", "lone \ud800 Oslo"))
    if ended:
        run.finish("finished", {})

    def found(text: str) -> list[int]:
        result = run.search(text)
        assert result.how == ("words" if ended and text != "*" else "substring")
        return [row.number for row in result.rows]

    assert (found("PARIS"), found("rome"), found('"OR"'), found("after"), found("Oslo")) == (
        [1, 4],
        [2, 3],
        [3],
        [4],
        [5],
    )
    assert (found("answer"), found("OR NOT"), found("*")) == ([], [], [3])  # a column's name, an operator, a sign
    assert [row.number for row in run.search("paris", after=1).rows] == [4]
    run.add_rows([StoredRow(6, "six", {}, {"answer": "Bergen"})])
    assert [row.number for row in run.search("bergen").rows] == [6]
    with pytest.raises(InputError, match="text must have 1 to 1000 characters but has 0"):
        run.search(" ")
    run.delete()
    assert (store.purge(3600), store.purge(0), [run.name for run in store.runs()]) == (0, 1, ["other"])
    assert [row.number for row in other.search("paris").rows] == [1]
    with pytest.raises(InputError, match="is no longer in the store: it was purged"):
        _ = run.state
    for use in (lambda: run.finish("finished", {}), lambda: run.add_rows([StoredRow(1, "a", {})]), run.delete):
        with pytest.raises(InputError, match="is no longer in the store: it was purged"):
            use()
    with pytest.raises(InputError, match="is no longer in the store: it was purged"), run.lease():
        pass
    assert sql(store, "SELECT count(*) FROM rows") == [(1,)]


@pytest.mark.parametrize(
    ("text", "sought"),
    [
        ("\u6211\u5728\u5317\u4eac\u4f4f", "\u5317\u4eac"),
        ("\u6771\u4eac\u30bf\u30ef\u30fc\u3078", "\u30bf\u30ef\u30fc"),
        ("\ud55c\uad6d\uc5b4\ub294", "\ud55c\uad6d\uc5b4"),
    ],
)
def test_search_finds_words_that_no_spaces_part(store: Store, text: str, sought: str) -> None:
    run = store.create_run("r", {})
    run.add_rows([StoredRow(1, "a", {"question": text})])
    run.finish("finished", {})
    assert [row.number for row in run.search(sought).rows] == [1]


def test_runs_are_found_by_id_and_newest_name(store: Store) -> None:
    first, second = (store.create_run("same", {"n": n}, dataset="d") for n in range(2))
    assert (store.run("same").id, store.run(first.id).config, repr(first)[:4]) == (second.id, {"n": 0}, "Run(")
    assert [run.id for run in store.runs(1)] == [second.id]
    assert [run.id for run in store.runs(before=second)] == [first.id]
    second.finish("stopped", {})
    assert [run.id for run in store.runs(state="stopped", dataset="d")] == [second.id]
    second.delete()
    assert ([run.id for run in store.runs()], [run.id for run in store.runs(deleted=True)]) == ([first.id], [second.id])
    assert store.run("same").id == first.id
    second.undelete()
    assert len(store.runs()) == 2
    with pytest.raises(InputError, match="no run with the id or name 'none' in the store"):
        store.run("none")
    with pytest.raises(InputError, match="state must be one of 'finished', 'stopped', 'failed' but got 'done'"):
        first.finish("done", {})


def test_versions_of_evaluators_are_immutable(store: Store) -> None:
    library = store.evaluators
    one = library.save("polite", {"prompt": "a\nb", "low": 1})
    assert library.save("polite", {"low": 1, "prompt": "a\nb"}).number == 1  # the same content in another order
    two = library.save("polite", {"prompt": "a\nc", "low": 1}, "clearer")
    assert (two.number, two.note, one.hash == two.hash) == (2, "clearer", False)
    assert library.diff("polite", 1, 2).splitlines()[3:] == [" low: 1", " prompt:", "     a", "-    b", "+    c"]
    assert library.diff("polite", 1, 1) == ""
    three = library.restore("polite", 1)
    assert (three.number, three.hash, three.note) == (3, one.hash, "restored from version 1")
    assert library.get("polite", one.hash[:8]).content == one.content
    assert [version.number for version in library.versions("polite")] == [1, 2, 3]
    library.delete("polite")
    assert (library.list(), [one.name for one in library.list(deleted=True)]) == ([], ["polite"])
    assert library.get("polite", 2) == two  # runs still name it
    library.restore("polite", 2)
    assert [version.number for version in library.list()] == [4]
    for statement in ("UPDATE evaluator_contents SET content = '{}'", "DELETE FROM evaluator_versions"):
        with pytest.raises(sqlite3.IntegrityError, match="versions of evaluators are immutable"):
            sql(store, statement)
    with pytest.raises(InputError, match="no version 9 of evaluator 'polite' in the store: it has versions 1, 2, 3, 4"):
        library.get("polite", 9)
    with pytest.raises(InputError, match="no evaluator 'rude' in the store: there is no evaluator of this name"):
        library.get("rude")
    with pytest.raises(InputError, match="at least 8 digits of a hash but got 'ab'"):
        library.get("polite", "ab")


def test_datasets_views_and_feedback_are_replaced_by_their_keys(store: Store) -> None:
    store.datasets.save("h", "old", ["a"], 1)
    assert store.datasets.save("h", "new", ["a", "b"], 2, "x.csv").name == "new"
    assert len(store.datasets.list()) == 1
    store.datasets.delete("h")
    with pytest.raises(InputError, match="no data set with the hash 'h' in the store"):
        store.datasets.get("h")
    store.views.save("runs", "mine", {"columns": ["name"]})
    store.views.save("runs", "mine", {"columns": []})
    assert store.views.get("runs", "mine") == {"columns": []}
    store.views.delete("runs", "mine")
    assert (store.views.get("runs", "mine"), store.views.list("runs")) == (None, [])
    run = store.create_run("r", {})
    run.add_rows(rows_of("a"))
    run.add_feedback(Feedback(1, "m", "ann", 1, None, "first"))
    run.add_feedback(Feedback(1, "m", "ann", 4, False, "second"))
    assert [(said.value, said.passed, said.note) for said in run.feedback()] == [(4.0, False, "second")]
    with pytest.raises(InputError, match="feedback must be on a stored row but row 2 is not in run"):
        run.add_feedback(Feedback(2))


def test_the_file_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_GPU_STORE", str(tmp_path / "a" / "b" / "store.sqlite"))
    old = os.umask(0)
    try:
        with Store() as store:
            store.create_run("r", {})
            for path in (store.path, *store.path.parent.glob("store.sqlite-*")):
                assert path.stat().st_mode & 0o777 == 0o600, path
            assert [folder.stat().st_mode & 0o777 for folder in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700] * 2
        store.path.chmod(0o644)
        with Store():
            assert store.path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)
    monkeypatch.delenv("VALOR_GPU_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("sys.platform", "linux")
    with Store() as store:
        assert store.path == tmp_path / "xdg" / "valor_gpu" / "store.sqlite"
    with pytest.raises(StoreError, match="is closed"):
        store.runs()


def test_a_file_that_is_no_store_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"store must be a file but .* is a directory"):
        Store(tmp_path)
    text = tmp_path / "notes.txt"
    text.write_text("no database" * 100)
    with pytest.raises(StoreError, match=r"store must be a file of valor_gpu but .*notes.txt is no database"):
        Store(text)
    assert text.read_text() == "no database" * 100
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE mine (a)")
    other.close()
    with pytest.raises(StoreError, match="is another program's database"):
        Store(tmp_path / "other.sqlite")
    with pytest.raises(StoreError, match=r"is not usable: .*Not a directory"):
        Store(text / "below" / "store.sqlite")


def test_a_newer_version_is_an_error_that_names_both(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        sql(store, "PRAGMA user_version = 7")
    with pytest.raises(
        StoreError, match="has version 7, and this valor_gpu knows versions up to 4: install a newer one"
    ):
        Store(tmp_path / "s.sqlite")


def test_an_older_file_is_brought_up_to_date_as_a_whole(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        store.create_run("kept", {})
    connection = sqlite3.connect(store.path, isolation_level=None)
    broken = (*schema.MIGRATIONS, "ALTER TABLE runs ADD COLUMN extra TEXT;\nCREATE TABLE runs (a);\n")
    with pytest.raises(sqlite3.OperationalError, match="table runs already exists"):
        schema.migrate(connection, "s", broken)
    assert connection.execute("PRAGMA user_version").fetchone() == (4,)
    assert "extra" not in connection.execute("SELECT sql FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
    schema.migrate(connection, "s", (*schema.MIGRATIONS, "ALTER TABLE runs ADD COLUMN extra TEXT DEFAULT 'x';\n"))
    assert connection.execute("SELECT name, extra FROM runs").fetchall() == [("kept", "x")]
    assert connection.execute("PRAGMA user_version").fetchone() == (5,)
    connection.close()


def test_a_full_disk_is_an_error_and_loses_nothing_else(store: Store) -> None:
    run = store.create_run("r", {})
    run.add_rows(rows_of("a", "b"))
    with store._database.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    big = [StoredRow(n, str(n), {"text": "x" * 10_000}) for n in range(3, 20)]
    with pytest.raises(StoreError, match=r"cannot be written: database or disk is full; what was being written is not"):
        run.add_rows(big)
    assert len(run.rows()) == 2
    with store._database.read() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    assert run.add_rows(big) == 17


READ_ONLY = """
import os, sys
from valor_gpu.store import stores
from valor_gpu.store import Store, StoreError
if os.geteuid() == 0:  # root may write to any file
    os.setuid(65534)
try:
    with Store(sys.argv[1]) as store:
        print(store.runs())
        store.create_run("r", {})
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("folder_mode", [0o777, 0o555])
def test_a_read_only_file_is_an_error(folder_mode: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Store(Path(folder) / "s.sqlite") as store:
            store.create_run("r", {})
        store.path.chmod(0o444)
        Path(folder).chmod(folder_mode)
        program = [sys.executable, "-c", READ_ONLY, str(store.path)]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        Path(folder).chmod(0o755)
        assert f"store {store.path} cannot be written: the file or its folder is read-only" in done.stdout


def test_importing_the_store_loads_nothing_but_the_standard_library() -> None:
    program = """import sys
from valor_gpu.store import Store
from valor_gpu.store import stores
heavy = {"torch", "numpy", "pandas"}
print(sorted(heavy & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_file_that_is_no_store_keeps_its_mode(tmp_path: Path) -> None:
    other, text, pipe = tmp_path / "other.sqlite", tmp_path / "notes.txt", tmp_path / "pipe"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()
    text.write_text("notes, and not a database\n" * 100)
    os.mkfifo(pipe)
    for path, message in (
        (other, "is another program's database"),
        (text, "is no database"),
        (pipe, "is a device or a pipe"),
    ):
        path.chmod(0o664)
        with pytest.raises(StoreError, match=message):
            Store(path)
        assert path.stat().st_mode & 0o777 == 0o664


def test_a_path_with_a_nul_is_named() -> None:
    with pytest.raises(InputError, match=r"store must be the path of a file but is 'a\\x00b'"):
        Store("a\0b")


def test_a_store_that_another_process_is_making_is_no_other_programs_database(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    mine, other = (sqlite3.connect(path, isolation_level=None) for _ in range(2))

    def make(statement: str) -> None:
        if statement == "PRAGMA user_version" and mine.in_transaction:
            with contextlib.suppress(sqlite3.OperationalError):  # it has to wait
                schema.migrate(other, str(path))
        elif statement == "PRAGMA user_version":
            schema.migrate(other, str(path))

    other.execute("PRAGMA busy_timeout = 0")
    mine.set_trace_callback(make)
    schema.migrate(mine, str(path))
    assert mine.execute("PRAGMA user_version").fetchone()[0] == len(schema.MIGRATIONS)
    mine.close()
    other.close()


@pytest.mark.parametrize("sought", ["CAF\u00c9", "cafe\u0301", "caf\u00e9", "STRASSE", "stra\u00dfe", "\u1f71"])
def test_a_run_that_goes_on_is_searched_in_any_case_and_form_of_accents(store: Store, sought: str) -> None:
    run = store.create_run("cafes", {})
    run.add_rows(
        [StoredRow(1, "a", {"text": "Caf\u00e9, Stra\u00dfe, \u03ac"}), StoredRow(2, "b", {"text": "cafe strase"})]
    )
    assert [row.number for row in run.search(sought).rows] == [1]
