"""Classification in a GPU check: ops against the copy bandwidth, metrics against torchmetrics, no waiting ``update``.

No time is kept unless its numbers equal those of the CPU, or of torchmetrics. The device may be the CPU.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.checks import Checks, Disagreement, Unavailable, device_seconds, peak_device_mb, wait, wall_seconds
from benchmarks.gpu_parity import no_waiting
from benchmarks.gpu_timing import Timing, copy_bytes_per_second
from testing.parity import differences
from testing.registry import call, moved_bytes
from valor_gpu.ops import backends

THRESHOLDS = 200
SHARE = 0.7  # of the copy bandwidth, for ops that read the scores once
TIMES = 10  # as fast as torchmetrics
_SLICE = 1 << 14  # rows that the CPU checks
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
    """

    rows: int = 1_000_000
    classes: int = 1_000
    batch: int = 8_192
    repeats: int = 10
    most_exact: int | None = None

    @property
    def name(self) -> str:
        """As the record shows it."""
        return f"{self.rows:,} x {self.classes:,} float32"

    def fitting(self, device: torch.device) -> Load:
        """With fewer rows where the device has too little memory."""
        if device.type != "cuda":
            return self
        room = torch.cuda.mem_get_info(device)[0] // 4 // (4 * self.classes)
        return Load(min(self.rows, room), self.classes, self.batch, self.repeats, self.most_exact)


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


# ---------------------------------------------------------------------------------------------------------------- ops


def works(classes: int) -> dict[str, tuple[str, tuple[Any, ...], float | None]]:
    """Name to op, its arguments after scores and target, and the share of the copy bandwidth asked of it."""
    grid = torch.linspace(0, 1, THRESHOLDS).double()
    return {
        "count_top, k 1": ("count_top", (1, None, None), SHARE),
        "count_top, k 5": ("count_top", (min(5, classes), None, None), SHARE),
        f"score_histogram, {THRESHOLDS} thresholds": ("score_histogram", (grid, None, None), SHARE),
        f"score_histogram, {THRESHOLDS} thresholds, auto": ("score_histogram", (grid, None, None, "auto"), SHARE),
        "auroc_and_ap": ("auroc_and_ap", (None, None), None),
    }


def time_classification(checks: Checks, load: Load, device: torch.device, copy_size: int) -> list[Timing]:
    """Every op on the whole load, then metrics with torchmetrics beside them."""
    bandwidth = checks.run("copy bandwidth beside classification", partial(copy_bytes_per_second, device, copy_size))
    ops = time_ops(checks, load, device, bandwidth) if bandwidth else []
    return [*ops, *time_torchmetrics(checks, load, device)]


def time_ops(checks: Checks, load: Load, device: torch.device, bandwidth: float) -> list[Timing]:
    """Every op on the whole load: seconds, and bytes per second as a share of the copy bandwidth."""
    load = load.fitting(device)
    backends()  # registers all ops
    data = checks.run(f"scores {load.name}", partial(make, load, device))
    if data is None:
        return []
    rows = []
    for name, (op, rest, target) in works(load.classes).items():
        timed = checks.run(f"{name}, {load.name}", partial(_time_op, name, op, data, rest, load, bandwidth, target))
        rows += [] if timed is None else [timed]
    return rows


def _time_op(
    name: str, op: str, data: tuple[Tensor, Tensor], rest: tuple[Any, ...], load: Load, bandwidth: float,
    target: float | None,
) -> Timing:  # fmt: skip
    device = data[0].device
    if op == "auroc_and_ap" and load.most_exact is not None:
        data = data[0][: load.most_exact], data[1][: load.most_exact]
    _compare(op, data, rest)
    arguments = (*data, *rest)
    got = call(op)(*arguments)
    on_device = device_seconds(lambda: call(op)(*arguments), device, load.repeats)
    seconds = wall_seconds(lambda: call(op)(*arguments), device, load.repeats)
    moved = moved_bytes(arguments, got)
    share = moved / on_device["median"] / bandwidth
    met = None if target is None else share >= target
    shape = f"{len(data[0]):,} x {load.classes:,} float32"
    return {
        "work": f"{name}, {shape}", "seconds": seconds, "device_seconds": on_device, "bytes": moved,
        "copy_bandwidth": bandwidth,
        "share_of_copy": share, "target_share": target, "met": met,
        "peak_device_mb": peak_device_mb(lambda: call(op)(*arguments), device),
    }  # fmt: skip


