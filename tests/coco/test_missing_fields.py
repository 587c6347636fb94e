"""Ground truths without ``iscrowd``, ``area`` or keypoints: errors, what ``corrected`` takes for them, counts."""

from __future__ import annotations

import copy
import json

import pytest

from testing.keypoint_scenes import random_keypoints
from tests.coco.comparison import OURS, load, quietly, random_objects, run, same_arrays
from tests.coco.test_doubtful_ids import lvis_objects, made, objects_with
from tests.coco.test_keypoints import keypoint_evaluator, keypoint_runs, same_keypoint_runs
from valor_gpu.coco import COCOeval, LVISEval, mask
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import columns_from_dataset
from valor_gpu.inputs.missing_fields import count_missing, describe_missing

USES = {"iscrowd": "uses 0$", "area": "uses {}$"}
AREAS = {"bbox": "width x height", "segm": "the area of the mask", "keypoints": "width x height"}
AREAS |= {"boundary": AREAS["segm"], "rotated": "the area of the rotated box"}


def scene(kind):
    """Objects of several sizes whose ``area`` is what is taken for it, and the detections near them."""
    dataset, results = objects_with(range(1, 5), "segm" if kind == "boundary" else kind)
    for n, (annotation, result) in enumerate(zip(dataset["annotations"], results)):
        x, y, w, h = annotation["bbox"]
        w = w * (1 + 3 * n)
        annotation["bbox"], annotation["area"] = [x, y, w, h], w * h
        result["bbox"] = [x + 1, y, w, h]
        if kind in ("segm", "boundary"):
            annotation["segmentation"] = corners = [[x, y, x + w, y, x + w, y + h]]
            result["segmentation"] = mask.merge(mask.frPyObjects([[v + 0.5 for v in corners[0]]], 100, 100))
            annotation["area"] = pixels = int(load(OURS, dataset).annToMask(annotation).sum())
            assert pixels != w * h
        if kind == "rotated":
            annotation["bbox"] = [x + w / 2, y + h / 2, w, h, 30]
            result["bbox"] = [x + w / 2, y + h / 2, w, h, 25]
    if kind == "keypoints":
        for result in results:
            result["keypoints"] = [value + 3 if n % 3 < 2 else value for n, value in enumerate(result["keypoints"])]
    return dataset, results


def without(objects, key, rows, null=False):
    dataset, results = copy.deepcopy(objects)
    for row in rows:
        if null:
            dataset["annotations"][row][key] = None
        else:
            del dataset["annotations"][row][key]
    return dataset, results


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("key", ["iscrowd", "area"])
@pytest.mark.parametrize("kind", AREAS)
def test_corrected_takes_it_and_strict_says_so(kind, key, null):
    objects = scene(kind)
    lacking = without(objects, key, [0, 2, 3], null)
    with pytest.raises(InputError, match='must have .*: convention="corrected" ' + USES[key].format(AREAS[kind])):
        quietly(made(OURS, lacking, kind).evaluate)
    whole, mended = (run(made(OURS, each, kind, convention="corrected")) for each in (objects, lacking))
    same_arrays(whole.e.eval, mended.e.eval)
    assert whole.e.stats.tolist() == mended.e.stats.tolist()
    assert len({v for v in whole.e.stats.tolist() if v >= 0}) > 1
    counts = mended.e.result().counts
    assert {n: v for n, v in counts.items() if n.startswith("ground_truths_without") and v} == {
        f"ground_truths_without_{key}": 3
    }
    assert all(v == 0 for n, v in whole.e.result().counts.items() if n.startswith("ground_truths_without"))
    used = "0" if key == "iscrowd" else AREAS[kind]
    said = [f"3 ground truths have no {key}: {used} is used"]
    assert describe_missing(counts, AREAS[kind]) == said
    assert mended.e.to_run().notes == (f"{said[0]}.",)


@pytest.mark.parametrize("key", ["iscrowd", "area"])
@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_single_cells(kind, key):
    class Same(COCOeval):
        def evaluateImg(self, *cell):
            return super().evaluateImg(*cell)

    objects = scene(kind)
    whole = run(made(OURS, objects, kind, convention="corrected"))
    cells = run(made(OURS, without(objects, key, [1]), kind, Same, convention="corrected"))
    same_arrays(whole.e.eval, cells.e.eval)


def test_a_crowd_may_lack_its_area_in_silence():
    dataset, results = objects_with([1, 2, 3, 4])
    dataset["annotations"][0]["iscrowd"] = 1
    del dataset["annotations"][0]["area"]
    for convention in ("strict", "corrected"):
        counts = run(made(OURS, (dataset, results), convention=convention)).e.result().counts
        assert counts.get("ground_truths_without_area", 0) == 0


