"""Addresses of rows: what forms and old links say, led on to the address that says the same as conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from urllib.parse import urlencode

import numpy as np
from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.store import Run
from valor_gpu.web.conditions import NEEDS_VALUE, TESTS, Condition, Facts, Wanted, whole
from valor_gpu.web.found_rows import PAGE, Selection, select
from valor_gpu.web.render import address
from valor_gpu.web.routes import Ask

SELECTION = ("q", "if", "sort", "status", "level")
"""Parts of an address that say which rows there are, and in which order."""
COLUMNS = 6
"""Evaluators with a column until other ones are chosen."""
_FORM = ("metric", "test", "value")
_OLD = ("m", "op", "x")
_JUMP = ("to", "by")


def leads_on(ask: Ask, run: Run, facts: Facts, limits: Mapping[str, Threshold]) -> Response | None:
    """Leads to the address that has the conditions of a form, of an old link, and the page of a row that is looked for.

    Returns:
        None where the address says so already, or where the row does not match, of which the page speaks.
    """
    query = ask.query
    old = any(name in query for name in (*_OLD, "after"))
    number = whole(query.get("to", ""))
    usual = query.getlist("column") == list(facts)[:COLUMNS] != []  # the form sends its ticks, changed or not
    if not old and number is None and not usual and not any(query.get(name) for name in _FORM):
        return None
    taken = (*_FORM, *_OLD, *_JUMP, "after", *(["column"] if usual else []))
    pairs = [pair for pair in query.multi_items() if pair[1] and pair[0] not in taken]
    added = [*_conditions(query, facts, _FORM, True), *_conditions(query, facts, _OLD, False)]
    if added:  # other rows than those of the list
        pairs = [pair for pair in pairs if pair[0] != "as_of"]
    pairs += [("if", each.text) for each in added]
    if old and not query.get("sort") and not query.get("q"):  # old links of a bound came in the order of its metric
        pairs += [("sort", each.metric) for each in added[-1:] if each.test in NEEDS_VALUE]
    wanted = Wanted.read(QueryParams(pairs), facts)
    anchor = "rows"
    if number is not None or query.get("after"):
        found = select(ask.studio, run, wanted, facts, limits)
        at = _behind(found, wanted, query["after"]) if number is None else _place(found, number, query.get("by", ""))
        if at is None:
            return None
        pairs = [pair for pair in pairs if pair[0] not in ("at", "open")]
        pairs += [("at", str(at if number is None else at // PAGE * PAGE))] if at else []
        anchor = "rows" if number is None else f"r{found.numbers[at]}"
    text = urlencode(pairs)
    return RedirectResponse(f"{ask.request.url.path}{'?' if text else ''}{text}#{anchor}", status_code=303)


def _conditions(query: QueryParams, facts: Facts, names: Sequence[str], strict: bool) -> list[Condition]:
    """Conditions of fields that stand beside each other; those that were not filled in count as not given."""
    columns = [query.getlist(name) for name in names]
    found = []
    for metric, test, value in zip_longest(*columns, fillvalue=""):
        if test not in TESTS or (test in NEEDS_VALUE and not value.strip() and not strict):
            continue
        if strict or metric in facts:
            found.append(Condition.made(metric, test, value, facts))
    return found


def _place(found: Selection, number: int, by: str) -> int | None:
    """Position of a row by its number, or by its place among those that match, from 1."""
    if by != "place":
        return found.place(number)
    return number - 1 if 1 <= number <= len(found.numbers) else None


def _behind(found: Selection, wanted: Wanted, after: str) -> int:
    """Position behind the row that an old link names, by its number or by its score and its number."""
    number = whole(after.rpartition(":")[2])
    if number is None:
        return 0
    place = found.place(number)
    if place is not None:
        return place + 1
    return 0 if wanted.order else int(np.searchsorted(found.numbers, number, "right"))


def of_selection(ask: Ask, path: str, **more: str | None) -> str:
    """Another page's address with the parts that say which rows there are, and ``more``."""
    pairs = [pair for pair in ask.query.multi_items() if pair[0] in SELECTION and pair[1]]
    pairs += [(name, text) for name, text in more.items() if text]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def without(ask: Ask, wanted: Wanted, condition: Condition) -> str:
    """The address of this page without a condition."""
    left = [each.text for each in wanted.conditions if each != condition]
    return address(ask, **{"if": left, "at": None, "open": None})
