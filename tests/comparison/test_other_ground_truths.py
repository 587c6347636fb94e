"""Thresholds and errors of detections are compared on the same ground truths alone."""

from __future__ import annotations

import contextlib
import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest

from testing.datasets import ROOT
from tests.comparison.made import evaluated
from valor_gpu.coco import LVIS, LVISEval
from valor_gpu.errors import InputError
from valor_gpu.stats import compare

_DATA = ROOT / "examples" / "data"


@pytest.mark.parametrize("ask", [lambda result: result.olrp(), lambda result: result.operating_points()])
def test_other_ground_truths_of_an_image_are_an_error(ask: Any) -> None:
    truth = json.loads((_DATA / "instances_val2014_100.json").read_text())
    other, shuffled = copy.deepcopy(truth), copy.deepcopy(truth)
    image = other["annotations"][0]["image_id"]
    kind = other["annotations"][0]["category_id"]
    other["annotations"][0]["category_id"] = next(c["id"] for c in other["categories"] if c["id"] != kind)
    shuffled["annotations"].reverse()
    same = compare(ask(evaluated(truth).result()), ask(evaluated(shuffled).result()), replicates=20, permutations=0)
    assert {number for number in same.values["difference"].values() if not hasattr(number, "items")} <= {0.0}
    with pytest.raises(InputError, match=f"same ground truth but that of image {image} differs"):
        compare(ask(evaluated(truth).result()), ask(evaluated(other).result()), replicates=20, permutations=0)


@pytest.mark.parametrize("ask", [lambda result: result.olrp(), lambda result: result.operating_points()])
def test_answers_of_a_result_have_no_slices(ask: Any) -> None:
    answer = ask(evaluated(json.loads((_DATA / "instances_val2014_100.json").read_text())).result())
    metric = answer.signature["metric"]
    with pytest.raises(InputError, match=f"^by must be None for results of {metric}, which know no images$"):
        compare(answer, answer, replicates=20, by="crowding")


def federated(images: list[dict[str, Any]], path: Path) -> LVISEval:
    box = {"category_id": 1, "bbox": [0, 0, 9, 9]}
    truth = {
        "images": images,
        "annotations": [
            {"id": 1 + place, "image_id": each["id"], "area": 81, **box} for place, each in enumerate(images)
        ],
        "categories": [{"id": number, "frequency": "f", "name": str(number)} for number in (1, 2, 3)],
    }
    path.write_text(json.dumps(truth))
    detections = [{"image_id": each["id"], "score": 0.5 + place / 100, **box} for place, each in enumerate(images)]
    evaluation = LVISEval(LVIS(str(path)), detections, "bbox")
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.run()
    return evaluation


@pytest.mark.parametrize("field", ["neg_category_ids", "not_exhaustive_category_ids"])
def test_other_lists_of_an_image_of_lvis_are_an_error(field: str, tmp_path: Path) -> None:
    lists = {"neg_category_ids": [3, 2], "not_exhaustive_category_ids": []}
    images: list[dict[str, Any]] = [{"id": number, **lists} for number in range(1, 31)]
    first = federated(images, tmp_path / "first.json")
    turned = [{**image, "neg_category_ids": [2, 3]} for image in reversed(images)]
    assert compare(first, federated(turned, tmp_path / "turned.json"), replicates=20, permutations=0)
    changed = [{**image, field: [2]} if image["id"] == 7 else image for image in images]
    with pytest.raises(InputError, match="same ground truth but that of image 7 differs"):
        compare(first, federated(changed, tmp_path / "other.json"), replicates=20, permutations=0)
