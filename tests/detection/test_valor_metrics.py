"""Valor's detection metrics against the rules in plain Python, scikit-learn, and changes that change nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from tests.detection import overlap_reference as reference
from valor_gpu import detection
from valor_gpu.detection import (
    AP,
    AR,
    APAveragedOverIOUs,
    DetectionConfusionMatrix,
    DetectionCounts,
    DetectionDetailedPrecisionRecallCurve,
    DetectionExamples,
    DetectionF1,
    DetectionPrecision,
    DetectionPrecisionRecallCurve,
    DetectionRecall,
    mAP,
    mAPAveragedOverIOUs,
    mAR,
)
from valor_gpu.errors import InputError

ROOT = Path(__file__).parent.parent.parent
VALOR: Any = detection  # for arguments that no type checker would take
IOUS, SCORES = [0.2, 0.5, 0.75, 1.0], [0.0, 0.25, 0.5, 0.8]
Batch = tuple[list[dict[str, Any]], list[dict[str, Any]]]

FAMILY = (
    AP, APAveragedOverIOUs, mAP, mAPAveragedOverIOUs, AR, mAR, DetectionCounts, DetectionPrecision, DetectionRecall,
    DetectionF1, DetectionPrecisionRecallCurve, DetectionDetailedPrecisionRecallCurve, DetectionConfusionMatrix,
    DetectionExamples,
)  # fmt: skip


def random_images(seed: int, images: int = 12, labels: int = 3) -> Batch:
    """Boxes on a small grid, so that IoUs and scores tie, duplicates and confusions abound; some images are empty."""
    rng = np.random.default_rng(seed)
    preds, target = [], []
    for _ in range(images):
        sizes = [int(rng.integers(0, 6)) * int(rng.random() > 0.15) for _ in range(2)]
        sides = []
        for size in sizes:
            corner = rng.integers(0, 5, (size, 2)) * 5.0
            boxes = np.concatenate([corner, corner + rng.integers(1, 4, (size, 2)) * 5.0], 1)
            sides.append(dict(boxes=torch.tensor(boxes), labels=torch.tensor(rng.integers(0, labels, size))))
        scores = rng.integers(0, 5, sizes[0]) / 4
        preds.append({**sides[0], "scores": torch.tensor(scores)})
        # ground truths of a label that nothing predicts, predictions of one without ground truth
        target.append({**sides[1], "labels": torch.where(sides[1]["labels"] == 0, 7, sides[1]["labels"])})
    return preds, target


def updated(metric: Any, batch: Batch) -> Any:
    metric.update(*batch)
    return metric


@pytest.fixture(scope="module", params=range(4))
def scene(request: pytest.FixtureRequest) -> tuple[Batch, list[reference.Datum], list[int]]:
    batch = random_images(request.param)
    datums = reference.datums_of(*batch)
    return batch, datums, reference.labels_of(datums)


def test_average_precision(scene: tuple[Batch, list[reference.Datum], list[int]]) -> None:
    batch, datums, labels = scene
    want = np.array([[reference.average_precision(datums, label, t) for t in IOUS] for label in labels])
    found = updated(AP(iou_thresholds=IOUS), batch).compute()
    assert found["classes"].tolist() == labels
    assert list(found) == ["ap_20", "ap_50", "ap_75", "ap_100", "classes"]
    np.testing.assert_allclose(np.stack([found[name] for name in list(found)[:-1]], 1), want, rtol=0, atol=1e-12)
    averaged = updated(APAveragedOverIOUs(iou_thresholds=IOUS), batch).compute()
    np.testing.assert_allclose(averaged["ap"], want.mean(1), rtol=0, atol=1e-12)
    means = np.nanmean(want, axis=0)
    np.testing.assert_allclose(list(updated(mAP(iou_thresholds=IOUS), batch).compute().values()), means, atol=1e-12)
    mean = updated(mAPAveragedOverIOUs(iou_thresholds=IOUS), batch).compute()["map"]
    assert float(mean) == pytest.approx(means.mean(), abs=1e-12)
    everything = mAP(iou_thresholds=IOUS, include_prediction_only_labels=True)
    want_all = np.nan_to_num(want).mean(axis=0)
    np.testing.assert_allclose(list(updated(everything, batch).compute().values()), want_all, atol=1e-12)


def test_average_recall(scene: tuple[Batch, list[reference.Datum], list[int]]) -> None:
    batch, datums, labels = scene

    def recall(label: int, scores: Sequence[float]) -> float:
        counts = [reference.count(datums, label, t, s) for t in IOUS for s in scores]
        return math.nan if not counts[0][0] + counts[0][2] else float(np.mean([c[0] / (c[0] + c[2]) for c in counts]))

    for choices, scores in (
        ({}, [0.0]), ({"recall_score_threshold": 0.5}, [0.5]), ({"score_thresholds": SCORES}, SCORES),
    ):  # fmt: skip
        want = np.array([recall(label, scores) for label in labels])
        found = updated(AR(iou_thresholds=IOUS, **choices), batch).compute()
        np.testing.assert_allclose(found["ar"], want, rtol=0, atol=1e-12)
        mean = updated(mAR(iou_thresholds=IOUS, **choices), batch).compute()["mar"]
        assert float(mean) == pytest.approx(np.nanmean(want), abs=1e-12)
        strict = mAR(iou_thresholds=IOUS, include_prediction_only_labels=True, **choices)
        assert float(updated(strict, batch).compute()["mar"]) == pytest.approx(np.nan_to_num(want).mean(), abs=1e-12)


def test_counts_and_ratios(scene: tuple[Batch, list[reference.Datum], list[int]]) -> None:
    batch, datums, labels = scene
    want = np.array([[[reference.count(datums, k, t, s) for s in SCORES] for t in IOUS] for k in labels])
    tp, fp, fn = want.transpose(3, 0, 1, 2)
    grid: dict[str, Any] = dict(iou_thresholds=IOUS, score_thresholds=SCORES)
    counts = updated(DetectionCounts(**grid), batch).compute()
    for name, values in (("tp", tp), ("fp", fp), ("fn", fn)):
        np.testing.assert_array_equal(counts[name], values)
    assert counts["ground_truths"].tolist() == [reference.num_ground_truths(datums, label) for label in labels]
    with np.errstate(invalid="ignore"):
        for metric, name, values in (
            (DetectionPrecision, "precision", tp / (tp + fp)), (DetectionRecall, "recall", tp / (tp + fn)),
            (DetectionF1, "f1", 2 * tp / (2 * tp + fp + fn)),
        ):  # fmt: skip
            np.testing.assert_array_equal(updated(metric(**grid), batch).compute()[name], values)


def test_curve_of_scores(scene: tuple[Batch, list[reference.Datum], list[int]]) -> None:
    batch, datums, labels = scene
    want = np.array([[reference.count(datums, k, 0.5, s / 100) for s in range(5, 100, 5)] for k in labels])
    tp, fp, fn = want.transpose(2, 0, 1)
    metric = updated(DetectionPrecisionRecallCurve(), batch)
    found, result = metric.compute(), metric.result()
    for name, values in (("tp", tp), ("fp", fp), ("fn", fn)):
        np.testing.assert_array_equal(found[name], values)
    with np.errstate(invalid="ignore"):
        ratios = {
            "precision": tp / (tp + fp), "recall": tp / (tp + fn),
            "f1_score": np.where(tp > 0, 2 * tp / (2 * tp + fp + fn), np.nan),
        }  # fmt: skip
    for name, values in ratios.items():
        np.testing.assert_array_equal(found[name], np.nan_to_num(values, nan=-1.0))
        np.testing.assert_array_equal(result.values[name], values)
        assert result.reason(name) == ("0 is divided by 0 for these labels and thresholds")
    zero = updated(DetectionPrecisionRecallCurve(zero_division=0), batch).compute()
    np.testing.assert_array_equal(zero["precision"], np.nan_to_num(ratios["precision"]))


@pytest.mark.parametrize("duplicates", [False, True])
def test_kinds_of_errors_and_their_examples(
    scene: tuple[Batch, list[reference.Datum], list[int]], duplicates: bool
) -> None:
    batch, datums, labels = scene
    preds, target = batch
    named = [dict(item, image_id=100 - place) for place, item in enumerate(target)]
    choices: dict[str, Any] = dict(duplicates=duplicates, max_examples=2, score_thresholds=SCORES)
    for threshold in (0.2, 0.5):
        metric = DetectionDetailedPrecisionRecallCurve(iou_threshold=threshold, **choices)
        found = updated(metric, (preds, named)).compute()
        assert ("fp/duplicates" in found) == ("fp/duplicates/examples" in found) == duplicates
        for place, label in enumerate(labels):
            for level, score in enumerate(SCORES):
                kinds = reference.outcomes(datums, label, threshold, score)
                if not duplicates:
                    again = kinds.pop("fp/duplicates")
                    kinds["fp/hallucinations"] = sorted(kinds["fp/hallucinations"] + again)
                for kind, rows in kinds.items():
                    assert found[kind][place, level] == len(rows), (label, score, kind)
                    shown = [[100 - image, row] for image, row in rows[:2]] + [[-1, -1]] * (2 - len(rows))
                    assert found[f"{kind}/examples"][place, level].tolist() == shown


def test_confusion_matrix_and_examples(scene: tuple[Batch, list[reference.Datum], list[int]]) -> None:
    batch, datums, labels = scene
    grid: dict[str, Any] = dict(iou_thresholds=IOUS, score_thresholds=SCORES[::-1])
    found = updated(DetectionConfusionMatrix(**grid), batch).compute()
    listed = updated(DetectionExamples(**grid), batch)
    pages = [entry for offset in range(0, len(datums), 5) for entry in listed.page(5, offset)]
    tables = listed.compute()
    for place, threshold in enumerate(IOUS):
        for level, score in enumerate(grid["score_thresholds"]):
            want = reference.confusion(datums, threshold, score)
            matrix = np.zeros((len(labels), len(labels)), dtype=int)
            same: list[tuple[int, int, int]] = []
            other: list[tuple[int, int, int]] = []
            for image, gt, row in want["pairs"]:
                names = datums[image].gt_labels[gt], datums[image].detections[row].label
                matrix[labels.index(names[0]), labels.index(names[1])] += 1
                (same if names[0] == names[1] else other).append((image, gt, row))
            np.testing.assert_array_equal(found["confusion_matrix"][place, level], matrix)
            for name, key in (("unmatched_predictions", "hallucinated"), ("unmatched_ground_truths", "missed")):
                left = [
                    datums[image].detections[row].label if row >= 0 else datums[image].gt_labels[gt]
                    for image, gt, row in want[key]
                ]
                assert found[name][place, level].tolist() == [left.count(label) for label in labels]
            lists = dict(true_positives=same, misclassifications=other, hallucinations=want["hallucinated"],
                         missed=want["missed"])  # fmt: skip
            shown = [e for e in pages if (e["iou_threshold"], e["score_threshold"]) == (threshold, score)]
            for kind, rows in lists.items():
                table = tables[kind]
                table = table[(table[:, 0] == place) & (table[:, 1] == level)][:, 2:]
                assert sorted(map(tuple, table.tolist())) == sorted(rows)
                paged = [(e["image"], row) for e in shown for row in e[kind]]
                assert sorted(paged) == sorted(
                    (image, (gt, row) if gt >= 0 and row >= 0 else max(gt, row)) for image, gt, row in rows
                )


def test_precision_recall_and_f1_of_one_box_an_image_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(3)
    true, said = rng.integers(0, 4, (2, 200))
    box = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    preds = [dict(boxes=box, scores=torch.tensor([0.9]), labels=torch.tensor([k])) for k in said]
    target = [dict(boxes=box, labels=torch.tensor([k])) for k in true]
    want = metrics.precision_recall_fscore_support(true, said)
    for metric, numbers in zip((DetectionPrecision, DetectionRecall, DetectionF1), want):
        found = updated(metric(), (preds, target)).compute()
        np.testing.assert_allclose(next(iter(found.values()))[:, 0, 0], numbers, rtol=1e-15)
    matrix = updated(DetectionConfusionMatrix(), (preds, target)).compute()["confusion_matrix"]
    np.testing.assert_array_equal(matrix[0, 0], metrics.confusion_matrix(true, said))


def test_the_document_s_example_of_average_precision() -> None:
    """Recalls and precisions by hand: hits at ranks 1, 3 and 4 of 5 detections, 4 objects."""
    far = [[100.0 * n, 0.0, 100.0 * n + 10, 10.0] for n in range(9)]
    preds = [dict(boxes=torch.tensor([far[0], far[5], far[1], far[2], far[6]]), labels=torch.ones(5).long(),
                  scores=torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]))]  # fmt: skip
    target = [dict(boxes=torch.tensor(far[:4]), labels=torch.ones(4).long())]
    want = (26 * 1.0 + 50 * 0.75) / 101  # recalls 0 to 0.25, and to 0.75
    assert float(updated(AP(), (preds, target)).compute()["ap_50"]) == pytest.approx(want, abs=1e-15)


# ---------------------------------------------------------------------------------------- what must change nothing


def one_of_each() -> MetricCollection:
    return MetricCollection({kind.__name__: kind() for kind in FAMILY if kind is not DetectionExamples})


def numbers(collection: MetricCollection) -> dict[str, Any]:
    """Everything but examples, as lists: NaN as None."""
    found = {name: metric.compute() for name, metric in collection.items()}
    return {
        f"{name}/{key}": [None if n != n else n for n in value.reshape(-1).tolist()]
        for name, values in found.items()
        for key, value in values.items()
        if not key.endswith("/examples")
    }


@pytest.mark.parametrize("seed", range(5))
def test_order_and_batches_of_images_change_nothing(seed: int) -> None:
    preds, target = random_images(seed)
    whole, parts = one_of_each(), one_of_each()
    whole.update(preds, target)
    order = np.random.default_rng(seed).permutation(len(preds))
    for rows in np.array_split(order, 4):
        parts.update([preds[row] for row in rows], [target[row] for row in rows])
    assert numbers(parts) == numbers(whole)


@pytest.mark.parametrize("seed", range(5))
def test_new_numbers_of_labels_change_nothing_but_their_order(seed: int) -> None:
    preds, target = random_images(seed)
    renamed = {0: 50, 1: -3, 2: 4, 7: 2**40}
    sides: Any = [[dict(item, labels=item["labels"].clone().apply_(renamed.__getitem__)) for item in side]
             for side in (preds, target)]  # fmt: skip
    first, second = (updated(AP(iou_thresholds=IOUS), batch).result() for batch in ((preds, target), sides))
    for name in ("ap_20", "ap_50", "ap_75", "ap_100"):
        want = {str(renamed[int(label)]): number for label, number in first.values[name].items()}
        assert dict(second.values[name]) == pytest.approx(want, nan_ok=True, abs=0)
    counts, again = (updated(DetectionCounts(), batch).compute() for batch in ((preds, target), sides))
    places = [again["classes"].tolist().index(renamed[label]) for label in counts["classes"].tolist()]
    assert torch.equal(again["tp"][places], counts["tp"])
    assert torch.equal(again["fp"][places], counts["fp"])


@pytest.mark.parametrize("seed", range(5))
def test_a_data_set_split_over_metrics_and_merged_is_the_data_set(seed: int) -> None:
    preds, target = random_images(seed)
    for kind in FAMILY:
        whole, left, right = kind(), kind(), kind()
        whole.update(preds, target)
        left.update(preds[:5], target[:5])
        right.update(preds[5:], target[5:])
        left.merge_state(right.to_bytes())
        want, found = whole.compute(), left.compute()
        assert list(found) == list(want)
        for name, value in want.items():
            assert torch.equal(found[name].nan_to_num(nan=-2), value.nan_to_num(nan=-2)), (kind, name)


def test_more_detections_of_no_score_never_raise_a_number() -> None:
    preds, target = random_images(1)
    more = [
        dict(item, boxes=torch.cat((item["boxes"], true["boxes"])), labels=torch.cat((item["labels"], true["labels"])),
             scores=torch.cat((item["scores"], torch.zeros(len(true["labels"])))))
        for item, true in zip(preds, target)
    ]  # fmt: skip
    before, after = (updated(DetectionCounts(score_thresholds=[0.0]), (p, target)).compute() for p in (preds, more))
    assert torch.equal(before["tp"], after["tp"])
    assert int(after["fp"].sum() - before["fp"].sum()) == 2 * sum(len(item["labels"]) for item in target)
    for metric in (mAP, mAR):
        values = [list(updated(metric(), (p, target)).compute().values()) for p in (preds, more)]
        assert all(b <= a for a, b in zip(*values))


# ------------------------------------------------------------------------------------------- collections and results


def counting(real: Callable[..., None], calls: list[int]) -> Callable[..., None]:
    """``real``, which leaves a trace of each call."""

    def called(*args: Any) -> None:
        calls.append(1)
        real(*args)

    return called


def test_a_collection_updates_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    collection, (preds, target) = MetricCollection({kind.__name__: kind() for kind in FAMILY}), random_images(2)
    collection.update(preds[:2], target[:2])  # torchmetrics finds out which metrics share a state
    groups = collection.compute_groups
    assert len(groups) == 1
    calls: list[int] = []
    for metric in collection.values():
        real = metric.update
        monkeypatch.setattr(metric, "update", counting(real, calls))
    collection.update(preds[2:], target[2:])
    assert len(calls) == 1
    for name, metric in collection.items():
        alone = updated(type(metric)(), (preds, target)).compute()
        assert all(torch.equal(v.nan_to_num(), alone[k].nan_to_num()) for k, v in metric.compute().items()), name


def test_results_say_how_much_there_was_and_why_a_number_is_missing() -> None:
    box = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    preds = [dict(boxes=box.repeat(2, 1), scores=torch.tensor([0.9, 0.0]), labels=torch.tensor([3, 1]))]
    target = [dict(boxes=box, labels=torch.tensor([1]))]
    result = updated(AP(), (preds, target)).result()
    assert dict(result.counts) == {
        "images": 1, "repeated_images": 0, "ground_truths": 1, "detections": 2, "detections_of_no_score": 1,
        "overlapping_pairs": 2,
    }  # fmt: skip
    assert result.values["ap_50"] == pytest.approx({"1": 0.0, "3": math.nan}, nan_ok=True)
    assert result.reason("ap_50/3") == "the label has no ground truth"
    assert result.reason("ap_50/1") is None
    assert "matching:valor" in str(result.signature)
    assert math.isnan(mAP().result().values["map_50"])
    for kind in FAMILY:
        counted = updated(kind(), (preds, target)).result()
        assert counted.signature["metric"] == kind.__name__
        assert counted.counts["ground_truths"] == 1


def test_no_data_gives_nan_with_a_reason_and_no_labels() -> None:
    for kind in (mAP, mAPAveragedOverIOUs, mAR):
        result = updated(kind(), ([], [])).result()
        scalars = result.scalars()
        assert scalars and all(math.isnan(value) for value in scalars.values())
        assert all(result.reason(name) == "there is no ground truth" for name in scalars)
    assert updated(DetectionConfusionMatrix(), ([], [])).compute()["confusion_matrix"].shape == (1, 1, 0, 0)
    assert updated(DetectionExamples(), ([], [])).page() == []


def test_examples_name_images_by_id_only_where_all_have_one() -> None:
    box = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    preds = [dict(boxes=box, scores=torch.tensor([0.9]), labels=torch.tensor([1]))] * 2
    target = [dict(boxes=box, labels=torch.tensor([1]), image_id=name) for name in (40, -7)]
    metric = updated(DetectionExamples(), (preds, target))
    assert [entry["image"] for entry in metric.page()] == [40, -7]
    metric.update(preds[:1], [dict(boxes=box, labels=torch.tensor([1]))])
    assert [entry["image"] for entry in metric.page()] == [0, 1, 2]
    metric = updated(DetectionExamples(), (preds, target))
    assert metric.page(limit=0) == [] == metric.page(offset=2)
    with pytest.raises(InputError, match="offset must be at least 0 but got -1"):
        metric.page(offset=-1)


def test_the_confusion_matrix_lists_its_pairs_where_asked() -> None:
    batch = random_images(0)
    result = updated(DetectionConfusionMatrix(examples=True), batch).result()
    tables = updated(DetectionExamples(), batch).compute()
    assert result.values["confusion_matrix"].sum() == sum(
        len(tables[k]) for k in ("true_positives", "misclassifications")
    )
    for kind, table in tables.items():
        np.testing.assert_array_equal(result.values[f"examples/{kind}"], table)


def test_the_document_s_pairing_is_an_option() -> None:
    """Two detections, both nearest to the first object: by the document's text the second one takes the other."""
    preds = [dict(boxes=torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 11]]), scores=torch.tensor([0.9, 0.8]),
                  labels=torch.tensor([1, 1]))]  # fmt: skip
    target = [dict(boxes=torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 18]]), labels=torch.tensor([1, 1]))]
    found = [int(updated(DetectionCounts(matching=rule), (preds, target)).compute()["tp"][0, 0, 0])
             for rule in ("valor", "doc")]  # fmt: skip
    assert found == [1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VALOR.AP(iou_thresholds=[]), "iou_thresholds must hold at least one number"),
        (lambda: VALOR.AP(iou_thresholds=[0.0]), "iou_thresholds must be above 0 but got 0"),
        (lambda: VALOR.AP(iou_thresholds=[0.5, 0.5]), "no number twice but got"),
        (lambda: VALOR.mAP(iou_thresholds=[1.5]), r"a number in iou_thresholds must be in \[0, 1\] but got 1.5"),
        (lambda: VALOR.AP(iou_thresholds=0.5), "iou_thresholds must be list or tuple or ndarray but got float"),
        (lambda: VALOR.AP(matching="coco"), "matching must be one of 'valor', 'doc' but got 'coco'"),
        (lambda: VALOR.AR(recall_score_threshold=2), r"recall_score_threshold must be in \[0, 1\] but got 2"),
        (
            lambda: VALOR.AR(recall_score_threshold=0.5, score_thresholds=[0.5]),
            "threshold must be left out",
        ),
        (lambda: VALOR.mAR(include_prediction_only_labels=1), "include_prediction_only_labels must be bool"),
        (lambda: VALOR.DetectionCounts(score_thresholds=[-0.1]), "a number in score_thresholds must be in"),
        (lambda: VALOR.DetectionPrecisionRecallCurve(iou_threshold="0.5"), "iou_threshold must be a number"),
        (
            lambda: VALOR.DetectionPrecisionRecallCurve(zero_division=None),
            "zero_division must be a number",
        ),
        (
            lambda: VALOR.DetectionDetailedPrecisionRecallCurve(max_examples=-1),
            "max_examples must be at least 0",
        ),
        (lambda: VALOR.DetectionDetailedPrecisionRecallCurve(duplicates=1), "duplicates must be bool but got int"),
        (lambda: VALOR.DetectionConfusionMatrix(examples=3), "examples must be bool but got int"),
        (lambda: VALOR.AP("xywha"), "box_format must be one of"),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_the_family_is_all_that_is_public() -> None:
    assert {kind.__name__ for kind in FAMILY} == set(detection.__all__) - {
        "BinnedMeanAveragePrecision", "MeanAveragePrecision", "OpenImagesAveragePrecision", "IntersectionOverUnion",
        "GeneralizedIntersectionOverUnion", "DistanceIntersectionOverUnion", "CompleteIntersectionOverUnion",
        "ModifiedPanopticQuality", "PanopticQuality", "coco_targets",
    }  # fmt: skip


