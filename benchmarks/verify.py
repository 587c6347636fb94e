"""Parity before numbers: what an engine computed, and the rule by which it must agree with the reference.

No torch is imported: it would weigh on every engine.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from testing.datasets import Array

STATS = (
    *("map", "map_50", "map_75", "map_small", "map_medium", "map_large"),
    *("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"),
)
"""torchmetrics' names of the twelve COCO numbers, in the order of ``COCOeval.stats``."""

REFERENCE = "pycocotools"


class Outcome(NamedTuple):
    """What an engine computed.

    Attributes:
        stats: of detection the twelve COCO numbers, -1 where there is none.
        digest: of arrays that must be equal, for example precision and recall, see :func:`digest`; else empty.
        float32_stats: the numbers of our engine with torchmetrics' float32 thresholds and recall grid.
    """

    stats: list[float]
    digest: str = ""
    float32_stats: list[float] = []  # noqa: RUF012


class Rule(NamedTuple):
    """How close an engine must come, by its own documentation."""

    text: str
    tolerance: float
    same_arrays: bool = False
    float32: bool = False


RULES = {
    "bits": Rule("precision and recall arrays equal to the last bit, numbers within 1e-12", 1e-12, same_arrays=True),
    "rounding": Rule("numbers within 1e-9: the arrays differ in the last bit, or are not at hand", 1e-9),
    "float64": Rule("numbers within 1e-9, counts equal", 1e-9, same_arrays=True),
    "float32": Rule("numbers within 1e-5, counts equal: its sums are float32", 1e-5, same_arrays=True),
    "counts": Rule("counts of every class equal, IoU within 1e-9", 1e-9, same_arrays=True),
    "ratios": Rule("numbers within 1e-9: it gives no counts", 1e-9),
    "single": Rule("numbers within 1e-5: its sums are float32", 1e-5),
    "floor": Rule("reads the same bytes, no more", math.inf),
    "float32 grids": Rule(
        "numbers within 1e-6 of ours when we use its float32 thresholds and recall grid", 1e-6, float32=True
    ),
}


class Verdict(NamedTuple):
    """Whether an engine agrees, why, and the largest difference of the twelve numbers from the reference."""

    agrees: bool
    text: str
    difference: float


def verdict(rule: Rule, got: Outcome, reference: Outcome, ours: Outcome | None) -> Verdict:
    """Judge one outcome.

    Args:
        rule: that of the engine.
        got: what it computed.
        reference: what pycocotools (or an engine that proved equal to it) computed from the same data.
        ours: our outcome, which holds the numbers for ``float32`` rules.
    """
    gap = _gap(got.stats, reference.stats)
    if rule.float32:
        if ours is None or not ours.float32_stats:
            return Verdict(False, "our numbers with its grids are missing", gap)
        own_gap = _gap(got.stats, ours.float32_stats)
        return Verdict(own_gap <= rule.tolerance, f"{rule.text}: {own_gap:.1e}", gap)
    if gap > rule.tolerance:
        return Verdict(False, f"numbers differ by {gap:.1e}, not within {rule.tolerance:.0e}", gap)
    if rule.same_arrays and got.digest != reference.digest:
        return Verdict(False, f"arrays differ: {got.digest or 'none'} instead of {reference.digest}", gap)
    return Verdict(True, rule.text, gap)


def _gap(first: Sequence[float], second: Sequence[float]) -> float:
    """Largest difference; infinite where one side has another count of numbers, or a NaN."""
    if len(first) != len(second):
        return math.inf
    gap = max((abs(a - b) for a, b in zip(first, second)), default=math.inf)
    return math.inf if any(map(math.isnan, (*first, *second))) else gap


def digest(precision: Array, recall: Array, category_ids: Sequence[int]) -> str:
    """Short hash of the arrays, and the ids, of the classes with ground truths that count.

    Args:
        precision: float64 ``[T, R, K, A, M]``.
        recall: float64 ``[T, K, A, M]``.
        category_ids: K ids; engines list classes without any ground truth, or leave them out.
    """
    precision, recall = np.asarray(precision, np.float64), np.asarray(recall, np.float64)
    kept = (recall > -1).any(axis=(0, 2, 3))
    parts = (precision[:, :, kept], recall[:, kept], np.asarray(category_ids, np.int64)[kept])
    return hashlib.sha1(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:12]
