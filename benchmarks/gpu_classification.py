"""Classification in a GPU check: ops against the copy bandwidth, metrics against torchmetrics.

No time is kept unless its numbers equal those of the CPU, or of torchmetrics. The device may be the CPU.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.checks import Checks, Later
from benchmarks.gpu_jobs import Bandwidth, Job, OfFunction, OfMetric
from benchmarks.gpu_timing import time_jobs
from benchmarks.gpu_waiting import THRESHOLDS
from testing.registry import call
from valor_gpu.ops import backends

_MARGIN = 2.5  # of the true class, in standard deviations of a logit


@dataclass(frozen=True)
class Load:
    """Scores to be timed.

    Attributes:
        rows: of the scores; as many as fit into a quarter of the memory of a GPU.
        classes: of the scores.
        batch: rows of one update.
        repeats: runs of each.
        most_exact: rows that exact ranks are timed at, None for all.
        multilabel: rows that exact ranks of multilabel targets are timed at.
        batches: so many are timed with torchmetrics beside, which takes a second for each.
    """

    rows: int = 1_000_000
    classes: int = 1_000
    batch: int = 8_192
    repeats: int = 10
    most_exact: int | None = None
    multilabel: int = 200_000
    batches: int = 20

    @property
    def name(self) -> str:
        """As the record shows it."""
        return f"{self.rows:,} x {self.classes:,} float32"

    def fitting(self, device: torch.device) -> Load:
        """With fewer rows where the device has too little memory."""
        if device.type != "cuda":
            return self
        room = torch.cuda.get_device_properties(device).total_memory // 4 // self.classes
        # scores are float32; multilabel targets, int64, lie beside theirs
        return replace(self, rows=min(self.rows, room // 5), multilabel=min(self.multilabel, room // 12))


REHEARSED = Load(rows=600, classes=20, batch=256, repeats=2, most_exact=500, multilabel=300)


def load_for(device: torch.device, quick: bool) -> Load:
    """Returns the scores of a run; on the CPU those of a rehearsal."""
    return REHEARSED if device.type == "cpu" else Load(rows=50_000, repeats=5) if quick else Load()


def make(load: Load, device: torch.device) -> tuple[Tensor, Tensor]:
    """Seeded softmax scores and int64 targets on ``device``."""
    generator = torch.Generator(device).manual_seed(0)
    target = torch.randint(load.classes, (load.rows,), generator=generator, device=device)
    scores = torch.empty((load.rows, load.classes), device=device)
    for start in range(0, load.rows, 1 << 16):
        part, truth = scores[start : start + (1 << 16)], target[start : start + (1 << 16), None]
        part.normal_(generator=generator)
        part.scatter_add_(1, truth, torch.full(truth.shape, _MARGIN, device=device))
        part.copy_(part.softmax(1))
    return scores, target


def time_classification(checks: Checks, load: Load, device: torch.device, bandwidth: Bandwidth) -> None:
    """Every op on the whole load, then metrics with torchmetrics beside them."""
    backends()  # registers all ops
    load = load.fitting(device)
    scores = Later(f"scores {load.name}", partial(make, load, device))
    time_jobs(checks, [*op_jobs(load, scores), *pair_jobs(load, scores), brier_job(load)], device, bandwidth)


# ---------------------------------------------------------------------------------------------------------------- ops


def op_jobs(load: Load, scores: Later[tuple[Tensor, Tensor]]) -> list[Job]:
    """Ops on the whole load, and exact ranks of multilabel targets on a part of it."""
    even = torch.linspace(0, 1, THRESHOLDS).double()
    histogram, five = f"score histogram, {THRESHOLDS}", min(5, load.classes)
    exact = load.rows if load.most_exact is None else min(load.rows, load.most_exact)
    works = (
        ("top-1 counts", "top classes", "count_top", load.rows, (1, None, None)),
        (f"{histogram} thresholds", "histogram", "score_histogram", load.rows, (even, None, None)),
        ("exact AUROC and AP", "exact AUROC", "auroc_and_ap", exact, (None, None)),
        (f"top-{five} counts", "top classes", "count_top", load.rows, (five, None, None)),
        (f"{histogram}, activation auto", "histogram", "score_histogram", load.rows, (even, None, None, "auto")),
        (f"{histogram} uneven", "histogram, uneven", "score_histogram", load.rows, (even**2, None, None)),
    )

    def data(rows: int, _: torch.device) -> tuple[Tensor, ...]:
        return tuple(part[:rows] for part in scores())

    jobs = [
        Job(f"{name}, {rows:,} x {load.classes:,}", partial(data, rows), partial(_op, op, rest), (key,), load.repeats,
            seconds=90)
        for name, key, op, rows, rest in works
    ]  # fmt: skip
    return [*jobs, _multilabel_job(load, scores)]


def _op(op: str, rest: tuple[Any, ...], _: torch.device) -> OfFunction:
    return OfFunction(lambda scores, target: call(op)(scores, target, *rest))


def _multilabel_job(load: Load, scores: Later[tuple[Tensor, Tensor]]) -> Job:
    rows = min(load.rows, load.multilabel)

    def data(device: torch.device) -> tuple[Tensor, Tensor]:
        part, true = (values[:rows] for values in scores())
        generator = torch.Generator(device).manual_seed(1)
        target = (torch.rand(part.shape, generator=generator, device=device) < 0.01).long()
        return part, target.scatter_(1, true[:, None], 1)

    name = f"exact AUROC and AP, multilabel, {rows:,} x {load.classes:,}"
    start = partial(_op, "auroc_and_ap", (None, None))
    return Job(name, data, start, ("exact AUROC, multilabel",), load.repeats, seconds=90)


# -------------------------------------------------------------------------------------------------------- torchmetrics


@dataclass(frozen=True)
class Pair:
    """A metric of ours and torchmetrics'.

    Attributes:
        ours: name in ``valor_gpu.classification``.
        theirs: name in ``torchmetrics.classification``.
        choices: of both constructors.
        tolerance: how far torchmetrics' float32 sums may lie off.
        exact: keeps all scores.
        key: of :data:`benchmarks.gpu_targets.TARGETS`.
    """

    ours: str
    theirs: str
    choices: dict[str, Any]
    tolerance: float = 1e-5
    exact: bool = False
    key: str = "torchmetrics"


_HOST = "torchmetrics, host-bound"
PAIRS = {
    "top-1 accuracy": Pair("Accuracy", "MulticlassAccuracy", {"average": "macro"}, key=_HOST),
    "top-5 accuracy": Pair("Accuracy", "MulticlassAccuracy", {"average": "micro", "top_k": 5}),
    "confusion matrix": Pair("ConfusionMatrix", "MulticlassConfusionMatrix", {}, key=_HOST),
    f"ROC AUC, {THRESHOLDS} thresholds": Pair("ROCAUC", "MulticlassAUROC", {"thresholds": THRESHOLDS}, 1e-4),
    "ROC AUC, exact": Pair("ROCAUC", "MulticlassAUROC", {}, 1e-4, exact=True),
}


def pair_jobs(load: Load, scores: Later[tuple[Tensor, Tensor]]) -> list[Job]:
    """Updates in batches and ``compute``, ours beside torchmetrics' (without its checks of values)."""
    return [_pair_job(name, pair, load, scores) for name, pair in PAIRS.items()]


