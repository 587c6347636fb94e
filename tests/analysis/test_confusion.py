"""Class confusions beside those that the store keeps of an evaluation, and beside cases made by hand."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.analysis.confusion import ClassConfusion, class_confusion
from valor_gpu.coco import COCO, COCOeval

DATA = Path(__file__).parents[2] / "examples/data"


def analysis_of(truth: Any, found: Any, kind: str = "bbox") -> tuple[COCOeval, Any]:
    with contextlib.redirect_stdout(io.StringIO()):
        ground_truths = COCO(truth if isinstance(truth, Path) else None)
        if not isinstance(truth, Path):
            ground_truths.dataset = truth
            ground_truths.createIndex()
        detections = ground_truths.loadRes(found if isinstance(found, list) else str(found))
        evaluation = COCOeval(ground_truths, detections, kind)
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation, evaluation.result()._asked("images", None)


def cells(found: ClassConfusion) -> dict[tuple[str, str], int]:
    names = [*found.classes, ""]
    rows = zip(found.truths.tolist(), found.guesses.tolist(), found.counts.tolist())
    return {(names[truth], names[guess]): count for truth, guess, count in rows}


@pytest.mark.parametrize(("iou", "score"), [(0.5, 0.25), (0.75, 0.0), (0.3, 0.6)])
@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_cells_are_those_of_the_store(kind: str, iou: float, score: float) -> None:
    files = {
        "bbox": ("instances_val2014_100.json", "instances_val2014_fakebbox100_results.json"),
        "segm": ("instances_val2014_100_masks.json.gz", "instances_val2014_fakesegm100_results.json.gz"),
    }[kind]
    evaluation, analysis = analysis_of(DATA / files[0], DATA / files[1], kind)
    matrix = evaluation.to_run(iou_threshold=iou, score_threshold=score).matrix
    assert matrix is not None
    stored = {(matrix["names"][i], matrix["names"][j]): n for i, j, n in matrix["counts"]}
    assert len(stored) > 100
    assert cells(class_confusion(analysis, iou, score)) == stored


def test_hand_made_cells() -> None:
    """A cat taken for a dog, a dog found, a dog where nothing is, a missed cat, a box on a crowd, a low score."""
    truths = [(1, [0, 0, 10, 10], 0), (2, [20, 0, 10, 10], 0), (1, [40, 0, 10, 10], 0), (1, [60, 0, 20, 20], 1)]
    guesses = [(2, [0, 0, 10, 9], 0.9), (2, [20, 0, 10, 9], 0.8), (2, [90, 0, 5, 5], 0.7), (2, [62, 2, 9, 9], 0.6)]
    guesses.append((1, [40, 0, 10, 10], 0.1))
    truth = {
        "images": [{"id": 1, "width": 100, "height": 30}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": i, "image_id": 1, "category_id": c, "bbox": b, "area": b[2] * b[3], "iscrowd": crowd}
            for i, (c, b, crowd) in enumerate(truths, 1)
        ],
    }
    found = [{"image_id": 1, "category_id": c, "bbox": b, "score": s} for c, b, s in guesses]
    _, analysis = analysis_of(truth, found)
    assert cells(class_confusion(analysis, 0.5, 0.5)) == {
        ("cat", "dog"): 1, ("dog", "dog"): 1, ("", "dog"): 1, ("cat", ""): 1,
    }  # fmt: skip
    assert cells(class_confusion(analysis, 0.5)) == {
        ("cat", "dog"): 1, ("dog", "dog"): 1, ("", "dog"): 1, ("cat", "cat"): 1,
    }  # fmt: skip
