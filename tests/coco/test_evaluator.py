"""COCOeval against pycocotools, bit for bit: arrays, text, evalImgs, ious, in every way that users drive it."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.coco.sides import (
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
from valor_gpu.coco import COCOeval, Params
from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.layout import positions, stable_order
from valor_gpu.errors import InputError

DATA = Path(__file__).parents[1] / "data"

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


@pytest.mark.parametrize("seed", range(3))
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
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


def test_real_detections():
    dataset, results = _gzipped("instances_val2014_100.json.gz"), _gzipped("yolact_resnet50_10_images.json.gz")
    known = {image["id"] for image in dataset["images"]}
    images = [{"id": i} for i in {r["image_id"] for r in results} - known]
    theirs, ours = both(({**dataset, "images": dataset["images"] + images}, results))
    same_runs(theirs, ours)


def test_real_boxes_moved():
    dataset, rng = _gzipped("instances_val2014_100.json.gz"), np.random.default_rng(0)
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


# --- accumulate with other parameters


@pytest.mark.parametrize(
    "changes",
    [
        {"recThrs": np.linspace(0, 1, 11)},
        {"maxDets": [10]},
        {"maxDets": [100, 1]},
        {"maxDets": [5, 100]},
        {"maxDets": []},
        {"catIds": [1]},
        {"catIds": [7]},
        {"catIds": [55, 4]},
        {"areaRng": [[0, 1024], [5, 6]], "areaRngLbl": ["small", "odd"]},
        {"areaRng": [[5, 6]] * 4 + [[0, 1e10]], "areaRngLbl": [*"abcd", "all"], "catIds": [1, 4]},
        {"imgIds": [3, 10]},
        {"imgIds": [24, 24, 3]},
        {"imgIds": [0] * 40 + [3, 10], "areaRng": [[0, 1e10]], "areaRngLbl": ["all"], "catIds": [1]},
        {"iouThrs": np.linspace(0.5, 0.95, 12)},
        {"useCats": 0},
    ],
)
@pytest.mark.parametrize("touch", [False, True])
def test_accumulate_with_other_parameters(changes, touch):
    sides = [evaluator(side, random_objects(8, images=9)) for side in (THEIRS, OURS)]
    for e in sides:
        quietly(e.evaluate)
        assert not touch or e.evalImgs
        p = copy.deepcopy(e.params)
        for name, value in changes.items():
            setattr(p, name, value)
        quietly(e.accumulate, p)
        assert e.eval["params"] is p
    same_arrays(sides[0].eval, sides[1].eval)


@pytest.mark.parametrize("limits", [[100, 1, 10], [10, 100, 100], [1, 10, 7], [7, 10, 100]])
def test_summary_of_limits_changed_after_the_evaluation(limits):
    sides = [evaluator(side, random_objects(8, most=60)) for side in (THEIRS, OURS)]
    for e in sides:
        quietly(e.evaluate)
        e.params.maxDets = limits
        for step in (e.accumulate, e.summarize):
            quietly(step)
    same(sides[0].stats, sides[1].stats)


def test_parameters_changed_in_place_after_the_evaluation():
    sides = [evaluator(side, random_objects(8, most=60)) for side in (THEIRS, OURS)]
    for e in sides:
        quietly(e.evaluate)
        e.params.catIds = [55, 4]
        e._paramsEval.maxDets = [1, 7, 100]
        e.params.maxDets = [7, 10, 100]
        quietly(e.accumulate)
    same_arrays(sides[0].eval, sides[1].eval)


def test_accumulate_after_the_recall_grid_changed_keeps_the_old_dict():
    ours = run(evaluator(OURS, random_objects(8))).e
    before = ours.eval
    ours.params.recThrs = np.array([0.5])
    quietly(ours.accumulate)
    assert before["precision"].shape[1] == 101
    assert ours.eval["precision"].shape[1] == 1


# --- arrays on request


def test_arrays_are_made_when_looked_at():
    theirs, ours = both(random_objects(9))
    arrays = ours.e.eval
    assert isinstance(arrays, EvalDict)
    assert arrays.pending
    assert list(arrays) == list(theirs.e.eval)
    arrays["recall"], arrays["counts"], arrays.get("date"), "precision" in arrays, len(arrays)
    assert arrays.pending
    same(theirs["precision"], arrays["precision"])
    assert not arrays.pending


@pytest.mark.parametrize(
    "as_dict",
    [
        dict,
        lambda d: {**d},
        lambda d: dict(d.items()),
        lambda d: dict(zip(d.keys(), d.values())),
        lambda d: d.copy(),
        lambda d: d | {},
        lambda d: {} | d,
        lambda d: {k: d.get(k) for k in d},
        lambda d: {k: d.setdefault(k) for k in d},
        lambda d: {k: d.pop(k) for k in list(d)},
        lambda d: dict(reversed([d.popitem() for _ in range(len(d))])),
        copy.copy,
        copy.deepcopy,
        lambda d: pickle.loads(pickle.dumps(d)),
    ],
)
def test_every_way_out_of_the_dict_makes_the_arrays(as_dict):
    theirs, ours = both(random_objects(9))
    plain = as_dict(ours.e.eval)
    assert type(plain) is dict
    assert list(plain) == list(theirs.e.eval)
    same_arrays(theirs.e.eval, plain)


def test_the_dict_keeps_what_the_user_puts_in():
    arrays = run(evaluator(OURS, random_objects(9))).e.eval
    arrays["precision"] = "mine"
    arrays |= {"extra": 1}
    arrays.update(more=2)
    assert arrays["scores"].shape == (10, 101, 4, 4, 3)
    assert arrays["precision"] == "mine"
    del arrays["extra"]
    assert arrays == {**arrays}
    assert arrays != {}
    assert "'more': 2" in repr(arrays)
    arrays.clear()
    assert not arrays


def test_summary_follows_the_arrays():
    theirs, ours = both(random_objects(9))
    for one in (theirs.e, ours.e):
        one.eval["precision"][one.eval["precision"] > 0.5] = 0.25
        quietly(one.summarize)
    same(theirs.e.stats, ours.e.stats)
    for one in (theirs.e, ours.e):
        one.eval = {**one.eval, "precision": np.full_like(one.eval["precision"], 0.125)}
        quietly(one.summarize)
    assert ours.e.stats[0] == 0.125
    same(theirs.e.stats, ours.e.stats)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_between_the_steps(copied):
    objects = random_objects(9)
    theirs, ours = run(evaluator(THEIRS, objects)), evaluator(OURS, objects)
    quietly(ours.evaluate)
    ours = copied(ours)
    quietly(ours.accumulate)
    same_arrays(theirs.e.eval, ours.eval)
    ours = copied(ours)
    quietly(ours.summarize)
    same(theirs.e.stats, ours.stats)
    same(theirs.e.evalImgs, ours.evalImgs)


# --- subclasses


def _recording(base: Any) -> Any:
    class Recording(base):
        """Looks at every cell, changes nothing."""

        def evaluateImg(self, imgId, catId, aRng, maxDet):
            self.seen = [*getattr(self, "seen", []), (int(imgId), int(catId), tuple(aRng), maxDet)]
            return super().evaluateImg(imgId, catId, aRng, maxDet)

    return Recording


def _dropping(base: Any) -> Any:
    class Dropping(base):
        """Leaves images out in some ranges, and detections in others."""

        def evaluateImg(self, imgId, catId, aRng, maxDet):
            cell = super().evaluateImg(imgId, catId, aRng, maxDet)
            if cell is None or (imgId % 2 and aRng[1] < 2000):
                return None
            if aRng[1] < 2000:
                for key in ("dtMatches", "dtIgnore"):
                    cell[key] = cell[key][:, ::2]
                cell["dtScores"] = cell["dtScores"][::2]
            return cell

    return Dropping


def _wider(base: Any) -> Any:
    class Wider(base):
        """Another overlap."""

        def computeIoU(self, imgId, catId):
            ious = super().computeIoU(imgId, catId)
            return ious if len(ious) == 0 else np.where(ious > 0.8, np.nan, np.sqrt(ious))

    return Wider


def _ignoring(base: Any) -> Any:
    class Ignoring(base):
        """Decides itself which ground truths count."""

        def _prepare(self):
            super()._prepare()
            for cell in self._gts.values():
                for truth in cell:
                    truth["ignore"] = truth["ignore"] or truth["id"] % 5 == 0
            for key in [key for key in self._dts if key[0] == 10]:
                self._dts[key] = self._dts[key][::-1]

    return Ignoring


@pytest.mark.parametrize("useCats", [1, 0])
@pytest.mark.parametrize("make", [_recording, _dropping, _wider, _ignoring])
def test_overridden_steps(make, useCats):
    pair = []
    for side in (THEIRS, OURS):
        e = evaluator(side, random_objects(12, most=12, first_id=0), make(side.COCOeval))
        pair.append(run(e, useCats=useCats, maxDets=[1, 3, 5]))
    same_runs(*pair)
    assert getattr(pair[0].e, "seen", None) == getattr(pair[1].e, "seen", None)


def test_a_step_replaced_on_the_object_or_the_class(monkeypatch):
    plain = run(evaluator(OURS, random_objects(12)))
    e = evaluator(OURS, random_objects(12))
    e.evaluateImg = lambda *cell: None
    assert run(e)["recall"].max() == -1 < plain["recall"].max()
    monkeypatch.setattr(COCOeval, "evaluateImg", lambda self, *cell: None)
    assert run(evaluator(OURS, random_objects(12)))["recall"].max() == -1


def test_overridden_accumulate_and_summarize():
    class Mine(COCOeval):
        def accumulate(self, p=None):
            super().accumulate(p)
            self.eval["precision"] = np.minimum(self.eval["precision"], 0.5)

        def summarize(self):
            super().summarize()
            self.stats = [*self.stats, "mine"]

    e = run(evaluator(OURS, random_objects(12), Mine)).e
    assert e.stats[-1] == "mine"
    assert max(e.stats[:6]) <= 0.5


def test_single_cells_after_an_evaluation():
    theirs, ours = both(random_objects(13, first_id=0))
    p = ours.e.params
    cells = [(i, k, area, most) for i in p.imgIds for k in p.catIds for area in p.areaRng for most in (3, 100)]
    for i, k, area, most in cells:
        same(theirs.e.computeIoU(i, k), ours.e.computeIoU(i, k))
        same(theirs.e.evaluateImg(i, k, area, most), ours.e.evaluateImg(i, k, area, most))


def test_objects_of_the_evaluation():
    theirs, ours = both(random_objects(13))
    ours.e.params.imgIds = ours.e.params.imgIds[:1]
    for name in ("_gts", "_dts"):
        a, b = ({k: [x["id"] for x in v] for k, v in getattr(r.e, name).items() if v} for r in (theirs, ours))
        assert a == b
        setattr(ours.e, name, {})
        assert getattr(ours.e, name) == {}


# --- how other packages drive it


def _merged_in_batches(side: Any, objects: Any, evaluate_batch: Any) -> Any:
    """The way of torchvision's references and of DETR: batches, then merged lists put into the evaluator."""
    dataset, results = objects
    truth = load(side, dataset)
    e = side.COCOeval(truth, iouType="bbox")
    ids, parts = [], []
    every = [image["id"] for image in dataset["images"]]
    for batch in (every[i : i + 2] for i in range(0, len(every), 2)):
        rows = [r for r in results if r["image_id"] in batch]
        e.cocoDt = quietly(truth.loadRes, rows)[0] if rows else side.COCO()
        e.params.imgIds = list(batch)
        found, cells = evaluate_batch(e)
        ids.extend(found)
        parts.append(cells)
    ids, places = np.unique(np.array(ids), return_index=True)
    e.evalImgs = list(np.concatenate(parts, 2)[..., places].flatten())
    e.params.imgIds = list(ids)
    e._paramsEval = copy.deepcopy(e.params)
    quietly(e.accumulate)
    quietly(e.summarize)
    return e


