"""Each quirk of pycocotools by name: what it does, that ``strict`` does the same, and what ``corrected`` does.

docs/quirks.md is the table of them; the last test holds the two together.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coco.comparison import (
    OURS,
    THEIRS,
    both,
    boxes_of,
    corrected,
    dataset_of,
    evaluator,
    found,
    load,
    quietly,
    random_objects,
    run,
    same_arrays,
    same_runs,
    with_datasets,
)
from tests.fuzz import seeds
from valor_gpu.coco import COCOeval
from valor_gpu.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "quirks.md"
SQUARE = (0.0, 0.0, 50.0, 50.0)


def test_annotation_id_0():
    truths = boxes_of(SQUARE, (100.0, 0.0, 50.0, 50.0))
    truths[0]["id"] = 0
    objects = dataset_of(truths), found(truths)
    theirs, ours = both(objects)
    same_runs(theirs, ours)
    assert ours["recall"][0, 0, 0, 2] == 0.5
    mended = corrected(objects)
    assert mended["recall"].max() == mended.e.stats[0] == 1
    cell = mended.e.evalImgs[0]
    assert (cell["gtIds"], cell["dtMatches"][0].tolist()) == ([0, 2], [-1, 2])
    quietly(mended.e.accumulate)
    assert mended["recall"].max() == 1


def test_annotation_id_0_cell_by_cell():
    truths = boxes_of(SQUARE, (100.0, 0.0, 50.0, 50.0))
    truths[0]["id"] = 0

    class Same(COCOeval):
        def evaluateImg(self, *cell):
            return super().evaluateImg(*cell)

    objects = dataset_of(truths), found(truths)
    for convention in ("strict", "corrected"):
        whole = run(evaluator(OURS, objects, convention=convention))
        cells = run(evaluator(OURS, objects, Same, convention=convention))
        same_runs(whole, cells)


def test_detection_id_0():
    truths = dataset_of(boxes_of(SQUARE))
    twice = boxes_of(SQUARE, SQUARE, score=0.9)
    twice[0]["id"], twice[1]["id"] = 0, -5  # both find the same ground truth, since neither takes it
    theirs, ours = (run(with_datasets(side, truths, twice)) for side in (THEIRS, OURS))
    same_runs(theirs, ours)
    assert ours.e.evalImgs[0]["dtMatches"][0].tolist() == [1, 1]
    mended = run(with_datasets(OURS, truths, twice, convention="corrected"))
    assert mended.e.evalImgs[0]["dtMatches"][0].tolist() == [1, 0]
    assert mended.e.evalImgs[0]["gtMatches"][0].tolist() == [-1]
    for whole in (ours, mended):
        e = with_datasets(OURS, truths, twice, convention=whole.e.convention)
        e.computeIoU = e.computeIoU  # cell by cell
        same_runs(whole, run(e))


def test_more_true_positives_than_ground_truths_reach_recalls_beyond_1():
    truths = dataset_of(boxes_of(SQUARE))
    thrice = boxes_of(SQUARE, SQUARE, SQUARE, score=0.9)
    for detection in thrice:
        detection["id"] = 0
    grid = np.array([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5])
    sides = [with_datasets(side, truths, thrice) for side in (THEIRS, OURS)]
    for e in sides:
        e.params.recThrs = grid
    theirs, ours = map(run, sides)
    same_runs(theirs, ours)
    assert ours["precision"][0, :, 0, 0, -1].tolist() == pytest.approx([1] * 7 + [0])


def test_annotation_ids_that_repeat():
    truths = boxes_of(SQUARE, (100.0, 0.0, 50.0, 50.0), (200.0, 0.0, 50.0, 50.0))
    for truth, image, category in zip(truths, (1, 2, 1), (1, 1, 2)):
        truth.update(id=truth["id"] % 2, image_id=image, category_id=category)
    objects = dataset_of(truths, images=2, categories=2), found(truths)
    theirs, ours = both(objects)
    same_runs(theirs, ours)
    assert [len(e["gtIds"]) for e in ours.e.evalImgs if e] != [1] * 12
    truths[0]["id"], truths[2]["id"] = 7, 7
    assert corrected(objects).e.stats[8] == 1
    same_runs(*both(objects, useCats=0))


def test_annotation_ids_that_repeat_in_random_scenes():
    for seed in range(6):
        dataset, results = random_objects(seed, images=5)
        for n, annotation in enumerate(dataset["annotations"]):
            annotation["id"] = 1 + n % max(1, len(dataset["annotations"]) - 7)
        for params in ({}, {"imgIds": [3, 10]}, {"catIds": [1, 7]}, {"useCats": 0, "catIds": [7, 1]}):
            same_runs(*both((dataset, results), **params))


@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_empty_results(convention):
    dataset, _ = random_objects(1)
    with pytest.raises(IndexError, match="list index out of range"):
        quietly(load(THEIRS, dataset).loadRes, [])
    empty = run(evaluator(OURS, (dataset, []), convention=convention))
    assert empty.e.stats[0] == empty.e.stats[8] == 0
    theirs = run(THEIRS.COCOeval(load(THEIRS, dataset), THEIRS.COCO(), "bbox"))
    same_arrays(theirs.e.eval, empty.e.eval)


def test_nan_scores():
    truths = boxes_of(SQUARE, (100.0, 0.0, 50.0, 50.0))
    objects = dataset_of(truths), found(truths)
    objects[1][0]["score"] = float("nan")
    theirs, ours = both(objects)
    same_runs(theirs, ours)
    assert ours.e.stats[0] == 1
    e = evaluator(OURS, objects)
    e.computeIoU = e.computeIoU  # cell by cell
    same_runs(ours, run(e))
    with pytest.raises(InputError, match=r"results\[0\]\.score \(id 1\) must be a number but got nan"):
        corrected(objects)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_boxes_that_are_not_finite(convention, bad):
    truths = boxes_of(SQUARE, (100.0, 0.0, 50.0, 50.0))
    for side, place in ((0, "dataset: annotations[1]"), (1, "results[1]")):
        objects = copy.deepcopy((dataset_of(truths), found(truths)))
        (objects[0]["annotations"], objects[1])[side][1]["bbox"][2] = bad
        matches = run(evaluator(THEIRS, objects)).e.evalImgs[0]["dtMatches"][0].tolist()
        assert matches == ([1, 2] if np.isnan(bad) else [1, 0])
        with pytest.raises(
            InputError, match=re.escape(f"{place}.bbox (id 2) must be finite but got [100.0, 0.0, {bad}")
        ):
            run(evaluator(OURS, objects, convention=convention))


@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_areas_that_are_not_numbers(convention):
    truths = boxes_of(SQUARE, area=float("nan"))
    objects = dataset_of(truths), found(truths)
    assert run(evaluator(THEIRS, objects)).e.stats[9:].tolist() == [1, 1, 1]
    with pytest.raises(InputError, match=r"annotations\[0\]\.area \(id 1\) must be a number but got nan"):
        run(evaluator(OURS, objects, convention=convention))


def test_infinite_areas():
    objects = dataset_of(boxes_of(SQUARE, area=float("inf"))), found(boxes_of(SQUARE))
    theirs, ours = both(objects)
    same_runs(theirs, ours)
    assert (ours.e.stats == -1).all()
    with pytest.raises(InputError, match=r"annotations\[0\]\.area \(id 1\) must be finite but got inf"):
        corrected(objects)


@pytest.mark.parametrize("size", [1e-170, 1e160])
@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_areas_that_underflow_or_overflow(convention, size):
    """Where strict has other numbers than pycocotools."""
    extreme = boxes_of((0.0, 0.0, size, size), area=100.0)
    objects = dataset_of(extreme), found(extreme)
    theirs, ours = run(evaluator(THEIRS, objects)), run(evaluator(OURS, objects, convention=convention))
    assert theirs.e.stats[0] > 0.999 and ours.e.stats[0] == 0
    assert np.isnan(theirs.e.ious[1, 1]).all() and np.isnan(ours.e.ious[1, 1]).all()


@pytest.mark.parametrize("convention", ["strict", "corrected"])
@pytest.mark.parametrize("key", ["area", "iscrowd", "bbox"])
def test_missing_keys(convention, key):
    dataset, results = random_objects(2)
    del dataset["annotations"][5][key]
    with pytest.raises(KeyError, match=key):
        run(evaluator(THEIRS, (dataset, results)))
    if convention == "strict" or key == "bbox":
        with pytest.raises(InputError, match=rf"\[\d+\] must have {key} but has only id, image_id"):
            run(evaluator(OURS, (dataset, results), convention=convention))
    else:  # tests/coco/test_missing_fields.py: what is taken
        assert run(evaluator(OURS, (dataset, results), convention=convention)).e.stats[0] > 0
    del results[3]["score"]
    dataset = random_objects(2)[0]
    with pytest.raises(
        InputError,
        match=r"results\[3\] must have score but has only image_id, category_id, bbox \(null counts as missing\)$",
    ):
        run(evaluator(OURS, (dataset, results), convention=convention))


def test_missing_keys_that_are_not_needed():
    dataset, results = random_objects(2)
    crowd = next(a for a in dataset["annotations"] if a["iscrowd"])
    del crowd["area"]
    other = {"id": 999, "image_id": 999, "category_id": 1}  # in no image that is evaluated
    dataset["annotations"].append(other)
    same_runs(*both((dataset, results)))


def test_ignore_field():
    truths = boxes_of(SQUARE, (100.0, 0.0, 50.0, 50.0))
    truths[1]["ignore"] = 1
    objects = dataset_of(truths), found(truths)[:1]
    theirs, ours = both(objects)
    same_runs(theirs, ours)
    assert ours.e.stats[8] == 0.5
    mended = corrected(objects)
    assert mended.e.stats[8] == 1
    assert mended.e.evalImgs[0]["gtIgnore"].tolist() == [0, 1]

    class Same(COCOeval):
        def evaluateImg(self, *cell):
            return super().evaluateImg(*cell)

    for whole in (ours, mended):
        same_runs(whole, run(evaluator(OURS, objects, Same, convention=whole.e.convention)))


def test_area_on_a_bound():
    truths = boxes_of((0, 0, 32, 32), (100, 0, 96, 96))
    objects = dataset_of(truths), found(truths)
    theirs, ours = both(objects)
    same_runs(theirs, ours)

    def counts(e: Any) -> list[int]:
        return [int(np.sum(cell["gtIgnore"] == 0)) for cell in e.evalImgs]

    assert counts(ours.e) == [2, 1, 2, 1]  # 1024 is small and medium, 9216 medium and large
    mended = corrected(objects)
    assert counts(mended.e) == [2, 0, 1, 1]
    assert mended.e.stats[9:].tolist() == [-1, 1, 1]
    quietly(mended.e.accumulate)
    quietly(mended.e.summarize)
    assert mended.e.stats[9:].tolist() == [-1, 1, 1]

    class Same(COCOeval):
        def evaluateImg(self, *cell):
            return super().evaluateImg(*cell)

    same_runs(mended, run(evaluator(OURS, objects, Same, convention="corrected")))


def _unknown(kind: str) -> tuple[Any, Any]:
    dataset, results = random_objects(3)
    detections = [{**r, "id": n, "area": r["bbox"][2] * r["bbox"][3]} for n, r in enumerate(results, 1)]
    detections[4]["category_id" if kind == "category" else "image_id"] = 999
    return dataset, detections


@pytest.mark.parametrize("kind", ["category", "image"])
def test_detections_of_unknown_images_and_categories(kind):
    dataset, detections = _unknown(kind)
    theirs, ours = (run(with_datasets(side, dataset, detections)) for side in (THEIRS, OURS))
    same_runs(theirs, ours)
    with pytest.raises(InputError, match=rf"annotations\[4\]\.{kind}_id must be an id that dataset lists but got 999"):
        run(with_datasets(OURS, dataset, detections, convention="corrected"))


def test_ground_truth_of_unknown_categories():
    dataset, results = random_objects(3)
    dataset["annotations"][2]["category_id"] = 999
    same_runs(*both((dataset, results)))
    with pytest.raises(InputError, match=r"annotations\[2\]\.category_id must be an id that dataset lists but got 999"):
        corrected((dataset, results))


def test_annotations_changed_after_loading():
    truths = boxes_of(SQUARE, (100.0, 0.0, 50.0, 50.0))
    pair = [evaluator(side, (dataset_of(truths), found(truths))) for side in (THEIRS, OURS)]
    for e in pair:
        e.cocoGt.anns[2]["iscrowd"] = 1
        e.cocoDt.dataset["annotations"][0]["score"] = 0.125
    same_runs(*(run(e) for e in pair))


@pytest.mark.parametrize("seed", seeds(4))
def test_without_a_quirk_the_conventions_agree(seed):
    dataset, results = random_objects(seed)
    bounds = {0.0, 1024.0, 9216.0}
    dataset["annotations"] = [a for a in dataset["annotations"] if a["area"] not in bounds]
    results = [r for r in results if r["bbox"][2] * r["bbox"][3] not in bounds]
    same_runs(run(evaluator(OURS, (dataset, results))), corrected((dataset, results)))


def test_the_page_names_every_test():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    not_quirks = {"test_the_page_names_every_test", "test_without_a_quirk_the_conventions_agree"}
    there = {
        path.relative_to(PAGE.parents[1]).as_posix(): set(
            re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        )
        for path in (PAGE.parents[1] / "tests").rglob("test_*.py")
    }
    quirks = there["tests/coco/test_quirks.py"] | there["tests/coco/test_quirks_of_parameters.py"]
    assert quirks - not_quirks <= named <= set().union(*there.values())
