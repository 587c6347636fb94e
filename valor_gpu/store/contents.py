"""What the tables of a store hold, and what is wrong with a record that is damaged."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from valor_gpu.errors import DamageError, StoreError
from valor_gpu.store.checksums import WRONG, checksum
from valor_gpu.store.evaluators import content_hash
from valor_gpu.store.heads import SEALED
from valor_gpu.store.records import LARGEST, OK, ROW_COLUMNS, SCORE_COLUMNS, StoredRow, StoredScore
from valor_gpu.store.runs import RUN_STATES
from valor_gpu.store.scanning import LARGEST_ID, Index
from valor_gpu.store.states import MAGIC
from valor_gpu.store.traces import check_trace, text_of_base
from valor_gpu.store.values import unpacked, unpacked_json

Record = Mapping[str, Any]


class Damaged(Exception):
    """Says what is wrong with a value."""


def problem(check: Callable[[], object]) -> str:
    """Returns what a reader says of damaged values; empty where it reads them."""
    try:
        check()
    except DamageError as error:
        return error.what
    except (Damaged, StoreError) as error:
        return str(error)
    except (UnicodeDecodeError, ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        return f"it cannot be read: {error}"
    return ""


# ------------------------------------------------------------------------------------------------- values of columns


def _text(value: Any) -> str:
    if type(value) not in (str, bytes):
        raise Damaged("it is no text" if type(value) in (int, float, type(None)) else "it is no UTF-8 text")
    return unpacked(value)


def _word(value: Any) -> None:
    if type(value) is not str or not value:
        raise Damaged("it is no word")


def _blob(value: Any) -> None:
    if type(value) is not bytes:
        raise Damaged("it is no bytes")


def _integer(value: Any) -> None:
    if type(value) is not int:
        raise Damaged("it is no whole number")


def _number(value: Any) -> None:
    _integer(value)
    if not 1 <= value <= LARGEST_ID:
        raise Damaged("it is no whole number from 1")


def _of_row(value: Any) -> None:
    """Checks the number of a row, which is the user's, unlike an id."""
    _integer(value)
    if not 1 <= value <= LARGEST:
        raise Damaged("it is no whole number from 1")


