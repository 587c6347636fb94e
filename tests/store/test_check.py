"""``check`` and ``export`` of stores: whole ones, damaged ones in each place, and files that are none."""

from __future__ import annotations

import contextlib
import errno
import random
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import seeds
from tests.store.damaging import KEYED, KINDS, PAGE, damaged, differences, read_one_by_one
from tests.store.full_store import TABLES, fill, records
from valor_gpu.errors import DamageError, InputError, StoreError
from valor_gpu.store import Store, StoredRow, StoredScore, traces_of
from valor_gpu.store.checking import check
from valor_gpu.store.first_pages import _children
from valor_gpu.store.records import LARGEST
from valor_gpu.store.rescue import export
from valor_gpu.store.scanning import Index, Numbers, TableScan, text_of
from valor_gpu.store.schema import MIGRATIONS, migrate

ROWS = 100
OF_EVALUATORS = {
    "evaluator_contents": {"evaluator_versions", "evaluators"},
    "evaluator_versions": {"evaluators"},
}  # an evaluator goes with its last version


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "s.sqlite"
    fill(path, ROWS)
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "s.sqlite"
    copy.write_bytes(whole.read_bytes())
    return copy


def change(path: Path, *statements: str) -> None:
    """Writes to a file behind the back of the store."""
    connection = sqlite3.connect(path, isolation_level=None)
    for trigger in [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
        connection.execute(f"DROP TRIGGER {trigger}")
    for statement in statements:
        connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def places(path: Path) -> dict[str, str]:
    return {damage.place: damage.what for damage in check(path).damages}


def test_a_whole_store_is_whole_and_copied_as_it_is(whole: Path, tmp_path: Path) -> None:
    before, there = whole.read_bytes(), sorted(whole.parent.iterdir())
    report = check(whole)
    assert report.is_whole and report.n_lost == 0 and not report.unknown
    assert {table: report.whole[table] for table in TABLES} == {
        name: len(kept) for name, kept in records(whole).items()
    }
    assert sum(run.whole["rows"] for run in report.runs.values()) == report.whole["rows"] == 2 * ROWS + 3
    saved = export(whole, tmp_path / "new.sqlite")
    assert saved.is_whole and records(tmp_path / "new.sqlite") == records(whole)
    assert check(tmp_path / "new.sqlite").is_whole
    assert [each.name for each in tmp_path.iterdir()] == ["new.sqlite"]
    assert (tmp_path / "new.sqlite").stat().st_mode & 0o777 == 0o600
    assert whole.read_bytes() == before and sorted(whole.parent.iterdir()) == there


def test_the_new_store_is_used_like_the_old_one(path: Path, tmp_path: Path) -> None:
    export(path, tmp_path / "new.sqlite")
    with Store(path) as old, Store(tmp_path / "new.sqlite") as new:
        assert [run.id for run in new.runs()] == [run.id for run in old.runs()]
        run = new.run("first")
        assert run.search("liegt").how == "words" and len(run.search("liegt", limit=999).rows) == ROWS
        assert len(run.search("中国", limit=999).rows) == ROWS
        assert traces_of(run, 1) == traces_of(old.run("first"), 1) != []
        assert new.state_file(run) == old.state_file(old.run("first"))
        assert [each.number for each in new.evaluators.versions("politeness")] == [1, 2, 3]
        going_on = new.run("going on")
        assert going_on.state == "running" and new.owner(going_on) is None
        with going_on.lease() as lease:
            assert not lease.taken_over and going_on.add_rows([StoredRow(2, "b", {})]) == 1


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_store_of_an_older_version_is_not_touched_and_becomes_a_new_one(tmp_path: Path, version: int) -> None:
    path, new = tmp_path / "s.sqlite", tmp_path / "new.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, str(path), MIGRATIONS[:version])
    values = "(1, 'r1', 'old', 'finished', '{}', '{}', '', '{}', 1.5, 2.5)"
    columns = "(id, uid, name, state, config, tags, dataset, summary, created, finished)"
    connection.execute(f"INSERT INTO runs {columns} VALUES {values}")
    connection.execute(
        "INSERT INTO rows (id, run, number, key, inputs, outputs, status, error)"
        " VALUES (5, 1, 1, 'a', '{}', '{}', 'ok', '')"
    )
    connection.close()
    before = path.read_bytes()
    assert check(path).is_whole and check(path).version == version and export(path, new).is_whole
    assert path.read_bytes() == before and check(new).version == len(MIGRATIONS)
    with Store(new) as store:
        assert store.run("old").id == "r1" and store.run("old").rows() == [StoredRow(1, "a", {})]


# ----------------------------------------------------------------------------------------------------- damaged values

BROKEN = {
    "UPDATE scores SET value = value + 0.125 WHERE row = 7 AND run = 1 AND evaluator = 'f1'":
        ("score of row 7 by 'f1', repeat 0, in run {0}", "its checksum differs, "),
    "UPDATE rows SET outputs = '{}' WHERE number = 7 AND run = 1": ("row 7 of run {0}", "its checksum differs, "),
    "UPDATE feedback SET value = 1.5 WHERE row = 5 AND run = 2":
        ("feedback of 'ana' on row 5 and 'judge' in run {1}", "its checksum differs, "),
    "UPDATE views SET settings = '{}'": ("settings 'mine' of the kind 'list'", "its checksum differs, "),
    "UPDATE evaluator_versions SET note = 'other' WHERE number = 2":
        ("version 2 of evaluator 'politeness'", "its checksum differs, "),
    "UPDATE datasets SET rows = rows + 1": ("data set 'capitals' (d1)", "its checksum differs, "),
    "UPDATE rows SET inputs = '{' WHERE number = 7 AND run = 1": ("row 7 of run {0}", "inputs: it is no JSON"),
    "UPDATE rows SET key = CAST(x'ff' AS TEXT) WHERE number = 7 AND run = 1":
        ("row 7 of run {0}", "key: it is no UTF-8 text"),
    "UPDATE rows SET outputs = '[1]' WHERE number = 7 AND run = 1":
        ("row 7 of run {0}", "outputs: it is no JSON object"),
    "UPDATE scores SET reason = x'ff' WHERE row = 7 AND run = 1 AND evaluator = 'f1'":
        ("score of row 7 by 'f1', repeat 0, in run {0}", "reason: a text is not UTF-8"),
    "UPDATE scores SET value = NULL WHERE row = 7 AND run = 1 AND evaluator = 'f1'":
        ("score of row 7 by 'f1', repeat 0, in run {0}", "it has the value None with the status 'ok'"),
    "UPDATE scores SET value = 9e999 WHERE row = 7 AND run = 1 AND evaluator = 'f1'":
        ("score of row 7 by 'f1', repeat 0, in run {0}", "value: it is no finite number"),
    "UPDATE feedback SET note = CAST(x'ff' AS TEXT) WHERE row = 5 AND run = 2":
        ("feedback of 'ana' on row 5 and 'judge' in run {1}", "note: it is no UTF-8 text"),
    "UPDATE traces SET content = x'78' WHERE row = 4 AND run = 1":
        ("trace of row 4 by 'judge', repeat 0, in run {0}", "its checksum differs, "),
    "UPDATE states SET content = x'00' WHERE run = 1": ("state file of run {0}", "content: it is no state file"),
    "UPDATE progress SET content = 'x' WHERE run = 1": ("progress of run {0}", "content: it is no JSON"),
    "UPDATE replaced SET usage = 7 WHERE run = 1":
        ("spending 1 on a replaced try of 'judge' in run {0}", "usage: it is no JSON"),
    "UPDATE evaluator_contents SET content = '{}' WHERE content LIKE '%short%'":
        ("content ", "it is not what its hash says"),
    "UPDATE evaluator_versions SET note = CAST(x'ff' AS TEXT) WHERE number = 2":
        ("version 2 of evaluator 'politeness'", "note: it is no UTF-8 text"),
    "UPDATE datasets SET columns = '{}'": ("data set 'capitals' (d1)", "columns: it is no JSON list"),
    "UPDATE views SET settings = ''": ("settings 'mine' of the kind 'list'", "settings: it is no JSON"),
    "UPDATE runs SET tags = '{' WHERE id = 1":
        ("tags of run {0}", "it is no JSON; a stand-in without it holds the rows"),
    "UPDATE runs SET state = 'done' WHERE id = 1": ("state of run {0}", "it is none of draft, running, finished, "),
    "UPDATE evaluators SET name = x'ff' WHERE id = 1":
        ("record of evaluator 'rescued evaluator 1'", "name: a text is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("statement", BROKEN)
def test_a_damaged_value_is_named_and_all_else_is_saved(path: Path, tmp_path: Path, statement: str) -> None:
    before = records(path)
    change(path, statement)
    runs = [run.id for run in check(path).runs.values()]
    place, what = BROKEN[statement]
    found = places(path)
    first = next(iter(found))
    assert first.startswith(place.format(*runs)) and found[first].startswith(what), found
    report = export(path, tmp_path / "new.sqlite")
    assert {each.place for each in report.damages} == {each for each in found if not each.startswith("index ")}
    table = statement.split()[1]
    lost = differences(before, tmp_path / "new.sqlite", report)
    assert all(unsaid == 0 for _, unsaid in lost.values()), lost
    if table in ("runs", "evaluators"):
        assert lost == {} and report.lost == {table: 1}
    else:
        rest = {"rows": {"scores", "traces"}, **OF_EVALUATORS}.get(table, set())
        assert len(lost[table][0]) == 1 and set(lost) <= {table} | rest
    after = records(tmp_path / "new.sqlite")
    for name in set(TABLES) - {"runs", "evaluators"}:
        assert all(before[name][key] == kept for key, kept in after[name].items())
    assert check(tmp_path / "new.sqlite").is_whole


def test_a_run_whose_record_is_damaged_keeps_its_rows_and_says_so(path: Path, tmp_path: Path) -> None:
    with Store(path) as store:
        run = store.run("first")
    change(path, "UPDATE runs SET config = 'x', name = CAST(x'ff' AS TEXT) WHERE name = 'first'")
    report = export(path, tmp_path / "new.sqlite")
    assert report.lost == {"runs": 1} and len(report.damages) == 2
    with Store(tmp_path / "new.sqlite") as store:
        saved = store.run(run.id)
        assert (saved.name, saved.state, saved.config, saved.tags) == (
            "rescued run 1",
            "failed",
            {},
            {"model": "small"},
        )
        assert saved.counts() == {"ok": ROWS, "target_error": 1} and saved.summary()["f1"].n == ROWS
        [head] = [each for each in store.heads() if each.id == run.id]
        assert "of its record is lost: name: it is no UTF-8 text; config: it is no JSON." in head.note
        assert head.note.endswith("for the review")


# ------------------------------------------------------------------------------------------------------ damaged pages


def roots(path: Path) -> dict[str, int]:
    """First pages of tables and indexes."""
    connection = sqlite3.connect(path)
    found = dict(connection.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0"))
    connection.close()
    return found


PARTS = (*TABLES, "leases", "row_texts", "sqlite_autoindex_rows_1", "sqlite_autoindex_scores_1", "scores_value",
         "runs_name", "row_words_data")  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("noise", [False, True])
def test_the_first_page_of_each_part_is_lost(path: Path, tmp_path: Path, part: str, noise: bool) -> None:
    before, content, page = records(path), bytearray(path.read_bytes()), roots(path)[part] - 1
    content[page * PAGE : (page + 1) * PAGE] = random.Random(1).randbytes(PAGE) if noise else bytes(PAGE)
    path.write_bytes(content)
    report = check(path)
    assert not report.is_whole
    saved = export(path, tmp_path / "new.sqlite")
    assert path.read_bytes() == content and (saved.lost, saved.unknown) == (report.lost, report.unknown)
    lost = differences(before, tmp_path / "new.sqlite", saved)
    assert all(unsaid == 0 for _, unsaid in lost.values()), lost
    named = {"rows": {"scores", "feedback", "traces"}, **OF_EVALUATORS}.get(part, set())
    assert set(lost) <= {part, *named}
    after = records(tmp_path / "new.sqlite")
    for name in set(TABLES) - {"runs", "evaluators"}:
        assert all(before[name][key] == kept for key, kept in after[name].items())
    if part in ("rows", "scores", "feedback", "traces", "replaced"):  # an index names each record
        assert part not in saved.unknown and saved.lost[part] == len(before[part])
        words = [each.place for each in saved.damages if each.table == part]
        assert len(set(words)) == len(before[part])
    if part == "runs":  # all that was said of runs is kept
        assert set(lost) == set() and saved.lost == {"runs": 3}
        assert {values[1] for values in after["runs"].values()} == {values[1] for values in before["runs"].values()}
    with Store(tmp_path / "new.sqlite") as store:
        for run in store.runs():
            assert len(list(run.stream_rows())) == saved.runs[run._number].whole["rows"]


def test_a_leaf_between_two_damaged_ones_is_saved(path: Path, tmp_path: Path) -> None:
    """Also the record before a page that cannot be read, which a cursor of Python's drops."""
    before, content = records(path), bytearray(path.read_bytes())
    leaves = [page for page in range(1, len(content) // PAGE)
              if content[page * PAGE] == 13 and content[page * PAGE : (page + 1) * PAGE].count(b'"Wo liegt ') > 5
              and content[page * PAGE : (page + 1) * PAGE].count(b'{"answer": ') > 5]  # fmt: skip
    assert len(leaves) >= 5
    for page in leaves[1::2]:
        content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    path.write_bytes(content)
    single = read_one_by_one(path, "rows", before["rows"])
    report = export(path, tmp_path / "new.sqlite")
    assert set(records(tmp_path / "new.sqlite")["rows"]) == single and 0 < len(single) < len(before["rows"])
    assert report.lost["rows"] == len(before["rows"]) - len(single) and not report.unknown
    named = {(each.run, each.row) for each in report.damages if each.table == "rows"}
    runs = {number: run.id for number, run in report.runs.items()}
    assert named == {(runs[kept[1]], kept[2]) for key, kept in before["rows"].items() if key not in single}


def unsealed(path: Path, table: str) -> int:
    """Number of records whose checksum a damage has made NULL, as if an older version had written them."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        if "checksum" not in [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]:
            return 0
        return int(connection.execute(f"SELECT count(*) FROM {table} WHERE checksum IS NULL").fetchone()[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(5))
def test_seeded_damages(whole: Path, tmp_path: Path, kind: str, seed: int) -> None:
    """An export never fails with a raw error; what is saved and what is named are all that there was."""
    before, path, new = records(whole), tmp_path / "s.sqlite", tmp_path / "new.sqlite"
    path.write_bytes(damaged(whole.read_bytes(), kind, seed))
    try:
        report = export(path, new)
    except StoreError as error:
        assert "what is left is `.recover` of SQLite's own program" in str(error)
        with pytest.raises(StoreError, match="cannot be read: "):
            check(path)
        assert not new.exists() and [each.name for each in tmp_path.iterdir()] == ["s.sqlite"]
        return
    found = check(path)
    lost = differences(before, new, report)
    # A damaged key may name what never was.
    assert all(unsaid <= 0 or table in report.unknown for table, (_, unsaid) in lost.items()), lost
    after = records(new)
    for table in set(TABLES) - {"runs", "evaluators"}:  # those have stand-ins, which say so
        first = int(table not in KEYED)  # an id may be that of another record, and means nothing
        was = {kept[first:] for kept in before[table].values()}
        changed = {kept[first:] for kept in after[table].values()} - was
        assert len(changed) <= unsealed(new, table), (table, changed)
    assert set(found.unknown) == set(report.unknown) and (found.is_whole <= (not lost))
    for table in (
        ("rows", "replaced") if kind != "many bytes" else ()
    ):  # a number that is hit may be that of another row
        blamed = sum("its checksum differs" in each.what for each in report.damages if each.table == table)
        gone = lost.get(table, (set(), 0))[0]
        assert len(gone & read_one_by_one(path, table, before[table])) <= blamed  # which may be what is damaged
    assert check(new).is_whole
    with Store(new) as store:
        for run in store.runs():
            assert len(list(run.stream_rows())) == report.runs[run._number].whole["rows"]
            assert len(list(run.scores())) == report.runs[run._number].whole["scores"]
            run.search("liegt")
        for evaluator in store.evaluators.list():
            assert store.evaluators.versions(evaluator.name)


# ------------------------------------------------------------------------------------- headers, and files that are none


@pytest.mark.parametrize(
    ("start", "stop", "what"),
    [
        (0, 16, "its header"),
        (16, 18, "its header"),  # bytes of a page
        (0, 100, "its header"),
        (0, PAGE, "its first page"),
        (100, PAGE, "its first page"),
        (0, PAGE, "its list of tables"),
    ],
)
@pytest.mark.parametrize("noise", [1, 255])
def test_the_beginning_of_the_file_is_gone(
    path: Path, tmp_path: Path, start: int, stop: int, what: str, noise: int
) -> None:
    """It is the same in all stores of a version, so that nothing behind it is lost."""
    before, content, new = records(path), path.read_bytes(), tmp_path / "new.sqlite"
    lost = bytearray(content)
    lost[start:stop] = bytes([noise]) * (stop - start)
    for page in _children(content) if what == "its list of tables" else []:
        lost[(page - 1) * PAGE : page * PAGE] = bytes([noise]) * PAGE
    path.write_bytes(lost)
    kept = path.read_bytes()
    found = places(path)
    assert found["the file"] == f"{what} cannot be read: that of an empty store is read in its place"
    assert export(path, new).n_lost == 0 and records(new) == before and check(new).is_whole
    assert path.read_bytes() == kept and sorted(each.name for each in tmp_path.iterdir()) == ["new.sqlite", "s.sqlite"]


def test_no_list_of_tables_fits_the_file(path: Path, tmp_path: Path) -> None:
    path.write_bytes(bytes(PAGE) + path.read_bytes()[20 * PAGE :])
    for work in (partial(check, path), partial(export, path, tmp_path / "new.sqlite")):
        with pytest.raises(StoreError, match=r"cannot be read: .*what is left is `.recover` of .*: sqlite3 /"):
            work()
    assert [each.name for each in tmp_path.iterdir()] == ["s.sqlite"]


def test_there_is_no_room_to_mend_the_beginning(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path.write_bytes(bytes(PAGE) + path.read_bytes()[PAGE:])
    monkeypatch.setattr("valor_gpu.store.first_pages.shutil.copyfile", full)
    with pytest.raises(StoreError, match=r"nor be copied to /.*: No space left on device: set TMPDIR"):
        check(path)


def test_what_opens_the_file_names_the_way_out(path: Path) -> None:
    content = path.read_bytes()
    for at, what in ((0, "no database"), (68, "another program's database"), (60, "already exists")):
        path.write_bytes(content[:at] + bytes(3) + b"\1" + content[at + 4 :])
        with pytest.raises(StoreError, match=f"{what}.*; (if it was a store, )?`valor-gpu store check /"):
            Store(path)
        assert export(path, path.with_name(f"{at}.sqlite")).n_lost == 0


def test_commands_in_messages_can_be_typed(path: Path) -> None:
    odd = path.with_name("runs of may; $HOME.sqlite")
    path.rename(odd)
    error = DamageError("row 1", "it is gone", str(odd))
    assert f"`valor-gpu store check '{odd}'`" in str(error) and f"`valor-gpu store export '{odd}' NEW`" in str(error)


def test_a_header_that_says_nothing_is_a_damage(path: Path, tmp_path: Path) -> None:
    before, content = records(path), bytearray(path.read_bytes())
    content[60:64], content[68:72] = b"\0\0\0\0", b"xxxx"
    path.write_bytes(content)
    assert places(path) == {"the file": "its header does not say that it is a store, and of which version"}
    assert export(path, tmp_path / "new.sqlite").n_lost == 0 and records(tmp_path / "new.sqlite") == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        (b"no database at all" * 100, "cannot be read: file is not a database; what is left is"),
        ("folder", "is a folder"),
        ("another", "is another program's database"),
        ("newer", "has version 99, and this valor_gpu knows versions up to"),
    ],
)
def test_what_is_no_store(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "s.sqlite"
    if content == "folder":
        path.mkdir()
    elif content in ("another", "newer"):
        if content == "newer":
            Store(path).close()
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99" if content == "newer" else "CREATE TABLE notes (text)")
        connection.close()
    elif content is not None:
        path.write_bytes(content)
    for work in (partial(check, path), partial(export, path, tmp_path / "new.sqlite")):
        with pytest.raises((InputError, StoreError), match=said):
            work()
    assert not (tmp_path / "new.sqlite").exists()


# -------------------------------------------------------------------------------------------------- others at work


def test_others_read_and_write_meanwhile(path: Path, tmp_path: Path) -> None:
    with Store(path) as store:
        run = store.run("going on")
        run.add_rows([StoredRow(2, "b", {})])
        with store._database.write() as connection:
            connection.execute("DELETE FROM rows WHERE run = 1")
            connection.execute("DELETE FROM totals WHERE run = 1")
            report = check(path)
            saved = export(path, tmp_path / "new.sqlite")
        assert (
            report.is_whole and report.runs[run._number].whole["rows"] == 2 and report.runs[1].whole["rows"] == ROWS + 1
        )
        assert saved.whole == report.whole and store.run("first").counts() == {"ok": 0}
    with Store(tmp_path / "new.sqlite") as new:
        assert new.run("first").counts() == {"ok": ROWS, "target_error": 1}


def test_a_file_that_changes_where_no_lock_reaches_is_an_error(path: Path) -> None:
    from valor_gpu.store.reading import source

    said = "was changed while it was read, by a process that began meanwhile: try again"
    with pytest.raises(StoreError, match=said), source(path):
        path.write_bytes(path.read_bytes() + bytes(PAGE))


def test_a_process_that_begins_to_write_while_a_store_is_saved_takes_nothing_along(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is still there in the end, and its checkpoint has changed the file."""
    from valor_gpu.store import rescue

    keep, writing = rescue._Writer.keep, contextlib.ExitStack()

    def written(self: Any, table: str, record: dict[str, Any]) -> str:
        if table == "runs" and record["id"] == 1:
            store = writing.enter_context(Store(path))
            store.run("first").delete()
            assert store.purge(0) == 1
        return keep(self, table, record)

    monkeypatch.setattr(rescue._Writer, "keep", written)
    with writing, pytest.raises(StoreError, match="was changed while it was read, by a process that began meanwhile"):
        export(path, tmp_path / "new.sqlite")
    assert not (tmp_path / "new.sqlite").exists()


def test_the_largest_number_of_a_row_is_no_damage(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("large", {})
        run.add_rows([StoredRow(LARGEST, "k", {"question": "q"})])
        run.add_scores([StoredScore(LARGEST, "f1_score", 0, 0.5)])
        assert check(store.path).is_whole
    assert export(tmp_path / "s.sqlite", tmp_path / "new.sqlite").n_lost == 0
    with Store(tmp_path / "new.sqlite") as store:
        run = store.run("large")
        assert [row.number for row in run.stream_rows()] == [score.row for score in run.scores()] == [LARGEST]


# ------------------------------------------------------------------------------------------------- the new file


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_the_new_store_must_not_exist(path: Path, tmp_path: Path, ending: str) -> None:
    (tmp_path / f"new.sqlite{ending}").write_bytes(b"mine")
    with pytest.raises(InputError, match=f"NEW must not exist but .*new.sqlite{ending} does"):
        export(path, tmp_path / "new.sqlite")
    assert (tmp_path / f"new.sqlite{ending}").read_bytes() == b"mine" and len(list(tmp_path.iterdir())) == 2
    with pytest.raises(InputError, match=r"NEW must lie in a folder that exists but .*nowhere does not"):
        export(path, tmp_path / "nowhere" / "new.sqlite")


@pytest.mark.parametrize("when", ["rows", "scores", "views"])
def test_a_disk_that_is_full_leaves_nothing(
    path: Path, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from valor_gpu.store.rescue import _Writer

    keep = _Writer.keep

    def full(self: Any, table: str, record: dict[str, Any]) -> str:
        if table == when:
            self._connection.execute("PRAGMA max_page_count = 1")
            record = {**record, "error": "x" * 10_000_000, "reason": "x" * 10_000_000, "settings": "x" * 10_000_000}
        return keep(self, table, record)

    monkeypatch.setattr(_Writer, "keep", full)
    with pytest.raises(StoreError, match=r"NEW .*new.sqlite cannot be written: .*full; nothing was made, STORE is as"):
        export(path, tmp_path / "new.sqlite")
    assert [each.name for each in tmp_path.iterdir()] == ["s.sqlite"]


# ---------------------------------------------------------------------------------------------------- the parts of it


@pytest.mark.parametrize("seed", seeds(20))
def test_numbers_are_a_set(seed: int) -> None:
    draw = random.Random(seed)
    numbers, plain = Numbers(), set[int]()
    for number in [draw.randrange(60) for _ in range(100)]:
        assert numbers.add(number) == (number not in plain)
        plain.add(number)
        assert len(numbers) == len(plain) and [n for n in range(-1, 62) if n in numbers] == sorted(plain)


def test_records_that_vanish_without_a_fault_are_named_by_an_index(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
    connection.execute("CREATE INDEX t_a ON t (a)")
    connection.executemany("INSERT INTO t VALUES (?, ?, '')", [(n, f"a{n}") for n in range(1, 6)])
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'").fetchone()[0]
    connection.close()
    content = bytearray((tmp_path / "s.sqlite").read_bytes())
    content[(root - 1) * PAGE + 4] = 3  # cells of the page
    (tmp_path / "s.sqlite").write_bytes(content)
    connection = sqlite3.connect(tmp_path / "s.sqlite")
    connection.text_factory = text_of
    scan = TableScan(connection, "t", ["a"], [Index("t_a", ("a",))])
    assert list(scan) == [(1, "a1"), (2, "a2"), (3, "a3")] and scan.lost == {4: {"a": "a4"}, 5: {"a": "a5"}}
    connection.close()
