"""How far people agree with the evaluators of a run: their scores, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.judge.metrics.severity import LEVELS
from valor_gpu.stats.agreement import Agreement, weighted_kappa
from valor_gpu.store import Run
from valor_gpu.store.rated import Rated, rated_scores


@dataclass(frozen=True)
class PeopleAgreement:
    """How far people agree with an evaluator.

    Attributes:
        n_people: who gave a score or a verdict.
        scores: of their scores with the evaluator's; None where nobody gave one.
        verdicts: of pass and fail with what its threshold says; None where nobody gave one, or without a threshold.
    """

    n_people: int
    scores: Agreement | None
    verdicts: Agreement | None


def people_agreement(run: Run, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, PeopleAgreement]:
    """Evaluator to the agreement of people with it, for those that somebody rated.

    Every rating is a pair with the evaluator's score of that row; ratings of one row are drawn together for the
    interval. Rows without a score of the evaluator are counted as missing.

    Args:
        run: of a store.
        facts: of :func:`~valor_gpu.evaluation.results.summary.run_summary`, ``["evaluators"]``: their thresholds.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Feedback, Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(row, str(row), {}) for row in (1, 2, 3)])
        ...     _ = run.add_scores([StoredScore(row, "gpt_fluency", 0, 1.0 + row) for row in (1, 2, 3)])
        ...     for row, value in ((1, 2), (2, 3), (3, 5)):
        ...         run.add_feedback(Feedback(row, "gpt_fluency", "me", value=value))
        ...     found = people_agreement(run, {})["gpt_fluency"]
        >>> round(found.scores.kappa, 3), found.scores.n, found.verdicts
        (0.857, 3, None)
    """
    by_name: dict[str, list[Rated]] = {}
    for each in rated_scores(run):
        by_name.setdefault(each.evaluator, []).append(each)
    return {name: _agreement(found, threshold_of(facts.get(name, {}))) for name, found in by_name.items()}


def threshold_of(facts: Mapping[str, Any]) -> Threshold | None:
    """The threshold that a summary names; None where it has none."""
    given = facts.get("threshold")
    if given is None or facts.get("direction") is None:
        return None
    return Threshold(given, LEVELS[given] if isinstance(given, str) else float(given), str(facts["direction"]))


def _agreement(found: Sequence[Rated], threshold: Threshold | None) -> PeopleAgreement:
    scores = [each for each in found if each.value is not None]
    verdicts = [each for each in found if each.passed is not None] if threshold is not None else []

    def passes(score: float) -> float:
        return float(threshold.passes([score])[0]) if threshold is not None else math.nan

    return PeopleAgreement(
        len({each.author for each in found}),
        _kappa(scores, lambda each: each.value, float),
        _kappa(verdicts, lambda each: each.passed, passes),
    )


def _kappa(
    found: Sequence[Rated], said: Callable[[Rated], Any], of_score: Callable[[float], float]
) -> Agreement | None:
    if not found:
        return None
    own = [math.nan if each.score is None else of_score(each.score) for each in found]
    return weighted_kappa([float(said(each)) for each in found], own, [each.row for each in found])
