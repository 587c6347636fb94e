"""Waits in a GPU check: ``update`` of no metric waits for the device, and ``forward`` only as often as ``compute``."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.checks import Checks, Disagreement, wait
from benchmarks.gpu_parity import on, only_rehearsed, updated_without_wait

THRESHOLDS = 200
CLASSES, GROUPS = 20, 3
_ROWS, _QUERIES, _COLUMNS = 512, 40, 5
_SAID = "called a synchronizing CUDA operation"
"""What torch says of a wait."""

Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Waiting:
    """A metric, and what it is updated with.

    Attributes:
        make: makes the metric on the CPU.
        batch: arguments of ``update`` on the CPU, by number; all of one shape.
    """

    make: Callable[[], Any]
    batch: Callable[[int], Batch]


def metrics() -> dict[str, Waiting]:
    """Returns every metric of classification, regression and retrieval, by name and options."""
    return dict([*_classification(), *_regression(), *_retrieval()])


def check_waiting(checks: Checks, device: torch.device) -> None:
    """Updates of each metric once the first has copied its tables and loaded its kernels, and its ``forward``."""
    for name, waiting in metrics().items():
        checks.run(f"update of {name} does not wait", partial(check_updates, waiting, device))
        checks.run(f"forward of {name} waits as often as compute", partial(check_forward, waiting, device))


def check_updates(waiting: Waiting, device: torch.device) -> None:
    """Raises Disagreement if an update behind the first waits."""
    batches = [on(device, waiting.batch(number)) for number in range(4)]
    updated_without_wait(lambda: waiting.make().to(device), batches, device).compute()
    only_rehearsed(device, "a wait of the host")


def check_forward(waiting: Waiting, device: torch.device) -> dict[str, int]:
    """Returns how often ``compute`` waits for the device, which ``forward`` must not do more often."""
    batches = [on(device, waiting.batch(number)) for number in range(2)]
    for batch in batches:  # loads kernels and copies constant tables
        (metric := waiting.make().to(device))(*batch)
    alone = waiting.make().to(device)
    alone.update(*batches[0])
    of_compute = waits_of(alone.compute, device)
    of_forward = waits_of(partial(metric, *batches[0]), device)
    if of_forward > of_compute:
        raise Disagreement(f"forward waits {of_forward} times for the device, and compute {of_compute} times")
    only_rehearsed(device, "a wait of the host")
    return {"waits_of_compute": of_compute}


def waits_of(call: Callable[[], object], device: torch.device) -> int:
    """Returns how often torch waits for the device in a call; 0 on the CPU."""
    if device.type != "cuda":
        call()
        return 0
    wait(device)
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return sum(_SAID in str(each.message) for each in said)


# ----------------------------------------------------------------------------------------------------- classification


def _classification() -> Iterator[tuple[str, Waiting]]:
    classification = importlib.import_module("valor_gpu.classification")
    made = importlib.import_module("valor_gpu.compat.torchmetrics.task_names").MADE  # names that add only arguments
    for name in [name for name in classification.__all__ if name not in made]:
        kind, needed = getattr(classification, name), _NEEDED.get(name, {"num_classes": CLASSES})
        for more in ({}, *([{"thresholds": THRESHOLDS}] if name in _CURVED else ()), *_OPTIONS.get(name, ())):
            made_by = partial(kind, **needed, **more)
            yield _named(name, more), Waiting(made_by, partial(_scores, tuple(needed), more.get("activation") is None))


_CURVED = ("ROCAUC", "AveragePrecision", "ROC", "PrecisionRecallCurve", "EER")
_NEEDED: dict[str, dict[str, Any]] = {
    "PrecisionAtFixedRecall": {"num_classes": CLASSES, "min_recall": 0.5},
    "RecallAtFixedPrecision": {"num_classes": CLASSES, "min_precision": 0.5},
    "SensitivityAtSpecificity": {"num_classes": CLASSES, "min_specificity": 0.5},
    "SpecificityAtSensitivity": {"num_classes": CLASSES, "min_sensitivity": 0.5},
    "MultilabelCoverageError": {"num_labels": CLASSES},
    "MultilabelRankingAveragePrecision": {"num_labels": CLASSES},
    "MultilabelRankingLoss": {"num_labels": CLASSES},
    "RiskAtCoverage": {"num_classes": CLASSES, "coverage": 0.5},
    "CoverageAtRisk": {"num_classes": CLASSES, "max_risk": 0.5},
    "ConformalCoverage": {"num_classes": CLASSES, "threshold": 0.2},
    "BinaryFairness": {"num_groups": GROUPS},
    "BinaryGroupStatRates": {"num_groups": GROUPS},
}
"""Arguments of metrics that need others than ``num_classes``."""
_LOSS = ({"keep_rows": True}, {"activation": "softmax"}, {"ignore_index": 3})
_OPTIONS: dict[str, Sequence[dict[str, Any]]] = {
    "BrierScore": _LOSS,
    "NegativeLogLikelihood": (*_LOSS, {"eps": 1e-6}),
    "HingeLoss": ({"squared": True}, {"multiclass_mode": "one-vs-all"}),
    "CalibrationError": ({"ignore_index": 3},),
    "AURC": ({"ignore_index": 3},),
    "LogAUC": ({"thresholds": THRESHOLDS},),
    "MeanSquaredError": ({"keep_rows": True}, {"num_outputs": _COLUMNS}),
    "R2Score": ({"keep_rows": True}, {"multioutput": "raw_values"}),
    "PearsonCorrCoef": ({"num_outputs": _COLUMNS},),
    "SpearmanCorrCoef": ({"num_outputs": _COLUMNS},),
    "KLDivergence": ({"keep_rows": True}, {"reduction": "none"}),
    "RetrievalMAP": ({"ignore_index": -1},),
    "RetrievalNormalizedDCG": ({"ignore_index": -1, "unjudged_index": -2},),
}
"""Options that take another way."""


def _scores(needed: Sequence[str], probabilities: bool, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(CLASSES, (_ROWS,), generator=generator)
    scores = torch.randn((_ROWS, CLASSES), generator=generator)
    scores = scores.softmax(1) if probabilities else scores
    if "num_labels" in needed:
        return scores, torch.nn.functional.one_hot(target, CLASSES)
    if "num_groups" in needed:
        return scores[:, 0], (target == 0).long(), target % GROUPS
    return scores, target


# --------------------------------------------------------------------------------------------------------- regression


def _regression() -> Iterator[tuple[str, Waiting]]:
    regression = importlib.import_module("valor_gpu.regression")
    for name in regression.__all__:
        needed = _NUMBERS.get(name, {})
        kind, batch = partial(getattr(regression, name), **needed), _SHAPED.get(name, _numbers)
        for more in ({}, *_OPTIONS.get(name, ())):
            several = not {"num_outputs", "multioutput"}.isdisjoint(more)
            yield _named(name, more), Waiting(partial(kind, **more), _columns if several else batch)


def _numbers(seed: int) -> Batch:
    preds, target = torch.rand((2, _ROWS), generator=torch.Generator().manual_seed(seed)) + 0.5
    return preds, target


def _columns(seed: int) -> Batch:
    preds, target = torch.rand((2, _ROWS, _COLUMNS), generator=torch.Generator().manual_seed(seed)) + 0.5
    return preds, target


def _distributions(seed: int) -> Batch:
    preds, target = _columns(seed)
    return preds / preds.sum(1, keepdim=True), target / target.sum(1, keepdim=True)


def _forecasts(width: int, seed: int) -> Batch:
    preds, target = _columns(seed)
    return preds[:, :width].sort(1).values, target[:, 0]


_NUMBERS: dict[str, dict[str, Any]] = {
    "CriticalSuccessIndex": {"threshold": 1.0},
    "MinkowskiDistance": {"p": 3},
    "TweedieDevianceScore": {"power": 1.5},
    "QuantileCRPS": {"quantiles": [0.1, 0.5, 0.9]},
}
"""Arguments that metrics of regression need, or that make them do more."""
_SHAPED: dict[str, Callable[[int], Batch]] = {
    "CosineSimilarity": _columns,
    "KLDivergence": _distributions,
    "JensenShannonDivergence": _distributions,
    "ContinuousRankedProbabilityScore": partial(_forecasts, _COLUMNS),
    "QuantileCRPS": partial(_forecasts, 3),
    "IntervalCoverage": partial(_forecasts, 2),
}
"""Batches of metrics of other data than pairs of numbers."""


# ---------------------------------------------------------------------------------------------------------- retrieval


def _retrieval() -> Iterator[tuple[str, Waiting]]:
    retrieval = importlib.import_module("valor_gpu.retrieval")
    for name in [name for name in retrieval.__all__ if name.startswith("Retrieval")]:
        kind = partial(getattr(retrieval, name), **_JUDGED.get(name, {}))
        for more in ({}, *_OPTIONS.get(name, ())):
            yield _named(name, more), Waiting(partial(kind, **more), _documents)


_JUDGED: dict[str, dict[str, Any]] = {
    "RetrievalHoles": {"unjudged_index": -2},
    "RetrievalJudged": {"unjudged_index": -2},
    "RetrievalRecallAtFixedPrecision": {"min_precision": 0.5},
}
"""Arguments that metrics of retrieval need."""


def _documents(seed: int) -> Batch:
    rng = np.random.default_rng(seed)
    preds, target = rng.random(_ROWS, np.float32), rng.integers(0, 2, _ROWS)
    return torch.from_numpy(preds), torch.from_numpy(target), torch.from_numpy(rng.permutation(_ROWS) % _QUERIES)


def _named(name: str, options: dict[str, Any]) -> str:
    return name + "".join(f", {key} {value}" for key, value in options.items())
