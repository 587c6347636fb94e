"""COCOeval driven cell by cell: by subclasses, and as other packages drive pycocotools."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.coco.comparison import (
    OURS,
    THEIRS,
    both,
    evaluator,
    load,
    quietly,
    random_objects,
    run,
    same,
    same_arrays,
    same_runs,
)
from valor_gpu.coco import COCOeval


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
assert (theirs[0], ours[0]) == ("pycocotools.cocoeval", "valor_gpu.compat.pycocotools.cocoeval")
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
