"""Intervals of COCOeval: replicates are what pycocotools finds in data sets in which images stand several times."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from testing.coco_scenes import dataset, evaluated, scored_scene
from testing.keypoint_scenes import random_keypoints
from testing.lvis_scenes import random_lvis
from testing.scenes import Scene
from tests.coco.comparison import OURS, quietly, run
from tests.coco.test_keypoints import keypoint_evaluator
from tests.coco.test_lvis import evaluated as lvis_evaluated
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.errors import InputError
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.draws import Draws

STATS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100", "mar_small",
         "mar_medium", "mar_large")  # fmt: skip


def repeated(scene: Scene, weights: Any) -> Scene:
    """A scene in which image i stands ``weights[i]`` times, copies side by side."""
    return Scene(*([x for x, n in zip(column, weights) for _ in range(n)] for column in vars(scene).values()))


def ours(objects: Any, convention: str = "strict", **params: Any) -> COCOeval:
    """Our evaluator after evaluate and accumulate."""
    truth, results = copy.deepcopy(objects)

    def evaluate() -> COCOeval:
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        e = COCOeval(coco, coco.loadRes(results), "bbox", convention=convention)
        for name, value in params.items():
            setattr(e.params, name, value)
        e.evaluate()
        e.accumulate()
        return e

    found: COCOeval = quietly(evaluate)[0]
    return found


def state_of(result: Any) -> Any:
    return vars(result)["_state"]()


def same(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs or (np.isnan(ours) and theirs == -1))


@pytest.mark.parametrize("seed", range(2))
def test_replicates_are_those_of_pycocotools_over_copies_of_images(seed: int) -> None:
    scene = scored_scene(seed, images=9)
    state = state_of(ours(dataset(scene)).result())
    draws = Draws(9, 4, first=2, seed=seed)
    found, weights = state.replicates(draws), draws.array()
    names = [str(k) for k in sorted({int(k) for part in (*scene.labels, *scene.gt_labels) for k in part})]
    for column in range(draws.count):
        theirs = evaluated(*dataset(repeated(scene, weights[:, column])))
        for name, stat in zip(STATS, theirs.stats, strict=True):
            assert same(found[name][column], stat), name
        there = {str((k - 1) // 3): place for place, k in enumerate(theirs.params.catIds)}
        for name in names:
            number = found[f"map_per_class/{name}"][column]
            values = theirs.eval["precision"][:, :, there[name], 0, -1] if name in there else np.full(1, -1)
            values = np.ascontiguousarray(values)[values > -1]
            assert same(number, values.mean() if values.size else -1)


def test_a_part_of_the_images_and_pooled_categories() -> None:
    scene = scored_scene(3, images=9)
    truth, results = dataset(scene)
    chosen = [image["id"] for image in truth["images"]][1:8:2]
    limits = {"iouThrs": np.array([0.5, 0.75]), "maxDets": [1, 5, 20], "useCats": 0, "imgIds": chosen}
    state = state_of(ours((truth, results), **limits).result())
    assert state.units == 4
    draws = Draws(4, 3, seed=5)
    found, weights = state.replicates(draws), draws.array()
    part = Scene(*([column[i] for i in (1, 3, 5, 7)] for column in vars(scene).values()))
    for column in range(draws.count):
        params = {name: value for name, value in limits.items() if name != "imgIds"}
        theirs = evaluated(*dataset(repeated(part, weights[:, column])), **params)
        precision = theirs.eval["precision"][:, :, 0, 0, -1]
        recall = theirs.eval["recall"][:, 0, 0, 1]
        assert same(found["map"][column], precision.mean()) and same(found["mar_5"][column], recall.mean())
    assert not any(name.startswith("map_per_class") for name in found)


def test_intervals_of_a_result() -> None:
    objects = dataset(scored_scene(4, images=12))
    e = ours(objects, iouThrs=np.array([0.5]))
    result = e.result(intervals=Bootstrap(20, seed=7, method="percentile"))
    interval = result.intervals["map"]
    assert interval.low <= result.values["map"] + interval.bias <= interval.high and interval.standard_error > 0
    assert result.intervals.choices["unit"] == "images" and result.intervals.choices["units"] == 12
    assert result.intervals.choices["lost_classes"] == "left out"
    assert result.values["map"] == e.result().values["map"]
    assert not e.result().intervals
    few = {name: i.reason for name, i in result.intervals.items() if name.startswith("map_per_class/")}
    assert few and all("too few images" in reason for reason in few.values())
    later = e.result()
    quietly(e.evaluate)  # another evaluation leaves the result as it is
    assert dict(later.with_intervals(Bootstrap(20, seed=7, method="percentile")).intervals) == dict(result.intervals)


def test_classes_that_a_replicate_lost_are_counted() -> None:
    scene = scored_scene(5, images=12, classes=25)
    state = state_of(ours(dataset(scene), iouThrs=np.array([0.5])).result())
    draws = Draws(12, 16, seed=1)
    found, weights = state.replicates(draws), draws.array()
    held = [{int(k) for k, crowd in zip(labels, crowds) if not crowd}
            for labels, crowds in zip(scene.gt_labels, scene.crowds)]  # fmt: skip
    classes = set().union(*held)
    lost = [len(classes - set().union(*(held[i] for i in np.flatnonzero(weights[:, column])))) for column in range(16)]
    assert found["map/lost classes"].tolist() == lost and max(lost) > 0
    interval = ours(dataset(scene), iouThrs=np.array([0.5])).result(intervals=Bootstrap(16, seed=1)).intervals["map"]
    assert interval.lost_classes == sum(n > 0 for n in lost)


def test_clusters_are_drawn_as_a_whole() -> None:
    objects = dataset(scored_scene(6, images=6))
    ids = [image["id"] for image in objects[0]["images"]]
    e = ours(objects, iouThrs=np.array([0.5]))
    videos = dict(zip(ids, "aabbcc", strict=True))
    found = e.result(intervals=Bootstrap(10, clusters=videos))
    assert found.intervals.choices["clusters"] == 3
    assert dict(e.result(intervals=Bootstrap(10, clusters=list("xxyyzz"))).intervals) == dict(found.intervals)
    with pytest.raises(InputError, match=f"1 of 6 are missing, the first is {ids[0]}"):
        e.result(intervals=Bootstrap(10, clusters={i: v for i, v in videos.items() if i != ids[0]}))
    with pytest.raises(InputError, match="1 ids are of no image, the first is 'x'"):
        e.result(intervals=Bootstrap(10, clusters={**videos, "x": "a"}))
    with pytest.raises(InputError, match="one for each of 6 images but are 2"):
        e.result(intervals=Bootstrap(10, clusters=["a", "b"]))


def test_what_has_no_intervals_says_why() -> None:
    objects = dataset(scored_scene(7, images=5))
    e = ours(objects, iouThrs=np.array([0.5]))
    with pytest.raises(InputError, match="with_values=True"):
        e.result(with_values=False, intervals=10)
    assert e.evalImgs
    assert e.result(intervals=2).intervals  # looked at after accumulate
    quietly(e.accumulate)
    with pytest.raises(InputError, match="looked at before: call evaluate"):
        e.result(intervals=10)


def test_other_recalls_than_those_evaluated() -> None:
    e = ours(dataset(scored_scene(8, images=7)))
    given = copy.deepcopy(e.params)
    given.recThrs = np.linspace(0, 1, 11)
    quietly(lambda: e.accumulate(given))
    assert len(e.params.recThrs) == 101
    result = e.result()
    state = state_of(result)
    state._weights = lambda draws: np.ones((7, 1), np.uint8)
    assert state.replicates(Draws(7, 1))["map"][0] == result.values["map"]


def test_other_limits_than_those_evaluated() -> None:
    scene = scored_scene(8, images=7)
    e = ours(dataset(scene), iouThrs=np.array([0.5]), maxDets=[1, 3, 20])
    e.params.maxDets = [1, 3]
    quietly(e.accumulate)
    result = e.result(intervals=6)
    name = next(name for name in result.intervals if name.startswith("map_per_class/"))
    assert "other area ranges, limits or thresholds" in result.intervals[name].reason
    state, draws = state_of(result), Draws(7, 3, seed=2)
    found, weights = state.replicates(draws), draws.array()
    for column in range(3):
        theirs = evaluated(*dataset(repeated(scene, weights[:, column])), iouThrs=np.array([0.5]), maxDets=[1, 3, 20])
        values = theirs.eval["precision"][:, :, :, 0, 1]
        assert same(found["map"][column], values[values > -1].mean())


def copies(objects: Any, weights: Any) -> Any:
    """A dataset and results in which an image stands so often as its weight says, copies side by side by id."""
    truth, results = objects
    annotations: list[Any] = []
    images: list[Any] = []
    found: list[Any] = []
    for image, weight in zip(sorted(truth["images"], key=lambda image: image["id"]), weights, strict=True):
        for _ in range(weight):
            number = len(images) + 1
            images.append({**image, "id": number})
            for row in truth["annotations"]:
                if row["image_id"] == image["id"]:
                    annotations.append({**row, "image_id": number, "id": len(annotations) + 1})
            found += [{**row, "image_id": number} for row in results if row["image_id"] == image["id"]]
    return {**truth, "images": images, "annotations": annotations}, found


LVIS_NUMBERS = ("map", "map_50", "map_small", "map_rare", "map_common", "map_frequent", "mar_300")


@pytest.mark.parametrize("seed", [3, 8])
def test_lvis_and_its_groups_of_categories(tmp_path: Any, seed: int) -> None:
    objects = random_lvis(seed, False)
    for place, category in enumerate(objects[0]["categories"]):
        category["frequency"] = "rcf"[place % 3]
    result = lvis_evaluated(tmp_path, *objects).result()
    state = state_of(result)
    draws = Draws(state.units, 3, seed=seed)
    found, weights = state.replicates(draws), draws.array()
    assert set(LVIS_NUMBERS) <= set(found)
    for column in range(3):
        theirs = lvis_evaluated(tmp_path, *copies(objects, weights[:, column])).result().values
        for name in LVIS_NUMBERS:
            assert alike(found[name][column], theirs[name]), name
        for name, value in theirs["map_per_class"].items():
            assert alike(found[f"map_per_class/{name}"][column], value)
    assert result.with_intervals(4).intervals.choices["units"] == len(objects[0]["images"])


@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_crowdpose_and_its_groups_of_images(convention: str) -> None:
    objects = random_keypoints(2, 14, crowdpose=True)

    def result(objects: Any) -> Any:
        e = keypoint_evaluator(OURS, objects, "keypoints_crowd", convention=convention)
        return run(e, summarize=False).e.result()

    state = state_of(result(objects))
    draws = Draws(state.units, 3, seed=4)
    found, weights = state.replicates(draws), draws.array()
    for column in range(3):
        theirs = result(copies(objects, weights[:, column])).values
        for name in ("map", "mar_20", "map_crowding_easy", "map_crowding_medium", "map_crowding_hard"):
            assert alike(found[name][column], theirs[name]), name


def alike(one: float, other: float) -> bool:
    return bool(one == other or (np.isnan(one) and np.isnan(other)))
