"""A COCO evaluation as a run: classes, curves, confusions, every image. No torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.checks import check_number
from valor_gpu.coco.annotation_sets import category_ids, names_of_categories
from valor_gpu.coco.doubtful_ids import describe_ids, without_harmless
from valor_gpu.coco.engine import engine_on
from valor_gpu.coco.evaluation import Accumulated, Evaluation, evaluate, sort_params
from valor_gpu.coco.evaluation_result import coco_result
from valor_gpu.coco.geometry import geometry_of
from valor_gpu.coco.outcomes import FN, FP, LEFT_OUT, TP, Outcomes, outcomes
from valor_gpu.coco.saved_state import state_content
from valor_gpu.coco.taken_part import Part, evaluation_of, part_of
from valor_gpu.inputs.coco_ids import row_codes, row_ids
from valor_gpu.inputs.missing_fields import describe_missing
from valor_gpu.inputs.text_ids import Id
from valor_gpu.store.result_runs import MOST_CURVES, iou_lines
from valor_gpu.store.saved import SavedImage, SavedRun

if TYPE_CHECKING:
    from valor_gpu.result import Result

IOU_THRESHOLD, SCORE_THRESHOLD = 0.5, 0.25
MOST_SHAPES = 200
"""Objects of an image that are kept to be drawn: those with errors first."""


def saved_run(
    accumulated: Accumulated,
    iou_threshold: float = IOU_THRESHOLD,
    score_threshold: float = SCORE_THRESHOLD,
    numbers: Result | None = None,
) -> SavedRun:
    """What :meth:`valor_gpu.store.Store.save` keeps of an evaluation.

    Args:
        accumulated: the evaluation.
        iou_threshold: of the confusions, and of precision, recall and F1 of each image; of keypoints, the OKS.
        score_threshold: likewise; detections below it are left out.
        numbers: the result of the evaluation, with its intervals; None: that without intervals.

    Raises:
        InputError: nothing was accumulated, or a threshold is out of range.
    """
    check_number("score_threshold", score_threshold)
    with_numbers = coco_result(accumulated) if numbers is None else numbers
    part, state = part_of(accumulated), state_content(accumulated, with_numbers)
    curves, notes = _curves(accumulated, part, with_numbers.values.get("ground_truths_per_class", {}))
    evaluation = evaluation_of(accumulated.evaluation, part)
    found = outcomes(evaluation, iou_threshold, score_threshold)
    names = {number: name for name, number in category_ids(evaluation.ground_truth, evaluation.params).items()}
    measure = "OKS" if evaluation.params.iouType.startswith("keypoints") else "IoU"
    whole = with_numbers.to_run()
    return replace(
        whole,
        curves=curves or whole.curves,
        matrix=_confusion(evaluation, names, found, f"{measure} {iou_threshold:g} and scores from {score_threshold:g}"),
        settings={f"{measure} threshold": float(iou_threshold), "score threshold": float(score_threshold)},
        images=tuple(_images(evaluation, found, names)),
        notes=(*notes, *_doubts(evaluation, with_numbers.counts)),
        state=state,
    )


def _doubts(evaluation: Evaluation, counts: Mapping[str, int]) -> list[str]:
    """What a reader of the numbers should know of ids and of fields that were missing."""
    strict, iou_type = evaluation.strict, evaluation.params.iouType
    harmful = without_harmless(counts) if iou_type == "keypoints_crowd" else counts
    completed = describe_missing(counts, geometry_of(evaluation.params).area_text)
    return [f"{text}." for text in (*describe_ids(harmful, strict), *completed)]


def _curves(accumulated: Accumulated, part: Part, ground_truths: Any) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    params, precision = part.params, part.precision(accumulated.arrays["precision"])[:, :, :, 0, -1]  # [T, R, K]
    classes = names_of_categories(accumulated.evaluation.ground_truth, params) if params.useCats else []
    order = sorted(range(len(classes)), key=lambda k: -ground_truths.get(classes[k], 0))
    kept = []
    for k in sorted(order[:MOST_CURVES]):
        lines = iou_lines([*map(float, params.iouThrs)], [*map(float, params.recThrs)], precision[:, :, k].tolist())
        kept += [{"name": classes[k], "lines": lines}] if lines else []
    if len(classes) <= MOST_CURVES:
        return kept, ()
    return kept, (f"Curves are kept of the {MOST_CURVES} classes with most ground truths, of {len(classes):,}.",)


def _confusion(evaluation: Evaluation, names: dict[Any, str], found: Outcomes, choices: str) -> dict[str, Any] | None:
    """Truth by prediction: matched once more, whatever the class, so that a box of another class is a confusion."""
    if not evaluation.params.useCats:
        return None
    params = copy.deepcopy(evaluation.params)
    params.useCats = 0
    sort_params(params)
    pooled = evaluate(evaluation.ground_truth, evaluation.detections, params, evaluation.convention, engine_on())
    pairs = outcomes(pooled, found.iou_threshold, found.lowest_score)
    layout, numbers = pairs.layout, sorted(names)
    none, codes = len(numbers), row_codes(layout.detections.columns, "category_id", numbers)
    labels = [np.searchsorted(codes, side.take("category_id")) for side in (layout.detections, layout.ground_truths)]
    matched, alone, missed = pairs.detections == TP, pairs.detections == FP, pairs.ground_truths == FN
    truths = (labels[1][pairs.partners[matched]], np.full(int(alone.sum()), none), labels[1][missed])
    guesses = (labels[0][matched], labels[0][alone], np.full(int(missed.sum()), none))
    cells = np.bincount(np.concatenate(truths) * (none + 1) + np.concatenate(guesses), minlength=1)
    counts = [[cell // (none + 1), cell % (none + 1), int(cells[cell])] for cell in np.flatnonzero(cells).tolist()]
    note = f"rows are truth, columns are prediction, matched whatever the class, at {choices}"
    return {"names": [*(names[n] for n in numbers), ""], "background": [none], "counts": counts, "note": note}


def _images(evaluation: Evaluation, found: Outcomes, names: dict[Id, str]) -> Iterator[SavedImage]:
    """Every image, by ascending id."""
    sides = [_shapes(found, side, names) for side in (0, 1)]
    known = {image["id"]: image for image in evaluation.ground_truth.loadImgs(found.image_ids)}
    for place in np.argsort(found.layout.images).tolist():
        number = found.image_ids[place]
        shapes = [shape for starts, all_of_side in sides for shape in all_of_side[starts[place] : starts[place + 1]]]
        yield _image(number, known.get(number, {}), shapes)


def _shapes(found: Outcomes, which: int, names: dict[Id, str]) -> tuple[list[int], list[dict[str, Any]]]:
    """Where the objects of each image begin, and the objects of a side that count."""
    side = (found.layout.detections, found.layout.ground_truths)[which]
    codes = (found.detections, found.ground_truths)[which]
    kept = np.flatnonzero(codes != LEFT_OUT)
    starts = np.searchsorted(kept, np.concatenate(([0], np.cumsum(side.lengths)))).tolist()
    boxes = side.take("bbox")[kept].round(2).tolist()
    rows = kept if side.rows is None else side.rows[kept]
    labels, right = row_ids(side.columns, "category_id", rows), (codes[kept] == TP).tolist()
    scores = side.take("score")[kept].round(4).tolist() if not which else ()
    of = ("prediction", "truth")[which]
    shapes: list[dict[str, Any]] = [
        {"of": of, "name": names.get(label, str(label)), "right": is_right, "box": box}
        for label, is_right, box in zip(labels, right, boxes)
    ]
    for shape, score in zip(shapes, scores):
        shape["score"] = score
    return starts, shapes


def _image(number: Id, known: Any, shapes: list[dict[str, Any]]) -> SavedImage:
    inputs = {"image": str(known.get("file_name") or number), "image_id": number}
    for side in ("width", "height"):
        if isinstance(known.get(side), (int, float)) and known[side] > 0:
            inputs[side] = known[side]
    shapes.sort(key=lambda shape: shape["right"])
    guesses = [shape["right"] for shape in shapes if shape["of"] == "prediction"]
    right, wrong = sum(guesses), len(guesses) - sum(guesses)
    missed = sum(not shape["right"] for shape in shapes if shape["of"] == "truth")
    counts = {"found": right, "wrong": wrong, "missed": missed}
    numbers = {
        "image_f1": _ratio(2 * right, 2 * right + wrong + missed),
        "image_precision": _ratio(right, right + wrong),
        "image_recall": _ratio(right, right + missed),
    }
    left_out = len(shapes) - MOST_SHAPES
    outputs = {**counts, **({"not_drawn": left_out} if left_out > 0 else {})}
    return SavedImage(str(number), inputs, outputs, numbers, tuple(shapes[:MOST_SHAPES]))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
