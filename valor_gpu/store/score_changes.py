"""Scores of a run that get another name, or no longer hold. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from valor_gpu.store.checksums import fetched
from valor_gpu.store.records import CHECKED_SCORE, StoredScore
from valor_gpu.store.runs import Run
from valor_gpu.store.totals import forget_totals
from valor_gpu.store.values import packed

_WITHDRAW = """UPDATE scores SET value = NULL, again = NULL, status = ?5, reason = ?6, level = '', details = NULL,
    checksum = ?7 WHERE run = ?1 AND row = ?2 AND evaluator = ?3 AND repeat = ?4"""
_KEPT = f"""SELECT {CHECKED_SCORE} FROM scores WHERE run = ? AND row = ? AND evaluator = ? AND repeat = ?"""


def move_scores(run: Run, gone: Sequence[StoredScore], new: Sequence[StoredScore]) -> None:
    """Replaces scores by those under the names that an evaluator of several numbers turned out to need.

    Scores are kept before others are taken away, so that a kill between both loses none.

    Args:
        run: of a store.
        gone: scores of the run.
        new: as of :meth:`~valor_gpu.store.Run.add_scores`.
    """
    run.add_scores(new)
    places = [(run._number, each.row, packed(each.evaluator), each.repeat) for each in gone]
    with run._write() as connection:
        forget_totals(connection, run._number)
        sql = "DELETE FROM scores WHERE run = ? AND row = ? AND evaluator = ? AND repeat = ?"
        connection.executemany(sql, places)


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
    with run._write() as connection:
        forget_totals(connection, run._number)
        for place in [(run._number, score.row, packed(score.evaluator), score.repeat) for score in scores]:
            for kept in fetched(connection, _KEPT, place):
                before = StoredScore.kept(kept, run._number)
                after = replace(before, value=None, status=status, reason=reason, level="", details=None)
                bound = after.bound(run._number)
                connection.execute(_WITHDRAW, (*place, *bound[5:7], bound[-1]))
