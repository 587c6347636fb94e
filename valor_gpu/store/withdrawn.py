"""Scores of a run that no longer hold. No torch."""

from __future__ import annotations

from collections.abc import Iterable

from valor_gpu.store.records import StoredScore
from valor_gpu.store.runs import Run
from valor_gpu.store.values import packed

_WITHDRAW = """UPDATE scores SET value = NULL, status = ?, reason = ?, level = '', details = NULL
    WHERE run = ? AND row = ? AND evaluator = ? AND repeat = ?"""


def withdraw_scores(run: Run, scores: Iterable[StoredScore], status: str, reason: str) -> None:
    """Takes the values of scores away, all or none, so that new ones can be kept in their place.

    Args:
        run: leased by this process.
        scores: of the run.
        status: why they have no value.
        reason: in words.

    Raises:
        LeaseError: another process works on the run.
    """
    end = (packed(status), packed(reason), run._number)
    bound = [(*end, score.row, packed(score.evaluator), score.repeat) for score in scores]
    with run._write() as connection:
        connection.executemany(_WITHDRAW, bound)
