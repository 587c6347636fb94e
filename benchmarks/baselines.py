"""The engines that are measured: how each gets from files, or from batches of tensors, to AP.

An engine is three steps, so that only the middle one is timed: ``start`` imports it and gives ``prepare``, which takes
the files of a dataset to the inputs that this engine wants; the run takes them to AP and gives a function that reads
the outcome.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.verify import REFERENCE, STATS, Outcome, digest
from testing import formats
from testing.datasets import Array, BoxDataset
from testing.formats import Files

BATCH = 16


class Clock:
    """Seconds of named phases."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.phases[name] = time.perf_counter() - start


Finish = Callable[[], Outcome]
Run = Callable[[Clock], Finish]
Prepare = Callable[[Any], Run]  # of the files of a dataset


@dataclass(frozen=True)
class Tool:
    """One engine on one path.

    Attributes:
        name: of the row.
        package: the distribution whose version is recorded.
        rule: key of ``verify.RULES``.
        start: imports the engine; raises ImportError when something is not installed.
        slow: takes minutes, and gigabytes, beyond the val2017 scale, where it is not run.
        most: largest size at which it is run, None for any.
        floor: no peer, but a bound for all or another entry of ours: it is never the fastest peer.
    """

    name: str
    package: str
    rule: str
    start: Callable[[], Prepare]
    slow: bool = False
    most: int | None = None
    floor: bool = False


# -------------------------------------------------------------------------------------------------------- files to AP


def drop_in(load: Callable[[], tuple[Any, Any]], iou_type: str = "bbox") -> Callable[[], Prepare]:
    """``start`` of an engine with pycocotools' classes, which ``load`` imports."""

    def start() -> Prepare:
        coco, evaluator = load()
        return lambda files: lambda clock: _files_to_ap(coco, evaluator, iou_type, files, clock)

    return start


def _files_to_ap(coco: Any, evaluator: Any, iou_type: str, files: Any, clock: Clock) -> Finish:
    with clock.phase("load_truth"):
        ground_truth = coco(str(files.gt))
    with clock.phase("load_found"):
        found = ground_truth.loadRes(str(files.dt))
    return evaluate(evaluator, ground_truth, found, clock, iou_type)


def evaluate(evaluator: Any, ground_truth: Any, found: Any, clock: Clock, iou_type: str = "bbox") -> Finish:
    """Times the steps of pycocotools' evaluator."""
    with clock.phase("evaluate"):
        run = evaluator(ground_truth, found, iou_type)
        run.evaluate()
    with clock.phase("accumulate"):
        run.accumulate()
    with clock.phase("summarize"):
        run.summarize()
    return lambda: coco_outcome(run)


def coco_outcome(run: Any) -> Outcome:
    arrays = digest(run.eval["precision"], run.eval["recall"], list(run.params.catIds))
    return Outcome([float(v) for v in run.stats[: len(STATS)]], arrays)


def classes(module: str, evaluator: str = "COCOeval") -> Callable[[], tuple[Any, Any]]:
    """Loads ``COCO`` and the evaluator from one module, and all that they import at first use."""

    def load() -> tuple[Any, Any]:
        found = importlib.import_module(module)
        return found.COCO, getattr(found, evaluator)

    return load


def load_ours() -> tuple[Any, Any]:
    importlib.import_module("valor_gpu.coco.accumulation")  # torch and the kernels
    return classes("valor_gpu.coco")()


def load_pycocotools() -> tuple[Any, Any]:
    coco = importlib.import_module("pycocotools.coco")
    return coco.COCO, importlib.import_module("pycocotools.cocoeval").COCOeval


# ------------------------------------------------------------------------------------------------------ tensors to AP


def _scene(files: Files) -> BoxDataset:
    """What all engines of this path see: the numbers of float32 tensors."""
    return formats.through_float32(formats.load(files))


