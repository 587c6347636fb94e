"""Helpers for tests of models: an evaluation as an assertion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.gates import failing, failing_gates

if TYPE_CHECKING:
    from valor_gpu.evaluation.result import EvaluationResult
    from valor_gpu.result import Result

__all__ = ["assert_evaluation", "assert_metrics"]


def assert_metrics(result: Result, *gates: str) -> None:
    """Fails a test unless the numbers of a metric meet conditions. In pytest, the fixture of that name does the same.

    Args:
        result: of a metric, such as ``metric.result()``.
        gates: conditions such as ``"map >= 0.37"``, ``"map_per_class/cat > 25%"`` or ``"counts/images == 5000"``; names
            are those of ``result.scalars()``, with intervals also ``map_low`` and ``map_high``, and of the counts. A
            number that does not exist meets none.

    Raises:
        AssertionError: a condition that is not met; the message has all of them, and the result.
        InputError: no condition, one that cannot be read, or one that names no number of the result.

    Example:
        >>> from valor_gpu import Result, Signature
        >>> result = Result({"map": 0.41}, Signature({"metric": "AP"}), {"images": 100})
        >>> assert_metrics(result, "map >= 0.37", "counts/images == 100")
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if not gates:
        raise InputError("gates must hold at least one condition but there is none")
    lines = [str(each) for each in failing(gate_scalars(result), gates, lambda name: result.reason(name) or "")]
    if lines:
        raise AssertionError("\n".join(lines) + f"\n\n{result}")


def gate_scalars(result: Result) -> dict[str, float]:
    """Every number that a condition of :func:`assert_metrics` can name."""
    return result.scalars() | {f"counts/{name}": count for name, count in result.counts.items()}


def assert_evaluation(result: EvaluationResult | Mapping[str, Any], *gates: str) -> None:
    """Fails a test unless a run meets conditions on its numbers.

    Args:
        result: of :func:`valor_gpu.evaluate`, or its summary.
        gates: conditions such as ``"mean_gpt_groundedness >= 4"``, ``"violence_defect_rate <= 5%"``,
            ``"rows.failed == 0"``; :func:`~valor_gpu.evaluation.results.gates.failing_gates` lists the names. A number
            that does not exist meets none; nor does a run that was stopped before its last row.

    Raises:
        AssertionError: a condition that is not met; the message has all of them, and the table of the run.
        InputError: no condition, one that cannot be read, or one that names no number of the run.

    Example:
        >>> summary = {"metrics": {"mean_f1_score": 0.75}, "rows": {"n": 4, "ok": 4, "failed": {}}, "evaluators": {}}
        >>> assert_evaluation(summary, "mean_f1_score >= 0.7", "rows.failed == 0")
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if not gates:
        raise InputError("gates must hold at least one condition but there is none")
    summary = result if isinstance(result, Mapping) else result.summary
    lines = [str(each) for each in failing_gates(summary, gates)]
    unfinished = summary.get("stopped") or ("" if isinstance(result, Mapping) else _unfinished(result))
    if unfinished:
        lines.insert(0, f"the run is not complete, and its numbers are of the rows that it reached: {unfinished}")
    if lines:
        table = "" if isinstance(result, Mapping) else f"\n\n{result}"
        raise AssertionError("\n".join(lines) + table)


def _unfinished(result: EvaluationResult) -> str:
    """The state of a run that has not ended as it should; empty where it has."""
    return "" if result.run.state == "finished" else f"it is {result.run.state}"
