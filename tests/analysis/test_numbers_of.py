"""Numbers of groups of images equal evaluations of the images of each group alone, by bytes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from testing.keypoint_scenes import random_keypoints
from testing.lvis_scenes import random_lvis
from tests.coco.comparison import OURS, Objects, evaluator, random_objects, run
from tests.coco.test_keypoints import keypoint_evaluator
from tests.coco.test_lvis import evaluated as lvis_evaluated
from tests.fuzz import seeds
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.exports.leaves import single_numbers
from valor_gpu.reduce.grouped_detection import GroupNumbers

Numbers = Mapping[str, float]

COUNTS = ("ground_truths_per_class", "detections_per_class")
VARIANTS: dict[str, dict[str, Any]] = {
    "strict": {},
    "corrected": {"convention": "corrected"},
    "pooled": {"useCats": 0},
    "other axes": {"maxDets": [2, 3], "areaRng": [[0, 1e10], [0, 900]], "areaRngLbl": ["all", "small"],
                   "iouThrs": np.array([0.3, 0.75, 0.6]), "recThrs": np.array([0.0, 0.5, 0.2])},
    "corrected, an unsorted grid": {"convention": "corrected", "recThrs": np.array([0.0, 0.5, 0.2])},
}  # fmt: skip


def same(mine: Numbers, other: Numbers) -> None:
    """Equal names in equal order, and equal bits."""
    assert list(mine) == list(other)
    for name, value in other.items():
        assert np.float64(mine[name]).tobytes() == np.float64(value).tobytes(), (name, mine[name], value)


def random_groups(images: int, seed: int) -> list[np.ndarray]:
    """Groups that overlap, an empty one, and one of all images."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, max(2, images), 4)
    some = [np.sort(rng.choice(images, min(int(size), images), replace=False)) for size in sizes]
    return [*some, np.arange(0), np.arange(images)]


def evaluation(objects: Objects, images: list[int] | None = None, **options: Any) -> Any:
    params = {name: value for name, value in options.items() if name != "convention"}
    made = evaluator(OURS, copy.deepcopy(objects), convention=options.get("convention", "strict"))
    return run(made, False, **params, **({} if images is None else {"imgIds": images})).e


def check(analysis: Any, fresh: Any, whole: Any, seed: int) -> Any:
    """Each group equals an evaluation of its images, and all images the result itself."""
    groups = random_groups(analysis.images, seed)
    found = analysis.numbers_of(groups)
    assert len(found) == len(groups)
    same(found[-1], single_numbers(whole.values))
    for group, mine in zip(groups[:-2], found):
        same(mine, single_numbers(fresh([analysis.image_ids[place] for place in group]).values))
        same(mine, single_numbers(analysis.result_of(group).values))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", seeds(3))
def test_coco_groups_equal_fresh_evaluations(seed: int, variant: str) -> None:
    objects, options = random_objects(seed), VARIANTS[variant]
    whole = evaluation(objects, **options).result()
    found = check(whole._asked("by", None), lambda images: evaluation(objects, images, **options).result(), whole, seed)
    assert isinstance(found, GroupNumbers) == (variant != "corrected, an unsorted grid")
    assert all(np.isnan(value) for name, value in found[-2].items() if "per_class" not in name)  # of no image


@pytest.mark.parametrize("kind", ["keypoints", "keypoints_crowd"])
def test_keypoint_groups_equal_fresh_evaluations(kind: str) -> None:
    objects = random_keypoints(3, 14, crowdpose=True) if kind == "keypoints_crowd" else random_keypoints(3)

    def fresh(images: Any = None) -> Any:
        e = run(keypoint_evaluator(OURS, objects, kind), False, **({} if images is None else {"imgIds": images})).e
        return e.result()

    whole = fresh()
    check(whole._asked("by", None), fresh, whole, 3)


@pytest.mark.parametrize("options", [{}, {"use_cats": 0}, {"area_rng_lbl": ["every", "small", "medium", "large"]}])
@pytest.mark.parametrize("seed", seeds(2))
def test_lvis_groups_equal_fresh_evaluations(tmp_path: Any, seed: int, options: dict[str, Any]) -> None:
    dataset, results = random_lvis(seed)

    def fresh(images: Any = None) -> Any:
        chosen = {} if images is None else {"img_ids": images}
        return lvis_evaluated(tmp_path, dataset, copy.deepcopy(results), **options, **chosen).result()

    whole = fresh()
    analysis = whole._asked("by", None)
    found = check(analysis, fresh, whole, seed)
    assert isinstance(found, GroupNumbers) == ("area_rng_lbl" not in options)
    everything = analysis.numbers_of_objects("size", [(0, 1e10)])[0]
    means = {name: value for name, value in everything.items() if not name.startswith(COUNTS)}
    same(means, {name: single_numbers(whole.values)[name] for name in means})


