"""Detections by the definitions of this library: against a plain walk, in parts, filtered, from frames, and errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from tests.valor import cases, detection_walk, detections
from tests.valor.test_detection_cases import EDGE
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops.overlaps.op import rank_overlaps
from valor_gpu.reduce.overlap_counts import count_outcomes
from valor_gpu.reduce.overlap_kinds import exact_kinds
from valor_gpu.valor import (
    Annotation,
    Box,
    Dataset,
    Datum,
    Evaluation,
    Filter,
    GroundTruth,
    Label,
    Polygon,
    Prediction,
    Raster,
    ValorDetectionManager,
    evaluate_detection,
)
from valor_gpu.valor.detection.data import read_scene
from valor_gpu.valor.detection.examples import outline
from valor_gpu.valor.detection.request import DEFAULT_METRICS, make_detection_request
from valor_gpu.valor.enums import AnnotationType, MetricType
from valor_gpu.valor.filters import datum_uid, label_value, score

CURVES = ["PrecisionRecallCurve", "DetailedPrecisionRecallCurve"]
evaluate: Any = evaluate_detection
manage: Any = ValorDetectionManager
dataset_of: Any = Dataset
EVERY = [*DEFAULT_METRICS, *CURVES, "Precision", "Recall", "F1", "Counts", "ConfusionMatrix", "Examples"]
EVERY += ["ARAveragedOverScores", "mARAveragedOverScores", "ConfusionMatrixWithExamples"]


def box(x0: float, x1: float, value: str = "cat", s: float | None = None, **fields: Any) -> Annotation:
    """A box from x0 to x1, 10 high."""
    shape = Box.from_extrema(x0, x1, 0, 10)
    return Annotation(labels=[Label("class", value, s)], bounding_box=shape, is_instance=True, **fields)


def one_image(truths: list[Annotation], found: list[Annotation]) -> tuple[list[GroundTruth], list[Prediction]]:
    return [GroundTruth(Datum("a"), truths)], [Prediction(Datum("a"), found)]


def numbers(evaluation: Evaluation) -> dict[str, Any]:
    return {json.dumps([m["type"], m.get("label"), m["parameters"]]): m["value"] for m in evaluation.metrics}


@pytest.mark.parametrize("seed", range(12))
def test_curves_are_those_of_a_walk_over_ranked_pairs(seed: int) -> None:
    data = detection_walk.random_boxes(np.random.default_rng(seed))
    shown = evaluate(*data, metrics_to_return=CURVES, pr_curve_iou_threshold=0.4)
    curves = {(m["type"], m["parameters"]["label_key"]): m["value"] for m in shown.metrics}
    for least in detection_walk.SCORES:
        expected = detection_walk.cells(*data, 0.4, least)
        for (kind, key), value in curves.items():
            for name, points in value.items():
                point, cell = points[least], expected.get(f"{key}:{name}", {})
                totals = {
                    outcome: sum(n for k, n in cell.items() if k[:2] == outcome) for outcome in ("tp", "fp", "fn")
                }
                if kind == "PrecisionRecallCurve":
                    assert {outcome: point[outcome] for outcome in totals} == totals
                    continue
                kinds = {f"{o}/{k}": n["count"] for o in totals for k, n in point[o]["observations"].items()}
                assert kinds == {**dict.fromkeys(kinds, 0), **cell}
                assert {outcome: point[outcome]["total"] for outcome in totals} == totals


@pytest.mark.parametrize("duplicates", [False, True])
def test_kinds_are_counted_as_the_reduction_counts_them(duplicates: bool) -> None:
    scene = read_scene(*detection_walk.random_boxes(np.random.default_rng(5)), make_detection_request())
    overlaps, classes = scene.overlaps, torch.arange(len(scene.columns.labels))
    ranked, scores = rank_overlaps(overlaps), torch.tensor(detection_walk.SCORES, dtype=torch.float64)
    grid = torch.tensor([0.4], dtype=torch.float64), scores
    counts = count_outcomes(ranked, overlaps, classes, *grid, duplicates=duplicates)
    found = exact_kinds(overlaps, ranked, 0.4, duplicates)
    assert ("fp/duplicates" in found) is duplicates
    for name, kind in found.items():
        field = {"fn/misclassifications": "fn_misclassifications", "tp/all": "tp"}.get(name, name.partition("/")[2])
        assert kind.counts(classes, scores).tolist() == getattr(counts, field)[0, :, 0].tolist()


@pytest.mark.parametrize("case", [c for c in EDGE["cases"] if "api" in c["expected"]], ids=lambda case: case["name"])
def test_default_has_the_averages_of_the_server(case: dict[str, Any]) -> None:
    expected = case["expected"]["api"]
    if "error" in expected:
        return
    found = detections.shaped(evaluate(*detections.objects(case["data"]), **case["params"].get("api_params", {})))
    for metric in (metric.value for metric in DEFAULT_METRICS):
        theirs = {place: None if value == -1 else value for place, value in expected.get(metric, {}).items()}
        if metric in found:
            assert cases.differences(found[metric], theirs) == []


def test_document_snippets() -> None:
    """The calls of Valor's document, with the comma that the second lacks and metrics where it has an ellipsis."""
    ring = [(464.08, 105.09), (495.74, 105.09), (495.74, 146.99), (464.08, 146.99), (464.08, 105.09)]
    dataset = Dataset("test_dataset")
    for uid, places in (("1", (-900.0,)), ("2", (0.0,)), ("3", (0.0,)), ("4", (0.0,))):
        shapes = [Box([[(x + shift, y) for x, y in ring]]) for shift in places]
        labels = [Label("class", "cat", 0.97)]
        truths = (
            [] if uid == "1" else [Annotation(labels=[Label("class", "cat")], bounding_box=shapes[0], is_instance=True)]
        )
        dataset.add_groundtruth(GroundTruth(Datum(uid), truths))
        found = [Annotation(labels=labels, bounding_box=shape, is_instance=True) for shape in shapes]
        dataset.add_prediction(Prediction(Datum(uid), found))

    pr_evaluation = evaluate(data=dataset, metrics_to_return=["PrecisionRecallCurve"])
    (curve,) = json.loads(str(pr_evaluation))["metrics"]
    assert curve["parameters"] == {"label_key": "class", "pr_curve_iou_threshold": 0.5}
    point = curve["value"]["cat"]["0.05"]
    assert (point["fn"], point["fp"], point["tp"]) == (0, 1, 3)
    assert (point["recall"], point["precision"], round(point["f1_score"], 3)) == (1, 0.75, 0.857)

    detailed_evaluation = evaluate(
        data=dataset, pr_curve_max_examples=1, metrics_to_return=["AP", "DetailedPrecisionRecallCurve"]
    )
    detailed = detailed_evaluation.metrics[-1]
    assert detailed["parameters"] == {"label_key": "class", "pr_curve_iou_threshold": 0.5}
    point = detailed["value"]["cat"][0.05]
    text = (
        '{"type":"Polygon","coordinates":[[[464.08,105.09],[495.74,105.09],[495.74,146.99],[464.08,146.99],'
        "[464.08,105.09]]]}"
    )
    assert point["tp"] == {
        "total": 3,
        "observations": {"all": {"count": 3, "examples": [("test_dataset", "2", text)]}},
    }
    assert point["fp"]["total"] == 1
    (example,) = point["fp"]["observations"]["hallucinations"]["examples"]
    assert example[:2] == ("test_dataset", "1")
    assert json.loads(example[2])["coordinates"][0][0] == pytest.approx([464.08 - 900, 105.09])
    assert set(point) == {"tp", "fp", "fn"} and point["fn"]["total"] == 0


