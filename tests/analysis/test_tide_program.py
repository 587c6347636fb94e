"""TIDE by the protocol ``tidecv``: the numbers of tidecv 1.0.1, on real data and on cases by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.analysis.tide_cases import answers, evaluated, val2014, yolact

NAMES = {
    "Cls": "classification", "Loc": "localization", "Both": "both", "Dupe": "duplicate", "Bkg": "background",
    "Miss": "missed", "FalsePos": "false_positives", "FalseNeg": "false_negatives",
}  # fmt: skip
GOLDEN, BY_HAND = answers("tide_golden.json"), answers("tide_tiny.json")
DATA = {
    "yolact_r50_box_100img": lambda: (*yolact(images=100), "bbox", 0.5),
    "yolact_r50_box_100img_iou75": lambda: (*yolact(images=100), "bbox", 0.75),
    "yolact_r50_box_100img_crowds_dropped": lambda: (*yolact(crowds=False, images=100), "bbox", 0.5),
    "yolact_r50_box_all5000img": lambda: (*yolact(), "bbox", 0.5),
    "val2014_100_fakebbox": lambda: (*val2014(), "bbox", 0.5),
    "val2014_100_fakesegm_mask": lambda: (*val2014(masks=True), "segm", 0.5),
    "val2014_100_fakesegm_mask_iou75": lambda: (*val2014(masks=True), "segm", 0.75),
}


def check(errors: Any, golden: dict[str, Any]) -> None:
    """Compares AP, gains and counts with those of tidecv, whose numbers are percent."""
    assert math.isclose(errors.values["ap"] * 100, golden["ap"], rel_tol=0, abs_tol=1e-9)
    for short, gain in {**golden["main"], **golden["special"]}.items():
        assert math.isclose(errors.values["gains"][NAMES[short]] * 100, gain, rel_tol=0, abs_tol=1e-9), short
    counts = {NAMES[short]: count for short, count in golden["counts"].items()}
    special = {"hits": golden["tp"], "false_positives": golden["fp"], "false_negatives": golden["fn"]}
    rest = {"ground_truths": golden["gt"], "ignored": golden["ignored_detections"]}
    assert {**counts, **special, **rest}.items() <= errors.counts.items()
    for name, count in counts.items():
        assert sum(errors.values["counts_per_class"][name].values()) == count


@pytest.mark.parametrize("name", DATA)
def test_gains_and_counts_are_those_of_tidecv(name):
    truth, detections, iou_type, iou = DATA[name]()
    errors = evaluated(truth, detections, iou_type).errors(iou, protocol="tidecv")
    check(errors, GOLDEN[name])
    shown = errors.values["ap_per_class"]
    assert sum(not math.isnan(ap) for ap in shown.values()) == GOLDEN[name]["classes_in_mean"]


@pytest.mark.parametrize("name", BY_HAND)
def test_cases_by_hand_are_those_of_tidecv(name):
    case = BY_HAND[name]
    check(evaluated(case["gt"], case["dt"]).errors(protocol="tidecv"), case["tidecv"])


def test_order_of_images_in_the_file_decides_ties():
    case = BY_HAND["equal scores, FP image first"]
    turned = {**case["gt"], "images": case["gt"]["images"][::-1]}
    found = [evaluated(truth, case["dt"]).errors(protocol="tidecv") for truth in (case["gt"], turned)]
    assert found[0].values["ap"] * 100 == pytest.approx(62.62376237623762, abs=1e-9)
    assert found[1].values["ap"] * 100 == pytest.approx((100 + 51 / 101 * 100) / 2, abs=1e-9)


def test_mean_that_a_fix_empties_is_nan_with_a_reason():
    box = [0, 0, 10, 10]
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "cat"}], "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "area": 100, "iscrowd": 0}]}  # fmt: skip
    far = [{"image_id": 1, "category_id": 1, "bbox": [50, 50, 9, 9], "score": 0.5}]
    errors = evaluated(truth, far).errors(protocol="tidecv")
    assert errors.values["gains"]["missed"] == 0.0  # the class keeps a false positive, and an AP of 0
    truth["categories"].append({"id": 2, "name": "dog"})
    far[0]["category_id"] = 2
    alone = evaluated({**truth, "annotations": []}, far).errors(protocol="tidecv")
    assert alone.values["ap"] == 0.0 and math.isnan(alone.values["gains"]["background"])
    assert alone.reason("gains/background") == "no class of the mean is left once the errors are mended"
    assert alone.reason("gains_per_class/background/dog").startswith("nothing of the class is left")
    assert alone.reason("ap_per_class/cat") == "no ground truth counts for it"


def test_gains_before_they_are_clamped_are_those_of_tidecv():
    from valor_gpu.analysis.tide_mend import Mended
    from valor_gpu.analysis.tide_program import RULE, judged_by_program

    for name in ("val2014_100_fakebbox", "val2014_100_fakesegm_mask_iou75"):
        truth, detections, iou_type, iou = DATA[name]()
        analysis = evaluated(truth, detections, iou_type)._asked("errors", None)
        judged = judged_by_program(analysis.rows, analysis.pairs, iou, 0.1)
        states = Mended(judged)
        ap = states.base().average_precision(RULE)[0]
        gains = {kind: state.average_precision(RULE)[0] - ap for kind, state in states.mended()}
        for short, gain in GOLDEN[name]["unclamped"].items():
            assert np.isclose(gains[NAMES[short]] * 100, gain, rtol=0, atol=1e-9), (name, short)
