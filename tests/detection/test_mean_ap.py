"""MeanAveragePrecision: equal to pycocotools by image id and to torchmetrics by arrival; its state and its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics.detection import MeanAveragePrecision as TorchmetricsMAP

from testing.coco_scenes import FIRST_ID, ID_STEP, dataset, evaluated, scored_scene
from testing.scenes import Scene, random_scene
from tests.fuzz import seeds
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.inputs import boxes as box_inputs

Batch = tuple[list[dict[str, Any]], list[dict[str, Any]]]
STATS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100", "mar_small",
         "mar_medium", "mar_large")  # fmt: skip
GRIDS = dict(iou_thresholds=np.linspace(0.5, 0.95, 10).tolist(), rec_thresholds=np.linspace(0, 1, 101).tolist())


def inputs(scene: Scene, ids: bool = False, dtype: torch.dtype | None = None) -> Batch:
    """A scene as users hand it over; image i has id 3 + 7 i."""
    preds = [dict(boxes=b, scores=s, labels=k) for b, s, k in zip(scene.boxes, scene.scores, scene.labels)]
    columns = zip(scene.gt_boxes, scene.gt_labels, scene.crowds, scene.areas)
    target = [dict(boxes=b, labels=k, iscrowd=c, area=a) for b, k, c, a in columns]
    if dtype is not None:
        preds = [dict(p, boxes=p["boxes"].to(dtype), scores=p["scores"].to(dtype)) for p in preds]
        target = [dict(t, boxes=t["boxes"].to(dtype), area=t["area"].to(dtype)) for t in target]
    if ids:
        for i, item in enumerate(target):
            item["image_id"] = FIRST_ID + ID_STEP * i
    return preds, target


def fed(metric: MeanAveragePrecision, preds: list[Any], target: list[Any], order: Any = None, size: int = 3) -> Any:
    order = range(len(preds)) if order is None else order
    order = list(order)
    for at in range(0, len(order), size):
        metric.update([preds[i] for i in order[at : at + size]], [target[i] for i in order[at : at + size]])
    return metric


@pytest.mark.parametrize("seed", seeds(8))
def test_ids_give_the_bits_of_pycocotools_in_any_order(seed: int) -> None:
    scene = scored_scene(seed, images=11)
    stats = evaluated(*dataset(scene)).stats
    preds, target = inputs(scene, ids=True)
    order = np.random.default_rng(seed).permutation(11)
    values = fed(MeanAveragePrecision("xywh"), preds, target, order, size=1 + seed).result().values
    for name, stat in zip(STATS, stats):
        assert values[name] == stat or (stat == -1 and np.isnan(values[name])), name


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("class_metrics", [False, True])
@pytest.mark.parametrize("extended", [False, True])
def test_arrival_order_equals_torchmetrics(average: str, class_metrics: bool, extended: bool) -> None:
    choices = dict(average=average, class_metrics=class_metrics, extended_summary=extended, **GRIDS)
    ours = MeanAveragePrecision("xywh", tie_order="arrival", **choices)
    theirs = TorchmetricsMAP("xywh", **choices)
    for seed in range(3):
        batch = inputs(random_scene(np.random.default_rng(seed), dtype=torch.float32), dtype=torch.float32)
        ours.update(*batch)
        theirs.update(*batch)
    mine, other = ours.compute(), theirs.compute()
    assert set(mine) == set(other)
    if extended:
        a, b = mine.pop("ious"), other.pop("ious")
        assert a.keys() == b.keys()
        assert all(torch.equal(torch.as_tensor(a[cell]), torch.as_tensor(b[cell])) for cell in a)
    for name, value in other.items():
        assert torch.equal(mine[name], value) and mine[name].dtype == value.dtype, name


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_box_formats_equal_torchmetrics(box_format: str) -> None:
    ours, theirs = MeanAveragePrecision(box_format, tie_order="arrival", **GRIDS), TorchmetricsMAP(box_format, **GRIDS)
    scene = random_scene(np.random.default_rng(3), images=12, dtype=torch.float32)
    for boxes in (*scene.boxes, *scene.gt_boxes):
        if box_format == "xyxy":
            boxes[:, 2:] += boxes[:, :2]
    batch = inputs(scene, dtype=torch.float32)
    ours.update(*batch)
    theirs.update(*batch)
    other = theirs.compute()
    assert all(torch.equal(value, other[name]) for name, value in ours.compute().items())


def test_documented_example_of_torchmetrics() -> None:
    preds = [dict(boxes=torch.tensor([[258.0, 41.0, 606.0, 285.0]]), scores=torch.tensor([0.536]),
                  labels=torch.tensor([0]))]  # fmt: skip
    target = [dict(boxes=torch.tensor([[214.0, 41.0, 562.0, 285.0]]), labels=torch.tensor([0]))]
    metric = MeanAveragePrecision(iou_type="bbox")
    metric.update(preds, target)
    value = metric.compute()
    expected = dict(map=0.6, map_50=1.0, map_75=1.0, map_small=-1.0, map_medium=-1.0, map_large=0.6, mar_1=0.6,
                    mar_10=0.6, mar_100=0.6, mar_small=-1.0, mar_medium=-1.0, mar_large=0.6, classes=0.0,
                    map_per_class=-1.0, mar_100_per_class=-1.0)  # fmt: skip
    assert {name: round(float(v), 4) for name, v in value.items()} == expected


def test_any_split_and_order_gives_the_same_bits_without_ids() -> None:
    scene = random_scene(np.random.default_rng(2), images=30)
    scene.scores = [(s * 4).round() / 4 for s in scene.scores]
    preds, target = inputs(scene)
    first = fed(MeanAveragePrecision("xywh"), preds, target, size=30).result().values
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(30)
        again = fed(MeanAveragePrecision("xywh"), preds, target, order, size=1 + 3 * seed).result().values
        assert all(again[name] == first[name] or np.isnan(first[name]) for name in STATS)


def padded(preds: list[Any], target: list[Any]) -> list[dict[str, torch.Tensor]]:
    """The images as two dicts of padded tensors; padding rows hold values that would be matched."""
    pad = torch.nn.utils.rnn.pad_sequence
    sides = [
        {key: pad([item[key] for item in side], batch_first=True, padding_value=3) for key in keys}
        for side, keys in ((preds, ("boxes", "scores", "labels")), (target, ("boxes", "labels", "iscrowd", "area")))
    ]
    for item, side in zip(sides, (preds, target)):
        item["counts"] = torch.tensor([len(x["labels"]) for x in side], dtype=torch.int32)
    return sides


@pytest.mark.parametrize(
    "choices", [{}, dict(extended_summary=True), dict(average="micro", class_metrics=True, extended_summary=True)]
)
def test_packed_batch_equals_lists(choices: dict[str, Any]) -> None:
    scene = random_scene(np.random.default_rng(4), images=7, dtype=torch.float32)
    preds, target = inputs(scene)
    packed = padded(preds, target)
    columns = [dict(side, boxes=side["boxes"].mT.contiguous().mT) for side in packed]  # not contiguous
    metrics = [MeanAveragePrecision("xywh", **choices) for _ in range(3)]
    for metric, batch in zip(metrics, ((preds, target), packed, columns)):
        metric.update(*batch)
    states = [metric.state().tensors().values() for metric in metrics]
    for tensors in zip(*states):
        assert torch.equal(tensors[0], tensors[1]) and torch.equal(tensors[0], tensors[2])


def test_padded_batch_without_counts_is_full() -> None:
    preds = {"boxes": torch.rand(2, 3, 4) * 50, "scores": torch.rand(2, 3), "labels": torch.zeros(2, 3).long()}
    target = {"boxes": preds["boxes"][:, :0], "labels": preds["labels"][:, :0]}
    one, other = MeanAveragePrecision("xywh"), MeanAveragePrecision("xywh")
    one.update(preds, target)
    other.update(*([{key: side[key][i] for key in side} for i in range(2)] for side in (preds, target)))
    for a, b in zip(one.state().tensors().values(), other.state().tensors().values()):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("side", "name"), [(0, "preds"), (1, "target")])
@pytest.mark.parametrize("count", [-1, 10_000, 2**62])
def test_counts_beyond_the_padding_are_named(side: int, name: str, count: int) -> None:
    packed = padded(*inputs(random_scene(np.random.default_rng(4), images=3, dtype=torch.float32)))
    packed[side]["counts"] = packed[side]["counts"].long()
    packed[side]["counts"][1] = count
    metric = MeanAveragePrecision("xywh")
    with pytest.raises(InputError, match=rf"{name}\['counts'\]\[1\] must lie between 0 and \d+ but is {count}"):
        metric.update(*packed)
    assert metric.update_count == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened_before_conversion(dtype: torch.dtype) -> None:
    scene = random_scene(np.random.default_rng(6), images=9)
    half = inputs(scene, dtype=dtype)
    wide = [[{k: v.float() if v.is_floating_point() else v for k, v in item.items()} for item in side] for side in half]
    one, other = MeanAveragePrecision("cxcywh"), MeanAveragePrecision("cxcywh")
    one.update(*half)
    other.update(*wide)
    assert torch.equal(one.state().detections, other.state().detections)


def test_tv_tensors_bring_their_own_format() -> None:
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    scene = random_scene(np.random.default_rng(8), images=5, dtype=torch.float32)
    preds, target = inputs(scene)
    wrapped = [
        dict(p, boxes=tv_tensors.BoundingBoxes(p["boxes"], format="XYWH", canvas_size=(300, 300))) for p in preds
    ]
    one, other = MeanAveragePrecision("xywh"), MeanAveragePrecision("xyxy")
    one.update(preds, target)
    xyxy = [dict(t, boxes=torch.cat((t["boxes"][:, :2], t["boxes"][:, :2] + t["boxes"][:, 2:]), 1)) for t in target]
    other.update(wrapped, xyxy)
    assert torch.equal(one.state().detections[:, :13], other.state().detections[:, :13])
    assert torch.equal(MeanAveragePrecision("xywh")(wrapped, target)["map"], one.compute()["map"])


def test_mixed_dtypes_strides_and_gradients() -> None:
    scene = random_scene(np.random.default_rng(10), images=6)
    preds, target = inputs(scene)
    plain = MeanAveragePrecision("xywh")
    plain.update(preds, target)
    odd = []
    for i, p in enumerate(preds):
        table = torch.cat((p["boxes"], p["scores"][:, None]), 1).requires_grad_(i % 2 == 0)
        odd.append(
            dict(boxes=table[:, :4], scores=table[:, 4], labels=p["labels"].to([torch.int32, torch.int64][i % 2]))
        )
    odd_target = [dict(t, labels=t["labels"].to([torch.uint8, torch.int16][i % 2])) for i, t in enumerate(target)]
    other = MeanAveragePrecision("xywh")
    other.update(odd, odd_target)
    assert torch.equal(plain.state().detections, other.state().detections)
    assert not other.state().detections.requires_grad


def test_state_takes_at_most_24_bytes_a_detection() -> None:
    generator = torch.Generator().manual_seed(0)
    boxes = torch.rand((16, 100, 4), generator=generator) * 100
    boxes[..., 2:] += boxes[..., :2]
    preds = [dict(boxes=b, scores=torch.rand(100, generator=generator), labels=torch.arange(100)) for b in boxes]
    target = [dict(boxes=b[:7], labels=torch.arange(7)) for b in boxes]
    metric = MeanAveragePrecision()
    metric.update(preds, target)
    tables = metric.state().tensors().values()
    assert sum(t.numel() * t.element_size() for t in tables) <= 24 * 1600
    detection, ground_truth, image = (t.shape[1] * t.element_size() for t in tables)
    said = f"keeps {detection} bytes per detection, {ground_truth} per ground truth and {image} per image, for each"
    assert said in " ".join((MeanAveragePrecision.__doc__ or "").split())


def test_repeated_images_count_once_whatever_the_copy() -> None:
    scene = scored_scene(12, images=6)
    preds, target = inputs(scene, ids=True)
    k = max(range(6), key=lambda i: min(len(scene.scores[i]), len(scene.gt_labels[i])))
    assert len(preds[k]["scores"]) > 1
    other = dict(preds[k], scores=preds[k]["scores"].flip(0))

    def with_copies(*copies: Any) -> Any:
        order = [*preds[:k], *copies, *preds[k + 1 :]]
        repeated = [*target[:k], *[target[k]] * len(copies), *target[k + 1 :]]
        return fed(MeanAveragePrecision("xywh"), order, repeated).result()

    with pytest.warns(UserWarning, match=rf"the first is {FIRST_ID + ID_STEP * k}\) came before .* other detections"):
        results = [with_copies(preds[k], other, preds[k]), with_copies(other, preds[k], other)]
    assert all(result.counts["repeated_images"] == 2 and result.counts["images"] == 6 for result in results)
    assert results[0].scalars() == pytest.approx(results[1].scalars(), abs=0, nan_ok=True)
    alone = [with_copies(copy).scalars() for copy in (preds[k], other)]
    assert alone[0]["map"] != alone[1]["map"] and results[0].scalars()["map"] in (alone[0]["map"], alone[1]["map"])
    once = fed(MeanAveragePrecision("xywh"), preds, target).result()
    same = fed(MeanAveragePrecision("xywh"), [*preds, *preds], [*target, *target]).result()
    assert same.scalars() == pytest.approx(once.scalars(), abs=0, nan_ok=True)


def test_a_constant_id_on_images_without_objects_is_reported() -> None:
    preds, target = inputs(scored_scene(12, images=4), ids=True)
    nothing = {key: target[0][key][:0] for key in ("boxes", "labels", "iscrowd", "area")}
    metric = fed(MeanAveragePrecision("xywh"), preds, [dict(nothing, image_id=0) for _ in preds])
    found = len({len(p["scores"]) for p in preds})
    assert found > 1
    with pytest.warns(UserWarning, match=r"image_id \(the first is 0\) came before with the same ground truth"):
        metric.compute()


@pytest.mark.parametrize("swap", [False, True])
def test_one_id_with_two_ground_truths_is_rejected_in_either_order(swap: bool) -> None:
    preds, target = inputs(scored_scene(14), ids=True)
    pair = sorted(range(len(preds)), key=lambda i: len(target[i]["labels"]))[-2:]
    metric = MeanAveragePrecision("xywh")
    for i in pair[::-1] if swap else pair:
        metric.update([preds[i]], [dict(target[i], image_id=5)])
    with pytest.raises(InputError, match="image_id 5 must name one image but came with two different ground truths"):
        metric.compute()


def test_images_with_and_without_ids_keep_one_order() -> None:
    scene = scored_scene(21, images=8)
    preds, target = inputs(scene, ids=True)
    for item in target[::2]:
        del item["image_id"]
    results = []
    for order in (range(8), [5, 2, 7, 0, 3, 6, 1, 4]):
        metric = MeanAveragePrecision("xywh")
        for i in order:
            metric.update([preds[i]], [target[i]])
        results.append(metric.result().scalars())
    assert results[0] == pytest.approx(results[1], abs=0, nan_ok=True)


def test_a_constant_id_cannot_erase_a_data_set() -> None:
    preds, target = inputs(scored_scene(14), ids=True)
    for item in target:
        item["image_id"] = 0
    metric = fed(MeanAveragePrecision("xywh"), preds, target)
    with pytest.raises(InputError, match="image_id 0 must name one image but came with two different ground truths"):
        metric.compute()


def test_tie_interval_holds_every_order_of_tied_scores() -> None:
    scene = random_scene(np.random.default_rng(16), images=4, classes=1)
    scene.scores = [(s > 0.5).double() for s in scene.scores]
    preds, target = inputs(scene, ids=True)
    result = fed(MeanAveragePrecision("xywh"), preds, target).result(tie_interval=True)
    low, high = (result.values["map_tie_interval"][name] for name in ("lowest", "highest"))
    found = []
    for seed in seeds(40):
        ids = np.random.default_rng(seed).permutation(4)
        renamed = [dict(t, image_id=int(i)) for t, i in zip(target, ids)]
        found.append(fed(MeanAveragePrecision("xywh"), preds, renamed).result().values["map"])
    assert low < min(found) < max(found) < high


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_boxes_of_negative_width_or_height_are_counted(average: str) -> None:
    """As boxes xywh are when they are read as xyxy."""
    boxes = torch.tensor([[50.0, 9, 10, 10], [9, 50, 10, 10], [0, 0, 10, 10], [50, 50, 10, 10]])
    labels = torch.tensor([0, 1, 1, 1])
    target = [dict(boxes=boxes, labels=labels, iscrowd=torch.tensor([0, 0, 0, 1]), area=torch.full((4,), 9.0))]
    metric = MeanAveragePrecision(average=average)
    metric.update([dict(boxes=boxes[1:], scores=torch.ones(3), labels=labels[1:])] * 2, target * 2)
    counts = metric.result().counts
    assert counts["ground_truths_of_negative_size"] == 6 and counts["detections_of_negative_size"] == 4
    assert counts["detections_in_fractions"] == counts["ground_truths_in_fractions"] == 0


@pytest.mark.parametrize("side", ["detections", "ground_truths"])
def test_boxes_in_fractions_against_boxes_in_pixels_are_counted(side: str) -> None:
    pixels = torch.tensor([[10.0, 10, 200, 300], [0, 0, 50, 60]])
    fractions = {"detections": (pixels / 640, pixels), "ground_truths": (pixels, pixels / 640)}
    dt, gt = fractions[side]
    metric = MeanAveragePrecision()
    for image in range(3):  # a repeated image counts once
        one = dict(image_id=min(image, 1), boxes=gt, labels=torch.tensor([0, 0]))
        metric.update([dict(boxes=dt, scores=torch.ones(2), labels=torch.tensor([0, 1]))], [one])
    counts = metric.result().counts
    others = {"detections", "ground_truths"} - {side}
    assert counts[f"{side}_in_fractions"] == 4 and counts[f"{others.pop()}_in_fractions"] == 0


def test_boxes_in_fractions_on_both_sides_are_not_doubtful() -> None:
    boxes = torch.tensor([[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.4, 0.9]])
    metric = MeanAveragePrecision()
    metric.update([dict(boxes=boxes, scores=torch.ones(2), labels=torch.tensor([0, 1]))],
                  [dict(boxes=boxes, labels=torch.tensor([0, 1]))])  # fmt: skip
    assert not any(count for name, count in metric.result().counts.items() if "fraction" in name or "negative" in name)


def test_result_says_what_was_counted_and_why_a_number_is_missing() -> None:
    preds = [dict(boxes=torch.tensor([[0.0, 0, 10, 10]] * 3), scores=torch.tensor([0.9, 0.8, 0.7]),
                  labels=torch.tensor([0, 0, 1]))]  # fmt: skip
    target = [
        dict(boxes=torch.tensor([[0.0, 0, 10, 10]] * 2), labels=torch.tensor([0, 0]), iscrowd=torch.tensor([0, 1]))
    ]
    metric = MeanAveragePrecision(iou_thresholds=[0.5], max_detection_thresholds=[1])
    metric.warn_on_many_detections = False
    metric.update(preds, target)
    result = metric.result()
    counted = dict(images=1, repeated_images=0, ground_truths=2, ignored_ground_truths=1, detections=3)
    doubtful = [f"{side}_{kind}" for kind in ("of_negative_size", "in_fractions")
                for side in ("detections", "ground_truths")]  # fmt: skip
    assert dict(result.counts) == dict(counted, detections_beyond_limit=1, **dict.fromkeys(doubtful, 0))
    assert result.reason("map_75") == "0.75 is not among the iou_thresholds"
    assert result.reason("map_large") == "no ground truth counts for it"
    assert result.values["map"] == result.values["map_per_class"]["0"] == pytest.approx(1.0)
    assert np.isnan(result.values["map_per_class"]["1"])
    assert result.to_dict()["values"]["map_large"] is None


@pytest.mark.parametrize("tie_order", ["image", "arrival"])
def test_the_signature_names_the_order_of_ties(tie_order: str) -> None:
    metric = MeanAveragePrecision(tie_order=tie_order)
    metric.update(*one_image(0.5))
    assert metric.result().signature["tie_order"] == tie_order


def one_image(width: float) -> Batch:
    """An image with id 7 and a detection that is ``width`` of its ground truth."""
    box = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    preds = [{"boxes": box * width, "scores": torch.tensor([0.5]), "labels": torch.tensor([1])}]
    return preds, [{"boxes": box, "labels": torch.tensor([1]), "image_id": 7}]


@pytest.mark.parametrize("widths", [(0.9, 1.0), (1.0, 0.9), (0.8, 0.95), (0.95, 0.8)])
def test_of_copies_with_other_detections_the_smallest_record_hash_is_kept(widths: tuple[float, float]) -> None:
    both = MeanAveragePrecision()
    alone = {}
    for width in widths:
        both.update(*one_image(width))
        copy = MeanAveragePrecision()
        copy.update(*one_image(width))
        alone[int(copy.state().images[0, 3])] = copy.compute()["map"]
    assert len(set(map(float, alone.values()))) == 2
    with pytest.warns(UserWarning, match="came before with the same ground truth but other detections"):
        assert both.compute()["map"] == alone[min(alone)]


def test_columns_that_are_left_out_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the shapes of a good batch were looked at one by one")

    monkeypatch.setattr(box_inputs, "check_shapes", fail)
    metric = MeanAveragePrecision()
    metric.update(*one_image(1.0))
    assert float(metric.compute()["map"]) == 1.0


def test_result_plots_one_line_a_threshold() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    preds, target = inputs(scored_scene(3, images=8))
    axes = fed(MeanAveragePrecision("xywh"), preds, target).result().plot()
    assert len(axes.lines) == 10 and axes.get_xlabel() == "recall"


def test_any_list_of_limits_gives_a_key_each() -> None:
    preds, target = inputs(scored_scene(5))
    value = fed(MeanAveragePrecision("xywh", max_detection_thresholds=[300, 2]), preds, target).compute()
    assert {"mar_2", "mar_300", "mar_300_per_class"} <= set(value) and float(value["map"]) >= 0


def test_no_image_gives_minus_one_and_nan() -> None:
    metric = MeanAveragePrecision(class_metrics=True)
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert float(metric.compute()["map"]) == -1.0
    assert np.isnan(metric.result().values["map"])


BOX, ONE = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1])
PRED, TRUE = dict(boxes=BOX, scores=torch.tensor([0.5]), labels=ONE), dict(boxes=BOX, labels=ONE)
BAD = {
    "not_a_list": (3, [TRUE], "preds must be a sequence of dicts"),
    "lengths": ([PRED], [TRUE, TRUE], "target must have one dict per image like preds, 1 but has 2"),
    "missing_key": (
        [dict(boxes=BOX, labels=ONE)],
        [TRUE],
        r"preds\[0\] must have key 'scores' but has \['boxes', 'labels'\]",
    ),
    "not_a_dict": ([[BOX]], [TRUE], r"preds\[0\] must be Mapping but got list"),
    "not_a_tensor": (
        [dict(PRED, scores=0.5)],
        [TRUE],
        r"preds\[0\]\['scores'\] must be Tensor or ndarray or list or tuple but got float",
    ),
    "box_rows": ([dict(PRED, boxes=torch.zeros(2, 4))], [TRUE], r"preds\[0\]\['boxes'\] must have shape \[1, 4\]"),
    "box_columns": ([dict(PRED, boxes=torch.zeros(4, 1))], [TRUE], r"preds\[0\]\['boxes'\] must have shape \[1, 4\]"),
    "scores": ([dict(PRED, scores=torch.zeros(3))], [TRUE], r"preds\[0\]\['scores'\] must have shape \[1\]"),
    "crowd": ([PRED], [dict(TRUE, iscrowd=torch.zeros(2))], r"target\[0\]\['iscrowd'\] must have shape \[1\]"),
    "float_labels": ([dict(PRED, labels=ONE.float())], [TRUE], r"preds\[0\]\['labels'\] must be integer but is"),
    "bool_boxes": (
        [PRED],
        [dict(TRUE, boxes=BOX.bool())],
        r"target\[0\]\['boxes'\] must be floating point or integer but is",
    ),
    "nan_score": (
        [dict(PRED, scores=torch.tensor([torch.nan]))],
        [TRUE],
        r"preds\[0\]\['scores'\]\[0\] must not be NaN",
    ),
    "inf_box": ([PRED], [dict(TRUE, boxes=BOX / 0)], r"target\[0\]\['boxes'\]\[0\] must be finite"),
    "half_ids": ([PRED] * 2, [dict(TRUE, image_id=1), TRUE], r"target\[1\] must have key 'image_id'"),
    "float_id": ([PRED], [dict(TRUE, image_id=1.5)], r"target\[0\]\['image_id'\] must be an int"),
    "huge_id": ([PRED], [dict(TRUE, image_id=2**63)], r"target\[0\]\['image_id'\] must fit in int64"),
    "one_image": (PRED, TRUE, r"preds must be a dict of padded tensors .* put it in a list"),
    "packed_shape": (dict(PRED, labels=PRED["labels"][None]), TRUE, r"preds\['boxes'\] must have shape \[B, N, 4\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_and_changes_nothing(name: str) -> None:
    metric = MeanAveragePrecision()
    metric.update([PRED], [TRUE])
    before = [t.clone() for t in metric.state().tensors().values()]
    with pytest.raises(InputError, match=BAD[name][2]):
        metric.update(BAD[name][0], BAD[name][1])
    assert all(torch.equal(a, b) for a, b in zip(before, metric.state().tensors().values()))
    assert metric.update_count == 1 and float(metric.compute()["map"]) == 1.0


CONSTRUCTOR = {
    "box_format": (dict(box_format="yxyx"), "box_format must be one of"),
    "iou_type": (dict(iou_type="mask"), "iou_type must be one of 'bbox', 'segm', .* but got 'mask'"),
    "iou_thresholds": (dict(iou_thresholds=[]), "iou_thresholds must hold at least one finite number"),
    "rec_thresholds": (dict(rec_thresholds=0.5), "rec_thresholds must be list"),
    "max_detection_thresholds": (dict(max_detection_thresholds=[0, 1]), "must hold at least one positive int"),
    "average": (dict(average="weighted"), "average must be one of 'macro', 'micro'"),
    "class_metrics": (dict(class_metrics=1), "class_metrics must be bool"),
    "tie_order": (dict(tie_order="random"), "tie_order must be one of 'image', 'arrival'"),
}


@pytest.mark.parametrize("name", CONSTRUCTOR)
def test_constructor_names_the_argument(name: str) -> None:
    with pytest.raises(InputError, match=CONSTRUCTOR[name][1]):
        MeanAveragePrecision(**CONSTRUCTOR[name][0])


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(iou_thresholds=[50, 75]), r"iou_thresholds must lie between 0 and 1 but got \[50\.0, 75\.0\]"),
        (dict(iou_thresholds=[-0.5]), "iou_thresholds must lie between 0 and 1"),
        (dict(rec_thresholds=[0, 5]), r"rec_thresholds must lie between 0 and 1 but got \[0\.0, 5\.0\]"),
        (dict(iou_thresholds=["0.5"]), r"iou_thresholds must hold numbers but got \['0\.5'\]"),
        (dict(max_detection_thresholds=list(range(1, 300))), "must hold 1 to 254 different numbers .* but got 299: "),
        (dict(max_detection_thresholds=[5, 5]), "must hold 1 to 254 different numbers .* but got 2"),
        (dict(max_detection_thresholds=[2**63]), "different numbers up to 2147483647"),
    ],
)
def test_thresholds_that_cannot_be_meant_are_rejected(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MeanAveragePrecision(**choices)
