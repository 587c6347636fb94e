"""Mean average precision of polygons: rectangles as boxes, shapely's IoU as extended summary, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from testing.examples_polygon_iou import star
from tests.fuzz import seeds
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.detection.overlap_metric import OverlapMetric
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops import PolygonSet, polygon_iou

Scene = tuple[list[dict[str, Any]], list[dict[str, Any]]]
TRIANGLE = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]


def rectangles(seed: int, images: int = 10) -> Scene:
    """Detections near ground truths of three classes, some crowds, with boxes xyxy and the same as polygons."""
    rng = np.random.default_rng(seed)
    preds: list[dict[str, Any]] = []
    target: list[dict[str, Any]] = []
    for image in range(images):
        n, m = (int(count) for count in rng.integers(1, 9, 2))
        gt = np.array([0, 0, 4, 4]) + np.round(rng.random((m, 4)) * [200, 200, 80, 80])
        found = np.maximum(gt[rng.integers(0, m, n)] + np.round(rng.normal(0, 3, (n, 4)) * 4) / 4, 1)
        for side, rows in ((preds, found), (target, gt)):
            boxes = np.concatenate((rows[:, :2], rows[:, :2] + rows[:, 2:]), 1)
            corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
            side.append({
                "boxes": torch.from_numpy(boxes), "polygons": [[[ring.tolist()]] for ring in corners],
                "labels": torch.from_numpy(rng.integers(0, 3, len(rows))),
            })  # fmt: skip
        preds[-1]["scores"] = torch.from_numpy(np.round(rng.random(n), 2))
        target[-1].update(iscrowd=torch.from_numpy((rng.random(m) < 0.1).astype(np.int64)), image_id=image)
    return preds, target


def evaluate(scene: Scene, batch: int = 4, **choices: Any) -> dict[str, Any]:
    metric = MeanAveragePrecision(**choices)
    for first in range(0, len(scene[0]), batch):
        metric.update(scene[0][first : first + batch], scene[1][first : first + batch])
    return metric.compute()


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("seed", seeds(2))
def test_rectangles_give_what_boxes_give(seed: int, average: str) -> None:
    scene = rectangles(seed)
    choices: dict[str, Any] = {"class_metrics": True, "extended_summary": True, "average": average}
    got, expected = evaluate(scene, iou_type="polygon", **choices), evaluate(scene, **choices)
    ious, box_ious = got.pop("ious"), expected.pop("ious")
    assert ious.keys() == box_ious.keys()
    for key, table in ious.items():
        assert torch.equal(torch.as_tensor(table), torch.as_tensor(box_ious[key])), key
    for name, value in expected.items():
        assert torch.equal(torch.as_tensor(got[name]), torch.as_tensor(value)), name
    assert 0.02 < float(got["map"]) < 0.95


def test_sets_lists_and_arrays_are_the_same() -> None:
    rng = np.random.default_rng(5)
    items = [[[star(rng, 12, rng.random(2) * 20, 15), star(rng, 5, (10, 10), 2)]] for _ in range(8)]
    labels = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])
    nested = [[[ring.tolist() for ring in polygon] for polygon in item] for item in items]
    found = []
    for given in (items, nested, PolygonSet.of(items), tuple(items)):
        metric = MeanAveragePrecision(iou_type="polygon", iou_thresholds=[0.1, 0.3])
        preds = [{"polygons": given[:4] if not isinstance(given, PolygonSet) else given.take(range(4)),
                  "scores": torch.tensor([0.9, 0.8, 0.7, 0.6]), "labels": labels[:4]}]  # fmt: skip
        target = [{"polygons": given[4:] if not isinstance(given, PolygonSet) else given.take(range(4, 8)),
                   "labels": labels[4:]}]  # fmt: skip
        metric.update(preds, target)
        found.append(float(metric.compute()["map"]))
    assert len(set(found)) == 1 and found[0] > 0


def test_areas_of_ground_truths_are_those_of_polygons() -> None:
    """A triangle of 32 x 32 pixels has 512, which is small; its box would be medium."""
    ring = [[0.0, 0.0], [36.0, 0.0], [0.0, 36.0]]
    preds = [{"polygons": [[[ring]]], "scores": torch.tensor([0.5]), "labels": torch.tensor([0])}]
    target = [{"polygons": [[[ring]]], "labels": torch.tensor([0])}]
    metric = MeanAveragePrecision(iou_type="polygon")
    metric.update(preds, target)
    values = metric.compute()
    assert (float(values["map_small"]), float(values["map_medium"])) == (1.0, -1.0)


class Kept(OverlapMetric):
    """The state alone."""

    def compute(self) -> None:
        return None


def test_valors_metrics_keep_polygons_that_overlap() -> None:
    scene = rectangles(3)
    for images in scene:
        for image in images:
            image["iscrowd"] = torch.zeros_like(image["labels"])
    metric = Kept(iou_type="polygon")
    metric.update(*scene)
    ious = [polygon_iou(a["polygons"], b["polygons"]) for a, b in zip(*scene)]
    state = metric.state()
    assert sorted(state.ious.tolist()) == sorted(v for table in ious for v in table[table > 0].tolist())


def image(polygons: Any, count: int) -> dict[str, Any]:
    labels = torch.zeros(count, dtype=torch.int64)
    return {"polygons": polygons, "scores": torch.ones(count), "labels": labels}


@pytest.mark.parametrize(
    ("preds", "error", "message"),
    [
        ([{"scores": torch.ones(1), "labels": torch.zeros(1).long()}], InputError,
         r"^preds\[0\] must have key 'polygons' but has \['labels', 'scores'\]"),
        ([image([[[TRIANGLE]]] * 2, 1)], InputError,
         r"^preds\[0\]\['polygons'\] must have one item for each of the 1 labels but has 2"),
        ([image(torch.zeros(1, 3, 2), 1)], InputTypeError, r"^preds\[0\]\['polygons'\] must be"),
        ([image([[[[[0.0, float("nan")]]]]], 1)], InputError,
         r"^preds\[0\]\['polygons'\]\[0\]\[0\]\[0\]\[0\] must be finite but is \(0.0, nan\)"),
        (image([], 0), InputError, r"^preds must be a sequence of dicts, one per image, but got dict: polygons"),
    ],
)  # fmt: skip
def test_bad_input(preds: Any, error: type[Exception], message: str) -> None:
    metric = MeanAveragePrecision(iou_type="polygon")
    with pytest.raises(error, match=message):
        metric.update(preds, [image([[[TRIANGLE]]], 1)])
    assert metric.update_count == 0


@pytest.mark.parametrize("choices", [{"box_format": "cxcywha"}, {"angle_unit": "radians"}, {"sigmas": [0.1]}])
def test_choices_of_other_geometries_are_errors(choices: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^(box_format|angle_unit|sigmas) must be"):
        MeanAveragePrecision(iou_type="polygon", **choices)


def test_an_empty_image_needs_no_polygon() -> None:
    metric = MeanAveragePrecision(iou_type="polygon")
    metric.update([image([], 0)], [image([[[TRIANGLE]]], 1)])
    assert float(metric.compute()["map"]) == 0.0