def _pair_job(name: str, pair: Pair, load: Load, scores: Later[tuple[Tensor, Tensor]]) -> Job:
    rows = min(load.rows, load.batches * load.batch)
    if pair.exact and load.most_exact is not None:
        rows = min(rows, load.most_exact)

    def data(_: torch.device) -> list[tuple[Tensor, ...]]:
        return list(zip(*(part[:rows].split(load.batch) for part in scores())))

    def ours(device: torch.device) -> OfMetric:
        kind = getattr(importlib.import_module("valor_gpu.classification"), pair.ours)
        return OfMetric(kind(num_classes=load.classes, **pair.choices).to(device))

    def theirs(device: torch.device) -> OfMetric:
        kind = getattr(importlib.import_module("torchmetrics.classification"), pair.theirs)
        return OfMetric(kind(load.classes, validate_args=False, **pair.choices).to(device))

    named = f"{name}, {rows:,} x {load.classes:,} in batches of {load.batch:,}"
    return Job(named, data, ours, (pair.key,), max(load.repeats // 2, 1), theirs, tolerance=pair.tolerance, seconds=60)


def brier_job(load: Load) -> Job:
    """The Brier score of as many rows and a tenth of the classes, in one update; torchmetrics has none."""
    part = replace(load, classes=max(load.classes // 10, 2))

    def ours(device: torch.device) -> OfMetric:
        kind = importlib.import_module("valor_gpu.classification").BrierScore
        return OfMetric(kind(num_classes=part.classes).to(device))

    name = f"Brier score, {part.rows:,} x {part.classes:,}"
    return Job(name, lambda device: [make(part, device)], ours, ("Brier score",), load.repeats, seconds=60)