def _batches(items: tuple[list[Any], list[Any]]) -> list[tuple[list[Any], list[Any]]]:
    preds, target = items
    return [(preds[i : i + BATCH], target[i : i + BATCH]) for i in range(0, len(preds), BATCH)]


def _start_valor_gpu() -> Prepare:
    module = importlib.import_module("valor_gpu.detection.mean_ap")

    def prepare(files: Files) -> Run:
        batches = _batches(formats.image_tensors(formats.load(files)))
        return lambda clock: _update_and_compute(module, batches, clock)

    return prepare


def _update_and_compute(module: Any, batches: list[Any], clock: Clock) -> Finish:
    metric = module.MeanAveragePrecision()
    with clock.phase("update"):
        for preds, target in batches:
            metric.update(preds, target)
    with clock.phase("compute"):
        metric.compute()
    return lambda: _our_outcome(module, metric, batches)


def _our_outcome(module: Any, metric: Any, batches: list[Any]) -> Outcome:
    """Numbers and arrays of the metric that was timed, and the numbers of one with torchmetrics' grids."""
    from valor_gpu.ops.accumulate.op import accumulate
    from valor_gpu.ops.accumulate.types import AccumulateChoices, RecordShape

    shape = RecordShape(len(metric.iou_thresholds), len(module.AREA_RANGES), len(metric.max_detection_thresholds))
    choices = AccumulateChoices(shape, np.array(metric.rec_thresholds), full=True)
    found = accumulate(*metric.state().tensors().values(), choices)
    arrays = digest(found.curves.precision.numpy(), found.curves.recall.numpy(), found.labels.tolist())
    peer = with_float32_grids()
    for preds, target in batches:
        peer.update(preds, target)
    return Outcome(our_numbers(metric), arrays, our_numbers(peer))


def with_float32_grids() -> Any:
    """Our metric with the float32 IoU thresholds, recall grid and tie order of torchmetrics."""
    import torch

    from valor_gpu.detection import MeanAveragePrecision

    thresholds, grid = torch.linspace(0.5, 0.95, 10).tolist(), torch.linspace(0, 1, 101).tolist()
    return MeanAveragePrecision(iou_thresholds=thresholds, rec_thresholds=grid, tie_order="arrival")


def our_numbers(metric: Any) -> list[float]:
    values = metric.result().values
    return [-1.0 if np.isnan(values[name]) else float(values[name]) for name in STATS]


def _start_torchmetrics(backend: str) -> Callable[[], Prepare]:
    def start() -> Prepare:
        load_torchvision()
        kind = importlib.import_module("torchmetrics.detection").MeanAveragePrecision
        kind(backend=backend)  # raises here when the backend is not installed

        def prepare(files: Files) -> Run:
            batches = _batches(formats.image_tensors(formats.load(files)))

            def run(clock: Clock) -> Finish:
                metric = kind(backend=backend)
                metric.warn_on_many_detections = False
                with clock.phase("update"):
                    for preds, target in batches:
                        metric.update(preds, target)
                with clock.phase("compute"):
                    values = metric.compute()
                return lambda: Outcome([float(values[name]) for name in STATS])

            return run

        return prepare

    return start


def load_torchvision() -> None:
    """Import torchvision, for which torchmetrics looks when imported; ``tests`` prepares what a CPU torch needs."""
    importlib.import_module("testing.prepare")
    importlib.import_module("torchvision")


def _start_arrays(load: Callable[[], tuple[Any, Any]]) -> Callable[[], Prepare]:
    """``COCO(dict)`` or ``COCO()`` with a dataset, ``loadRes`` of an N x 7 array."""

    def start() -> Prepare:
        coco, evaluator = load()

        def prepare(files: Files) -> Run:
            scene = _scene(files)
            data, results = formats.dataset(scene), formats.results_array(scene)

            def run(clock: Clock) -> Finish:
                with clock.phase("load"):
                    ground_truth = _indexed(coco, data)
                    found = ground_truth.loadRes(results)
                return evaluate(evaluator, ground_truth, found, clock)

            return run

        return prepare

    return start


