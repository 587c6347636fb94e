"""Values of the precision-recall curves of a label key, in the dicts of valor_core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valor_gpu.valor.classification.curves import (
    KINDS,
    THRESHOLDS,
    CurveExamples,
    KeyCurves,
    curve_columns,
    kind_columns,
)

_Curve = dict[str, dict[float, dict[str, Any]]]


def curve_values(curves: KeyCurves) -> _Curve:
    """Returns ``value[label][threshold]`` of a PrecisionRecallCurve."""
    columns, thresholds = curve_columns(curves), THRESHOLDS.tolist()
    return {
        value: {
            threshold: {name: numbers[label][step] for name, numbers in columns.items()}
            for step, threshold in enumerate(thresholds)
        }
        for label, value in enumerate(curves.rows.values)
    }


def detailed_values(curves: KeyCurves, uids: Sequence[str], max_examples: int) -> _Curve:
    """Returns ``value[label][threshold]`` of a DetailedPrecisionRecallCurve.

    Args:
        curves: the counts.
        uids: of ``Columns.datums``.
        max_examples: of each kind, the first datums; 0: none.
    """
    finder, columns = CurveExamples(curves, uids, max_examples), kind_columns(curves)
    found: _Curve = {}
    for label, value in enumerate(curves.rows.values):
        examples = finder.of_label(label)
        found[value] = {}
        for step, threshold in enumerate(THRESHOLDS.tolist()):
            point: dict[str, Any] = {outcome: {"total": 0, "observations": {}} for outcome, _ in KINDS}
            for outcome, kind in KINDS:
                count = columns[outcome, kind][label][step]
                shown = examples[outcome, kind][step] if count > 0 else []
                point[outcome]["total"] += count
                point[outcome]["observations"][kind] = {"count": count, "examples": shown}
            found[value][threshold] = point
    return found
