"""Checks of answers by rules, without a model. No torch.

A check of a text gives 1 or 0; length, latency and cost give their number, or 1 or 0 where a limit is set.

Example:
    >>> from valor_gpu.evaluation.evaluators.base import evaluator
    >>> evaluator("contains", texts=["Paris", "France"], mode="all").score_rows([{"answer": "Paris, in France"}])
    [Outcome(value=1.0)]
    >>> evaluator("length", unit="words", most=2).score_rows([{"answer": "one two three"}])
    [Outcome(value=0.0, reason='3 words are above 2', details={'words': 3})]
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.evaluation.evaluators.base import (
    INVALID_FIELD,
    TIMEOUT,
    Evaluator,
    Outcome,
    Portion,
    Row,
    evaluator_info,
)
from valor_gpu.evaluation.evaluators.patterns import check_repeats
from valor_gpu.evaluation.evaluators.table import EvaluatorInfo
from valor_gpu.judge.metrics.fields import as_text, not_text

_REASON_CHARACTERS = 500  # of a message that quotes an answer


class RowCheck(Evaluator):
    """Base of checks that look at one row at a time; a subclass implements :meth:`check`.

    Args:
        info: name, fields and scale.
        parameters: what the outcome depends on.
    """

    def __init__(self, info: EvaluatorInfo, **parameters: Any) -> None:
        super().__init__(info, {name: value for name, value in parameters.items() if value is not None})

    @abstractmethod
    def check(self, row: Row) -> Outcome:
        """The outcome of a row that has all required fields."""

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Checks rows one after another."""
        return [self.check(portion.rows[i]) for i in complete]


class _AnswerCheck(RowCheck):
    """Base of checks of the answer's text."""

    def check(self, row: Row) -> Outcome:
        """Checks the answer, which must be a text."""
        answer = as_text(row["answer"])
        if not isinstance(answer, str):
            return Outcome(None, INVALID_FIELD, not_text("answer", answer))
        return self.check_answer(answer, row)

    @abstractmethod
    def check_answer(self, answer: str, row: Row) -> Outcome:
        """The outcome of an answer."""


class Contains(_AnswerCheck):
    """1 where the answer holds the texts, else 0; the reason names those that it lacks.

    Args:
        name: of the evaluator.
        texts: a text or several; None for the row's ground truth, which may be a list.
        mode: ``any`` or ``all`` of several.
        ignore_case: compare in lower case.

    Raises:
        InputError: texts that are none, or another mode.
    """

    def __init__(
        self, name: str, texts: str | Sequence[str] | None = None, mode: str = "any", ignore_case: bool = False
    ) -> None:
        check_choice("mode", mode, ("any", "all"))
        check_type("ignore_case", ignore_case, bool)
        self._texts = None if texts is None else _text_list("texts", texts)
        info = evaluator_info(name)
        super().__init__(info, texts=self._texts, mode=mode, ignore_case=ignore_case)
        if texts is None:
            self.requires = info.requires | {"ground_truth"}
        self._mode, self._ignore_case = mode, ignore_case

    def check_answer(self, answer: str, row: Row) -> Outcome:
        """Looks for the texts."""
        try:
            texts = self._texts or _text_list("ground_truth", row["ground_truth"])
        except InputError as error:
            return Outcome(None, INVALID_FIELD, str(error))
        fold: Callable[[str], str] = str.lower if self._ignore_case else str
        held = fold(answer)
        missing = [text for text in texts if fold(text) not in held]
        found = not missing if self._mode == "all" else len(missing) < len(texts)
        return Outcome(1.0) if found else Outcome(0.0, reason=_cut(f"the answer lacks {', '.join(map(repr, missing))}"))