def _by_evaluate(e: Any) -> Any:
    quietly(e.evaluate)
    return e.params.imgIds, np.asarray(e.evalImgs).reshape(-1, len(e.params.areaRng), len(e.params.imgIds))


def _by_steps(e: Any) -> Any:
    p = e.params
    p.imgIds, p.catIds, p.maxDets = list(np.unique(p.imgIds)), list(np.unique(p.catIds)), sorted(p.maxDets)
    e._prepare()
    e.ious = {(i, k): e.computeIoU(i, k) for i in p.imgIds for k in p.catIds}
    most = p.maxDets[-1]
    cells = [e.evaluateImg(i, k, area, most) for k in p.catIds for area in p.areaRng for i in p.imgIds]
    return p.imgIds, np.asarray(cells).reshape(len(p.catIds), len(p.areaRng), len(p.imgIds))


@pytest.mark.parametrize("evaluate_batch", [_by_evaluate, _by_steps])
def test_batches_merged_as_in_torchvision(evaluate_batch):
    objects = random_objects(14, images=7)
    whole = run(evaluator(THEIRS, objects)).e
    for side in (THEIRS, OURS):
        merged = _merged_in_batches(side, objects, evaluate_batch)
        same_arrays(whole.eval, merged.eval)
        same(whole.stats, merged.stats)