@pytest.mark.parametrize("compat", [None, "valor-api", "valor-core", "coco"])
def test_parts_are_evaluated_as_the_whole(compat: str | None) -> None:
    data = detection_walk.random_boxes(np.random.default_rng(1))
    asked = list(DEFAULT_METRICS) if compat == "coco" else EVERY
    manager = manage(metrics_to_return=asked, compat=compat)
    for truth, prediction in zip(*data):
        manager.add_data([truth], [prediction])
    whole = evaluate(*data, metrics_to_return=asked, compat=compat)
    parts = manager.evaluate()
    assert sorted(map(str, parts.metrics)) == sorted(map(str, whole.metrics))
    assert {k: v for k, v in (parts.meta or {}).items() if k != "duration"} == {
        k: v for k, v in (whole.meta or {}).items() if k != "duration"
    }
    kept = manager.evaluate(Filter(datums=datum_uid != "datum 1"))
    fresh = [[item for item in side if item.datum.uid != "datum 1"] for side in data]
    again = evaluate(*fresh, metrics_to_return=asked, compat=compat)
    assert sorted(map(str, kept.metrics)) == sorted(map(str, again.metrics))


def test_manager_has_the_fields_of_valor_core() -> None:
    manager = manage(label_map={Label("class", "tabby"): Label("class", "cat")})
    assert manager.iou_thresholds_to_return == [0.5, 0.75] and manager.score_thresholds == [0.5]
    with pytest.raises(InputError, match="evaluate needs data but add_data was not called"):
        manager.evaluate()
    manager.add_data(*one_image([box(0, 10, "tabby"), box(20, 30)], [box(0, 10, s=0.9)]))
    assert manager.unique_groundtruth_labels == {("class", "cat"): {0, 1}}
    assert manager.unique_prediction_labels == {("class", "cat")}
    assert manager.datum_uids == {"a"} and manager.unique_annotation_ids == {0, 1, 2}
    with pytest.raises(InputError, match="add_data must be called once with each datum but got 'a' again"):
        manager.add_data(*one_image([], [box(0, 10, s=0.9)]))
    with pytest.raises(AttributeError, match="recall_score_threshold is fixed when the manager is made"):
        manager.recall_score_threshold = 0.5
    assert (
        numbers(manager.evaluate())[
            '["mAR", null, {"label_key": "class", "ious": ['
            + ", ".join(str(round(0.5 + 0.05 * step, 2)) for step in range(10))
            + "]}]"
        ]
        == 0.5
    )


