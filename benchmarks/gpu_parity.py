"""Checks of a GPU check: every op, the metric, and that ``update`` never synchronises. The device may be the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmarks.checks import CHECK_SECONDS, Checks, Disagreement, Unavailable, wait
from testing.parity import differences
from testing.registry import ROWS, Row, disagreement
from testing.scenes import Scene, random_scene
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops import backends

Sides = tuple[Any, Any]
T = TypeVar("T")
Form = Callable[[Scene, int], Sides]

CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "class metrics": {"class_metrics": True},
    "micro average": {"average": "micro", "class_metrics": True},
    "extended summary": {"extended_summary": True},
    "other limits": {"max_detection_thresholds": [2, 7], "iou_thresholds": [0.3, 0.5], "tie_order": "arrival"},
}
QUICK_SECONDS = 30.0
"""A few examples of an op that take longer on a GPU hang."""
CYCLES_A_SECOND = 2e9
"""Of the clock of an H100, 1.98 GHz at most: a slower clock sleeps longer."""
SLEEPS = (0.1, 0.2, 0.4, 0.8, 1.0)
"""Seconds for which a device sleeps ahead of updates; the next where the host was not done with them by then."""


def only_rehearsed(device: torch.device, subject: str) -> None:
    """Raises Unavailable on the CPU, once the part of a check that runs there has passed.

    Args:
        device: of the check.
        subject: what the check is about and the CPU lacks, as the subject of a sentence.
    """
    if device.type != "cuda":
        raise Unavailable(f"{subject} needs a CUDA device but this is {device}: the rest of the check ran")


def check_served(checks: Checks) -> None:
    """No op that has a kernel is served by its plain definition: that would be compared with itself."""
    checks.run("every op with a kernel is served by it", _check_served)


def _check_served() -> None:
    """Kernels of the CPU count too, for those of a GPU are compared with them."""
    found = []
    for op in backends():
        if op.cuda.disabled or (op.cuda.kernel is None and op.cuda.warning):
            found.append(f"{op.name}: {op.cuda.reason}")
        if op.cpu.kernel is None and op.cpu.warning:
            found.append(f"{op.name} on the CPU: {op.cpu.reason}")
    if found:
        raise Disagreement("\n".join(found))


def check_ops(checks: Checks, device: torch.device, quick: bool) -> None:
    """Every op of the package, example by example, against its reference and the CPU kernel."""
    seconds = QUICK_SECONDS if quick and device.type == "cuda" else CHECK_SECONDS
    for op in backends():
        served = op.cuda if device.type == "cuda" else op.cpu
        if op.name not in ROWS:
            checks.run(f"op {op.name}", partial(_no_row, op.name), seconds)
            continue
        checks.run(f"op {op.name} by {served.kind}", partial(_check_op, ROWS[op.name], device, quick), seconds)


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


def on(device: torch.device, sides: T) -> T:
    """Every tensor on ``device``."""
    moved: T = pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), sides)
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
    metric.warn_on_many_detections = False
    for preds, target in batches:
        metric.update(preds, target)
    state = {name: getattr(metric.state(), name) for name in ("detections", "ground_truths", "images")}
    values = {name: value for name, value in sorted(metric.compute().items()) if name != "ious"}
    result = {name: value for name, value in metric.result().values.items() if isinstance(value, float)}
    numbers = {name: torch.tensor(value, dtype=torch.float64) for name, value in sorted(result.items())}
    return {"state": state, "values": values, "numbers": numbers}


# ------------------------------------------------------------------------------------------------------------ waiting


@contextmanager
def _waits_of_torch_raise() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def updated_without_wait(make: Callable[[], Any], batches: Sequence[Any], device: torch.device) -> Any:
    """Returns a metric with all batches; a wait for the device in an update behind the first is a Disagreement.

    torch reports its own waits, but not those of our libraries. So a kernel that sleeps on the current stream goes
    ahead of the updates, and must still sleep when they are enqueued. Every try has a new metric, so that a wait which
    each metric has once is found, but not the loading of a kernel, once in a process.

    Args:
        make: makes the metric, on the device.
        batches: on the device; the first makes the metric copy its tables.
        device: a CUDA device, or the CPU, on which nothing can wait.

    Raises:
        Disagreement: the host waited at every try.
        Unavailable: the host is not done with the updates within the longest sleep, without a wait either.
    """
    if device.type != "cuda":
        return _updated(make, batches, device)[0]
    for seconds in SLEEPS:
        metric, took, asleep = _updated(make, batches, device, seconds)
        if asleep:
            return metric
    alone = _updated(make, batches, device)[1]
    if alone >= SLEEPS[-1]:
        raise Unavailable(
            f"updates must take less than {SLEEPS[-1]} s on the host to tell a wait but take {alone:.2f} s"
        )
    raise Disagreement(
        f"update waited for the device: {len(batches) - 1} took {took:.3f} s behind a kernel of {SLEEPS[-1]} s,"
        f" and {alone:.3f} s on an idle device"
    )


def _updated(
    make: Callable[[], Any], batches: Sequence[Any], device: torch.device, sleep: float = 0.0
) -> tuple[Any, float, bool]:
    """The metric, seconds of the host for all updates but the first, and whether the device still sleeps."""
    metric = make()
    metric.update(*batches[0])
    wait(device)
    awake = _sleep(sleep) if sleep else None
    start = time.perf_counter()
    with _waits_of_torch_raise() if device.type == "cuda" else nullcontext():
        for batch in batches[1:]:
            metric.update(*batch)
    took = time.perf_counter() - start
    return metric, took, awake is not None and not awake.query()


def _sleep(seconds: float) -> torch.cuda.Event:
    """Keeps the current stream busy; the event is done when it wakes, whatever is enqueued behind."""
    torch.cuda._sleep(int(seconds * CYCLES_A_SECOND))
    awake = torch.cuda.Event()
    awake.record()
    return awake


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
    updated_without_wait(lambda: MeanAveragePrecision(box_format="xywh").to(device), batches, device).compute()
    only_rehearsed(device, "a wait of the host")
