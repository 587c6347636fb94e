"""State files of ``valor-gpu classify``: the rows of predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.predictions import IGNORED, Predictions
from valor_gpu.report.classify import AVERAGES, evaluate
from valor_gpu.result import Result
from valor_gpu.state_file import StateFile, document_of

KIND = "predictions"
"""Kind of these state files."""
_ARRAYS = ("target", "scores", "labels", "weight")


def classify_state(predictions: Predictions, average: str, thresholds: int | None, result: Result) -> StateFile:
    """Returns what a state file holds of a file of predictions.

    Args:
        predictions: the rows.
        average: as :func:`valor_gpu.report.classify.evaluate` took it.
        thresholds: likewise.
        result: of them.
    """
    clusters = None if predictions.clusters is None else list(predictions.clusters)
    choices = {"names": list(predictions.names), "clusters": clusters, "average": average, "thresholds": thresholds}
    found = {name: getattr(predictions, name) for name in _ARRAYS}
    arrays = {name: array for name, array in found.items() if array is not None}
    return StateFile(KIND, choices, arrays, document_of(result))


def result_of(file: StateFile) -> Result:
    """Evaluates the predictions of a state file again, on the CPU.

    Raises:
        InputError: the file holds other rows than the command writes.
    """
    choices, arrays = file.choices, file.arrays
    clusters = None if choices["clusters"] is None else tuple(map(str, choices["clusters"]))
    names, (scores, labels, weight) = tuple(map(str, choices["names"])), (arrays.get(name) for name in _ARRAYS[1:])
    predictions = Predictions(names, arrays["target"], scores, labels, weight, clusters)
    _check(predictions, choices["average"], choices["thresholds"])
    return evaluate(predictions, choices["average"], choices["thresholds"], "cpu").result


def _check(found: Predictions, average: str, thresholds: object) -> None:
    rows, classes = len(found.target), len(found.names)
    shapes: dict[str, list[tuple[int, ...]]] = {
        "scores": [(rows,), (rows, classes)],
        "labels": [(rows,)],
        "weight": [(rows,)],
    }
    kinds = {"scores": "float64", "labels": "int64", "weight": "float64"}
    given = {name: array for name in kinds if (array := getattr(found, name)) is not None}
    good = (
        found.target.dtype == "int64"
        and found.target.ndim == 1
        and all(array.shape in shapes[name] and array.dtype == kinds[name] for name, array in given.items())
        and all(((codes >= low) & (codes < classes)).all() for codes, low in _codes(found))
        and (found.scores is None) != (found.labels is None)
        and (found.clusters is None or len(found.clusters) == rows)
        and average in AVERAGES
        and (thresholds is None or type(thresholds) is int)
    )
    if not good:
        raise InputError("the state file must hold rows of predictions as valor-gpu classify writes but holds others")


def _codes(found: Predictions) -> list[tuple[NDArray[np.int64], int]]:
    return [(found.target, IGNORED), *([] if found.labels is None else [(found.labels, 0)])]
