"""Valor's curves of detections as a walk over ranked pairs, one threshold at a time, in plain loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction

SCORES = [number / 100 for number in range(5, 100, 5)]
Cell = dict[str, int]


class Row(NamedTuple):
    """One label of an annotation."""

    number: int
    key: str
    value: str
    score: float
    box: Box


def rows_of(annotations: list[Annotation]) -> list[Row]:
    pairs = [(a, label) for a in annotations for label in a.labels or ()]
    return [Row(n, x.key, x.value, x.score or 0.0, a.bounding_box) for n, (a, x) in enumerate(pairs)]  # type: ignore[arg-type]


def iou(a: Box, b: Box) -> float:
    width = min(a.xmax, b.xmax) - max(a.xmin, b.xmin)
    height = min(a.ymax, b.ymax) - max(a.ymin, b.ymin)
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box.xmax - box.xmin) * (box.ymax - box.ymin) for box in (a, b)]
    return width * height / (areas[0] + areas[1] - width * height)


def cells(truths: list[GroundTruth], found: list[Prediction], threshold: float, least: float) -> dict[str, Cell]:
    """tp and kinds of errors by label, ``key:value``, at a threshold of IoU and one of score."""
    counts: dict[str, Cell] = {}

    def add(row: Row, name: str) -> None:
        cell = counts.setdefault(f"{row.key}:{row.value}", {})
        cell[name] = cell.get(name, 0) + 1

    for truth, prediction in zip(truths, found):
        gts, rows = rows_of(truth.annotations), rows_of(prediction.annotations)
        used: set[int] = set()
        ranked = []
        for row in rows:
            own = [(iou(row.box, gt.box), -gt.number) for gt in gts if (gt.key, gt.value) == (row.key, row.value)]
            ranked.append((-row.score, -max(own)[0] if own else 0.0, -max(own)[1] if own else -1, row))
        for score, overlap, best, row in sorted(ranked, key=lambda one: one[:2]):
            others = [iou(row.box, gt.box) for gt in gts if gt.key == row.key and gt.value != row.value]
            if -score < least:
                continue
            if -score > 0 and -overlap >= threshold and best >= 0 and best not in used:
                used.add(best)
                add(row, "tp/all")
            else:
                add(row, "fp/misclassifications" if max(others, default=0) >= threshold else "fp/hallucinations")
        for gt in gts:
            confusing = [
                row
                for row in rows
                if row.score >= least and row.key == gt.key and row.value != gt.value
                if iou(row.box, gt.box) >= threshold
            ]
            if gt.number not in used:
                add(gt, "fn/misclassifications" if confusing else "fn/no_predictions")
    return counts


def random_boxes(rng: np.random.Generator) -> tuple[list[GroundTruth], list[Prediction]]:
    """Datums whose boxes overlap often, with scores of one decimal, so that many are equal; some sides are empty."""

    def annotations(number: int, scored: bool) -> list[Annotation]:
        made = []
        for _ in range(number):
            x, y, width, height = rng.integers(0, 6), rng.integers(0, 3), rng.integers(1, 6), rng.integers(1, 6)
            box = Box.from_extrema(float(x), float(x + width), float(y), float(y + height))
            score = int(rng.integers(0, 11)) / 10 if scored else None
            label = Label(f"k{rng.integers(2)}", f"v{rng.integers(3)}", score)
            made.append(Annotation(labels=[label], bounding_box=box, is_instance=True))
        return made

    datums = [Datum(f"datum {place}") for place in range(int(rng.integers(2, 7)))]
    truths = [GroundTruth(datum, annotations(int(rng.integers(0, 5)), False)) for datum in datums]
    return truths, [Prediction(datum, annotations(int(rng.integers(0, 7)), True)) for datum in datums]