def test_parts_of_different_geometries_need_a_type() -> None:
    drawn = Polygon(Box.from_extrema(0, 10, 0, 10).value)
    parts = []
    for uid, shape in (("a", {"bounding_box": Box.from_extrema(0, 10, 0, 10)}), ("b", {"polygon": drawn})):
        truth, found = (Annotation(labels=[Label("k", "v", s)], is_instance=True, **shape) for s in (None, 0.9))
        parts.append(([GroundTruth(Datum(uid), [truth])], [Prediction(Datum(uid), [found])]))
    manager = manage()
    manager.add_data(*parts[0])
    with pytest.raises(InputError, match="convert_annotations_to_type must be given where parts differ in the most"):
        manager.add_data(*parts[1])
    assert manager.datum_uids == {"a"}
    manager = manage(convert_annotations_to_type="box")
    for part in parts:
        manager.add_data(*part)
    assert manager.evaluate().metrics[0]["value"] == 1.0


def test_filters_of_rows_rank_again() -> None:
    data = one_image([box(0, 10), box(20, 30, "dog")], [box(0, 9, s=0.3), box(0, 10, s=0.9), box(20, 30, "dog", 0.4)])
    asked = ["AP", "Counts", "ConfusionMatrix"]
    kept = evaluate(
        *data,
        metrics_to_return=asked,
        filters=Filter(groundtruths=label_value == "cat", predictions=score < 0.5),
    )
    fresh = one_image([box(0, 10)], [box(0, 9, s=0.3), box(20, 30, "dog", 0.4)])
    again = evaluate(*fresh, metrics_to_return=asked)
    assert kept.metrics == again.metrics and kept.ignored_pred_labels == [("class", "dog")]
    nothing = evaluate(*data, filters=Filter(datums=datum_uid == "z"))
    assert nothing.metrics == [] and (nothing.meta or {})["reasons"] == {"filters": "the filter keeps no label"}


def test_labels_that_a_map_makes_one_are_one() -> None:
    labels = [Label("class", value, s) for value, s in (("tabby", 0.3), ("tiger", 0.8))]
    shape = Box.from_extrema(0, 10, 0, 10)
    found = Annotation(labels=labels, bounding_box=shape, is_instance=True)
    renamed = {Label("class", value): Label("class", "cat") for value in ("tabby", "tiger")}
    data = one_image([box(0, 10)], [found])
    shown = evaluate(*data, label_map=renamed, metrics_to_return=["Counts"], score_thresholds=[0.0, 0.5])
    assert [metric["value"] for metric in shown.metrics[:2]] == [{"tp": 1, "fp": 0, "fn": 0}] * 2
    rows = evaluate(*data, label_map=renamed, metrics_to_return=["Counts"], compat="valor-core", score_thresholds=[0.0])
    assert rows.metrics[0]["value"] == {"tp": 1, "fp": 1, "fn": 0}


