"""Two runs row by row: differences with intervals, tests over all metrics at once, and the rows behind them.

No torch, no pandas.

Example:
    >>> import tempfile
    >>> from valor_gpu.store import Store, StoredRow, StoredScore
    >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
    ...     runs = [store.create_run(name, {}) for name in ("small", "large")]
    ...     for run, values in zip(runs, ([0.5, 0.25, 0.5], [0.75, 0.25, 1.0])):
    ...         added = run.add_rows([StoredRow(n, f"q{n}", {}) for n in (1, 2, 3)])
    ...         added = run.add_scores([StoredScore(n, "f1_score", 0, value) for n, value in enumerate(values, 1)])
    ...     found = compare_runs(runs[1], runs[0])
    ...     found.metrics["f1_score"].difference, found.rows(limit=1)[0]["key"]
    (0.25, 'q3')
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from valor_gpu.argument_docs import arguments_of
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.results.metric_summary import CONFIDENCE
from valor_gpu.evaluation.results.run_pairs import PairOptions, RunPair, joined_pair, with_tests
from valor_gpu.stats.comparisons import adjust_holm
from valor_gpu.store.runs import Run

__all__ = ["Comparison", "compare_group", "compare_runs"]


class RunResult(Protocol):
    """Result of a run, such as an :class:`~valor_gpu.evaluation.EvaluationResult`.

    Attributes:
        run: of a store.
    """

    run: Run


def compare_runs(
    run: Run | RunResult,
    baseline: Run | RunResult,
    *,
    metrics: Collection[str] | None = None,
    cluster_column: str | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compares a run with a baseline, row by row.

    Rows are joined by their keys; repeats are averaged first, then the epochs of a row. Every metric that both runs
    have is compared over the rows with a number in both: mean difference with its BCa bootstrap interval, sign-flip
    p-value (exact for few rows), adjusted over all metrics (Holm). Pooled metrics are compared by their own number:
    rows are drawn, and swapped, with their counts.

    Args:
        run: of any store, or the result of a run.
        baseline: likewise.
        metrics: only these evaluators.
        cluster_column: column of the data of the run, such as a document or a patient: rows with one value are drawn,
            and swapped, as a whole. None: each row stands alone.
        confidence: of the intervals.
        resamples: of bootstrap and permutations.
        seed: of their random numbers.

    Raises:
        InputTypeError: something else than a run.
        InputError: the runs share no row, a metric is not in both, or a row has no value in ``cluster_column``.
    """
    options = PairOptions(confidence, resamples, seed, cluster_column)
    return with_tests(joined_pair(_run_of("run", run), _run_of("baseline", baseline), metrics, options)).comparison()


@arguments_of(compare_runs)
def compare_group(
    runs: Sequence[Run | RunResult],
    baseline: Run | RunResult | None = None,
    *,
    metrics: Collection[str] | None = None,
    cluster_column: str | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Comparison]:
    """Compares several runs, such as those of a grid of parameters, with one baseline.

    The p-values are adjusted over all metrics of all runs: the more runs are tried, the better the best one looks.

    Args:
        runs: of any store, or the results of runs, such as the list that :func:`~valor_gpu.evaluate` returns.
        baseline: likewise; None for the first of ``runs``, which is then compared with the others.

    Returns:
        A comparison for each run but the baseline, in their order.

    Raises:
        InputTypeError: something else than runs.
        InputError: fewer than one run beside the baseline; a run that shares no row with it; a metric that is not in
            both; a row without a value in ``cluster_column``.
    """
    given = [_run_of("runs", run) for run in runs]
    other = _run_of("baseline", baseline) if baseline is not None else next(iter(given), None)
    compared = [run for run in given if other is None or run.id != other.id]
    if other is None or not compared:
        raise InputError(f"runs must hold at least one run beside the baseline but hold {len(compared)}")
    options = PairOptions(confidence, resamples, seed, cluster_column)
    joined = [joined_pair(run, other, metrics, options) for run in compared]
    return compared_group([with_tests(each) for each in joined])


def compared_group(tested: Sequence[RunPair]) -> list[Comparison]:
    """Returns the comparisons of several runs with their p-values adjusted over all metrics of all runs (Holm).

    Args:
        tested: as of :func:`~valor_gpu.evaluation.results.run_pairs.with_tests`.
    """
    adjusted = iter(adjust_holm([p_value for each in tested for p_value in each.p_values]))
    return [each.comparison([next(adjusted) for _ in each.pairs]) for each in tested]


def _run_of(name: str, given: Any) -> Run:
    run = getattr(given, "run", given)
    if not isinstance(run, Run):
        raise InputTypeError(f"{name} must be a Run or an EvaluationResult but got {type(given).__name__}")
    return run
