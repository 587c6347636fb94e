"""Presets give the numbers that Valor's releases gave, case by case, but for the differences that the docs list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.valor import cases
from valor_gpu.errors import InputError
from valor_gpu.valor import Filter, evaluate_classification
from valor_gpu.valor.filters import Expression, datum_metadata, datum_uid, label_value

EDGE, CORE, LITE = (cases.read(f"classification_{name}") for name in ("edge_cases", "core_tests", "lite_tests"))
LITE_METRICS = {
    "compute_precision_recall": ["Accuracy", "Counts", "Precision", "Recall", "F1"],
    "compute_rocauc": ["ROCAUC", "mROCAUC"],
    "compute_confusion_matrix": ["ConfusionMatrix"],
    "compute_confusion_matrix_with_examples": ["ConfusionMatrixWithExamples"],
    "compute_examples": ["Examples"],
}

# (case, release): places that differ. The reasons are the rows of the table of differences in docs/valor.md.
DIFFERENCES: dict[tuple[str, str], set[str]] = {
    ("zero_score_hardmax", "lite"): {"/ROCAUC/a", "/mROCAUC"},
    ("test_filtering_six_classifications_inline", "lite"): {"Accuracy/value"},
}
# (case, release): one of the two sides raises and the other does not.
ONLY_THEIRS_RAISES = {("missing_predictions_all", "core")}
ONLY_OURS_RAISES = {("mismatched_label_keys", "lite")}


def server_cases() -> list[Any]:
    return [
        pytest.param(case, release, id=f"{case['name']}-{release}")
        for case in (*EDGE["cases"], *CORE["cases"])
        for release in ("api", "core")
        if release in case["expected"]
    ]


@pytest.mark.parametrize(("case", "release"), server_cases())
def test_server_and_core(case: dict[str, Any], release: str) -> None:
    expected, name = case["expected"][release], (case["name"], release)
    if "error" in expected and name not in ONLY_THEIRS_RAISES:
        with pytest.raises(InputError, match=r"sum to 1 for each|label keys must match prediction label keys"):
            cases.evaluate(case, f"valor-{release}")
        return
    asked = cases.ALL if "PrecisionRecallCurve" in expected else None
    if case.get("params", {}).get("metrics_to_return"):
        asked = case["params"]["metrics_to_return"]
    found = cases.shaped(cases.evaluate(case, f"valor-{release}", metrics_to_return=asked))
    if name in ONLY_THEIRS_RAISES:
        assert found["Accuracy"] == {"class": 0.0}
        return
    assert set(cases.differences(found, expected)) == DIFFERENCES.get(name, set())


@pytest.mark.parametrize("case", [c for c in EDGE["cases"] if "lite" in c["expected"]], ids=lambda case: case["name"])
def test_lite(case: dict[str, Any]) -> None:
    expected, name = case["expected"]["lite"], (case["name"], "lite")
    choices = {"metrics_to_return": None, "score_thresholds": [0.0, 0.5]}
    if "error" in expected or name in ONLY_OURS_RAISES:
        with pytest.raises(InputError, match=r"needs one ground truth and at least one|label keys must match"):
            cases.evaluate(case, "valor-lite", **choices)
        return
    found = {f"hardmax={h}": cases.evaluate(case, "valor-lite", hardmax=h, **choices) for h in (True, False)}
    assert set(cases.differences(cases.shaped_lite(found), expected)) == DIFFERENCES.get(name, set())


def expression(text: str, side: str) -> Expression:
    """The recorded pyarrow expressions, which are six in all."""
    if "is_in" in text:
        return label_value.isin(["bird", "dog"])
    known = {
        'expr:(datum_uid == "uid0")': datum_uid == "uid0",
        "expr:(datum_id == 0)": datum_metadata["datum_id"] == 0,
        'expr:(gt_label != "0")': label_value != "0",
        'expr:(pd_label != "0")': label_value != "0",
    }
    return known[text]


def keyed(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Metrics by type and parameters; their order says nothing."""
    found = {}
    for metric in metrics:
        parameters = {name: value for name, value in metric["parameters"].items() if name != "label_key"}
        datum = metric["value"].get("datum_id", "") if metric["type"] == "Examples" else ""
        found[json.dumps([metric["type"], parameters, datum], sort_keys=True)] = metric["value"]
    return found


@pytest.mark.parametrize("number", range(len(LITE["cases"])))
def test_lite_tests(number: int) -> None:
    case = LITE["cases"][number]
    params, name = case["params"], case["test"].split("::")[1]
    sides = {side: expression(text, side) for side, text in (case["filter"] or {}).items()}
    if params.get("datums"):
        sides["datums"] = expression(params["datums"], "datums")
    found = evaluate_classification(
        *cases.lite_objects(LITE["datasets"][case["dataset"]]),
        compat="valor-lite",
        metrics_to_return=LITE_METRICS[case["method"]],
        filters=Filter(**sides),
        score_thresholds=params.get("score_thresholds", [0.0]),
        hardmax=params.get("hardmax", True),
    )
    expected = case["expected"]
    listed = [m for part in expected.values() for m in part] if isinstance(expected, dict) else expected
    differing = cases.differences(keyed(found.metrics), keyed(listed))
    if (name, "lite") in DIFFERENCES:
        assert [place.split('"')[1] for place in differing] == ["Accuracy"]
    else:
        assert differing == []


@pytest.mark.parametrize("case", EDGE["cases"], ids=lambda case: case["name"])
def test_exact_areas_are_those_recorded_from_scikit_learn(case: dict[str, Any]) -> None:
    expected = case["expected"].get("sklearn_rocauc_ovr")
    if expected is None or case["name"] == "scores_do_not_sum_to_one":
        pytest.skip("no such number was recorded, or the scores are refused")
    found = cases.shaped(cases.evaluate(case, None, metrics_to_return=["ROCAUC", "ROCAUCPerLabel"]))
    per_label = {label.split(":")[1]: area for label, area in found["ROCAUCPerLabel"].items() if area is not None}
    assert cases.differences(per_label, expected["per_label"]) == []
    assert cases.differences(found["ROCAUC"], {"class": expected["mean"]}) == []


def test_every_difference_is_of_a_case() -> None:
    names = {case["name"] for case in EDGE["cases"]} | {case["test"].split("::")[1] for case in LITE["cases"]}
    assert {name for name, _ in (*DIFFERENCES, *ONLY_OURS_RAISES, *ONLY_THEIRS_RAISES)} <= names


def test_a_changed_number_is_seen() -> None:
    case = EDGE["cases"][0]
    found = cases.shaped(cases.evaluate(case, "valor-api"))
    found["PrecisionRecallCurve"]["class"]["cat"]["fp"][3] += 1
    assert cases.differences(found, case["expected"]["api"]) == ["/PrecisionRecallCurve/class/cat/fp"]
