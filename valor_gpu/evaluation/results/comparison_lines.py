"""Comparisons of two runs as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu.evaluation.results.metric_comparison import MetricComparison
from valor_gpu.evaluation.results.metric_summary import number
from valor_gpu.evaluation.results.result_text import aligned, percent, shown

if TYPE_CHECKING:
    from valor_gpu.evaluation.results.comparison import Comparison


def comparison_lines(found: Comparison) -> list[str]:
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
