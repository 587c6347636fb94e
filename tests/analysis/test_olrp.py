"""Optimal LRP errors: a plain loop, what vernier found, replicates as repeated images, and panoptic segments."""

from __future__ import annotations

import functools
import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.coco_scenes import dataset, scored_scene
from testing.examples_panoptic import CATEGORIES, THINGS, batch_of
from tests.coco.comparison import quietly
from tests.coco.test_intervals import ours, repeated, state_of
from tests.fuzz import seeds
from valor_gpu.analysis.rows import Matching
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.errors import InputError
from valor_gpu.result import Result
from valor_gpu.segmentation import ModifiedPanopticQuality, PanopticQuality
from valor_gpu.stats.draws import Draws

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((Path(__file__).parent / "data" / "vernier_lrp.json").read_text())
NUMBERS = ("olrp", "olrp_localization", "olrp_false_positive", "olrp_false_negative")
MAPPINGS = (*(f"{name}_per_class" for name in NUMBERS), "score_threshold_per_class")
ABSENT = (math.nan,) * 5
WITHOUT_HIT = (1.0, math.nan, math.nan, 1.0, math.nan)


def matching_of(result: Result, iou: float = 0.5) -> Matching:
    found: Matching = result._asked("errors", None).matching(iou)
    return found


def errors_at(matching: Matching, label: int, score: float) -> tuple[float, ...]:
    """LRP, its parts and the threshold where detections of at least ``score`` are kept, one by one."""
    rows = matching.rows
    losses, fp = [], 0
    for row in range(len(rows.scores)):
        if rows.labels[row] == label and rows.scores[row] >= score:
            fp += bool(matching.false_positives[row])
            if matching.hits[row]:
                losses.append(1 - float(matching.ious[row]))  # type: ignore[index]
    positives, tp = int(matching.positives[label]), len(losses)
    error = (math.fsum(losses) / (1 - matching.iou) + fp + positives - tp) / (positives + fp)
    return error, math.fsum(losses) / max(tp, 1), fp / max(tp + fp, 1), (positives - tp) / positives, score


def by_loop(matching: Matching, label: int, scores: Any) -> tuple[float, ...]:
    """The optimum over thresholds, the first of equal ones."""
    if not matching.positives[label]:
        return ABSENT
    own = matching.rows.labels == label
    found = [
        errors_at(matching, label, float(s))
        for s in scores
        if (matching.hits & own & (matching.rows.scores >= s)).any()
    ]
    return min(found, key=lambda errors: round(errors[0], 12), default=WITHOUT_HIT)


def numbers_of(result: Result, name: str) -> list[float]:
    return [result.values[mapping][name] for mapping in MAPPINGS]


@pytest.mark.parametrize("iou", [0.5, 0.75, 0.1])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_plain_loop_over_all_thresholds(seed: int, iou: float) -> None:
    result = ours(dataset(scored_scene(seed, classes=5))).result()
    matching, olrp = matching_of(result, iou), result.olrp(iou)
    table = []
    for label, name in enumerate(matching.rows.classes):
        judged = (matching.hits | matching.false_positives) & (matching.rows.labels == label)
        scores = sorted({*matching.rows.scores[judged].tolist()})
        expected = by_loop(matching, label, scores)
        assert numbers_of(olrp, name) == pytest.approx(expected, abs=1e-12, nan_ok=True)
        table.append(numbers_of(olrp, name))
        for mapping, value in zip(MAPPINGS, table[-1]):
            assert math.isnan(value) == (f"{mapping}/{name}" in olrp.reasons)
    for place, name in enumerate(NUMBERS):
        there = [row[place] for row in table if not math.isnan(row[place])]
        assert olrp.values[name] == pytest.approx(np.mean(there) if there else math.nan, abs=1e-15, nan_ok=True)


