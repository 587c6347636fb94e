"""Classification in the dicts of valor-lite: metrics at score thresholds, with or without hardmax.

Labels have keys here, as everywhere in this package, so that ``parameters`` name the key as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.valor.classification.lite_numbers import LiteCut, LiteNumbers, lite_numbers
from valor_gpu.valor.classification.rules import Request
from valor_gpu.valor.columns import Kept

Metric = dict[str, Any]


def lite_metrics(kept: Kept, request: Request) -> list[Metric]:
    """Returns the metrics that are asked for, of every label key.

    Args:
        kept: the data.
        request: the choices of the evaluation.

    Raises:
        InputError: a datum with another number of ground truths than one, or without predictions.
    """
    found: list[Metric] = []
    for numbers in lite_numbers(kept, request):
        key = _Key(numbers, kept.columns.datums)
        for metric in request.metrics:
            found.extend(_METRICS[MetricType(metric)](key))
    return found


class _Key:
    """The metrics of one label key."""

    def __init__(self, numbers: LiteNumbers, uids: list[str]) -> None:
        self._numbers, self._uids = numbers, uids
        self._key, self._values = numbers.rows.key, numbers.rows.values

    def _cuts(self) -> Iterator[tuple[LiteCut, Metric]]:
        hardmax = self._numbers.request.hardmax
        for cut in self._numbers.cuts:
            yield cut, {"score_threshold": cut.threshold, "hardmax": hardmax, "label_key": self._key}

    def counts(self) -> Iterator[Metric]:
        """tp, fp, fn, tn of each label."""
        for (_, parameters), counts in zip(self._cuts(), self._numbers.counts):
            for label, value in enumerate(self._values):
                numbers = {name: int(values[label]) for name, values in counts.items()}
                yield _metric("Counts", numbers, {**parameters, "label": value})

    def ratio(self, name: str) -> Iterator[Metric]:
        """Quotients of counts, 0 where the denominator is 0."""
        for (_, parameters), values in zip(self._cuts(), self._numbers.ratios(name)):
            for label, value in zip(self._values, values):
                yield _metric(name, value, {**parameters, "label": label})

    def accuracy(self) -> Iterator[Metric]:
        """True positives over datums."""
        for (_, parameters), value in zip(self._cuts(), self._numbers.accuracies()):
            yield _metric("Accuracy", value, parameters)

    def roc(self) -> Iterator[Metric]:
        """ROC AUC of each label."""
        for label, value in zip(self._values, self._numbers.areas):
            yield _metric("ROCAUC", value, {"label": label, "label_key": self._key})

    def mean_roc(self) -> Iterator[Metric]:
        """Mean of ROC AUC over all labels, also those that are only predicted."""
        yield _metric("mROCAUC", self._numbers.mean_area(), {"label_key": self._key})

    def matrix(self) -> Iterator[Metric]:
        """Predictions by ground truth."""
        for cut, parameters in self._cuts():
            counts, unmatched = self._numbers.matrix(cut)
            matrix = {value: dict(zip(self._values, row)) for value, row in zip(self._values, counts)}
            shown = {"confusion_matrix": matrix, "unmatched_ground_truths": dict(zip(self._values, unmatched))}
            yield _metric("ConfusionMatrix", shown, parameters)

    def matrix_with_examples(self) -> Iterator[Metric]:
        """Predictions by ground truth, each with its datum and score."""
        values = self._values
        for cut, parameters in self._cuts():
            matrix: dict[str, dict[str, list[Any]]] = {value: {other: [] for other in values} for value in values}
            unmatched: dict[str, list[Any]] = {value: [] for value in values}
            for row in self._numbers.predictions(cut):
                cell = matrix[values[row.true]][values[row.label]]
                cell.append({"datum_id": self._uid(row.datum), "score": row.score})
            for datum, true in self._numbers.labelled(cut.unmatched):
                unmatched[values[true]].append({"datum_id": self._uid(datum)})
            shown = {
                "confusion_matrix": {
                    value: {other: _cell(found) for other, found in row.items()} for value, row in matrix.items()
                },
                "unmatched_ground_truths": {value: _cell(found) for value, found in unmatched.items()},
            }
            yield _metric("ConfusionMatrixWithExamples", shown, parameters)

    def examples(self) -> Iterator[Metric]:
        """What was right and wrong in each datum."""
        numbers = self._numbers
        for cut, parameters in self._cuts():
            right: dict[int, list[str]] = {}
            wrong: dict[int, list[str]] = {}
            for row in numbers.predictions(cut):
                (right if row.is_true else wrong).setdefault(row.datum, []).append(self._values[row.label])
            for datum, label in numbers.labelled():
                true = self._values[label]
                # A label that passes may be missed as well, as counts have it; examples show it as found.
                missed = [true] if cut.missed[datum] and true not in right.get(datum, []) else []
                if missed or datum in right or datum in wrong:
                    shown = {
                        "datum_id": self._uid(datum),
                        "true_positives": right.get(datum, []),
                        "false_positives": wrong.get(datum, []),
                        "false_negatives": missed,
                    }
                    yield _metric("Examples", shown, parameters)

    def _uid(self, datum: int) -> str:
        return self._uids[int(self._numbers.rows.datums[datum])]


def _cell(found: list[Any]) -> dict[str, Any]:
    return {"count": len(found), "examples": found}


def _metric(name: str, value: Any, parameters: dict[str, Any]) -> Metric:
    return {"type": name, "value": value, "parameters": dict(parameters)}


_METRICS: dict[MetricType, Callable[[_Key], Iterator[Metric]]] = {
    MetricType.Accuracy: _Key.accuracy,
    MetricType.Precision: lambda key: key.ratio("Precision"),
    MetricType.Recall: lambda key: key.ratio("Recall"),
    MetricType.F1: lambda key: key.ratio("F1"),
    MetricType.ROCAUC: _Key.roc,
    MetricType.mROCAUC: _Key.mean_roc,
    MetricType.Counts: _Key.counts,
    MetricType.ConfusionMatrix: _Key.matrix,
    MetricType.ConfusionMatrixWithExamples: _Key.matrix_with_examples,
    MetricType.Examples: _Key.examples,
}
