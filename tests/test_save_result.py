"""Results of detection, segmentation and classification, kept as runs of a store."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from valor_gpu.valor.evaluation import Evaluation, EvaluationParameters

from valor_gpu.coco import COCO, COCOeval
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.results.comparison import compare_runs
from valor_gpu.result import Result, Signature
from valor_gpu.stats import Interval, Intervals
from valor_gpu.store import Store
from valor_gpu.store.result_runs import MOST_CURVES, run_of_document
from valor_gpu.store.runs import Run

NAMES = ("cat", "dog")


def box(image: int, category: int, x: float, **more: Any) -> dict[str, Any]:
    return {"image_id": image, "category_id": category, "bbox": [x, 0, 10, 10], "area": 100, "iscrowd": 0, **more}


TRUTHS = [box(1, 1, 0), box(1, 2, 50), box(2, 1, 0), box(3, 1, 0), box(3, 2, 50), box(3, 2, 80, iscrowd=1)]
DETECTIONS = [
    box(1, 1, 0, score=0.9),
    box(1, 1, 50, score=0.8),  # on a dog: a confusion
    box(1, 2, 90, score=0.7),  # on nothing
    box(3, 1, 0, score=0.9),
    box(3, 2, 50, score=0.1),  # below the threshold of scores
    box(3, 2, 80, score=0.6),  # on the crowd: of no account
]


def dataset() -> dict[str, Any]:
    return {
        "images": [{"id": n, "file_name": f"i{n}.png", "width": 100, "height": 20} for n in (1, 2, 3, 4)],
        "annotations": [{"id": n, **truth} for n, truth in enumerate(TRUTHS, 1)],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }


def evaluation(**more: Any) -> COCOeval:
    truth = COCO()
    truth.dataset = dataset()
    truth.createIndex()
    found = COCOeval(truth, truth.loadRes([dict(each) for each in DETECTIONS]), "bbox", **more)
    found.evaluate()
    found.accumulate()
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.sqlite")


def scores_of(run: Run, name: str) -> dict[int, float | None]:
    return {each.row: each.value for each in run.scores() if each.evaluator == name}


@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_images_of_a_coco_evaluation(store: Store, convention: str) -> None:
    run = store.save(evaluation(convention=convention), "cats", tags={"model": "m"})
    rows = run.rows()
    assert [row.key for row in rows] == ["1", "2", "3", "4"] and rows[0].inputs["image"] == "i1.png"
    assert [[row.outputs[name] for name in ("found", "wrong", "missed")] for row in rows] == [
        [1, 2, 1],
        [0, 0, 1],
        [1, 0, 1],
        [0, 0, 0],
    ]
    assert scores_of(run, "image_f1") == {1: 2 / 5, 2: 0.0, 3: 2 / 3}, "an image without objects has no F1"
    assert scores_of(run, "image_precision") == {1: 1 / 3, 3: 1.0}
    assert scores_of(run, "image_recall") == {1: 0.5, 2: 0.0, 3: 0.5}
    shapes = next(each.details for each in run.scores(first=1, last=1) if each.evaluator == "image_f1") or {}
    kinds = sorted((each["of"], each["name"], each["right"]) for each in shapes["shapes"])
    assert kinds == [
        ("prediction", "cat", False),
        ("prediction", "cat", True),
        ("prediction", "dog", False),
        ("truth", "cat", True),
        ("truth", "dog", False),
    ]


def test_confusions_cross_classes(store: Store) -> None:
    matrix = (store.save(evaluation(), "cats").finished_summary or {})["matrix"]
    assert matrix["names"][:2] == ["cat", "dog"] and matrix["background"] == [2]
    # cat as cat twice; a dog as cat; a dog on nothing; a cat and a dog missed
    assert sorted(matrix["counts"]) == [[0, 0, 2], [0, 2, 1], [1, 0, 1], [1, 2, 1], [2, 1, 1]]


def test_thresholds_of_images(store: Store) -> None:
    run = store.save(evaluation(), "cats", score_threshold=0.0)
    assert scores_of(run, "image_f1")[3] == 1.0
    assert run.config["settings"] == {"IoU threshold": 0.5, "score threshold": 0.0}
    with pytest.raises(InputError, match="iou_threshold must be"):
        store.save(evaluation(), "cats", iou_threshold=2.0)


def test_numbers_are_those_of_the_result(store: Store) -> None:
    found = evaluation()
    summary = store.save(found, "cats", data={"source": "val.json", "hash": "h"}).finished_summary or {}
    result = found.result()
    assert summary["metrics"]["map"] == result.values["map"] and summary["metrics"]["map_small"] == result.values["map"]
    assert summary["metrics"]["map_large"] is None and "no ground truth" in summary["reasons"]["map_large"]
    assert summary["classes"]["map"] == dict(result.values["map_per_class"])
    assert [each["name"] for each in summary["curves"]] == ["cat", "dog"]
    assert [line["name"] for line in summary["curves"][0]["lines"]] == ["IoU 0.50", "IoU 0.75"]
    precision = np.asarray(found.eval["precision"])[0, :, 0, 0, -1]
    points = dict(map(tuple, summary["curves"][0]["lines"][0]["points"]))
    assert all(
        points[round(r, 3)] == round(p, 3) for r, p in zip(found.params.recThrs, precision) if round(r, 3) in points
    )
    assert store.runs()[0].dataset == "h" and summary["rows"]["n"] == 4


def test_two_saved_runs_compare(store: Store) -> None:
    first, second = store.save(evaluation(), "a"), store.save(evaluation(), "b", score_threshold=0.0)
    found = compare_runs(second, first)
    assert found.n == 4 and found.metrics["image_f1"].n == 3 and (found.metrics["image_f1"].difference or 0) > 0
    assert {each["name"] for each in found.differences} == {"settings.score threshold"}


def test_a_bare_result(store: Store) -> None:
    run = store.save(evaluation().result(), "numbers alone")
    summary = run.finished_summary or {}
    assert run.state == "finished" and run.config["kind"] == "detection" and not run.rows()
    assert summary["curves"][0]["name"] == "mean of all classes" and summary["rows"]["n"] == 4


def with_intervals() -> Result:
    values = {
        "map": 0.5,
        "map_small": 0.25,
        "worst": 12.0,
        "map_per_class": {"0": 0.5, "1": 0.75},
        "images_per_class": {"0": 3, "1": 2},
    }
    found = {
        "map": Interval(0.4, 0.6, 0.05, 0.01),
        "map_small": Interval(reason="too few images"),
        "worst": Interval(10.0, 14.0, 1.0, 0.0),
        "map_per_class/0": Interval(-0.125, 0.875, 0.1, 0.0),
        "map_per_class/1": Interval(reason="too few images"),
    }
    choices = {
        "replicates": 1000, "confidence": 0.9, "seed": 0, "target": "expected", "method": "normal", "unit": "images",
        "units": 40,
    }  # fmt: skip
    return Result(values, Signature({"metric": "mAP"}), {"images": 40}, intervals=Intervals(found, choices))


def test_a_run_keeps_the_intervals_of_a_result(store: Store) -> None:
    result = with_intervals()
    summary = store.save(result, "with intervals", names=NAMES).finished_summary
    assert summary is not None
    assert summary["intervals"] == {"map": [0.4, 0.6], "worst": [10.0, 14.0]}
    assert summary["class_intervals"] == {"map": {"cat": [-0.125, 0.875]}}
    assert summary["interval_reasons"] == {"map_small": "too few images"}
    assert summary["interval_choices"] == result.intervals.choices
    bare = store.save(Result({"map": 0.5}, Signature({"metric": "mAP"})), "without").finished_summary
    assert bare is not None and bare["intervals"] == {} and not bare.keys() & {"class_intervals", "interval_choices"}


def test_an_evaluation_is_saved_with_the_intervals_of_its_result(store: Store) -> None:
    evaluated = evaluation()
    plain = evaluated.result()
    found = Intervals({"map": Interval(0.25, 0.5, 0.1, 0.0)}, {"replicates": 100, "unit": "images", "units": 4})
    result = Result(plain.values, plain.signature, plain.counts, plain.reasons, intervals=found)
    summary = store.save(evaluated, "cats", numbers=result).finished_summary
    assert summary is not None and summary["intervals"] == {"map": [0.25, 0.5]} and summary["rows"]["n"] == 4


def test_classification_by_numbers_and_names() -> None:
    values = {"Accuracy": 0.5, "per_class": [0.5, None], "tp": [1, 0], "confusion_matrix": [[1, 1], [0, 0]]}
    document = {
        "values": values,
        "signature": {"metric": "Accuracy", "task": "multiclass"},
        "counts": {},
        "reasons": {},
    }
    found = run_of_document(document, names=NAMES)
    assert found.kind == "classification" and found.metrics == {"Accuracy": 0.5}
    assert found.classes == {"per_class": {"cat": 0.5, "dog": None}, "tp": {"cat": 1, "dog": 0}}
    assert found.matrix is not None and found.matrix["counts"] == [[0, 0, 1], [0, 1, 1]]


def test_a_result_of_many_curves_says_of_how_many(store: Store) -> None:
    points = {f"c{n}": np.array([1.0, 0.5]) for n in range(MOST_CURVES + 1)}
    result = Result(
        {"precision": points, "recall": points}, Signature({"metric": "PrecisionRecallCurve", "task": "multiclass"})
    )
    run = store.save(result, "many")
    assert len((run.finished_summary or {})["curves"]) == MOST_CURVES
    assert run.config["notes"] == ["Curves are kept of the first 60 classes, of 61."]


def test_a_segmentation_result(store: Store) -> None:
    values = {"miou": math.nan, "iou_per_class": {"road": 0.5, "sky": math.nan}}
    result = Result(values, Signature({"metric": "segment"}), {"images": 2}, {"miou": "no pixel counts"})
    summary = store.save(result, "streets").finished_summary or {}
    assert summary["metrics"] == {"miou": None} and summary["classes"]["iou"] == {"road": 0.5, "sky": None}
    json.dumps(summary, allow_nan=False)


def test_kind_must_be_known(store: Store) -> None:
    result = Result({"x": 1.0}, Signature({"metric": "Own"}))
    with pytest.raises(InputError, match="kind must be given, one of detection"):
        store.save(result, "own")
    assert store.save(result, "own", kind="segmentation").config["kind"] == "segmentation"
    with pytest.raises(InputError, match="kind must be"):
        store.save(result, "own", kind="poetry")


def test_what_cannot_be_saved_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputTypeError, match="result must have a method to_run"):
        store.save({"map": 1.0}, "dict")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"images must be a folder but .* does not exist"):
        store.save(evaluation(), "cats", images=tmp_path / "nowhere")
    unfinished = COCOeval(COCO(), COCO(), "bbox")
    with pytest.raises(InputError, match="result needs evaluate"):
        store.save(unfinished, "unfinished")
    assert not store.runs()


def test_a_failure_midway_leaves_no_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "add_scores", lambda self, scores: 1 / 0)
    with pytest.raises(ZeroDivisionError, match="division"):
        store.save(evaluation(), "cats")
    assert not store.runs()


def test_curves_of_many_classes_are_bounded(store: Store) -> None:
    found = evaluation()
    found.cocoGt.dataset["categories"] += [{"id": n, "name": f"c{n}"} for n in range(3, 90)]
    truth = COCO()
    truth.dataset = found.cocoGt.dataset
    truth.dataset["annotations"] += [{"id": 100 + n, **box(4, n, 0)} for n in range(3, 90)]
    truth.createIndex()
    many = COCOeval(truth, truth.loadRes([dict(each) for each in DETECTIONS]), "bbox")
    many.evaluate()
    many.accumulate()
    run = store.save(many, "many")
    assert len((run.finished_summary or {})["curves"]) == MOST_CURVES
    assert run.config["notes"] == [f"Curves are kept of the {MOST_CURVES} classes with most ground truths, of 89."]


def test_saving_an_evaluation_loads_no_torch(tmp_path: Path) -> None:
    code = f"""
