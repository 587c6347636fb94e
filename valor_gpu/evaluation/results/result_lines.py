"""Rows of a result as lines of JSON. Most are put together from the JSON texts of the store, which stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from valor_gpu.evaluation.results.result_rows import ABOUT, Column, result_columns, shown_row
from valor_gpu.store.records import OK
from valor_gpu.store.runs import Run
from valor_gpu.store.texts import Kept, kept_rows
from valor_gpu.store.values import encoded, packed

_ENDINGS = ("", "_score", "_reason", "_status", "_level", "_repeats", "_details")
_APART = re.compile('"(?:turns|counts)": ')  # details that are shown in another place, or not at all
_NOTHING = "{}"  # the JSON of a mapping without keys


def result_lines(run: Run, thresholds: Mapping[str, float | str] | None = None) -> Iterator[str]:
    """Yields :func:`~valor_gpu.evaluation.results.result_rows.result_rows` as strict JSON, a line each with its end.

    Args:
        run: of a store.
        thresholds: instead of those of the run.

    Raises:
        InputError: thresholds for what is no evaluator of the run.
    """
    columns = result_columns(run, thresholds)
    joined = _Joined(columns)
    for row, scores in kept_rows(run):
        yield (joined.line(row, scores) or encoded(shown_row(row, scores, columns))) + "\n"


class _Joined:
    """Lines made of stored texts, for rows that a target did not answer and whose names do not meet.

    The store's JSON is written by the same rules as a line, so that its text can stand in one.

    Args:
        columns: of the run.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = [(each.name, encoded(each.name)[:-1], each) for each in columns]
        keys = [each.name + ending for each in columns for ending in _ENDINGS]
        taken = {*keys, *ABOUT}
        self._possible = len(taken) == len(keys) + len(ABOUT) and not any(
            each.is_severity or isinstance(packed(each.name), bytes) for each in columns
        )
        # Within a text of JSON a quote has a backslash before it, so that a key of the row is found wherever it is.
        self._taken = re.compile(f'"(?:{"|".join(re.escape(encoded(name)[1:-1]) for name in taken)})": ')

    def line(self, row: Kept, scores: Sequence[Kept]) -> str:
        """The line of a row without its end; empty where it has to be made of the values."""
        number, key, inputs, outputs, status, _ = row
        if not self._possible or outputs != _NOTHING or status != OK or inputs == _NOTHING:
            return ""
        if isinstance(inputs, bytes) or isinstance(key, bytes) or self._taken.search(inputs):
            return ""
        cells = self._cells(scores)
        return "" if cells is None else f'{inputs[:-1]}{cells}, "_number": {number}, "_key": {encoded(key)}}}'

    def _cells(self, scores: Sequence[Kept]) -> str | None:
        """The keys of all metrics; None where that takes their values."""
        found = {score[1]: score for score in scores}
        if len(found) < len(scores):
            return None
        parts: list[str] = []
        passed: list[str] = []
        for name, begin, column in self._columns:
            if (score := found.get(name)) is None:
                continue
            if (cell := _cell(score, begin, column.is_judged)) is None:
                return None
            parts.append(cell)
            if column.threshold is not None:
                passed.append(f'{begin}": {"true" if column.threshold.passes(score[3]) else "false"}')
        if passed:
            parts.append(f', "passed": {{{", ".join(passed)}}}')
        return "".join(parts)


def _cell(score: Kept, begin: str, is_judged: bool) -> str | None:
    """The keys of one metric, behind others; None where that takes the values of the score.

    Args:
        score: of the row, the only one of its evaluator.
        begin: the name of the metric as JSON, without the quote at its end.
        is_judged: a reason is written even where it is empty.
    """
    _, _, _, value, _, reason, level, details, _, _ = score
    if value is None or not isinstance(reason, str) or not isinstance(level, str) or isinstance(details, bytes):
        return None
    found = f', {begin}": {value + 0.0!r}'  # the row has the mean of its repeats, which is never -0.0
    if reason or is_judged:
        found += f', {begin}_reason": {encoded(reason)}'
    if level:
        found += f', {begin}_level": {encoded(level)}'
    if details is None or details == _NOTHING:
        return found
    return None if _APART.search(details) else f'{found}, {begin}_details": {details}'
