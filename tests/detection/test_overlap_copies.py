"""Images with one id: which of them counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.contract_boxes import boxes_batch
from valor_gpu.detection import DetectionCounts
from valor_gpu.detection.rankings import Evaluated, evaluated
from valor_gpu.errors import InputError


def images(seed: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    preds, target = boxes_batch(seed, images=6, ids=True)
    return [(p, {k: v for k, v in t.items() if k not in ("iscrowd", "area")}) for p, t in zip(preds, target)]


def metric_of(*given: tuple[dict[str, Any], dict[str, Any]]) -> DetectionCounts:
    metric = DetectionCounts()
    for pred, target in given:
        metric.update([pred], [target])
    return metric


def columns(images: Evaluated) -> list[list[Any]]:
    return [column.tolist() for column in (images.names, *images.overlaps.columns())]


def test_copies_count_once_and_are_counted() -> None:
    first, second, third, *_ = images(0)
    metric, plain = metric_of(first, second, first, third, second, first), metric_of(first, second, third)
    assert columns(evaluated(metric.state())) == columns(evaluated(plain.state()))
    assert metric.result().counts == {**plain.result().counts, "repeated_images": 3}
    assert all(torch.equal(value, plain.compute()[name]) for name, value in metric.compute().items())
    plain.merge_state(metric)
    assert plain.result().counts == {**metric.result().counts, "repeated_images": 6}


def test_images_without_ids_are_no_copies() -> None:
    first, second, *_ = images(0)
    plain = (first[0], {key: value for key, value in first[1].items() if key != "image_id"})
    found = evaluated(metric_of(plain, second, plain, second, first).state())
    assert found.repeated == 1 and found.names.tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize("key", ["scores", "labels", "boxes"])
def test_the_same_copy_counts_in_any_order(key: str) -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 8]])
    pred = {"boxes": boxes, "scores": torch.tensor([0.5, 0.75]), "labels": torch.tensor([1, 2])}
    target = {"boxes": boxes, "labels": torch.tensor([1, 2]), "image_id": 7}
    copy = dict(pred, **{key: pred[key].flip(0)})
    found = []
    for order in ((pred, copy), (copy, pred), (copy, pred, copy)):
        metric = metric_of(*((one, target) for one in order))
        with pytest.warns(UserWarning, match=r"images were left out since their image_id \(the first is 7\)"):
            found.append(columns(evaluated(metric.state())))
    assert found[0] == found[1] == found[2] and found[0][0] == [7]


def test_one_id_for_two_images() -> None:
    first, second, *_ = images(2)
    wrong = (second[0], dict(second[1], image_id=first[1]["image_id"]))
    metric = metric_of(first, wrong)
    with pytest.raises(InputError, match="image_id 2000 must name one image but came with two different ground truths"):
        metric.compute()
