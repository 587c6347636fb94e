"""Thresholds and errors of detections are compared on the same ground truths alone."""

from __future__ import annotations

import contextlib
import copy
import io
import json
from typing import Any

import pytest

from testing.datasets import ROOT
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.errors import InputError
from valor_gpu.result import Result
from valor_gpu.stats import compare

_DATA = ROOT / "examples" / "data"


def evaluated(truth: dict[str, Any]) -> Result:
    with contextlib.redirect_stdout(io.StringIO()):
        ground_truth = COCO()
        ground_truth.dataset = truth
        ground_truth.createIndex()
        detections = json.loads((_DATA / "instances_val2014_fakebbox100_results.json").read_text())
        evaluation = COCOeval(ground_truth, ground_truth.loadRes(detections), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.result()


@pytest.mark.parametrize("ask", [lambda result: result.olrp(), lambda result: result.operating_points()])
def test_other_ground_truths_of_an_image_are_an_error(ask: Any) -> None:
    truth = json.loads((_DATA / "instances_val2014_100.json").read_text())
    other, shuffled = copy.deepcopy(truth), copy.deepcopy(truth)
    image = other["annotations"][0]["image_id"]
    kind = other["annotations"][0]["category_id"]
    other["annotations"][0]["category_id"] = next(c["id"] for c in other["categories"] if c["id"] != kind)
    shuffled["annotations"].reverse()
    same = compare(ask(evaluated(truth)), ask(evaluated(shuffled)), replicates=20, permutations=0)
    assert {number for number in same.values["difference"].values() if not hasattr(number, "items")} <= {0.0}
    with pytest.raises(InputError, match=f"same ground truth but that of {image} differs"):
        compare(ask(evaluated(truth)), ask(evaluated(other)), replicates=20, permutations=0)
