"""Binned mean average precision: bounds equal those of tied scores, and hold the exact numbers; memory is fixed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.datasets import CASES, make
from testing.scenes import random_scene
from tests.contract_boxes import boxes_batch, drawn_batch
from tests.fuzz import seeds
from valor_gpu import graphs, native
from valor_gpu.detection import BinnedMeanAveragePrecision, MeanAveragePrecision, binned_mean_ap
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.op import accumulate
from valor_gpu.ops.accumulate.record_rows import detection_scores
from valor_gpu.ops.accumulate.types import AccumulateChoices, RecordShape
from valor_gpu.ops.outcome_counts import op as outcome_counts
from valor_gpu.ops.outcome_counts.op import _bins
from valor_gpu.reduce.coco_summary import summary_picks

AREAS = ("all", "small", "medium", "large")


def batch_of(seed: int, images: int = 3, most: int = 20, **_: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Images with scores that seldom tie."""
    rng = np.random.default_rng([seed, 7])
    scene = random_scene(rng, images=images, most=most)
    preds = [
        dict(boxes=b, scores=torch.from_numpy(rng.random(len(k)) ** 2), labels=k)
        for b, k in zip(scene.boxes, scene.labels)
    ]
    truths = zip(scene.gt_boxes, scene.gt_labels, scene.crowds, scene.areas)
    return preds, [dict(boxes=b, labels=k, iscrowd=c, area=a, image_id=i) for i, (b, k, c, a) in enumerate(truths)]


def exact_bounds(metric: MeanAveragePrecision, octaves: int, bits: int) -> dict[str, tuple[float, float]]:
    """The numbers for both orders of tied scores, after the scores of the records were rounded to their bins."""
    state = metric.state()
    rows = state.detections.clone()
    rounded = _bins(detection_scores(rows), octaves, bits).double()
    rows[:, :8] = rounded.view(torch.uint8).reshape(-1, 8)
    picks = summary_picks(metric.iou_thresholds, metric.max_detection_thresholds, AREAS)
    choices = AccumulateChoices(
        RecordShape.of(metric._rule), np.array(metric.rec_thresholds), tuple(picks.values()), ties=("lowest", "highest")
    )
    found = accumulate(rows, state.ground_truths, state.images, choices)
    return dict(zip(picks, zip(*found.means.tolist())))


@pytest.mark.parametrize("seed", seeds(12))
def test_bounds_are_those_of_tied_scores(seed: int) -> None:
    bins, octaves = (1, 2, 16)[seed % 3], (1, 10)[seed % 2]
    exact = MeanAveragePrecision("xywh", max_detection_thresholds=[1, 3, 8])
    exact.warn_on_many_detections = False
    binned = BinnedMeanAveragePrecision(4, "xywh", max_detection_thresholds=[1, 3, 8], bins=bins, octaves=octaves)
    for part in range(3):
        batch = batch_of(3 * seed + part)
        for item in batch[1]:
            item["image_id"] += 10 * part
        exact.update(*batch)
        binned.update(*batch)
    values = binned.result().values
    for name, (low, high) in exact_bounds(exact, octaves, bins.bit_length() - 1).items():
        assert np.isclose(values[name], (low + high) / 2, rtol=0, atol=1e-14, equal_nan=True), name
        if name in values["error_bound"]:
            bound = values["error_bound"][name]
            assert np.isclose(bound, (high - low) / 2, rtol=0, atol=1e-14, equal_nan=True), name
        else:
            assert low == high or np.isnan(low)


def hostile_scores(kind: int, count: int, rng: np.random.Generator) -> Any:
    """Few values and one, logits, all magnitudes of float64 with both signs, and neighbours of the edges of bins."""
    if kind == 0:
        return rng.choice([0.0, 0.1, 0.5, 1.0], count)
    if kind == 1:
        return np.full(count, 0.5, np.float32)
    if kind == 2:
        return rng.normal(-1, 4, count)
    if kind == 3:
        return rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-320, 300, count)
    edges = 2.0 ** -rng.integers(0, 14, count) * (1 + rng.integers(0, 4, count) / 4)
    return np.nextafter(edges, rng.choice([-1.0, 2.0], count))


@pytest.mark.parametrize("group", [0, *(pytest.param(group, marks=pytest.mark.slow) for group in (1, 2, 3))])
def test_the_error_is_within_its_bound(group: int) -> None:
    errors = []
    for seed in range(250 * group, 250 * group + 250):
        batch = batch_of(seed, images=2, most=12)
        rng = np.random.default_rng([seed, 11])
        for pred in batch[0] if seed % 8 < 5 else ():  # scores that are drawn otherwise
            pred["scores"] = torch.from_numpy(hostile_scores(seed % 8, len(pred["labels"]), rng))
        limits = [1, 2, 4] if seed % 3 == 0 else None  # less than an image has of a class
        exact = MeanAveragePrecision("xywh", max_detection_thresholds=limits)
        exact.warn_on_many_detections = False
        binned = BinnedMeanAveragePrecision(4, "xywh", bins=(1, 4)[seed % 2], max_detection_thresholds=limits)
        exact.update(*batch)
        binned.update(*batch)
        values, own = exact.result().values, binned.result().values
        for name, bound in own["error_bound"].items():
            if np.isnan(values[name]):
                assert np.isnan(own[name]) and np.isnan(bound)
                continue
            errors.append(abs(own[name] - values[name]) - bound)
            assert errors[-1] <= 1e-12, (seed, name)
        recall = [name for name in values if name.startswith("mar_") and name != "mar_per_class"]
        assert all(own[name] == pytest.approx(values[name], abs=1e-12, nan_ok=True) for name in recall)
    assert len(errors) > 500 and max(errors) > -1e-3  # bounds are reached: not loose


