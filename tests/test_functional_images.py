"""Functions of images: torchmetrics' names, arguments and values, and errors that name the argument."""

from __future__ import annotations

import doctest
import importlib
import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.functional.detection as peer_detection
import torchmetrics.functional.detection.map as peer_map
import torchmetrics.functional.segmentation as peer_segmentation

from tests.test_documented_examples import changed
from valor_gpu import detection, functional, plans, segmentation
from valor_gpu.errors import InputError, InputTypeError

PEERS: dict[str, Any] = {
    name: getattr(module, name) for module in (peer_segmentation, peer_detection) for name in module.__all__
    if "quality" in name or module is peer_segmentation
}  # fmt: skip
BOXES = {"intersection_over_union": "iou", "generalized_intersection_over_union": "giou",
         "distance_intersection_over_union": "diou", "complete_intersection_over_union": "ciou"}  # fmt: skip
"""Functions that torchmetrics has only beside torchvision, and their modules."""

PEERS |= {
    name: getattr(importlib.import_module(f"torchmetrics.functional.detection.{module}"), name)
    for name, module in BOXES.items()
}


@pytest.mark.parametrize("name", PEERS)
def test_arguments_are_those_of_torchmetrics(name: str) -> None:
    theirs = list(inspect.signature(PEERS[name]).parameters.values())
    mine = list(inspect.signature(getattr(functional, name)).parameters.values())[: len(theirs)]
    assert [p.name for p in mine] == [p.name for p in theirs]
    given = [(p.name, p.default) for p in theirs if p.default is not p.empty]
    assert [(p.name, p.default) for p in mine][len(theirs) - len(given) :] == given


@pytest.mark.parametrize("name", peer_segmentation.__all__)
def test_functions_describe_images_and_not_means_over_them(name: str) -> None:
    text = " ".join((getattr(functional, name).__doc__ or "").split())
    assert not any(each in text for each in ("mean over images", "averages over", "bytes", "``ignore_index``"))


@pytest.mark.parametrize("name", BOXES)
def test_documented_examples_of_boxes(name: str) -> None:
    """What the docstrings of torchmetrics print, which cannot run without torchvision."""
    names: dict[str, Any] = {}
    checked = 0
    for example in doctest.DocTestParser().get_examples(inspect.getdoc(PEERS[name]) or ""):
        if any(word in example.source for word in ("plot", "fig_")):
            continue
        source = changed(example.source)
        if example.want:
            assert repr(eval(source, names)).split() == example.want.split()
            checked += 1
        else:
            exec(source, names)
    assert checked == 2


def scene(seed: int, masks: bool = False) -> tuple[list[Any], list[Any]]:
    """Images with detections near their ground truths, in corners."""
    generator = torch.Generator().manual_seed(seed)
    preds, target = [], []
    for count in (3, 5, 1):
        boxes = 40 * torch.rand(count, 4, generator=generator)
        boxes[:, 2:] += boxes[:, :2] + 3
        moved = boxes + torch.rand(count, 4, generator=generator)
        labels = torch.randint(3, (count,), generator=generator)
        preds.append({"boxes": moved, "scores": torch.rand(count, generator=generator), "labels": labels})
        target.append({"boxes": boxes, "labels": labels.flip(0) if count == 3 else labels})
        for item in (preds[-1], target[-1]) if masks else ():
            grid = torch.arange(90)
            x0, y0, x1, y1 = (column[:, None] for column in item["boxes"].T)
            inside = (grid >= y0) & (grid < y1), (grid >= x0) & (grid < x1)
            item["masks"] = inside[0][:, :, None] & inside[1][:, None, :]
    return preds, target


CHOICES: list[dict[str, Any]] = [
    {}, {"class_metrics": True}, {"average": "micro"}, {"average": "micro", "class_metrics": True},
    {"extended_summary": True}, {"max_detection_thresholds": [1, 2, 100]}, {"iou_type": "segm"},
    {"iou_type": ["bbox", "segm"], "class_metrics": True}, {"box_format": "xywh"}, {"box_format": "cxcywh"},
    {"iou_thresholds": [0.5, 0.75], "rec_thresholds": [0.25, 0.5]},
]  # fmt: skip


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_mean_average_precision_is_that_of_torchmetrics(choices: dict[str, Any]) -> None:
    function: Any = peer_map.mean_average_precision
    batch = scene(3, masks=True)
    grid = np.linspace(0, 1, 101).tolist()  # both grids of torchmetrics are of float32 by default
    given = {"iou_thresholds": [0.5, 0.625, 0.75], "rec_thresholds": grid, **choices}
    peer = {**given, "iou_type": tuple(t)} if isinstance(t := given.get("iou_type"), list) else given
    expected = function(*batch, warn_on_many_detections=False, **peer)
    found = functional.mean_average_precision(*batch, warn_on_many_detections=False, **given)
    assert set(found) == set(expected)
    for name, value in expected.items():
        if isinstance(value, dict):
            assert found[name].keys() == value.keys()
            for cell, part in value.items():
                torch.testing.assert_close(torch.as_tensor(found[name][cell]), torch.as_tensor(part))
        else:
            torch.testing.assert_close(found[name], value, check_dtype=name not in ("precision", "recall", "scores"))
    whole = detection.MeanAveragePrecision(**given, tie_order="arrival")
    whole.warn_on_many_detections = False
    whole.update(*batch)
    assert {n: torch.as_tensor(v).flatten().tolist() for n, v in found.items() if not isinstance(v, dict)} == {
        n: v.flatten().tolist() for n, v in whole.compute().items() if isinstance(v, torch.Tensor)
    }