_TORCHMETRICS = """
import sys
from types import ModuleType
import torch
from torchmetrics.detection import mean_ap
from valor_gpu.coco import init_as_pycocotools
# All that is needed of torchvision, which may not be installed.
mean_ap._TORCHVISION_AVAILABLE = True
sys.modules["torchvision"] = ModuleType("torchvision")
sys.modules["torchvision.ops"] = ModuleType("torchvision.ops")
sys.modules["torchvision.ops"].box_convert = lambda boxes, in_fmt, out_fmt: torch.cat(
    (boxes[:, :2], boxes[:, 2:] - boxes[:, :2]), 1)

def values():
    # (module of the evaluator, all that the metric gives as lists)
    metric = mean_ap.MeanAveragePrecision(class_metrics=True, extended_summary=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        corners = torch.rand(9, 4, generator=generator) * 50
        boxes = torch.cat((corners[:, :2], corners[:, :2] + corners[:, 2:] + 1), 1)
        labels = torch.arange(9) % 3
        metric.update(
            [{"boxes": boxes[:7] + 2, "scores": torch.rand(7, generator=generator), "labels": labels[:7]}],
            [{"boxes": boxes, "labels": labels}],
        )
    lists = {}
    for name, value in metric.compute().items():
        items = value.items() if isinstance(value, dict) else [("", value)]
        lists[name] = [(key, torch.as_tensor(v).tolist()) for key, v in items]
    return metric._coco_backend.cocoeval.__module__, lists

theirs = values()
init_as_pycocotools()
ours = values()
assert (theirs[0], ours[0]) == ("pycocotools.cocoeval", "valor_gpu.coco.evaluator")
assert theirs[1] == ours[1] and "map_per_class" in ours[1] and "ious" in ours[1]
"""


