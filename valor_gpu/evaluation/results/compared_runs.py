"""The comparison of two runs: numbers, text and the rows behind them. No torch, no pandas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from valor_gpu._headline import headline
from valor_gpu.checks import check_choice, check_int, near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.config_difference import config_differences, general_warnings
from valor_gpu.evaluation.results.jailbreak import jailbreak_json, jailbreak_rate
from valor_gpu.evaluation.results.joined_rows import Side
from valor_gpu.evaluation.results.metric_comparison import MetricComparison, Pair
from valor_gpu.evaluation.results.metric_summary import number
from valor_gpu.evaluation.results.result_text import aligned, percent, shown
from valor_gpu.evaluation.results.row_values import Mask
from valor_gpu.stats.comparisons import adjust_holm
from valor_gpu.stats.proportions import Proportion

ORDERS = ("change", "better", "worse")


class Comparison:
    """Two runs row by row; see :func:`~valor_gpu.evaluation.results.comparison.compare_runs`.

    Attributes:
        run: that is looked at.
        baseline: that it is compared with.
        metrics: name of the evaluator to its :class:`MetricComparison`.
        n: shared rows; answers to one question in several epochs are one.
        n_run_only: rows of the run that the baseline lacks; likewise ``n_baseline_only``.
        only_in: evaluators that one of both lacks: ``run`` and ``baseline`` to their names.
        differences: of the configurations: ``name``, ``run``, ``baseline``.
        warnings: what stands against comparing.
        jailbreak: fraction of shared rows that are more severe than in the baseline by any severity that both have,
            or None where there is none.
        confidence: of the intervals.
        cluster_column: column of the data whose rows of one value were drawn as a whole, or None.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        pairs: Sequence[Pair],
        only_in: dict[str, list[str]],
        adjusted: Sequence[float] | None = None,
        cluster_column: str | None = None,
    ) -> None:
        self.cluster_column = cluster_column
        self._sides, self._pairs = sides, {each.info["name"]: each for each in pairs}
        run, baseline = sides
        self.run, self.baseline = run.run, baseline.run
        self.n = len(run.questions)
        self.n_run_only, self.n_baseline_only = run.n - self.n, baseline.n - self.n
        self.only_in = only_in
        self.differences = config_differences(self.run.config, self.baseline.config)
        if adjusted is None:
            adjusted = adjust_holm([each.difference.p_value for each in pairs])
        self.metrics = {each.info["name"]: each.compared(p) for each, p in zip(pairs, adjusted)}
        general = general_warnings(self.run.config, self.baseline.config)
        self.warnings = [*general, *(f"{each.name}: {each.warning}" for each in self.metrics.values() if each.warning)]
        severities = [(each.run, each.baseline) for each in pairs if each.info["kind"] == "safety"]
        self.jailbreak: Proportion | None = jailbreak_rate(severities) if severities else None
        self.confidence = pairs[0].difference.confidence if pairs else 0.95

    def rows(
        self, metric: str | None = None, *, limit: int = 20, order: str = "change", only_different: bool = True
    ) -> list[dict[str, Any]]:
        """Returns the shared rows that changed most.

        Args:
            metric: by which they are ordered; without one by the largest change of any, as a fraction of its scale.
            limit: at most so many.
            order: ``change`` (the largest first), ``better`` or ``worse`` (the best, the worst change first).
            only_different: leave out rows that have the same number, or none, in both runs.

        Returns:
            For each row ``key``, ``numbers`` of its rows in the run, ``inputs`` and ``outputs`` (of the first epoch),
            the same of the baseline with ``baseline_`` before it, and ``metrics``: name to ``run``, ``baseline``,
            ``difference``.

        Raises:
            InputError: no such metric or order, or an order that the metric does not have.
        """
        check_int("limit", limit, 1)
        check_choice("order", order, ORDERS)
        pairs = self._chosen(metric)
        if order != "change" and metric is None:
            pairs = [each for each in pairs if each.info["higher_is_better"] is not None]
        change = np.full(self.n, -math.inf)
        for each in pairs:
            change = np.fmax(change, each.change(order))
        kept = self._different(metric) if only_different else np.ones(self.n, bool)
        places = np.argsort(-change, kind="stable")
        return [self._row(int(place)) for place in places[kept[places]][:limit]]

    def n_different(self, metric: str | None = None) -> int:
        """Counts the shared rows whose numbers differ, or exist in one run only."""
        return int(self._different(metric).sum())

    def numbers(self) -> dict[str, float | None]:
        """Returns flat names and numbers, for gates.

        Every metric has ``delta_<name>``, the ends of its interval ``delta_<name>_low`` and ``delta_<name>_high``, and
        ``p_<name>``, which is adjusted. The names are those of the summary: ``delta_mean_f1_score``. Severities add
        ``jailbreak_defect_rate``.
        """
        found: dict[str, float | None] = {}
        for each in self.metrics.values():
            found[f"delta_{each.summary_name}"] = each.difference
            low, high = each.interval or (None, None)
            found |= {f"delta_{each.summary_name}_low": low, f"delta_{each.summary_name}_high": high}
            found[f"p_{each.summary_name}"] = each.p_adjusted
        if self.jailbreak is not None:
            found["jailbreak_defect_rate"] = number(self.jailbreak.rate)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns the comparison without its rows, as strict JSON."""
        return {
            "run": {"run_id": self.run.id, "name": self.run.name},
            "baseline": {"run_id": self.baseline.id, "name": self.baseline.name},
            "n": self.n,
            "n_run_only": self.n_run_only,
            "n_baseline_only": self.n_baseline_only,
            "n_different": self.n_different(),
            "metrics": {name: asdict(each) for name, each in self.metrics.items()},
            "only_in": self.only_in,
            "jailbreak": None if self.jailbreak is None else jailbreak_json(self.jailbreak),
            "differences": self.differences,
            "warnings": self.warnings,
            "confidence": self.confidence,
            "cluster_column": self.cluster_column,
        }

    def __repr__(self) -> str:
        changes = {name: metric.difference for name, metric in self.metrics.items()}
        return headline("Comparison", "differences", changes, {"rows": self.n})

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _chosen(self, metric: str | None) -> list[Pair]:
        if metric is None:
            return list(self._pairs.values())
        if metric not in self._pairs:
            raise InputError(
                f"metric must be one that both runs have but {metric!r} is none{near_names(metric, self._pairs)}"
            )
        return [self._pairs[metric]]

    def _different(self, metric: str | None) -> Mask:
        found: Mask = np.zeros(self.n, bool)
        for each in self._chosen(metric):
            found |= each.different
        return found

    def _row(self, place: int) -> dict[str, Any]:
        run, baseline = (side.row_numbers(place) for side in self._sides)
        ours, theirs = (
            next(iter(side.run.rows(numbers=found)), None) for side, found in zip(self._sides, (run, baseline))
        )
        metrics = {}
        for name, each in self._pairs.items():
            values = float(each.run[place]), float(each.baseline[place])
            found = {"run": number(values[0]), "baseline": number(values[1])}
            metrics[name] = {**found, "difference": number(values[0] - values[1])}
        return {
            "key": ours.key if ours else "",
            "numbers": run,
            "baseline_numbers": baseline,
            "inputs": ours.inputs if ours else {},
            "baseline_inputs": theirs.inputs if theirs else {},
            "outputs": ours.outputs if ours else {},
            "baseline_outputs": theirs.outputs if theirs else {},
            "metrics": metrics,
        }


def _lines(found: Comparison) -> list[str]:
    """Returns a comparison as lines of text."""
    lines = [
        f"{found.run.name} ({found.run.id}) against {found.baseline.name} ({found.baseline.id})",
        f"{found.n} shared rows, {found.n_different()} differ; {found.n_run_only} only in the run, "
        f"{found.n_baseline_only} only in the baseline",
        "",
    ]
    header = (
        "metric",
        "run",
        "baseline",
        "difference",
        f"{100 * found.confidence:g}% interval",
        "p",
        "adjusted",
        "n",
        "",
    )
    lines += aligned([header, *(_cells(each) for each in found.metrics.values())])
    if found.jailbreak is not None:
        lines.append(f"jailbreak defect rate {percent(number(found.jailbreak.rate))} of {found.jailbreak.n} rows")
    if found.cluster_column is not None:
        lines.append(f"rows of one {found.cluster_column} are drawn, and swapped, as a whole")
    lines += [f"warning: {text}" for text in found.warnings]
    lines += [f"{each.name}: {each.reason}" for each in found.metrics.values() if each.reason]
    lines += [f"only in the {side}: {', '.join(names)}" for side, names in found.only_in.items() if names]
    return lines


def _cells(each: MetricComparison) -> list[str]:
    ends = "-" if each.interval is None else f"{shown(each.interval[0])} to {shown(each.interval[1])}"
    numbers = (shown(value) for value in (each.run, each.baseline, each.difference))
    return [each.summary_name, *numbers, ends, shown(each.p_value), shown(each.p_adjusted), str(each.n), each.verdict]
