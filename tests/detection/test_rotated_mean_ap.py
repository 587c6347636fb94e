"""Mean average precision of rotated boxes: as boxes at angle 0, and as a plain evaluator over the IoU of shapely."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from testing.examples_rotated import corners
from tests.fuzz import seeds
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError, SyncError
from valor_gpu.ops import rotated_box_iou

Scene = tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]


def random_scene(seed: int, images: int = 12, angles: bool = True) -> Scene:
    """Detections near ground truths of three classes, some crowds, some far away; float64 on a grid of quarters."""
    rng = np.random.default_rng(seed)
    preds, target = [], []
    for image in range(images):
        n, m = (int(count) for count in rng.integers(0, 9, 2))
        gt = np.round(rng.random((m, 5)) * [200, 200, 80, 80, 0])
        gt[:, 2:4] += 4
        gt[:, 4] = rng.integers(-90, 90, m) if angles else 0
        at, gt_labels = rng.integers(0, max(m, 1), n), rng.integers(0, 3, m)
        near = gt[at] if m else np.ones((n, 5)) * [50, 50, 20, 20, 0]
        labels = np.where(rng.random(n) < 0.8, gt_labels[at], 0) if m else rng.integers(0, 3, n)
        found = near + np.round(rng.normal(0, 1, (n, 5)) * [2, 2, 2, 2, 3 if angles else 0] * 4) / 4
        found[:, 2:4] = np.maximum(found[:, 2:4], 1)
        preds.append({
            "boxes": torch.from_numpy(found), "scores": torch.from_numpy(np.round(rng.random(n), 2)),
            "labels": torch.from_numpy(labels),
        })  # fmt: skip
        target.append({
            "boxes": torch.from_numpy(gt), "labels": torch.from_numpy(gt_labels),
            "iscrowd": torch.from_numpy((rng.random(m) < 0.1).astype(np.int64)), "image_id": torch.tensor([image]),
        })  # fmt: skip
    return preds, target


def with_boxes(scene: Scene, change: Any) -> Scene:
    return tuple([{**item, "boxes": change(item["boxes"])} for item in side] for side in scene)  # type: ignore[return-value]


def evaluate(scene: Scene, batch: int = 5, **choices: Any) -> dict[str, Any]:
    metric = MeanAveragePrecision(**{"iou_type": "rotated", "box_format": "cxcywha", **choices})
    for first in range(0, len(scene[0]), batch):
        metric.update(scene[0][first : first + batch], scene[1][first : first + batch])
    return metric.compute()


def assert_equal(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_equal(got[name], value)
        else:
            assert torch.equal(torch.as_tensor(got[name]), torch.as_tensor(value)), name


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("seed", seeds(3))
def test_unrotated_boxes_give_what_boxes_give(seed: int, average: str) -> None:
    scene = random_scene(seed, angles=False)
    choices: dict[str, Any] = {"class_metrics": True, "extended_summary": True, "average": average}
    got = evaluate(scene, **choices)
    plain = with_boxes(scene, lambda boxes: boxes[:, :4])
    assert_equal(got, evaluate(plain, iou_type="bbox", box_format="cxcywh", **choices))
    assert 0.05 < float(got["map"]) < 0.95


def shapely_iou(boxes: Tensor, gt_boxes: Tensor, crowd: NDArray[np.bool_]) -> NDArray[np.float64]:
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    first, second = (shapely.polygons(corners(side).numpy().reshape(-1, 4, 2)) for side in (boxes, gt_boxes))
    shared = shapely.area(shapely.intersection(first[:, None], second[None]))
    own = shapely.area(first)[:, None]
    return np.asarray(shared / np.where(crowd, own, own + shapely.area(second)[None] - shared))


def match(
    ious: NDArray[np.float64], ignored: NDArray[np.bool_], crowd: NDArray[np.bool_], threshold: float
) -> list[int]:
    """COCOeval.evaluateImg: the ground truth of each detection, in order; -1 for none."""
    order = np.argsort(ignored, kind="stable")
    taken, out = np.zeros(len(ignored), bool), []
    for row in ious:
        best, at = min(threshold, 1 - 1e-10), -1
        for g in order:
            if taken[g] and not crowd[g]:
                continue
            if at > -1 and not ignored[at] and ignored[g]:
                break
            if row[g] < best:
                continue
            best, at = row[g], g
        out.append(at)
        if at > -1:
            taken[at] = True
    return out


def plain_curve(scene: Scene, label: int, threshold: float, limit: int = 100) -> tuple[NDArray[np.float64], float]:
    """float64 ``[101]`` and recall: COCOeval.accumulate of one class at all areas, ``limit`` detections an image."""
    rows: list[tuple[float, int, bool, bool]] = []
    positives = 0
    for image, (pred, true) in enumerate(zip(*scene)):
        d, g = pred["labels"] == label, true["labels"] == label
        crowd = true["iscrowd"][g].numpy() != 0
        positives += int((~crowd).sum())
        order = torch.sort(pred["scores"][d], descending=True, stable=True).indices[:limit]
        ious = shapely_iou(pred["boxes"][d][order], true["boxes"][g], crowd)
        for score, at in zip(pred["scores"][d][order].tolist(), match(ious, crowd, crowd, threshold)):
            rows.append((score, image, at >= 0 and not crowd[at], at >= 0 and bool(crowd[at])))
    rows.sort(key=lambda row: (-row[0], row[1]))
    counted = [row[2] for row in rows if not row[3]]
    if not positives:
        return np.full(101, -1.0), -1.0
    hits = np.cumsum(counted, dtype=float)
    precision = hits / (np.arange(len(hits)) + 1 + np.spacing(1)) if len(hits) else np.zeros(0)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(hits / positives, np.linspace(0, 1, 101), side="left")
    return np.append(precision, 0.0)[np.minimum(at, len(precision))], float(sum(counted)) / positives


@pytest.mark.parametrize("seed", seeds(2))
def test_precision_is_that_of_a_plain_evaluator(seed: int) -> None:
    scene = random_scene(40 + seed)
    thresholds = [0.3, 0.5, 0.75]
    got = evaluate(scene, iou_thresholds=thresholds, extended_summary=True)["precision"]
    for k in range(3):
        for t, threshold in enumerate(thresholds):
            expected, _ = plain_curve(scene, k, threshold)
            assert np.allclose(got[t, :, k, 0, -1].numpy(), expected, rtol=1e-15, atol=0), (k, threshold)
    assert 0.05 < float(got[got >= 0].mean()) < 0.95


@pytest.mark.parametrize("seed", seeds(2))
def test_recall_is_that_of_a_plain_evaluator(seed: int) -> None:
    """Also the mean over classes and thresholds, at each limit of detections."""
    scene, thresholds, limits = random_scene(60 + seed), [0.3, 0.5, 0.75], [1, 3, 100]
    choices: dict[str, Any] = {"iou_thresholds": thresholds, "max_detection_thresholds": limits}
    got = evaluate(scene, **choices, extended_summary=True)
    for m, limit in enumerate(limits):
        expected = np.array([[plain_curve(scene, k, t, limit)[1] for k in range(3)] for t in thresholds])
        assert np.allclose(got["recall"][:, :, 0, m].numpy(), expected, rtol=1e-15, atol=0), limit
        assert float(got[f"mar_{limit}"]) == pytest.approx(expected[expected >= 0].mean(), rel=1e-6)
    assert 0 < float(got["mar_1"]) < float(got["mar_100"]) < 1


def test_formats_agree() -> None:
    """Corners, radians and the other direction give the same precision; the IoUs differ by rounding."""
    scene = random_scene(50)
    expected = evaluate(scene)
    clockwise = torch.tensor([1.0, 1, 1, 1, -1])
    radians = torch.tensor([1.0, 1, 1, 1, math.pi / 180])
    assert_equal(evaluate(with_boxes(scene, corners), box_format="xyxyxyxy"), expected)
    assert_equal(evaluate(with_boxes(scene, lambda b: b * clockwise), angle_direction="clockwise"), expected)
    turned = with_boxes(scene, lambda b: b * clockwise * radians)
    assert_equal(evaluate(turned, angle_unit="radians", angle_direction="clockwise"), expected)


@pytest.mark.parametrize("names", [{}, {"angle_unit": "radians"}, {"angle_direction": "clockwise"},
                                   {"box_format": "xyxyxyxy"}])  # fmt: skip
def test_ious_are_those_of_rotated_box_iou(names: dict[str, str]) -> None:
    corner = names.get("box_format") == "xyxyxyxy"
    scene = with_boxes(random_scene(51, images=4), corners) if corner else random_scene(51, images=4)
    ious = evaluate(scene, extended_summary=True, **names)["ious"]
    for image, (pred, true) in enumerate(zip(*scene)):
        for label in range(3):
            d, g = pred["labels"] == label, true["labels"] == label
            if not (d.any() and g.any()):
                assert ious[image, label] == []
                continue
            order = torch.sort(pred["scores"][d], descending=True, stable=True).indices
            sides = pred["boxes"][d][order], true["boxes"][g]
            expected = rotated_box_iou(*sides, crowd=true["iscrowd"][g] != 0, **{"box_format": "cxcywha", **names})
            assert (
                ious[image, label].tolist()
                == (expected.float() if expected.numel() > 1 else expected.float().squeeze()).tolist()
            )


def test_half_precision_corners_of_thin_boxes_keep_their_iou() -> None:
    """They are convex as far as float16 can tell, and so they stay when an extended summary compares them again."""
    thin = corners(torch.tensor([[700.0, 900.0, 150.0, 0.4, 33.0]], dtype=torch.float64)).half()
    scene: Scene = ([{"boxes": thin, "scores": torch.ones(1), "labels": torch.zeros(1).long()}],
                    [{"boxes": thin, "labels": torch.zeros(1).long()}])  # fmt: skip
    got = evaluate(scene, box_format="xyxyxyxy", extended_summary=True)
    assert float(got["map"]) == 1 and float(got["ious"][0, 0]) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_dtypes_become_float64_first(dtype: torch.dtype) -> None:
    scene = with_boxes(random_scene(52), lambda boxes: boxes.to(dtype))
    assert_equal(evaluate(scene), evaluate(with_boxes(scene, Tensor.double)))
    mixed = [{**item, "boxes": item["boxes"].double() if i % 2 else item["boxes"]} for i, item in enumerate(scene[0])]
    assert_equal(evaluate((mixed, scene[1])), evaluate(scene))


def test_padded_batches_give_what_lists_give() -> None:
    scene = random_scene(53)

    def padded(items: list[dict[str, Tensor]], keys: tuple[str, ...]) -> dict[str, Tensor]:
        pad = torch.nn.utils.rnn.pad_sequence
        out = {key: pad([item[key] for item in items], batch_first=True, padding_value=-1) for key in keys}
        return {**out, "counts": torch.tensor([len(item["labels"]) for item in items])}

    sides = padded(scene[0], ("boxes", "scores", "labels")), padded(scene[1], ("boxes", "labels", "iscrowd"))
    metric = MeanAveragePrecision(iou_type="rotated", box_format="cxcywha", extended_summary=True)
    metric.update(sides[0], {**sides[1], "image_id": torch.arange(len(scene[1]))})
    assert_equal(metric.compute(), evaluate(scene, extended_summary=True))


def test_no_bit_depends_on_batches_or_their_order() -> None:
    scene = with_boxes(random_scene(54), lambda boxes: boxes.float())
    without = ([*scene[0]], [{key: value for key, value in item.items() if key != "image_id"} for item in scene[1]])
    expected = evaluate(without, batch=1)
    for batch in (2, 5, 12):
        assert_equal(evaluate((without[0][::-1], without[1][::-1]), batch), expected)


def test_areas_are_exact_and_may_be_given() -> None:
    """32 x 32 at any angle is small and medium; an area that the user gives wins."""
    for angle in (0.0, 30.0, 45.0):
        box = torch.tensor([[100.0, 100.0, 32.0, 32.0, angle]], dtype=torch.float64)
        pred = [{"boxes": box, "scores": torch.ones(1), "labels": torch.zeros(1).long()}]
        got = evaluate((pred, [{"boxes": box, "labels": torch.zeros(1).long()}]))
        assert [float(got[f"map_{size}"]) for size in ("small", "medium", "large")] == [1, 1, -1]
        given = {"boxes": box, "labels": torch.zeros(1).long(), "area": torch.tensor([1e4])}
        assert float(evaluate((pred, [given]))["map_large"]) == 1


def test_pickle_copy_merge_and_result() -> None:
    scene = random_scene(55)
    metric = MeanAveragePrecision(iou_type="rotated", box_format="cxcywha", angle_unit="radians", extended_summary=True)
    metric.update(scene[0][:6], scene[1][:6])
    other = pickle.loads(pickle.dumps(copy.deepcopy(metric)))
    other.reset()
    other.update(scene[0][6:], scene[1][6:])
    metric.merge_state(other)
    assert_equal(metric.compute(), evaluate(scene, angle_unit="radians", extended_summary=True))
    result = metric.result()
    assert result.signature["iou_type"] == "rotated" and result.signature["angle_unit"] == "radians"
    assert result.counts["detections_of_negative_size"] == 0
    plain = MeanAveragePrecision(iou_type="rotated", box_format="cxcywha", extended_summary=True)
    with pytest.raises(SyncError, match="has another config"):
        plain.merge_state(metric)


def test_tv_tensors_in_their_own_format() -> None:
    tv_tensors = pytest.importorskip("torchvision.tv_tensors", reason="torchvision is not installed")
    if not hasattr(tv_tensors.BoundingBoxFormat, "CXCYWHR"):
        pytest.skip("this torchvision has no rotated boxes")
    scene = random_scene(56)
    wrapped = with_boxes(scene, lambda b: tv_tensors.BoundingBoxes(b, format="CXCYWHR", canvas_size=(300, 300)))
    assert_equal(evaluate(wrapped, angle_unit="radians", angle_direction="clockwise"), evaluate(scene))
    as_corners = with_boxes(
        scene, lambda b: tv_tensors.BoundingBoxes(corners(b), format="XYXYXYXY", canvas_size=(300, 300))
    )
    assert_equal(evaluate(as_corners, box_format="xyxyxyxy"), evaluate(scene))
    upright = with_boxes(scene, lambda b: tv_tensors.BoundingBoxes(b[:, :4], format="CXCYWH", canvas_size=(300, 300)))
    with pytest.raises(InputError, match=r"preds\[0\]\['boxes'\] must"):
        evaluate(upright)


BOX = torch.tensor([[50.0, 50, 20, 10, 30]])
ONE = {"boxes": BOX, "scores": torch.ones(1), "labels": torch.zeros(1).long()}


@pytest.mark.parametrize(
    ("pred", "choices", "said"),
    [
        ({"boxes": BOX[:, :4]}, {}, r"preds\[0\]\['boxes'\] must have shape \[1, 5\]"),
        ({"boxes": BOX}, {"box_format": "xyxyxyxy"}, r"preds\[0\]\['boxes'\] must have shape \[1, 8\]"),
        ({"boxes": BOX * -1}, {}, r"preds\[0\]\['boxes'\]\[0\] must have a width and a height of at least 0"),
        ({"boxes": BOX * math.nan}, {}, r"preds\[0\]\['boxes'\]\[0\] must be finite"),
        ({"scores": torch.tensor([math.nan])}, {}, r"preds\[0\]\['scores'\]\[0\] must not be NaN"),
    ],
)
def test_bad_rows_are_named_and_change_nothing(pred: dict[str, Tensor], choices: dict[str, str], said: str) -> None:
    metric = MeanAveragePrecision(**{"iou_type": "rotated", "box_format": "cxcywha", **choices})
    with pytest.raises(InputError, match=said):
        metric.update([{**ONE, **pred}], [{"boxes": torch.zeros(0), "labels": torch.zeros(0).long()}])
    assert metric.state().images.shape[0] == 0


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (
            {"iou_type": "rotated"},
            "box_format must be one of 'xyxyxyxy', 'cxcywha' but got 'xyxy': that needs iou_type='bbox'",
        ),
        ({"iou_type": "rotated", "box_format": "yxyx"}, "box_format must be one of .*, 'cxcywha' but got 'yxyx'$"),
        (
            {"iou_type": "bbox", "box_format": "cxcywha"},
            "box_format must be one of 'xyxy', 'xywh', 'cxcywh' but got 'cxcywha': that needs iou_type='rotated'",
        ),
        ({"iou_type": 3}, "iou_type must be str or list or tuple but got int"),
        ({"angle_unit": "radians"}, "angle_unit must be 'degrees' but got 'radians': only iou_type='rotated'"),
        ({"iou_type": "rotated", "box_format": "xyxyxyxy", "angle_direction": "clockwise"}, "angle_direction must be"),
        (
            {"iou_type": "rotated", "box_format": "cxcywha", "angle_unit": "turns"},
            "angle_unit must be one of 'degrees'",
        ),
        ({"iou_type": ["bbox", "rotated"]}, r"iou_type must be one name, or .* but got \['bbox', 'rotated'\]"),
    ],
)
def test_arguments_are_checked(choices: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        MeanAveragePrecision(**choices)