def test_equal_scores_rank_in_the_order_of_images() -> None:
    function: Any = peer_map.mean_average_precision
    given: dict[str, Any] = {"iou_thresholds": [0.5, 0.625, 0.75], "rec_thresholds": np.linspace(0, 1, 101).tolist()}
    by_key = 0
    for seed in range(12):
        preds, target = scene(seed, masks=True)
        for item in preds:
            item["scores"] = (item["scores"] * 2).round() / 2
        expected = function(preds, target, warn_on_many_detections=False, **given)["map"]
        torch.testing.assert_close(functional.mean_average_precision(preds, target, **given)["map"], expected)
        metric = detection.MeanAveragePrecision(**given)
        metric.update(preds, target)
        by_key += bool((metric.compute()["map"] - expected).abs() > 1e-6)
    assert by_key


def test_mean_average_precision_has_the_arguments_of_torchmetrics() -> None:
    theirs = inspect.signature(peer_map.mean_average_precision).parameters.values()
    mine = inspect.signature(functional.mean_average_precision).parameters.values()
    assert [(p.name, p.default) for p in mine] == [(p.name, p.default) for p in theirs]
    with pytest.raises(InputError, match="target must have one dict per image like preds, 0 but has 1"):
        functional.mean_average_precision([], [{}])


def test_many_detections_are_warned_of() -> None:
    preds, target = scene(3, masks=True)
    padded = [
        {k: torch.stack([item[k][:1] for item in side]) for k in side[0] if k != "masks"} for side in (preds, target)
    ]
    text = "Encountered more than 4 detections in a single image"
    for batch, kind in (((preds, target), "bbox"), ((preds[1:2], target[1:2]), "bbox"), ((preds, target), "segm")):
        with pytest.warns(UserWarning, match=text):
            functional.mean_average_precision(*batch, iou_type=kind, max_detection_thresholds=[1, 2, 4])
        metric = detection.MeanAveragePrecision(iou_type=kind, max_detection_thresholds=[1, 2, 4])
        with plans.checked_only(), pytest.warns(UserWarning, match=text):
            metric(*batch)
        metric.warn_on_many_detections = False
        metric.update(*batch)
        functional.mean_average_precision(*batch, iou_type=kind, max_detection_thresholds=[1, 2, 5])
    functional.mean_average_precision(*padded, max_detection_thresholds=[1])


def test_boxes_of_any_kind() -> None:
    boxes, shifted = [[0, 0, 2, 2], [4, 4, 6, 8]], [[1, 1, 3, 3], [5, 5, 7, 9], [0, 0, 1, 1]]
    matrix = functional.intersection_over_union(boxes, shifted, aggregate=False)
    torch.testing.assert_close(matrix, torch.tensor([[1 / 7, 0, 0.25], [0, 3 / 13, 0]]))
    kept = functional.intersection_over_union(boxes, shifted, 0.2, -1.0, False)
    assert kept.tolist() == [[-1, -1, 0.25], [-1, pytest.approx(3 / 13), -1]]
    assert functional.intersection_over_union(torch.tensor(boxes).double(), shifted).dtype == torch.float64
    empty = torch.zeros(0, 4)
    assert functional.complete_intersection_over_union(empty, shifted) == 0
    assert functional.distance_intersection_over_union(empty, shifted, aggregate=False).shape == (0, 3)


def test_values_of_images_are_those_of_the_metric_of_one_image() -> None:
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.randint(3, (4, 9, 8), generator=generator), torch.randint(3, (4, 9, 8), generator=generator)
    preds[0] = target[0] = 0
    for average in ("micro", "macro", "weighted", None):
        found = functional.dice_score(preds, target, 3, average=average, input_format="index")
        metric = segmentation.DiceScore(3, average=average, input_format="index")
        for index, value in enumerate(found):
            metric.reset()
            metric.update(preds[index, None], target[index, None])
            torch.testing.assert_close(value, metric.compute(), equal_nan=True)
    whole = functional.dice_score(preds, target, 3, input_format="index", aggregation_level="global")
    assert whole.shape == (1,)
    iou = functional.mean_iou(y_true=target, y_pred=preds, num_classes=3, per_class=True, input_format="index")
    assert iou[0].tolist() == [1, -1, -1] and (iou[1:] > 0).all()
    far = functional.hausdorff_distance(preds, target, 3, input_format="index")
    assert far.shape == (4, 2) and far[0].isnan().all() and far.dtype == torch.float32
    one_empty = functional.hausdorff_distance(preds[:1], target[1:2], 3, input_format="index")
    assert one_empty.tolist() == [[math.inf, math.inf]]
    assert segmentation.MeanIoU(3, input_format="index").image_values().shape == (0,)


def test_panoptic_names_are_in_both_packages() -> None:
    assert detection.PanopticQuality is segmentation.PanopticQuality
    assert detection.ModifiedPanopticQuality is segmentation.ModifiedPanopticQuality


def test_bad_arguments_are_named() -> None:
    boxes = torch.zeros(2, 4)
    with pytest.raises(InputError, match="target must have shape"):
        functional.intersection_over_union(boxes, boxes[:, :3])
    with pytest.raises(InputTypeError, match="aggregate must be bool"):
        functional.intersection_over_union(boxes, boxes, aggregate=1)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="iou_threshold must be a number"):
        functional.generalized_intersection_over_union(boxes, boxes, "0.5")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="preds and target must be given"):
        functional.mean_iou(boxes)
    with pytest.raises(InputError, match="num_classes"):
        functional.mean_iou(torch.zeros(2, 3).long(), torch.zeros(2, 3).long(), input_format="index")
