"""A bootstrap of few units, or clusters, alarms too often: a note says so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from valor_gpu.exports.signature import Signature
from valor_gpu.result import Result
from valor_gpu.stats import compare
from valor_gpu.stats.row_samples import RowSample


def mean_of(scores: Any) -> Result:
    return Result({"score": float(scores.mean())}, Signature({"metric": "mean"}), state=RowSample({"score": scores}))


def notes(rows: int, clusters: Any = None) -> list[str]:
    rng = np.random.default_rng(0)
    first, second = (mean_of(rng.random(rows)) for _ in range(2))
    found = compare(first, second, replicates=20, permutations=20, clusters=clusters)
    return [note for note in found.signature["notes"] if note.startswith("below 20")]


@pytest.mark.parametrize(
    ("rows", "clusters", "told"),
    [
        (40, None, ""),
        (20, None, ""),
        (19, None, "below 20 rows tests and intervals of the bootstrap are approximate: all data \\(19\\)$"),
        (40, np.arange(40) // 8, "below 20 clusters .* all data \\(5\\)$"),
        (40, np.arange(40) // 2, ""),
    ],
)
def test_a_note_says_that_units_are_few(rows: int, clusters: Any, told: str) -> None:
    found = notes(rows, clusters)
    assert len(found) == bool(told)
    assert all(re.search(told, note) for note in found)
