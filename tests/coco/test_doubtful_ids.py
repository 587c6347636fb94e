"""Ids that are 0 or repeat: pycocotools' lower numbers, warnings, counts, and what ``corrected`` makes of them."""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
import pytest

from tests.coco.comparison import OURS, THEIRS, dataset_of, ids_untold, load, quietly, run
from valor_gpu.coco import LVISEval, mask
from valor_gpu.coco.doubtful_ids import count_ids, describe_ids

ZERO = "ground truth.* id 0: a detection that matches it counts as a false positive"
AGAIN = "ground truths? ha.* the id of an earlier one: the last one with an id stands in for the others"
WAY_OUT = 'convention="corrected" avoids this'
IDS = {
    "from 0": ([0, 1, 2, 3], 1, 0),
    "all 0": ([0, 0, 0, 0], 4, 3),
    "all 1": ([1, 1, 1, 1], 0, 3),
    "again in each image": ([1, 1, 2, 2], 0, 2),
    "not in order": ([9, 0, 9, 4], 1, 1),
}
KINDS = ("bbox", "segm", "boundary", "keypoints")


def objects_with(ids, kind="bbox"):
    """Four objects in two images, all of which are found exactly."""
    annotations, results = [], []
    for n, number in enumerate(ids):
        x, y, w, h = box = [20 * n, 10, 16, 24]
        points = [value for k in range(17) for value in (x + k % 5, y + k, 2)]
        shape = {"bbox": box}
        if kind in ("segm", "boundary"):
            shape = {"segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]}
        if kind == "keypoints":
            shape = {"keypoints": points}
        base = {"image_id": 1 + n % 2, "category_id": 1, **shape}
        annotations.append({"bbox": box, **base, "id": number, "area": w * h, "iscrowd": 0, "num_keypoints": 17})
        if kind in ("segm", "boundary"):  # pycocotools takes no polygons from results
            base["segmentation"] = mask.merge(mask.frPyObjects(base["segmentation"], 100, 100))
        results.append({**base, "score": 0.9})
    dataset = dataset_of(annotations, images=2)
    for image in dataset["images"]:
        image.update(width=100, height=100)
    return dataset, results


def made(side, objects, kind="bbox", base=None, **options):
    truth = load(side, objects[0])
    found = quietly(truth.loadRes, copy.deepcopy(objects[1]))[0]
    return (base or side.COCOeval)(truth, found, kind, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", IDS)
def test_strict_warns_and_counts(name, kind):
    ids, zeros, repeats = IDS[name]
    objects = objects_with(ids, kind)
    e = made(OURS, objects, kind)
    with pytest.warns(UserWarning, match=WAY_OUT) as caught:
        quietly(e.evaluate)
    text = str(caught[0].message)
    assert len(caught) == 1 and caught[0].filename.endswith("comparison.py")  # who calls evaluate
    assert (ZERO.split(".*")[1] in text) == (zeros > 0)
    assert ("the id of an earlier one" in text) == (repeats > 0)
    quietly(e.accumulate)
    counts = e.result().counts
    assert (counts["ground_truths_of_id_0"], counts["ground_truths_of_repeated_id"]) == (zeros, repeats)
    if kind != "boundary":
        theirs = run(made(THEIRS, objects, kind))
        quietly(e.summarize)
        assert e.stats.tolist() == theirs.e.stats.tolist() and e.stats[0] < 0.9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", IDS)
def test_corrected_is_right_and_says_nothing(name, kind):
    ids, zeros, repeats = IDS[name]
    e = made(OURS, objects_with(ids, kind), kind, convention="corrected")
    whole = run(e, summarize=False)
    quietly(e.summarize)
    assert e.stats[0] == pytest.approx(1, abs=1e-12)
    counts = whole.e.result().counts
    assert (counts["ground_truths_of_id_0"], counts["ground_truths_of_repeated_id"]) == (zeros, repeats)
    assert describe_ids(counts, strict=False) == []


def test_what_is_repeated_outside_of_what_is_evaluated():
    """An image of its own, out of a set that has handed out its objects."""
    e = made(OURS, objects_with([1, 1, 2, 2]))
    e.params.imgIds = [2]
    with pytest.warns(UserWarning, match=f"2 {AGAIN}"):
        quietly(e.evaluate)


def test_single_cells_and_pycocotools_own_sets():
    class Same(OURS.COCOeval):
        def computeIoU(self, *cell):
            return super().computeIoU(*cell)

    with pytest.warns(UserWarning, match=f"1 {ZERO}"):
        quietly(made(OURS, objects_with(range(4)), base=Same).evaluate)
    theirs = made(THEIRS, objects_with([0, 1, 1, 3]))
    ours = OURS.COCOeval(theirs.cocoGt, theirs.cocoDt, "bbox")
    with pytest.warns(UserWarning, match=f"1 {ZERO}.*; 1 {AGAIN}"):
        quietly(ours.evaluate)


def test_objects_changed_after_the_index_was_made():
    """An index that is out of date says nothing of ids."""
    e = made(OURS, objects_with([1, 2, 3, 4]))
    assert len(e.cocoGt.anns) == sum(map(len, e.cocoGt.imgToAnns.values())) == 4
    e.cocoGt.dataset["annotations"].append({**e.cocoGt.dataset["annotations"][0], "id": 5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quietly(e.evaluate)


@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_images_and_categories_listed_twice(convention):
    dataset, results = objects_with([1, 2, 3, 4])
    dataset["images"] += [{"id": 1, "width": 9, "height": 9}] * 2
    dataset["categories"].append({"id": 1, "name": "other"})
    e = made(OURS, (dataset, results), convention=convention)
    match = r"^2 images have the id of an earlier one: the last one counts; 1 category has the id of an earlier one"
    with pytest.warns(UserWarning, match=match):
        quietly(e.evaluate)
    quietly(e.accumulate)
    counts = e.result().counts
    assert (counts["images_of_repeated_id"], counts["categories_of_repeated_id"]) == (2, 1)


def test_detections_of_a_set_of_their_own():
    dataset, results = objects_with([1, 2, 3, 4])
    found = dataset_of([{**r, "id": n, "area": 9, "iscrowd": 0} for r, n in zip(results, [0, -1, 5, 5])], images=2)
    for base in (OURS.COCOeval, type("Same", (OURS.COCOeval,), {"_prepare": lambda s: OURS.COCOeval._prepare(s)})):
        e = base(load(OURS, dataset), load(OURS, found), "bbox")
        with pytest.warns(
            UserWarning, match=r"^2 detections have an id of 0 or below: .*; 1 detection has the id of an"
        ):
            quietly(e.evaluate)
    e = OURS.COCOeval(load(OURS, dataset), load(OURS, found), "bbox")
    with ids_untold():
        quietly(e.evaluate)
    counts = count_ids(e.cocoGt, e.cocoDt, e._layout)
    assert (counts["detections_of_id_0_or_below"], counts["detections_of_repeated_id"]) == (2, 1)


def test_files(tmp_path):
    dataset, results = objects_with([0, 7, 7, 7])
    for name, value in (("gt", dataset), ("dt", results)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    truth = quietly(OURS.COCO, tmp_path / "gt.json")[0]
    e = OURS.COCOeval(truth, quietly(truth.loadRes, tmp_path / "dt.json")[0], "bbox")
    with pytest.warns(UserWarning, match=f"^1 {ZERO}.*; 2 {AGAIN}"):
        quietly(e.evaluate)
    assert truth._dataset is None, "no object was made to count"


def lvis_objects(ids):
    dataset, results = objects_with(ids)
    for image in dataset["images"]:
        image.update(neg_category_ids=[], not_exhaustive_category_ids=[])
    dataset["categories"][0]["frequency"] = "f"
    return dataset, results


@pytest.mark.parametrize("name", IDS)
def test_lvis(tmp_path, name):
    ids, zeros, repeats = IDS[name]
    dataset, results = lvis_objects(ids)
    path = tmp_path / "lvis.json"
    path.write_text(json.dumps(dataset))
    strict, corrected = (LVISEval(str(path), results, "bbox", convention=c) for c in ("strict", "corrected"))
    with pytest.warns(UserWarning, match=WAY_OUT) as caught:
        strict.run()
    assert len(caught) == 1
    corrected.run()
    assert strict.results["AP"] < 0.9 and corrected.results["AP"] == pytest.approx(1, abs=1e-12)

    for e in (strict, corrected):
        result = e.result()
        assert result.signature["convention"] == e.convention
        counts = result.counts
        assert (counts["ground_truths_of_id_0"], counts["ground_truths_of_repeated_id"]) == (zeros, repeats)


def test_crowdpose_takes_id_0_like_any_other():
    dataset, results = objects_with(range(4), "keypoints")
    for annotation in (*dataset["annotations"], *results):
        annotation["keypoints"] = annotation["keypoints"][: 3 * 14]
    for image in dataset["images"]:
        image["crowdIndex"] = 0.1
    e = made(OURS, (dataset, results), "keypoints_crowd")
    quietly(e.evaluate)
    quietly(e.accumulate)
    assert np.mean(e.eval["precision"][:, :, :, 0]) > 0.99
    assert e.result().counts["ground_truths_of_id_0"] == 1
    for annotation in dataset["annotations"]:
        annotation["id"] = 5
    with pytest.warns(UserWarning, match=f"^3 {AGAIN}"):
        quietly(made(OURS, (dataset, results), "keypoints_crowd").evaluate)


def test_a_run_that_is_kept_says_it(tmp_path):
    e = made(OURS, objects_with([0, 1, 1, 3]))
    with ids_untold():
        quietly(e.evaluate)
    quietly(e.accumulate)
    notes = e.to_run().notes  # matches once more, and does not warn again
    assert [note.split(":")[0] for note in notes] == [
        "1 ground truth has id 0",
        "1 ground truth has the id of an earlier one",
    ]
