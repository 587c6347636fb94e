"""Helpers for tests of models: an evaluation as an assertion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError
from valor_gpu.gates.decisions import failing
from valor_gpu.gates.subjects import subject_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from valor_gpu.evaluation.result import EvaluationResult
    from valor_gpu.evaluation.results.comparison import Comparison
    from valor_gpu.result import Result

__all__ = ["assert_evaluation", "assert_metrics"]


def assert_metrics(result: Result | Comparison, *gates: str) -> None:
    """Fails a test unless the numbers of a metric meet conditions. In pytest, the fixture of that name does the same.

    Args:
        result: of a metric, such as ``metric.result()``; or of a comparison, by :func:`valor_gpu.stats.compare` or by
            ``compare`` of two evaluations.
        gates: conditions such as ``"map >= 0.37"``, ``"map_per_class/cat > 25%"`` or ``"counts/images == 5000"``,
            perhaps several joined by ``and``; :mod:`valor_gpu.gates.grammar` has the grammar. Names are those of
            ``result.scalars()``, with intervals also ``map_low`` and ``map_high``, and of the counts. A comparison adds
            ``delta_map``, ``delta_map_low``, ``delta_map_high`` and ``p_map``; ``map`` is then the number of the second
            model. A number that does not exist meets none.

    Raises:
        AssertionError: a condition that is not met; the message has all of them, and the result.
        InputError: no condition, one that cannot be read, or one that names no number of the result.

    Example:
        >>> from valor_gpu import Result, Signature
        >>> result = Result({"map": 0.41}, Signature({"metric": "AP"}), {"images": 100})
        >>> assert_metrics(result, "map >= 0.37 and map < 0.5", "counts/images == 100")
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    _check_any(gates)
    numbers, reason = gate_subject(result)
    lines = [str(each) for each in failing(numbers, gates, reason)]
    if lines:
        raise AssertionError("\n".join(lines) + f"\n\n{result}")


def gate_subject(
    result: Result | EvaluationResult | Comparison | Mapping[str, Any],
) -> tuple[Mapping[str, float | None], Callable[[str], str]]:
    """Returns every number that a condition can name, and a function that gives why one does not exist.

    Args:
        result: of a metric, an evaluation or a comparison, or the summary of an evaluation.
    """
    if hasattr(result, "scalars"):
        return subject_of(result)
    from valor_gpu.evaluation.results.gates import comparison_gates, gate_numbers, gate_reason

    if isinstance(result, Mapping) or hasattr(result, "summary"):
        summary = _summary(result)
        return gate_numbers(summary), lambda name: gate_reason(summary, name)
    return comparison_gates(result)


def assert_evaluation(result: EvaluationResult | Comparison | Mapping[str, Any], *gates: str) -> None:
    """Fails a test unless a run meets conditions on its numbers.

    Args:
        result: of :func:`valor_gpu.evaluate`, or its summary; or of ``compare`` of two such results.
        gates: conditions such as ``"mean_gpt_groundedness >= 4"``, ``"violence_defect_rate <= 5%"``,
            ``"rows.failed == 0"``, perhaps several joined by ``and``;
            :func:`~valor_gpu.evaluation.results.gates.failing_gates` lists the names. A comparison adds
            ``delta_mean_f1_score`` and ``p_mean_f1_score``. A number that does not exist meets none; nor does a run
            that was stopped before its last row.

    Raises:
        AssertionError: a condition that is not met; the message has all of them, and the table of the run.
        InputError: no condition, one that cannot be read, or one that names no number of the run.

    Example:
        >>> summary = {"metrics": {"mean_f1_score": 0.75}, "rows": {"n": 4, "ok": 4, "failed": {}}, "evaluators": {}}
        >>> assert_evaluation(summary, "mean_f1_score >= 0.7", "rows.failed == 0")
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    _check_any(gates)
    numbers, reason = gate_subject(result)
    lines = [*_unfinished(result), *map(str, failing(numbers, gates, reason))]
    if lines:
        raise AssertionError("\n".join(lines) + ("" if isinstance(result, Mapping) else f"\n\n{result}"))


def _check_any(gates: tuple[str, ...]) -> None:
    if not gates:
        raise InputError("gates must hold at least one condition but there is none")


def _summary(result: Any) -> Mapping[str, Any]:
    return result if isinstance(result, Mapping) else result.summary


def _unfinished(result: Any) -> list[str]:
    """A line for each run that has not ended as it should."""
    runs = [getattr(result, name) for name in ("run", "baseline") if hasattr(result, name)]
    states = [f"it is {run.state}" for run in runs if run.state != "finished"]
    if not hasattr(result, "baseline"):
        states = [stopped] if (stopped := _summary(result).get("stopped")) else states
    return [f"the run is not complete, and its numbers are of the rows that it reached: {why}" for why in states]
