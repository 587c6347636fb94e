"""Numbers of each label key of a classification, by the rules of a release."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from valor_gpu.valor.classification.curves import THRESHOLDS, KeyCurves
from valor_gpu.valor.classification.hard import HardCounts, count_hard
from valor_gpu.valor.classification.keys import (
    KeyRows,
    check_bounds,
    check_keys,
    check_once,
    check_sums,
    empty_rows,
    split_keys,
)
from valor_gpu.valor.classification.roc import AREAS
from valor_gpu.valor.classification.rules import Request, Rules
from valor_gpu.valor.columns import Columns, Kept, Rows


def prepare(columns: Columns, request: Request) -> Columns:
    """Returns the columns after checks and label map."""
    rules = request.rules
    check_once(columns)
    if rules.sum_tolerance is not None:
        check_sums(columns, rules.sum_tolerance)
        if rules.bounded:
            check_bounds(columns, rules.sum_tolerance)
    mapped = columns.mapped(request.label_map)
    check_keys(mapped)
    return mapped


@dataclass(frozen=True)
class KeyNumbers:
    """Numbers of one label key; each is computed once.

    Attributes:
        rows: of the label key.
        rules: of the release.
        untrue: label values whose precision, recall and F1 are -1, see ``Rules.count_rows``.
        any_true: whether the evaluation has any true positive.
        any_found: whether it has any prediction.
        there: whether a datum with a ground truth has the key.
    """

    rows: KeyRows
    rules: Rules
    untrue: Collection[str] = ()
    any_true: bool = True
    any_found: bool = False
    there: bool = True

    @cached_property
    def hard(self) -> HardCounts:
        """Counts of hard labels."""
        return count_hard(self.rows, self.rules)

    @cached_property
    def areas(self) -> NDArray[np.float64]:
        """ROC AUC of each label, ``[C]``."""
        return AREAS[self.rules.roc](self.rows)

    def mean_area(self) -> float | None:
        """Returns the mean ROC AUC over labels with both classes; in valor_api true labels, in valor_core all."""
        kind = self.rules.roc
        if len(self.rows.datum) == 0:
            return None if kind == "exact" else 0.0
        areas = self.areas
        if kind == "api":
            areas = areas[np.unique(self.rows.true_label)]
            if np.isnan(areas).any():
                return -1.0
        present = areas[~np.isnan(areas)].tolist()
        if not present:
            return None if kind == "exact" else -1.0
        return math.fsum(present) / len(present)  # rounded once, so that the order of the labels does not matter

    @cached_property
    def curves(self) -> KeyCurves:
        """Counts at score thresholds."""
        rules = self.rules
        rows = self.rows if rules.count_rows else self.rows.merged
        counted = np.ones(len(rows.true_datum), np.bool_)
        if not rules.count_unpredicted:
            counted = rows.winner[rows.true_datum] >= 0
        missing = self.any_true or not rules.count_rows
        return KeyCurves(rows, rows.num_datums, counted, rules.count_pairs, rules.count_rows, missing)


def key_numbers(kept: Kept, rules: Rules) -> Iterator[KeyNumbers]:
    """Returns the numbers of each label key, those of keys without any ground truth last.

    Args:
        kept: the data, from :func:`prepare`.
        rules: of the release.
    """
    truths, predictions = kept.sides
    datums, untrue = kept.datums, dict[str, set[str]]()
    if rules.count_rows:
        predictions = _in_order_of_text(predictions)
    columns = replace(kept.columns, groundtruths=truths, predictions=predictions)
    if not rules.count_untrue:
        true = np.zeros(len(datums), np.bool_)
        true[truths.datum] = True
        untrue = _winners(columns, datums & ~true) if rules.count_rows else {}
        datums = datums & true
        columns = replace(columns, predictions=predictions.take(datums[predictions.datum]))
    keys = list(split_keys(columns, datums, repeated=rules.count_rows))
    any_true = any(bool(np.any(rows.is_true & (rows.score >= THRESHOLDS[0]))) for rows in keys)
    any_found = any(len(rows.datum) > 0 for rows in keys)
    for rows in keys:
        yield KeyNumbers(rows, rules, sorted(untrue.pop(rows.key, ())), any_true, any_found)
    for name, left in untrue.items():
        yield KeyNumbers(empty_rows(name), rules, sorted(left), there=False)


def _winners(columns: Columns, datums: NDArray[np.bool_]) -> dict[str, set[str]]:
    """Returns label key to values that have the largest score of one of these datums, or occur on no others."""
    predictions = columns.predictions
    elsewhere = set(columns.groundtruths.label.tolist())
    elsewhere.update(predictions.label[~datums[predictions.datum]].tolist())
    found: dict[str, set[str]] = {}
    for label in set(predictions.label.tolist()) - elsewhere:
        key, value = columns.labels[label]
        found.setdefault(key, set()).add(value)
    untrue = replace(columns, predictions=predictions.take(datums[predictions.datum]))
    untrue = replace(untrue, groundtruths=columns.groundtruths.take(np.zeros(0, np.int64)))
    for rows in split_keys(untrue, datums):
        winners = rows.label[rows.winner[rows.winner >= 0]].tolist()
        found.setdefault(rows.key, set()).update(rows.values[label] for label in winners)
    return found


def _in_order_of_text(rows: Rows) -> Rows:
    """Returns the rows of each annotation by the text of their place in it, 10 before 2; annotations as they came."""
    order = np.argsort(rows.annotation, kind="stable")
    starts = np.flatnonzero(np.diff(rows.annotation[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    if sizes.max(initial=0) <= 10:
        return rows
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    return rows.take(order[np.lexsort((place.astype(str), rows.annotation[order]))])
