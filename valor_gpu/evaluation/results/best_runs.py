"""Which of several runs is best by a metric, where the data show it. No torch, no pandas."""

from __future__ import annotations

from collections.abc import Sequence

from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.metric_comparison import MetricComparison
from valor_gpu.evaluation.results.run_pairs import RunPair, joined_pair, with_tests
from valor_gpu.stats.comparisons import adjust_holm


def best_runs(tested: Sequence[RunPair]) -> dict[str, int]:
    """Returns the best run of each metric: 0 is the baseline, 1 the run of the first pair, and so on.

    A run is best where its differences from all others are shown: the largest p-value of these differences, times the
    number of the others, since the best was not named before, and adjusted over the metrics (Holm), is at most the
    error rate of the intervals. Metrics for which no run is best are left out, as are metrics that some run lacks or
    whose scores are not comparable.

    Args:
        tested: as of :func:`~valor_gpu.evaluation.results.run_pairs.with_tests`, two and more with one baseline.

    Source: Berger, "Multiparameter hypothesis testing and acceptance sampling" (1982): all of several hypotheses are
    rejected at a level where each is.
    """
    compared = [each.comparison().metrics for each in tested]
    names = [name for name in compared[0] if all(name in each for each in compared)]
    leaders = {name: _leader([each[name] for each in compared]) for name in names}
    alpha = 1 - tested[0].options.confidence
    worst = {name: _largest_p_value([each[name] for each in compared], leaders[name]) for name in names}
    hopeful = {name: leaders[name] for name in names if worst[name] <= alpha and leaders[name]}
    for leader in sorted(set(hopeful.values())):
        metrics = [name for name, place in hopeful.items() if place == leader]
        for other in range(1, len(tested) + 1):
            if other != leader:
                for name, p_value in _against(tested[leader - 1], tested[other - 1], metrics).items():
                    worst[name] = max(worst[name], p_value)
    adjusted = adjust_holm([min(1.0, len(tested) * worst[name]) for name in names])
    return {name: leaders[name] for name, p_value in zip(names, adjusted) if p_value <= alpha}


def _leader(found: Sequence[MetricComparison]) -> int:
    """The run with the best difference from the baseline; 0 where none is better."""
    gains = [0.0, *(_gain(each) for each in found)]
    return gains.index(max(gains))


def _gain(found: MetricComparison) -> float:
    if found.difference is None or found.higher_is_better is None:
        return 0.0
    return found.difference if found.higher_is_better else -found.difference


def _largest_p_value(found: Sequence[MetricComparison], leader: int) -> float:
    """The largest p-value of the differences between the baseline and those that it must be told from.

    They are the leader alone, or all runs where the baseline leads. 1 where a difference is missing or means nothing.
    """
    if any(each.warning or each.p_value is None or each.higher_is_better is None for each in found):
        return 1.0
    told = [found[leader - 1]] if leader else found
    return max(each.p_value or 0.0 if _gain(each) else 1.0 for each in told)


def _against(leader: RunPair, other: RunPair, metrics: Sequence[str]) -> dict[str, float]:
    """The p-value of the leader's difference from another run, by metric; 1 where it is not better.

    It is 1, too, where the two share no row: each of them shares some with the baseline alone.
    """
    try:
        pair = joined_pair(leader.sides[0].run, other.sides[0].run, metrics, leader.options)
    except InputError:
        return dict.fromkeys(metrics, 1.0)
    found = with_tests(pair).comparison().metrics
    return {
        name: 1.0 if each.p_value is None or each.warning or _gain(each) <= 0 else each.p_value
        for name, each in found.items()
    }
