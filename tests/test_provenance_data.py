"""Results name the data that they are of: free of orders, batches and ranks, and other for other data."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testing.lvis_scenes import random_lvis
from tests.checkout import ROOT
from tests.coco.comparison import OURS, evaluator, random_objects, run
from tests.contract import METRICS, Case
from tests.ddp import WORLD, run_ranks
from valor_gpu.classification import AUROC, Accuracy
from valor_gpu.coco import COCO, LVIS, COCOeval, LVISEval, LVISResults
from valor_gpu.detection import MeanAveragePrecision, OpenImagesAveragePrecision
from valor_gpu.inputs.predictions import Columns, read_predictions
from valor_gpu.report.classify import evaluate
from valor_gpu.result import Result

DATA = ROOT / "examples/data"
COUNTS = "the state keeps counts alone"


def hashes(result: Result) -> tuple[Any, Any]:
    found = result.provenance
    return found["ground_truth"], found["predictions"]


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_no_data_have_a_hash_too(case: Case) -> None:
    metric, other = case.make(), case.make()
    other.update(*case.batch(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torchmetrics: compute before update
        found, after = metric.result().provenance, other.result().provenance
    assert found["hashed"] == after["hashed"] and (found["predictions"] is None) == (found["hashed"] is None)
    assert found["predictions"] != after["predictions"] or found["predictions"] is None


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_no_order_of_updates_and_no_merge_changes_a_hash(case: Case) -> None:
    whole, other, parts = case.make(), case.make(), [case.make() for _ in range(2)]
    for batch in (0, 1, 2):
        whole.update(*case.batch(batch))
        other.update(*case.batch((batch + 2) % 3))
        parts[batch % 2].update(*case.batch(batch))
    parts[1].merge_state(parts[0].to_bytes())
    found = whole.result().provenance
    assert other.result().provenance == parts[1].result().provenance == found
    if found["hashed"] is None:
        assert found["reasons"] == {"ground_truth": COUNTS, "predictions": COUNTS}
        return
    assert len(found["predictions"]) == 64 and found["reasons"].keys() <= {"ground_truth"}
    less = case.make()
    less.update(*case.batch(0))
    assert less.result().provenance["predictions"] != found["predictions"]


def test_a_result_keeps_the_data_it_was_made_of() -> None:
    metric, other = AUROC(task="binary"), AUROC(task="binary")
    data = torch.tensor([0.1, 0.7, 0.4]), torch.tensor([0, 1, 1])
    metric.update(*data)
    other.update(*data)
    first = metric.result()
    metric.update(torch.tensor([0.3]), torch.tensor([1]))
    second = metric.result()
    metric.reset()
    assert hashes(first) == hashes(other.result()) != hashes(second)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda result: pickle.loads(pickle.dumps(result))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_and_intervals_keep_it(copied: Any, tmp_path: Path) -> None:
    metric = AUROC(task="binary")
    metric.update(torch.linspace(0, 1, 40), torch.arange(40) % 2)
    result = metric.result()
    assert copied(metric.result()).provenance == result.provenance
    assert result.with_intervals(20).provenance == metric.result(intervals=20).provenance == result.provenance
    result.save(tmp_path / "a.json")
    assert Result.load(tmp_path / "a.json").provenance == result.provenance
    assert result.provenance not in (dict(result.signature), {})


def test_pairs_of_truth_and_prediction_matter() -> None:
    scores = torch.tensor([0.1, 0.7, 0.4, 0.2])
    targets = torch.tensor([0, 1, 1, 0]), torch.tensor([1, 0, 0, 1])
    found = []
    for target in targets:
        metric = AUROC(task="binary")
        metric.update(scores, target)
        found.append(hashes(metric.result()))
    assert found[0][0] == found[1][0] and found[0][1] != found[1][1]


def boxes(rng: np.random.Generator, rows: int) -> torch.Tensor:
    corners = torch.from_numpy(rng.uniform(0, 50, (rows, 4)))
    return torch.cat((corners[:, :2], corners[:, :2] + corners[:, 2:] + 1), 1)


def images(seed: int, ids: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rng = np.random.default_rng(seed)
    preds, target = [], []
    for number in range(6):
        rows, truths = rng.integers(0, 5, 2).tolist()
        labels = [torch.from_numpy(rng.integers(0, 3, n)) for n in (rows, truths)]
        preds.append({"boxes": boxes(rng, rows), "scores": torch.from_numpy(rng.random(rows)), "labels": labels[0]})
        target.append({"boxes": boxes(rng, truths), "labels": labels[1], **({"image_id": number} if ids else {})})
    return preds, target


def mean_ap(preds: Any, target: Any, **choices: Any) -> Result:
    metric = MeanAveragePrecision(**choices)
    metric.update(preds, target)
    return metric.result()


@pytest.mark.parametrize("ids", [False, True])
def test_images_of_detections(ids: bool) -> None:
    preds, target = images(3, ids)
    whole = hashes(mean_ap(preds, target))
    assert hashes(mean_ap(preds[::-1], target[::-1])) == whole
    if ids:  # copies of an image count once
        assert hashes(mean_ap([*preds, *preds[:2]], [*target, *target[:2]])) == whole
    row = next(row for row in range(6) if len(target[row]["labels"]) > 1 and len(preds[row]["labels"]))
    moved = copy.deepcopy(preds)
    moved[row]["scores"][0] += 1e-9
    found = hashes(mean_ap(moved, target))
    assert found[0] == whole[0] and found[1] != whole[1]
    other = copy.deepcopy(target)
    other[row]["boxes"][0, 2] += 1e-9
    found = hashes(mean_ap(preds, other))
    assert found[0] != whole[0] and found[1] != whole[1]
    other = copy.deepcopy(target)
    other[row] = {**other[row], **{name: other[row][name].flip(0) for name in ("boxes", "labels")}}
    assert hashes(mean_ap(preds, other)) == whole


def test_several_geometries_have_hashes_of_all() -> None:
    masks = torch.zeros((1, 1, 8, 8), dtype=torch.bool)
    masks[0, 0, :4] = True
    box, label = torch.tensor([[0.0, 0, 8, 4]]), torch.tensor([0])
    preds = [{"boxes": box, "masks": masks[0], "scores": torch.tensor([0.5]), "labels": label}]
    target = [{"boxes": box, "masks": masks[0], "labels": label}]
    both = mean_ap(preds, target, iou_type=("bbox", "segm"))
    turned = [{**target[0], "masks": masks[0].flip(1)}]
    other = mean_ap(preds, turned, iou_type=("bbox", "segm"))
    assert both.provenance["ground_truth"] != other.provenance["ground_truth"]
    assert both.provenance["hashed"] == "images"


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, []),
        (
            {"max_detection_thresholds": [1, 10, 300]},
            ["max_detection_thresholds is [1, 10, 300] instead of [1, 10, 100]"],
        ),
        (
            {"iou_thresholds": [0.5], "average": "micro", "tie_order": "arrival"},
            [
                "iou_thresholds is [0.5] instead of 0.5-0.95 in 10",
                "average is micro instead of macro",
                "tie_order is arrival instead of image",
            ],
        ),
        ({"iou_type": "keypoints"}, []),
        ({"iou_type": "rotated", "box_format": "cxcywha"}, []),
    ],
)  # fmt: skip
def test_mean_ap_tells_what_is_not_coco(choices: dict[str, Any], expected: list[str]) -> None:
    assert MeanAveragePrecision(**choices).result().provenance["deviations"] == expected


def test_open_images_tells_what_is_not_its_challenge() -> None:
    found = OpenImagesAveragePrecision(group_weight=0, iou_thresholds=(0.5, 0.75)).result().provenance["deviations"]
    assert found == ["iou_thresholds is [0.5, 0.75] instead of [0.5]", "group_weight is 0 instead of 1"]
    assert OpenImagesAveragePrecision().result().provenance["deviations"] == []


def _ranks(rank: int, world: int) -> tuple[Any, Any, Any]:
    preds, target = images(3, True)
    metric, accuracy = MeanAveragePrecision(), Accuracy(num_classes=3)
    metric.update(preds[rank::world], target[rank::world])
    accuracy.update(torch.tensor([rank]), torch.tensor([1]))
    uncached = MeanAveragePrecision(compute_with_cache=False)
    uncached.update(preds[rank::world], target[rank::world])
    return metric.result().provenance, accuracy.result().provenance, uncached.result().provenance


def test_ranks_have_one_hash(tmp_path: Path) -> None:
    preds, target = images(3, True)
    alone = mean_ap(preds, target).provenance
    for found, counted, uncached in run_ranks(_ranks, tmp_path):
        assert found == {**alone, "world_size": WORLD}
        assert counted["world_size"] == WORLD and counted["hashed"] is None
        reason = "compute_with_cache=False keeps no state of all ranks"
        assert uncached["reasons"] == {"ground_truth": reason, "predictions": reason}


# ------------------------------------------------------------------------------------------------------- COCO and LVIS


def coco_result(dataset: Any, results: Any, kind: str = "bbox", change: Any = None, **choices: Any) -> Result:
    truth = COCO(dataset) if isinstance(dataset, (str, Path)) else COCO()
    if not isinstance(dataset, (str, Path)):
        truth.dataset = dataset
        truth.createIndex()
    evaluation = COCOeval(truth, truth.loadRes(results), kind, **choices)
    if change is not None:
        change(evaluation.params)
    evaluation.evaluate()
    evaluation.accumulate()
    return evaluation.result()


def coco_data() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    dataset = json.loads((DATA / "instances_val2014_100.json").read_text())
    return dataset, json.loads((DATA / "instances_val2014_fakebbox100_results.json").read_text())


def test_a_file_and_its_objects_in_any_order_have_one_hash(capsys: pytest.CaptureFixture[str]) -> None:
    dataset, results = coco_data()
    paths = DATA / "instances_val2014_100.json", str(DATA / "instances_val2014_fakebbox100_results.json")
    whole = coco_result(*paths).provenance
    rng = np.random.default_rng(0)
    annotations = dataset["annotations"]
    order = rng.permutation(len(annotations))
    shuffled = {**dataset, "annotations": [annotations[i] for i in order], "images": dataset["images"][::-1]}
    again = coco_result(shuffled, [results[i] for i in rng.permutation(len(results))]).provenance
    assert again == whole and whole["hashed"] == "annotations" and whole["deviations"] == []
    results[7]["score"] += 1e-9
    other = coco_result(dataset, results).provenance
    assert other["ground_truth"] == whole["ground_truth"] and other["predictions"] != whole["predictions"]
    for field, value in (("iscrowd", 1), ("area", 3.0), ("bbox", [1, 2, 3, 4]), ("category_id", 1)):
        changed = copy.deepcopy(dataset)
        assert changed["annotations"][5][field] != value
        changed["annotations"][5][field] = value
        assert coco_result(changed, results).provenance["ground_truth"] != whole["ground_truth"]
    changed = copy.deepcopy(dataset)
    changed["images"].append({"id": 10**7, "height": 4, "width": 4})
    assert coco_result(changed, results).provenance["ground_truth"] != whole["ground_truth"]


@pytest.mark.parametrize("kind", ["segm", "boundary"])
def test_masks_are_hashed(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = json.loads(gzip.decompress((DATA / "instances_val2014_100_masks.json.gz").read_bytes()))
    results = json.loads(gzip.decompress((DATA / "instances_val2014_fakesegm100_results.json.gz").read_bytes()))
    (tmp_path / "gt.json").write_text(json.dumps(dataset, indent=1))
    (tmp_path / "dt.json").write_text(json.dumps(results[::-1]))
    files = coco_result(tmp_path / "gt.json", str(tmp_path / "dt.json"), kind)
    objects = hashes(coco_result(dataset, results, kind))
    assert hashes(files) == objects
    results[3]["segmentation"]["counts"] = results[4]["segmentation"]["counts"]
    results[3]["segmentation"]["size"] = results[4]["segmentation"]["size"]
    changed = hashes(coco_result(dataset, results, kind))
    assert changed[0] == objects[0] and changed[1] != objects[1]


def test_a_file_of_masks_that_changed_since_has_no_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = gzip.decompress((DATA / "instances_val2014_100_masks.json.gz").read_bytes())
    results = json.loads(gzip.decompress((DATA / "instances_val2014_fakesegm100_results.json.gz").read_bytes()))
    (tmp_path / "gt.json").write_bytes(content)
    result = coco_result(tmp_path / "gt.json", results, "segm")
    (tmp_path / "gt.json").write_bytes(content + b" ")
    found = result.provenance
    assert hashes(result) == (None, None) and found["hashed"] is None
    assert "must stay as it is while it is read but has changed" in found["reasons"]["ground_truth"]


def test_what_is_not_the_protocol_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    dataset, results = coco_data()

    def change(p: Any) -> None:
        p.iouThrs, p.recThrs, p.maxDets, p.useCats = np.array([0.3, 0.77]), np.linspace(0, 1, 11), [1, 10, 300], 0
        p.areaRng, p.areaRngLbl, p.imgIds = [[0, 1e10], [3, 44.5]], ["all", "mine"], p.imgIds[:50]
        p.catIds = p.catIds[:-1]

    result = coco_result(dataset, results, "bbox", change, convention="corrected")
    usual = "['all 0-1e+10', 'small 0-1024', 'medium 1024-9216', 'large 9216-1e+10']"
    assert result.provenance["deviations"] == [
        "iouThrs is [0.3, 0.77] instead of 0.5-0.95 in 10",
        "recThrs is 0-1 in 11 instead of 0-1 in 101",
        "maxDets is [1, 10, 300] instead of [1, 10, 100]",
        f"areaRng is ['all 0-1e+10', 'mine 3-44.5'] instead of {usual}",
        "useCats is 0 instead of 1",
        "convention is corrected instead of strict",
        "imgIds has 50 instead of all 100",
        "catIds has 79 instead of all 80",
    ]


@pytest.mark.parametrize("kind", ["keypoints", "keypoints_crowd", "rotated"])
def test_other_protocols_have_their_own_defaults(kind: str) -> None:
    from valor_gpu.coco.data_hashes import coco_deviations
    from valor_gpu.coco.params import Params

    params = Params(kind)
    assert coco_deviations(params, "strict", (0, 0)) == []
    if kind == "keypoints":
        params.kpt_oks_sigmas = [0.1, 0.2]
        assert coco_deviations(params, "strict", (0, 0))[0].startswith("kpt_oks_sigmas is [0.1, 0.2] instead of [0.026")
    if kind == "keypoints_crowd":
        params.use_area = True
        assert coco_deviations(params, "strict", (0, 0)) == ["use_area is True instead of False"]


def test_the_result_keeps_its_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    made = run(evaluator(OURS, random_objects(3))).e
    first = made.result()
    before = first.provenance
    second = made.result()
    made.params.maxDets = [5]
    made.evaluate()
    assert second.provenance == before


def test_lvis_has_its_lists(tmp_path: Path) -> None:
    dataset, detections = random_lvis(1)

    def result(given: Any, found: Any, limit: int = 300) -> Result:
        (tmp_path / "gt.json").write_text(json.dumps(given))
        truth = LVIS(tmp_path / "gt.json")
        evaluation = LVISEval(truth, LVISResults(truth, found, limit))
        evaluation.run()
        return evaluation.result()

    whole = result(dataset, detections)
    assert whole.provenance["deviations"] == [] and whole.provenance["hashed"] == "annotations"
    assert hashes(result({**dataset, "images": dataset["images"][::-1]}, detections[::-1]))[0] == hashes(whole)[0]
    changed = copy.deepcopy(dataset)
    category = changed["categories"][0]["id"]
    image = next(i for i in changed["images"] if category not in i["not_exhaustive_category_ids"])
    image["not_exhaustive_category_ids"].append(category)
    assert hashes(result(changed, detections))[0] != hashes(whole)[0]
    assert result(dataset, detections, 2).provenance["deviations"] == ["max_dets is 2 instead of 300"]


# ------------------------------------------------------------------------------------------------------------ commands


def test_rows_of_a_table_in_any_order(tmp_path: Path) -> None:
    lines = (DATA / "digits_predictions.csv").read_text().splitlines()

    def found(rows: list[str]) -> tuple[Any, Any]:
        (tmp_path / "a.csv").write_text("\n".join([lines[0], *rows]) + "\n")
        predictions = read_predictions(tmp_path / "a.csv", Columns("digit", (), "p_"))
        return hashes(evaluate(predictions, "macro", None, "cpu").result)

    whole = found(lines[1:])
    assert found(lines[:0:-1]) == whole
    fewer = found(lines[1:-1])
    assert fewer[0] != whole[0] and fewer[1] != whole[1]
