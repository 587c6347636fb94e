"""Evaluation of label maps in files: threads read and count pairs of files, one result is for all. No torch import.

Memory does not grow with the number of images, but for their names: one table of counts is kept for all pixels, and
one sum over images of each number. Intervals need the counts of each image too, 24 bytes a class.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu._frozen import frozen
from valor_gpu.digests import DataHashes
from valor_gpu.errors import InputError
from valor_gpu.inputs.files import sha256_of
from valor_gpu.inputs.label_map_files import LabelMapReader
from valor_gpu.inputs.label_map_pairs import Pair
from valor_gpu.ops.native_types import NUMPY_FLOAT_TYPES
from valor_gpu.ops.pixel_counts.cpu import check_choices, count_logits, count_pixels
from valor_gpu.provenance import host_provenance, provenance_of
from valor_gpu.reduce.ignored import ignored_doubt
from valor_gpu.reduce.regions import absent, region_value, undefined
from valor_gpu.result import Result, Signature
from valor_gpu.segmentation.image_analysis import UnknownImages
from valor_gpu.segmentation.label_map_images import KeptCounts, LabelMapAnalysis
from valor_gpu.segmentation.resampled_images import no_images
from valor_gpu.segmentation.resampled_label_maps import resampled_label_maps
from valor_gpu.segmentation.running_means import RunningMean
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from valor_gpu.store.saved import SavedImage, SavedRun

NUMBERS = {
    "miou": ("iou", "macro"),
    "pixel_accuracy": ("accuracy", "micro"),
    "mean_accuracy": ("accuracy", "macro"),
    "frequency_weighted_iou": ("iou", "weighted"),
    "mean_precision": ("precision", "macro"),
    "mean_f1": ("f1", "macro"),
}
"""Numbers of all classes: the ratio and its average, see :func:`valor_gpu.reduce.regions.region_value`."""

RATIOS = ("iou", "precision", "recall", "f1")
"""Numbers of each class."""

_ABSENT = "no counted pixel is true or predicted of this class"
_UNDEFINED = {"precision": "no pixel is predicted to be of this class", "recall": "no pixel is of this class"}

Digest = tuple[int, str]  # bytes and SHA-256 of a file


@frozen
class Task:
    """What to count.

    Attributes:
        num_classes: C.
        ignore_index: pixels whose ground truth has this value are left out, whatever their prediction.
        readers: of ground truths and of predictions.
        threads: how many read and count.
        hashed: whether files are hashed too.

    Raises:
        InputError: too many classes, or an ignored value that no label can have.
    """

    num_classes: int
    ignore_index: int | None = None
    readers: tuple[LabelMapReader, LabelMapReader] = (LabelMapReader(), LabelMapReader(logits=True))
    threads: int = 1
    hashed: bool = False

    def __post_init__(self) -> None:
        check_choices(self.num_classes, self.ignore_index, (), False)


@frozen
class ImageCounts:
    """What one pair of files gives.

    Attributes:
        pair: the files.
        shape: height and width in pixels; None of a pair that failed.
        counts: int64 ``[3, C]``, true positives, predicted and true pixels of each class; None of a pair that failed.
        error: why it failed, or empty.
        digests: of both files, where they are hashed.
        labels: of a pair that failed, the labels in the ground truth and in the prediction, as far as they were read.
    """

    pair: Pair
    shape: tuple[int, int] | None
    counts: NDArray[np.int64] | None
    error: str = ""
    digests: tuple[Digest, ...] = ()
    labels: tuple[frozenset[int], ...] = (frozenset(), frozenset())

    @property
    def pixels(self) -> int:
        """Pixels, ignored ones included."""
        return 0 if self.shape is None else math.prod(self.shape)

    @property
    def ignored(self) -> int:
        """Pixels that are left out."""
        return 0 if self.counts is None else self.pixels - int(self.counts[2].sum())

    @property
    def wrong(self) -> int:
        """Pixels that count and have another class than the ground truth."""
        return 0 if self.counts is None else int((self.counts[2] - self.counts[0]).sum())


def count_images(pairs: Sequence[Pair], task: Task) -> Iterator[ImageCounts]:
    """Counts each pair of files, in their order; only a few images are in memory at a time.

    A pair that cannot be read or does not fit is yielded with its error, and takes no other with it.
    """
    count = _counter()
    with ThreadPoolExecutor(task.threads) as pool:
        rest = iter(pairs)
        running: deque[Future[ImageCounts]] = deque()
        try:
            for pair in islice(rest, 2 * task.threads):
                running.append(pool.submit(_count_pair, pair, task, count))
            while running:
                yield running.popleft().result()
                running.extend(pool.submit(_count_pair, pair, task, count) for pair in islice(rest, 1))
        finally:
            pool.shutdown(cancel_futures=True)


def read_pair(pair: Pair, task: Task) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ground truth ``[H, W]`` and prediction ``[H, W]`` or ``[C, H, W]`` of two files that fit together.

    Raises:
        InputError: a file is damaged, holds something else, or has another size or other classes than it must.
        OSError: a file cannot be read.
    """
    target = task.readers[0].read(pair.ground_truth)
    preds = task.readers[1].read(pair.prediction)
    if preds.shape[-2:] != target.shape:
        sizes = [f"{height} x {width}" for height, width in (target.shape, preds.shape[-2:])]
        last = preds.ndim == 3 and preds.shape[:2] == target.shape
        raise InputError(
            f"{pair.prediction} must have the height and width of {pair.ground_truth}, {sizes[0]}, but has {sizes[1]}"
            f"{': logits must be [classes, height, width]' if last else ''}"
        )
    if preds.ndim == 3 and len(preds) == 1:  # the largest of one logit says nothing
        raise InputError(
            f"{pair.prediction} must have logits of two or more classes but has one channel: for a binary mask save"
            " class indices, 1 where the probability is above 0.5"
        )
    if preds.ndim == 3 and len(preds) != task.num_classes:
        raise InputError(f"{pair.prediction} must have logits of {task.num_classes} classes but has {len(preds)}")
    return target, preds