def test_score_that_is_no_number_changes_nothing() -> None:
    preds, target = batch_of(3)
    metric = BinnedMeanAveragePrecision(4, "xywh")
    metric.update(preds, target)
    before = metric.to_bytes()
    preds[2]["scores"][1] = float("nan")
    with pytest.raises(InputError, match=r"preds\[2\]\['scores'\]\[1\] must not be NaN"):
        metric.update(preds, target)
    assert metric.to_bytes() == before


def test_bound_at_the_scale_of_val2017() -> None:
    data = make(CASES["val2017"], 400)
    metric = BinnedMeanAveragePrecision(80, "xywh")
    ends = [np.searchsorted(rows, np.arange(401)) for rows in (data.dt_image, data.gt_image)]
    for i in range(400):
        d, g = (slice(end[i], end[i + 1]) for end in ends)
        pred = dict(boxes=data.dt_box[d], scores=data.dt_score[d], labels=data.dt_category[d])
        true = dict(boxes=data.gt_box[g], labels=data.gt_category[g], iscrowd=data.gt_crowd[g].astype(int))
        metric.update(*([{name: torch.from_numpy(array) for name, array in side.items()}] for side in (pred, true)))
    assert metric.result().values["error_bound"]["map"] < 0.002


# -------------------------------------------------------------------------------------------------------------- state


def table(metric: BinnedMeanAveragePrecision) -> Tensor:
    return metric.counts


def test_memory_does_not_grow() -> None:
    metric = BinnedMeanAveragePrecision(4, "xywh", bins=2, octaves=3)
    size = sum(tensor.nbytes for tensor in metric.state().tensors().values())
    settings, bins = 40, 2 * 3 + 2
    assert size == 16 * 4 * bins * settings + 8 * 4 * (3 * settings + 4) + 56
    metric.update(*batch_of(1))
    address = table(metric).data_ptr()
    for seed in range(5):
        metric.update(*batch_of(seed))
    assert table(metric).data_ptr() == address
    assert sum(tensor.nbytes for tensor in metric.state().tensors().values()) == size


def test_updates_in_place_change_no_state_that_somebody_holds() -> None:
    metric = BinnedMeanAveragePrecision(4, "xywh", bins=2)
    metric.update(*batch_of(1))
    state, copy, saved = metric.state(), metric.clone(), metric.to_bytes()
    before = {name: tensor.clone() for name, tensor in state.tensors().items()}
    metric.update(*batch_of(2))
    metric(*batch_of(3))
    assert all(torch.equal(before[name], tensor) for name, tensor in state.tensors().items())
    others: list[Any] = [copy, BinnedMeanAveragePrecision(4, "xywh", bins=2).from_bytes(saved)]
    for other in others:
        other.update(*batch_of(2))
        other.update(*batch_of(3))
        assert torch.equal(other.counts, metric.counts) and torch.equal(other.seen, metric.seen)
    metric.reset()
    assert int(metric.counts.sum()) == 0 and not torch.any(torch.as_tensor(metric._defaults["counts"]))
    metric.update(*batch_of(1))
    assert torch.equal(metric.counts, before["counts"])


def test_an_interrupt_of_an_update_counts_all_of_it_or_nothing() -> None:
    """Raised in turn at every line of the files that change the tables in place."""
    metric = BinnedMeanAveragePrecision(4, "xywh", bins=2)
    metric.update(*batch_of(1))
    done = metric.clone()
    done.update(*batch_of(2))
    before, after = metric.to_bytes(), done.to_bytes()
    files = tuple(module.__file__ for module in (binned_mean_ap, outcome_counts, native, graphs))
    found = []
    for line in range(1000):
        left = iter(range(line))

        def trace(frame: Any, event: str, argument: Any, left: Iterator[int] = left) -> Any:
            if event == "line" and frame.f_code.co_filename in files and next(left, None) is None:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            metric.update(*batch_of(2))
        except KeyboardInterrupt:
            found.append(metric.to_bytes())
        else:
            break
        finally:
            sys.settrace(None)
        metric.from_bytes(before)
    assert set(found) <= {before, after} and len(found) > 50 and metric.to_bytes() == after


