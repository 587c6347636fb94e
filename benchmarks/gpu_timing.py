"""Timings of a GPU check: tensors on the device to AP, phases, ops against the copy bandwidth, torchmetrics beside.

No time is kept unless the numbers it belongs to equal those of the CPU. The device may be the CPU.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.baselines import BATCH, load_torchvision, with_float32_grids
from benchmarks.checks import (
    Checks,
    Disagreement,
    Unavailable,
    device_seconds,
    peak_device_mb,
    wait,
    wall_seconds,
)
from benchmarks.verify import STATS
from testing import formats
from testing.datasets import BoxDataset
from testing.parity import differences
from testing.registry import ROWS, Example, Row, call, moved_bytes, place
from valor_gpu import native
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.detection.choices import AREA_RANGES
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.inputs.boxes import detection_batch
from valor_gpu.ops import backends
from valor_gpu.ops.accumulate import accumulate
from valor_gpu.ops.accumulate_types import AccumulateChoices, RecordShape
from valor_gpu.ops.assign import assign
from valor_gpu.ops.match_batch import CHECK_SCORES, HASHED, USER_INPUT, MatchRule
from valor_gpu.reduce.coco_summary import summary_picks

Timing = dict[str, Any]
COPY_BYTES = 1 << 30
PLAIN = "torchmetrics in plain torch"


@dataclass(frozen=True)
class Work:
    """A dataset to be timed.

    Attributes:
        name: of the scene.
        whole_target: seconds allowed for one update with all images and ``compute``, None for no target.
        batches_target: likewise for updates of 16 images and ``compute``; None: not timed.
        compute_device_target: seconds of the device allowed for ``compute``, None for no target.
        compute_host_target: likewise of the host.
        repeats: runs of each.
    """

    name: str
    scene: BoxDataset
    whole_target: float | None = None
    batches_target: float | None = None
    compute_device_target: float | None = None
    compute_host_target: float | None = None
    repeats: int = 20


def _targeted(work: str, seconds: dict[str, float], target: float | None, **more: Any) -> Timing:
    met = None if target is None else seconds["median"] <= target
    return {"work": work, "seconds": seconds, "target_seconds": target, "met": met, **more}


class Evaluation:
    """A metric and its batches; a call takes them to AP, after :meth:`reset` once more.

    Args:
        batches: predictions and targets.
        device: where the metric lies, and the batches.
        metric: default: ours.
    """

    def __init__(self, batches: list[Any], device: torch.device, metric: Any = None) -> None:
        self._batches = batches
        self._metric: Any = (MeanAveragePrecision() if metric is None else metric).to(device)

    def __call__(self) -> dict[str, torch.Tensor]:
        for preds, target in self._batches:
            self._metric.update(preds, target)
        return dict(sorted(self._metric.compute().items()))

    def reset(self) -> None:
        """Forget the batches."""
        self._metric.reset()


def time_metric(checks: Checks, work: Work, device: torch.device) -> list[Timing]:
    """From tensors on ``device`` to AP: one update with all images, and updates of 16 images."""
    on_the_cpu = Evaluation([formats.padded_tensors(work.scene)], torch.device("cpu"))
    expected = checks.run(f"{work.name}: AP on the CPU", on_the_cpu)
    if expected is None:
        return []
    whole = [formats.padded_tensors(work.scene, device)]
    named = f"{work.name}: one update with {len(work.scene.image_ids):,} images, and compute"
    check = partial(_time_evaluation, named, whole, device, expected, work.whole_target, work.repeats)
    rows = [checks.run(named, check)]
    if work.batches_target is not None:
        preds, target = formats.image_tensors(work.scene, device)
        batches = [(preds[i : i + BATCH], target[i : i + BATCH]) for i in range(0, len(preds), BATCH)]
        named = f"{work.name}: {len(batches)} updates of {BATCH} images, and compute"
        repeats = max(3, work.repeats // 4)
        check = partial(_time_evaluation, named, batches, device, expected, work.batches_target, repeats)
        rows.append(checks.run(named, check))
    return [row for row in rows if row is not None]


def _time_evaluation(
    name: str, batches: list[Any], device: torch.device, expected: dict[str, Any], target: float | None, repeats: int
) -> Timing:
    """Seconds and peak memory of an evaluation that has given ``expected``."""
    evaluation = Evaluation(batches, device)
    if text := differences(evaluation(), expected):
        raise Disagreement(f"AP on {device} is not that on the CPU: {text}")
    seconds = wall_seconds(evaluation, device, repeats, before=evaluation.reset)
    on_device = device_seconds(evaluation, device, max(3, repeats // 4), before=evaluation.reset)
    evaluation.reset()
    peak = peak_device_mb(evaluation, device)
    return _targeted(name, seconds, target, device_seconds=on_device, peak_device_mb=peak)


# ------------------------------------------------------------------------------------------------------------- phases


def time_phases(checks: Checks, work: Work, device: torch.device) -> list[Timing]:
    """Where the time of one update and ``compute`` goes, phase by phase, by wall clock and by device events."""
    rows: list[Timing] = []
    for name, phase in _phases(formats.padded_tensors(work.scene, device)):
        timed = checks.run(f"{work.name}: phase {name}", partial(_time_phase, name, phase, device, work.repeats))
        if timed is None:
            break
        rows.append(timed)
    return rows


def _phases(sides: tuple[Any, Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    """The steps of ``MeanAveragePrecision``, each from what the one before gave."""
    metric = MeanAveragePrecision()
    flags = HASHED | CHECK_SCORES | USER_INPUT
    areas = list(AREA_RANGES.values())
    rule = MatchRule.make(metric.iou_thresholds, areas, metric.max_detection_thresholds, flags)
    yield "read the input", lambda: detection_batch(*sides, "xyxy")
    batch = detection_batch(*sides, "xyxy")
    yield "match", lambda: assign(batch, rule)
    records = DetectionRecords.of(assign(batch, rule))
    picks = summary_picks(metric.iou_thresholds, metric.max_detection_thresholds, tuple(AREA_RANGES))
    shape = RecordShape(len(metric.iou_thresholds), len(AREA_RANGES), len(metric.max_detection_thresholds))
    choices = AccumulateChoices(shape, np.array(metric.rec_thresholds), tuple(picks.values()))
    yield "accumulate", lambda: accumulate(*records.tensors().values(), choices)


def _time_phase(name: str, phase: Callable[[], object], device: torch.device, repeats: int) -> Timing:
    phase()
    return {
        "phase": name,
        "seconds": wall_seconds(phase, device, repeats),
        "device_seconds": device_seconds(phase, device, repeats),
    }


def profile(work: Work, device: torch.device) -> list[Timing]:
    """Kernels of one update and ``compute`` by device time: name, calls, microseconds in all."""
    if device.type != "cuda":
        raise Unavailable("kernels are listed on a CUDA device only")
    evaluation = Evaluation([formats.padded_tensors(work.scene, device)], device)
    evaluation()
    evaluation.reset()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as trace:
        evaluation()
        wait(device)
    events = [event for event in trace.key_averages() if event.self_device_time_total > 0]
    events.sort(key=lambda event: -event.self_device_time_total)
    return [
        {"kernel": event.key[:120], "calls": event.count, "microseconds": round(event.self_device_time_total, 1)}
        for event in events
    ]


# ---------------------------------------------------------------------------------------------------------------- ops


def copy_bytes_per_second(device: torch.device, size: int = COPY_BYTES) -> float:
    """Bytes read plus bytes written a second by a copy on ``device``."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * size / device_seconds(lambda: target.copy_(source), device, 10)["median"]


