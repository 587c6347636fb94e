"""Gates: conditions on the numbers of a run, for tests and commands.

Example:
    >>> summary = {"metrics": {"mean_f1_score": 0.75}, "rows": {"n": 4, "ok": 4, "failed": {}}, "evaluators": {}}
    >>> [str(each) for each in failing_gates(summary, ["mean_f1_score >= 0.8", "rows.failed == 0"])]
    ['mean_f1_score >= 0.8 does not hold: it is 0.75']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu.gates.decisions import Decision, failing
from valor_gpu.gates.grammar import Gate, parse_gate

if TYPE_CHECKING:
    from valor_gpu.evaluation.results.comparison import Comparison

__all__ = ["Decision", "Gate", "comparison_gates", "failing_gates", "gate_numbers", "gate_reason", "parse_gate"]


def failing_gates(summary: Mapping[str, Any], gates: Iterable[str | Gate], *, fail_if: bool = False) -> list[Decision]:
    """Returns the gates that a run fails.

    A number that does not exist fails its gate, unless another condition of the gate already decides it.

    Args:
        summary: as of :func:`~valor_gpu.evaluation.results.summary.run_summary`. Names are those of ``metrics``;
            ``rows.n``, ``rows.ok``, ``rows.failed``, ``cost``, ``seconds``, ``tokens``; and ``<evaluator>.<number>``
            for what ``evaluators`` has, such as ``gpt_fluency.n_without_score``.
        gates: in the grammar of :mod:`valor_gpu.gates.grammar`: conditions, perhaps several joined by ``and``.
        fail_if: the gates say what must not be, instead of what must.

    Raises:
        InputError: a gate that cannot be read, or that names no number of the run.
    """
    return failing(gate_numbers(summary), gates, lambda name: gate_reason(summary, name), fail_if=fail_if)


def gate_numbers(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """All numbers that gates can name."""
    found: dict[str, float | None] = dict(summary["metrics"])
    rows = summary["rows"]
    found |= {"rows.n": rows["n"], "rows.ok": rows["ok"], "rows.failed": sum(rows["failed"].values())}
    found |= {name: summary[name] for name in ("cost", "seconds") if name in summary}
    if "usage" in summary:
        found["tokens"] = summary["usage"]["total"]
    for name, each in summary["evaluators"].items():
        for key, value in each.items():
            if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
                found[f"{name}.{key}"] = value
        found[f"{name}.n_failed"] = sum(each.get("n_failed", {}).values())
    return found


def gate_reason(summary: Mapping[str, Any], name: str) -> str:
    """Returns why the number of a name does not exist; empty where that is not known."""
    for evaluator, each in summary["evaluators"].items():
        names: dict[Any, tuple[str, ...]] = {each.get("summary_name"): ("mean", "value")}
        names |= {f"{evaluator}_{rate}": (rate,) for rate in ("pass_rate", "defect_rate")}
        for what in names.get(name, ()):
            if what in each.get("reasons", {}):
                return str(each["reasons"][what])
    return ""


def comparison_gates(
    comparison: Comparison, summary: Mapping[str, Any] | None = None
) -> tuple[dict[str, float | None], Callable[[str], str]]:
    """Returns the numbers that gates of two runs can name, and a function that gives why one does not exist.

    Args:
        comparison: of the run with a baseline, whose differences are ``delta_mean_f1_score`` and so on.
        summary: of the run, whose own numbers have their bare names; None: the one that it ended with.
    """
    if summary is None:
        from valor_gpu.evaluation.results.summary import run_summary

        kept = comparison.run.finished_summary
        summary = kept if kept is not None and "metrics" in kept else run_summary(comparison.run)
    own = summary
    compared = comparison.numbers()
    reasons = {}
    for each in comparison.metrics.values():
        why = each.reason or "no row has a score in both runs"
        reasons |= {f"{kind}_{each.summary_name}{end}": why for kind, end in _COMPARED}
    return {**gate_numbers(own), **compared}, lambda name: reasons.get(name) or gate_reason(own, name)


_COMPARED = (("delta", ""), ("delta", "_low"), ("delta", "_high"), ("p", ""))
