"""Confusion matrices and examples of detections, in the dicts of valor-lite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from valor_gpu.valor.detection.confusion import Cut
from valor_gpu.valor.detection.scene import DETECTIONS, GROUND_TRUTHS, DetectionScene


def matrix(cut: Cut) -> dict[str, Any]:
    """Returns ``{gt: {pd: n}}``, and the numbers without a partner by label."""
    names, (pairs, untrue, missed) = cut.block.confusion.names, cut.counts()
    return {
        "confusion_matrix": {name: dict(zip(names, row)) for name, row in zip(names, pairs)},
        "unmatched_predictions": dict(zip(names, untrue)),
        "unmatched_ground_truths": dict(zip(names, missed)),
    }


def matrix_with_examples(cut: Cut) -> dict[str, Any]:
    """Returns the matrix, each cell with the pairs or rows in it."""
    confusion, listed = cut.block.confusion, cut.listed
    names, scene, (gt_label, label) = confusion.names, confusion.scene, confusion.row_places
    cells: dict[str, dict[str, list[Any]]] = {a: {b: [] for b in names} for a in names}
    untrue: dict[str, list[Any]] = {name: [] for name in names}
    missed: dict[str, list[Any]] = {name: [] for name in names}
    for row, partner in zip(listed.detections.tolist(), listed.ground_truths.tolist()):
        shown = {"ground_truth_id": scene.name(GROUND_TRUTHS, partner)}
        cells[names[gt_label[partner]]][names[label[row]]].append(_prediction(scene, row, shown))
    for row in listed.alone.tolist():
        untrue[names[label[row]]].append(_prediction(scene, row, {}))
    for row in listed.missed.tolist():
        shown = {"datum_id": scene.uid(GROUND_TRUTHS, row), "ground_truth_id": scene.name(GROUND_TRUTHS, row)}
        missed[names[gt_label[row]]].append(shown)
    return {
        "confusion_matrix": {a: {b: _cell(found) for b, found in row.items()} for a, row in cells.items()},
        "unmatched_predictions": {name: _cell(found) for name, found in untrue.items()},
        "unmatched_ground_truths": {name: _cell(found) for name, found in missed.items()},
    }


def _prediction(scene: DetectionScene, row: int, shown: dict[str, Any]) -> dict[str, Any]:
    return {"datum_id": scene.uid(DETECTIONS, row), **shown, "prediction_id": scene.name(DETECTIONS, row)}


def _cell(found: list[Any]) -> dict[str, Any]:
    return {"count": len(found), "examples": found}


def examples(cut: Cut, page: tuple[int, int | None]) -> Iterator[dict[str, Any]]:
    """Returns the outcomes of each datum that has any.

    Args:
        cut: the pairs.
        page: the first datum, by its place in the evaluation, and how many; None: all that follow.
    """
    scene, first = cut.block.confusion.scene, page[0]
    end = len(scene.columns.datums) if page[1] is None else first + page[1]
    for datum, rows in cut.outcomes().items():
        if first <= datum < end:
            shown: dict[str, list[Any]] = {
                "true_positives": [
                    [scene.name(GROUND_TRUTHS, gt), scene.name(DETECTIONS, row)]
                    for gt, row in rows.get("true_positives", ())
                ],
                "false_positives": [scene.name(DETECTIONS, row) for (row,) in rows.get("false_positives", ())],
                "false_negatives": [scene.name(GROUND_TRUTHS, row) for (row,) in rows.get("false_negatives", ())],
            }
            yield {"datum_id": scene.columns.datums[datum], **shown}
