"""Comparisons with chosen numbers, and evaluations of chosen ground truths."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from testing.datasets import ROOT
from valor_gpu import coco
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.exports.signature import Signature
from valor_gpu.stats.intervals import Interval, Intervals

FEW = "too few images: 3 hold a truth, it takes 20"
COCO = (
    "map", "map_50", "map_75", "map_small", "map_medium", "map_large",
    "mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large",
)  # fmt: skip


def evaluated(truth: dict[str, Any], pooled: bool = False) -> coco.COCOeval:
    """Returns an evaluation of the bundled boxes of 100 images against ground truths."""
    with contextlib.redirect_stdout(io.StringIO()):
        ground_truth = coco.COCO()
        ground_truth.dataset = truth
        ground_truth.createIndex()
        path = ROOT / "examples" / "data" / "instances_val2014_fakebbox100_results.json"
        evaluation = coco.COCOeval(ground_truth, ground_truth.loadRes(json.loads(path.read_text())), "bbox")
        evaluation.params.useCats = int(not pooled)
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation


class Number(NamedTuple):
    """A difference; NaN as p: it was not tested."""

    difference: float
    error: float = 0.0025
    p: float = 0.5
    p_permutation: float = math.nan
    detectable: float = math.nan


UNTESTED = Number(0.01, math.nan, math.nan)


def comparison(
    numbers: Mapping[str, Number], provenance: Mapping[str, Any] | None = None, **choices: Any
) -> ComparisonResult:
    """A result with these numbers, of which the first model has 0.34 each."""
    columns: dict[str, dict[str, Any]] = {
        "first": {name: 0.34 for name in numbers},
        "second": {name: 0.34 + each.difference for name, each in numbers.items()},
        "difference": {name: each.difference for name, each in numbers.items()},
        "p": {name: each.p for name, each in numbers.items()},
        "p_adjusted": {name: each.p for name, each in numbers.items()},
        "p_permutation": {name: each.p_permutation for name, each in numbers.items()},
        "detectable": {name: each.detectable for name, each in numbers.items()},
    }
    intervals = {f"difference/{name}": _interval(each) for name, each in numbers.items()}
    reasons = {f"p/{name}": FEW for name, each in numbers.items() if math.isnan(each.p)}
    signature = {
        "metric": "compare", "of": "COCOeval", "replicates": 1000, "confidence": 0.95, "seed": 0,
        "tests": {name: "bootstrap: both models have the same expected number" for name in numbers}, "notes": [],
    }  # fmt: skip
    values = {name: _nested(column) for name, column in columns.items()}
    chosen = Signature({**signature, **choices})
    return ComparisonResult(
        values, chosen, {"images": 5000}, reasons, provenance=provenance, intervals=Intervals(intervals)
    )


def coco_comparison(classes: Mapping[str, Number], **choices: Any) -> ComparisonResult:
    """The twelve numbers of COCO, and AP of classes."""
    first = {"map": Number(0.006, p=0.021, p_permutation=0.03, detectable=0.00714)}
    whole = first | {name: Number(0.004, p=0.1, p_permutation=0.2, detectable=0.00714) for name in COCO[1:]}
    return comparison(whole | {f"map_per_class/{name}": each for name, each in classes.items()}, **choices)


def _interval(number: Number) -> Interval:
    if math.isnan(number.error):
        return Interval(reason=FEW)
    reach = 2 * number.error
    return Interval(number.difference - reach, number.difference + reach, number.error)


def _nested(column: Mapping[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in column.items():
        *path, last = name.split("/", 1)
        (found.setdefault(path[0], {}) if path else found)[last] = value
    return found