def time_ops(
    checks: Checks, scene: BoxDataset, device: torch.device, repeats: int, copy_size: int, names: Collection[str]
) -> list[Timing]:  # fmt: skip
    """Ops ``names`` at the scale of ``scene``: seconds, and the bytes they must move beside the copy bandwidth."""
    bandwidth = checks.run("copy bandwidth", partial(copy_bytes_per_second, device, copy_size))
    rows: list[Timing] = []
    for op in backends():
        if op.name in names and op.name in ROWS and bandwidth:
            timed = checks.run(
                f"op {op.name} at scale", partial(_time_op, ROWS[op.name], scene, device, repeats, bandwidth)
            )
            rows += [] if timed is None else [timed]
            for kind, kernel in (
                ROWS[op.name].others if device.type == "cuda" and native.available("valor_cuda") else ()
            ):
                named, row = f"op {op.name} at scale by {kind}", ROWS[op.name]
                timed = checks.run(named, partial(_time_op, row, scene, device, repeats, bandwidth, (kind, kernel)))
                rows += [] if timed is None else [timed]
    return rows


def _time_op(
    row: Row, scene: BoxDataset, device: torch.device, repeats: int, bandwidth: float,
    other: tuple[str, Callable[..., Any]] | None = None,
) -> Timing:  # fmt: skip
    """What serves ``device``, or the ``other`` kernel."""
    example = Example("at scale", row.load(scene))
    arguments = place(row, example, device)
    kind, kernel = other or ("", call(row.op))
    got = kernel(*arguments)
    if device.type != "cpu" and (text := differences(row.defined(got), row.defined(call(row.op)(*example.arguments)))):
        raise Disagreement(f"against the CPU kernel: {text}")
    on_device = device_seconds(lambda: kernel(*arguments), device, repeats)
    moved = moved_bytes(arguments, got)
    return {
        "op": f"{row.op} by {kind}" if kind else row.op,
        "seconds": wall_seconds(lambda: kernel(*arguments), device, repeats), "device_seconds": on_device,
        "bytes": moved, "copy_bandwidth": bandwidth, "share_of_copy": moved / on_device["median"] / bandwidth,
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------------- torchmetrics


def time_torchmetrics(work: Work, device: torch.device, most_images: int) -> list[Timing]:
    """torchmetrics on the same tensors, with each backend that is installed; in plain torch where none is.

    The metric in plain torch knows no crowds and sorts ties in any order: it gets the first ``most_images`` images
    without crowds, and its numbers may differ from ours by 5e-3. Those of the backends may by 1e-6.

    Raises:
        Unavailable: torchmetrics' metric cannot be made here.
        Disagreement: its numbers differ more from ours with its float32 grids.
    """
    try:
        load_torchvision()
        makers = _peers()
    except ImportError as error:
        raise Unavailable(str(error)) from None
    preds, target = formats.image_tensors(work.scene, device)
    if PLAIN in makers:
        crowded = np.bincount(work.scene.gt_image[work.scene.gt_crowd], minlength=len(preds)) > 0
        kept = np.flatnonzero(~crowded)[:most_images].tolist()
        preds, target = [preds[i] for i in kept], [target[i] for i in kept]
    batches = [(preds[i : i + BATCH], target[i : i + BATCH]) for i in range(0, len(preds), BATCH)]
    tolerance = 5e-3 if PLAIN in makers else 1e-6
    count = f"{len(preds):,} images"
    return [_time_peer(f"{name}, {count}", make, batches, device, tolerance) for name, make in makers.items()]


def _peers() -> dict[str, Callable[[], Any]]:
    """How to make torchmetrics' metric: with each backend that is installed, in plain torch where none is."""
    metric = importlib.import_module("torchmetrics.detection.mean_ap").MeanAveragePrecision
    makers: dict[str, Callable[[], Any]] = {}
    for backend in ("faster_coco_eval", "pycocotools"):
        if importlib.util.find_spec(backend):  # torchmetrics looks for it only when it computes
            makers[f"torchmetrics + {backend}"] = partial(metric, backend=backend)
    if not makers:
        plain = importlib.import_module("torchmetrics.detection._mean_ap").MeanAveragePrecision
        plain()
        makers[PLAIN] = plain
    return makers


def _time_peer(
    name: str, make: Callable[[], Any], batches: list[Any], device: torch.device, tolerance: float
) -> Timing:
    metric = make()
    metric.warn_on_many_detections = False
    evaluation, results = Evaluation(batches, device, metric), []
    with contextlib.redirect_stdout(io.StringIO()):
        seconds = wall_seconds(lambda: results.append(evaluation()), device, 1)
    expected = Evaluation(batches, device, with_float32_grids())()
    gap = max(abs(float(results[0][stat]) - float(expected[stat])) for stat in STATS)
    if not gap <= tolerance:
        raise Disagreement(f"{name}: numbers differ from ours with its grids by {gap:.1e}")
    ours = Evaluation(batches, device)
    own = wall_seconds(ours, device, 3, before=ours.reset)
    times = seconds["median"] / own["median"]
    return {"work": name, "seconds": seconds, "valor_gpu": own, "times_ours": times, "largest_difference": gap}