def test_order_and_grouping_of_updates_change_no_bit() -> None:
    batches = [batch_of(seed) for seed in range(4)]
    first, second = (BinnedMeanAveragePrecision(4, "xywh", bins=4) for _ in range(2))
    for batch in batches:
        first.update(*batch)
    whole = [[item for batch in reversed(batches) for item in batch[side]] for side in range(2)]
    second.update(*whole)
    parts = [BinnedMeanAveragePrecision(4, "xywh", bins=4) for _ in range(2)]
    for index, batch in enumerate(batches):
        parts[index % 2].update(*batch)
    parts[0].merge_state(parts[1])
    for other in (second, parts[0]):
        assert str(other.result()) == str(first.result())
        assert all(
            torch.equal(a, b) for a, b in zip(first.state().tensors().values(), other.state().tensors().values())
        )


# ------------------------------------------------------------------------------------------------- choices and errors


def test_labels_of_any_value_and_classes_without_data() -> None:
    batch = batch_of(4)
    moved = [[dict(item, labels=item["labels"] * 7 - 3) for item in side] for side in batch]
    plain, named = BinnedMeanAveragePrecision(4, "xywh"), BinnedMeanAveragePrecision([18, -3, 4, 11, 90], "xywh")
    plain.update(*batch)
    named.update(*moved)
    values = named.result().values
    assert values["map"] == plain.result().values["map"]
    assert list(values["map_per_class"]) == ["-3", "4", "11", "18", "90"]
    assert np.isnan(values["map_per_class"]["90"]) and named.result().reason("map_per_class/90")


def test_an_unknown_label_raises_and_changes_nothing() -> None:
    metric = BinnedMeanAveragePrecision(3, "xywh", bins=1)
    metric.update(*boxes_batch(11, images=1))
    before = metric.state()
    for side, name in enumerate(("preds", "target")):
        batch = batch_of(5)
        for other in (0, 1):
            for item in batch[other]:
                item["labels"] = torch.full_like(item["labels"], 3 if other == side else 0)
        with pytest.raises(InputError, match=f"labels of {name} must be among the 3 classes but hold 3"):
            metric.update(*batch)
    assert all(torch.equal(a, b) for a, b in zip(before.tensors().values(), metric.state().tensors().values()))


def test_masks_and_keypoints() -> None:
    for choices in ({"iou_type": "segm"}, {"iou_type": "keypoints", "sigmas": (0.2, 0.3, 0.1)}):
        exact = MeanAveragePrecision("xywh", **choices)
        binned = BinnedMeanAveragePrecision(4, "xywh", bins=64, octaves=4, **choices)
        for seed in range(3):
            exact.update(*drawn_batch(seed))
            binned.update(*drawn_batch(seed))
        own, values = binned.result().values, exact.result().values
        for name, bound in own["error_bound"].items():
            assert np.isnan(values[name]) or abs(own[name] - values[name]) <= bound + 1e-12
        assert own["mar_per_class"] == pytest.approx(values["mar_per_class"])


def test_class_metrics_in_compute() -> None:
    metric = BinnedMeanAveragePrecision(4, "xywh", class_metrics=True, bins=1024)
    exact = MeanAveragePrecision("xywh", class_metrics=True)
    for one in (metric, exact):
        one.update(*batch_of(2))
    own, values = metric.compute(), exact.compute()
    assert torch.allclose(own["map_per_class"], values["map_per_class"], atol=5e-3)
    assert torch.equal(own["mar_100_per_class"], values["mar_100_per_class"])
    assert own["classes"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": 0}, "classes must be at least 1"),
        ({"classes": []}, "classes must be a number of classes or at least one label"),
        ({"classes": [1, 1]}, "classes must be different labels"),
        ({"classes": [True]}, "classes must be a number of classes or at least one label"),
        ({"classes": 2, "bins": 100}, "bins must be one of"),
        ({"classes": 2, "octaves": 65}, "octaves must be in"),
        ({"classes": 2, "area_ranges": ("small", "all")}, "area_ranges must be different names, all first"),
        ({"classes": 2, "area_ranges": ("all", "huge")}, "area_ranges must be one of"),
        ({"classes": 2, "iou_type": ("bbox", "segm")}, "iou_type must be"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BinnedMeanAveragePrecision(**arguments)


def test_a_damaged_state_is_rejected() -> None:
    metric = BinnedMeanAveragePrecision(4, "xywh", bins=1)
    metric.update(*batch_of(1))
    state = metric.state().tensors()
    state |= {name: getattr(metric, name) for name in ("signature", "error")}
    for name, place, value, message in (
        ("counts", (0, 3, 0, 0), 10**6, "not have more true positives than detections"),
        ("recalled", (0, 0, 0), 10**6, "have as many true positives"),
        ("positives", (0, 0), -1, "be from 0 to"),
    ):
        damaged = {key: part.clone() for key, part in state.items()}
        damaged[name][place] = value
        with pytest.raises(InputError, match=message):
            metric.merge_state(damaged)
