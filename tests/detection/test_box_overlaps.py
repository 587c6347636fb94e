"""Mean IoU, GIoU, DIoU and CIoU of pairs: equal to torchmetrics, similarities to torchvision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torchmetrics.detection as tm
import torchvision.ops as tv
from torch import Tensor

from valor_gpu import detection
from valor_gpu.detection import GeneralizedIntersectionOverUnion, IntersectionOverUnion
from valor_gpu.errors import InputError
from valor_gpu.ops.boxes.op import box_iou
from valor_gpu.ops.boxes.similarity import SIMILARITIES, similarity_of_pairs

NAMES = dict(zip(SIMILARITIES, ("IntersectionOverUnion", "GeneralizedIntersectionOverUnion",
                                "DistanceIntersectionOverUnion", "CompleteIntersectionOverUnion")))  # fmt: skip
PEERS = {"iou": tv.box_iou, "giou": tv.generalized_box_iou, "diou": tv.distance_box_iou, "ciou": tv.complete_box_iou}


def boxes(generator: torch.Generator, rows: int, box_format: str = "xyxy") -> Tensor:
    corner, size = torch.rand(2, rows, 2, generator=generator) * 20
    corners = torch.cat((corner, corner + size + 1), 1)
    return tv.box_convert(corners, "xyxy", box_format)


def images(seed: int, box_format: str = "xyxy", count: int = 6, lonely: bool = True) -> Any:
    """Images of a few boxes; the second has no detection, the third no ground truth, the fourth neither."""
    generator = torch.Generator().manual_seed(seed)
    preds, target = [], []
    for image in range(count):
        sizes = torch.randint(1, 6, (2,), generator=generator).tolist()
        if lonely and image in (1, 3):
            sizes[0] = 0
        if lonely and image in (2, 3):
            sizes[1] = 0
        for side, size in zip((preds, target), sizes):
            labels = torch.randint(3, (size,), generator=generator)
            side.append({"boxes": boxes(generator, size, box_format), "labels": labels})
    return preds, target


def updated(metric: Any, preds: Any, target: Any, size: int = 2) -> Any:
    for at in range(0, len(preds), size):
        metric.update(preds[at : at + size], target[at : at + size])
    return metric


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_similarities_equal_torchvision(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = boxes(generator, 30).double(), boxes(generator, 40).double()
    second[:10] = first[:10]
    pairs = first.repeat_interleave(40, 0), second.repeat(30, 1)
    found = similarity_of_pairs(kind, *pairs, box_iou(first, second).flatten()).view(30, 40)
    torch.testing.assert_close(found, PEERS[kind](first, second), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize(("scale", "moved", "height"), [(1e-4, 0, 1), (1e6, 0, 1), (1, 1e5, 1), (1, 0, 1e-5)])
def test_similarities_of_tiny_huge_far_and_thin_boxes(kind: str, scale: float, moved: float, height: float) -> None:
    generator = torch.Generator().manual_seed(1)
    first = boxes(generator, 60).double()
    first[:, 3] = first[:, 1] + (first[:, 3] - first[:, 1]) * height
    first = first * scale + moved
    second = first.roll(1, 0)
    second[:20] = first[:20]
    second[20:40] = first[20:40] + (first[20:40] - first[20:40].roll(1, 0)) * 0.1
    pairs = first.repeat_interleave(60, 0), second.repeat(60, 1)
    found = similarity_of_pairs(kind, *pairs, box_iou(first, second).flatten()).view(60, 60)
    torch.testing.assert_close(found, PEERS[kind](first, second), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_similarities_of_boxes_without_area_are_numbers(kind: str) -> None:
    points = torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 2, 0]]).double()
    found = similarity_of_pairs(kind, points, points.flip(0), torch.zeros(3, dtype=torch.float64))
    assert bool(found.isfinite().all())
    with pytest.raises(InputError, match="kind must be one of 'iou', 'giou', 'diou', 'ciou' but got 'eiou'"):
        similarity_of_pairs("eiou", points, points, points[:, 0])


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize("iou_threshold", [None, 0.25])
@pytest.mark.parametrize("respect_labels", [True, False])
@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_numbers_equal_torchmetrics(
    kind: str, iou_threshold: float | None, respect_labels: bool, box_format: str
) -> None:
    for seed in range(4):
        batch = images(seed, box_format)
        choices: dict[str, Any] = dict(
            box_format=box_format, iou_threshold=iou_threshold, respect_labels=respect_labels
        )
        theirs = updated(getattr(tm, NAMES[kind])(**choices), *batch).compute()
        ours = updated(getattr(detection, NAMES[kind])(**choices), *batch).compute()
        assert ours.keys() == theirs.keys() == {kind}
        torch.testing.assert_close(ours[kind], theirs[kind], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize("respect_labels", [True, False])
def test_numbers_of_classes_equal_torchmetrics(kind: str, respect_labels: bool) -> None:
    for seed in range(4):
        preds, target = images(seed)
        kept = [i for i in range(6) if i not in (2, 3)]  # theirs raises IndexError for images without ground truths
        preds, target = [preds[i] for i in kept], [target[i] for i in kept]
        preds[0]["labels"][0] = 7
        choices: dict[str, Any] = dict(class_metrics=True, respect_labels=respect_labels)
        theirs = updated(getattr(tm, NAMES[kind])(**choices), preds, target).compute()
        ours = updated(getattr(detection, NAMES[kind])(**choices), preds, target).compute()
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            torch.testing.assert_close(ours[name], value, rtol=0, atol=2e-6)


def test_the_documented_example_of_torchmetrics() -> None:
    preds = [{"boxes": torch.tensor([[296.55, 93.96, 314.97, 152.79], [298.55, 98.96, 314.97, 151.79]]),
              "labels": torch.tensor([4, 5])}]  # fmt: skip
    target = [{"boxes": torch.tensor([[300.00, 100.00, 315.00, 150.00]]), "labels": torch.tensor([5])}]
    expected = {"iou": 0.8614, "giou": 0.8613, "diou": 0.8611, "ciou": 0.8611}
    for kind, number in expected.items():
        assert float(updated(getattr(detection, NAMES[kind])(), preds, target).compute()[kind]) == pytest.approx(
            number, abs=5e-5
        )


def test_scores_and_integers_change_nothing() -> None:
    preds, target = images(1)
    whole = [[{**item, "boxes": item["boxes"].round()} for item in side] for side in (preds, target)]
    scored = [{**item, "boxes": item["boxes"].long(), "scores": torch.rand(len(item["labels"]))} for item in whole[0]]
    expected = updated(IntersectionOverUnion(), *whole).compute()["iou"]
    assert updated(IntersectionOverUnion(), scored, whole[1]).compute()["iou"] == expected


def test_results_count_and_give_reasons() -> None:
    preds, target = images(2)
    target[0]["boxes"][0, 2] = -1
    metric = updated(GeneralizedIntersectionOverUnion(class_metrics=True), preds, target)
    result = metric.result()
    assert result.counts["images"] == 6 and result.counts["boxes_of_negative_size"] == 1
    assert result.counts["detections"] == sum(len(item["labels"]) for item in preds)
    assert result.values["giou"] == pytest.approx(float(metric.compute()["giou"]), abs=1e-6)
    far = updated(IntersectionOverUnion(iou_threshold=2.0, class_metrics=True), *images(3, lonely=False))
    assert float(far.compute()["iou"]) == 0
    assert math.isnan(far.result().values["iou"])
    assert far.result().reason("iou") == "no pair of a detection and a ground truth counts"
    assert far.result().reason("per_class/0") == "no pair of a detection and a ground truth counts"


def test_two_boxes_without_area_have_an_iou_of_zero() -> None:
    point = {"boxes": torch.tensor([[1.0, 1, 1, 3], [0.0, 0, 2, 2]]), "labels": torch.tensor([0, 1])}
    result = updated(IntersectionOverUnion(class_metrics=True), [point], [point]).result()
    assert result.values["iou"] == 0.5 and result.values["per_class"] == {"0": 0.0, "1": 1.0}
    assert result.counts["pairs"] == 2


def test_a_batch_without_images_adds_nothing() -> None:
    metric = IntersectionOverUnion()
    metric.update([], [])
    assert metric.result().counts["images"] == 0


GOOD: dict[str, Any] = {"boxes": torch.tensor([[0.0, 0, 1, 1]]), "labels": torch.tensor([0])}


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        ([GOOD], [], "target must have one dict per image like preds, 1 but has 0"),
        ([{"boxes": GOOD["boxes"]}], [GOOD], r"preds\[0\] must have key 'labels' but has \['boxes'\]"),
        ([{**GOOD, "labels": 0}], [GOOD], r"preds\[0\]\['labels'\] must be Tensor"),
        ([GOOD], [{**GOOD, "boxes": GOOD["boxes"] * math.nan}], r"target\[0\]\['boxes'\]\[0\] must be finite"),
        ([GOOD, {**GOOD, "boxes": GOOD["boxes"] / 0}], [GOOD] * 2, r"preds\[1\]\['boxes'\]\[0\] must be finite"),
        (GOOD, GOOD, "preds must be a sequence of dicts, one per image, but got a dict"),
        (None, [GOOD], "preds must be a sequence of dicts"),
        ([GOOD], [{**GOOD, "labels": torch.tensor([0.5])}], r"target\[0\]\['labels'\] must be integer"),
        ([GOOD], [{**GOOD, "boxes": torch.zeros(1, 5)}], r"target\[0\]\['boxes'\] must have shape \[1, 4\]"),
    ],
)
def test_wrong_batches_raise_and_change_nothing(preds: Any, target: Any, message: str) -> None:
    metric = IntersectionOverUnion()
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert metric.result().counts["images"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"box_format": "xyyx"}, "box_format must be one of"),
        ({"iou_threshold": math.nan}, "iou_threshold must be a finite number or None but got nan"),
        ({"iou_threshold": True}, "iou_threshold must be a finite number or None but got True"),
        ({"class_metrics": 1}, "class_metrics must be bool but got int"),
        ({"respect_labels": "yes"}, "respect_labels must be bool but got str"),
    ],
)
def test_wrong_arguments_raise(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        IntersectionOverUnion(**arguments)
