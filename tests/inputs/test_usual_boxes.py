"""The short way of upright boxes: what it takes it reads as the general way does, and it leaves all else to that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from testing.scenes import random_scene
from valor_gpu.detection import MeanAveragePrecision, kept_inputs
from valor_gpu.errors import InputError
from valor_gpu.inputs.usual_boxes import plain_boxes

Side = list[dict[str, Any]]
Change = Callable[[Side, Side], object]


def batch(seed: int) -> tuple[Side, Side]:
    """Seven images with ids, crowds and areas, some of them without detections or ground truths."""
    scene = random_scene(np.random.default_rng(seed), images=7, dtype=torch.float32)
    preds = [dict(boxes=b, scores=s, labels=k) for b, s, k in zip(scene.boxes, scene.scores, scene.labels)]
    columns = zip(scene.gt_boxes, scene.gt_labels, scene.crowds, scene.areas)
    target = [dict(boxes=b, labels=k, iscrowd=c, area=a) for b, k, c, a in columns]
    for number, item in enumerate(target):
        item["image_id"] = torch.tensor([9 - number])
    return preds, target


def padded(side: Side) -> dict[str, Tensor]:
    """The same images in padded tensors."""
    whole = {key: pad_sequence([item[key] for item in side], True) for key in side[0] if key != "image_id"}
    whole["counts"] = torch.tensor([len(item["labels"]) for item in side])
    return whole | ({"image_id": torch.cat([item["image_id"] for item in side])} if "image_id" in side[0] else {})


def assert_same_state(monkeypatch: pytest.MonkeyPatch, preds: Any, target: Any, **choices: Any) -> None:
    found = []
    for short in (True, False):
        with monkeypatch.context() as patch:
            if not short:
                patch.setattr(kept_inputs, "plain_boxes", lambda *sides: None)
            metric = MeanAveragePrecision(**choices)
            metric.warn_on_many_detections = False
            metric.update(preds, target)
            assert metric.update_count == 1
            found.append(metric.state().tensors())
    for name, table in found[1].items():
        assert found[0][name].dtype == table.dtype and torch.equal(found[0][name], table), name


def set_all(side: int, key: str, make: Callable[[Any], Any]) -> Change:
    """Changes a key of every image."""

    def change(*sides: Side) -> None:
        for item in sides[side]:
            item[key] = make(item.get(key))

    return change


def set_one(side: int, key: str, make: Callable[[Any], Any], place: int = 3) -> Change:
    """Changes a key of one image."""
    return lambda *sides: sides[side][place].update({key: make(sides[side][place].get(key))})


def without(key: str, images: slice = slice(None)) -> Change:
    return lambda preds, target: [item.pop(key) for item in target[images]]


USUAL: dict[str, Change] = {
    "as it comes": lambda preds, target: None,
    "no crowds": without("iscrowd"),
    "no areas": without("area"),
    "no ids": without("image_id"),
    "ids as numbers": set_all(1, "image_id", int),
    "int32 labels": set_all(0, "labels", Tensor.int),
    "bool crowds": set_all(1, "iscrowd", Tensor.bool),
    "half boxes": set_all(0, "boxes", Tensor.half),
    "double scores": set_all(0, "scores", Tensor.double),
    "bfloat16 areas": set_all(1, "area", Tensor.bfloat16),
    "a gap between rows": set_all(1, "boxes", lambda boxes: torch.stack([boxes, boxes], 1)[:, 0]),
    "narrower labels of one image": set_one(0, "labels", Tensor.int, place=5),
    "boxes with a gradient": set_all(0, "boxes", Tensor.requires_grad_),
    "negated views": set_all(0, "boxes", lambda boxes: torch._neg_view(-boxes)),
}
UNUSUAL: dict[str, Change] = {
    "boxes of two dtypes": set_one(0, "boxes", Tensor.double),
    "scores of two dtypes": set_one(0, "scores", Tensor.half),
    "areas of two dtypes": set_one(1, "area", Tensor.half),
    "whole areas": set_all(1, "area", Tensor.long),
    "crowds of some images": without("iscrowd", slice(2)),
    "labels in a column": set_all(0, "labels", lambda labels: labels[:, None]),
    "an id of no dimension": set_one(1, "image_id", lambda value: torch.tensor(50)),
    "ids of numbers and tensors": set_one(1, "image_id", int),
    "int32 ids": set_all(1, "image_id", Tensor.int),
    "a subclass": set_one(0, "boxes", lambda boxes: boxes.as_subclass(torch.nn.Buffer)),
}


@pytest.mark.parametrize("name", USUAL)
def test_lists_taken_give_the_bytes_of_the_general_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = batch(1)
    USUAL[name](preds, target)
    assert plain_boxes(preds, target) is not None
    for box_format in ("xyxy", "xywh", "cxcywh"):
        assert_same_state(monkeypatch, preds, target, box_format=box_format)
    assert_same_state(monkeypatch, preds, target, average="micro", max_detection_thresholds=[1, 3])


@pytest.mark.parametrize("name", UNUSUAL)
def test_lists_left_go_the_general_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = batch(2)
    UNUSUAL[name](preds, target)
    assert plain_boxes(preds, target) is None
    assert_same_state(monkeypatch, preds, target)


@pytest.mark.parametrize("name", [*USUAL, *UNUSUAL])
def test_one_image_gives_the_bytes_of_the_general_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = batch(1)
    assert len(preds[3]["labels"]) > 1 and len(target[3]["labels"]) > 1
    (USUAL | UNUSUAL)[name](preds, target)
    for image in (slice(3, 4), slice(0, 1), slice(6, 7)):
        assert_same_state(monkeypatch, preds[image], target[image])


@pytest.mark.parametrize("side, key", [(0, "boxes"), (0, "scores"), (1, "boxes"), (1, "iscrowd"), (1, "area")])
@pytest.mark.parametrize("form", ["one image", "images", "padded"])
def test_none_is_no_tensor(form: str, side: int, key: str) -> None:
    sides: Any = batch(4)
    if form == "padded":
        sides = [*map(padded, sides)]
        sides[side][key] = None
    else:
        sides = [each[3:4] if form == "one image" else each for each in sides]
        sides[side][0][key] = None
    assert plain_boxes(*sides) is None
    with pytest.raises(TypeError, match="must be Tensor or ndarray or list or tuple but got NoneType"):
        MeanAveragePrecision().update(*sides)


def test_negated_views_of_padded_tensors_go_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = map(padded, batch(3))
    preds["boxes"] = torch._neg_view(-preds["boxes"])
    assert plain_boxes(preds, target) is None
    assert_same_state(monkeypatch, preds, target)


@pytest.mark.parametrize("name", ["as it comes", "no crowds", "no areas", "no ids", "half boxes", "int32 labels"])
@pytest.mark.parametrize("counted", [True, False])
def test_padded_tensors_taken_give_the_bytes_of_the_general_way(
    name: str, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = batch(3)
    USUAL[name](*sides)
    preds, target = map(padded, sides)
    if not counted:
        del preds["counts"], target["counts"]
    assert plain_boxes(preds, target) is not None
    assert_same_state(monkeypatch, preds, target, box_format="xywh")


@pytest.mark.parametrize(
    "key, value",
    [
        ("counts", torch.tensor([1, 2, 1, 0, 1, 1, 1], dtype=torch.int32)),
        ("image_id", torch.arange(7).int()),
        ("image_id", torch.arange(14)[::2]),
    ],
)
def test_padded_tensors_left_go_the_general_way(key: str, value: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = map(padded, batch(3))
    target[key] = value
    assert plain_boxes(preds, target) is None
    assert_same_state(monkeypatch, preds, target)


@pytest.mark.parametrize(
    "change, message",
    [
        (set_one(0, "scores", lambda scores: scores * torch.nan), "NaN"),
        (set_one(0, "boxes", lambda boxes: boxes / 0), "finite"),
        (set_one(1, "iscrowd", lambda crowd: crowd + 2), "iscrowd"),
        (set_one(0, "scores", lambda scores: scores[:-1]), r"preds\[3\]\['scores'\] must have shape"),
        (set_one(1, "boxes", lambda boxes: boxes.reshape(-1)), r"target\[3\]\['boxes'\] must have shape"),
        (set_one(0, "labels", Tensor.double), r"preds\[3\]\['labels'\] must be integer"),
        (set_one(1, "image_id", lambda value: 2**63), "image_id"),
        (set_one(1, "labels", Tensor.to_sparse), "dense"),
        (set_one(0, "boxes", lambda boxes: boxes.to("meta")), "must be on"),
    ],
)
def test_the_general_way_names_mistakes_and_nothing_is_kept(change: Change, message: str) -> None:
    preds, target = batch(6)
    assert len(preds[3]["labels"]) > 1 and len(target[3]["labels"]) > 1
    metric = MeanAveragePrecision()
    metric.update(preds, target)
    before = metric.state().tensors()
    change(preds, target)
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert metric.update_count == 1
    assert all(torch.equal(table, before[name]) for name, table in metric.state().tensors().items())
