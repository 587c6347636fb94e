"""The rows of the table of protocols against the packages that define them."""

from __future__ import annotations

import numpy as np
import pytest

from testing.oracles import pycocotools
from tests.coco.comparison import quietly, same
from valor_gpu.coco import Params
from valor_gpu.coco.protocols import PROTOCOLS
from valor_gpu.coco.summarize import LimitsError, line_text, summarize

SHARED = ("bbox", "segm", "keypoints")


@pytest.mark.parametrize("kind", SHARED)
def test_params_are_those_of_pycocotools(kind):
    theirs, ours = pycocotools("cocoeval").Params(kind), Params(kind)
    for name, value in vars(theirs).items():
        same(value, getattr(ours, name), name)


def random_arrays(params, rng):
    shape = [len(params.iouThrs), len(params.recThrs), 3, len(params.areaRng), len(params.maxDets)]
    precision, recall = rng.random(shape), rng.random(shape[:1] + shape[2:])
    for values in (precision, recall):
        values[:, ..., 1, rng.integers(shape[3]), :] = -1
    return {"precision": precision, "recall": recall}


@pytest.mark.parametrize("limits", [None, [7], [1, 5, 20, 100], [20, 100, 300]])
@pytest.mark.parametrize("kind", SHARED)
def test_summaries_are_those_of_pycocotools(kind, limits):
    theirs = pycocotools("cocoeval").COCOeval(iouType=kind)
    theirs.params.maxDets = limits or theirs.params.maxDets
    theirs.eval = random_arrays(theirs.params, np.random.default_rng(len(kind)))
    if limits == [7] and kind != "keypoints":
        with pytest.raises(LimitsError, match="at least 3 limits"):
            summarize(theirs.params, theirs.eval, True)
        return
    text = quietly(theirs.summarize)[1]
    stats, printed = quietly(summarize, theirs.params, theirs.eval, True)
    assert printed == text
    same(theirs.stats, stats)


def test_the_corrected_convention_takes_the_largest_limit():
    params = Params("keypoints")
    params.maxDets = [5, 30]
    arrays = random_arrays(params, np.random.default_rng(0))
    stats, text = quietly(summarize, params, arrays, False)
    assert (stats > 0).all() and text.count("maxDets= 30") == 10
    assert quietly(summarize, params, arrays, True)[0].tolist() == [-1.0] * 10


def test_groups_of_crowdpose_come_as_they_are():
    params = Params("keypoints_crowd")
    arrays = random_arrays(params, np.random.default_rng(0))
    stats, text = quietly(summarize, params, arrays, True, {"easy": 0.5, "medium": -1.0, "hard": 0.25})
    assert stats[6:].tolist() == [0.5, -1.0, 0.25]
    assert text.splitlines()[-1] == (" Average Precision  (AP) @[ IoU=0.50:0.95 | type=  hard | maxDets= 20 ] = 0.250")
    assert " | area=   all | maxDets= 20 ] =  0." in text.splitlines()[0]


def test_lines_of_lvis():
    row = PROTOCOLS["lvis"]
    names = "AP AP50 AP75 APs APm APl APr APc APf AR@300 ARs@300 ARm@300 ARl@300"
    assert [line.name.format(limit=300) for line in row.lines] == names.split()
    assert line_text(row, row.lines[6], row.threshold_grid(), 300, 0.5) == (
        " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=300 catIds=  r] = 0.500"
    )