def _compare(op: str, data: tuple[Tensor, Tensor], rest: tuple[Any, ...]) -> None:
    """The first and the last rows on the device must give the bits of the CPU."""
    for part in (slice(0, _SLICE), slice(-_SLICE, None)):
        scores, target = (values[part].contiguous() for values in data)
        if text := differences(call(op)(scores, target, *rest), call(op)(scores.cpu(), target.cpu(), *rest)):
            raise Disagreement(f"against the CPU kernel: {text}")


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
    """

    ours: str
    theirs: str
    choices: dict[str, Any]
    tolerance: float = 1e-5
    exact: bool = False


PAIRS = {
    "top-1 accuracy": Pair("Accuracy", "MulticlassAccuracy", {"average": "macro"}),
    "top-5 accuracy": Pair("Accuracy", "MulticlassAccuracy", {"average": "micro", "top_k": 5}),
    "confusion matrix": Pair("ConfusionMatrix", "MulticlassConfusionMatrix", {}),
    f"ROC AUC, {THRESHOLDS} thresholds": Pair("ROCAUC", "MulticlassAUROC", {"thresholds": THRESHOLDS}, 1e-4),
    "ROC AUC, exact": Pair("ROCAUC", "MulticlassAUROC", {}, 1e-4, exact=True),
}


def time_torchmetrics(checks: Checks, load: Load, device: torch.device) -> list[Timing]:
    """Updates in batches and ``compute``, ours beside torchmetrics' (without its checks of values)."""
    load = load.fitting(device)
    data = checks.run(f"scores {load.name} in batches", partial(make, load, device))
    if data is None:
        return []
    timed = [checks.run(f"{name}, torchmetrics beside", partial(_time_pair, name, pair, data, load))
             for name, pair in PAIRS.items()]  # fmt: skip
    return [row for row in timed if row is not None]


def _time_pair(name: str, pair: Pair, data: tuple[Tensor, Tensor], load: Load) -> Timing:
    try:
        theirs = getattr(importlib.import_module("torchmetrics.classification"), pair.theirs)
    except ImportError as error:
        raise Unavailable(str(error)) from None
    ours = getattr(importlib.import_module("valor_gpu.classification"), pair.ours)
    device, rows = data[0].device, load.most_exact if pair.exact else None
    batches = list(zip(*(part[:rows].split(load.batch) for part in data)))
    peer = theirs(load.classes, validate_args=False, **pair.choices).to(device)
    mine = ours(num_classes=load.classes, **pair.choices).to(device)
    results = [_through(metric, batches) for metric in (mine, peer)]
    gap = float((results[0].double() - results[1].double()).abs().max())
    if not gap <= pair.tolerance:
        raise Disagreement(f"{name}: torchmetrics' numbers differ from ours by {gap:.1e}")
    own = wall_seconds(partial(_through, mine, batches), device, max(load.repeats // 2, 1), before=mine.reset)
    seconds = wall_seconds(partial(_through, peer, batches), device, 1, before=peer.reset)
    times = seconds["median"] / own["median"]
    shape = f"{sum(len(target) for _, target in batches):,} x {load.classes:,} in batches of {load.batch:,}"
    return {
        "work": f"{name}, {shape}", "seconds": own, "torchmetrics": seconds, "times_torchmetrics": times,
        "target_times": TIMES, "met": times >= TIMES, "largest_difference": gap,
    }  # fmt: skip


def _through(metric: Any, batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    for preds, target in batches:
        metric.update(preds, target)
    result: Tensor = metric.compute()
    return result


# ------------------------------------------------------------------------------------------------------------ waiting


def check_waiting(checks: Checks, device: torch.device) -> None:
    """``update`` of every metric does not synchronise once the first has copied its tables and loaded its kernels."""
    classification = importlib.import_module("valor_gpu.classification")
    homes = importlib.import_module("valor_gpu.classification.task_names").HOMES  # names that add only arguments
    for name in [name for name in classification.__all__ if name not in homes]:
        kind, needed = getattr(classification, name), _NEEDED.get(name, {"num_classes": 20})
        for more in (needed, {**needed, "thresholds": THRESHOLDS}) if name in _CURVED else (needed,):
            options = "".join(f", {key} {value}" for key, value in more.items() if key not in needed)
            checks.run(f"update of {name}{options} does not wait", partial(_check_waiting, kind, more, device))


_CURVED = ("ROCAUC", "AveragePrecision", "ROC", "PrecisionRecallCurve", "EER")
_NEEDED: dict[str, dict[str, Any]] = {
    "PrecisionAtFixedRecall": {"num_classes": 20, "min_recall": 0.5},
    "RecallAtFixedPrecision": {"num_classes": 20, "min_precision": 0.5},
    "SensitivityAtSpecificity": {"num_classes": 20, "min_specificity": 0.5},
    "SpecificityAtSensitivity": {"num_classes": 20, "min_sensitivity": 0.5},
    "MultilabelCoverageError": {"num_labels": 20},
    "MultilabelRankingAveragePrecision": {"num_labels": 20},
    "MultilabelRankingLoss": {"num_labels": 20},
}
"""Arguments of metrics that need others than ``num_classes``."""


def _check_waiting(kind: Any, choices: dict[str, Any], device: torch.device) -> None:
    scores, target = make(Load(rows=4 * 512, classes=20), device)
    if "num_labels" in choices:
        target = torch.nn.functional.one_hot(target, 20)
    batches = list(zip(scores.split(512), target.split(512)))
    metric = kind(**choices).to(device)
    metric.update(*batches[0])
    wait(device)
    with no_waiting(device):
        for batch in batches[1:]:
            metric.update(*batch)
    metric.compute()