_Counter = Callable[[NDArray[Any], NDArray[Any], Task, tuple[str, str]], NDArray[np.int64]]


def _count_pair(pair: Pair, task: Task, count: _Counter) -> ImageCounts:
    maps: tuple[NDArray[Any], ...] = ()
    try:
        target, preds = maps = read_pair(pair, task)
        counts = count(preds, target, task, (pair.prediction, pair.ground_truth))
        files = (pair.ground_truth, pair.prediction) if task.hashed else ()
        return ImageCounts(pair, target.shape, counts, "", tuple(map(sha256_of, files)))  # type: ignore[arg-type]
    except InputError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename or pair.name} cannot be read: {error.strerror or error}"
    except MemoryError:
        reason = f"{pair.ground_truth} and {pair.prediction} need more memory than there is"
    return ImageCounts(pair, None, None, reason, (), tuple(map(_labels, maps)) or (frozenset(),) * 2)


def _labels(array: NDArray[Any]) -> frozenset[int]:
    """The labels in a map; none of logits."""
    return frozenset() if array.dtype in NUMPY_FLOAT_TYPES else frozenset(np.unique(array).tolist())


def _counter() -> _Counter:
    """C++ over the arrays as they are, or where it was not built, the op in plain torch."""
    return _count_native if native.usable("valor_cpu") else _count_torch


def _count_native(preds: NDArray[Any], target: NDArray[Any], task: Task, names: tuple[str, str]) -> NDArray[np.int64]:
    if preds.dtype in NUMPY_FLOAT_TYPES:
        rows = preds.transpose(1, 0, 2)  # [H, C, W]: a place in a message is then that in the file
        return count_logits(rows, target, ignore_index=task.ignore_index, names=names, threads=1)
    return count_pixels(preds, target, task.num_classes, ignore_index=task.ignore_index, names=names, threads=1)