@functools.cache
def example(kind: str) -> COCOeval:
    data = ROOT / "examples" / "data"

    def read(name: str) -> Any:
        return json.loads(
            gzip.decompress((data / name).read_bytes()) if name.endswith("gz") else (data / name).read_text()
        )

    masks = kind == "segm"
    truth = read("instances_val2014_100_masks.json.gz" if masks else "instances_val2014_100.json")
    found = read(f"instances_val2014_fake{kind}100_results.json" + ".gz" * masks)

    def evaluate() -> COCOeval:
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        e = COCOeval(coco, coco.loadRes(found), kind)
        e.evaluate()
        e.accumulate()
        return e

    return quietly(evaluate)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", ["bbox 0.5", "bbox 0.75", "segm 0.5"])
def test_vernier_on_its_grid_and_never_larger_than_it(case: str) -> None:
    kind, iou = case.split()
    e, golden = example(kind), GOLDEN[case]
    result = e.result()
    matching, exact = matching_of(result, float(iou)), result.olrp(float(iou))
    grid = [step / 100 for step in range(100, -1, -1)]  # of equal errors it takes the highest threshold
    for label, (category, name) in enumerate(zip(e.params.catIds, matching.rows.classes)):
        theirs = [math.nan if number is None else number for number in golden["per_class"][str(category)]]
        if math.isnan(theirs[4]):
            theirs[2] = math.nan  # 0 where nothing is predicted: no precision exists
        theirs[1] *= 1 - matching.iou  # it divides the mean 1 - IoU by 1 - tau, which the paper does not
        assert by_loop(matching, label, grid) == pytest.approx(tuple(theirs), abs=1e-12, nan_ok=True), name
        assert not exact.values["olrp_per_class"][name] > theirs[0] + 1e-12
    assert exact.values["olrp"] <= golden["olrp"] + 1e-12


def test_the_mean_is_over_classes_with_a_ground_truth() -> None:
    box = {"iscrowd": 0, "area": 100, "bbox": [0, 0, 10, 10]}
    truth = {
        "images": [{"id": 1, "width": 99, "height": 99}],
        "categories": [{"id": n, "name": name} for n, name in enumerate(("half", "missed", "absent", "crowd"), 1)],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, **box},
            {"id": 2, "image_id": 1, "category_id": 1, **box, "bbox": [50, 50, 10, 10]},
            {"id": 3, "image_id": 1, "category_id": 2, **box},
            {"id": 4, "image_id": 1, "category_id": 4, **box, "iscrowd": 1},
        ],
    }
    results = [
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 8], "score": 0.5},
        {"image_id": 1, "category_id": 1, "bbox": [20, 20, 9, 9], "score": 0.5},
        {"image_id": 1, "category_id": 1, "bbox": [30, 30, 9, 9], "score": 0.25},
        {"image_id": 1, "category_id": 3, "bbox": [0, 0, 9, 9], "score": 0.9},
    ]
    olrp = ours((truth, results)).result().olrp()
    assert numbers_of(olrp, "half") == pytest.approx([(0.2 / 0.5 + 1 + 1) / 3, 0.2, 0.5, 0.5, 0.5], abs=1e-15)
    assert numbers_of(olrp, "missed") == pytest.approx(WITHOUT_HIT, nan_ok=True)
    assert all(map(math.isnan, numbers_of(olrp, "absent") + numbers_of(olrp, "crowd")))
    means = [(0.8 + 1) / 2, 0.2, 0.5, 0.75]
    assert [olrp.values[name] for name in NUMBERS] == pytest.approx(means, abs=1e-15)
    assert olrp.reason("olrp_per_class/absent") == "no ground truth of the class counts"
    assert olrp.reason("score_threshold_per_class/missed") == "no detection of the class is a true positive at this IoU"
    assert olrp.signature["iou_threshold"] == 0.5 and olrp.counts["classes_without_ground_truth"] == 2


def test_without_a_true_positive_means_say_why() -> None:
    result = ours(dataset(scored_scene(2, images=1, classes=3))).result()
    olrp = result.olrp(0.999)
    assert olrp.values["olrp"] == 1
    assert olrp.reason("olrp_localization") == "no class has a true positive at this IoU"


