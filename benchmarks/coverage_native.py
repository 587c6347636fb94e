"""``benchmarks/coverage.cpp``: numbers of many weightings of the units at once."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SOURCE = Path(__file__).with_name("coverage.cpp")
_LANES = 32
# No contraction: a product and a sum are rounded each, on every machine.
_COMMAND = ("g++", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")


class ClassRecords(NamedTuple):
    """Detections by class and descending score, ground truths by class; ``units`` are positions of images.

    Attributes:
        starts: int64 ``[K + 1]`` where the detections of each class begin; likewise ``gt_starts``.
        units: int32 ``[D]``; likewise ``gt_units`` ``[G]``.
        matched: uint16 ``[D]``, bit t that of IoU threshold t; likewise ``ignored``.
    """

    starts: NDArray[np.int64]
    units: NDArray[np.int32]
    matched: NDArray[np.uint16]
    ignored: NDArray[np.uint16]
    gt_starts: NDArray[np.int64]
    gt_units: NDArray[np.int32]


def available() -> bool:
    """Whether this machine can build the library."""
    return shutil.which(_COMMAND[0]) is not None


@cache
def _library() -> ctypes.CDLL:
    stamp = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"valor_gpu_coverage_{stamp}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            subprocess.run([*_COMMAND, "-o", str(made), str(_SOURCE)], check=True)
            made.replace(path)
    return ctypes.CDLL(str(path))


def _padded(weights: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Weights with zeros up to a multiple of the lanes."""
    return np.ascontiguousarray(np.pad(weights, ((0, 0), (0, -weights.shape[1] % _LANES))))


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def class_numbers(records: ClassRecords, weights: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """AP and AR, ``[K, L]``, of weights ``[units, L]``; NaN without a weighted ground truth."""
    given = _padded(weights)
    classes, lanes = len(records.starts) - 1, given.shape[1]
    precision, recall = (np.empty((classes, lanes), np.float32) for _ in range(2))
    arrays = [np.ascontiguousarray(array) for array in records]
    _library().class_numbers(
        ctypes.c_int64(classes), *map(_at, arrays), _at(given), ctypes.c_int64(lanes), _at(precision), _at(recall)
    )
    return tuple(found[:, : weights.shape[1]].astype(np.float64) for found in (precision, recall))  # type: ignore[return-value]


def curve_numbers(units: NDArray[Any], positive: NDArray[Any], weights: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """AUROC and AP, ``[L]``, of rows by descending score without ties."""
    given = _padded(weights)
    auroc, average_precision = (np.empty(given.shape[1]) for _ in range(2))
    rows = np.ascontiguousarray(units, np.int32), np.ascontiguousarray(positive, np.uint8)
    _library().curve_numbers(
        ctypes.c_int64(len(units)), *map(_at, rows), _at(given), ctypes.c_int64(given.shape[1]),
        _at(auroc), _at(average_precision),
    )  # fmt: skip
    return auroc[: weights.shape[1]], average_precision[: weights.shape[1]]
