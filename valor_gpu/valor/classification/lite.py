"""Classification by the rules and in the dicts of valor-lite: counts at score thresholds, with or without hardmax.

Labels have keys here, as everywhere in this package, so that ``parameters`` name the key as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.valor.classification.keys import Integers, KeyRows, split_keys
from valor_gpu.valor.columns import Columns
from valor_gpu.valor.enums import MetricType

if TYPE_CHECKING:
    from valor_gpu.valor.request import Request

_ZERO = 1e-8  # numpy.isclose to 0: such a score is never a prediction

Metric = dict[str, Any]
Mask = NDArray[np.bool_]


def lite_metrics(columns: Columns, request: Request, datums: Mask, truths: Mask, rows: Mask) -> list[Metric]:
    """The metrics that are asked for, of every label key.

    Args:
        columns: everything; the winner of a datum is found before a filter.
        request: what is asked for.
        datums: which datums a filter keeps.
        truths: which rows of ground truths it keeps. Labels that are emptied stay, with zeros.
        rows: which rows of predictions it keeps.

    Raises:
        InputError: a datum with another number of ground truths than one, or without predictions.
    """
    kept = replace(columns, groundtruths=columns.groundtruths.take(truths), predictions=columns.predictions.take(rows))
    found: list[Metric] = []
    for full, part in zip(split_keys(columns, every_label=True), split_keys(kept, datums, every_label=True)):
        full, part = full.merged, part.merged
        _check(full, columns)
        part = part.keep(part.has_truth[part.datum])
        winner = full.label[full.winner]  # of every datum
        wins = winner[part.datums[part.datum]] == part.label
        key = _Key(part, wins, columns.datums, request)
        for metric in request.metrics:
            found.extend(_METRICS[metric](key))
    return found


def _check(rows: KeyRows, columns: Columns) -> None:
    truths = np.bincount(rows.true_datum, minlength=rows.num_datums)
    listed = np.bincount(rows.datum, minlength=rows.num_datums)
    bad = np.flatnonzero((truths != 1) | (listed == 0))
    if len(bad):
        raise InputError(
            f"compat 'valor-lite' needs one ground truth and at least one prediction of each datum but datum "
            f"{columns.datums[bad[0]]!r} has {truths[bad[0]]} and {listed[bad[0]]} of key {rows.key!r}"
        )


@dataclass(frozen=True)
class _Cut:
    """One score threshold.

    Attributes:
        passing: rows that are predictions, bool ``[R]``.
        missed: datums whose ground truth is a false negative, bool ``[D]``.
        unmatched: datums where nothing passes and the ground truth is listed, bool ``[D]``.
    """

    passing: Mask
    missed: Mask
    unmatched: Mask
    parameters: dict[str, Any]


class _Key:
    """One label key."""

    def __init__(self, rows: KeyRows, wins: Mask, uids: list[str], request: Request) -> None:
        self._rows, self._wins, self._uids, self._request = rows, wins, uids, request
        self._true = np.full(rows.num_datums, -1, np.int64)
        self._true[rows.true_datum] = rows.true_label

    @cached_property
    def _cuts(self) -> list[_Cut]:
        rows, hardmax = self._rows, self._request.hardmax
        listed = self._any(rows.is_true)
        cuts = []
        for threshold in self._request.score_thresholds:
            passing = (rows.score >= threshold) & (np.abs(rows.score) > _ZERO) & (self._wins | (not hardmax))
            unmatched = listed & ~self._any(passing)
            missed = unmatched | self._any(passing & ~rows.is_true)
            parameters = {"score_threshold": threshold, "hardmax": hardmax, "label_key": rows.key}
            cuts.append(_Cut(passing, missed, unmatched, parameters))
        return cuts

    def _any(self, rows: Mask) -> Mask:
        """Datums with any of these rows."""
        found = np.zeros(self._rows.num_datums, np.bool_)
        found[self._rows.datum[rows]] = True
        return found

    def _by_label(self, rows: Mask) -> Integers:
        return np.bincount(self._rows.label[rows], minlength=len(self._rows.values))

    @cached_property
    def _counts(self) -> list[dict[str, Integers]]:
        true = self._rows.is_true
        return [
            {
                "tp": self._by_label(cut.passing & true),
                "fp": self._by_label(cut.passing & ~true),
                "fn": np.bincount(self._true[cut.missed], minlength=len(self._rows.values)),
                "tn": self._by_label(~cut.passing & ~true),
            }
            for cut in self._cuts
        ]

    def counts(self) -> Iterator[Metric]:
        """tp, fp, fn, tn of each label."""
        for cut, counts in zip(self._cuts, self._counts):
            for label, value in enumerate(self._rows.values):
                numbers = {name: int(values[label]) for name, values in counts.items()}
                yield _metric("Counts", numbers, {**cut.parameters, "label": value})

    def ratio(self, name: str, parts: Callable[[dict[str, Integers]], tuple[Integers, Integers]]) -> Iterator[Metric]:
        """Quotients of counts, 0 where the denominator is 0."""
        for cut, counts in zip(self._cuts, self._counts):
            part, whole = parts(counts)
            values = (part / np.maximum(whole, 1)).tolist()
            for label, value in zip(self._rows.values, values):
                yield _metric(name, value, {**cut.parameters, "label": label})

    def accuracy(self) -> Iterator[Metric]:
        """True positives over datums."""
        total = max(int(np.count_nonzero(self._true >= 0)), 1)
        for cut, counts in zip(self._cuts, self._counts):
            yield _metric("Accuracy", float(counts["tp"].sum() / total), cut.parameters)

    def roc(self) -> Iterator[Metric]:
        """ROC AUC of each label."""
        for label, value in zip(self._rows.values, self._areas.tolist()):
            yield _metric("ROCAUC", value, {"label": label, "label_key": self._rows.key})

    def mean_roc(self) -> Iterator[Metric]:
        """Mean of ROC AUC over all labels, also those that are only predicted."""
        yield _metric("mROCAUC", math.fsum(self._areas.tolist()) / len(self._areas), {"label_key": self._rows.key})

    @cached_property
    def _areas(self) -> NDArray[np.float64]:
        from valor_gpu.valor.classification.roc import lite_areas

        return lite_areas(self._rows)

    def matrix(self) -> Iterator[Metric]:
        """Predictions by ground truth."""
        values = self._rows.values
        for cut in self._cuts:
            rows = self._rows
            pairs = self._true[rows.datum[cut.passing]] * len(values) + rows.label[cut.passing]
            counts = np.bincount(pairs, minlength=len(values) ** 2).reshape(len(values), len(values)).tolist()
            unmatched = np.bincount(self._true[cut.unmatched], minlength=len(values)).tolist()
            matrix = {value: dict(zip(values, row)) for value, row in zip(values, counts)}
            shown = {"confusion_matrix": matrix, "unmatched_ground_truths": dict(zip(values, unmatched))}
            yield _metric("ConfusionMatrix", shown, cut.parameters)

    def matrix_with_examples(self) -> Iterator[Metric]:
        """Predictions by ground truth, each with its datum and score."""
        rows, values = self._rows, self._rows.values
        for cut in self._cuts:
            matrix: dict[str, dict[str, list[Any]]] = {value: {other: [] for other in values} for value in values}
            unmatched: dict[str, list[Any]] = {value: [] for value in values}
            for row in np.flatnonzero(cut.passing).tolist():
                datum = int(rows.datum[row])
                cell = matrix[values[self._true[datum]]][values[rows.label[row]]]
                cell.append({"datum_id": self._uid(datum), "score": float(rows.score[row])})
            for datum in np.flatnonzero(cut.unmatched).tolist():
                unmatched[values[self._true[datum]]].append({"datum_id": self._uid(datum)})
            shown = {
                "confusion_matrix": {
                    value: {other: _cell(found) for other, found in row.items()} for value, row in matrix.items()
                },
                "unmatched_ground_truths": {value: _cell(found) for value, found in unmatched.items()},
            }
            yield _metric("ConfusionMatrixWithExamples", shown, cut.parameters)

    def examples(self) -> Iterator[Metric]:
        """What was right and wrong in each datum."""
        rows = self._rows
        for cut in self._cuts:
            right: dict[int, list[str]] = {}
            wrong: dict[int, list[str]] = {}
            for row in np.flatnonzero(cut.passing).tolist():
                side = right if rows.is_true[row] else wrong
                side.setdefault(int(rows.datum[row]), []).append(rows.values[rows.label[row]])
            for datum in np.flatnonzero(self._true >= 0).tolist():
                true = rows.values[self._true[datum]]
                # A label that passes may be missed as well, as counts have it; examples show it as found.
                missed = [true] if cut.missed[datum] and true not in right.get(datum, []) else []
                if missed or datum in right or datum in wrong:
                    shown = {
                        "datum_id": self._uid(datum),
                        "true_positives": right.get(datum, []),
                        "false_positives": wrong.get(datum, []),
                        "false_negatives": missed,
                    }
                    yield _metric("Examples", shown, cut.parameters)

    def _uid(self, datum: int) -> str:
        return self._uids[int(self._rows.datums[datum])]


def _cell(found: list[Any]) -> dict[str, Any]:
    return {"count": len(found), "examples": found}


def _metric(name: str, value: Any, parameters: dict[str, Any]) -> Metric:
    return {"type": name, "value": value, "parameters": dict(parameters)}


_METRICS: dict[MetricType, Callable[[_Key], Iterator[Metric]]] = {
    MetricType.Accuracy: _Key.accuracy,
    MetricType.Precision: lambda key: key.ratio("Precision", lambda n: (n["tp"], n["tp"] + n["fp"])),
    MetricType.Recall: lambda key: key.ratio("Recall", lambda n: (n["tp"], n["tp"] + n["fn"])),
    MetricType.F1: lambda key: key.ratio("F1", lambda n: (2 * n["tp"], 2 * n["tp"] + n["fp"] + n["fn"])),
    MetricType.ROCAUC: _Key.roc,
    MetricType.mROCAUC: _Key.mean_roc,
    MetricType.Counts: _Key.counts,
    MetricType.ConfusionMatrix: _Key.matrix,
    MetricType.ConfusionMatrixWithExamples: _Key.matrix_with_examples,
    MetricType.Examples: _Key.examples,
}
