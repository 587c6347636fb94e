"""State files of ``valor-gpu text``: scores and counts of every row, no texts. Imports no torch."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import EVALUATORS, Evaluator, Outcome, Portion, evaluator
from valor_gpu.report.texts import METRICS, TextScores
from valor_gpu.result import Result
from valor_gpu.state_file import StateFile, document_of

KIND = "texts"
"""Kind of these state files."""


class _Scored(Evaluator):
    """An evaluator whose scores are known: it needs none of the files that it scored with."""

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Scores nothing.

        Raises:
            InputError: always.
        """
        raise InputError("a state file holds scores but no texts: score the texts again")


def text_state(scores: TextScores, result: Result) -> StateFile:
    """Returns what a state file holds of scored texts.

    Args:
        scores: that keep their rows.
        result: of them.
    """
    kept = scores.kept
    choices = {
        "evaluators": [[each.name, dict(each.parameters)] for each in scores.evaluators],
        "rows": scores.rows,
        "several": scores.several,
        "unreadable": scores.unreadable_rows,
        "reasons": dict(scores.reasons),
    }
    arrays: dict[str, NDArray[Any]] = {
        "places": np.array(kept.places, np.int64),
        "marks": np.array(kept.marks, np.uint64),
    }
    for each in scores.evaluators:
        arrays |= _columns(each, kept.rows[each.name])
    return StateFile(KIND, choices, arrays, document_of(result))


def _columns(each: Evaluator, rows: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Scores of the rows, NaN where there is none; or counts that are pooled, and which rows have them."""
    if not each.pooled:
        return {each.name: np.array([np.nan if row is None else row for row in rows], np.float64)}
    width = max((len(row) for row in rows if row is not None), default=0)
    counts = np.array([[0] * width if row is None else row for row in rows], np.int64).reshape(len(rows), width)
    return {each.name: counts, f"{each.name}/there": np.array([row is not None for row in rows], np.bool_)}


def result_of(file: StateFile) -> Result:
    """Computes the numbers of scored texts again.

    Raises:
        InputError: the file holds other rows than the command writes.
    """
    choices, arrays = file.choices, file.arrays
    evaluators = [_evaluator(name, parameters) for name, parameters in choices["evaluators"]]
    scores = TextScores(evaluators, keep_rows=True)
    places, marks = arrays["places"], arrays["marks"]
    rows = {each.name: _rows(each, arrays, len(places)) for each in evaluators}
    if places.dtype != np.int64 or marks.dtype != np.uint64 or places.shape != marks.shape or places.ndim != 1:
        raise InputError("the state file must hold the places and marks of its rows but holds others")
    counted = [choices[name] for name in ("rows", "several", "unreadable")]
    if not all(type(each) is int and each >= 0 for each in counted) or counted[0] != len(places) + counted[2]:
        raise InputError(f"the state file must count its {len(places)} rows and those unreadable but counts others")
    if len(places) and not (places.min() >= 0 and places.max() < choices["rows"] and _are_different(places)):
        raise InputError("the state file must hold places of its rows but holds others")
    scores.restore(rows, array("q", places.tolist()), array("Q", marks.tolist()), choices)
    return scores.result()


def _are_different(places: NDArray[np.int64]) -> bool:
    return len(np.unique(places)) == len(places)


def _evaluator(name: str, parameters: Mapping[str, Any]) -> Evaluator:
    if name not in METRICS:
        raise InputError(f"the state file must be of metrics of texts but is of {name!r}")
    info = EVALUATORS[name]
    if info.kind != "corpus":
        return _Scored(info, parameters)
    made: Evaluator = evaluator(name, **parameters)
    return made


def _rows(each: Evaluator, arrays: Mapping[str, NDArray[Any]], length: int) -> list[Any]:
    values = arrays[each.name]
    there = arrays[f"{each.name}/there"] if each.pooled else ~np.isnan(values)
    kind, dimensions = (np.int64, 2) if each.pooled else (np.float64, 1)
    if values.dtype != kind or values.ndim != dimensions or len(values) != length or there.shape != (length,):
        raise InputError(f"the state file must hold {each.name} of its {length} rows but holds another array")
    return [row if is_there else None for row, is_there in zip(values.tolist(), there.tolist())]
