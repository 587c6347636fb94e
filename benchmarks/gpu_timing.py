"""Timings of boxes in a GPU check: tensors on the device to AP, phases, ops against the copy bandwidth, torchmetrics.

No time is kept unless the numbers it belongs to equal those of the CPU. The device may be the CPU.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import DeviceType

from benchmarks.baselines import BATCH, load_torchvision, with_float32_grids
from benchmarks.checks import Checks, Disagreement, Later, Unavailable, device_seconds, wait, wall_seconds
from benchmarks.gpu_jobs import CPU, Bandwidth, Job, OfFunction, OfMetric, Timing, device_time, measure
from benchmarks.gpu_works import Sizes, Work
from benchmarks.verify import STATS
from testing import formats
from testing.datasets import BoxDataset
from testing.examples_resampled import arguments as resampled_arguments
from testing.examples_resampled import load_records
from testing.parity import differences
from testing.registry import ROWS, Example, Row, call, moved_bytes, place
from valor_gpu import native
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.detection.choices import AREA_RANGES
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.inputs.boxes import detection_batch
from valor_gpu.ops import backends, box_iou
from valor_gpu.ops.accumulate.op import accumulate
from valor_gpu.ops.accumulate.types import AccumulateChoices, RecordShape
from valor_gpu.ops.assign.match_batch import CHECK_SCORES, HASHED, USER_INPUT, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.resampling.op import weights
from valor_gpu.reduce.coco_summary import summary_picks
from valor_gpu.stats.draws import Draws

COPY_BYTES = 1 << 30
PLAIN = "torchmetrics in plain torch"


def copy_bytes_per_second(device: torch.device, size: int = COPY_BYTES) -> float:
    """Returns bytes read plus bytes written a second by a copy on ``device``."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * size / device_seconds(lambda: target.copy_(source), device, 10, ahead=True)["median"]


def time_copy(checks: Checks, bandwidth: Bandwidth, device: torch.device) -> None:
    """Records the copy bandwidth, which targets and floors follow."""
    checks.run("copy bandwidth", lambda: {"device": str(device), "copy_bytes_per_second": bandwidth()}, 20)


def _precision(device: torch.device) -> OfMetric:
    return OfMetric(MeanAveragePrecision().to(device))


def image_batches(scene: BoxDataset, device: torch.device) -> list[Any]:
    """Returns the images as lists of dicts, 16 in a batch."""
    preds, target = formats.image_tensors(scene, device)
    return [(preds[i : i + BATCH], target[i : i + BATCH]) for i in range(0, len(preds), BATCH)]