def _text_list(name: str, texts: object) -> list[str]:
    listed = [texts] if isinstance(texts, (str, int, float)) else texts
    if not isinstance(listed, list | tuple) or not listed:
        raise InputError(f"{name} must be a text or a list of at least one text but got {texts!r}")
    found = [as_text(text) for text in listed]
    for i, text in enumerate(found):
        if not isinstance(text, str):
            raise InputTypeError(not_text(name if listed is not texts else f"{name}[{i}]", text))
    return found


class Regex(_AnswerCheck):
    """1 where a regular expression finds something in the answer, else 0.

    The package ``regex`` looks for it, whose expressions are those of Python's ``re`` and more, and which stops at a
    time limit: an expression that backtracks without end costs its row ``timeout`` seconds and the status ``timeout``.

    Args:
        name: of the evaluator.
        pattern: the expression.
        full: the whole answer must match, not a part of it.
        ignore_case: letters match in either case.
        timeout: seconds for a row.

    Raises:
        InputError: no expression, or a time that is none.
        MissingExtraError: the package ``regex`` is not installed.
    """

    def __init__(
        self, name: str, pattern: str | None = None, full: bool = False, ignore_case: bool = False, timeout: float = 1.0
    ) -> None:
        check_type("pattern", pattern, str)
        check_type("full", full, bool)
        check_type("ignore_case", ignore_case, bool)
        check_number("timeout", timeout, 0.001, 3600.0)
        try:
            import regex
        except ImportError:
            raise MissingExtraError("regex", "eval", "the check of a regular expression") from None
        check_repeats(str(pattern))
        try:
            compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
        except (regex.error, RecursionError) as error:
            raise InputError(f"pattern must be a regular expression but {pattern!r} is none: {error}") from None
        self._find, self._timeout = (compiled.fullmatch if full else compiled.search), float(timeout)
        super().__init__(
            evaluator_info(name), pattern=pattern, full=full, ignore_case=ignore_case, timeout=float(timeout)
        )

    def check_answer(self, answer: str, row: Row) -> Outcome:
        """Looks for the expression, other threads going on meanwhile."""
        try:
            found = self._find(answer, timeout=self._timeout, concurrent=True)
        except TimeoutError:
            return Outcome(None, TIMEOUT, f"the expression needed more than {self._timeout:g} s")
        return Outcome(float(found is not None))


