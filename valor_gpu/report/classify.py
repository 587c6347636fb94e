"""Numbers and report of ``valor-gpu classify``."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.exports.intervals import interval_lines, interval_note
from valor_gpu.inputs.predictions import IGNORED, Predictions
from valor_gpu.provenance import host_provenance, provenance_of
from valor_gpu.report.text import number_lines, plural, shown_number, table
from valor_gpu.result import Result, Signature

if TYPE_CHECKING:
    from valor_gpu.digests import DataHashes
    from valor_gpu.metric import Metric
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled
    from valor_gpu.store.saved import SavedImage, SavedRun

AVERAGES = ("macro", "micro", "weighted")
PICTURES = ("roc", "pr", "confusion", "reliability")
"""What can be drawn: the ends of the names of picture files."""
OF_SCORES = ("roc", "pr", "reliability")
"""Pictures that need scores."""

_NUMBERS = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "precision": "precision", "recall": "recall",
    "f1": "F1", "matthews_corrcoef": "Matthews correlation", "cohen_kappa": "Cohen's kappa", "roc_auc": "ROC AUC",
    "average_precision": "average precision", "calibration_error": "calibration error (ECE)",
}  # fmt: skip
OF_CLASSES = ("precision", "recall", "f1", "roc_auc", "average_precision")
"""Numbers that are also given of each class."""
_PARTS = {"confusion": "confusion_matrix", "reliability": "calibration_error"}


@dataclass(frozen=True, eq=False)
class Evaluated:
    """An evaluated file of predictions.

    Attributes:
        result: all numbers, also per class by its name, the confusion matrix, counts and choices.
        parts: name to the result of one metric, for pictures.
        names: of the classes.
    """

    result: Result
    parts: Mapping[str, Result]
    names: tuple[str, ...]

    def picture(self, name: str) -> Result:
        """The result that one of :data:`PICTURES` shows."""
        return self.parts[_PARTS.get(name, name)]


def evaluate(
    predictions: Predictions, average: str, thresholds: int | None, device: str, pictures: Collection[str] = ()
) -> Evaluated:
    """All metrics of a file of predictions.

    Args:
        predictions: the predictions.
        average: ``macro``, ``micro`` or ``weighted``, over the classes; a single column of scores has none.
        thresholds: how many evenly spaced ones ROC AUC, average precision and curves are read at; None is exact.
        device: where to count.
        pictures: which of :data:`PICTURES` will be drawn.
    """
    parts = _parts(predictions, average, thresholds, device, pictures)
    choices = {
        "task": "binary" if predictions.binary else "multiclass",
        "average": "none" if predictions.binary else average,
        "thresholds": "none" if predictions.scores is None else "exact" if thresholds is None else thresholds,
        "weights": predictions.weight is not None,
        "calibration_bins": parts["calibration_error"].signature["n_bins"] if "calibration_error" in parts else None,
    }
    whole = _whole(predictions, parts, choices, lambda: _resampled(predictions, average, thresholds))
    return Evaluated(whole, parts, predictions.names)


def with_intervals(evaluated: Evaluated, predictions: Predictions, bootstrap: Bootstrap) -> Evaluated:
    """Returns what was evaluated with an interval beside every number that has one.

    Args:
        evaluated: of these predictions.
        predictions: whose clusters, if they have some, are drawn as a whole.
        bootstrap: the choices.

    Raises:
        InputError: the predictions have weights.
    """
    choices = bootstrap if predictions.clusters is None else replace(bootstrap, clusters=predictions.clusters)
    return replace(evaluated, result=evaluated.result.with_intervals(choices))


def _resampled(predictions: Predictions, average: str, thresholds: int | None) -> Resampled:
    """The rows as the bootstrap asks them; they are drawn on the CPU."""
    from valor_gpu.report.classify_rows import ClassifiedRows

    if predictions.scores is None:
        assert predictions.labels is not None
        return ClassifiedRows(predictions, predictions.labels, average, None, OF_CLASSES)
    if not native.available("valor_cpu"):
        raise InputError("intervals of scores need the C++ library: build it, or give predicted classes")
    from valor_gpu.classification.array_numbers import Areas, Choices, decided_classes

    areas = Areas(Choices(average, thresholds), predictions)
    return ClassifiedRows(predictions, decided_classes(predictions), average, areas, OF_CLASSES)


def _parts(
    predictions: Predictions, average: str, thresholds: int | None, device: str, pictures: Collection[str]
) -> dict[str, Result]:
    """The result of each metric."""
    if device == "cpu" and native.available("valor_cpu"):
        from valor_gpu.classification.array_numbers import Choices, results_of

        return results_of(predictions, Choices(average, thresholds), pictures)
    return results_by_torch(predictions, average, thresholds, device, pictures)


def results_by_torch(
    predictions: Predictions, average: str, thresholds: int | None, device: str, pictures: Collection[str]
) -> dict[str, Result]:
    """The result of each metric of :mod:`valor_gpu.classification`; arguments are those of :func:`evaluate`."""
    import torch

    metrics = _metrics(predictions, average, thresholds, pictures)
    preds = torch.from_numpy(predictions.labels if predictions.scores is None else predictions.scores).to(device)
    target = torch.from_numpy(predictions.target).to(device)
    weight = None if predictions.weight is None else torch.from_numpy(predictions.weight).to(device)
    for metric in metrics.values():
        metric.to(device).update(preds, target, weight)
    return {name: metric.result() for name, metric in metrics.items()}


class SavableSamples:
    """What a store keeps of a classifier: its numbers, and whether each sample is right.

    Args:
        evaluated: the numbers; with the part ``pr`` also curves.
        predictions: that they are of.
    """

    def __init__(self, evaluated: Evaluated, predictions: Predictions) -> None:
        self._evaluated, self._predictions = evaluated, predictions

    def to_run(self) -> SavedRun:
        """The run."""
        whole, names = self._evaluated.result.to_run(), self._evaluated.names
        curves = self._evaluated.parts["pr"].to_run(names=names).curves if "pr" in self._evaluated.parts else ()
        return replace(whole, curves=curves).with_images(self._samples())

    def _samples(self) -> Iterator[SavedImage]:
        from valor_gpu.store.saved import SavedImage

        found, names = self._predictions, self._evaluated.names
        if found.labels is not None:
            guesses = found.labels
        elif found.binary:
            guesses = _above_middle(found)
        else:
            guesses = found.scores.argmax(1)  # type: ignore[union-attr]
        for number, (truth, guess) in enumerate(zip(found.target.tolist(), guesses.tolist()), 1):
            if truth != IGNORED:
                right = {"correct": float(truth == guess)}
                yield SavedImage(
                    str(number), {"sample": number, "ground_truth": names[truth]}, {"answer": names[guess]}, right
                )


def _above_middle(found: Predictions) -> Any:
    """int64 ``[N]``, the predicted classes: scores above 0.5, or above 0 where they are logits, outside of 0 to 1."""
    scores = np.asarray(found.scores)
    middle = 0.5 if ((scores >= 0) & (scores <= 1)).all() else 0.0
    return (scores > middle).astype(np.int64)


def _metrics(
    predictions: Predictions, average: str, thresholds: int | None, pictures: Collection[str]
) -> dict[str, Metric[Any]]:
    import torch

    from valor_gpu import classification as c

    task: dict[str, Any] = {"ignore_index": IGNORED}
    if not predictions.binary:
        task["num_classes"] = len(predictions.names)
    averaged: dict[str, Any] = {**task, "average": average}
    metrics: dict[str, Metric[Any]] = {
        "accuracy": c.Accuracy(average="micro", **task),
        "balanced_accuracy": c.BalancedAccuracy(**task),
        "precision": c.Precision(**averaged),
        "recall": c.Recall(**averaged),
        "f1": c.F1Score(**averaged),
        "matthews_corrcoef": c.MatthewsCorrCoef(**task),
        "cohen_kappa": c.CohenKappa(**task),
        "confusion_matrix": c.ConfusionMatrix(**task),
    }
    if predictions.scores is not None:
        scores: dict[str, Any] = {"thresholds": thresholds, "score_dtype": torch.float64}
        metrics["roc_auc"] = c.ROCAUC(**averaged, **scores)
        metrics["average_precision"] = c.AveragePrecision(**averaged, **scores)
        metrics["calibration_error"] = c.CalibrationError(**task)
        metrics |= {"roc": c.ROC(**task, **scores)} if "roc" in pictures else {}
        metrics |= {"pr": c.PrecisionRecallCurve(**task, **scores)} if "pr" in pictures else {}
    return metrics


def _whole(
    predictions: Predictions, parts: Mapping[str, Result], choices: dict[str, Any], state: Callable[[], Resampled]
) -> Result:
    """The numbers of all metrics in one result."""
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name in _NUMBERS:
        if name not in parts:
            values[name], reasons[name] = math.nan, "needs scores, not predicted classes"
            continue
        part, key = parts[name], parts[name].signature["metric"]
        values[name] = part.values[key]
        if math.isnan(values[name]):
            reasons[name] = part.reason(key) or "does not exist on this data"
    support = parts["confusion_matrix"].values["confusion_matrix"].sum(1)
    values["samples_per_class"] = dict(zip(predictions.names, support.tolist()))
    for name in OF_CLASSES:
        if name in parts and "per_class" in parts[name].values:
            key = f"{name}_per_class"
            values[key] = dict(zip(predictions.names, parts[name].values["per_class"].tolist()))
            if reason := parts[name].reason("per_class"):
                reasons[key] = reason
    values["confusion_matrix"] = parts["confusion_matrix"].values["confusion_matrix"]
    counts = {
        "samples": len(predictions.target),
        "ignored": int((predictions.target == IGNORED).sum()),
        "classes": len(predictions.names),
        "classes_without_samples": int((support == 0).sum()),
    }
    of_parts = next(iter(parts.values()))
    return Result(
        *(values, Signature({"metric": "classify", **choices}), counts, reasons),
        provenance=lambda: _provenance(predictions, of_parts),
        state=state,
    )


def _provenance(predictions: Predictions, of_parts: Result) -> dict[str, Any]:
    """That of a part, which has none of its own where arrays served it, with the hashes of the whole table."""
    served = {name: of_parts.provenance[name] for name in _SERVED} if of_parts.provenance else host_provenance()
    given = predictions.labels if predictions.scores is None else predictions.scores
    assert given is not None
    return provenance_of(lambda: served, lambda: _hashes(predictions), str(given.dtype))


_SERVED = ("device", "version", "versions", "kernels")


def _hashes(predictions: Predictions) -> DataHashes:
    """Hashes of the rows in any order, targets and predicted classes as their places among the names."""
    from valor_gpu.digests import DataHashes
    from valor_gpu.row_digests import multiset_hash

    truths: dict[str, NDArray[Any]] = {"target": predictions.target}
    if predictions.weight is not None:
        truths["weight"] = predictions.weight
    given = {"scores": predictions.scores, "labels": predictions.labels}
    rows = {**truths, **{name: column for name, column in given.items() if column is not None}}
    names = predictions.names
    return DataHashes("rows", multiset_hash("truths", truths, names), multiset_hash("predictions", rows, names))


def summary(evaluated: Evaluated) -> str:
    """One line per number, or why it does not exist."""
    result, rows = evaluated.result, []
    for name, text in _NUMBERS.items():
        if result.signature["task"] == "binary" and name in ("precision", "recall", "f1"):
            text += f" of {evaluated.names[1]}"
        elif result.signature["task"] != "binary" and name in OF_CLASSES:
            text += f", {result.signature['average']}"
        note = result.reason(name) or interval_note(name, result.values[name], result.intervals)
        rows.append((text, result.values[name], note))
    return "\n".join([number_lines(rows), *interval_lines(result.intervals)])


def class_table(evaluated: Evaluated) -> str:
    """One line per class: samples (or their weight), precision, recall, F1, ROC AUC and average precision."""
    values = evaluated.result.values
    keys = [name for name in OF_CLASSES if f"{name}_per_class" in values]
    rows = [
        [
            name,
            f"{values['samples_per_class'][name]:,.10g}",
            *(shown_number(values[f"{key}_per_class"][name]) for key in keys),
        ]
        for name in evaluated.names
    ]
    return table(["class", "samples", *(_NUMBERS[key] for key in keys)], rows)


def count_line(result: Result) -> str:
    """How many samples and classes the numbers come from."""
    counts = result.counts
    text = f"{plural(counts['samples'], 'sample')} ({counts['ignored']:,} of them ignored)"
    return f"{text}, {counts['classes']:,} classes ({counts['classes_without_samples']:,} of them without samples)"