import sys
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.stats import Interval, Intervals
from valor_gpu.store import Store
truth = COCO()
truth.dataset = {dataset()!r}
truth.createIndex()
found = COCOeval(truth, truth.loadRes({DETECTIONS!r}), "bbox")
found.evaluate()
found.accumulate()
assert Store({str(tmp_path / "s.sqlite")!r}).save(found, "x").state == "finished"
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def valor_evaluation(*metrics: dict[str, Any], **more: Any) -> Evaluation:
    return Evaluation(EvaluationParameters(), list(metrics), **more)


def test_an_evaluation_by_valors_rules(store: Store) -> None:
    label = {"key": "k", "value": "cat"}
    found = valor_evaluation(
        {"type": "AP", "label": label, "parameters": {"iou": 0.5}, "value": 0.25},
        {"type": "mAP", "parameters": {"label_key": "k", "iou": 0.5}, "value": 0.5},
        {"type": "mAR", "parameters": {"label_key": "k", "ious": [0.5, 0.75]}, "value": -1},
        {"type": "PrecisionRecallCurve", "parameters": {"label_key": "k"}, "value": {}},
        meta={"datums": 3, "labels": 1, "annotations": 6, "duration": 0.5},
    )
    run = store.save(found, "valor")
    summary = run.finished_summary or {}
    assert run.config["kind"] == "detection" and run.config["notes"] == ["1 curves of the evaluation are not kept."]
    assert summary["metrics"] == {"mAP IoU 0.5": 0.5, "mAR IoU 0.5 to 0.75": None}
    assert summary["classes"] == {"AP IoU 0.5": {"cat": 0.25}} and summary["rows"]["n"] == 3


def test_valors_confusions_of_two_keys(store: Store) -> None:
    matrices = [
        {"label_key": key, "entries": [{"groundtruth": "a", "prediction": "b", "count": n}]}
        for key, n in (("k", 2), ("l", 3))
    ]
    metric = {"type": "Accuracy", "parameters": {"label_key": "k"}, "value": 0.5}
    run = store.save(valor_evaluation(metric, confusion_matrices=matrices), "valor")
    summary = run.finished_summary or {}
    assert run.config["kind"] == "classification" and summary["metrics"] == {"Accuracy k": 0.5}
    assert summary["matrix"]["names"] == ["k: a", "k: b", "l: a", "l: b"]
    assert summary["matrix"]["counts"] == [[0, 1, 2], [2, 3, 3]]
    with pytest.raises(
        InputError, match="kind must be given, one of detection, segmentation, classification, for metrics BLEU"
    ):
        store.save(valor_evaluation({"type": "BLEU", "value": 0.5}), "texts")
