"""A store of every kind of content, all that reads it, and damages of its file."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import DamageError, InputError, StoreError
from valor_gpu.store import (
    Feedback,
    RunHead,
    Store,
    StoredRow,
    StoredScore,
    StoredTrace,
    groups,
    keep_traces,
    label_queues,
    opinions,
    progress,
    replaced,
    selection,
    size_of_traces,
    texts,
    traces,
    traces_of,
    tries,
)
from valor_gpu.store.checksums import damages_met, tell
from valor_gpu.store.columns import Columns
from valor_gpu.store.edits import edit_run, edits_of
from valor_gpu.store.rated import rated_scores
from valor_gpu.store.runs import Run
from valor_gpu.store.score_changes import withdraw_scores
from valor_gpu.store.states import MAGIC, keep_state

N = 60
NAMES = ("f1_score", "gpt_fluency", "judged é")
Reader = Callable[[Store], Any]


def fill(path: Path) -> None:
    """Makes the store, always the same: an ended run, one that goes on, and what stands beside them."""
    ids, times, places = (itertools.count() for _ in range(3))
    with pytest.MonkeyPatch.context() as patch, Store(path) as store:
        patch.setattr("time.time", lambda: 1.6e9 + next(times) / 8)
        patch.setattr("secrets.token_hex", lambda size: f"{next(ids):0{2 * size}x}")
        patch.setattr("secrets.randbelow", lambda most: next(places))
        ended = store.create_run(
            "capitals é", {"metrics": list(NAMES), "deep": {"a": [1, 2.5, None]}}, {"model": "é"}, "d1"
        )
        _rows(ended)
        _scores(ended)
        edit_run(ended, note="a note")
        for row in range(1, 20):
            verdict = bool(row % 2) if row % 3 else None
            ended.add_feedback(Feedback(row, NAMES[row % 2], f"ana{row % 3}", row / 7, verdict, f"note é {row}"))
        with ended._write() as connection:
            keep_state(connection, ended._number, MAGIC + bytes(range(256)) * 3)
        progress.keep(ended, progress.RunProgress(phase="ending", done_rows=N, problem="none é"))
        ended.finish("finished", {"metrics": {"mean_f1_score": 0.25}, "text": "é"})
        tries.note_try(ended, "the server was gone")
        live = store.create_run("live", {"metrics": ["f1_score"]})
        _rows(live, 15)
        live.add_scores([StoredScore(row, "f1_score", 0, row / 16, usage={"prompt": row}) for row in range(1, 12)])
        progress.keep(live, progress.RunProgress(done_rows=11))
        for number in range(3):
            store.evaluators.save("politeness", {"prompt": f"Is it polite? {number} é", "n": number}, f"note {number}")
            store.datasets.save(f"d{number}", f"name é {number}", ["question", "answer"], 10 + number, "x.csv")
            store.views.save("filter", f"view {number}", {"columns": ["a", number]})
        label_queues.keep_label(store, ended, label_queues.LabelQueue("f1_score", "ana", "random", 7), 4)


def _rows(run: Run, n: int = N) -> None:
    def row(number: int, again: bool) -> StoredRow:
        failed = number % 9 == 0 or (number == 5 and not again)
        lone = "\ud800" if number % 10 == 0 else ""
        words = f"What is {number * 7919}? é 東京 {lone}" + " padding" * (number % 50)
        inputs = {"question": words, "part": "abc"[number % 3]}
        if failed:
            return StoredRow(
                number, f"k{number}", inputs, {"_usage": {"prompt": 3}}, "target_error", f"HTTP 500 {number}"
            )
        return StoredRow(number, f"k{number}", inputs, {"answer": f"It is {number}."})

    answers = [StoredTrace(number, content={"calls": [{"returned": f"é {number}"}]}) for number in (1, 2, 3)]
    run.add_rows([row(number, False) for number in range(1, n + 1)], answers)
    run.add_rows([row(5, True)])


def _scores(run: Run) -> None:
    base = StoredTrace(1, NAMES[1], content={"prompts": True, "calls": ["prompt " * 60]}).as_base()
    run.add_scores([], [base])
    for number in (each for each in range(1, N + 1) if each % 9):
        failed = StoredScore(number, NAMES[1], 0, None, "timeout", f"after {number} s é", usage={"prompt": number})
        right = StoredScore(number, NAMES[1], 0, number % 5 + 0.5, "ok", f"since {number} é", "High", {"n": [number]},
                            {"prompt": 9 + number}, number / 3)  # fmt: skip
        trace = StoredTrace(number, NAMES[1], 0, {"prompts": True, "calls": ["prompt " * 60 + str(number)]}, base)
        scores = [StoredScore(number, NAMES[0], 0, number / N), failed if number % 4 == 0 else right]
        scores += [StoredScore(number, NAMES[2], repeat, number / 7 + repeat) for repeat in (0, 1)]
        run.add_scores(scores, [trace])
    run.add_scores([StoredScore(4, NAMES[1], 0, 3.5)])
    withdraw_scores(run, [StoredScore(7, NAMES[0], 0, 7 / N)], "withdrawn", "wrong é")
    keep_traces(run, [StoredTrace(8, NAMES[1], 0, {"calls": []})])


def _whole_heads(store: Store) -> list[RunHead]:
    for head in (found := store.heads()):
        if head.damage:
            tell(DamageError(head.id, head.damage), store.path)
    return [head for head in found if not head.damage]


def _run(read: Callable[[Run], Any]) -> Iterator[tuple[str, Reader]]:
    for name in ("capitals é", "live"):
        yield name, lambda store, name=name: read(store.run(name))


_OF_RUNS: dict[str, Callable[[Run], Any]] = {
    "run": lambda run: (
        run.id,
        run.name,
        run.config,
        run.tags,
        run.dataset,
        run.created,
        run.state,
        run.finished_summary,
    ),
    "rows": lambda run: run.rows(limit=1000),
    "rows behind": lambda run: run.rows(17, 8),
    "rows by number": lambda run: [run.rows(numbers=[number]) for number in range(1, N + 1)],
    "rows by key": lambda run: run.rows(keys=[f"k{number}" for number in range(1, N + 1)]),
    "failed rows": lambda run: run.rows(status="target_error"),
    "right rows": lambda run: run.rows(status="ok", limit=1000),
    "stream": lambda run: list(run.stream_rows()),
    "statuses": lambda run: run.row_statuses(range(1, N + 1)),
    "counts": Run.counts,
    "scores": lambda run: list(run.scores()),
    "scores of one": lambda run: list(run.scores(NAMES[1], first=5, last=30)),
    "score pages": lambda run: [run.score_page(each, limit=20, descending=down) for each in NAMES for down in (0, 1)],
    "scores between": lambda run: run.score_page(NAMES[0], between=(0.25, 0.6), limit=1000),
    "missing": lambda run: list(run.missing(NAMES, 2, ["timeout"])),
    "summary": Run.summary,
    "slices": lambda run: run.slices("part"),
    "histogram": lambda run: [run.histogram(each, [0.0, 0.25, 0.5, 1.0, 3.0]) for each in NAMES],
    "words": lambda run: [
        (row, found.how) for found in [run.search("padding padding", limit=1000)] for row in found.rows
    ],
    "signs": lambda run: run.search("東京", limit=1000),
    "feedback": Run.feedback,
    "traces": lambda run: [trace for row in range(1, N + 1) for trace in traces_of(run, row)],
    "sizes of traces": lambda run: bool(size_of_traces(run)) and bool(traces.about_size_of_traces(run)),
    "prompts": traces.prompts_of_traces,
    "edits": edits_of,
    "progress": progress.progress_of,
    "replaced": lambda run: list(replaced.replaced_usage(run)),
    "last try": tries.last_try,
    "texts": lambda run: list(texts.kept_rows(run)),
    "rated": rated_scores,
    "evaluators": lambda run: Columns(run).evaluators(),
    "values": lambda run: [Columns(run).values(each) for each in NAMES],
    "failures": lambda run: [Columns(run).failures(each) for each in NAMES],
    "levels": lambda run: [Columns(run).levels(each) for each in NAMES],
    "details": lambda run: [list(Columns(run).details(each)) for each in NAMES],
    "usage": lambda run: list(Columns(run).usage()),
    "columns of scores": lambda run: list(Columns(run).score_pages()),
    "columns of rows": lambda run: list(Columns(run).rows(inputs=True)),
    "keys": lambda run: list(Columns(run).row_keys()),
    "columns of statuses": lambda run: list(Columns(run).statuses()),
    "failed groups": lambda run: (groups.failed_rows(run), groups.failed_scores(run), groups.failed_totals(run)),
    "failed numbers": lambda run: [groups.failed_numbers(run, each) for each in NAMES],
    "worst": lambda run: groups.worst_rows(run, {NAMES[0]: (0, 1), NAMES[1]: (0, 5)}),
    "labelled": lambda run: [opinions.labelled_rows(run, NAMES[0], f"ana{n}") for n in range(3)],
    "answered": opinions.answered_rows,
    "by score": lambda run: opinions.rows_by_score(run, NAMES[0]),
    "row numbers": lambda run: list(selection.row_numbers(run)),
    "unanswered": lambda run: sorted(selection.rows_unanswered(run)),
    "repeated": lambda run: [selection.is_repeated(run, each) for each in NAMES],
    "between": lambda run: sorted(selection.rows_between(run, NAMES[0], [(">=", 0.25), ("<", 0.75)])),
    "by value": lambda run: selection.rows_by_value(run, NAMES[0], True),
    "failed scores": lambda run: sorted(selection.rows_failed(run, NAMES[1], "timeout")),
    "rows with labels": selection.rows_labelled,
    "rows with text": lambda run: sorted(selection.rows_with_text(run, "padding")[0]),
    "scan": lambda run: selection.scan_text(run, "padding"),
}

READERS: dict[str, Reader] = {
    "runs": lambda store: [(run.id, run.name, run.config, run.tags) for run in store.runs()],
    "heads": lambda store: _whole_heads(store),
    "contents": lambda store: list(store.contents([run.id for run in store.runs()]).items()),
    "finished at": lambda store: [store.finished_at(run) is not None for run in store.runs()],
    "state file": lambda store: [store.state_file(run) for run in store.runs()],
    "owner": lambda store: [store.owner(run) for run in store.runs()],
    "library": lambda store: store.evaluators.list(),
    "all versions": lambda store: store.evaluators.versions("politeness"),
    "versions": lambda store: [store.evaluators.get("politeness", number) for number in (1, 2, 3)],
    "difference": lambda store: store.evaluators.diff("politeness", 1, 3),
    "data sets": lambda store: store.datasets.list(),
    "data set": lambda store: [store.datasets.get(f"d{number}") for number in range(3)],
    "views": lambda store: store.views.list("filter"),
    "view": lambda store: [store.views.get("filter", f"view {number}") for number in range(3)],
    "queues": lambda store: label_queues.label_queues(store, store.run("capitals é")),
    **{
        f"{what} of {name}": reader
        for what, read in _OF_RUNS.items()
        for name, reader in _run(read)
    },
}  # fmt: skip


def outcomes(path: Path, readers: dict[str, Reader] = READERS) -> Iterator[tuple[str, Any]]:
    """What each reader says of a store: its value, or an error that a user may see; another error leaves this."""
    try:
        store = Store(path)
    except (StoreError, InputError) as error:
        yield from ((name, error) for name in readers)
        return
    with store:
        for name, read in readers.items():
            yield name, _outcome(store, read)


class Said(str):
    """What a reader has returned, as a text.

    Attributes:
        items: texts of the items of a list or set.
        is_part: whether the list says that it lacks what is damaged.
    """

    items: list[str]
    is_part: bool


def _outcome(store: Store, read: Reader) -> Any:
    try:
        with damages_met() as met:
            found = read(store)
    except (StoreError, InputError) as error:
        return error
    said = Said(repr(found))
    said.items, said.is_part = list(map(repr, found)) if isinstance(found, (list, set)) else [], bool(met)
    return said


_INDEXES = {
    "rows": {"sqlite_autoindex_rows_1": "number", "sqlite_autoindex_rows_2": "key"},
    "scores": {"sqlite_autoindex_scores_1": "row, evaluator, repeat", "scores_value": "evaluator, value, row"},
    "rows that failed": {"rows_failed": "status, number"},
    "scores that failed": {"scores_failed": "evaluator, status, row"},
}
_WHERE = {"rows_failed": "AND status <> 'ok'", "scores_failed": "AND value IS NULL"}


def entries(path: Path) -> dict[str, dict[str, Any]]:
    """What indexes have of the run that goes on: rows and scores, by two indexes, and those that failed, by one."""
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    try:
        return {what: {name: _entries(connection, what.split()[0], name, columns) for name, columns in indexes.items()}
                for what, indexes in _INDEXES.items()}  # fmt: skip
    finally:
        connection.close()


def _entries(connection: sqlite3.Connection, table: str, name: str, columns: str) -> Any:
    sql = f"SELECT {columns} FROM {table} INDEXED BY {name} WHERE run = 2 {_WHERE.get(name, '')} ORDER BY {columns}"
    try:
        return connection.execute(sql).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the other one of a message that quotes the file
        return str(error)


def damaged(content: bytes, seed: int) -> bytes:
    """The bytes of a file with a damage: changed bytes, zeros, a cut, or two pages that changed places."""
    randomly = random.Random(seed)
    changed = bytearray(content)
    kind = seed % 6
    size = 4096
    if kind == 3:
        start, length = randomly.randrange(len(changed)), randomly.choice((16, 300, 5000))
        changed[start : start + length] = bytes(len(changed[start : start + length]))
    elif kind == 4:
        del changed[randomly.randrange(len(changed)) :]
    elif kind == 5:
        one, other = (size * randomly.randrange(1, len(changed) // size) for _ in range(2))
        changed[one : one + size], changed[other : other + size] = (
            content[other : other + size],
            content[one : one + size],
        )
    else:
        for _ in range((1, 5, 50)[kind]):
            changed[randomly.randrange(len(changed))] ^= 1 << randomly.randrange(8)
    return bytes(changed)


def all_of(values: Any) -> list[Any]:
    """The items of nested lists."""
    return list(chain.from_iterable(map(all_of, values))) if isinstance(values, list) else [values]
