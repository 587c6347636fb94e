"""Segmentations have the numbers that Valor's releases gave, and those of a plain reference."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from tests.valor import cases
from tests.valor import segmentation_scenes as scenes
from valor_gpu.compat.valor.segmentation_metrics import METRICS
from valor_gpu.valor import Annotation, Datum, Evaluation, Filter, GroundTruth, Label, Prediction, Raster, pixel_keys
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.filters import annotation_metadata, datum_uid, label_value
from valor_gpu.valor.segmentation import evaluate_segmentation

CASES = cases.read("segmentation_cases")
OVERLAPPING = {"overlapping_predictions"}
"""Cases of which valor-lite warns."""

# Where the server and valor-lite disagree, the case that shows it, and the rule of the default. docs/valor.md has the
# same table.
CONTRADICTIONS = {
    "label_only_in_predictions": "server",
    "empty_gt_mask": "server",
    "overlapping_predictions": "server",
}


def evaluate(case: dict[str, Any], compat: str | None, **choices: Any) -> Evaluation:
    if compat and case.get("name") in OVERLAPPING:
        with pytest.warns(UserWarning, match=r"24 pixels of predictions lie in masks of several labels"):
            return evaluate_segmentation(*scenes.recorded(case), compat=compat, **choices)
    return evaluate_segmentation(*scenes.recorded(case), compat=compat, **choices)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_server(case: dict[str, Any]) -> None:
    expected = dict(case["expected"]["api"])
    evaluation = evaluate(case, None)
    for side in ("ignored_pred_labels", "missing_pred_labels"):
        assert [list(label) for label in getattr(evaluation, side) or ()] == expected.pop(side, [])
    assert cases.differences(cases.shaped(evaluation), expected) == []


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_lite(case: dict[str, Any]) -> None:
    found: dict[str, Any] = {}
    for place, value in scenes.shaped(evaluate(case, "valor-lite")).items():
        name, _, *label = place.split("/")
        if label:
            found.setdefault(name, {})[label[0]] = value
        else:
            found[name] = value
    assert cases.differences(found, case["expected"]["lite"]) == []


@pytest.mark.parametrize("number", range(len(CASES["lite_tests"]["cases"])))
def test_lite_tests(number: int) -> None:
    tests = CASES["lite_tests"]
    case = tests["cases"][number]
    data = [datum for part in tests["datasets"][case["dataset"]] for datum in part["datums"]]
    for text in (case["filter"] or {}).values():
        assert '"v2",\n  "v3"' in text
    kept = {side: label_value.isin(["v2", "v3"]) for side in case["filter"] or {}}
    found = evaluate({"data": data}, "valor-lite", filters=Filter(**kept)).metrics
    expected = [metric for part in case["expected"].values() for metric in part]

    def keyed(metrics: list[dict[str, Any]]) -> dict[str, Any]:
        return {m["type"] + m["parameters"].get("label", ""): m["value"] for m in metrics}

    assert cases.differences(keyed(found), keyed(expected)) == []


def test_the_releases_disagree_where_the_table_says() -> None:
    found = set()
    for case in CASES["cases"]:
        api, lite = case["expected"]["api"], case["expected"]["lite"]
        shared = {
            name: {f"class:{a}": x for a, x in lite[name].items()} for name in ("IOU", "Precision", "Recall", "F1")
        }
        shared["mIOU"] = {"class": lite["mIOU"]}
        found |= {case["name"]} if cases.differences({name: api[name] for name in shared}, shared) else set()
    assert found == set(CONTRADICTIONS)
    page = (cases.DATA.parents[2] / "docs" / "valor.md").read_text()
    assert all(f"| {name} |" in page for name in CONTRADICTIONS)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("compat", [None, "valor-lite"])
def test_random_scenes(seed: int, compat: str | None) -> None:
    rng = np.random.default_rng(seed)
    scene = scenes.random_scene(rng, disjoint=seed % 3 == 0)
    expected = scenes.reference(scene, exclusive=compat is not None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overlaps; they have a test of their own
        found = scenes.shaped(evaluate_segmentation(*scenes.objects(scene), None, list(METRICS), None, compat))
    if compat is None:
        for place in [place for place in found if place.startswith("ConfusionMatrix")]:
            found[place] = scenes.without_empty(found[place], set(expected[place]["confusion_matrix"]))
    for place in [place for place, value in expected.items() if value is None and compat]:
        expected[place] = 0.0
    assert cases.differences(found, expected) == []


def plain(scene: scenes.Scene, **choices: Any) -> dict[str, Any]:
    return scenes.shaped(evaluate_segmentation(*scenes.objects(scene), metrics_to_return=list(METRICS), **choices))


def test_the_order_of_datums_and_annotations_does_not_matter() -> None:
    for seed in range(10):
        scene = scenes.random_scene(np.random.default_rng(seed))
        turned = {uid: (true[::-1], found[::-1]) for uid, (true, found) in reversed(scene.items())}
        assert plain(scene) == plain(turned)


def test_sums_of_pairs_on_the_way_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = scenes.random_scene(np.random.default_rng(2))
    whole = plain(scene)
    monkeypatch.setattr(pixel_keys, "_LOOSE", 0)
    assert plain(scene) == whole


def test_a_mask_may_be_split() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        scene, split = scenes.random_scene(rng), {}
        for uid, sides in scene.items():
            parts = []
            for side in sides:
                part = rng.random(side[0][2].shape) < 0.5 if side else np.zeros(0)
                parts.append([(k, v, m & half) for k, v, m in side for half in (part, ~part)])
            split[uid] = (parts[0], parts[1])
        assert plain(scene) == plain(split)


def test_a_label_map_equals_other_labels() -> None:
    label_map = {Label("k0", "v1"): Label("k0", "v0"), Label("k1", "v2"): Label("k0", "v0")}
    for seed in range(10):
        scene = scenes.random_scene(np.random.default_rng(seed))

        def moved(side: list[Any]) -> list[Any]:
            names = {("k0", "v1"): ("k0", "v0"), ("k1", "v2"): ("k0", "v0")}
            return [(*names.get((k, v), (k, v)), mask) for k, v, mask in side]

        other = {uid: (moved(true), moved(found)) for uid, (true, found) in scene.items()}
        assert plain(scene, label_map=label_map) == plain(other)
        pairs = [[["k0", "v1"], ["k0", "v0"]], [["k1", "v2"], ["k0", "v0"]]]
        assert plain(scene, label_map=pairs) == plain(other)


def test_swapped_sides_swap_precision_and_recall() -> None:
    scene = scenes.random_scene(np.random.default_rng(3), disjoint=True)
    there, back = plain(scene), plain({uid: (found, true) for uid, (true, found) in scene.items()})
    names = [name.removeprefix("Precision") for name in there if name.startswith("Precision")]
    both = [name for name in names if f"Recall{name}" in back]
    assert both and all(there[f"Precision{name}"] == back[f"Recall{name}"] for name in both)


def test_confusion_matrices_hold_pixels() -> None:
    scene = {"a": ([("k", "x", np.array([[1, 1, 0, 0]]) > 0)], [("k", "y", np.array([[1, 0, 1, 0]]) > 0)])}
    data = scenes.objects(scene)
    assert evaluate_segmentation(*data).confusion_matrices is None
    found = evaluate_segmentation(*data, metrics_to_return=[MetricType.ConfusionMatrix])
    assert found.confusion_matrices == [
        {"label_key": "k", "entries": [{"prediction": "y", "groundtruth": "x", "count": 1}]}
    ]
    assert [metric["type"] for metric in found.metrics] == ["ConfusionMatrix"]


def test_what_meta_says() -> None:
    ones = np.ones((2, 3), np.bool_)
    box = Annotation(labels=[Label("k", "x")], raster=Raster(ones), is_instance=True)
    truths = [
        GroundTruth(Datum("both"), [scenes.annotation("k", "x", ones), box, Annotation()]),
        GroundTruth(Datum("true"), [scenes.annotation("k", "x", ones)]),
        GroundTruth(Datum("none"), []),
    ]
    named = Annotation(labels=[Label("k", "x", 1.0)])
    found = [
        Prediction(Datum("both"), [scenes.annotation("k", "x", ones), scenes.annotation("k", "y", ones), named]),
        Prediction(Datum("found"), [scenes.annotation("k", "x", ones[:1])]),
    ]
    meta = evaluate_segmentation(truths, found).meta or {}
    assert meta.pop("duration") > 0
    assert meta == {
        "labels": 2,
        "datums": 3,
        "annotations": 5,
        "pixels": 15,
        "overlapping_pixels": {"groundtruths": 0, "predictions": 6},
        "ignored_annotations": {"groundtruths": 1, "predictions": 1},
        "datums_without_masks": 1,
        "datums_without_groundtruths": 1,
        "datums_without_predictions": 1,
        "reasons": {},
    }


def test_reasons_name_what_does_not_exist() -> None:
    ones, none = np.ones((2, 2), np.bool_), np.zeros((2, 2), np.bool_)
    scene = {"a": ([("k", "x", none), ("j", "y", none[:0])], [("k", "x", ones), ("i", "z", ones[:0])])}
    scene = {uid: ([true[0]], [found[0]]) for uid, (true, found) in scene.items()}
    scene["b"] = ([("j", "y", none[:0])], [])
    found = evaluate_segmentation(*scenes.objects(scene), metrics_to_return=["IOU", "mIOU", "Accuracy"])
    assert scenes.shaped(found) == {"mIOU/k": None, "Accuracy/k": 0.0, "mIOU/j": None, "Accuracy/j": None}
    assert (found.meta or {})["reasons"] == {
        "k/x": "no pixel of this label is true: no metrics, no part in mIOU",
        "mIOU/k": "no pixel of this key is true",
        "j/y": "no pixel of this label is true: no metrics, no part in mIOU",
        "mIOU/j": "no pixel of this key is true",
        "Accuracy/j": "no pixels",
    }
    json.dumps(found.to_dict())


def test_filters() -> None:
    rng = np.random.default_rng(1)
    scene = scenes.random_scene(rng, keys=1)
    one = next(uid for uid, sides in scene.items() if all(sides))
    assert plain(scene, filters=Filter(datum_uid == one)) == plain({one: scene[one]})
    kept = {uid: tuple([m for m in side if m[1] != "v0"] for side in sides) for uid, sides in scene.items()}
    both = ~(label_value == "v0")
    found = plain(scene, filters=Filter(groundtruths=both, predictions=both))
    expected = plain(kept)  # type: ignore[arg-type]
    assert {k: v for k, v in found.items() if "Acc" not in k} == {k: v for k, v in expected.items() if "Acc" not in k}
    nothing = evaluate_segmentation(*scenes.objects(scene), filters=Filter(datum_uid == "no such"))
    assert nothing.metrics == [] and (nothing.meta or {})["reasons"] == {"filters": "the filter keeps no label"}


def test_a_filter_makes_background_of_what_it_leaves_out() -> None:
    left, right = np.array([[True, False]]), np.array([[False, True]])
    marks = [{"sure": 1}, {"sure": 0}]
    masks = [
        scenes.annotation("k", value, mask, metadata=mark) for value, mask, mark in zip("xy", (left, right), marks)
    ]
    data = [GroundTruth(Datum("a"), masks)], [Prediction(Datum("a"), [scenes.annotation("k", "x", left)])]
    sure = {"groundtruths": {"op": "eq", "lhs": {"name": "annotation.metadata", "key": "sure"}, "rhs": {"value": 1}}}
    for filters in (sure, Filter(groundtruths=annotation_metadata["sure"] == 1)):
        found = evaluate_segmentation(*data, None, ["Accuracy", "mIOU"], filters)
        assert scenes.shaped(found) == {"Accuracy/k": 1.0, "mIOU/k": 1.0}
    without = Filter(groundtruths=label_value == "z", predictions=label_value == "z")
    found = evaluate_segmentation(*data, filters=without, compat="valor-lite", metrics_to_return=["Accuracy", "mIOU"])
    assert scenes.shaped(found) == {"Accuracy/k": 1.0, "mIOU/k": 0.0}


def test_several_labels_of_an_annotation_count_in_their_keys() -> None:
    mask = Raster(np.array([[True, False]]))
    labels = [Label("k", "x"), Label("j", "y")]
    data = [GroundTruth(Datum("a"), [Annotation(labels=labels, raster=mask)])], [Prediction(Datum("a"), [])]
    assert plain_ious(evaluate_segmentation(*data)) == {"IOU/k/x": 0.0, "IOU/j/y": 0.0}


def plain_ious(evaluation: Evaluation) -> dict[str, Any]:
    return {place: value for place, value in scenes.shaped(evaluation).items() if place.startswith("IOU")}


def test_a_uid_given_twice_is_one_datum() -> None:
    halves = [np.array([[True, False]]), np.array([[False, True]])]
    truths = [GroundTruth(Datum("a"), [scenes.annotation("k", "x", half)]) for half in halves]
    found = [Prediction(Datum("a"), [scenes.annotation("k", "x", halves[0] | halves[1])])]
    assert plain_ious(evaluate_segmentation(truths, found)) == {"IOU/k/x": 1.0}


def test_no_torch_is_loaded() -> None:
    program = (
        "import sys, numpy as np\n"
        "from valor_gpu.valor import Annotation, Datum, GroundTruth, Label, Prediction, Raster\n"
        "from valor_gpu.valor import evaluate_segmentation\n"
        "mask = Raster(np.ones((2, 2), bool))\n"
        "one = [Annotation(labels=[Label('k', 'x')], raster=mask)]\n"
        "evaluate_segmentation([GroundTruth(Datum('a'), one)], [Prediction(Datum('a'), one)])\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