@pytest.mark.parametrize("seed", seeds(2))
def test_replicates_are_the_numbers_of_repeated_images(seed: int) -> None:
    scene = scored_scene(seed, images=9)
    state = state_of(ours(dataset(scene)).result().olrp())
    draws = Draws(9, 6, first=3, seed=seed)
    found, weights = state.replicates(draws), draws.array()
    for column in range(draws.count):
        olrp = ours(dataset(repeated(scene, weights[:, column]))).result().olrp()
        for mapping in MAPPINGS:
            for name in ours(dataset(scene)).result().values["map_per_class"]:
                expected = olrp.values[mapping].get(name, math.nan)
                assert found[f"{mapping}/{name}"][column] == pytest.approx(expected, abs=1e-12, nan_ok=True)
        for name in NUMBERS:
            assert found[name][column] == pytest.approx(olrp.values[name], abs=1e-12, nan_ok=True)


def test_intervals_of_the_errors() -> None:
    olrp = ours(dataset(scored_scene(1, images=30))).result().olrp().with_intervals(200)
    interval = olrp.intervals["olrp"]
    assert 0 < interval.low < olrp.values["olrp"] < interval.high < 1
    assert olrp.intervals.choices["units"] == 30


def test_bad_thresholds() -> None:
    result = ours(dataset(scored_scene(0))).result()
    with pytest.raises(InputError, match="iou must be above 0 and below 1 but got 1: LRP divides by 1 - iou"):
        result.olrp(1)
    with pytest.raises(InputError, match="iou must be above 0"):
        result.olrp(0)


CHOICES: dict[str, Any] = {
    "things": list(CATEGORIES[:THINGS]), "stuffs": list(CATEGORIES[THINGS:]), "allow_unknown_preds_category": True,
}  # fmt: skip


@pytest.mark.parametrize("keep_images", [False, True])
def test_panoptic_errors_are_those_of_its_counts(keep_images: bool) -> None:
    metric = PanopticQuality(**CHOICES, keep_images=keep_images)
    metric.update(*batch_of(3, 6, 23, 30))
    quality, lrp = metric.result().values, metric.result().olrp()
    rows = {}
    for key in quality["pq_per_class"]:
        tp, fp, fn = (quality[f"{name}_per_class"][key] for name in ("tp", "fp", "fn"))
        loss = 0.0 if tp == 0 else tp - quality["sq_per_class"][key] * tp
        parts = [(loss / 0.5 + fp + fn, tp + fp + fn), (loss, tp), (fp, tp + fp), (fn, tp + fn)]
        rows[key] = [up / down if down else math.nan for up, down in parts]
        found = [lrp.values[f"lrp{part}_per_class"][key] for part in PARTS]
        assert found == pytest.approx(rows[key], abs=1e-12, nan_ok=True)
    for place, part in enumerate(PARTS):
        for group, keys in (("", CATEGORIES), ("_things", CATEGORIES[:THINGS]), ("_stuff", CATEGORIES[THINGS:])):
            there = [rows[str(key)][place] for key in keys if not math.isnan(rows[str(key)][place])]
            assert lrp.values[f"lrp{part}{group}"] == pytest.approx(np.mean(there), abs=1e-12)
    assert lrp.signature["metric"] == "LRP" and lrp.signature["of"] == "PanopticQuality"
    if keep_images:
        assert lrp.with_intervals(50).intervals["lrp"].high > lrp.values["lrp"]
    else:
        with pytest.raises(InputError, match="keep_images=True"):
            lrp.with_intervals(50)


PARTS = ("", "_localization", "_false_positive", "_false_negative")


def test_panoptic_errors_that_do_not_exist() -> None:
    metric = PanopticQuality([1], [2, 3])
    lrp = metric.result().olrp()
    assert math.isnan(lrp.values["lrp"]) and lrp.reason("lrp_things") == "no category of the mean has the number"
    assert lrp.reason("lrp_per_class/1") == "no segment counts for it, true or predicted"
    with pytest.raises(InputError, match=r"iou must be 0.5 for panoptic segments, .* but got 0.75"):
        metric.result().olrp(0.75)
    with pytest.raises(InputError, match=r"olrp\(\) is not defined for results of ModifiedPanopticQuality"):
        ModifiedPanopticQuality([1], [2]).result().olrp()
    with pytest.raises(InputError, match=r"errors\(\) is not defined for results of PanopticQuality"):
        metric.result().errors()
