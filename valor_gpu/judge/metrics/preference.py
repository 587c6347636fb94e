"""Pairwise preference of two answers, asked in both orders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from valor_gpu.checks import check_type
from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.fields import JudgedTexts
from valor_gpu.judge.metrics.prompts import OwnPrompts
from valor_gpu.judge.metrics.reading import Verdict, read_verdict, verdict_schema
from valor_gpu.judge.metrics.row_base import PromptMetric
from valor_gpu.judge.metrics.scores import JudgedScore, mean_of_scored

VERDICTS = ("first", "second", "tie")
_FIELDS = frozenset({"question", "answer", "baseline_answer"})
_LEVELS = {1.0: "win", 0.5: "tie", 0.0: "loss"}
_SWAPPED = {"first": "second", "second": "first", "tie": "tie"}
_VALUES = {"first": 1.0, "second": 0.0, "tie": 0.5}


class PreferenceMetric(PromptMetric):
    """Whether ``answer`` is better than ``baseline_answer``: 1 a win, 0.5 a tie, 0 a loss.

    Two questions a row: the answers are shown in either order. An answer wins only if it is preferred in both; verdicts
    that differ, which shows a liking for a place, are a tie that ``details["consistent"]`` tells from a true one. A row
    of which one order has no verdict has no value: the other alone may come from its place.

    Args:
        prompts: the user's own prompt ``preference`` in place of the package's.

    Source: the two-order rule of Zheng et al., "Judging LLM-as-a-judge with MT-Bench and Chatbot Arena" (2023),
    section 3.4.

    Example:
        >>> from valor_gpu.judge import run_judge
        >>> row = {"question": "Is there a ferry?", "answer": "Yes, at nine.", "baseline_answer": "Boats float."}
        >>> def judge(messages):  # prefers the first place
        ...     return '{"reason": "It stands first.", "verdict": "first", "status": "completed"}'
        >>> found = run_judge([row], [PreferenceMetric()], judge).judgements["preference"][0][0]
        >>> found.value, found.details.level, found.details.details["consistent"]
        (0.5, 'tie', False)
    """

    low, high = 0.0, 1.0

    def __init__(self, prompts: OwnPrompts = None) -> None:
        super().__init__("preference", "qa", "preference", _FIELDS, _FIELDS, prompts)

    def level(self, value: float) -> str:
        """``win``, ``tie`` or ``loss``."""
        return _LEVELS[value]

    async def score_texts(self, texts: JudgedTexts, ask: Ask) -> JudgedScore:
        """Asks in both orders."""
        one = await self._verdict(texts, texts.answer, texts.baseline_answer, ask)
        other = await self._verdict(texts, texts.baseline_answer, texts.answer, ask)
        value = _VALUES[one.value] if one.value == _SWAPPED[other.value] else 0.5
        details = {
            "consistent": one.value == _SWAPPED[other.value],
            "orders": [
                {"verdict": verdict, "reason": found.reason}
                for verdict, found in ((one.value, one), (_SWAPPED[other.value], other))
            ],
        }
        return JudgedScore(value, reason=one.reason or other.reason, level=self.level(value), details=details)

    async def _verdict(self, texts: JudgedTexts, first: str, second: str, ask: Ask) -> Verdict:
        shown = {"first_answer": first, "second_answer": second}
        question = self.question(texts, lambda reply: read_verdict(reply, VERDICTS), verdict_schema(VERDICTS), **shown)
        found: Verdict = await ask(question)
        return found


@dataclass(frozen=True)
class PreferenceCounts:
    """Counts of pairwise verdicts.

    Attributes:
        wins, ties, losses: rows; ties of both kinds.
        inconsistent: those of ``ties`` whose two orders gave different verdicts.
        n_unscored: rows without a verdict.
        mean: (wins + ties / 2) / rows with a verdict; NaN without any.
    """

    wins: int
    ties: int
    losses: int
    inconsistent: int
    n_unscored: int
    mean: float


def preference_counts(scores: Iterable[JudgedScore | None]) -> PreferenceCounts:
    """Counts wins, ties and losses.

    Args:
        scores: of the rows; None for one without a score.

    Example:
        >>> preference_counts([JudgedScore(1.0), JudgedScore(0.5, details={"consistent": True}), None])
        PreferenceCounts(wins=1, ties=1, losses=0, inconsistent=0, n_unscored=1, mean=0.75)
    """
    rows = list(scores)
    for row in rows:
        check_type("scores", row, (JudgedScore, type(None)))
    scored = [row for row in rows if row is not None and row.value is not None]
    levels = [_LEVELS[float(row)] for row in scored]
    inconsistent = sum((row.details or {}).get("consistent") is False for row in scored)
    counts = (levels.count("win"), levels.count("tie"), levels.count("loss"), inconsistent)
    return PreferenceCounts(*counts, len(rows) - len(scored), mean_of_scored(row.value for row in scored)[0])
