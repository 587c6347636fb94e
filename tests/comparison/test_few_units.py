"""A bootstrap of few units, or clusters, alarms too often: a note says so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from valor_gpu.exports.signature import Signature
from valor_gpu.result import Result
from valor_gpu.stats import compare, compare_paired
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


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("rows", [4, 9, 16])
@pytest.mark.parametrize("seed", range(3))
def test_few_rows_have_the_p_value_of_compare_paired(rows: int, seed: int, clustered: bool) -> None:
    rng = np.random.default_rng(seed)
    count = 3 * rows if clustered else rows
    clusters = rng.permutation(np.arange(count) // 3) if clustered else None
    scores = [rng.integers(0, 9, count) / 8 if seed == 0 else rng.random(count) + shift for shift in (0.0, 0.2)]
    found = compare(*map(mean_of, scores), replicates=20, permutations=0, clusters=clusters)
    paired = compare_paired(*scores, clusters=clusters)
    assert paired.exact and "sign flip" in found.signature["tests"]["score"]
    assert found.values["p"]["score"] == paired.p_value
    assert found.values["difference"]["score"] == pytest.approx(paired.difference, abs=1e-12)
