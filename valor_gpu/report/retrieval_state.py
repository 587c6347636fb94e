"""State files of ``valor-gpu retrieval``: the scores of every query, no documents. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.inputs.ranked_lists import TIES
from valor_gpu.report.retrieval import QUERIES, QueryScores, result_of_run
from valor_gpu.result import Result
from valor_gpu.retrieval.measures import parse_measure
from valor_gpu.state_file import StateFile, document_of

KIND = "retrieval"
"""Kind of these state files."""
_COUNTS = (
    "queries", "queries_without_documents", "queries_without_relevant_documents", "queries_without_judgements",
    "documents", "judged_documents",
)  # fmt: skip


def retrieval_state(scores: QueryScores, queries: str, ties: str, result: Result) -> StateFile:
    """Returns what a state file holds of a run.

    Args:
        scores: of the run, with hashes of the judgements.
        queries: as :func:`valor_gpu.report.retrieval.score_run` took it.
        ties: likewise.
        result: of them.
    """
    choices: dict[str, Any] = {"name": scores.name, "ids": list(scores.queries), "queries": queries, "ties": ties}
    choices |= {"measures": list(scores.columns), "counts": dict(scores.counts)}
    arrays: dict[str, Any] = {"truths": scores.truths, **scores.columns}
    return StateFile(KIND, choices, arrays, document_of(result))


def result_of(file: StateFile) -> Result:
    """Computes the numbers of a run again.

    Raises:
        InputError: the file holds other scores than the command writes.
    """
    choices, arrays = file.choices, file.arrays
    ids, counts = tuple(choices["ids"]), dict(choices["counts"])
    measures = [parse_measure(name).name for name in choices["measures"]]
    columns, truths = {name: arrays[name] for name in measures}, arrays["truths"]
    good = (
        all(type(each) is str for each in ids)
        and len(set(ids)) == len(ids)
        and all(column.shape == (len(ids),) and column.dtype == np.float64 for column in columns.values())
        and truths.shape == (len(ids),)
        and truths.dtype == np.uint64
        and tuple(counts) == _COUNTS
        and all(type(count) is int and count >= 0 for count in counts.values())
        and counts["queries"] == len(ids)
        and choices["queries"] in QUERIES
        and choices["ties"] in TIES
    )
    if not good:
        raise InputError("the state file must hold scores of queries as valor-gpu retrieval writes but holds others")
    scores = QueryScores(str(choices["name"]), ids, columns, truths, counts)
    return result_of_run(scores, choices["queries"], choices["ties"])
