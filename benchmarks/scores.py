"""Seeded scores of a classifier: softmax of normal logits, that of the true class moved up. Same choices: same bits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from testing.datasets import Array

VERSION = 1  # of the generator: part of the names of cached files
_BLOCK = 4096  # rows
_MARGIN = 2.5  # of the true class, in standard deviations of a logit


@dataclass(frozen=True)
class ScoreCase:
    """One size.

    Attributes:
        name: how the command line calls it.
        rows: number of samples.
        classes: number of classes.
        quick: rows and classes of the small version.
    """

    name: str
    rows: int
    classes: int
    quick: tuple[int, int]
    unit: ClassVar[str] = "rows"
    number: ClassVar[str] = "first_number"

    def classes_at(self, rows: int) -> int:
        """Classes of the version with ``rows`` rows."""
        return self.classes if rows == self.rows else self.quick[1]


CASES = {
    case.name: case
    for case in (
        ScoreCase("1k", 1_000, 1_000, quick=(200, 20)),
        ScoreCase("20k", 20_000, 1_000, quick=(2_000, 50)),
        ScoreCase("200k", 200_000, 1_000, quick=(4_000, 100)),
    )
}


class Files(NamedTuple):
    """Where scores, float32 ``[N, C]``, and targets, int64 ``[N]``, lie on disk."""

    scores: Path
    target: Path


def cached(case: ScoreCase, rows: int, seed: int, folder: Path) -> Files:
    """Generate a case unless its files are there; returns where they are."""
    classes = case.classes_at(rows)
    files = Files(*(folder / f"scores_{rows}x{classes}_s{seed}_v{VERSION}_{part}.npy" for part in Files._fields))
    if not all(path.exists() for path in files):
        folder.mkdir(parents=True, exist_ok=True)
        scores, target = make(rows, classes, seed)
        np.save(files.target, target)
        np.save(files.scores, scores)
    return files


def make(rows: int, classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Scores, float32 ``[N, C]``, whose rows sum to 1, and targets, int64 ``[N]``: every class equally often."""
    rng = np.random.default_rng(seed)
    target = rng.permutation(np.arange(rows) % classes)
    scores = np.empty((rows, classes), np.float32)
    for start in range(0, rows, _BLOCK):
        logits = rng.standard_normal((min(_BLOCK, rows - start), classes), dtype=np.float32)
        logits[np.arange(len(logits)), target[start : start + _BLOCK]] += _MARGIN
        np.exp(logits, out=logits)
        np.divide(logits, logits.sum(1, keepdims=True), out=scores[start : start + _BLOCK])
    return scores, target