def test_numbers_that_do_not_exist_are_none_with_a_reason() -> None:
    shown = evaluate(*one_image([], [box(0, 10, s=0.4)]), metrics_to_return=["AP", "AR", "mAP", "Precision"])
    assert all(metric["value"] is None for metric in shown.metrics)
    assert (shown.meta or {})["reasons"] == {
        "AR/class/cat": "no ground truth of this label",
        "mAP/class": "no ground truth of this key",
        "Precision/class/cat": "no detection reaches the score",
    }
    assert (shown.meta or {})["datums_without_groundtruths"] == 1


def test_thresholds_to_return_that_are_not_computed() -> None:
    data = one_image([box(0, 10)], [box(0, 10, s=0.4)])
    assert [m["parameters"]["iou"] for m in evaluate(*data, None, ["AP"]).metrics] == [0.5, 0.75]
    shown = evaluate(*data, None, ["AP"], iou_thresholds_to_compute=[0.1, 0.5])
    assert [m["parameters"]["iou"] for m in shown.metrics] == [0.5]
    with pytest.raises(InputError, match=re.escape("must be among iou_thresholds_to_compute [0.1] but holds 0.5")):
        evaluate(*data, iou_thresholds_to_compute=[0.1], iou_thresholds_to_return=[0.5])


def test_matching_of_the_document() -> None:
    (case,) = (case for case in EDGE["cases"] if case["name"] == "second_best_match")
    data = detections.objects(case["data"])
    ap = {}
    for matching in ("valor", "doc"):
        (metric,) = evaluate(*data, None, ["AP"], iou_thresholds_to_return=[0.5], matching=matching).metrics
        ap[matching] = metric["value"]
    assert ap == {"valor": pytest.approx(51 / 101), "doc": 1.0}
    assert case["expected"]["doc_literal_AP"]["a"]["0.5"] == 1.0


def test_confusion_and_examples_in_the_default() -> None:
    truths = [box(0, 10), box(20, 30, metadata={"uid": "g"})]
    data = one_image(truths, [box(0, 10, "dog", 0.9), box(20, 30, s=0.8), box(40, 50, s=0.7)])
    shown = evaluate(*data, None, ["ConfusionMatrix", "Examples"], iou_thresholds_to_return=[0.5])
    matrix, examples = shown.metrics
    assert matrix["value"] == {
        "confusion_matrix": {"cat": {"cat": 1, "dog": 1}, "dog": {"cat": 0, "dog": 0}},
        "unmatched_predictions": {"cat": 1, "dog": 0},
        "unmatched_ground_truths": {"cat": 0, "dog": 0},
    }
    assert examples["parameters"] == {"label_key": "class", "iou": 0.5, "score_threshold": 0.5}
    assert examples["value"] == {
        "datum_id": "a", "true_positives": [["g", 1]], "false_positives": [0, 2], "false_negatives": [0],
    }  # fmt: skip
    (entries,) = shown.confusion_matrices or []
    assert entries["parameters"] == {"iou": 0.5, "score_threshold": 0.5}
    assert [(e["groundtruth"], e["prediction"], e["count"]) for e in entries["entries"]] == [
        ("cat", "cat", 1), ("cat", "dog", 1),
    ]  # fmt: skip


def test_examples_of_data_without_ground_truths_show_what_is_false() -> None:
    shown = evaluate(*one_image([], [box(0, 10, s=0.9)]), None, ["Examples"], iou_thresholds_to_return=[0.5])
    wanted = {"datum_id": "a", "true_positives": [], "false_positives": [0], "false_negatives": []}
    assert [metric["value"] for metric in shown.metrics] == [wanted]


def test_the_first_part_of_a_manager_may_lack_a_side() -> None:
    both = [one_image([], [box(0, 10, s=0.9)]), one_image([box(0, 10)], [box(0, 10, s=0.8)])]
    both[1][0][0].datum.uid = both[1][1][0].datum.uid = "b"
    metrics = [name for name in EVERY if name != "Examples"]  # by datum, in the order in which these came
    manager = manage(metrics_to_return=metrics)
    for part in both:
        manager.add_data(*part)
    sides = ([item for part in both for item in part[side]] for side in (0, 1))
    assert manager.evaluate().metrics == evaluate(*sides, None, metrics).metrics