def whole_jobs(work: Work) -> list[Job]:
    """From tensors on the device to AP: one update with all images, and updates of 16 images."""
    jobs = [
        Job(
            f"box AP, {work.name}, one update and compute",
            lambda device: [formats.padded_tensors(work.scene(), device)],
            _precision,
            work.keys("one update and compute"),
            work.repeats,
            seconds=60,
        )
    ]
    if work.batches:
        jobs.append(
            Job(
                f"box AP, {work.name}, updates of {BATCH} images and compute",
                lambda device: image_batches(work.scene(), device),
                _precision,
                work.keys(f"updates of {BATCH} images and compute"),
                max(3, work.repeats // 4),
                seconds=60,
            )
        )
    return jobs


def replicates_job(work: Work, replicates: int) -> Job:
    """From ordered records on the device to the summaries and classes of resampled images, draws among them."""

    def data(device: torch.device) -> tuple[Any, ...]:
        records = load_records(work.scene(), device)
        return *resampled_arguments(records, torch.empty(0)), records.units

    def numbers(*arguments: Any) -> Any:
        *before, _, grid, sizes, picks, thresholds, flags, units = arguments
        drawn = weights(Draws(units, replicates), before[0].device)
        return call("resampled_means")(*before, drawn, grid, sizes, picks, thresholds, flags)

    name = f"{replicates:,} replicates of box AP, {work.name}"
    return Job(name, data, lambda _: OfFunction(numbers), work.keys("1,000 replicates"), 5, seconds=60)


def box_pairs_job(sizes: Sizes) -> Job:
    """IoU of all pairs of two sets of boxes."""

    def data(device: torch.device) -> tuple[Tensor, Tensor]:
        generator = torch.Generator(device).manual_seed(0)
        corners = [torch.rand(n, 2, generator=generator, device=device) * 600 for n in sizes.box_pairs]
        spans = [torch.rand(n, 2, generator=generator, device=device) * 200 for n in sizes.box_pairs]
        first, second = (torch.cat((low, low + span), 1) for low, span in zip(corners, spans))
        return first, second

    pairs = sizes.box_pairs[0] * sizes.box_pairs[1]
    return Job(f"box IoU, {pairs:,} pairs", data, lambda _: OfFunction(box_iou), ("box IoU",), sizes.repeats)


def time_jobs(checks: Checks, jobs: list[Job], device: torch.device, bandwidth: Bandwidth) -> None:
    """Makes the rows of works, a check for each."""
    for job in jobs:
        checks.run(job.name, partial(measure, job, device, bandwidth), job.seconds)


# ------------------------------------------------------------------------------------------------------------- phases


def time_phases(checks: Checks, work: Work, device: torch.device) -> None:
    """Where the time of one update and ``compute`` goes, phase by phase, by wall clock and by device events."""
    for name, phase in _phases(work, device).items():
        checks.run(f"{work.name}: phase {name}", partial(_time_phase, name, phase, device, work.repeats))


def _phases(work: Work, device: torch.device) -> dict[str, Callable[[], object]]:
    """The steps of ``MeanAveragePrecision``, each from what the one before gives."""
    metric = MeanAveragePrecision()
    areas = list(AREA_RANGES.values())
    flags = HASHED | CHECK_SCORES | USER_INPUT
    rule = MatchRule.make(metric.iou_thresholds, areas, metric.max_detection_thresholds, flags)
    picks = summary_picks(metric.iou_thresholds, metric.max_detection_thresholds, tuple(AREA_RANGES))
    shape = RecordShape(len(metric.iou_thresholds), len(AREA_RANGES), len(metric.max_detection_thresholds))
    choices = AccumulateChoices(shape, np.array(metric.rec_thresholds), tuple(picks.values()))
    sides = Later("tensors", lambda: formats.padded_tensors(work.scene(), device))
    batch = Later("batch", lambda: detection_batch(*sides(), "xyxy"))
    records = Later("records", lambda: DetectionRecords.of(assign(batch(), rule)).tensors().values())
    return {
        "read the input": lambda: detection_batch(*sides(), "xyxy"),
        "match": lambda: assign(batch(), rule),
        "accumulate": lambda: accumulate(*records(), choices),
    }


def _time_phase(name: str, phase: Callable[[], object], device: torch.device, repeats: int) -> Timing:
    phase()
    return {
        "phase": name,
        "seconds": wall_seconds(phase, device, repeats),
        "device_seconds": device_time(phase, device, repeats),
    }


def profile(work: Work, device: torch.device) -> list[Timing]:
    """Kernels and copies of one update and ``compute`` by device time: name, calls, microseconds in all.

    Raises:
        Unavailable: the device is not a GPU, or the profiler saw nothing on it.
    """
    if device.type != "cuda":
        raise Unavailable("kernels are listed on a CUDA device only")
    data, run = [formats.padded_tensors(work.scene(), device)], _precision(device)
    run(data)
    run.reset()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as trace:
        run(data)
        wait(device)
    return _kernel_rows(trace.key_averages())


def _kernel_rows(averages: Iterable[Any]) -> list[Timing]:
    # an op of the host carries the time of the kernels that it launched, which are listed themselves
    events = [event for event in averages if event.device_type == DeviceType.CUDA and event.self_device_time_total > 0]
    if not events:
        raise Unavailable(
            "torch.profiler saw no kernel on the device: the driver may keep CUPTI from all users but root"
            " (NVreg_RestrictProfilingToAdminUsers=1); run the check as root, or lift that"
        )
    events.sort(key=lambda event: -event.self_device_time_total)
    return [
        {"kernel": event.key[:120], "calls": event.count, "microseconds": round(event.self_device_time_total, 1)}
        for event in events
    ]


# ---------------------------------------------------------------------------------------------------------------- ops


def time_ops(
    checks: Checks, scene: Later[BoxDataset], device: torch.device, repeats: int, bandwidth: Bandwidth,
    names: Collection[str],
) -> None:  # fmt: skip
    """Ops ``names`` at the scale of ``scene``: seconds, and the bytes they must move beside the copy bandwidth."""
    by_kernels = device.type == "cuda" and native.available("valor_cuda")
    chosen = [op for op in backends() if op.name in names and op.name in ROWS]
    for op in sorted(chosen, key=lambda op: op.name in _OP_SECONDS):  # those that take long come last
        row = ROWS[op.name]
        others = row.others if by_kernels else ()
        for kind, kernel in (("", call(row.op)), *others):
            named = f"op {row.op} at scale" + (f" by {kind}" if kind else "")
            check = partial(_time_op, row, scene, device, repeats, bandwidth, kind, kernel)
            checks.run(named, check, _OP_SECONDS.get(op.name, 20.0))


_OP_SECONDS = {"rank_curves": 60.0, "count_panoptic": 30.0, "polygon_pairs": 30.0}
"""Of ops whose data or whose CPU kernel take seconds."""


def _time_op(
    row: Row, scene: Later[BoxDataset], device: torch.device, repeats: int, bandwidth: Bandwidth, kind: str,
    kernel: Callable[..., Any],
) -> Timing:  # fmt: skip
    """A ``kernel`` of a ``kind``, or without one what serves ``device``."""
    example = Example("at scale", row.load(scene()))
    arguments = place(row, example, device)
    got = kernel(*arguments)
    if device.type != "cpu" and (text := differences(row.defined(got), row.defined(call(row.op)(*example.arguments)))):
        raise Disagreement(f"against the CPU kernel: {text}")
    on_device = device_time(lambda: kernel(*arguments), device, repeats)
    moved = moved_bytes(arguments, got)
    return {
        "op": f"{row.op} by {kind}" if kind else row.op,
        "seconds": wall_seconds(lambda: kernel(*arguments), device, repeats), "device_seconds": on_device,
        "bytes": moved, "copy_bytes_per_second": bandwidth(),
        "share_of_copy": moved / on_device["median"] / bandwidth(),
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------------- torchmetrics


def time_torchmetrics(checks: Checks, work: Work, device: torch.device, most_images: int, bandwidth: Bandwidth) -> None:
    """Updates of 16 images with torchmetrics beside, by each backend that is installed; in plain torch without any.

    torchmetrics takes tens of milliseconds an image, and gets the first ``most_images``, those without crowds: in plain
    torch it knows none. There its order of ties is arbitrary, and its numbers may differ from ours by 5e-3; those of
    the backends may by 1e-6.
    """
    for name in _backends():
        named = f"box AP, updates of {BATCH} images and compute, {name} beside"
        checks.run(named, partial(_time_peer, named, name, work, device, most_images, bandwidth), 90.0)


def _backends() -> list[str]:
    """torchmetrics looks for a backend only when it computes."""
    return [name for name in ("faster_coco_eval", "pycocotools") if importlib.util.find_spec(name)] or [PLAIN]


def _time_peer(
    named: str, backend: str, work: Work, device: torch.device, most_images: int, bandwidth: Bandwidth
) -> Timing:
    try:
        load_torchvision()
        make = _peer(backend)
    except ImportError as error:
        raise Unavailable(str(error)) from None
    scene = work.scene()
    kept = np.flatnonzero(~np.isin(np.arange(len(scene.image_ids)), scene.gt_image[scene.gt_crowd]))[:most_images]

    def data(place: torch.device) -> list[Any]:
        preds, target = ([side[i] for i in kept] for side in formats.image_tensors(scene, place))
        return [(preds[i : i + BATCH], target[i : i + BATCH]) for i in range(0, len(preds), BATCH)]

    def gap(_: Any, theirs: dict[str, Tensor]) -> float:
        ours = OfMetric(with_float32_grids())
        ours(data(CPU))
        return max(abs(float(theirs[stat]) - float(ours.value()[stat])) for stat in STATS)

    tolerance = 5e-3 if backend == PLAIN else 1e-6
    job = Job(
        f"{named}, {len(kept):,} images", data, _precision, ("torchmetrics",), 3,
        peer=lambda place: OfMetric(make().to(place)), gap=gap, tolerance=tolerance,
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        return measure(job, device, bandwidth)


def _peer(backend: str) -> Callable[[], Any]:
    if backend == PLAIN:
        kind = importlib.import_module("torchmetrics.detection._mean_ap").MeanAveragePrecision
    else:
        kind = partial(importlib.import_module("torchmetrics.detection.mean_ap").MeanAveragePrecision, backend=backend)

    def make() -> Any:
        metric = kind()
        metric.warn_on_many_detections = False
        return metric

    make()  # where it cannot be made, this says so
    return make
