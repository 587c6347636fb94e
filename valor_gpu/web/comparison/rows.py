"""Rows of a comparison on its page: which are shown, what changed most in each, and one open row with all texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.report.rows import row_title, shown_text, whole_text
from valor_gpu.evaluation.results.changed_rows import KINDS, SORTS, Change
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.rows.fields import ANSWER, CONTEXT, GROUND_TRUTH, MESSAGES, QUESTION
from valor_gpu.pages import numbers
from valor_gpu.pages.diff import changed_parts, inline, side
from valor_gpu.pages.texts import cut
from valor_gpu.store import StoredRow
from valor_gpu.web.comparison.background import ComparedRuns

PAGE = 25
_TEXT = 400_000
"""Characters of a text that are shown and compared, about 60,000 words."""
_FIELDS = (QUESTION, CONTEXT, GROUND_TRUTH)
_SCORES = 100

Row = StoredRow | None


@dataclass(frozen=True)
class Asked:
    """Which rows the address asks for.

    Attributes:
        metric: whose changes count; None for any.
        kind: of :data:`~valor_gpu.evaluation.results.changed_rows.KINDS`.
        sort: of :data:`~valor_gpu.evaluation.results.changed_rows.SORTS`.
        letter: of the run whose changes count; empty for any.
        text: that rows hold.
        at: place of the first row of the page among the chosen ones.
        opened: number of the open row in the baseline; 0 for none.
        against: letter of the run with which the texts of the others are compared.
        is_split: whether texts stand side by side.
    """

    metric: str | None = None
    kind: str = "different"
    sort: str = "change"
    letter: str = ""
    text: str = ""
    at: int = 0
    opened: int = 0
    against: str = "A"
    is_split: bool = False

    @classmethod
    def read(cls, query: Mapping[str, str], metrics: Sequence[str], letters: Sequence[str]) -> Asked:
        """What a query says; parts that mean nothing count as not given."""
        plain = "all" if "all" in query else "different"
        return cls(
            query.get("metric") if query.get("metric") in metrics else None,
            query["kind"] if query.get("kind") in KINDS else plain,
            query["sort"] if query.get("sort") in SORTS else "change",
            query["in"] if query.get("in") in letters[1:] else "",
            query.get("q", "").strip(),
            _whole(query.get("at", "")) // PAGE * PAGE,
            _whole(query.get("open", "")),
            query["against"] if query.get("against") in letters else letters[0],
            query.get("view") == "split",
        )


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0


def compared_rows(compared: ComparedRuns, asked: Asked, letters: Sequence[str]) -> dict[str, Any]:
    """What the template shows of the rows.

    Args:
        compared: with its rows.
        asked: which of them.
        letters: of the runs, the baseline first.

    Returns:
        ``lines``, ``total``, ``at``, ``before`` and ``after`` (places of other pages, None without), ``last``,
        ``how`` (a text was looked for) and ``open``: number of the open row, None without.

    Raises:
        InputError: better or worse by a metric that has no better direction.
    """
    counted = [letters.index(asked.letter) - 1] if asked.letter else list(range(len(compared.found)))
    chosen, how = compared.choose(asked.metric, asked.kind, asked.sort, counted, asked.text)
    last = max(len(chosen) - 1, 0) // PAGE * PAGE
    at = min(asked.at, last)
    shown = [int(row) for row in chosen[at : at + PAGE]]
    return {
        "lines": [_line(compared, row, asked, counted, letters) for row in shown],
        "total": len(chosen),
        "at": at,
        "before": at - PAGE if at else None,
        "after": at + PAGE if at < last else None,
        "last": last,
        "how": how,
    }


def _line(
    compared: ComparedRuns, row: int, asked: Asked, counted: Sequence[int], letters: Sequence[str]
) -> dict[str, Any]:
    rows = compared.rows
    assert rows is not None  # the page has chosen some
    stored = _stored(compared, row)
    mappings = _mappings(compared)
    changes = [rows.largest(row, place, asked.metric, asked.kind) for place in range(len(compared.found))]
    sizes = {place: change.size for place in counted if (change := changes[place]) is not None}
    leader = max(sizes, key=lambda place: sizes[place], default=None)
    number = stored[0].number if stored[0] is not None else 0
    is_open = number == asked.opened > 0
    return {
        "number": number,
        "question": "" if stored[0] is None else row_title(stored[0], mappings[0]),
        "answers": ["" if each is None else shown_text(each, ANSWER, of) for each, of in zip(stored, mappings)],
        "cells": [
            {
                "missing": stored[place + 1] is None,
                "change": None if change is None else _change(compared.found[place], change),
                "leads": place == leader,
            }
            for place, change in enumerate(changes)
        ],
        "open": _opened(compared, stored, row, asked, letters) if is_open else None,
    }


def _mappings(compared: ComparedRuns) -> list[Mapping[str, str]]:
    """The data mapping of the baseline and of every run."""
    runs = [compared.found[0].baseline, *(each.run for each in compared.found)]
    return [run.config.get("data_mapping") or {} for run in runs]


def _stored(compared: ComparedRuns, row: int) -> list[Row]:
    """The row in the baseline and in every run, of the first epoch that is stored."""
    rows = compared.rows
    assert rows is not None  # the page has chosen some
    base, question = compared.found[0]._sides[1], int(rows.questions[row])
    found: list[Row] = [base.first_rows([question]).get(question)]
    for each, place in zip(compared.found, rows.places[:, row]):
        of_run = each._sides[0]
        question = int(of_run.questions[place]) if place >= 0 else 0
        found.append(of_run.first_rows([question]).get(question) if question else None)
    return found


def _change(found: Comparison, change: Change) -> dict[str, str]:
    decimals = decimals_in(found, change.metric, (change.run, change.baseline))
    is_comparable = not found.metrics[change.metric].warning
    return {
        "metric": change.metric,
        "between": f"{numbers.number(change.baseline, decimals)} to {numbers.number(change.run, decimals)}",
        "difference": numbers.difference(change.difference, decimals),
        "reading": change.reading if is_comparable else "not comparable",
    }


def decimals_in(found: Comparison, metric: str, values: Sequence[float | None]) -> int:
    """Decimals of the scores of a metric: those of its scale; where it is unknown, three of numbers up to 1."""
    info = found._pairs[metric].info
    low, high = info["low"], info["high"]
    if None in (low, high) and max((abs(value) for value in values if value is not None), default=0.0) <= 1:
        return 3
    return numbers.decimals_of(low, high)


def _opened(
    compared: ComparedRuns, stored: Sequence[Row], row: int, asked: Asked, letters: Sequence[str]
) -> dict[str, Any]:
    """Everything that the page says of one row."""
    runs = [compared.found[0].baseline, *(each.run for each in compared.found)]
    mappings = _mappings(compared)
    base = letters.index(asked.against)
    texts = [_text(row, ANSWER, mapping) or _text(row, MESSAGES, mapping) for row, mapping in zip(stored, mappings)]
    answers = [_answer(texts, stored, place, base, asked.is_split) for place in range(len(runs))]
    if asked.is_split and any(each["parts"] for each in answers):
        del answers[base]  # it stands beside each of the others
    return {
        "key": "" if stored[0] is None else short(stored[0].key),
        "fields": [found for field in _FIELDS if (found := _field(field, stored, mappings, base))],
        "answers": answers,
        "scores": _scores(compared, row),
        "rows": [(letter, run.id, each.number) for letter, run, each in zip(letters, runs, stored) if each is not None],
    }


def _text(row: Row, field: str, mapping: Mapping[str, str]) -> str:
    return "" if row is None else whole_text(row, field, mapping)


def _field(
    field: str, stored: Sequence[Row], mappings: Sequence[Mapping[str, str]], base: int
) -> dict[str, Any] | None:
    """A text that was asked, with what is otherwise in another run; None where no run has it."""
    texts = [_text(row, field, mapping) for row, mapping in zip(stored, mappings)]
    if not any(texts):
        return None
    others = [
        (place, _compared(texts[base], text, False))
        for place, text in enumerate(texts)
        if stored[place] is not None and stored[base] is not None and text != texts[base]
    ]
    return {"name": field.replace("_", " "), **_plain(texts[base]), "others": others}


def _plain(text: str) -> dict[str, Any]:
    shown, left_out = cut(text, _TEXT)
    return {"text": shown, "left_out": left_out}


def _answer(texts: Sequence[str], stored: Sequence[Row], place: int, base: int, is_split: bool) -> dict[str, Any]:
    """The text of a run: as it is in the run that others are compared with, else what differs."""
    found = {"place": place, "missing": stored[place] is None, "same": False, "parts": None, **_plain(texts[place])}
    if place == base or stored[place] is None or stored[base] is None:
        return found
    if texts[place] == texts[base]:
        return {**found, "same": True}
    return {**found, "parts": _compared(texts[base], texts[place], is_split)}


def _compared(old: str, new: str, is_split: bool) -> dict[str, Any]:
    parts = changed_parts(old[:_TEXT], new[:_TEXT])
    shown = {"old": side(parts, "old"), "new": side(parts, "new")} if is_split else {"old": None, "new": inline(parts)}
    return {
        **shown,
        "whole": sum(not each.compared for each in parts),
        "left_out": max(len(old) - _TEXT, len(new) - _TEXT, 0),
    }


def _scores(compared: ComparedRuns, row: int) -> list[dict[str, Any]]:
    """Scores of a row in all runs, with the differences from the baseline."""
    rows = compared.rows
    assert rows is not None  # the page has chosen some
    names = list(dict.fromkeys(name for each in compared.found for name in each.metrics))
    lines = []
    for name in names:
        cells: list[tuple[float, float] | None] = []
        base, decimals = math.nan, 2
        for each, place in zip(compared.found, rows.places[:, row]):
            pair = each._pairs.get(name)
            if pair is None or place < 0:
                cells.append(None)
                continue
            values = float(pair.run[place]), float(pair.baseline[place])
            base = values[1]
            decimals = decimals_in(each, name, values)
            cells.append((values[0], values[0] - values[1]))
        shown = [
            None if cell is None else (numbers.number(cell[0], decimals), numbers.difference(cell[1], decimals))
            for cell in cells
        ]
        if any(cell is not None for cell in cells):
            lines.append({"name": name, "base": numbers.number(base, decimals), "cells": shown})
    return lines[:_SCORES]