def test_torchmetrics_runs_on_it():
    command = [sys.executable, "-W", "ignore", "-c", _TORCHMETRICS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_stands_in_for_pycocotools():
    code = (
        "from valor_gpu.coco import COCO, COCOeval, Params, init_as_pycocotools, mask\n"
        "init_as_pycocotools()\n"
        "import pycocotools.mask, pycocotools.coco, pycocotools.cocoeval\n"
        "from pycocotools import mask as masks\n"
        "assert pycocotools.coco.COCO is COCO and pycocotools.cocoeval.COCOeval is COCOeval\n"
        "assert pycocotools.cocoeval.Params is Params and pycocotools.mask is mask is masks\n"
        "import sys\n"
        "assert 'torch' not in sys.modules and 'torchmetrics' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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


# --- errors


def test_refusals():
    with pytest.raises(InputError, match=r"convention must be one of 'strict', 'corrected' but got 'loose'"):
        COCOeval(convention="loose")
    with pytest.raises(InputError, match=r"iouType must be one of 'segm', 'bbox', 'keypoints' but got 'boxes'"):
        COCOeval(iouType="boxes")
    e = evaluator(OURS, random_objects(1))
    with pytest.raises(InputError, match=r"Please run accumulate\(\) first"):
        e.summarize()
    e.cocoDt = None
    with pytest.raises(InputError, match=r"cocoDt must be a COCO object but got None"):
        quietly(e.evaluate)


@pytest.mark.parametrize("kind", ["segm", "keypoints"])
def test_masks_and_keypoints_are_refused(kind):
    objects = random_objects(1)
    e = COCOeval(load(OURS, objects[0]), load(OURS, objects[0]), kind)
    with pytest.raises(InputError, match=f"iouType must be 'bbox'.* but got '{kind}'"):
        quietly(e.evaluate)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there():
    with pytest.raises(InputError, match=r"device must be there but got 'cuda:1' and torch .* finds no CUDA device"):
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
    assert str(COCOeval(iouType="bbox")).startswith("<valor_gpu.coco.evaluator.COCOeval")
