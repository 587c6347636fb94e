"""Thresholds: which rows pass. Scores are judged once; a threshold may be changed as often as one likes.

Example:
    >>> found = read_thresholds({"f1_score": 0.5}, [{"name": "f1_score", "kind": "text", "higher_is_better": True}])
    >>> found["f1_score"].passes([0.5, 0.4]).tolist()
    [True, False]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.checks import check_number, near_names
from valor_gpu.errors import InputError
from valor_gpu.judge.metrics.severity import LEVELS

DEFAULT_LEVEL = "Medium"
_LARGEST = 1.7976931348623157e308


@dataclass(frozen=True)
class Threshold:
    """What a value must reach.

    Attributes:
        given: the number, or the name of a level.
        limit: as a number.
        direction: ``>=`` where higher values are better, ``<=`` where lower ones are, ``<`` for severities: one that
            reaches the threshold is a defect.
    """

    given: float | str
    limit: float
    direction: str

    def passes(self, values: ArrayLike) -> NDArray[np.bool_]:
        """Whether each value passes; NaN does not."""
        numbers = np.asarray(values, np.float64)
        compare = {">=": np.greater_equal, "<=": np.less_equal, "<": np.less}[self.direction]
        found: NDArray[np.bool_] = compare(numbers, self.limit)
        return found

    def __str__(self) -> str:
        return f"{self.direction} {self.given if isinstance(self.given, str) else f'{self.given:g}'}"


def read_thresholds(
    thresholds: Mapping[str, float | str] | None, evaluators: Sequence[Mapping[str, Any]]
) -> dict[str, Threshold]:
    """Returns the threshold of each evaluator that has one.

    Args:
        thresholds: name of the evaluator to a number, or to a level for severities (``Very low``, ``Low``, ``Medium``,
            ``High``; a number for them is the least severity that is a defect). Severities that are not named have
            ``Medium``.
        evaluators: as in ``run.config["evaluators"]``: ``name``, ``kind``, ``higher_is_better``.

    Raises:
        InputError: an evaluator or level that is not there, no finite number, or an evaluator of which neither higher
            nor lower values are better.
    """
    given = dict(thresholds or {})
    known = {each["name"]: each for each in evaluators}
    for name in given:
        if name not in known:
            raise InputError(
                f"thresholds must name evaluators of the run but {name!r} is none{near_names(name, known)}"
            )
    severities = {name: DEFAULT_LEVEL for name, each in known.items() if each.get("kind") == "safety"}
    return {name: _threshold(known[name], value) for name, value in {**severities, **given}.items()}


def _threshold(evaluator: Mapping[str, Any], given: Any) -> Threshold:
    name = f"threshold of {evaluator['name']}"
    is_severity = evaluator.get("kind") == "safety"
    if isinstance(given, str):
        level = next((level for level in LEVELS if level.casefold() == given.casefold()), None)
        if not is_severity:
            raise InputError(f"{name} must be a number but got {given!r}: levels are for severities")
        if level is None:
            raise InputError(f"{name} must be one of {', '.join(LEVELS)} or a number but got {given!r}")
        return Threshold(level, float(LEVELS[level]), "<")
    check_number(name, given, -_LARGEST, _LARGEST)
    if is_severity:
        return Threshold(float(given), float(given), "<")
    if evaluator.get("higher_is_better") is None:
        raise InputError(f"{name} has no direction: neither higher nor lower values are better")
    return Threshold(float(given), float(given), ">=" if evaluator["higher_is_better"] else "<=")