def _indexed(coco: Any, data: dict[str, Any]) -> Any:
    if not coco.__module__.startswith("pycocotools"):
        return coco(data)
    ground_truth = coco()
    ground_truth.dataset = data
    ground_truth.createIndex()
    return ground_truth


def _start_hotcoco_columns() -> Prepare:
    coco, evaluator = classes("hotcoco")()

    def prepare(files: Files) -> Run:
        scene = _scene(files)
        heads, results = (formats.image_objects(scene), formats.category_objects(scene)), formats.results_array(scene)
        keys = scene.image_ids[scene.gt_image]
        names = scene.category_ids[scene.gt_category]
        areas, crowds = scene.gt_area, scene.gt_crowd.astype(np.int64)

        def run(clock: Clock) -> Finish:
            with clock.phase("load"):
                ground_truth = coco.from_arrays(*heads, keys, names, scene.gt_box, area=areas, iscrowd=crowds)
                found = ground_truth.load_res(results)
            return evaluate(evaluator, ground_truth, found, clock)

        return run

    return prepare


def _start_hotcoco_stream() -> Prepare:
    kind = importlib.import_module("hotcoco").StreamingEval

    def prepare(files: Files) -> Run:
        scene = _scene(files)
        heads, names = formats.image_objects(scene), formats.category_objects(scene)
        gt_ends, dt_ends = (ends.tolist() for ends in formats.row_ends(scene))
        batches: list[tuple[list[Any], list[Any], Array]] = []
        for first in range(0, len(heads), BATCH):
            last = min(first + BATCH, len(heads))
            ground_truths = list(formats.gt_objects(scene, gt_ends[first], gt_ends[last]))
            found = formats.results_array(scene, slice(dt_ends[first], dt_ends[last]))
            batches.append((heads[first:last], ground_truths, found))

        def run(clock: Clock) -> Finish:
            stream = kind(names, "bbox")
            with clock.phase("update"):
                for batch in batches:
                    stream.update(*batch)
            with clock.phase("compute"):
                result = stream.finalize()
                result.accumulate()
                result.summarize()
            return lambda: coco_outcome(result)

        return run

    return prepare


OURS = "valor_gpu"
_ULTRAFAST, _HOTCOCO = "ultrafast-pycocotools", "hotcoco"

TOOLS: dict[str, tuple[Tool, ...]] = {
    "files": (
        Tool(OURS, OURS, "bits", drop_in(load_ours)),
        Tool(_ULTRAFAST, _ULTRAFAST, "bits", drop_in(classes("ultrafast_pycocotools"))),
        Tool(_HOTCOCO, _HOTCOCO, "bits", drop_in(classes("hotcoco"))),
        Tool(
            *("faster-coco-eval", "faster-coco-eval", "rounding"),
            start=drop_in(classes("faster_coco_eval", "COCOeval_faster")),
            slow=True,
        ),
        Tool(REFERENCE, REFERENCE, "bits", drop_in(load_pycocotools), slow=True),
    ),
    "tensors": (
        Tool(OURS, OURS, "bits", _start_valor_gpu),
        Tool(_ULTRAFAST, _ULTRAFAST, "bits", _start_arrays(classes("ultrafast_pycocotools"))),
        Tool(_HOTCOCO, _HOTCOCO, "bits", _start_hotcoco_columns),
        Tool("hotcoco streaming", _HOTCOCO, "bits", _start_hotcoco_stream),
        Tool(
            *("torchmetrics + faster-coco-eval", "torchmetrics", "float32 grids"),
            start=_start_torchmetrics("faster_coco_eval"),
            slow=True,
        ),
        Tool(
            *("torchmetrics + pycocotools", "torchmetrics", "float32 grids"),
            start=_start_torchmetrics("pycocotools"),
            slow=True,
        ),
        Tool(REFERENCE, REFERENCE, "bits", _start_arrays(load_pycocotools), slow=True),
    ),
}
"""All engines by path; ours first."""
