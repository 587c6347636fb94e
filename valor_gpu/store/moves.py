"""Scores that get the name of another evaluator, which an evaluator of several numbers turns out to need."""

from __future__ import annotations

from collections.abc import Sequence

from valor_gpu.store.records import StoredScore
from valor_gpu.store.runs import Run
from valor_gpu.store.values import packed


def move_scores(run: Run, gone: Sequence[StoredScore], new: Sequence[StoredScore]) -> None:
    """Takes scores away and keeps others in their place.

    Scores are kept before others are taken away, so that a kill between both loses none.

    Args:
        run: of a store.
        gone: scores of the run.
        new: as of :meth:`~valor_gpu.store.Run.add_scores`.
    """
    run.add_scores(new)
    places = [(run._number, each.row, packed(each.evaluator), each.repeat) for each in gone]
    with run._write() as connection:
        sql = "DELETE FROM scores WHERE run = ? AND row = ? AND evaluator = ? AND repeat = ?"
        connection.executemany(sql, places)