class JsonSchema(_AnswerCheck):
    """1 where the answer is JSON that satisfies a schema, else 0 with what is wrong as the reason.

    The package ``jsonschema-rs`` validates. A reference outside the schema is an error when the check is made: nothing
    is fetched. Patterns of the schema match in linear time. NaN and Infinity are no JSON.

    Args:
        name: of the evaluator.
        schema: a JSON schema; None where any JSON will do.

    Raises:
        InputError: a schema that is none.
        MissingExtraError: a schema is given and the package is not installed.
    """

    def __init__(self, name: str, schema: Mapping[str, Any] | None = None) -> None:
        if schema is not None and not isinstance(schema, Mapping):
            raise InputTypeError(f"schema must be a mapping or None but got {type(schema).__name__}")
        self._validator = None if schema is None else _validator(dict(schema))
        super().__init__(evaluator_info(name), schema=schema)

    def check_answer(self, answer: str, row: Row) -> Outcome:
        """Reads the answer and validates it."""
        try:
            value = json.loads(answer, parse_constant=_no_constant)
        except RecursionError:
            return Outcome(0.0, reason="the answer is nested too deeply to be read")
        except ValueError as error:
            return Outcome(0.0, reason=_cut(f"the answer is no JSON: {error}"))
        if self._validator is None:
            return Outcome(1.0)
        try:
            wrong = next(self._validator.iter_errors(value), None)
        except ValueError as error:  # lone surrogates, more than 255 levels
            return Outcome(None, INVALID_FIELD, _cut(f"the answer is JSON that cannot be validated: {error}"))
        if wrong is None:
            return Outcome(1.0)
        path = "".join(f"[{part!r}]" for part in wrong.instance_path) or "the answer"
        return Outcome(0.0, reason=_cut(f"{path}: {wrong.message}"))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _validator(schema: dict[str, Any]) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise MissingExtraError("jsonschema-rs", "eval", "the check of a JSON schema") from None

    def retrieve(address: str) -> Any:
        raise ValueError(f"{address} lies outside the schema, and nothing is fetched")

    try:
        return jsonschema_rs.validator_for(
            schema, retriever=retrieve, pattern_options=jsonschema_rs.RegexOptions(), validate_formats=True
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InputError(f"schema must be a JSON schema but is none: {error}") from None


class Measure(RowCheck):
    """A number of a row; or 1 where it lies within limits, else 0 with the reason.

    Args:
        info: name, fields and scale without limits.
        unit: name of the number.
        least: smallest allowed, or None.
        most: largest allowed, or None.

    Raises:
        InputError: limits that are no numbers, or out of order.
    """

    def __init__(self, info: EvaluatorInfo, unit: str, least: float | None, most: float | None, **more: Any) -> None:
        for key, limit in (("least", least), ("most", most)):
            if limit is not None:
                check_number(key, limit, 0.0)
        if least is not None and most is not None and least > most:
            raise InputError(f"least must not be above most={most} but is {least}")
        super().__init__(info, least=least, most=most, **more)
        self.unit, self._least, self._most = unit, least, most
        if least is not None or most is not None:
            self.low, self.high, self.higher_is_better = 0.0, 1.0, True

    def check(self, row: Row) -> Outcome:
        """Compares the number with the limits."""
        number = self.measure(row)
        if isinstance(number, Outcome):
            return number
        if self._least is None and self._most is None:
            return Outcome(float(number))
        details = {self.unit: number}
        if self._least is not None and number < self._least:
            return Outcome(0.0, reason=f"{number:g} {self.unit} are below {self._least:g}", details=details)
        if self._most is not None and number > self._most:
            return Outcome(0.0, reason=f"{number:g} {self.unit} are above {self._most:g}", details=details)
        return Outcome(1.0, details=details)

    def measure(self, row: Row) -> float | Outcome:
        """The number that stands in the field of the row, or the outcome of a row without one."""
        (field,) = self.requires
        value = row[field]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            return Outcome(None, INVALID_FIELD, f"{field} must be a number of at least 0 but is {value!r}")
        return value


class Length(Measure):
    """Characters (code points) or words (between white space) of the answer; or 1 where they lie within limits.

    Args:
        name: of the evaluator.
        unit: ``characters`` or ``words``.
        least: smallest allowed number, or None.
        most: largest allowed number, or None.

    Raises:
        InputError: another unit, or limits that are none.
    """

    def __init__(
        self, name: str, unit: str = "characters", least: float | None = None, most: float | None = None
    ) -> None:
        check_choice("unit", unit, ("characters", "words"))
        super().__init__(evaluator_info(name), unit, least, most)
        self.parameters["unit"] = unit

    def measure(self, row: Row) -> float | Outcome:
        """Counts the answer."""
        answer = as_text(row["answer"])
        if not isinstance(answer, str):
            return Outcome(None, INVALID_FIELD, not_text("answer", answer))
        return len(answer) if self.unit == "characters" else len(answer.split())


def _cut(message: str) -> str:
    return message if len(message) <= _REASON_CHARACTERS else message[:_REASON_CHARACTERS] + " ..."


_CLASSES: dict[str, Callable[..., Evaluator]] = {
    "contains": Contains, "regex": Regex, "json_schema": JsonSchema, "length": Length,
}  # fmt: skip


def make(name: str, **parameters: Any) -> Evaluator:
    """The check of that name; latency and cost are numbers that stand in the row."""
    if name in _CLASSES:
        return _CLASSES[name](name, **parameters)
    unit = "seconds" if name == "latency" else "cost"
    return Measure(evaluator_info(name), unit, None, parameters.get("most"))
