"""Running sums over the scores and rows of a run: what its page shows while it goes on. No torch.

A sum is changed when the store has what it counts, so that it equals a count of the store at every moment.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.results.chart_edges import chart_edges
from valor_gpu.evaluation.results.latency import Latency
from valor_gpu.evaluation.results.parts import parent_of
from valor_gpu.evaluation.results.spending import ReplacedSpending
from valor_gpu.evaluation.results.summary import NO_LEVELS
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.judge.metrics.severity import LEVELS
from valor_gpu.stats.means import exact_mean
from valor_gpu.store import StoredRow, StoredScore
from valor_gpu.store.records import OK
from valor_gpu.store.replaced import ReplacedUsage, usage_of_answer
from valor_gpu.store.traces import ANSWER

_TOKENS = ("prompt", "completion", "cached")
_NO_TOKENS = dict.fromkeys(_TOKENS, 0)
_UNKNOWN = {"kind": "custom", "low": None, "high": None, "pooled": False}  # an evaluator that no configuration names
EXPECTED = frozenset((OK, "missing_field", "not_applicable", "undefined"))
"""Statuses of scores that are no failures of a judge."""


class EvaluatorSums:
    """Running sums over the scores of one evaluator.

    Args:
        info: of the evaluator, as of :func:`~valor_gpu.evaluation.results.summary.evaluator_infos`.
        threshold: that rows must reach, or None.
        repeats: of the judging; the values of a row are averaged before rows are summed.
    """

    def __init__(self, info: Mapping[str, Any], threshold: Threshold | None, repeats: int) -> None:
        self._is_severity, self._has_levels = info["kind"] == "safety", info["kind"] not in NO_LEVELS
        self._threshold, self._repeats = threshold, repeats
        self._edges = chart_edges(info)
        self._bounds = [*self._edges[:-1], math.nextafter(self._edges[-1], math.inf)] if self._edges else []
        self._counts = [0] * (len(self._bounds) + 1)  # with those below and above
        self._ends = {"zeros": 0, "ones": 0} if (info["low"], info["high"]) == (0, 1) else {}
        self._open: dict[int, list[float]] = {}  # values of the rows that have not all repeats yet
        self._levels: Counter[str] = Counter()
        self._n = self._n_scores = self._n_passed = 0
        self._sum = 0.0
        self._least: float | None = None
        self._most: float | None = None
        self.failed: Counter[str] = Counter()

    def add(self, scores: Sequence[StoredScore]) -> None:
        """Adds scores that the store has now, and had not before."""
        values = [score.value for score in scores if score.value is not None]
        if len(values) < len(scores):
            self.failed.update(score.status for score in scores if score.value is None)
        if not values:
            return
        self._n_scores += len(values)
        least, most = min(values), max(values)
        self._least = least if self._least is None or least < self._least else self._least
        self._most = most if self._most is None or most > self._most else self._most
        counts, bounds = self._counts, self._bounds
        if bounds:
            for value in values:
                counts[bisect_right(bounds, value)] += 1
        if self._ends:
            self._ends["zeros"] += values.count(0.0)
            self._ends["ones"] += values.count(1.0)
        if self._has_levels and not self._is_severity:
            self._levels.update(score.level for score in scores if score.level and score.value is not None)
        if self._repeats == 1:
            self._add_means(values)
        else:
            for score in scores:
                if score.value is not None:
                    self._add_repeat(score.row, score.value)

    def _add_repeat(self, row: int, value: float) -> None:
        values = self._open.setdefault(row, [])
        before = [exact_mean(values)] if values else []
        values.append(value)
        self._add_means([exact_mean(values)], before)
        if len(values) >= self._repeats:
            del self._open[row]

    def _add_means(self, new: list[float], gone: Sequence[float] = ()) -> None:
        """Adds the means of rows, and takes those away that they replace."""
        self._n += len(new) - len(gone)
        self._sum = math.fsum((self._sum, *new, *(-each for each in gone)))
        if self._threshold is None and not self._is_severity:
            return
        for sign, means in ((1, new), (-1, gone)):
            if self._threshold is not None and means:
                self._n_passed += sign * int(self._threshold.passes(means).sum())
            if self._is_severity:
                for each in means:
                    self._levels[_level_of(each)] += sign

    def to_dict(self) -> dict[str, Any]:
        """Returns the sums as JSON; see :class:`~valor_gpu.store.progress.RunProgress`."""
        levels: dict[str, int] | None = None
        if self._is_severity:
            levels = {name: self._levels[name] for name in LEVELS}
        elif self._has_levels:
            levels = dict(self._levels)
        return {
            "n": self._n,
            "sum": self._sum,
            "n_scores": self._n_scores,
            "least": self._least,
            "most": self._most,
            "failed": dict(self.failed),
            "bins": self._bins(),
            "levels": levels,
            "n_passed": None if self._threshold is None else self._n_passed,
        }

    def _bins(self) -> dict[str, Any] | None:
        if self._edges is None:
            return None
        below, *counts, above = self._counts
        return {"edges": list(self._edges), "counts": counts, "below": below, "above": above, **self._ends}


def _level_of(severity: float) -> str:
    return [name for name, least in LEVELS.items() if severity >= least][-1] if severity >= 0.0 else ""


def _add_tokens(tokens: dict[str, int], usage: Mapping[str, Any]) -> None:
    for name in _TOKENS:
        if n := usage.get(name):
            tokens[name] += int(n)


class RunningSums:
    """Running sums over all scores and rows of a run.

    Args:
        configured: the evaluators of the configuration.
        infos: of all metrics, parts included, as of
            :func:`~valor_gpu.evaluation.results.summary.evaluator_infos`.
        thresholds: name of an evaluator to its threshold.
        repeats: of the judging.

    Attributes:
        rows: status to number of the stored rows.
        tokens: ``prompt``, ``completion`` and ``cached`` of the stored scores, and of failed ones that were replaced.
        target_tokens: likewise of the stored rows.
        attempts: requests that these scores took.
        replaced: what the failures spent that were replaced.
        calls: seconds of the calls of the judge that were answered.
        target_calls: likewise of the target.
        problem: reason of the latest failure of a judge or target, and when it was.
    """

    def __init__(
        self,
        configured: Iterable[Mapping[str, Any]],
        infos: Iterable[Mapping[str, Any]],
        thresholds: Mapping[str, Threshold],
        repeats: int,
    ) -> None:
        self._configured = {each["name"]: each for each in configured}
        self._infos = {**self._configured, **{each["name"]: each for each in infos}}
        self._thresholds, self._repeats = thresholds, repeats
        self._evaluators: dict[str, EvaluatorSums] = {}
        self._parents: dict[str, str] = {}
        self._replaceable: dict[tuple[int, str, int], StoredScore] = {}
        self._failed_rows: dict[int, StoredRow] = {}
        self._done: Counter[str] = Counter()  # scores, parts of a row counted once, by evaluator
        self.attempts = 0
        self.rows: Counter[str] = Counter()
        self.tokens, self.target_tokens = dict(_NO_TOKENS), dict(_NO_TOKENS)
        self.replaced = ReplacedSpending()
        self.calls, self.target_calls = Latency(), Latency()
        self._target_costs, self._n_target_costs = 0.0, 0
        self.problem = ""
        self.problem_at: float | None = None

    def add_scores(self, scores: Sequence[StoredScore]) -> None:
        """Adds scores that the store has now, in place of failed ones of the same row, evaluator and repeat."""
        for score in scores if self._replaceable else ():
            self._take_away((score.row, score.evaluator, score.repeat))
        by_name: dict[str, list[StoredScore]] = {}
        for score in scores:
            found = by_name.get(score.evaluator)
            if found is None:
                by_name[score.evaluator] = [score]
            else:
                found.append(score)
            if score.usage:
                self._add_usage(score.usage)
            if score.value is None and score.status not in EXPECTED:
                self.problem, self.problem_at = f"{score.evaluator}: {score.reason or score.status}", time.time()
        places: dict[str, set[tuple[int, int]]] = {}  # parts of one row come together
        for name, found in by_name.items():
            self._sums_of(name).add(found)
            if (parent := self.parent(name)) == name:
                self._done[name] += len(found)
            else:
                places.setdefault(parent, set()).update((score.row, score.repeat) for score in found)
        for parent, each in places.items():
            self._done[parent] += len(each)

    def add_stored(self, scores: Sequence[StoredScore], again: frozenset[str]) -> None:
        """Adds scores that the store had before this process.

        Args:
            scores: all of some rows.
            again: statuses of scores that may be replaced.
        """
        self.add_scores(scores)
        self.problem, self.problem_at = "", None
        for score in scores:
            if score.value is None and score.status in again:
                self._replaceable[score.row, score.evaluator, score.repeat] = score

    def add_rows(self, rows: Iterable[StoredRow], are_new: bool = True) -> None:
        """Adds rows that the store has now, in place of failed ones of the same number.

        Args:
            rows: of the store.
            are_new: whether this process has stored them.
        """
        for row in rows:
            if self._failed_rows and (before := self._failed_rows.pop(row.number, None)) is not None:
                self.rows[before.status] -= 1
                if usage := usage_of_answer(before.outputs):
                    self.replaced.add(ANSWER, usage, before.outputs.get("_seconds"))
            self.rows[row.status] += 1
            if row.status != OK:
                spent = {name: row.outputs[name] for name in ("_usage", "_cost", "_seconds") if name in row.outputs}
                self._failed_rows[row.number] = StoredRow(row.number, row.key, {}, spent, row.status)
                if are_new:
                    self.problem, self.problem_at = row.error or row.status, time.time()
            if row.outputs:
                self._add_spending(usage_of_answer(row.outputs))
                if row.status == OK:
                    self.target_calls.add(row.outputs.get("_seconds"))

    def add_replaced(self, usages: Iterable[ReplacedUsage]) -> None:
        """Adds what failures spent that were replaced before this process."""
        for each in usages:
            self.replaced.add(*each)
            if each.evaluator == ANSWER:
                self._add_spending(each.usage)
            else:
                self._add_usage(each.usage)

    def _add_spending(self, usage: Mapping[str, Any]) -> None:
        """Adds what the target spent on a row."""
        _add_tokens(self.target_tokens, usage)
        if (cost := usage.get("cost")) is not None:
            self._target_costs = math.fsum((self._target_costs, float(cost)))
            self._n_target_costs += 1

    @property
    def target_cost(self) -> float | None:
        """Cost of the target by its rows, replaced ones included; None where no row says it."""
        return self._target_costs if self._n_target_costs else None

    def parent(self, name: str) -> str:
        """Returns the evaluator that a metric is a part of, by its name; the name itself where it is none."""
        found = self._parents.get(name)
        if found is None:
            parent = None if name in self._configured else parent_of(name, self._configured.values())
            found = self._parents[name] = name if parent is None else str(parent["name"])
        return found

    def _take_away(self, place: tuple[int, str, int]) -> None:
        """Takes a failed score away that is replaced; what it spent stays."""
        before = self._replaceable.pop(place, None)
        if before is not None:
            self._sums_of(before.evaluator).failed[before.status] -= 1
            self._done[self.parent(before.evaluator)] -= 1
            if before.usage is not None:
                self.replaced.add(before.evaluator, before.usage, before.seconds)

    def _add_usage(self, usage: Mapping[str, Any]) -> None:
        _add_tokens(self.tokens, usage)
        self.attempts += int(usage.get("attempts") or 0)
        self.calls.add_usage(usage)

    def _sums_of(self, name: str) -> EvaluatorSums:
        found = self._evaluators.get(name)
        if found is None:
            info = self._infos.get(name) or self._infos.get(self.parent(name)) or _UNKNOWN
            repeats = self._repeats if info.get("needs_judge", True) else 1
            found = self._evaluators[name] = EvaluatorSums(info, self._thresholds.get(name), repeats)
        return found

    @property
    def done_scores(self) -> int:
        """Number of stored scores; parts of an evaluator that returns several numbers count as one a row."""
        return self._done.total()

    def count_of_others(self, names: Collection[str]) -> int:
        """Returns how many of these scores are of evaluators with other names."""
        return sum(n for name, n in self._done.items() if name not in names)

    def failed_scores(self) -> dict[str, int]:
        """Returns how many stored scores of all evaluators have no value, by status."""
        found: Counter[str] = Counter()
        for each in self._evaluators.values():
            found.update(each.failed)
        return {status: n for status, n in found.items() if n}

    def failed_rows(self) -> dict[str, int]:
        """Returns how many stored rows have no answer, by status."""
        return {status: n for status, n in self.rows.items() if n and status != OK}

    def evaluators(self) -> dict[str, dict[str, Any]]:
        """Returns the sums of every evaluator that has scores, as JSON."""
        return {name: each.to_dict() for name, each in sorted(self._evaluators.items())}
