"""The engines that score images one by one, segments and distances. See :mod:`benchmarks.baselines`."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.baselines import OURS, Clock, Finish, Prepare, Run, Tool
from benchmarks.segmentation_baselines import PIXEL_TOOLS, pairs_of
from benchmarks.verify import Outcome
from testing.datasets import Array
from testing.segmentation_datasets import Maps, things_and_stuffs

SEGMENTS, _SIDE = 1 << 12, 1 << 20  # more than there are instances, and segments, in an image
_BATCH = 4
Read = Callable[[Any], list[float]]


def _metric(module: str, name: str, make: Callable[[Any, Maps], Any], read: Read) -> Callable[[], Prepare]:
    """``start`` of a torch metric that gets batches of images; ``make`` gives it of its class and the dataset."""

    def start() -> Prepare:
        kind = getattr(importlib.import_module(module), name)
        torch = importlib.import_module("torch")

        def prepare(files: Maps) -> Run:
            sides = [np.stack(side).astype(np.int64) for side in zip(*pairs_of(files))]
            parts = [torch.from_numpy(side).split(_BATCH) for side in sides]

            def run(clock: Clock) -> Finish:
                metric = make(kind, files)
                with clock.phase("update"):
                    for truth, preds in zip(*parts):
                        metric.update(preds, truth)
                with clock.phase("compute"):
                    value = metric.compute()
                return lambda: Outcome(read(value))

            return run

        return prepare

    return start


def _numbers(value: Any) -> list[float]:
    return [float(number) for number in value.reshape(-1)]


def _both(name: str, make: Callable[[Any, Maps], Any], read: Read = _numbers) -> tuple[Any, Any]:
    """``start`` of ours and of torchmetrics' class, which are made and read alike."""
    return tuple(_metric(f"{m}.{part}", name, make, read) for m, part in _homes(name))  # type: ignore[return-value]


