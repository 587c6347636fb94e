"""Numbers of objects by size and aspect ratio equal pycocotools with other areas and area ranges, by bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.analysis.test_numbers_of import batches, metric_of, same
from tests.coco.comparison import OURS, THEIRS, Objects, evaluator, random_objects, run
from tests.fuzz import seeds
from valor_gpu.detection.choices import AREA_RANGES
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import single_numbers

BINS = {"size": [(0, 600), (600, 3000), (0, 1e10), (1e9, 1e10)], "aspect_ratio": [(0, 0.75), (0.75, 1.5), (1.5, 1e9)]}


def ratio(box: list[float]) -> float:
    if box[3] > 0:
        return box[2] / box[3]
    return np.inf if box[2] > 0 else -1.0


def theirs(objects: Objects, pair: tuple[float, float], area: Callable[[Any], float] | None) -> dict[str, float]:
    """Numbers of pycocotools with one area range, and areas of all rows by ``area``."""
    e = evaluator(THEIRS, copy.deepcopy(objects))
    for row in (*e.cocoGt.anns.values(), *e.cocoDt.anns.values()):
        row["area"] = row["area"] if area is None else area(row)
    e = run(e, False, areaRng=[list(pair)], areaRngLbl=["all"]).e
    precision, recall, ious = e.eval["precision"][..., -1], e.eval["recall"], e.params.iouThrs
    rows = {"map": slice(None), "map_50": ious == 0.5, "map_75": ious == 0.75}
    found = {name: present_mean(precision[chosen]) for name, chosen in rows.items()}
    found |= {f"mar_{limit}": present_mean(recall[..., m]) for m, limit in enumerate(e.params.maxDets)}
    names = [each["name"] for each in e.cocoGt.loadCats(e.params.catIds)]
    for number, chosen in rows.items():
        found |= {f"{number}_per_class/{n}": present_mean(precision[chosen][:, :, k]) for k, n in enumerate(names)}
    return found | {f"mar_per_class/{n}": present_mean(recall[:, k, :, -1]) for k, n in enumerate(names)}


def present_mean(values: np.ndarray) -> float:
    present = values[values > -1]
    return float(np.mean(present)) if present.size else np.nan


def our_result(objects: Objects, **options: Any) -> Any:
    return run(evaluator(OURS, copy.deepcopy(objects), **options), False).e.result()


@pytest.mark.parametrize("attribute", BINS)
@pytest.mark.parametrize("seed", seeds(3))
def test_bins_equal_pycocotools(seed: int, attribute: str) -> None:
    objects = random_objects(seed)
    found = our_result(objects)._asked("by", None).numbers_of_objects(attribute, BINS[attribute])
    by_ratio = attribute == "aspect_ratio"
    for pair, mine in zip(BINS[attribute], found):
        area = (lambda row: ratio(row["bbox"])) if by_ratio else None
        means = {name: value for name, value in mine.items() if not name.startswith(("ground", "detec"))}
        same(means, theirs(objects, pair, area))
        for name, rows in (("ground_truths", objects[0]["annotations"]), ("detections", objects[1])):
            for category in objects[0]["categories"]:
                values = [
                    ratio(row["bbox"]) if by_ratio else row.get("area", row["bbox"][2] * row["bbox"][3])
                    for row in rows
                    if row["category_id"] == category["id"]
                ]
                inside = sum(pair[0] <= value <= pair[1] for value in values)
                assert mine[f"{name}_per_class/{category['name']}"] == inside


def test_a_bin_of_everything_is_the_result() -> None:
    result = our_result(random_objects(1))
    found = result._asked("by", None).numbers_of_objects("size", [(0, 1e10)])[0]
    whole = single_numbers(result.values)
    same(found, {name: whole[name] for name in found})


def test_the_corrected_convention_gives_an_end_to_the_second_bin() -> None:
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 10]}
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "cat"}],
             "annotations": [{"id": 1, "area": 100, "iscrowd": 0, **box}]}  # fmt: skip
    for convention, first in (("strict", 1.0), ("corrected", np.nan)):
        analysis = our_result((truth, [{**box, "score": 0.5}]), convention=convention)._asked("by", None)
        found = [bin_numbers["map"] for bin_numbers in analysis.numbers_of_objects("size", [(0, 100), (100, 200)])]
        assert found == pytest.approx([first, 1.0], nan_ok=True)


def test_a_metric_knows_its_own_area_ranges() -> None:
    result = metric_of(batches(2, True)).result()
    analysis = result._asked("by", None)
    found = analysis.numbers_of_objects("size", list(AREA_RANGES.values()))
    values = single_numbers(result.values)
    same(found[0], {name: values[name] for name in found[0]})
    for name, numbers in zip(list(AREA_RANGES)[1:], found[1:]):
        same({"map": numbers["map"], "mar": numbers["mar_100"]},
             {"map": values[f"map_{name}"], "mar": values[f"mar_{name}"]})  # fmt: skip


def test_bad_questions_are_rejected() -> None:
    analysis = our_result(random_objects(1))._asked("by", None)
    of_metric = metric_of(batches(2, True)).result()._asked("by", None)
    for one, attribute, bins, message in (
        (analysis, "colour", [(0, 1)], "attribute must be"),
        (analysis, "size", [], r"bins must hold at least one pair \(low, high\) but hold none"),
        (analysis, "size", [3], r"bins must be pairs \(low, high\) of numbers but one is 3"),
        (analysis, "size", [(1, 2, 3)], r"bins must be pairs \(low, high\) of numbers but one is \(1, 2, 3\)"),
        (analysis, "size", [(2, 1)], r"with 0 <= low <= high but one is \(2, 1\)"),
        (analysis, "size", [(0, np.nan)], r"with 0 <= low <= high but one is \(0, nan\)"),
        (of_metric, "aspect_ratio", [(0, 1)], "aspect_ratio needs boxes, which records of MeanAveragePrecision do not"),
        (of_metric, "size", [(0, 7)], r"bins of size must be area ranges of Mean.*1e\+10\), .* but one is \(0, 7\)"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            one.numbers_of_objects(attribute, bins)
    rotated = metric_of([], iou_type="rotated", box_format="cxcywha")
    rotated.update(
        [{"boxes": torch.zeros((0, 5)), "scores": torch.zeros(0), "labels": torch.zeros(0).long()}],
        [{"boxes": torch.tensor([[5.0, 5, 4, 4, 30]]), "labels": torch.tensor([1])}],
    )
    assert np.isnan(rotated.result()._asked("by", None).numbers_of_objects("size", [(1024, 9216)])[0]["map"])


def in_bin(row: Any, pair: tuple[float, float], by_ratio: bool) -> bool:
    value = ratio(row["bbox"]) if by_ratio else row["area"]
    return bool(pair[0] <= value <= pair[1])


@pytest.mark.parametrize("use", [1, 0])
@pytest.mark.parametrize("attribute", BINS)
@pytest.mark.parametrize("seed", seeds(3))
def test_ground_truths_are_those_that_count(seed: int, attribute: str, use: int) -> None:
    objects = random_objects(seed)
    result = run(evaluator(OURS, copy.deepcopy(objects)), False, useCats=use).e.result()
    edges = [0.8, 1.7] if attribute == "aspect_ratio" else [601.5, 2999.5]
    pairs = [(0.0, edges[0]), tuple(edges), (edges[1], 1e10)]
    counted = [row for row in objects[0]["annotations"] if not row.get("iscrowd")]
    wanted = [sum(in_bin(row, pair, attribute == "aspect_ratio") for row in counted) for pair in pairs]
    found = result.by(attribute, bins={attribute: edges})
    assert list(found["ground_truths"]) == wanted and 0 < sum(wanted) < len(objects[0]["annotations"])


def test_ground_truths_of_a_metric_are_those_that_count() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 50, 50], [0, 0, 60, 60]])
    metric = metric_of([])
    target = {"boxes": boxes, "labels": torch.tensor([1, 1, 2]), "iscrowd": torch.tensor([0, 0, 1])}
    metric.update([{"boxes": boxes, "labels": torch.tensor([1, 1, 2]), "scores": torch.ones(3)}], [target])
    assert list(metric.result().by("size")["ground_truths"]) == [1, 1, 0]
