"""Scores of judged metrics with their reasons, levels and turns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.judge.metrics.fields import MISSING_FIELD
from valor_gpu.judge.parse import NotApplicable
from valor_gpu.judge.protocol import Judgement, Status


@dataclass(frozen=True)
class JudgedScore:
    """Score of a row or of one turn.

    Attributes:
        value: None where there is none; then ``status`` and ``reason`` say why.
        status: ``ok``, ``missing_field``, or a status of a judge.
        reason: the judge's, or of a failure.
        level: name of the level that ``value`` lies in, of metrics with levels.
        details: more of it as JSON: ``turns``, ``n_turns``, ``n_scored``, ``notes``, ``reply``.
    """

    value: float | None
    status: str = str(Status.OK)
    reason: str = ""
    level: str = ""
    details: dict[str, Any] | None = None

    def __float__(self) -> float:
        """Gives the value.

        Raises:
            InputError: there is none.
        """
        if self.value is None:
            raise InputError(f"the score must have a value but has the status {self.status}: {self.reason}")
        return self.value


class NoScore(NotApplicable):
    """A row has no score, for lack of a field.

    Attributes:
        details: the :class:`JudgedScore` that says so.
    """

    def __init__(self, reason: str, status: str = MISSING_FIELD, details: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.details = JudgedScore(None, status, reason, details=details)


def failed_score(judgement: Judgement) -> JudgedScore:
    """The score of a judgement that failed: no value, its status, and the judge's reply whole where there is one."""
    reply = None if judgement.reply is None else {"reply": judgement.reply.text}
    return JudgedScore(None, str(judgement.status), judgement.error, details=reply)


def mean_of_scored(values: Iterable[float | None]) -> tuple[float, int]:
    """Mean of the values that are there, and their number. None and NaN are left out; without any the mean is NaN.

    Example:
        >>> mean_of_scored([5.0, None, 2.0])
        (3.5, 2)
    """
    scored = scored_values(values)
    return (math.fsum(scored) / len(scored) if scored else math.nan), len(scored)


def scored_values(values: Iterable[float | None]) -> Sequence[float]:
    """The values that are there; None and NaN are none.

    Raises:
        InputError: a value is no number.
    """
    found: list[float] = []
    for value in values:
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise InputError(f"scores must be numbers or None but one is {type(value).__name__}")
        if value is not None and not math.isnan(value):
            found.append(float(value))
    return found
