"""Scores that people gave, each beside the evaluator's own of the same row."""

from __future__ import annotations

from typing import Any, NamedTuple

from valor_gpu.store.checksums import WRONG, damage, fetched
from valor_gpu.store.records import CHECKED_FEEDBACK, Feedback
from valor_gpu.store.runs import Run
from valor_gpu.store.totals import check_scores

_SELECT = f"""SELECT {", ".join(f"feedback.{column}" for column in CHECKED_FEEDBACK.split(", "))},
    total(scores.again IS NOT NULL AND scores.value IS NOT scores.again), avg(scores.value)
    FROM feedback LEFT JOIN scores ON scores.run = feedback.run AND scores.row = feedback.row
    AND scores.evaluator = feedback.evaluator
    WHERE feedback.run = ? AND feedback.evaluator <> '' AND (feedback.value IS NOT NULL OR passed IS NOT NULL)
    GROUP BY feedback.id ORDER BY feedback.evaluator, feedback.row, author"""


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
    with run._database.read() as connection:
        number = run._number
        check_scores(connection, number)
        return [
            _rated(tuple(kept), wrong, score, number) for *kept, wrong, score in fetched(connection, _SELECT, (number,))
        ]


def _rated(kept: tuple[Any, ...], wrong: float, score: float | None, run: int) -> Rated:
    said = Feedback.kept(kept, run)
    if wrong:
        raise damage(f"score of row {said.row} by {said.evaluator!r} in run ", WRONG, run)
    return Rated(said.evaluator, said.row, said.author, said.value, said.passed, score)