def test_examples_of_the_confusion_matrix_in_the_default() -> None:
    truths = [box(0, 10), box(20, 30, metadata={"uid": "g"})]
    data = one_image(truths, [box(0, 10, "dog", 0.9), box(20, 30, s=0.8), box(40, 50, s=0.7)])
    shown = evaluate(*data, None, ["ConfusionMatrixWithExamples"], iou_thresholds_to_return=[0.5])
    (matrix,) = shown.metrics
    assert matrix["parameters"] == {"label_key": "class", "iou": 0.5, "score_threshold": 0.5}
    assert matrix["value"]["confusion_matrix"]["cat"]["cat"] == {
        "count": 1, "examples": [{"datum_id": "a", "ground_truth_id": "g", "prediction_id": 1}],
    }  # fmt: skip
    assert matrix["value"]["unmatched_predictions"]["cat"] == {
        "count": 1, "examples": [{"datum_id": "a", "prediction_id": 2}],
    }  # fmt: skip
    assert len(shown.confusion_matrices or []) == 1


def test_recall_is_averaged_over_scores() -> None:
    data = one_image([box(0, 10), box(20, 30)], [box(0, 10, s=0.9), box(20, 30, s=0.4), box(0, 9, "dog", 0.8)])
    asked = ["ARAveragedOverScores", "mARAveragedOverScores"]
    shown = evaluate(*data, None, asked, iou_thresholds_to_compute=[0.5], score_thresholds=[0.3, 0.5, 0.95])
    over = {"ious": [0.5], "score_thresholds": [0.3, 0.5, 0.95]}
    assert shown.metrics[0]["label"] == {"key": "class", "value": "cat"} and shown.metrics[0]["parameters"] == over
    assert [metric["value"] for metric in shown.metrics] == [0.5, None, 0.5]
    assert shown.metrics[2]["parameters"] == {"label_key": "class", **over}
    assert shown.meta["reasons"] == {"ARAveragedOverScores/class/dog": "no ground truth of this label"}


def test_a_manager_takes_every_choice() -> None:
    choices = {"matching": "doc", "duplicates": True, "limit": 1, "offset": 1, "score_thresholds": [0.3]}
    data = detection_walk.random_boxes(np.random.default_rng(2))
    manager = manage(metrics_to_return=EVERY, **choices)
    manager.add_data(*data)
    parts, whole = manager.evaluate(), evaluate(*data, None, EVERY, **choices)
    assert str(parts.metrics) == str(whole.metrics) != str(evaluate(*data, None, EVERY).metrics)
    assert {name: getattr(whole.parameters, name) for name in choices} == choices
    assert parts.parameters == whole.parameters


def test_frames_are_read_as_objects_are() -> None:
    gt_frame = {"datum_uid": ["a", "a"], "label_key": ["class"] * 2, "label_value": ["cat", "cat"],
                "xmin": [0, 20], "xmax": [10, 30], "ymin": [0, 0], "ymax": [10, 10]}  # fmt: skip
    pred_frame = {name: column[:1] for name, column in gt_frame.items()} | {"score": [0.9]}
    objects = one_image([box(0, 10), box(20, 30)], [box(0, 10, s=0.9)])
    asked = [*DEFAULT_METRICS, *CURVES]
    assert str(evaluate(gt_frame, pred_frame, None, asked).metrics) == str(evaluate(*objects, None, asked).metrics)


def test_outlines_of_examples() -> None:
    mask = np.zeros((4, 5), np.bool_)
    mask[1:3, 1:4] = True
    turned = Box([[(1.0, 0.0), (2.0, 1.0), (1.0, 2.0), (0.0, 1.0), (1.0, 0.0)]])
    hole = Polygon([[(0, 0), (9, 0), (9, 9), (0, 9), (0, 0)], [(2, 2), (4, 2), (4, 4), (2, 4), (2, 2)]])
    label = [Label("class", "cat")]
    shapes = [{"bounding_box": turned}, {"polygon": hole}, {"raster": Raster(mask)}]
    from valor_gpu.valor.columns import read_columns
    from valor_gpu.valor.enums import TaskType

    truths = [GroundTruth(Datum("a"), [Annotation(labels=label, is_instance=True, **one) for one in shapes])]
    given = read_columns(truths, [Prediction(Datum("a"), [])], TaskType.OBJECT_DETECTION).groundtruths.shapes
    assert given is not None
    assert outline(given, 0)["coordinates"] == [[list(point) for point in turned.value[0]]]
    assert outline(given, 1)["coordinates"] == [[list(point) for point in ring] for ring in hole.value]
    ring = outline(given, 2)["coordinates"][0]
    assert sorted(map(tuple, ring[:-1])) == [(1, 1), (1, 3), (4, 1), (4, 3)]
    assert outline(given, 0, envelope=True)["coordinates"] == [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]


