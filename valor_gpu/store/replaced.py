"""Usage of failures that another try has replaced: it stays paid. Standard library alone.

The store keeps it in the transaction of the replacement: of scores by triggers, of answers by :func:`keep_spending`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from valor_gpu.store.checksums import check, checksum, fetched, placed, real_or_none
from valor_gpu.store.records import CHECKED_ROW, OK, StoredRow
from valor_gpu.store.totals import check_count_of
from valor_gpu.store.traces import ANSWER
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_mapping

if TYPE_CHECKING:
    from valor_gpu.store.database import RunHandle

_PAGE = 10_000
_ANY_FAILED = f"SELECT 1 FROM rows INDEXED BY rows_failed WHERE run = ? AND status <> '{OK}' LIMIT 1"
_FAILED = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number = ? AND key = ? AND status <> '{OK}'"
_NEW = "SELECT evaluator, usage, seconds, id FROM replaced WHERE run = ? AND id > ?"


class ReplacedUsage(NamedTuple):
    """Holds the usage of a failure that was replaced.

    Attributes:
        evaluator: whose score it was; ``""`` for an answer of the target.
        usage: ``prompt``, ``completion`` and ``cached`` tokens; of a score also ``attempts``, of an answer ``cost``.
        seconds: that it took; None where they are unknown.
    """

    evaluator: str
    usage: Mapping[str, Any]
    seconds: float | None


def usage_of_answer(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the target spent on an answer, as the usage of a replaced one; empty where it says nothing.

    Args:
        outputs: of a row.

    Example:
        >>> usage_of_answer({"answer": "Paris", "_usage": {"prompt": 9, "completion": 1, "cached": 0}, "_cost": None})
        {'prompt': 9, 'completion': 1, 'cached': 0}
    """
    usage, cost = outputs.get("_usage"), outputs.get("_cost")
    return {**(usage if isinstance(usage, Mapping) else {}), **({} if cost is None else {"cost": cost})}


def keep_spending(connection: sqlite3.Connection, run: int, rows: Iterable[Sequence[Any]]) -> int | None:
    """Keeps what the stored answers cost that rows are about to replace, within their transaction.

    Returns:
        What :func:`seal_replaced` takes when they are replaced; None where no row can be replaced.

    Args:
        connection: of the store.
        run: number of the run.
        rows: as they are bound to a statement: run, number, key, and so on.
    """
    if connection.execute(_ANY_FAILED, (run,)).fetchone() is None:
        return None
    last: int = connection.execute("SELECT max(id) FROM replaced WHERE run = ?", (run,)).fetchone()[0] or 0
    for _, number, key, *_ in rows:
        kept = fetched(connection, _FAILED, (run, number, key))
        outputs = StoredRow.kept(kept[0], run).outputs if kept else {}
        if usage := usage_of_answer(outputs):
            connection.execute(
                "INSERT INTO replaced (run, evaluator, usage, seconds) VALUES (?, ?, ?, ?)",
                (run, packed(ANSWER), packed_json("usage", usage), outputs.get("_seconds")),
            )
    return last


def seal_replaced(connection: sqlite3.Connection, run: int, after: int) -> None:
    """Adds checksums to what triggers have kept, which cannot compute them.

    Args:
        connection: within a transaction that writes.
        run: number of the run.
        after: id of the last record that was there before.
    """
    new = [(checksum((run, *kept)), number) for *kept, number in fetched(connection, _NEW, (run, after))]
    connection.executemany("UPDATE replaced SET checksum = ? WHERE id = ?", new)


def replaced_usage(run: RunHandle) -> Iterator[ReplacedUsage]:
    """Yields what the failures of a run cost that were replaced, in the order of replacement.

    Args:
        run: of a store. What older versions replaced is not known.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "a", {})])
        ...     failed = StoredScore(1, "gpt_fluency", 0, None, "timeout", usage={"prompt": 9, "completion": 0})
        ...     _ = run.add_scores([failed])
        ...     _ = run.add_scores([StoredScore(1, "gpt_fluency", 0, 4.0)])
        ...     list(replaced_usage(run))
        [ReplacedUsage(evaluator='gpt_fluency', usage={'prompt': 9, 'completion': 0}, seconds=None)]
    """
    sql = "SELECT id, evaluator, usage, seconds, checksum FROM replaced WHERE run = ? AND id > ? ORDER BY id LIMIT ?"
    after = 0
    while True:
        with run._database.read() as connection:
            check_count_of(connection, "replaced", run._number)
            page = fetched(connection, sql, (run._number, after, _PAGE))
            found = [_replaced(run._number, *kept) for _, *kept in page]
        yield from found
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def _replaced(run: int, evaluator: Any, usage: Any, seconds: Any, kept: Any) -> ReplacedUsage:
    place = "usage of a replaced failure of run "
    check((run, evaluator, usage, seconds), kept, place, run)
    with placed(place, run):
        return ReplacedUsage(unpacked(evaluator), unpacked_mapping(usage), real_or_none(seconds))