def test_an_image_that_comes_again_counts_once() -> None:
    preds, target = random_images(3)
    named = [dict(item, image_id=7 * place - 20) for place, item in enumerate(target)]
    for kind in FAMILY:
        once, twice = kind(), kind()
        once.update(preds, named)
        twice.update(preds[:6], named[:6])
        twice.update(preds[3:], named[3:])
        for name, value in once.compute().items():
            assert torch.equal(value.nan_to_num(), twice.compute()[name].nan_to_num()), (kind, name)
        assert twice.result().counts["repeated_images"] == 3
        assert twice.result().counts["images"] == len(preds)


def test_the_recipe_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", (ROOT / "docs/detection.md").read_text(), re.DOTALL)
    exec(compile(code, "docs/detection.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == printed[1] == shown.strip()
    assert "images 1, ground_truths 2, detections 2" in printed[-2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_reach_the_thresholds_that_they_equal_in_their_precision(dtype: torch.dtype) -> None:
    grid = [step / 20 for step in range(1, 20)]  # 0.9 in float32 is below 0.9, 0.1 is above 0.1
    corners = torch.arange(len(grid), dtype=torch.float64)[:, None] * 20 + torch.tensor([0.0, 0, 10, 10])
    labels = torch.zeros(len(grid), dtype=torch.long)
    target = [{"boxes": corners, "labels": labels}]
    preds = [{"boxes": corners, "labels": labels, "scores": torch.tensor(grid, dtype=dtype)}]
    wanted = list(range(19, 0, -1))
    found = {}
    for metric in (
        DetectionPrecisionRecallCurve(),
        DetectionDetailedPrecisionRecallCurve(),
        DetectionCounts(iou_thresholds=[0.5], score_thresholds=grid),
        DetectionConfusionMatrix(score_thresholds=grid),
        AR(iou_thresholds=[0.5], score_thresholds=grid),
    ):
        metric.update(preds, target)
        found[type(metric).__name__] = metric.compute()
    assert found["DetectionPrecisionRecallCurve"]["tp"].tolist() == [wanted]
    assert found["DetectionDetailedPrecisionRecallCurve"]["tp/all"].tolist() == [wanted]
    examples = found["DetectionDetailedPrecisionRecallCurve"]["tp/all/examples"]
    assert examples[0, :, 0, 1].tolist() == list(range(19))
    assert found["DetectionCounts"]["tp"].flatten().tolist() == wanted
    assert found["DetectionConfusionMatrix"]["confusion_matrix"].flatten().tolist() == wanted
    assert float(found["AR"]["ar"]) == pytest.approx(sum(wanted) / 19 / 19)


def test_a_score_between_a_threshold_and_its_float32_does_not_reach_it() -> None:
    boxes, labels = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([0])
    metric = DetectionCounts(iou_thresholds=[0.5], score_thresholds=[0.9])
    below = torch.tensor([0.9 - 1e-12], dtype=torch.float64)
    metric.update([{"boxes": boxes, "labels": labels, "scores": below}], [{"boxes": boxes, "labels": labels}])
    assert metric.compute()["tp"].item() == 0


def test_thresholds_that_six_digits_do_not_tell_apart_keep_their_names() -> None:
    box = {"boxes": torch.tensor([[0.0, 0.0, 10.0, 10.0]]), "labels": torch.tensor([1])}
    metric = AP(iou_thresholds=[0.5, 0.50000001])
    metric.update([{**box, "scores": torch.tensor([0.5])}], [{**box, "boxes": torch.tensor([[0.0, 0.0, 10.0, 5.0]])}])
    assert {name: value.tolist() for name, value in metric.compute().items()} == {
        "ap_50": 1.0, "ap_50.000001": 0.0, "classes": 1,
    }  # fmt: skip


def test_the_threshold_of_a_curve_is_named_as_it_is_given() -> None:
    with pytest.raises(InputError, match=r"^iou_threshold must be above 0 but got 0"):
        DetectionPrecisionRecallCurve(iou_threshold=0)