def _count_torch(preds: NDArray[Any], target: NDArray[Any], task: Task, names: tuple[str, str]) -> NDArray[np.int64]:
    import torch

    from valor_gpu.ops.error_codes import raise_error
    from valor_gpu.ops.pixel_counts import op as ops

    found, true = (torch.from_numpy(np.require(array, requirements="W")) for array in (preds, target))
    if found.is_floating_point():
        counted = ops.count_logits(found.transpose(0, 1), true, ignore_index=task.ignore_index)
        describe = ops.pixel_error(None, true, task.num_classes, names=names)
    else:
        counted = ops.count_pixels(found, true, task.num_classes, ignore_index=task.ignore_index)
        describe = ops.pixel_error(found, true, task.num_classes, names=names)
    raise_error(counted.error, describe)
    counts: NDArray[np.int64] = counted.counts.numpy()
    return counts


def image_numbers(counts: NDArray[np.int64]) -> dict[str, float]:
    """The numbers of all classes of counts ``[3, C]``; NaN where no pixel counts."""
    return {name: float(region_value(ratio, counts, average)) for name, (ratio, average) in NUMBERS.items()}


def saved_image(image: ImageCounts, numbers: Mapping[str, float], name: str) -> SavedImage:
    """An image as a store keeps it.

    Args:
        image: its counts.
        numbers: what :meth:`Totals.add` gave for it.
        name: of its picture.
    """
    from valor_gpu.store.saved import SavedImage

    height, width = image.shape or (0, 0)
    inputs = {"image": name, "width": width, "height": height}
    shown = {"image_f1": "mean_f1", "image_miou": "miou", "image_pixel_accuracy": "pixel_accuracy"}
    scores = {to: None if math.isnan(numbers[of]) else numbers[of] for to, of in shown.items()}
    outputs = {"pixels": image.pixels, "ignored_pixels": image.ignored, "wrong_pixels": image.wrong}
    return SavedImage(image.pair.name, inputs, outputs, scores)


class SavableLabelMaps:
    """What a store keeps of label maps.

    Args:
        result: of :meth:`Totals.result`.
        images: of :func:`saved_image`.
        doubts: of :meth:`Totals.doubts`, which the page of the run shows.
    """

    def __init__(self, result: Result, images: Sequence[SavedImage], doubts: Sequence[str] = ()) -> None:
        self._result, self._images, self._doubts = result, images, doubts

    def to_run(self) -> SavedRun:
        """The run."""
        run = self._result.to_run().with_images(self._images)
        return replace(run, notes=[f"{text}." for text in self._doubts])


