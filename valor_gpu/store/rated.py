"""Scores that people gave, each beside the evaluator's own of the same row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from valor_gpu.store.checksums import fetched
from valor_gpu.store.opinions import labels_of
from valor_gpu.store.records import CHECKED_SCORE, StoredScore
from valor_gpu.store.runs import Run
from valor_gpu.store.totals import check_scores


class Rated(NamedTuple):
    """What a person says of a score.

    Attributes:
        evaluator: whose score is meant.
        row: number of the row.
        author: who says it.
        value: the person's own score, or None.
        passed: the person's own verdict, or None.
        score: of the evaluator, the mean over its repeats; None where it has none.
    """

    evaluator: str
    row: int
    author: str
    value: float | None
    passed: bool | None
    score: float | None


def rated_scores(run: Run) -> list[Rated]:
    """Returns what people say of scores, by evaluator, row and author.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Feedback, Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "a", {})])
        ...     _ = run.add_scores([StoredScore(1, "gpt_fluency", 0, 4.0), StoredScore(1, "gpt_fluency", 1, 5.0)])
        ...     run.add_feedback(Feedback(1, "gpt_fluency", "me", value=2))
        ...     rated_scores(run)
        [Rated(evaluator='gpt_fluency', row=1, author='me', value=2.0, passed=None, score=4.5)]
    """
    found = sorted((each for each in labels_of(run) if each.evaluator), key=lambda each: each.evaluator)
    with run._database.read() as connection:
        number = run._number
        check_scores(connection, number)
        scores = {row: list(_scores(connection, number, row)) for row in {each.row for each in found}}
    return [
        Rated(each.evaluator, each.row, each.author, each.value, each.passed, _mean(scores[each.row], each.evaluator))
        for each in found
    ]


def _scores(connection: sqlite3.Connection, run: int, row: int) -> Iterator[StoredScore]:
    sql = f"SELECT {CHECKED_SCORE} FROM scores WHERE run = ? AND row = ?"
    return (StoredScore.kept(kept, run) for kept in fetched(connection, sql, (run, row)))


def _mean(scores: Sequence[StoredScore], evaluator: str) -> float | None:
    values = [each.value for each in scores if each.evaluator == evaluator and each.value is not None]
    return sum(values) / len(values) if values else None
