"""Evaluators: what scores a portion of rows. No torch.

A row is a mapping from canonical names of fields (``answer``, ``ground_truth``, ...) to their values.

Example:
    >>> from valor_gpu.evaluation.evaluators.base import evaluator
    >>> same = evaluator("exact_match")
    >>> same.score_rows([{"answer": "Paris", "ground_truth": "Paris"}, {"answer": "Paris"}])
    [Outcome(value=1.0), Outcome(value=None, status='missing_field', reason='missing ground_truth')]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from valor_gpu.checks import check_type, near_names
from valor_gpu.digests import content_hash
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.table import EVALUATORS, EvaluatorInfo
from valor_gpu.judge.metrics.fields import MISSING_FIELD

__all__ = [
    "EVALUATORS",
    "EVALUATOR_ERROR",
    "INVALID_FIELD",
    "MISSING_FIELD",
    "OK",
    "TIMEOUT",
    "UNDEFINED",
    "Evaluator",
    "EvaluatorInfo",
    "Outcome",
    "Portion",
    "Row",
    "content_hash",
    "evaluator",
    "evaluator_info",
    "missing_fields",
    "number_outcome",
    "score_portion",
]

T = TypeVar("T")
Row = Mapping[str, Any]

OK = "ok"
INVALID_FIELD = "invalid_field"  # a field holds something that the evaluator cannot read
UNDEFINED = "undefined"  # the metric has no number for such a row
TIMEOUT = "timeout"
EVALUATOR_ERROR = "evaluator_error"  # the evaluator's own code raised, or returned no number


class Outcome(NamedTuple):
    """What an evaluator says of a row.

    Attributes:
        value: a finite number, or None where there is none; then ``status`` and ``reason`` say why.
        status: ``ok``, ``missing_field``, ``invalid_field``, ``undefined``, ``timeout``, ``evaluator_error``, or a
            status of a judge.
        reason: of a failure, or the judge's of its score.
        level: name of the level that the value lies in, for scales with levels.
        details: more of the row as JSON: further numbers, values per turn, counts of a corpus metric.
        parts: of an evaluator that returned numbers under keys of its own: key to the outcome of that number. One is
            the value as well; several have none in common, and are metrics of their own in a run.
    """

    value: float | None
    status: str = OK
    reason: str = ""
    level: str = ""
    details: Mapping[str, Any] | None = None
    parts: Mapping[str, Outcome] | None = None

    def __repr__(self) -> str:
        defaults = type(self)._field_defaults
        parts = (f"{k}={v!r}" for k, v in zip(self._fields, self) if k == "value" or v != defaults[k])
        return f"Outcome({', '.join(parts)})"


class Portion:
    """Rows that several evaluators score, and what those evaluators share, such as the words of the texts.

    Args:
        rows: up to about 1,000 of them; each a mapping from names of fields to values.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._shared: dict[Hashable, Any] = {}

    def share(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for each key."""
        if key not in self._shared:
            self._shared[key] = make()
        value: T = self._shared[key]
        return value


class Evaluator(ABC):
    """Base of what gives each row a number.

    A subclass implements :meth:`score_complete`; rows that lack a required field never reach it.

    Attributes:
        name: of the metric.
        requires: canonical names of the fields that a row must have; a value of None counts as none.
        low: least value.
        high: largest value; None without a bound.
        higher_is_better: None where neither is.
        pooled: counts of rows are added up before anything is divided: there is no mean, see :meth:`pool`.
        version: hash of name, code and parameters; scores of one version can be compared.

    Args:
        info: name, fields and scale.
        parameters: what the numbers depend on; JSON.
    """

    pooled = False
    code = "1"
    """Version of the definition, raised when numbers change."""

    def __init__(self, info: EvaluatorInfo, parameters: Mapping[str, Any]) -> None:
        self.info, self.parameters = info, dict(parameters)
        self.name, self.requires = info.name, info.requires
        self.low, self.high, self.higher_is_better = info.low, info.high, info.higher_is_better

    @property
    def version(self) -> str:
        """16 hexadecimal digits."""
        return content_hash([self.name, self.code, self.parameters])

    @property
    def summary_name(self) -> str:
        """Name of its number in a summary: ``mean_<name>``, and the name alone where counts are pooled."""
        return self.name if self.pooled else f"mean_{self.name}"

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({self.name!r}{given})"

    def score_rows(self, rows: Sequence[Row]) -> list[Outcome]:
        """Scores rows; one that cannot be scored has a status and a reason, and never stops the others."""
        return self.score_portion(Portion(rows))

    def score_portion(self, portion: Portion) -> list[Outcome]:
        """Scores the rows of a portion, sharing what other evaluators of the portion have made."""
        rows = portion.rows
        lacking = portion.share(
            ("lacking", self.requires), lambda: [missing_fields(row, self.requires) for row in rows]
        )
        complete = [i for i, missing in enumerate(lacking) if not missing]
        scored = _outcomes(self.name, self.score_complete(portion, complete), len(complete)) if complete else []
        if len(complete) == len(rows):
            return scored
        found = iter(scored)
        return [
            Outcome(None, MISSING_FIELD, f"missing {', '.join(missing)}") if missing else next(found)
            for missing in lacking
        ]

    @abstractmethod
    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Scores the rows of ``portion`` at the indices ``complete``, in their order; they have all required fields."""

    def pool(self, counts: Sequence[int]) -> Outcome:
        """The number of a corpus, for pooled evaluators.

        Args:
            counts: the sum over all rows of ``details["counts"]``, place by place.

        Raises:
            InputError: the evaluator does not pool.
        """
        raise InputError(f"evaluator {self.name!r} has a mean over rows and pools no counts")


def _outcomes(name: str, returned: Any, n: int) -> list[Outcome]:
    """What ``score_complete`` returned. One outcome too few would leave the scores of the last row out unseen.

    Raises:
        InputTypeError: it is no list of as many outcomes as rows.
    """
    found = list(returned) if isinstance(returned, Iterable) else []
    if len(found) != n or not all(isinstance(each, Outcome) for each in found):
        what = type(returned).__name__ if not found else f"{len(found)} of {type(found[0]).__name__}"
        raise InputTypeError(f"evaluator {name!r} must return an Outcome for each of {n} rows but returned {what}")
    return found


def missing_fields(row: Row, required: Iterable[str]) -> list[str]:
    """Required fields that a row lacks, sorted; a value of None is none."""
    lacking = [field for field in required if row.get(field) is None]
    return sorted(lacking) if lacking else lacking


def number_outcome(value: float, **more: Any) -> Outcome:
    """An outcome of a finite value; NaN and infinity, which are no numbers for JSON, become None with a reason."""
    if math.isfinite(value):
        return Outcome(float(value), **more)
    return Outcome(None, UNDEFINED, f"the evaluator's value is {value}", **more)


def score_portion(evaluators: Sequence[Evaluator], rows: Sequence[Row]) -> dict[str, list[Outcome]]:
    """Scores rows by several evaluators, which share their work: texts are split once for all that split alike.

    An evaluator that raises, which is a defect of its code, scores the rows one by one: the error is the outcome of
    those alone that it comes of.

    Args:
        evaluators: of different names.
        rows: a portion, up to about 1,000.

    Returns:
        Name of the evaluator to the outcomes of the rows.

    Example:
        >>> from valor_gpu.evaluation.evaluators.base import evaluator, score_portion
        >>> rows = [{"answer": "a red cat", "ground_truth": "a cat"}]
        >>> score_portion([evaluator("rouge1"), evaluator("rouge2")], rows)["rouge1"]
        [Outcome(value=0.8, details={'precision': 0.6666666666666666, 'recall': 1.0})]
    """
    portion = Portion(rows)
    return {each.name: _guarded(each, portion) for each in evaluators}


def _guarded(each: Evaluator, portion: Portion) -> list[Outcome]:
    try:
        return each.score_portion(portion)
    except Exception as error:
        if len(portion.rows) == 1:
            from valor_gpu.judge.protocol import describe  # loads asyncio, 20 ms that few errors are worth

            return [Outcome(None, EVALUATOR_ERROR, describe(error))]
    return [outcome for row in portion.rows for outcome in _guarded(each, Portion([row]))]


def evaluator_info(name: str) -> EvaluatorInfo:
    """The row of the table of evaluators.

    Raises:
        InputError: no evaluator has that name; the message has the nearest names.
    """
    check_type("evaluator", name, str)
    if name not in EVALUATORS:
        hint = near_names(name, EVALUATORS) or f"; there are {', '.join(EVALUATORS)}"
        raise InputError(f"evaluator must be the name of one but got {name!r}{hint}")
    return EVALUATORS[name]


def evaluator(name: str, **parameters: Any) -> Any:
    """Makes an evaluator of the table.

    Args:
        name: of the evaluator, a key of ``EVALUATORS``.
        parameters: of the evaluator; ``EVALUATORS[name].parameters`` has them.

    Returns:
        An :class:`Evaluator`; for judged metrics what the judge's engine takes.

    Raises:
        InputError: an unknown name or parameter, or one that cannot be.

    Example:
        >>> evaluator("exact_match", ignore_case=True)
        ExactMatch('exact_match', ignore_case=True)
    """
    info = evaluator_info(name)
    unknown = sorted(set(parameters) - set(info.parameters))
    if unknown:
        raise InputError(f"evaluator {name!r} must get parameters of {sorted(info.parameters)} but got {unknown[0]!r}")
    module, factory = info.home.split(":")
    return getattr(import_module(module), factory)(name, **parameters)
