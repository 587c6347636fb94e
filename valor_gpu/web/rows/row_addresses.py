"""Addresses of rows: what forms and old links say, led on to the address that says the same as conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from urllib.parse import parse_qsl, urlencode

import numpy as np
from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.store import Run
from valor_gpu.web.render import address
from valor_gpu.web.routes import Ask
from valor_gpu.web.rows.conditions import NEEDS_VALUE, TESTS, Condition, Facts, Wanted, whole
from valor_gpu.web.rows.found_rows import PAGE, Selection, select

SELECTION = ("q", "if", "sort", "status", "level")
"""Parts of an address that say which rows there are, and in which order."""
COLUMNS = 6
"""Evaluators with a column until other ones are chosen."""
ALL = "*"
"""The value of ``column`` for all evaluators, or all metrics."""
NAMED, NAMED_LENGTH = 12, 250
"""Columns that an address names, and characters of their names: each link of a page has the address, so that more of
them are given by their places."""
PLACES = "places:"
"""Begin of the value of ``column`` that gives places."""
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
    given = ask.many("column")
    columns = column_texts(given, list(facts))  # the form sends its ticks, changed or not
    is_short = columns == given
    if not old and number is None and is_short and not any(query.get(name) for name in _FORM):
        return None
    taken = (*_FORM, *_OLD, *_JUMP, "after", *([] if is_short else ["column"]))
    pairs = [pair for pair in query.multi_items() if pair[1] and pair[0] not in taken]
    pairs += [] if is_short else [("column", text) for text in columns]
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


def chosen_columns(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns the evaluators that have a column.

    Args:
        texts: values of ``column``: names, :data:`ALL`, or places such as ``places:1-20,30``; empty for the first ones.
        names: of all evaluators of the run, in their order.

    Example:
        >>> chosen_columns(["places:1-2,4"], ["a", "b", "c", "d"]), chosen_columns(["*"], ["a", "b"])
        (['a', 'b', 'd'], ['a', 'b'])
    """
    if ALL in texts:
        return list(names)
    wanted = set(texts)
    for text in texts:
        if text.startswith(PLACES):
            for part in text.removeprefix(PLACES).split(","):
                first, _, last = part.partition("-")
                start, stop = whole(first), whole(last or first)
                if start and stop:
                    wanted.update(names[start - 1 : stop])
    return [name for name in names if name in wanted] or list(names)[:COLUMNS]


def column_texts(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns values of ``column`` that choose the same evaluators and are short.

    Example:
        >>> names = [f"m{k}" for k in range(40)]
        >>> column_texts(names[:6], names), column_texts(names[1:3], names), column_texts(names, names)
        ([], ['m1', 'm2'], ['*'])
        >>> column_texts([*names[:20], "m30"], names)
        ['places:1-20,31']
    """
    chosen = chosen_columns(texts, names)
    if chosen == list(names)[:COLUMNS]:
        return []
    if ALL not in texts and len(chosen) <= NAMED and sum(map(len, chosen)) <= NAMED_LENGTH:
        return chosen
    if len(chosen) == len(names):
        return [ALL]
    there = set(chosen)
    spans: list[list[int]] = []
    for place, name in enumerate(names, 1):
        if name in there:
            if spans and spans[-1][1] == place - 1:
                spans[-1][1] = place
            else:
                spans.append([place, place])
    return [PLACES + ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in spans)]


def with_named_columns(query: str, names: Sequence[str]) -> str:
    """Returns a query whose columns are names, as views keep them, which are of several runs."""
    pairs = parse_qsl(query)
    texts = [text for name, text in pairs if name == "column"]
    if not any(text.startswith(PLACES) for text in texts):
        return query
    chosen = [("column", name) for name in chosen_columns(texts, names)]
    return urlencode([*(pair for pair in pairs if pair[0] != "column"), *chosen])


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
    return path + "?" + urlencode(pairs, errors="replace") if pairs else path


def without(ask: Ask, wanted: Wanted, condition: Condition) -> str:
    """The address of this page without a condition."""
    left = [each.text for each in wanted.conditions if each != condition]
    return address(ask, **{"if": left, "at": None, "open": None})
