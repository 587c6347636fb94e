"""Checks of a GPU check: every op, the metric, and that ``update`` never synchronises. The device may be the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmarks.checks import Checks, Disagreement, wait
from testing.parity import differences
from testing.registry import ROWS, Row, disagreement
from testing.scenes import Scene, random_scene
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops import backends

Sides = tuple[Any, Any]
Form = Callable[[Scene, int], Sides]

CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "class metrics": {"class_metrics": True},
    "micro average": {"average": "micro", "class_metrics": True},
    "extended summary": {"extended_summary": True},
    "other limits": {"max_detection_thresholds": [2, 7], "iou_thresholds": [0.3, 0.5], "tie_order": "arrival"},
}


def check_served(checks: Checks) -> None:
    """No op that has a CUDA kernel is served by its plain definition: that would be compared with itself."""
    checks.run("every op with a CUDA kernel is served by it", _check_served)


def _check_served() -> None:
    if slow := [f"{op.name}: {op.cuda.reason}" for op in backends() if op.cuda.kernel is None and op.cuda.warning]:
        raise Disagreement("\n".join(slow))


def check_ops(checks: Checks, device: torch.device, quick: bool) -> None:
    """Every op of the package, example by example, against its reference and the CPU kernel."""
    for op in backends():
        served = op.cuda if device.type == "cuda" else op.cpu
        if op.name not in ROWS:
            checks.run(f"op {op.name}", partial(_no_row, op.name))
            continue
        checks.run(f"op {op.name} by {served.kind}", partial(_check_op, ROWS[op.name], device, quick))


def _no_row(name: str) -> None:
    raise Disagreement(f"testing/registry.py must have a row for op {name}")


def _check_op(row: Row, device: torch.device, quick: bool) -> None:
    found = ((example.name, disagreement(row, example, device)) for example in row.examples(quick))
    if wrong := [f"{name}: {text}" for name, text in found if text]:
        raise Disagreement("\n".join(wrong))


# ------------------------------------------------------------------------------------------------------------- metric


def as_lists(scene: Scene, batch: int, dtype: torch.dtype = torch.float32, keyed: bool = True) -> Sides:
    """One dict per image on each side, boxes xywh and scores of ``dtype``; if ``keyed``, ids by ``batch``."""
    preds = [
        {"boxes": boxes.to(dtype), "scores": scores.to(dtype), "labels": labels}
        for boxes, scores, labels in zip(scene.boxes, scene.scores, scene.labels)
    ]
    target: list[dict[str, Any]] = [
        {"boxes": boxes.to(dtype), "labels": labels, "iscrowd": crowds, "area": areas}
        for boxes, labels, crowds, areas in zip(scene.gt_boxes, scene.gt_labels, scene.crowds, scene.areas)
    ]
    if keyed:
        for key, item in enumerate(target):
            item["image_id"] = torch.tensor([1000 * batch - key])
    return preds, target


def as_packed(scene: Scene, batch: int, dtype: torch.dtype = torch.float32) -> Sides:
    """The images as one dict of padded tensors on each side, with ``counts``."""
    packed = []
    for items in as_lists(scene, batch, dtype):
        names = [name for name in items[0] if name != "image_id"]
        side = {n: torch.nn.utils.rnn.pad_sequence([item[n] for item in items], batch_first=True) for n in names}
        side["counts"] = torch.tensor([len(item["labels"]) for item in items])
        if "image_id" in items[0]:
            side["image_id"] = torch.cat([item["image_id"] for item in items])
        packed.append(side)
    return packed[0], packed[1]


def on(device: torch.device, sides: Sides) -> Sides:
    """Every tensor on ``device``."""
    moved: Sides = pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), sides)
    return moved


def check_metric(checks: Checks, device: torch.device, scenes: int) -> None:
    """States and results on ``device`` equal those on the CPU, for list and packed input, all dtypes and choices."""
    inputs: dict[str, Form] = {
        "lists": as_lists,
        "lists without ids": partial(as_lists, keyed=False),
        "float16": partial(as_lists, dtype=torch.float16),
        "bfloat16": partial(as_lists, dtype=torch.bfloat16),
        "float64": partial(as_lists, dtype=torch.float64),
        "packed": as_packed,
        "packed float16": partial(as_packed, dtype=torch.float16),
    }
    for name, form in inputs.items():
        checks.run(f"MeanAveragePrecision, {name}", partial(_check_metric, device, form, {}, scenes))
    for name, choices in CHOICES.items():
        check = partial(_check_metric, device, as_lists, choices, max(1, scenes // 2))
        checks.run(f"MeanAveragePrecision, {name}", check)


def _check_metric(device: torch.device, form: Form, choices: Mapping[str, Any], scenes: int) -> None:
    for seed in range(scenes):
        rng = np.random.default_rng(seed)
        batches = [form(random_scene(rng, images=n, classes=3), b) for b, n in enumerate((1, 6, 17, 33))]
        got, expected = (
            run_metric([on(place, sides) for sides in batches], place, **choices)
            for place in (device, torch.device("cpu"))
        )
        if isinstance(batches[0][0], Mapping) and device.type == "cuda":  # where padding rows stay in the records
            got.pop("state"), expected.pop("state")
        if text := differences(got, expected):
            raise Disagreement(f"scene {seed}: {text}")


def run_metric(batches: list[Sides], device: torch.device, **choices: Any) -> dict[str, Any]:
    """State and results after ``batches``."""
    metric = MeanAveragePrecision(box_format="xywh", **choices).to(device)
    for preds, target in batches:
        metric.update(preds, target)
    state = {name: getattr(metric.state(), name) for name in ("detections", "ground_truths", "images")}
    values = {name: value for name, value in sorted(metric.compute().items()) if name != "ious"}
    result = {name: value for name, value in metric.result().values.items() if isinstance(value, float)}
    numbers = {name: torch.tensor(value, dtype=torch.float64) for name, value in sorted(result.items())}
    return {"state": state, "values": values, "numbers": numbers}


# ------------------------------------------------------------------------------------------------------------ waiting


@contextmanager
def no_waiting(device: torch.device) -> Iterator[None]:
    """Within it, whatever makes the host wait for a GPU raises."""
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    wait(device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def check_waiting(checks: Checks, device: torch.device) -> None:
    """``update`` does not synchronise with the device once the first has copied its tables and loaded its kernels."""
    inputs: dict[str, Form] = {
        "lists": as_lists,
        "lists without ids": partial(as_lists, keyed=False),
        "float16": partial(as_lists, dtype=torch.float16),
        "packed": as_packed,
    }
    for images in (16, 40):
        for name, form in inputs.items():
            check = partial(_check_waiting, device, form, images)
            checks.run(f"update of {images} images does not wait, {name}", check)


def _check_waiting(device: torch.device, form: Form, images: int) -> None:
    rng = np.random.default_rng(images)
    batches = [on(device, form(random_scene(rng, images=images), batch)) for batch in range(4)]
    metric = MeanAveragePrecision(box_format="xywh").to(device)
    metric.update(*batches[0])
    with no_waiting(device):
        for batch in batches[1:]:
            metric.update(*batch)
    metric.compute()
