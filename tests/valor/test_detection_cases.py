"""Presets give the numbers that Valor's releases and COCO gave, case by case, but for what the docs list."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.valor import cases, detections
from valor_gpu.errors import InputError
from valor_gpu.valor import Evaluation, Filter, evaluate_detection
from valor_gpu.valor.filters import Condition, annotation_metadata, datum_metadata, datum_uid, label_value

EDGE, CORE, LITE = (cases.read(f"detection_{name}") for name in ("edge_cases", "core_tests", "lite_tests"))
SCENES = [*EDGE["cases"], *CORE["cases"]]
LITE_METRICS = (
    "AP", "mAP", "APAveragedOverIOUs", "mAPAveragedOverIOUs", "AR", "mAR", "ARAveragedOverScores",
    "mARAveragedOverScores", "Counts", "Precision", "Recall", "F1", "PrecisionRecallCurve", "ConfusionMatrix",
)  # fmt: skip
LITE_METHODS = {
    "compute_precision_recall": LITE_METRICS[:12],
    "compute_confusion_matrix": ("ConfusionMatrix",),
    "compute_confusion_matrix_with_examples": ("ConfusionMatrixWithExamples",),
    "compute_examples": ("Examples",),
}

# (case, program): metrics whose numbers differ from the recorded ones. docs/valor.md has the same table, with reasons.
DIFFERENCES: dict[tuple[str, str], set[str]] = {
    ("tiny_normalized_boxes", "lite"): set(LITE_METRICS) - {"PrecisionRecallCurve"} | {"PrecisionRecallCurve101"},
    ("multi_label_prediction", "lite"): {"Counts", "ConfusionMatrix", "PrecisionRecallCurve101"},
    ("multi_label_prediction_wrong_top", "lite"): {"Counts", "ConfusionMatrix", "PrecisionRecallCurve101"},
}
# (case, program): theirs raises, and here there are numbers.
ONLY_THEIRS_RAISES = {
    ("zero_area_gt", "api"),
    ("zero_area_gt", "core"),
    ("evaluate_detection_functional_with_rasters", "lite"),
}


def recorded(program: str) -> list[Any]:
    return [
        pytest.param(case, program, id=f"{case['name']}-{program}") for case in SCENES if program in case["expected"]
    ]


def params_of(case: dict[str, Any], program: str) -> dict[str, Any]:
    params = case["params"]
    return dict(params) if "iou_thresholds_to_compute" in params else dict(params.get(f"{program}_params", {}))


def names(places: list[str]) -> set[str]:
    return {place.split("/")[1] for place in places}


@pytest.mark.parametrize(("case", "program"), [*recorded("api"), *recorded("core")])
def test_server_and_core(case: dict[str, Any], program: str) -> None:
    expected, name = dict(case["expected"][program]), (case["name"], program)
    data, compat = detections.objects(case["data"]), f"valor-{program}"
    if "error" in expected and name not in ONLY_THEIRS_RAISES:
        with pytest.raises(InputError, match=rf"groundtruths must hold a label of a detection with compat '{compat}'"):
            evaluate_detection(*data, compat=compat)
        return
    asked = [metric for metric in expected if not metric.endswith("_labels") and metric != "error"]
    choices = {**params_of(case, program), "metrics_to_return": asked or None}
    found = detections.shaped(evaluate_detection(*data, compat=compat, **choices))
    if name in ONLY_THEIRS_RAISES:
        assert found["AP"] == {"class:a": {"0.5": pytest.approx(51 / 202), "0.75": pytest.approx(51 / 202)}}
        return
    assert names(cases.differences(found, detections.without_negatives(expected))) == DIFFERENCES.get(name, set())


@pytest.mark.parametrize(("case", "program"), recorded("lite"))
def test_lite(case: dict[str, Any], program: str) -> None:
    expected = case["expected"]["lite"]
    ious = sorted({float(iou) for numbers in expected.get("AP", {}).values() for iou in numbers} | {0.5})
    choices = {
        "iou_thresholds_to_compute": ious,
        "score_thresholds": case["params"].get("lite_params", {}).get("score_thresholds", [0.0, 0.5]),
        "metrics_to_return": LITE_METRICS,
    }
    found = detections.shaped_lite(
        evaluate_detection(*detections.objects(case["data"]), compat="valor-lite", **choices)
    )
    if (case["name"], program) in ONLY_THEIRS_RAISES:
        assert expected == {"error": "ValueError: Mask does not define any object instances."}
        assert found["AP"]["label1"]["0.5"] == 1.0
        return
    assert names(cases.differences(found, expected)) == DIFFERENCES.get((case["name"], program), set())


@pytest.mark.parametrize(("case", "program"), recorded("coco"))
def test_coco(case: dict[str, Any], program: str) -> None:
    ious = [round(0.5 + 0.05 * step, 2) for step in range(10)]
    found = detections.shaped(
        evaluate_detection(*detections.objects(case["data"]), compat="coco", iou_thresholds_to_return=ious)
    )
    numbers = case["expected"]["coco"]["labels"]
    true = {f"class:{label}": one for label, one in numbers.items() if one["AP_50_95"] >= 0}
    expected = {
        "AP": {label: one["AP"] for label, one in true.items()},
        "APAveragedOverIOUs": {label: one["AP_50_95"] for label, one in true.items()},
        "AR": {f"class:{label}": one["AR_100"] for label, one in numbers.items()},
    }
    stats = case["expected"]["coco"]["stats"]
    means = {"mAPAveragedOverIOUs": {"class": stats["AP"]}, "mAR": {"class": stats["AR100"]}}
    if not true:
        expected, means = {"AR": expected["AR"]}, {"mAR": means["mAR"]}
    assert cases.differences({name: found.get(name) for name in (*expected, *means)}, {**expected, **means}) == []


def expression(text: str) -> Condition:
    """The recorded pyarrow expressions."""
    if "is_in" in text:
        return label_value.isin(["2", "3"])
    match = re.fullmatch(r'expr:\((\w+) (==|!=) "?(\w+)"?\)', text)
    assert match is not None
    name, op, value = match.groups()
    field = {
        "datum_uid": datum_uid,
        "datum_id": datum_metadata["datum_id"],
        "gt_rect": annotation_metadata["gt_rect"],
        "pd_uid": annotation_metadata["uid"],
    }[name]
    wanted: Any = int(value) if name == "datum_id" else value
    return field == wanted if op == "==" else field != wanted


def lite_evaluation(case: dict[str, Any]) -> Evaluation:
    params = case["params"]
    sides = {side: expression(text) for side, text in (case["filter"] or {}).items()}
    if params.get("datums"):
        sides["datums"] = expression(params["datums"])
    datums = [datum for part in LITE["datasets"][case["dataset"]] for datum in part["datums"]]
    return evaluate_detection(
        *detections.objects(datums, "k"),
        compat="valor-lite",
        metrics_to_return=LITE_METHODS[case["method"]],  # type: ignore[arg-type]
        filters=Filter(**sides) if sides else None,
        iou_thresholds_to_compute=params["iou_thresholds"],
        score_thresholds=params["score_thresholds"],
        limit=params.get("limit"),
        offset=params.get("offset", 0),
    )


@pytest.mark.parametrize("number", range(len(LITE["cases"])))
def test_lite_tests(number: int) -> None:
    case = LITE["cases"][number]
    expected = case["expected"]
    listed = [m for part in expected.values() for m in part] if isinstance(expected, dict) else expected
    assert cases.differences(keyed(lite_evaluation(case).metrics), keyed(listed)) == []


def keyed(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Metrics by type and parameters; their order says nothing."""
    found = {}
    for metric in metrics:
        parameters = {name: value for name, value in metric["parameters"].items() if name != "label_key"}
        datum = metric["value"].get("datum_id", "") if metric["type"] == "Examples" else ""
        found[json.dumps([metric["type"], parameters, datum], sort_keys=True)] = metric["value"]
    return found


def test_every_difference_is_of_a_case() -> None:
    known = {(case["name"], program) for case in SCENES for program in case["expected"]}
    assert {*DIFFERENCES, *ONLY_THEIRS_RAISES} <= known


def test_a_changed_number_is_seen() -> None:
    case = EDGE["cases"][0]
    found = detections.shaped(evaluate_detection(*detections.objects(case["data"]), compat="valor-api"))
    found["AP"]["class:a"]["0.5"] += 1e-6
    expected = {name: case["expected"]["api"][name] for name in found}
    assert cases.differences(found, expected) == ["/AP/class:a/0.5"]