def _finite(value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise Damaged("it is no finite number")


def _object(value: Any) -> None:
    if problem(lambda: unpacked_json(_text(value))):
        raise Damaged("it is no JSON")
    if type(unpacked_json(value)) is not dict:
        raise Damaged("it is no JSON object")


def _list(value: Any) -> None:
    if problem(lambda: unpacked_json(_text(value))) or type(unpacked_json(value)) is not list:
        raise Damaged("it is no JSON list")


def _state_file(value: Any) -> None:
    _blob(value)
    if not value.startswith(MAGIC):
        raise Damaged("it is no state file")


def _copies(value: Any) -> None:
    _blob(value)
    value.decode()


def _state(value: Any) -> None:
    if value not in RUN_STATES:
        raise Damaged(f"it is none of {', '.join(RUN_STATES)}")


def _or_none(check: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: None if value is None else check(value)


# -------------------------------------------------------------------------------------------------- whole records


def _row(record: Record) -> None:
    row = StoredRow.kept(tuple(record.get(column) for column in ROW_COLUMNS.split(", ")))
    if not row.status:
        raise Damaged("its status is empty")


def _score(record: Record) -> None:
    score = StoredScore.kept(tuple(record.get(column) for column in SCORE_COLUMNS.split(", ")))
    if (score.value is None) == (score.status == OK):
        raise Damaged(f"it has the status {score.status!r} and {'no' if score.value is None else 'a'} value")


def _evaluator_content(record: Record) -> None:
    if content_hash(unpacked_json(record["content"])) != record["hash"]:
        raise Damaged("it is not what its hash says")


def check_kept_trace(record: Record, bases: Mapping[tuple[int, int], bytes]) -> None:
    """Checks that a trace can be read; see :func:`~valor_gpu.store.traces.check_trace`.

    Raises:
        StoreError: it is damaged.
    """
    if record["repeat"] < 0:
        text_of_base(record["content"])
    else:
        check_trace(record["content"], bases)


class Table(NamedTuple):
    """Describes a table.

    Attributes:
        name: of the table.
        columns: what a whole value is, by column; columns that are not here are not looked at.
        place: words for a record, ``{run}`` and ``{column}`` in braces.
        indexes: that name a record which cannot be read.
        keys: of a table without ids.
        check: of a record whose columns are whole.
        sealed: columns of which a record has a checksum, in its order.
        is_saved: whether an export has it.
        since: version of the store that has it first.
    """

    name: str
    columns: Mapping[str, Callable[[Any], object]]
    place: str
    indexes: tuple[Index, ...] = ()
    keys: tuple[str, ...] = ()
    check: Callable[[Record], None] | None = None
    sealed: tuple[str, ...] = ()
    is_saved: bool = True
    since: int = 1


def _unique(table: str, *columns: str, number: int = 1) -> Index:
    return Index(f"sqlite_autoindex_{table}_{number}", columns)


_OF_A_SCORE = {"run": _number, "row": _of_row, "evaluator": _text}
_TIMES = _or_none(_finite)

RUNS = Table(
    "runs",
    {
        "id": _number, "uid": _word, "name": _text, "state": _state, "config": _object, "tags": _object,
        "dataset": _text, "summary": _or_none(_object), "created": _finite, "finished": _TIMES, "deleted": _TIMES,
        "indexed": _integer, "note": _text, "edited": _TIMES,
    },
    "record of run {uid}",
    (_unique("runs", "uid"), Index("runs_name", ("name", "id"))),
    sealed=("id", *SEALED),
)  # fmt: skip
ROWS = Table(
    "rows",
    {
        "id": _number, "run": _number, "number": _of_row, "key": _text, "inputs": _object, "outputs": _object,
        "status": _text, "error": _text,
    },
    "row {number} of run {run}",
    (_unique("rows", "run", "number"), _unique("rows", "run", "key", number=2)),
    check=_row,
    sealed=("run", "number", "key", "inputs", "outputs", "status", "error"),
)  # fmt: skip
SCORES = Table(
    "scores",
    {
        "id": _number, **_OF_A_SCORE, "repeat": _integer, "value": _or_none(_finite), "status": _text,
        "reason": _text, "level": _text, "details": _or_none(_object), "usage": _or_none(_object), "seconds": _TIMES,
    },
    "score of row {row} by {evaluator!r}, repeat {repeat}, in run {run}",
    (_unique("scores", "run", "row", "evaluator", "repeat"),),
    check=_score,
    sealed=("run", "row", "evaluator", "repeat", "value", "status", "reason", "level", "details", "usage", "seconds"),
)  # fmt: skip
FEEDBACK = Table(
    "feedback",
    {
        "id": _number, **_OF_A_SCORE, "author": _text, "value": _or_none(_finite), "passed": _or_none(_integer),
        "note": _text, "created": _finite,
    },
    "feedback of {author!r} on row {row} and {evaluator!r} in run {run}",
    (_unique("feedback", "run", "row", "evaluator", "author"),),
    sealed=("run", "row", "evaluator", "author", "value", "passed", "note", "created"),
)  # fmt: skip
TRACES = Table(
    "traces",
    {"id": _number, **_OF_A_SCORE, "repeat": _integer, "content": _blob},
    "trace of row {row} by {evaluator!r}, repeat {repeat}, in run {run}",
    (_unique("traces", "run", "row", "evaluator", "repeat"),),
    since=3,
    sealed=("run", "row", "evaluator", "repeat", "content"),
)
REPLACED = Table(
    "replaced",
    {"id": _number, "run": _number, "evaluator": _text, "usage": _object, "seconds": _TIMES},
    "spending {id} on a replaced try of {evaluator!r} in run {run}",
    (Index("replaced_run", ("run", "id")),),
    since=3,
    sealed=("run", "evaluator", "usage", "seconds"),
)
STATES = Table(
    "states",
    {"run": _number, "content": _state_file},
    "state file of run {run}",
    sealed=("run", "content"),
    since=2,
)
PROGRESS = Table(
    "progress",
    {"run": _number, "content": _object, "changed": _finite},
    "progress of run {run}",
    sealed=("run", "content", "changed"),
    since=3,
)
LEASES = Table(
    "leases",
    {"run": _number, "token": _word, "pid": _integer, "started": _text, "machine": _text, "heartbeat": _finite},
    "lease of run {run}",
    is_saved=False,
)
ROW_TEXTS = Table(
    "row_texts",
    {"id": _number, "run": _number, "numbers": _text, "texts": _copies},
    "copy {id} of texts for the search in run {run}",
    (Index("row_texts_run", ("run",)),),
    is_saved=False,
    since=3,
    sealed=("run", "numbers", "texts"),
)
EVALUATORS = Table(
    "evaluators",
    {"id": _number, "name": _text, "deleted": _TIMES},
    "record of evaluator {name!r}",
    (_unique("evaluators", "name"),),
    sealed=("name", "deleted"),
)
CONTENTS = Table(
    "evaluator_contents",
    {"hash": _word, "content": _object},
    "content {hash} of an evaluator",
    keys=("hash",),
    check=_evaluator_content,
)
VERSIONS = Table(
    "evaluator_versions",
    {"evaluator": _number, "number": _number, "hash": _word, "note": _text, "created": _finite},
    "version {number} of evaluator {evaluator!r}",
    keys=("evaluator", "number"),
    sealed=("evaluator", "number", "hash", "note", "created"),
)
DATASETS = Table(
    "datasets",
    {"hash": _text, "name": _text, "columns": _list, "rows": _integer, "source": _text, "created": _finite},
    "data set {name!r} ({hash})",
    keys=("hash",),
    sealed=("hash", "name", "columns", "rows", "source", "created"),
)
VIEWS = Table(
    "views",
    {"kind": _text, "name": _text, "settings": _object, "changed": _finite},
    "settings {name!r} of the kind {kind!r}",
    keys=("kind", "name"),
    sealed=("kind", "name", "settings", "changed"),
)

CHECKS = Table(
    "checks",
    {"about": _word, "checksum": _integer},
    "checksum of the {about} {first!r} {second!r}",
    keys=("about", "first", "second"),
    is_saved=False,
    since=4,
)
TOTALS = Table(
    "totals",
    {"run": _number, "content": _object},
    "totals of run {run}",
    sealed=("run", "content"),
    is_saved=False,
    since=4,
)
COUNTS = Table(
    "counts",
    {"about": _word, "run": _integer, "n": _integer},
    "number of {about} of run {run}",
    keys=("about", "run"),
    is_saved=False,
    since=4,
)

_LATER = ("note", "edited")
"""Columns of runs that older stores lack."""
OF_RUNS = (ROWS, SCORES, FEEDBACK, TRACES, REPLACED, STATES, PROGRESS, LEASES, ROW_TEXTS)
"""Tables whose records belong to a run; that of the rows comes before those of what is said of rows."""
OF_ROWS = (SCORES, FEEDBACK, TRACES)
"""Tables whose records belong to a row."""
TABLES = (RUNS, *OF_RUNS, EVALUATORS, CONTENTS, VERSIONS, DATASETS, VIEWS, CHECKS, TOTALS, COUNTS)
"""All of them, each behind those that it refers to."""


def faults(table: Table, record: Record) -> dict[str, str]:
    """Returns what is wrong with a record, by column; under ``""`` what is wrong with it as a whole."""
    found = {}
    for column, check in table.columns.items():
        if column not in record:
            said = "" if column in _LATER else "it is not in the file's list of tables"
        else:
            said = problem(lambda check=check, column=column: check(record[column]))  # type: ignore[misc]
        if said:
            found[column] = said
    if not found and table.check is not None and (said := problem(lambda: table.check(record))):  # type: ignore[misc]
        found[""] = said
    if not found and not _is_sealed(table, record):
        found[""] = WRONG
    return found


def _is_sealed(table: Table, record: Record) -> bool:
    """Returns whether a record is what was written, as far as its checksum says; older versions kept none."""
    kept = record.get("checksum") if table.sealed else None
    if kept is not None and kept != checksum(tuple(record[column] for column in table.sealed)):
        return False
    return table is not SCORES or record.get("again") is None or record["again"] == record["value"]