@pytest.mark.parametrize("null", [False, True])
def test_a_crowd_of_keypoints_needs_its_area(null):
    """Similarities to crowds are scaled by their areas too."""
    objects = scene("keypoints")
    objects[0]["annotations"][2]["iscrowd"] = 1
    lacking = without(objects, "area", [2], null)
    with pytest.raises(InputError, match=r"must have area but .* uses width x height$"):
        quietly(made(OURS, lacking, "keypoints").evaluate)
    whole, mended = (run(made(OURS, each, "keypoints", convention="corrected")) for each in (objects, lacking))
    same_arrays(whole.e.eval, mended.e.eval)
    assert mended.e.result().counts["ground_truths_without_area"] == 1
    rows = columns_from_dataset(lacking[0]).annotations
    assert count_missing(rows, True) == {"ground_truths_without_area": 1} and not count_missing(rows)


@pytest.mark.parametrize("seed", range(4))
def test_random_scenes(seed):
    """All records without both keys, from files."""
    dataset, results = random_objects(seed)
    for annotation in dataset["annotations"]:
        annotation.update(iscrowd=0, area=annotation["bbox"][2] * annotation["bbox"][3])
    whole = run(made(OURS, (dataset, results), convention="corrected"))
    rows = range(len(dataset["annotations"]))
    bare = without(without((dataset, results), "area", rows), "iscrowd", rows)
    same_arrays(whole.e.eval, run(made(OURS, bare, convention="corrected")).e.eval)


def test_an_area_that_is_given_and_is_no_number_stays_an_error():
    dataset, results = objects_with([1, 2, 3, 4])
    dataset["annotations"][1]["area"] = float("nan")
    del dataset["annotations"][0]["area"]
    with pytest.raises(InputError, match=r"annotations\[1\].area \(id 2\) must be a number but got nan"):
        run(made(OURS, (dataset, results), convention="corrected"))


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_lvis(tmp_path, kind):
    dataset, results = objects_with([1, 2, 3, 4], kind)
    for image, given in zip(dataset["images"], lvis_objects([1, 2, 3, 4])[0]["images"]):
        image.update(given)
    dataset["categories"][0]["frequency"] = "f"
    for annotation in dataset["annotations"]:
        del annotation["iscrowd"], annotation["area"]
    path = tmp_path / "lvis.json"
    path.write_text(json.dumps(dataset))
    keys = "bbox, segmentation" if kind == "segm" else "bbox"
    need = rf"must have area but has only id, image_id, category_id, {keys} \(null counts as missing\): convention="
    with pytest.raises(InputError, match=need):
        LVISEval(str(path), results, kind).evaluate()
    e = LVISEval(str(path), results, kind, convention="corrected")
    e.run()
    assert e.results["AP"] == pytest.approx(1, abs=1e-12)

    counts = e.result().counts
    assert counts["ground_truths_without_area"] == 4 and "ground_truths_without_iscrowd" not in counts


def test_crowdpose_lists_the_keys_that_there_are():
    dataset, results = random_keypoints(2, 14, crowdpose=True)
    for annotation in dataset["annotations"]:
        annotation.pop("iscrowd", None)
        annotation.pop("area", None)
        del annotation["bbox"]
    e = made(OURS, (dataset, results), "keypoints_crowd")
    with pytest.raises(InputError, match="must have bbox but has only id, image_id, category_id, keypoints") as error:
        quietly(e.evaluate)
    assert "area" not in str(error.value) and "iscrowd" not in str(error.value)


# ------------------------------------------------------------------------------------------------------------ keypoints


@pytest.mark.parametrize("useCats", [1, 0])
@pytest.mark.parametrize("seed", range(6))
def test_people_with_a_box_alone(seed, useCats):
    """``num_keypoints`` 0 and no points: ignored, and compared by their boxes."""
    dataset, results = random_keypoints(seed, classes=1 + seed % 2)
    people = [a for a in dataset["annotations"] if a["num_keypoints"] == 0] or dataset["annotations"][:2]
    for person in people:
        person.update(num_keypoints=0, keypoints=[])
    expected = keypoint_runs((dataset, results), useCats=useCats)
    same_keypoint_runs(*expected)
    for given in (None, "absent"):  # pycocotools: TypeError and KeyError
        other = copy.deepcopy(dataset)
        for person in other["annotations"]:
            if not person["keypoints"]:
                person["keypoints"] = None
                if given == "absent":
                    del person["keypoints"]
        for convention in ("strict", "corrected"):
            ours, same = (
                run(keypoint_evaluator(OURS, (each, results), convention=convention), useCats=useCats)
                for each in (dataset, other)
            )
            same_arrays(ours.e.eval, same.e.eval)


