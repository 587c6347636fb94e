"""What the host benchmark measures: works of metrics on CUDA, each with its budget and its row in a GPU check."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.baselines import BATCH
from benchmarks.host_device import Work, launching_nothing
from testing import formats
from testing.datasets import CASES as SCENES
from testing.datasets import make
from valor_gpu.classification import ROCAUC, Accuracy, ConfusionMatrix
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.segmentation import MeanIoU, mIOU

IMAGES = 64
"""Of the scene of boxes at val2017 scale."""
UPDATES = 313
"""Of 16 images each, in val2017."""

_REAL = 3  # computes by kernels: the first ones on a device guess how many classes there are
Batches = Sequence[tuple[Any, Any]]
_CPU = torch.device("cpu")


class Updates:
    """Updates with one batch after another."""

    def __init__(self, metric: Any, batches: Batches) -> None:
        self.metric, self._batches = metric, batches

    @property
    def held(self) -> Any:
        """Batches and the state."""
        return self._batches, [value for value in vars(self.metric).values() if isinstance(value, (torch.Tensor, list))]

    def prepare(self) -> None:
        """Empties the metric."""
        self.metric.reset()

    def __call__(self) -> object:
        for preds, target in self._batches:
            self.metric.update(preds, target)
        return None


class Computes:
    """``compute`` of average precision, after updates that are part of the work or precede it.

    What it reads back are the words of another metric whose kernels have run.
    """

    def __init__(self, batches: Batches, with_updates: bool) -> None:
        metric = MeanAveragePrecision()
        metric.update(*batches[0])
        for _ in range(_REAL):
            forget(metric)
            self.expected = metric.compute()
        self._updates, self._with_updates = Updates(MeanAveragePrecision(), batches), with_updates
        self.value: Any = None
        if not with_updates:
            with launching_nothing():
                self._updates()

    @property
    def held(self) -> Any:
        """Batches and the state."""
        return self._updates.held

    def prepare(self) -> None:
        """Forgets what was computed, and joined rows."""
        if self._with_updates:
            self._updates.prepare()
        else:
            forget(self._updates.metric)

    def __call__(self) -> object:
        if self._with_updates:
            self._updates()
        self.value = self._updates.metric.compute()
        return self.value


def forget(metric: Any) -> None:
    """Lets a metric compute again, from rows that are not joined yet."""
    metric.__dict__.update(_computed=None, _merged=None)


@dataclass(frozen=True)
class HostCase:
    """A work.

    Attributes:
        name: as the report shows it.
        make: makes it, under :func:`benchmarks.host_device.pretended`.
        times: so many works are in one call.
        budget: key of :data:`benchmarks.gpu_targets.TARGETS`; empty where the host has none.
        row: the work, in the record of a GPU check, that has this time; empty for none.
        clock: of that row.
    """

    name: str
    make: Callable[[], Work]
    times: int = 1
    budget: str = ""
    row: str = ""
    clock: str = "host_seconds"


@functools.cache
def _lists() -> tuple[list[Any], list[Any]]:
    return formats.image_tensors(make(SCENES["val2017"], IMAGES), _CPU)


def listed(images: int) -> Batches:
    """Batches of so many images, in lists of dicts."""
    preds, target = _lists()
    return [(preds[i : i + images], target[i : i + images]) for i in range(0, IMAGES, images)]


def padded(images: int) -> Batches:
    """Batches of so many images, in dicts of padded tensors."""
    whole = formats.padded_tensors(make(SCENES["val2017"], IMAGES), _CPU)
    starts = range(0, IMAGES, images)
    return [tuple({key: table[i : i + images] for key, table in side.items()} for side in whole) for i in starts]  # type: ignore[misc]


def short(count: int) -> Batches:
    """Batches of 16 images with at most two rows on either side, so that joining tables moves few bytes."""
    found = []
    for batch in range(count):
        part = listed(BATCH)[batch % (IMAGES // BATCH)]
        found.append(tuple([{key: rows[:2].clone() for key, rows in item.items()} for item in side] for side in part))
    return found  # type: ignore[return-value]


def _detection() -> list[HostCase]:
    cases = []
    for images in (1, BATCH, IMAGES):
        for form, batches in (("lists", listed), ("padded", padded)):
            name = f"update of {images} image{'s' if images > 1 else ''}, {form}"
            known = images == BATCH
            cases.append(HostCase(
                name, functools.partial(_updates_of, batches, images), IMAGES // images, name if known else "",
                f"val2017 scale: one {name}" if known else "",
            ))  # fmt: skip
    together = f"updates of {BATCH} images and compute"
    return [
        *cases,
        HostCase("compute after 1 update", lambda: Computes(short(1), False), 1, "val2017, compute",
                 "val2017 scale: compute"),
        HostCase(f"compute after {UPDATES} updates", lambda: Computes(short(UPDATES), False)),
        HostCase(f"{UPDATES} {together}, lists", lambda: Computes(short(UPDATES), True), 1, f"val2017, {together}",
                 f"box AP, val2017 scale, {together}", "seconds"),
    ]  # fmt: skip


def _updates_of(batches: Callable[[int], Batches], images: int) -> Updates:
    return Updates(MeanAveragePrecision(), batches(images))


_REPEATED = 16


def _scores() -> Batches:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(8192, 1000, generator=generator).softmax(1)
    return [(scores, torch.randint(1000, (8192,), generator=generator))] * _REPEATED


def _classification() -> list[HostCase]:
    size = "update of 8,192 x 1,000 scores"
    return [
        HostCase(f"Accuracy, {size}", lambda: Updates(Accuracy(num_classes=1000), _scores()), _REPEATED),
        HostCase(f"ConfusionMatrix, {size}", lambda: Updates(ConfusionMatrix(num_classes=1000), _scores()), _REPEATED),
        HostCase(f"ROCAUC of 200 thresholds, {size}",
                 lambda: Updates(ROCAUC(num_classes=1000, thresholds=200), _scores()), _REPEATED),
    ]  # fmt: skip


def _maps() -> Batches:
    generator = torch.Generator().manual_seed(0)
    preds, target = (torch.randint(19, (1, 1024, 2048), generator=generator) for _ in range(2))
    return [(preds, target)] * _REPEATED


def _segmentation() -> list[HostCase]:
    size = "update of one label map 1024 x 2048"
    return [
        HostCase(f"mIOU, {size}", lambda: Updates(mIOU(num_classes=19), _maps()), _REPEATED),
        HostCase(f"MeanIoU, {size}", lambda: Updates(MeanIoU(19, input_format="index"), _maps()), _REPEATED),
    ]


CASES: dict[str, list[HostCase]] = {
    "detection": _detection(),
    "classification": _classification(),
    "segmentation": _segmentation(),
}
"""Works by group."""