def test_groups_are_of_what_accumulate_took() -> None:
    """Fewer images, categories, ranges and limits than were evaluated."""
    e = evaluation(random_objects(5))
    part = copy.deepcopy(e.params)
    part.imgIds, part.catIds = part.imgIds[: len(part.imgIds) // 2 + 1], part.catIds[:2]
    part.areaRng, part.areaRngLbl, part.maxDets = part.areaRng[:2], part.areaRngLbl[:2], part.maxDets[:2]
    e.accumulate(part)
    e.params = part
    whole = e.result()
    analysis = whole._asked("by", None)
    assert analysis.images == len(part.imgIds)
    same(analysis.numbers_of([np.arange(analysis.images)])[0], single_numbers(whole.values))


# ------------------------------------------------------------------------------------------ MeanAveragePrecision

METRICS: dict[str, dict[str, Any]] = {
    "macro": {},
    "micro": {"average": "micro"},
    "micro, with classes": {"average": "micro", "class_metrics": True},
    "ties by arrival": {"tie_order": "arrival"},
    "other axes": {
        "iou_thresholds": [0.3, 0.75],
        "rec_thresholds": [0.0, 0.5, 0.2],
        "max_detection_thresholds": [2, 4],
    },
}


def batches(seed: int, ids: bool) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Images with detections of few different scores."""
    rng, made = np.random.default_rng(seed), []
    for image in rng.permutation(9).tolist():
        sides = []
        for count in rng.integers(0, 7, 2).tolist():
            corner = rng.integers(0, 40, (count, 2))
            boxes = torch.from_numpy(np.concatenate((corner, corner + rng.integers(5, 60, (count, 2))), 1)).float()
            sides.append({"boxes": boxes, "labels": torch.from_numpy(rng.integers(0, 4, count))})
        scores = torch.from_numpy(rng.integers(0, 4, len(sides[0]["boxes"])) / 4).float()
        made.append(({**sides[0], "scores": scores}, {**sides[1], **({"image_id": image} if ids else {})}))
    return made


def metric_of(data: list[tuple[dict[str, Any], dict[str, Any]]], **options: Any) -> MeanAveragePrecision:
    metric = MeanAveragePrecision(**options)
    metric.warn_on_many_detections = False
    for found, true in data:
        metric.update([found], [true])
    return metric


@pytest.mark.parametrize("variant", METRICS)
@pytest.mark.parametrize("seed", seeds(2))
def test_groups_of_a_metric_equal_fresh_metrics(seed: int, variant: str) -> None:
    ids = variant == "ties by arrival" or seed % 2 == 0
    data, options = batches(seed, ids), METRICS[variant]
    result = metric_of(data, **options).result()
    analysis = result._asked("by", None)
    groups = random_groups(analysis.images, seed)
    found = analysis.numbers_of(groups)
    same(found[-1], single_numbers(result.values))
    for group, mine in zip(groups[:-1], found):
        same(known(mine), known(single_numbers(analysis.result_of(group).values)))
        if ids:
            names = {analysis.image_ids[place] for place in group}
            fresh = metric_of([each for each in data if each[1]["image_id"] in names], **options).result()
            same(known(mine), known(single_numbers(fresh.values)))


def known(numbers: Numbers) -> Numbers:
    """Without classes that do not count: a metric knows no class that none of its images has."""
    return {name: value for name, value in numbers.items() if "/" not in name or not np.isnan(value)}


def test_numbers_are_rows_of_one_table() -> None:
    result = metric_of(batches(1, True)).result()
    found = result._asked("by", None).numbers_of([np.array([2]), np.arange(9), np.array([0, 5])])
    assert found.table.shape == (3, len(found.names)) and len(found) == 3
    same([*found][1], found[-2])
    assert found[1:].column("map").tobytes() == np.array([found[1]["map"], found[2]["map"]]).tobytes()
