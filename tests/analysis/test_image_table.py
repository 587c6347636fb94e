"""The table of images: counts of pycocotools' matches, their totals, and ratios by plain loops."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.outcome_oracle import iou_of, results_of, rows_of, run_kind
from tests.coco.comparison import OURS, Objects, boxes_of, dataset_of, load, random_objects, run
from tests.fuzz import seeds
from valor_gpu.coco.outcomes import FN, FP, TP, outcomes
from valor_gpu.errors import InputError

NAN = math.nan
DATA = "examples/data"


def val2014() -> Objects:
    names = ("instances_val2014_100.json", "instances_val2014_fakebbox100_results.json")
    truth, found = (json.loads(Path(DATA, name).read_text()) for name in names)
    return truth, found


def same(left: Any, right: Any) -> bool:
    return np.array_equal(np.asarray(left, np.float64), np.asarray(right, np.float64), equal_nan=True)


def check(objects: Objects, iou: float, score: float | None, **params: Any) -> None:
    """Asserts that the table has the counts of pycocotools and the ratios of plain loops."""
    theirs, result = results_of(objects, **params)
    table = result.images(iou, score)
    boxes = {a["id"]: a["bbox"] for a in objects[0]["annotations"]}
    found = {n: d["bbox"] for n, d in enumerate(objects[1], 1)}
    counts: Counter[tuple[Any, str]] = Counter()
    ious: dict[Any, list[float]] = {}
    for row in rows_of(theirs, iou, score):
        counts[row.image, row.outcome] += 1
        if row.detection is not None and row.ground_truth is not None:
            ious.setdefault(row.image, []).append(iou_of(found[row.detection], boxes[row.ground_truth]))
    assert list(table["image_id"]) == sorted(theirs.params.imgIds)
    for row in table.rows():
        image = row["image_id"]
        tp, fp, fn = (counts[image, name] for name in ("true positive", "false positive", "false negative"))
        assert (row["true_positives"], row["false_positives"], row["false_negatives"]) == (tp, fp, fn)
        assert (row["detections"], row["ground_truths"]) == (tp + fp, tp + fn)
        assert row["ignored_detections"] == counts[image, "ignored"]
        assert same(row["precision"], tp / (tp + fp) if tp + fp else NAN)
        assert same(row["recall"], tp / (tp + fn) if tp + fn else NAN)
        assert same(row["f1"], 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else NAN)
        expected = sum(ious.get(image, ())) / tp if tp else NAN
        assert row["mean_iou"] == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize(("iou", "score"), [(0.5, None), (0.75, 0.4)])
def test_counts_are_those_of_pycocotools(seed: int, iou: float, score: float | None) -> None:
    check(random_objects(seed), iou, score)
    check(random_objects(seed + 500), iou, score, maxDets=[1, 2])


@pytest.mark.parametrize(("iou", "score"), [(0.5, None), (0.5, 0.6), (0.9, None)])
def test_counts_of_real_data(iou: float, score: float | None) -> None:
    check(val2014(), iou, score)


@pytest.mark.parametrize("score", [None, 0.3])
def test_sums_are_the_totals_of_matching(score: float | None) -> None:
    evaluation = run_kind(OURS, val2014(), "bbox", {})
    table = evaluation.result().images(score=score)
    once = (
        outcomes(evaluation, 0.5, -math.inf if score is None else score) if score is not None else outcomes(evaluation)
    )
    totals = [
        int((once.detections == TP).sum()),
        int((once.detections == FP).sum()),
        int((once.ground_truths == FN).sum()),
    ]
    sums = [int(table[name].sum()) for name in ("true_positives", "false_positives", "false_negatives")]
    assert sums == totals and sums[0] > 100
    worst = {each.image_id: (each.tp, each.fp, each.fn) for each in once.worst_images(10)}
    rows = {row["image_id"]: row for row in table.rows()}
    for image, counts in worst.items():
        names = ("true_positives", "false_positives", "false_negatives")
        assert tuple(rows[image][name] for name in names) == counts


def test_totals_are_those_of_the_matching() -> None:
    result = run_kind(OURS, val2014(), "bbox", {}).result()
    matching, table = result._asked("images", None).matching(0.5), result.images()
    tp, fp = int(table["true_positives"].sum()), int(table["false_positives"].sum())
    fn = int(table["false_negatives"].sum())
    positives = int(matching.positives.sum())
    assert (tp, fp, fn) == (matching.hits.sum(), matching.false_positives.sum(), positives - matching.found.sum())
    precision, recall = tp / (tp + fp), tp / positives
    assert 2 * tp / (2 * tp + fp + fn) == pytest.approx(2 * precision * recall / (precision + recall), rel=1e-15)


def test_columns_and_choices() -> None:
    table = run_kind(OURS, val2014(), "bbox", {}).result().images(0.75, 0.5)
    assert list(table)[:3] == ["image_id", "file_name", "ground_truths"]
    assert table["file_name"][0] == "COCO_val2014_000000000042.jpg"
    assert table["image_id"].dtype == table["true_positives"].dtype == np.int64
    assert table.choices["iou"] == 0.75 and table.choices["score"] == 0.5 and table.choices["iou_type"] == "bbox"
    assert "iou_thresholds" not in table.choices
    worst = table.sort_by("f1").head(1).rows()[0]
    assert worst["f1"] == np.nanmin(table["f1"])


def test_hand_made_images() -> None:
    """A hit with an IoU of 3/5, a crowd that takes two detections, an image without anything."""
    truth = [
        *boxes_of((0, 0, 10, 10), (20, 0, 10, 10)),
        {"id": 3, "image_id": 2, "category_id": 1, "iscrowd": 1, "bbox": [0, 0, 50, 50], "area": 2500},
    ]
    found: list[dict[str, Any]] = [
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 6], "score": 0.9},
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 10], "score": 0.5},
        {"image_id": 2, "category_id": 1, "bbox": [1, 1, 5, 5], "score": 0.5},
        {"image_id": 2, "category_id": 1, "bbox": [5, 5, 5, 5], "score": 0.4},
    ]
    table = run_kind(OURS, (dataset_of(truth, images=3), found), "bbox", {}).result().images()
    assert "file_name" not in list(table)
    one, two, three = table.rows()
    assert one["image_id"] == 1 and one["mean_iou"] == 0.6 and one["precision"] == one["recall"] == one["f1"] == 0.5
    assert (two["ground_truths"], two["detections"]) == (0, 0)
    assert (two["ignored_ground_truths"], two["ignored_detections"]) == (1, 2)
    assert [math.isnan(three[name]) for name in ("precision", "recall", "f1", "mean_iou")] == [True] * 4


def test_a_ground_truth_whose_hit_falls_below_the_score_is_missed() -> None:
    truth = dataset_of(boxes_of((0, 0, 10, 10)))
    found = [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 10], "score": s} for s in (0.5, 0.3)]
    result = run_kind(OURS, (truth, found), "bbox", {}).result()
    names = ("true_positives", "false_positives", "false_negatives")
    assert [result.images(score=0.5)[name].tolist() for name in names] == [[1], [0], [0]]
    assert [result.images(score=0.51)[name].tolist() for name in names] == [[0], [0], [1]]


def test_text_ids() -> None:
    truth, found = dataset_of(boxes_of((0, 0, 10, 10))), []
    truth["images"][0] = {"id": "street/7", "file_name": None}
    truth["annotations"][0]["image_id"] = "street/7"
    found = [{"image_id": "street/7", "category_id": 1, "bbox": [0, 0, 10, 10], "score": 0.5}]
    table = run_kind(OURS, (truth, found), "bbox", {}).result().images()
    assert table.rows()[0]["image_id"] == "street/7" and table["f1"].tolist() == [1.0]


def test_errors() -> None:
    result = run_kind(OURS, val2014(), "bbox", {}).result()
    with pytest.raises(InputError, match=r"iou must be above 0 and at most 1 but got 0"):
        result.images(iou=0)
    with pytest.raises(InputError, match=r"iou must be in \[0, 1\] but got 1.5"):
        result.images(iou=1.5)
    with pytest.raises(TypeError, match=r"score must be"):
        result.images(score="high")  # type: ignore[arg-type]


def test_a_ground_truth_of_two_hits_hides_no_miss() -> None:
    """The detection with the id 0 leaves its ground truth free, and the other ground truth is missed all the same."""
    truth = dataset_of(boxes_of((0, 0, 10, 10), (50, 0, 10, 10)))
    found = [
        {"id": n, "image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 10], "area": 100, "iscrowd": 0, "score": 0.5}
        for n in (0, 3, 5)
    ]
    evaluation = OURS.COCOeval(load(OURS, truth), load(OURS, {**truth, "annotations": found}), "bbox")
    result = run(evaluation, summarize=False).e.result()
    row = result.images().rows()[0]
    assert (row["true_positives"], row["false_positives"], row["false_negatives"]) == (2, 1, 1)
    assert result.matches()["outcome"].tolist().count("false negative") == result.errors().counts["missed"] == 1
