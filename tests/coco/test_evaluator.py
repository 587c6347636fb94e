"""COCOeval against pycocotools, bit for bit: arrays, text, evalImgs, ious, for many settings and data."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.coco.comparison import (
    ARRAYS,
    OURS,
    THEIRS,
    both,
    boxes_of,
    dataset_of,
    evaluator,
    load,
    quietly,
    random_objects,
    run,
    same,
    same_arrays,
    same_runs,
)
from tests.fuzz import seeds
from valor_gpu.coco import COCOeval, Params
from valor_gpu.coco.ids import positions
from valor_gpu.coco.layout import stable_order
from valor_gpu.errors import InputError

DATA = Path(__file__).parents[1] / "data"
EXAMPLES = Path(__file__).parents[2] / "examples/data"

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "limits out of order": {"maxDets": [31, 2, 7]},
    "limit 0": {"maxDets": [0, 5, 100]},
    "four limits": {"maxDets": [1, 10, 100, 1000]},
    "limits repeated": {"maxDets": [3, 3, 100, 100]},
    "limits without 100": {"maxDets": [1, 10, 300]},
    "thresholds out of order": {"iouThrs": np.array([0.75, 0.5, 0.5, 0.3])},
    "thresholds float32": {"iouThrs": np.linspace(0.5, 0.95, 10, dtype=np.float32)},
    "thresholds 0, 1 and above": {"iouThrs": np.array([0.0, 0.5, 1.0, 1.5])},
    "17 thresholds": {"iouThrs": np.linspace(0.1, 0.9, 17)},
    "recall out of order": {"recThrs": np.array([0.5, 0.1, 1.0, 0.0, 0.3])},
    "recall outside 0 to 1": {"recThrs": np.array([-0.5, 0, 0.3, 0.3, 1.0, 1.5])},
    "recall as a list": {"recThrs": [0.0, 0.5, 1.0]},
    "no recall": {"recThrs": np.array([])},
    "areas empty or overlapping": {
        "areaRng": [[0, 1e10], [5e8, 1e9], [0, 2000], [1024, 1024]],
        "areaRngLbl": ["all", "none", "small", "one"],
    },
    "area label twice": {"areaRng": [[0, 1e10], [0, 900]], "areaRngLbl": ["all", "all"]},
    "images": {"imgIds": [10, 3, 3, 999, 24]},
    "categories": {"catIds": [7, 1, 55, 1]},
    "one category": {"catIds": [4]},
    "no images": {"imgIds": []},
    "no categories": {"catIds": []},
    "class-agnostic": {"useCats": 0},
    "class-agnostic, some categories twice": {"useCats": 0, "catIds": [7, 1, 7]},
    "useSegm": {"useSegm": 0},
}


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("name", SETTINGS)
def test_equals_pycocotools(name, seed):
    sizes = {"images": 3, "most": 150} if seed == 2 else {}
    theirs, ours = both(random_objects(seed, first_id=seed % 2, **sizes), **SETTINGS[name])
    same_runs(theirs, ours)


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("name", ["default", "images", "categories", "class-agnostic, some categories twice"])
def test_files(tmp_path, name, repeat):
    """Columns read from files, which know nothing of objects."""
    dataset, results = random_objects(17, images=9)
    if repeat:
        for n, annotation in enumerate(dataset["annotations"]):
            annotation["id"] = n % (len(dataset["annotations"]) - 9)
    paths = [str(tmp_path / f"{side}.json") for side in ("gt", "dt")]
    for path, data in zip(paths, (dataset, results)):
        Path(path).write_text(json.dumps(data))
    pair = []
    for side in (THEIRS, OURS):
        truth, _ = quietly(side.COCO, paths[0])
        found, _ = quietly(truth.loadRes, paths[1])
        pair.append(run(side.COCOeval(truth, found, "bbox"), **SETTINGS[name]))
    same_runs(*pair)


@pytest.mark.parametrize("name", SETTINGS)
def test_accumulates_what_the_user_has_seen(name):
    theirs, ours = both(random_objects(11), **SETTINGS[name])
    assert ours.e.evalImgs is ours.e.evalImgs
    for one in (theirs.e, ours.e):
        one.evalImgs[::2] = [None] * len(one.evalImgs[::2])
        quietly(one.accumulate)
    same_arrays(theirs.e.eval, ours.e.eval)


@pytest.mark.parametrize(("classes", "most"), [(1, 25), (1, 260), (365, 60)])
def test_number_of_classes_and_of_detections(classes, most):
    same_runs(*both(random_objects(5, classes=classes, most=most)))


def test_more_detections_than_the_limit_in_one_cell():
    truths = boxes_of(*((10.0 * i, 0.0, 8.0, 8.0) for i in range(150)))
    found = [{**t, "score": (i % 7) / 10} for i, t in enumerate(truths)]
    theirs, ours = both((dataset_of(truths), found))
    assert ours["recall"][0, 0, 0].tolist() == [1 / 150, 10 / 150, 100 / 150]
    same_runs(theirs, ours)


def test_iou_exactly_on_a_threshold_and_area_exactly_on_a_bound():
    truths = boxes_of((0, 0, 32, 32), (100, 0, 96, 96), (300, 0, 10, 10))
    halves = boxes_of((0, 0, 32, 16), (100, 0, 96, 72), (300, 0, 10, 6))  # IoU .5, .75, .6
    theirs, ours = both((dataset_of(truths), [{**h, "score": 0.9} for h in halves]))
    assert ours["recall"][:, 0, 0, 2].tolist() == pytest.approx([1, 2 / 3, 2 / 3] + [1 / 3] * 3 + [0] * 4)
    same_runs(theirs, ours)


def _gzipped(name: str) -> Any:
    return json.loads(gzip.decompress(((DATA if (DATA / name).exists() else EXAMPLES) / name).read_bytes()))


def test_real_detections():
    dataset, results = _gzipped("instances_val2014_100_masks.json.gz"), _gzipped("yolact_resnet50_10_images.json.gz")
    known = {image["id"] for image in dataset["images"]}
    images = [{"id": i} for i in {r["image_id"] for r in results} - known]
    theirs, ours = both(({**dataset, "images": dataset["images"] + images}, results))
    same_runs(theirs, ours)


def test_real_boxes_moved():
    dataset, rng = _gzipped("instances_val2014_100_masks.json.gz"), np.random.default_rng(0)
    results = []
    for a in dataset["annotations"] * 2:
        box = (np.array(a["bbox"]) * rng.normal(1, 0.05, 4)).round(2)
        results.append({key: a[key] for key in ("image_id", "category_id")} | {"bbox": box.tolist()})
        results[-1]["score"] = round(float(rng.random()), 2)
    theirs, ours = both((dataset, results))
    assert ours.e.stats[0] > 0.3
    same_runs(theirs, ours)


@pytest.mark.parametrize("order", ["by image, images out of order", "shuffled", "reversed"])
def test_order_of_the_results(order):
    dataset, results = random_objects(21, images=12)
    if order == "shuffled":
        np.random.default_rng(0).shuffle(results)
    elif order == "reversed":
        results = results[::-1]
    same_runs(*both((dataset, results)))


def test_ids_far_apart():
    dataset, results = random_objects(22)
    for item in dataset["annotations"] + results:
        item["image_id"] = item["image_id"] * 10**15 - 5 * 10**16
    for image in dataset["images"]:
        image["id"] = image["id"] * 10**15 - 5 * 10**16
    same_runs(*both((dataset, results)))


def test_positions_and_order_of_large_keys():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 200_000, 50_000, dtype=np.int32)
    assert np.array_equal(stable_order(keys, 200_000), np.argsort(keys, kind="stable"))
    wanted = np.unique(rng.integers(-(2**62), 2**62, 1000))
    mixed = np.concatenate((wanted[::3], wanted[::7] + 1, [-(2**63), 2**63 - 1]))
    expected = [int(np.searchsorted(wanted, v)) if v in wanted else -1 for v in mixed]
    assert positions(mixed, wanted).tolist() == expected
    assert positions(mixed, np.array([5, 7])).tolist() == [-1] * len(mixed)


def test_several_evaluations_with_changed_parameters():
    sides = [evaluator(side, random_objects(3)) for side in (THEIRS, OURS)]
    for params in ({}, {"catIds": [4]}, {"catIds": [1, 7]}, {"maxDets": [1, 2, 3]}, {"iouThrs": np.array([0.5])}):
        same_runs(*(run(e, **params) for e in sides))


def test_empty_sides():
    dataset, results = random_objects(4)
    same_runs(*both(({**dataset, "annotations": []}, results)))
    ours = evaluator(OURS, (dataset, results))
    theirs = THEIRS.COCOeval(load(THEIRS, dataset), THEIRS.COCO(), "bbox")
    ours = OURS.COCOeval(load(OURS, dataset), OURS.COCO(), "bbox")  # as torchvision's references do without results
    same_runs(run(theirs), run(ours))


def test_areas_and_ids_of_detections_from_a_dataset():
    dataset, results = random_objects(6)
    found = [{**r, "id": 1000 - n, "area": 1024.0 if n % 3 else 5.0} for n, r in enumerate(results)]
    pair = [(load(side, dataset), load(side, {**dataset, "annotations": found})) for side in (THEIRS, OURS)]
    same_runs(*(run(side.COCOeval(*loaded, "bbox")) for side, loaded in zip((THEIRS, OURS), pair)))


def test_results_of_pycocotools_objects():
    objects = random_objects(7)
    theirs = run(evaluator(THEIRS, objects))
    same_runs(theirs, run(COCOeval(theirs.e.cocoGt, theirs.e.cocoDt, "bbox")))


def test_prints_through_stdout_only(capfd):
    run(evaluator(OURS, random_objects(1)))
    assert capfd.readouterr() == ("", "")


def test_defaults_of_params():
    for kind in ("bbox", "segm", "keypoints"):
        theirs = THEIRS.COCOeval(iouType=kind).params
        for ours in (Params(kind), copy.deepcopy(Params(kind))):
            same(dict(sorted(vars(theirs).items())), dict(sorted(vars(ours).items())))
    copied = copy.deepcopy(ours)
    copied.areaRng[0][0] = copied.maxDets[0] = 5
    assert (ours.areaRng[0][0], ours.maxDets[0]) == (0, 20)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["default", "images", "class-agnostic", "17 thresholds"])
def test_on_a_gpu(name):
    objects = random_objects(15)
    theirs = run(evaluator(THEIRS, objects), **SETTINGS[name])
    same_runs(theirs, run(evaluator(OURS, objects, device="cuda"), **SETTINGS[name]))


def test_refusals():
    with pytest.raises(InputError, match=r"convention must be one of 'strict', 'corrected' but got 'loose'"):
        COCOeval(convention="loose")
    with pytest.raises(
        InputError,
        match=r"iouType must be one of 'segm', 'bbox', 'boundary', 'rotated', 'keypoints', 'keypoints_crowd' but"
        r" got 'boxes'",
    ):
        COCOeval(iouType="boxes")
    e = evaluator(OURS, random_objects(1))
    with pytest.raises(InputError, match=r"Please run accumulate\(\) first"):
        e.summarize()
    e.cocoDt = None
    with pytest.raises(InputError, match=r"cocoDt must be a COCO object but got None"):
        quietly(e.evaluate)


def test_an_unknown_type_among_the_parameters():
    e = evaluator(OURS, random_objects(1))
    e.params.iouType = "cuboid"
    with pytest.raises(InputError, match=r"params.iouType must be one of 'bbox', 'segm', .* but got 'cuboid'"):
        quietly(e.evaluate)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there():
    with pytest.raises(InputError, match=r"device must be available but got 'cuda:1' and torch .* finds no CUDA"):
        quietly(evaluator(OURS, random_objects(1), device="cuda:1").evaluate)
    with pytest.raises(InputError, match=r"device must be a CPU or CUDA device but got 'meta'"):
        quietly(evaluator(OURS, random_objects(1), device="meta").evaluate)


def test_a_failed_evaluation_leaves_nothing_behind():
    e = run(evaluator(OURS, random_objects(1))).e
    e.params.imgIds = ["a"]
    with pytest.raises(InputError, match=r"params.imgIds must be integers but got \['a'\]"):
        quietly(e.evaluate)
    assert not e.eval
    assert not e.evalImgs


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"maxDets": [1, -3, 5]}, r"max_detection limits"),
        ({"iouThrs": []}, r"iou_thresholds must hold"),
        ({"areaRng": [[1]]}, r"area_ranges must be pairs"),
        ({"catIds": [1.5]}, r"params.catIds must be integers but got \[1.5\]"),
    ],
)
def test_parameters_that_cannot_be_evaluated(params, message):
    with pytest.raises(InputError, match=message):
        run(evaluator(OURS, random_objects(1)), **params)


def test_cells_that_do_not_fit_the_parameters():
    e = run(evaluator(OURS, random_objects(1))).e
    e.evalImgs = e.evalImgs[:5]
    with pytest.raises(InputError, match=r"evalImgs must hold an entry for each .* but holds 5"):
        quietly(e.accumulate)
    quietly(e.evaluate)
    e.params.iouThrs = np.array([0.5])
    with pytest.raises(InputError, match=r"params.iouThrs must hold the 10 thresholds of evalImgs but holds 1"):
        quietly(e.accumulate)


def test_arrays_have_the_documented_shapes():
    ours = run(evaluator(OURS, random_objects(1)))
    assert [ours[name].shape for name in ARRAYS] == [(10, 101, 4, 4, 3), (10, 4, 4, 3), (10, 101, 4, 4, 3)]
    assert str(ours.e) == ours.text[ours.text.index(" Average") :].rstrip("\n")
    assert str(COCOeval(iouType="bbox")).startswith("<valor_gpu.compat.pycocotools.cocoeval.COCOeval")
