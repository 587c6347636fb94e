"""Results after ``accumulate(p)`` that takes a part: equal, names, counts and all, to a fresh run on that part."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.keypoint_scenes import random_keypoints
from testing.lvis_scenes import random_lvis
from tests.coco.comparison import OURS, evaluator, ids_untold, load, quietly, random_objects, run, same
from tests.coco.test_coco_analysis import same_rows
from tests.coco.test_keypoints import keypoint_evaluator
from tests.coco.test_lvis import evaluated as lvis_evaluated
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import single_numbers

EXAMPLES = Path(__file__).parents[2] / "examples/data"
CONVENTIONS = pytest.mark.parametrize("convention", ["strict", "corrected"])
NAMES = ("imgIds", "catIds", "maxDets", "areaRng", "areaRngLbl", "recThrs")
AXES: dict[str, Any] = {
    "maxDets": [1, 3, 100],
    "areaRng": [[0, 1e10], [0, 900], [1000, 2500], [2600, 1e9]],  # which do not touch: "corrected" closes them once
    "areaRngLbl": ["all", "small", "medium", "large"],
}


def accumulated(e: Any, **params: Any) -> Any:
    """An evaluation that accumulates once more, by a copy of its parameters with these."""
    p = copy.deepcopy(e.params)
    for name, value in params.items():
        setattr(p, name, value)
    quietly(e.accumulate, p)
    return e


def document(result: Any) -> Any:
    return json.loads(json.dumps(result.to_dict()))


def some(rng: Any, values: list[Any], first: bool = False) -> list[Any]:
    """A part of some values in their order, with the first one if wished."""
    kept = np.flatnonzero(rng.random(len(values)) < 0.6).tolist() or [0]
    return [values[place] for place in ([0, *kept] if first and kept[0] else kept)]


def random_part(rng: Any, e: Any) -> dict[str, Any]:
    """Parameters that ask for a part of an evaluation."""
    p = e.params
    ranges = some(rng, list(zip(p.areaRng, p.areaRngLbl)), first=True)
    return {
        "imgIds": some(rng, list(p.imgIds)),
        "catIds": some(rng, list(p.catIds)),
        "maxDets": some(rng, list(p.maxDets)),
        "areaRng": [pair for pair, _ in ranges],
        "areaRngLbl": [name for _, name in ranges],
        "recThrs": np.linspace(0, 1, int(rng.integers(2, 102))),
    }


def by_position(e: Any, part: dict[str, Any]) -> dict[str, Any]:
    """What pycocotools takes in place of a part: of ids and ranges the first ones, limits by value."""
    return part | {name: getattr(e.params, name)[: len(part[name])] for name in NAMES[:5] if name != "maxDets"}


def of_dataset(objects: Any, convention: str, **params: Any) -> Any:
    return run(evaluator(OURS, objects, convention=convention), summarize=False, **params).e


@CONVENTIONS
@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("looked_at", [False, True])
def test_results_of_random_parts_are_those_of_a_fresh_run(seed: int, convention: str, looked_at: bool) -> None:
    rng, objects = np.random.default_rng(seed), random_objects(seed, classes=5, first_id=seed % 2)
    e = of_dataset(objects, convention, **AXES)
    assert not looked_at or e.evalImgs
    for _ in range(3):
        part = random_part(rng, e)
        taken = by_position(e, part) if convention == "strict" else part
        got = accumulated(e, **part).result()
        fresh = of_dataset(objects, convention, **taken)
        assert document(got) == document(fresh.result())
        assert got.counts["ground_truths"] <= len(objects[0]["annotations"])


@CONVENTIONS
@pytest.mark.parametrize("seed", seeds(3))
def test_answers_about_parts_are_those_of_a_fresh_run(seed: int, convention: str) -> None:
    rng, objects = np.random.default_rng(seed + 50), random_objects(seed + 50, classes=5)
    e = of_dataset(objects, convention, **AXES)
    part = random_part(rng, e)
    taken = by_position(e, part) if convention == "strict" else part
    fresh = of_dataset(objects, convention, **taken)
    mine, theirs = accumulated(e, **part).result(), fresh.result()
    same_rows(mine._asked("errors", None), fresh.result()._asked("errors", None))
    assert document(mine.errors()) == document(theirs.errors())
    group = [np.arange(max(1, len(taken["imgIds"]) // 2))]
    numbers = [result._asked("by", None).numbers_of(group)[0] for result in (mine, theirs)]
    assert dict(numbers[0]).keys() == dict(numbers[1]).keys()
    np.testing.assert_equal(dict(numbers[0]), dict(numbers[1]))
    np.testing.assert_equal(single_numbers(mine._asked("by", None).result_of(group[0]).values), dict(numbers[1]))
    runs = [asdict(replace(each.to_run(), state=b"")) for each in (e, fresh)]  # whose records are of all images
    np.testing.assert_equal(runs[0], runs[1])


@CONVENTIONS
def test_intervals_of_a_part_are_those_of_a_fresh_run(convention: str) -> None:
    objects = random_objects(11, classes=4, images=9)
    e = of_dataset(objects, convention)
    ids, images = e.params.catIds[:2], e.params.imgIds[:6]
    mine = accumulated(e, catIds=ids, imgIds=images).result(intervals=20)
    fresh = of_dataset(objects, convention, catIds=ids, imgIds=images).result(intervals=20)
    assert {name: str(interval) for name, interval in mine.intervals.items()} == {
        name: str(interval) for name, interval in fresh.intervals.items()
    }


def real(convention: str) -> Any:
    """The first images of val2017 with the detections of a model."""
    truth = quietly(OURS.COCO, EXAMPLES / "instances_val2017_100.json")[0]
    found = quietly(truth.loadRes, EXAMPLES / "yolact_resnet50.json")[0]
    return run(OURS.COCOeval(truth, found, "bbox", convention=convention), summarize=False).e


@pytest.mark.parametrize(("convention", "names"), [("strict", ["person", "bicycle"]), ("corrected", ["car", "truck"])])
def test_names_are_those_of_the_categories_whose_numbers_they_are(convention: str, names: list[str]) -> None:
    e = real(convention)
    whole, part = e.result().values, accumulated(e, catIds=[3, 8]).result()
    for number in ("map_per_class", "mar_per_class", "ground_truths_per_class", "detections_per_class"):
        assert part.values[number] == {name: whole[number][name] for name in names}
    assert part.counts["ground_truths"] == sum(whole["ground_truths_per_class"][name] for name in names)
    assert part.counts["detections"] == sum(whole["detections_per_class"][name] for name in names)
    assert part.errors().values and e.to_run().matrix["names"] == [*names, ""]


def test_categories_in_another_order_and_again() -> None:
    e = of_dataset(random_objects(4, classes=4), "corrected")
    whole, (first, _, third, _) = e.result().values["map_per_class"], e.params.catIds
    got = accumulated(e, catIds=[third, first, third]).result()
    expected = {"class 2": whole["class 2"], "class 0": whole["class 0"], "class 2 #2": whole["class 2"]}
    np.testing.assert_equal(dict(got.values["map_per_class"]), expected)
    counts = got.values["ground_truths_per_class"]
    assert counts["class 2"] == counts["class 2 #2"] > 0
    assert got.counts["ground_truths"] == counts["class 2"] + counts["class 0"]
    assert e.to_run().matrix["names"] == ["class 0", "class 2", ""]


def test_names_that_only_a_left_out_category_makes_ambiguous() -> None:
    dataset, results = random_objects(4, classes=3)
    dataset["categories"][2]["name"] = dataset["categories"][0]["name"]
    e = of_dataset((dataset, results), "corrected")
    assert list(e.result().values["map_per_class"]) == ["class 0 (1)", "class 1", "class 0 (7)"]
    part = accumulated(e, catIds=[4, 7]).result()
    assert list(part.values["map_per_class"]) == ["class 1", "class 0"]
    assert part._asked("errors", None).rows.classes == ["class 1", "class 0"]


def test_strict_takes_positions_of_categories_ranges_and_limits() -> None:
    """What was not evaluated is left out, what follows moves up, and -1 stands behind, in the result nothing."""
    objects = random_objects(6, classes=4)
    e = of_dataset(objects, "strict", **AXES, iouThrs=np.array([0.5, 0.75]))
    first, second, third, _ = e.params.catIds
    got = accumulated(
        e, catIds=[second, 999, first], areaRng=[[5, 6], *AXES["areaRng"][2:]], areaRngLbl=["odd", "medium", "large"],
        maxDets=[7, 100, 3], iouThrs=np.array([0.1, 0.2, 0.3]),
    ).result()  # fmt: skip
    fresh = of_dataset(
        objects, "strict", catIds=[first, third], iouThrs=np.array([0.5, 0.75]),
        maxDets=[1, 3, 100], areaRng=AXES["areaRng"], areaRngLbl=AXES["areaRngLbl"],
    )  # fmt: skip
    whole = fresh.result().values
    assert got.signature["max_detection_thresholds"] == [100, 3]
    assert got.signature["area_ranges"] == ["small 0-900", "medium 1000-2500"]
    assert got.values["iou_thresholds"].tolist() == [0.5, 0.75]
    assert list(got.values["ground_truths_per_class"]) == ["class 0", "class 2"]
    assert got.values["ground_truths_per_class"] == whole["ground_truths_per_class"]
    recall = fresh.eval["recall"][:, :, 1, :]
    for place, limit in ((2, 100), (1, 3)):
        counting = recall[:, :, place][recall[:, :, place] > -1]
        assert got.values[f"mar_{limit}"] == counting.mean()


@CONVENTIONS
def test_pooled_categories(convention: str) -> None:
    objects = random_objects(8)
    e = of_dataset(objects, convention, useCats=0)
    images = e.params.imgIds[:2]
    got = accumulated(e, imgIds=images).result()
    assert document(got) == document(of_dataset(objects, convention, useCats=0, imgIds=images).result())
    assert "map_per_class" not in got.values and got.counts["images"] == len(images)


@CONVENTIONS
@pytest.mark.parametrize("seed", [1, 4, 7])
def test_crowdpose_groups_are_of_the_images_taken(seed: int, convention: str) -> None:
    objects = random_keypoints(seed, 14, crowdpose=True)

    def made(**params: Any) -> Any:
        return run(keypoint_evaluator(OURS, objects, "keypoints_crowd", convention=convention), False, **params).e

    e = made()
    images = e.params.imgIds[: len(e.params.imgIds) // 2 + 1]
    assert document(accumulated(e, imgIds=images).result()) == document(made(imgIds=images).result())


def test_masks_of_other_size_are_counted_among_the_images_taken() -> None:
    square, wide = ({"size": list(size), "counts": [0, 100]} for size in ((10, 10), (5, 20)))
    rows = [{"image_id": n, "category_id": 1, "area": 100, "iscrowd": 0, "bbox": [0, 0, 10, 10]} for n in (1, 2)]
    truth = [{**row, "id": n, "segmentation": square} for n, row in enumerate(rows, 1)]
    results = [{**rows[0], "segmentation": square}, {**rows[1], "segmentation": wide}]
    dataset = {"images": [{"id": 1}, {"id": 2}], "categories": [{"id": 1, "name": "cat"}], "annotations": truth}
    found = [{**row, "id": n, "score": 0.5} for n, row in enumerate(results, 1)]
    e = OURS.COCOeval(load(OURS, dataset), load(OURS, {**dataset, "annotations": found}), "segm")
    e = run(e, summarize=False).e
    assert e.result().counts["detections_of_other_size"] == 1
    counts = [accumulated(e, imgIds=ids).result().counts["detections_of_other_size"] for ids in ([1], [1, 2])]
    assert counts == [0, 1]


def test_parameters_that_change_after_accumulate_do_not_reach_the_result() -> None:
    objects = random_objects(2)
    e = of_dataset(objects, "corrected")
    expected = document(e.result())
    e.params.catIds, e.params.imgIds, e.params.maxDets = e.params.catIds[1:], [], [1, 10, 99]
    e.params.areaRng[0], e.params.areaRngLbl, e.params.recThrs = [0, 1], ["odd"], np.zeros(3)
    assert document(e.result()) == expected
    assert e.to_run().matrix["names"] == ["class 0", "class 1", "class 2", "class 3", ""]


@pytest.mark.parametrize("names", [{"maxDets": [7]}, {"areaRng": [[1, 2]], "areaRngLbl": ["odd"]}])
def test_nothing_taken(names: dict[str, Any]) -> None:
    e = accumulated(of_dataset(random_objects(3), "strict"), **names)
    with pytest.raises(InputError, match=r"needs an area range and a limit of detections but accumulate\(\) took none"):
        e.result()


def test_positions_beyond_what_was_evaluated() -> None:
    e = of_dataset(random_objects(3), "strict")
    accumulated(e, areaRng=[*e.params.areaRng, e.params.areaRng[0]], catIds=e.params.catIds[:1])
    with pytest.raises(InputError, match=r"have more area ranges, images or categories"):
        e.result()


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("across", [True, False])
def test_images_whose_annotations_share_ids(seed: int, across: bool) -> None:
    """In pycocotools' convention the last one stands for all: those of a fresh run are others."""
    rng, objects = np.random.default_rng(seed), random_objects(seed, images=6)
    rows = objects[0]["annotations"]
    for row in rows:
        row["id"] = int(rng.integers(1, 4)) + (0 if across else 10 * row["image_id"])
    with ids_untold():
        whole = of_dataset(objects, "strict").result()
        analysis = whole._asked("by", None)
        groups = [np.sort(rng.choice(analysis.images, size, replace=False)) for size in (1, 2, analysis.images)]
        numbers = analysis.numbers_of(groups)
        for group, mine in zip(groups, numbers):
            ids = [analysis.image_ids[place] for place in group]
            fresh = of_dataset(objects, "strict", imgIds=ids).result()
            same(document(fresh), document(analysis.result_of(group)))
            np.testing.assert_equal(dict(mine), single_numbers(fresh.values))


@pytest.mark.parametrize("seed", seeds(3))
def test_images_of_lvis_whose_annotations_share_ids(tmp_path: Path, seed: int) -> None:
    rng, (dataset, results) = np.random.default_rng(seed), random_lvis(seed)
    for row in dataset["annotations"]:
        row["id"] = int(rng.integers(1, 6))

    def result(**params: Any) -> Any:
        with ids_untold():
            return lvis_evaluated(tmp_path, dataset, copy.deepcopy(results), **params).result()

    analysis = result()._asked("by", None)
    groups = [np.arange(1), np.arange(analysis.images // 2, analysis.images)]
    for group, mine in zip(groups, analysis.numbers_of(groups)):
        fresh = result(img_ids=[analysis.image_ids[place] for place in group])
        same(document(fresh), document(analysis.result_of(group)))
        np.testing.assert_equal(dict(mine), single_numbers(fresh.values))