class Totals:
    """What is kept of the images so far.

    Args:
        names: of the classes.
        task: what was counted.
        keep_images: keep the counts of each image, which intervals need.
    """

    def __init__(self, names: Sequence[str], task: Task, keep_images: bool = False) -> None:
        self.names, self.task, self.keep_images = names, task, keep_images
        self._kept: list[KeptCounts] = []
        self.counts = np.zeros((3, len(names)), np.int64)
        self.images_per_class = np.zeros(len(names), np.int64)
        self.images = self.pixels = 0
        self.failed: list[ImageCounts] = []
        self._means = {name: RunningMean(()) for name in NUMBERS}
        self._class_means = RunningMean((len(names),))
        self._digests = [(hashlib.sha256(), 0), (hashlib.sha256(), 0)]

    @property
    def kept(self) -> Sequence[KeptCounts]:
        """Counts of each image, where they are kept."""
        return self._kept

    def add(self, image: ImageCounts) -> dict[str, float]:
        """Adds an image; returns its numbers, none where it failed."""
        if image.counts is None:
            self.failed.append(image)
            return {}
        self._add_digests(image)
        return self.add_counts(KeptCounts(image.pair.name, image.counts, image.pixels))

    def add_counts(self, image: KeptCounts) -> dict[str, float]:
        """Adds the counts of an image; returns its numbers."""
        self.counts += image.counts
        self.images += 1
        if self.keep_images:
            self._kept.append(image)
        self.images_per_class += ~absent(image.counts)
        self.pixels += image.pixels
        numbers = image_numbers(image.counts)
        for name, value in numbers.items():
            self._means[name].add(np.float64(value))
        self._class_means.add(region_value("iou", image.counts, None))
        return numbers

    def _add_digests(self, image: ImageCounts) -> None:
        for side, (size, digest) in enumerate(image.digests):
            line = f"{digest}  {image.pair.name}\n".encode(errors="surrogateescape")
            whole, bytes_before = self._digests[side]
            whole.update(line)
            self._digests[side] = whole, bytes_before + size

    def digests(self) -> list[Digest]:
        """Of both sides, bytes of the files that counted, and SHA-256 of one line per file: its own, and its name."""
        return [(size, digest.hexdigest()) for digest, size in self._digests]

    def result(self, more_counts: dict[str, int], intervals: int | Bootstrap | None = None) -> Result:
        """The numbers of all pixels, of each class, and the means over images.

        Args:
            more_counts: what else was counted, such as files without a partner.
            intervals: replicates of a bootstrap over images, or its choices.

        Raises:
            InputError: intervals are asked for but the counts of images are not kept.
        """
        values: dict[str, Any] = dict(image_numbers(self.counts))
        values |= {f"image_{name}": float(mean.value()) for name, mean in self._means.items()}
        reasons = {name: "no pixel counts" for name, value in values.items() if math.isnan(value)}
        for ratio in RATIOS:
            of_class = region_value(ratio, self.counts, None, zero_division=math.nan)
            values[f"{ratio}_per_class"] = self._named(of_class)
            missing = np.flatnonzero(undefined(ratio, self.counts))
            reasons |= {f"{ratio}_per_class/{self.names[c]}": _UNDEFINED[ratio] for c in missing.tolist()}
        values["image_iou_per_class"] = self._named(self._class_means.value())
        gone = np.flatnonzero(absent(self.counts))
        per_class = [f"{ratio}_per_class" for ratio in RATIOS] + ["image_iou_per_class"]
        reasons |= {f"{name}/{self.names[c]}": _ABSENT for name in per_class for c in gone.tolist()}
        tables = {"true_pixels": self.counts[2], "predicted_pixels": self.counts[1], "images": self.images_per_class}
        values |= {f"{name}_per_class": self._named(table) for name, table in tables.items()}
        counts = self._counts(len(gone), more_counts)
        more: dict[str, Any] = {
            "provenance": self._provenance(),
            "state": no_images,
            "analysis": UnknownImages("segment"),
        }
        if self.keep_images:
            names, kept = list(self.names), tuple(self._kept)
            more["state"] = partial(resampled_label_maps, names, kept, NUMBERS, RATIOS)
            more["analysis"] = partial(
                LabelMapAnalysis, partial(Totals, names, self.task, True), kept, more["state"], self._signature()
            )
        result = Result(values, self._signature(), counts, reasons, **more)
        return result if intervals is None else result.with_intervals(intervals)

    def _provenance(self) -> Callable[[], dict[str, Any]]:
        (_, truths), (_, predictions) = self.digests()
        hashes = DataHashes("files", truths, predictions)
        if not self.task.hashed:
            hashes = DataHashes.none("the files are hashed with --json or --store alone")
        return partial(provenance_of, host_provenance, lambda: hashes, "int64")

    def doubts(self) -> list[str]:
        """Says where ``--ignore`` may have left out what should count."""
        ignored, value = self.pixels - int(self.counts[2].sum()), self.task.ignore_index
        doubt = "" if value is None else ignored_doubt(self.counts[2], ignored, value, f"--ignore {value}")
        return [doubt] if doubt else []

    def _named(self, values: NDArray[Any]) -> dict[str, Any]:
        return dict(zip(self.names, values.tolist()))

    def _signature(self) -> Signature:
        ignored = self.task.ignore_index
        choices = {"num_classes": self.task.num_classes, "average": "macro", "ignore_index": ignored}
        return Signature({"metric": "segment", **choices, "zero_division": 0.0})

    def _counts(self, gone: int, more: dict[str, int]) -> dict[str, int]:
        return {
            "images": self.images,
            "pixels": self.pixels,
            "ignored": self.pixels - int(self.counts[2].sum()),
            "classes": len(self.names),
            "absent_classes": gone,
            "failed_images": len(self.failed),
            **more,
        }