def test_examples_of_the_releases() -> None:
    data = one_image([box(0, 10)], [box(0, 10, s=0.97)])
    shown = {}
    for compat in ("valor-api", "valor-core"):
        (curve,) = evaluate(
            *data, None, ["DetailedPrecisionRecallCurve"], pr_curve_max_examples=0, compat=compat
        ).metrics
        shown[compat] = curve["value"]["cat"][0.5]["tp"]["observations"]["all"]
    ring = "[[[0.0,0.0],[10.0,0.0],[10.0,10.0],[0.0,10.0],[0.0,0.0]]]"
    assert shown["valor-api"]["examples"] == [("", "a", f'{{"type":"Polygon","coordinates":{ring}}}')]
    assert shown["valor-core"] == {"count": 1, "examples": []}


def test_coco_compares_every_geometry() -> None:
    mask = np.zeros((10, 60), np.bool_)
    mask[:, 20:30] = True
    drawn = Polygon(Box.from_extrema(20, 30, 0, 10).value)
    turned = Box([[(25.0, 0.0), (30.0, 5.0), (25.0, 10.0), (20.0, 5.0), (25.0, 0.0)]])
    crowd = {"iscrowd": 1}
    for shape in ({"raster": Raster(mask)}, {"polygon": drawn}, {"bounding_box": turned}):
        truths = [
            Annotation(labels=[Label("class", "cat")], is_instance=True, metadata=entry, **shape)
            for entry in (crowd, None)
        ]
        rows = [Annotation(labels=[Label("class", "cat", s)], is_instance=True, **shape) for s in (0.9, 0.8)]
        shown = evaluate(*one_image(truths, rows), None, ["AP", "AR"], compat="coco")
        assert [metric["value"] for metric in shown.metrics] == pytest.approx([1.0, 1.0, 1.0])
    mixed = one_image(
        [box(20, 30)], [Annotation(labels=[Label("class", "cat", 0.9)], is_instance=True, raster=Raster(mask))]
    )
    assert evaluate(*mixed, None, ["AR"], compat="coco").metrics[0]["value"] == 1.0  # boxes are what both have
    both = [box(20, 30), Annotation(labels=[Label("class", "cat")], is_instance=True, raster=Raster(mask))]
    mixed = one_image(both, mixed[1][0].annotations)
    with pytest.raises(InputError, match="compat 'coco' compares rasters with rasters only but got boxes or polygons"):
        evaluate(*mixed, compat="coco")
    shown = evaluate(*mixed, None, ["AR"], compat="coco", convert_annotations_to_type="box")
    assert shown.metrics[0]["value"] == 0.5


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"metrics_to_return": ["IOU"]}, "metrics_to_return must be among AP, APAveragedOverIOUs, AR, ARAveragedOver"),
        ({"metrics_to_return": ["Counts"], "compat": "coco"}, "metrics_to_return must be among AP, APAveragedOverIOUs"),
        ({"iou_thresholds_to_compute": [0]}, "iou_thresholds_to_compute must be above 0 and at most 1 but got 0"),
        ({"iou_thresholds_to_compute": []}, "iou_thresholds_to_compute must hold at least one number but is empty"),
        ({"iou_thresholds_to_compute": [1.2]}, "iou_thresholds_to_compute must be above 0 and at most 1 but got 1.2"),
        (
            {"iou_thresholds_to_compute": [np.nan]},
            "iou_thresholds_to_compute must be above 0 and at most 1 but got nan",
        ),
        ({"pr_curve_iou_threshold": 0}, "pr_curve_iou_threshold must be above 0 and at most 1 but got 0"),
        ({"recall_score_threshold": 1.1}, "recall_score_threshold must be in [0, 1] but got 1.1"),
        ({"recall_score_threshold": 0.5, "compat": "coco"}, "recall_score_threshold must be 0 with compat 'coco'"),
        ({"pr_curve_max_examples": -1}, "pr_curve_max_examples must be at least 0 but got -1"),
        ({"convert_annotations_to_type": "circle"}, "convert_annotations_to_type must be one of 'box', 'polygon'"),
        ({"compat": "valor"}, "compat must be one of None, 'valor-api', 'valor-core', 'valor-lite', 'coco' but got"),
        ({"matching": "coco"}, "matching must be one of 'valor', 'doc' but got 'coco'"),
        ({"matching": "doc", "compat": "valor-api"}, "matching must be 'valor' with compat 'valor-api' but got 'doc'"),
        ({"duplicates": True, "compat": "valor-api"}, "duplicates must be False with compat 'valor-api' but got True"),
        ({"score_thresholds": [2]}, "score_thresholds must be in [0, 1] but got 2"),
        ({"offset": -1}, "offset must be at least 0 but got -1"),
        ({"data": Dataset("d")}, "groundtruths and predictions must not be given with data, which holds both"),
    ],
)
def test_choices_that_cannot_be_used(choices: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        evaluate(*one_image([box(0, 10)], [box(0, 10, s=0.4)]), **choices)


def test_data_that_cannot_be_used() -> None:
    with pytest.raises(InputTypeError, match="predictions must be given, or data with both sides, but got None"):
        evaluate([GroundTruth(Datum("a"), [])])
    with pytest.raises(InputTypeError, match="data must be Dataset or NoneType but got list"):
        evaluate(data=[])
    with pytest.raises(InputTypeError, match=r"Dataset.groundtruths must be GroundTruth but got Prediction"):
        dataset_of("d", [Prediction(Datum("a"), [])])
    with pytest.raises(InputTypeError, match="predictions must be Prediction but got GroundTruth"):
        dataset_of("d").add_predictions([GroundTruth(Datum("a"), [])])
    with pytest.raises(InputError, match=r"hold none: .*; left out were . of groundtruths and . of predictions"):
        evaluate(*one_image([], []))


def test_parameters_say_what_was_asked_for() -> None:
    data = one_image([box(0, 10)], [box(0, 10, s=0.4)])
    shown = evaluate(*data, convert_annotations_to_type=AnnotationType.BOX, compat="valor-api").parameters
    assert shown.compat == "valor-api" and shown.convert_annotations_to_type is AnnotationType.BOX
    assert shown.metrics_to_return == list(DEFAULT_METRICS) and shown.score_thresholds == [0.5]
    assert shown.iou_thresholds_to_return == [0.5, 0.75]
    assert MetricType.object_detection() == {*DEFAULT_METRICS, *map(MetricType, CURVES)}


def test_parameters_of_valor_core_are_its_dict() -> None:
    data = one_image([box(0, 10)], [box(0, 10, s=0.4)])
    plain = evaluate(
        *data, compat="valor-core", iou_thresholds_to_compute=[0.1, 0.6], iou_thresholds_to_return=[0.1, 0.6]
    )
    assert plain.to_dict()["parameters"] == {
        "label_map": {}, "metrics_to_return": list(DEFAULT_METRICS),
        "iou_thresholds_to_compute": [0.1, 0.6], "iou_thresholds_to_return": [0.1, 0.6],
        "recall_score_threshold": 0.0, "pr_curve_iou_threshold": 0.5, "pr_curve_max_examples": 1,
        "convert_annotations_to_type": None,
    }  # fmt: skip
    label_map = {Label("class", "cat"): Label("class", "animal")}
    mapped = evaluate(*data, label_map, compat="valor-core")
    assert mapped.to_dict()["parameters"]["label_map"] == label_map
    pairs = [[["class", "cat"], ["class", "animal"]]]
    shown = json.loads(str(mapped))["parameters"]
    assert shown["label_map"] == pairs and shown["compat"] == "valor-core"
    own = evaluate(*data, label_map).to_dict()["parameters"]
    assert own["label_map"] == pairs and own["score_thresholds"] == [0.5]
    assert evaluate(*data).to_dict()["parameters"]["label_map"] is None


def test_managers_take_frames() -> None:
    frame = {"datum_uid": ["a"], "label_key": ["k"], "label_value": ["v"], "xmin": [0], "ymin": [0], "xmax": [9],
             "ymax": [9]}  # fmt: skip
    manager = ValorDetectionManager(metrics_to_return=["mAP"])
    manager.add_data(frame, {**frame, "score": [0.5]})
    assert [metric["value"] for metric in manager.evaluate().metrics] == [1.0, 1.0]


@pytest.mark.parametrize("compat", [None, "valor-core", "valor-lite", "coco"])
def test_an_evaluation_loads_no_torchmetrics(compat: str | None) -> None:
    """It loads 1,400 further modules, among them transformers, scipy and matplotlib, for 6 seconds."""
    code = (
        "import sys\n"
        "from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction, evaluate_detection\n"
        "def one(*score):\n"
        "    box = Box.from_extrema(0, 9, 0, 9)\n"
        "    return [Annotation(labels=[Label('k', 'v', *score)], bounding_box=box, is_instance=True)]\n"
        "data = [GroundTruth(Datum('a'), one())], [Prediction(Datum('a'), one(0.9))]\n"
        f"evaluation = evaluate_detection(*data, compat={compat!r})\n"
        "heavy = 'torchmetrics', 'transformers', 'scipy', 'matplotlib', 'pandas', 'sklearn'\n"
        "print(len(evaluation.metrics) > 0, [name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "True []\n"


def test_names_load_no_torch() -> None:
    code = "import sys; from valor_gpu.valor import evaluate_detection, ValorDetectionManager, Dataset\n"
    run = subprocess.run(
        [sys.executable, "-c", code + "ValorDetectionManager(); print('torch' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout == "False\n"


@pytest.mark.parametrize("seed", range(6))
def test_order_of_datums_and_names_of_labels_change_no_number(seed: int) -> None:
    truths, found = detection_walk.random_boxes(np.random.default_rng(100 + seed))
    asked = [*DEFAULT_METRICS, "PrecisionRecallCurve", "Counts", "ConfusionMatrix"]
    expected = numbers(evaluate(truths, found, None, asked))
    assert numbers(evaluate(truths[::-1], found[::-1], None, asked)) == expected
    names = {Label(f"k{k}", f"v{v}"): Label(f"k{k}", f"w{2 - v}") for k in range(2) for v in range(3)}
    renamed = evaluate(truths, found, names, asked)
    back = {Label(b.key, b.value): Label(a.key, a.value) for a, b in names.items()}
    shown = json.loads(json.dumps(renamed.metrics))
    for metric in shown:
        if "label" in metric:
            original = back[Label(**metric["label"])]
            metric["label"] = {"key": original.key, "value": original.value}
        else:
            metric["value"] = _renamed(metric["value"])
    again = {json.dumps([m["type"], m.get("label"), m["parameters"]]): m["value"] for m in shown}
    assert again == json.loads(json.dumps(expected))


def _renamed(value: Any) -> Any:
    """The value of a metric of a key with the original names of labels, which are w2, w1 and w0 in it."""
    if not isinstance(value, dict):
        return value
    names = {f"w{2 - v}": f"v{v}" for v in range(3)}
    return {names.get(name, name): _renamed(part) for name, part in value.items()}


def test_examples_are_in_the_order_of_the_data_where_a_datum_has_no_ground_truth() -> None:
    def box(score: float | None = None) -> Annotation:
        return Annotation(labels=[Label("k", "a", score)], bounding_box=Box.from_extrema(0, 2, 0, 2), is_instance=True)

    uids = ("first", "second", "third")
    groundtruths = [GroundTruth(Datum(uid), [box()] if uid == "third" else []) for uid in uids]
    predictions = [Prediction(Datum(uid), [box(0.5)]) for uid in reversed(uids)]
    metrics = ["DetailedPrecisionRecallCurve", "Examples"]
    curve, *examples = evaluate_detection(groundtruths, predictions, metrics_to_return=metrics).metrics
    [example] = curve["value"]["a"][0.5]["fp"]["observations"]["hallucinations"]["examples"]
    assert example[1] == "first"
    assert [metric["value"]["datum_id"] for metric in examples][:3] == list(uids)


@pytest.mark.parametrize("side", ["groundtruths", "predictions"])
def test_a_dataset_has_a_datum_once_on_a_side(side: str) -> None:
    dataset = Dataset("d", [GroundTruth(Datum("x"), [])], [Prediction(Datum("x"), [])])
    getattr(dataset, f"add_{side}")(getattr(dataset, side))
    with pytest.raises(InputError, match=rf"^Dataset.{side} must have each datum once but has 'x' again: one object"):
        evaluate_detection(data=dataset)
