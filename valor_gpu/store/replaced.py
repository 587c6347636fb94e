"""Usage of failures that another try has replaced: it stays paid. Standard library alone.

The store keeps it in the transaction of the replacement: of scores by triggers, of answers by :func:`keep_spending`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from valor_gpu.store.records import OK
from valor_gpu.store.traces import ANSWER
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_json

if TYPE_CHECKING:
    from valor_gpu.store.database import RunHandle

_PAGE = 10_000
_ANY_FAILED = f"SELECT 1 FROM rows INDEXED BY rows_failed WHERE run = ? AND status <> '{OK}' LIMIT 1"
_FAILED = f"SELECT outputs FROM rows WHERE run = ? AND number = ? AND key = ? AND status <> '{OK}'"


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


def keep_spending(connection: sqlite3.Connection, run: int, rows: Iterable[Sequence[Any]]) -> None:
    """Keeps what the stored answers cost that rows are about to replace, within their transaction.

    Args:
        connection: of the store.
        run: number of the run.
        rows: as they are bound to a statement: run, number, key, and so on.
    """
    if connection.execute(_ANY_FAILED, (run,)).fetchone() is None:
        return
    for _, number, key, *_ in rows:
        kept = connection.execute(_FAILED, (run, number, key)).fetchone()
        outputs = {} if kept is None else unpacked_json(kept[0])
        if usage := usage_of_answer(outputs):
            connection.execute(
                "INSERT INTO replaced (run, evaluator, usage, seconds) VALUES (?, ?, ?, ?)",
                (run, packed(ANSWER), packed_json("usage", usage), outputs.get("_seconds")),
            )


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
    sql = "SELECT id, evaluator, usage, seconds FROM replaced WHERE run = ? AND id > ? ORDER BY id LIMIT ?"
    after = 0
    while True:
        with run._database.read() as connection:
            page = connection.execute(sql, (run._number, after, _PAGE)).fetchall()
        for _, evaluator, usage, seconds in page:
            yield ReplacedUsage(unpacked(evaluator), unpacked_json(usage), seconds)
        if len(page) < _PAGE:
            return
        after = page[-1][0]