def _homes(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("valor_gpu", "segmentation"), ("torchmetrics", "detection" if "Panoptic" in name else "segmentation")


def _make_mean_iou(kind: Any, files: Maps) -> Any:
    return kind(num_classes=files.classes, input_format="index", per_class=True)


def _make_quality(kind: Any, files: Maps) -> Any:
    return kind(*things_and_stuffs(files.classes), return_sq_and_rq=True)


def _make_hausdorff(kind: Any, files: Maps) -> Any:
    return kind(num_classes=files.classes, input_format="index")


# ------------------------------------------------------------------------------------------------------------- panoptic


def _start_quality() -> Prepare:
    """The definition with a dictionary of segments: Kirillov et al., Panoptic Segmentation, CVPR 2019."""

    def prepare(files: Maps) -> Run:
        pairs = pairs_of(files)

        def run(clock: Clock) -> Finish:
            totals = np.zeros((files.classes, 4))  # sum of IoU, true positives, false positives, false negatives
            for truth, preds in pairs:
                _add_segments(totals, *(side[..., 0] * SEGMENTS + side[..., 1] for side in (truth, preds)))
            return lambda: Outcome(_quality(totals))

        return run

    return prepare


def _add_segments(totals: Array, truth: Array, preds: Array) -> None:
    """Adds one image, whose pixels hold category x ``SEGMENTS`` + instance."""
    sides = [dict(zip(*map(np.ndarray.tolist, np.unique(side, return_counts=True)))) for side in (truth, preds)]
    both, areas = np.unique(truth * _SIDE + preds, return_counts=True)
    matched: tuple[set[int], set[int]] = (set(), set())
    for pair, area in zip(both.tolist(), areas.tolist()):
        own, found = divmod(pair, _SIDE)
        iou = area / (sides[0][own] + sides[1][found] - area)
        if own // SEGMENTS == found // SEGMENTS and iou > 0.5:
            totals[own // SEGMENTS, :2] += iou, 1
            matched[0].add(own), matched[1].add(found)
    for column, side in ((3, 0), (2, 1)):
        for segment in sides[side].keys() - matched[side]:
            totals[segment // SEGMENTS, column] += 1


def _quality(totals: Array) -> list[float]:
    """PQ, SQ and RQ, means over the categories that occur."""
    iou, right, wrong, missed = totals[totals[:, 1:].sum(1) > 0].T
    weight = right + wrong / 2 + missed / 2
    segmentation = np.divide(iou, right, out=np.zeros_like(iou), where=right > 0)
    return [float(part.mean()) for part in (iou / weight, segmentation, right / weight)]


# ------------------------------------------------------------------------------------------------------------ distances


def _scipy(read: Callable[[list[tuple[Array, Array]]], list[float]]) -> Callable[[], Prepare]:
    """``start`` of a loop over images and classes; ``read`` takes the distances of both directions of all of them."""

    def start() -> Prepare:
        ndimage = importlib.import_module("scipy.ndimage")

        def prepare(files: Maps) -> Run:
            pairs = pairs_of(files)

            def run(clock: Clock) -> Finish:
                labels = range(1, files.classes)
                values = read([_distances(ndimage, t == c, p == c) for (t, p), c in itertools.product(pairs, labels)])
                return lambda: Outcome(values)

            return run

        return prepare

    return start


def _distances(ndimage: Any, truth: Array, preds: Array) -> tuple[Array, Array]:
    """From each boundary pixel of the predictions to those of the truth, and back, as medpy finds them."""
    cross = ndimage.generate_binary_structure(2, 1)
    edges = [side ^ ndimage.binary_erosion(side, cross) for side in (preds, truth)]
    fields = [ndimage.distance_transform_edt(~edge) for edge in edges]
    return fields[1][edges[0]], fields[0][edges[1]]


def _largest(found: list[tuple[Array, Array]]) -> list[float]:
    return [float(np.mean([max(first.max(), second.max()) for first, second in found]))]


def _mean_and_percentile(found: list[tuple[Array, Array]]) -> list[float]:
    means = [np.concatenate(both).mean() for both in found]
    tails = [max(np.percentile(side, 95) for side in both) for both in found]
    return [float(np.mean(means)), float(np.mean(tails))]


def _start_surface() -> Prepare:
    kind = importlib.import_module("valor_gpu.segmentation").SurfaceDistance
    torch = importlib.import_module("torch")

    def prepare(files: Maps) -> Run:
        ready = [[torch.from_numpy(side)[None] for side in pair] for pair in pairs_of(files)]

        def run(clock: Clock) -> Finish:
            values = []
            for statistic in ("mean", "percentile"):
                metric = kind(files.classes, statistic=statistic)
                for truth, preds in ready:
                    metric.update(preds, truth)
                values.append(float(metric.compute()))
            return lambda: Outcome(values)

        return run

    return prepare


_OUR_IOU, _THEIR_IOU = _both("MeanIoU", _make_mean_iou)
_OUR_QUALITY, _THEIR_QUALITY = _both("PanopticQuality", _make_quality)
_OUR_HAUSDORFF, _THEIR_HAUSDORFF = _both("HausdorffDistance", _make_hausdorff)
_TORCHMETRICS, _LOOP = "torchmetrics", "loop of scipy"

TOOLS: dict[str, tuple[Tool, ...]] = {
    **PIXEL_TOOLS,
    "mean IoU": (
        Tool(OURS, OURS, "single", _OUR_IOU),
        Tool(_TORCHMETRICS, _TORCHMETRICS, "single", _THEIR_IOU, slow=True),
    ),
    "panoptic quality": (
        Tool(OURS, OURS, "ratios", _OUR_QUALITY),
        Tool(_TORCHMETRICS, _TORCHMETRICS, "single", _THEIR_QUALITY, slow=True),
        Tool("loop of numpy", "numpy", "ratios", _start_quality, slow=True),
    ),
    "Hausdorff distance": (
        Tool(OURS, OURS, "single", _OUR_HAUSDORFF),
        Tool(_TORCHMETRICS, _TORCHMETRICS, "single", _THEIR_HAUSDORFF, slow=True),
        Tool(_LOOP, "scipy", "ratios", _scipy(_largest), slow=True),
    ),
    "surface distances": (
        Tool(OURS, OURS, "ratios", _start_surface),
        Tool(_LOOP, "scipy", "ratios", _scipy(_mean_and_percentile), slow=True),
    ),
}
"""All engines by path; ours first, the reference last."""