@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_no_keypoints_that_are_counted(convention):
    dataset, results = random_keypoints(3)
    dataset["annotations"][0].update(num_keypoints=3, keypoints=[])
    with pytest.raises(InputError, match=r"\.keypoints must be 51 finite numbers.* but got \[\]"):
        quietly(keypoint_evaluator(OURS, (dataset, results), convention=convention).evaluate)


def test_people_with_a_box_alone_in_files_and_single_cells(tmp_path):
    dataset, results = random_keypoints(3)
    for person in dataset["annotations"][::3]:
        person.update(num_keypoints=0, keypoints=[])
    del dataset["annotations"][0]["keypoints"]
    expected = run(keypoint_evaluator(OURS, (dataset, results)))
    for name, value in (("gt", dataset), ("dt", results)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    truth = quietly(OURS.COCO, tmp_path / "gt.json")[0]
    found = quietly(truth.loadRes, tmp_path / "dt.json")[0]
    same_arrays(expected.e.eval, run(OURS.COCOeval(truth, found, "keypoints")).e.eval)

    class Same(COCOeval):
        def evaluateImg(self, *cell):
            return super().evaluateImg(*cell)

    same_arrays(expected.e.eval, run(keypoint_evaluator(OURS, (dataset, results), base=Same)).e.eval)


def test_everybody_has_a_box_alone():
    dataset, results = random_keypoints(3)
    for person in dataset["annotations"]:
        person["num_keypoints"] = 0
        del person["keypoints"]
    assert run(keypoint_evaluator(OURS, (dataset, results))).e.stats[0] == -1


def test_keypoints_that_are_said_to_be_there_are_needed():
    dataset, results = random_keypoints(3)
    labelled = next(n for n, a in enumerate(dataset["annotations"]) if a["num_keypoints"] and not a["iscrowd"])
    dataset["annotations"][labelled]["keypoints"] = []
    with pytest.raises(InputError, match=r"annotations\[\d+\].keypoints must be 51 finite numbers"):
        run(keypoint_evaluator(OURS, (dataset, results)))
    del dataset["annotations"][labelled]["keypoints"]
    with pytest.raises(InputError, match=r"annotations\[\d+\] must have keypoints but has only id, image_id"):
        run(keypoint_evaluator(OURS, (dataset, results)))


@pytest.mark.parametrize("given", ["absent", None, "17"])
def test_num_keypoints_is_counted(given):
    dataset, results = random_keypoints(3)
    for person in dataset["annotations"]:
        person["num_keypoints"] = sum(v > 0 for v in person["keypoints"][2::3])
    dataset["annotations"][1].update(keypoints=[0] * 51, num_keypoints=0)
    whole = run(keypoint_evaluator(OURS, (dataset, results), convention="corrected"))
    for person in dataset["annotations"]:
        person["num_keypoints"] = given
        if given == "absent":
            del person["num_keypoints"]
    need = (
        r"annotations\[\d+\] must have num_keypoints, a number, but has only id, .*, keypoints \(null and texts count"
    )
    with pytest.raises(InputError, match=need + '.*: convention="corrected" counts the visible keypoints$'):
        run(keypoint_evaluator(OURS, (dataset, results)))
    mended = run(keypoint_evaluator(OURS, (dataset, results), convention="corrected"))
    same_arrays(whole.e.eval, mended.e.eval)
    counts = mended.e.result().counts
    assert counts["ground_truths_without_num_keypoints"] == len(dataset["annotations"])
    assert counts["ignored_ground_truths"] == whole.e.result().counts["ignored_ground_truths"] > 0


def test_num_keypoints_of_single_cells():
    class Same(COCOeval):
        def evaluateImg(self, *cell):
            return super().evaluateImg(*cell)

    dataset, results = random_keypoints(3)
    for person in dataset["annotations"]:
        del person["num_keypoints"]
    with pytest.raises(InputError, match=r"ground truth id \d+ must have num_keypoints, a number, but has only "):
        run(keypoint_evaluator(OURS, (dataset, results), base=Same))
    whole, cells = (
        run(keypoint_evaluator(OURS, (dataset, results), base=base, convention="corrected")) for base in (None, Same)
    )
    same_arrays(whole.e.eval, cells.e.eval)
