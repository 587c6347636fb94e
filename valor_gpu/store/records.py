"""What a store keeps of a run: rows, scores, and what people say about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import (
    WRONG,
    check,
    compare_all,
    damage,
    is_right,
    named,
    real,
    real_or_none,
    sealed,
    whole,
)
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_json, unpacked_mapping

LARGEST = 2**63 - 1  # of SQLite's integers
OK = "ok"


def check_count(name: str, value: object, least: int = 0) -> None:
    """Raises unless ``value`` is an int of at least ``least`` that SQLite can hold."""
    check_int(name, value, least)
    if isinstance(value, int) and value > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST} but got {value}")


@dataclass(frozen=True)
class StoredRow:
    """A row of data with what the target answered.

    Args:
        number: of the row, from 1; where the row comes from a file, messages name it so.
        key: by which runs are joined; one row of a run has it.
        inputs: columns and their values, JSON.
        outputs: what the target returned, JSON.
        status: ``"ok"``, or why there is no answer. A row that is ``"ok"`` is final.
        error: the message of what went wrong.

    Example:
        >>> StoredRow(1, "q-1", {"question": "2 + 2?"}, {"answer": "4"}).status
        'ok'
    """

    number: int
    key: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    status: str = OK
    error: str = ""

    def bound(self, run: int) -> tuple[Any, ...]:
        """Returns the row as it is bound to a statement, checked, with its checksum."""
        plain = type(self.number) is int and 1 <= self.number <= LARGEST and self.status != ""
        plain &= type(self.key) is type(self.status) is type(self.error) is str
        if not (plain and type(self.inputs) is type(self.outputs) is dict):  # most rows are spared the checks by name
            self._check(f"row {self.number}")
        inputs = packed_json(f"inputs of row {self.number}", self.inputs)
        outputs = packed_json(f"outputs of row {self.number}", self.outputs) if self.outputs else "{}"
        status, error = OK if self.status == OK else packed(self.status), packed(self.error) if self.error else ""
        return sealed((run, self.number, packed(self.key), inputs, outputs, status, error))

    def _check(self, name: str) -> None:
        check_count("number", self.number, 1)
        for attribute in ("key", "status", "error"):
            check_type(f"{attribute} of {name}", getattr(self, attribute), str)
        if not self.status:
            raise InputError(f"status of {name} must not be empty")
        for attribute in ("inputs", "outputs"):
            check_type(f"{attribute} of {name}", getattr(self, attribute), Mapping)

    @classmethod
    def kept(cls, values: tuple[Any, ...], run: int | None = None) -> StoredRow:
        """Returns the row of the columns in :data:`ROW_COLUMNS` as SQLite gives them.

        Args:
            values: of the columns; with ``run`` also the checksum of the row.
            run: number of the run; None: the values were checked.

        Raises:
            DamageError: they cannot be what was written.
        """
        if run is not None:
            if values[6] is not None:  # what has its checksum is what was written
                checked_row(values, run)
                return _checked_row(values)
            values = values[:6]
        number, key, inputs, outputs, status, error = values
        try:
            texts = (unpacked(status), unpacked(error))
            if type(number) is not int or not texts[0]:
                raise damage("", "its number or its status is missing")
            return cls(number, unpacked(key), unpacked_mapping(inputs), unpacked_mapping(outputs), *texts)
        except DamageError as found:
            raise named(found, _place_of_row(values), run) from found


def checked_rows(found: Sequence[tuple[Any, ...]], run: int) -> Sequence[tuple[Any, ...]]:
    """Returns rows that were read, each with its checksum behind it, which was compared."""
    compare_all(found, run, _place_of_row)
    return found


def whole_rows(found: Sequence[tuple[Any, ...]], run: int) -> Sequence[tuple[Any, ...]]:
    """Returns rows as :func:`checked_rows`; one without a checksum is read as a whole, so that it can be read."""
    for values in checked_rows(found, run):
        if values[-1] is None:
            StoredRow.kept(values, run)
    return found


def rows_of(found: Sequence[tuple[Any, ...]], run: int) -> list[StoredRow]:
    """Returns rows of :data:`CHECKED_ROW`, each compared with its checksum."""
    checked = checked_rows(found, run)
    return [_checked_row(values) if values[-1] is not None else StoredRow.kept(values, run) for values in checked]


def _checked_row(values: tuple[Any, ...]) -> StoredRow:
    """Returns a row whose checksum was compared."""
    number, key, inputs, outputs, status, error, _ = values
    texts = (unpacked(status), unpacked(error))
    return StoredRow(number, unpacked(key), unpacked_json(inputs), unpacked_json(outputs), *texts)


def _place_of_row(values: Sequence[Any]) -> str:
    return f"row {values[0]} of run "


def checked_row(values: tuple[Any, ...], run: int) -> tuple[Any, ...]:
    """Returns the columns of a row without the checksum behind them, which was compared."""
    columns, kept = values[:-1], values[-1]
    if kept is not None and not is_right((run, *columns), kept):
        raise damage(_place_of_row(columns), WRONG, run)
    return columns


ROW_COLUMNS = "number, key, inputs, outputs, status, error"
CHECKED_ROW = f"{ROW_COLUMNS}, checksum"
"""Columns of a row that are read; behind the number of the run they are those that are bound."""


@dataclass(frozen=True)
class StoredScore:
    """What one evaluator says about one row.

    Args:
        row: number of the row.
        evaluator: name of the evaluator.
        repeat: from 0; another one where the same row is judged again.
        value: a finite number, or None where there is none.
        status: ``"ok"`` exactly where there is a value; otherwise why there is none.
        reason: in words, by the judge or by what failed.
        level: a name for the value, such as ``"Low"``.
        details: anything else, JSON: values per turn, the judge's reply.
        usage: tokens, JSON.
        seconds: that it took, at least 0.

    Example:
        >>> StoredScore(1, "gpt_fluency", 0, None, "parse_error", "no number in the reply").value is None
        True
    """

    row: int
    evaluator: str
    repeat: int
    value: float | None
    status: str = OK
    reason: str = ""
    level: str = ""
    details: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    seconds: float | None = None

    def bound(self, run: int) -> tuple[Any, ...]:
        """Returns the score as it is bound to a statement, checked, with its checksum."""
        is_plain, given, more = self._is_plain(), self.value, (self.details, self.usage, self.seconds)
        if is_plain and given is not None and more == (None, None, None):  # most are spared the checks by name
            said = packed(self.reason), packed(self.level)
            return sealed((run, self.row, packed(self.evaluator), self.repeat, given + 0.0, OK, *said, *more))
        name = f"the score of row {self.row} by {self.evaluator!r}"
        if not is_plain:
            self._check(name)
        # SQLite has no NaN, and keeps -0.0 as 0.
        value = None if self.value is None or math.isnan(self.value) else float(self.value) + 0.0
        texts = (packed(self.status), packed(self.reason), packed(self.level))
        details = None if self.details is None else packed_json(f"details of {name}", self.details)
        usage = None if self.usage is None else packed_json(f"usage of {name}", self.usage)
        seconds = None if self.seconds is None else float(self.seconds) + 0.0
        return sealed((run, self.row, packed(self.evaluator), self.repeat, value, *texts, details, usage, seconds))

    def _is_plain(self) -> bool:
        """Whether it is a score with a value, of exactly the types that are stored."""
        return (
            type(self.row) is type(self.repeat) is int
            and 1 <= self.row <= LARGEST
            and 0 <= self.repeat <= LARGEST
            and type(self.value) is float
            and math.isfinite(self.value)
            and type(self.evaluator) is type(self.status) is type(self.reason) is type(self.level) is str
            and self.status == OK
            and self.seconds is None
        )

    def _check(self, name: str) -> None:
        check_count("row", self.row, 1)
        check_count(f"repeat of row {self.row}", self.repeat)
        for attribute in ("evaluator", "status", "reason", "level"):
            check_type(f"{attribute} of the score of row {self.row}", getattr(self, attribute), str)
        if self.seconds is not None:
            check_number(f"seconds of {name}", self.seconds, 0)
        if self.value is not None:
            check_number(f"value of {name}", 0.0 if self.value != self.value else self.value)
        lacking = self.value is None or math.isnan(self.value)
        infinite = self.value is not None and math.isinf(self.value)
        if not self.status or lacking == (self.status == OK) or infinite:
            needed = "a finite value with status 'ok', or None with another status"
            raise InputError(f"{name} must have {needed}, but got {self.value!r} and {self.status!r}")

    @classmethod
    def kept(cls, values: tuple[Any, ...], run: int | None = None) -> StoredScore:
        """Returns the score of the columns in :data:`SCORE_COLUMNS` as SQLite gives them.

        Args:
            values: of the columns; with ``run`` also the checksum of the score.
            run: number of the run; None: the values were checked.

        Raises:
            DamageError: they cannot be what was written.
        """
        if run is not None:
            if values[10] is not None:  # what has its checksum is what was written
                checked_score(values, run)
                return _checked_score(values)
            values = values[:10]
        row, evaluator, repeat, value, status, reason, level, details, usage, seconds = values
        try:
            texts = (unpacked(status), unpacked(reason), unpacked(level))
            more, tokens = (None if kept is None else unpacked_mapping(kept) for kept in (details, usage))
            _check_kept(row, repeat, value, texts[0], seconds)
            return cls(row, unpacked(evaluator), repeat, value, *texts, more, tokens, seconds)
        except DamageError as found:
            raise named(found, _place_of_score(values), run) from found


def _check_kept(row: Any, repeat: Any, value: Any, status: str, seconds: Any) -> None:
    """Raises for numbers of a score that no store keeps."""
    if not (type(row) is type(repeat) is int and (type(value) is float or value is None)):
        raise damage("", "its row, repeat or value is no number")
    if (value is None) == (status == OK) or (value is not None and not math.isfinite(value)):
        raise damage("", f"it has the value {value!r} with the status {status!r}")
    real_or_none(seconds)


def checked_scores(found: Sequence[tuple[Any, ...]], run: int) -> Sequence[tuple[Any, ...]]:
    """Returns scores that were read, each with its checksum behind it, which was compared."""
    compare_all(found, run, _place_of_score)
    return found


def whole_scores(found: Sequence[tuple[Any, ...]], run: int) -> Sequence[tuple[Any, ...]]:
    """Returns scores as :func:`checked_scores`; one without a checksum is read as a whole, so that it can be read."""
    for values in checked_scores(found, run):
        if values[-1] is None:
            StoredScore.kept(values, run)
    return found


def scores_of(found: Sequence[tuple[Any, ...]], run: int) -> list[StoredScore]:
    """Returns scores of :data:`CHECKED_SCORE`, each compared with its checksum."""
    checked = checked_scores(found, run)
    return [_checked_score(values) if values[-1] is not None else StoredScore.kept(values, run) for values in checked]


def _checked_score(values: tuple[Any, ...]) -> StoredScore:
    """Returns a score whose checksum was compared."""
    row, name, repeat, value, status, reason, level, details, usage, seconds, _ = values
    more = None if details is None else unpacked_json(details)
    tokens = None if usage is None else unpacked_json(usage)
    texts = (unpacked(status), unpacked(reason), unpacked(level))
    return StoredScore(row, unpacked(name), repeat, value, *texts, more, tokens, seconds)


def checked_score(values: tuple[Any, ...], run: int) -> tuple[Any, ...]:
    """Returns the columns of a score without the checksum behind them, which was compared."""
    columns, kept = values[:-1], values[-1]
    if kept is not None and not is_right((run, *columns), kept):
        raise damage(_place_of_score(columns), WRONG, run)
    return columns


def _place_of_score(values: Sequence[Any]) -> str:
    name = values[1]
    shown = name if isinstance(name, str) else str(name)
    repeat = f" (repeat {values[2]})" if values[2] else ""
    return f"score of row {values[0]} by {shown!r}{repeat} in run "


SCORE_COLUMNS = "row, evaluator, repeat, value, status, reason, level, details, usage, seconds"
CHECKED_SCORE = f"{SCORE_COLUMNS}, checksum"
"""Columns of a score that are read; behind the number of the run they are those that are bound."""


@dataclass(frozen=True)
class Feedback:
    """What a person says about a row, or about an evaluator's score of it.

    Args:
        row: number of the row.
        evaluator: whose score is meant; empty for the row as a whole.
        author: who says it; each has one word on a score, the last.
        value: the person's own score, finite, or None.
        passed: the person's own verdict, or None.
        note: in words.
        created: seconds since 1970; set by the store.

    Example:
        >>> Feedback(1, "gpt_fluency", value=2, note="hard to read").passed is None
        True
    """

    row: int
    evaluator: str = ""
    author: str = ""
    value: float | None = None
    passed: bool | None = None
    note: str = ""
    created: float = 0.0

    def bound(self, run: int, created: float) -> tuple[Any, ...]:
        """Returns the feedback as it is bound to a statement, checked, with its checksum."""
        check_count("row", self.row, 1)
        for attribute in ("evaluator", "author", "note"):
            check_type(attribute, getattr(self, attribute), str)
        if self.value is not None:
            check_number("value", self.value, -1.7976931348623157e308, 1.7976931348623157e308)
        if self.passed is not None:
            check_type("passed", self.passed, bool)
        value = None if self.value is None else float(self.value) + 0.0
        passed = None if self.passed is None else int(self.passed)
        names = packed(self.evaluator), packed(self.author)
        return sealed((run, self.row, *names, value, passed, packed(self.note), created))

    @classmethod
    def kept(cls, values: tuple[Any, ...], run: int) -> Feedback:
        """Returns the feedback of the columns in :data:`CHECKED_FEEDBACK` as SQLite gives them.

        Raises:
            DamageError: they cannot be what was written.
        """
        *columns, kept = values
        row, evaluator, author, value, passed, note, created = columns
        place = f"feedback on row {row} of run "
        check((run, *columns), kept, place, run)
        try:
            verdict = None if passed is None else bool(whole(passed))
            texts = unpacked(evaluator), unpacked(author)
            return cls(whole(row), *texts, real_or_none(value), verdict, unpacked(note), real(created))
        except DamageError as found:
            raise named(found, place, run) from found


CHECKED_FEEDBACK = "row, evaluator, author, value, passed, note, created, checksum"
"""Columns of feedback that are read; behind the number of the run they are those that are bound."""
