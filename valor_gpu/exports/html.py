"""Results as HTML for notebooks: tables with bars, in the colours of the pages, dark and light. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from valor_gpu.exports.frames import Entry
from valor_gpu.exports.intervals import bounds_text, exists, interval_lines, interval_note
from valor_gpu.exports.table_text import cell_text, is_number
from valor_gpu.exports.texts import is_array, is_scalar, needs_reason, value_text
from valor_gpu.pages.charts import Estimate, rate_bar
from valor_gpu.pages.sheets import stylesheet
from valor_gpu.pages.texts import Html, escape, visible
from valor_gpu.stats.intervals import Interval, Intervals

_MOST_ROWS = 100
"""Rows that are shown of a mapping, such as classes; what is left out is counted."""
_MOST_SIDE = 16
"""Rows and columns of an array whose numbers are shown as a table, such as a confusion matrix."""
_DARKEST = 45  # percent: text on it keeps a contrast of 4.5
_BAR = 120  # px
# Rules nest in one class, so that they change nothing else in a notebook.
_RULES = """
background: var(--surface); color: var(--ink); font: 400 var(--t1)/1.45 var(--sans); padding: var(--s3) var(--s4);
border: 1px solid var(--line); border-radius: 6px; font-variant-numeric: tabular-nums; overflow-x: auto;
table { border-collapse: collapse; margin: 0 0 var(--s2); color: inherit; }
tr, tr:nth-child(odd), tr:hover { background: none; }
th, td { padding: 2px var(--s3) 2px 0; text-align: left; vertical-align: middle; border: 0; font-weight: 400; }
td.n { text-align: right; }
td.n, .nw, td .faint { white-space: nowrap; }
table table { margin: 0; }
table table td { padding: 1px var(--s2); }
td.why, p { color: var(--ink-2); }
p { margin: var(--s1) 0; overflow-wrap: anywhere; }
summary { cursor: pointer; }
"""


def result_html(entries: Iterable[Entry], counts: Mapping[str, int], signature: str, intervals: Intervals) -> str:
    """A result as one element, with its style; every text of the user is escaped, and there is no script.

    Args:
        entries: numbers and arrays. Those with a key are folded, by their name.
        counts: those that are 0 are left out, unless all are.
        signature: its text.
        intervals: of the numbers; each is drawn on the bar of its number.
    """
    single, folded = [], []
    for (name, nested), group in groupby(entries, lambda entry: (entry[0], entry[1] is not None)):
        if nested:
            folded.append(_folded(name, list(group), intervals))
        else:
            single += [_row(name, name, value, reason, intervals) for _, _, value, reason in group]
    shown = {name: count for name, count in counts.items() if count} or counts
    lines = [", ".join(f"{name} {count}" for name, count in shown.items()), signature]
    lines += interval_lines(intervals)
    notes = "".join(f"<p>{_text(line)}</p>" for line in lines if line)
    return notebook_element(f"{_table(single)}{''.join(folded)}{notes}")


def notebook_element(markup: str) -> str:
    """Markup as one element with its style, which changes nothing else in a notebook."""
    return f'<div class="valor-gpu"><style>{_style()}</style>{markup}</div>'


def table_html(columns: Mapping[str, Sequence[Any]], rows: int, notes: Sequence[str]) -> str:
    """The first rows of a table as one element, with its style; see :func:`valor_gpu.exports.table_text.table_text`."""
    heads = "".join(f'<th scope="col">{_text(name)}</th>' for name in columns)
    lines = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in zip(*columns.values())]
    left = rows - len(lines)
    notes = [*([f"and {left:,} more rows"] if left else []), *notes]
    shown = "".join(f"<p>{_text(note)}</p>" for note in notes)
    return notebook_element(f"<table><tr>{heads}</tr>{''.join(lines)}</table>{shown}")


def _cell(value: Any) -> str:
    kind = ' class="n"' if is_number(value) else ""
    return f"<td{kind}>{_text(cell_text(value))}</td>"


def _style() -> str:
    tokens = stylesheet("tokens").replace(":root", ".valor-gpu")
    return f"{tokens}.valor-gpu {{{_RULES}{stylesheet('charts')}}}"


def _folded(name: str, entries: list[Entry], intervals: Intervals) -> str:
    shown = entries[:_MOST_ROWS]
    rows = [_row(str(key), f"{name}/{key}", value, reason, intervals) for _, key, value, reason in shown]
    left = len(entries) - len(rows)
    more = f"<p>and {left} more, which to_pandas() has</p>" if left else ""
    return f"<details><summary>{_text(name)}: {len(entries)} values</summary>{_table(rows)}{more}</details>"


def _table(rows: list[str]) -> str:
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _row(name: str, whole: str, value: Any, reason: str | None, intervals: Intervals) -> str:
    """A row with its name; ``whole`` is the name of the interval."""
    cells = "".join(_cells(name, value, intervals.get(whole)))
    why = (reason or "") if needs_reason(value) or ">nan<" in cells else ""
    notes = "; ".join(note for note in (why, interval_note(whole, value, intervals)) if note)
    return f'<tr><th scope="row">{_text(name)}</th>{cells}<td class="why">{_text(notes)}</td></tr>'


def _cells(name: str, value: Any, interval: Interval | None) -> Iterator[str]:
    """The number, and its bar where it is a fraction; a long value takes both cells."""
    text = value_text(value)
    if is_array(value) and len(value.shape) == 2 and min(value.shape) > 0 and max(value.shape) <= _MOST_SIDE:
        yield f'<td colspan="2">{_matrix(value.tolist())}</td>'
        return
    if not is_scalar(value):
        yield f'<td colspan="2">{_text(text)}</td>'
        return
    yield f'<td class="n">{_text(text)}</td>'
    number = value if isinstance(value, (bool, int, float)) else value.item()
    is_fraction = isinstance(number, float) and math.isfinite(number) and 0 <= number <= 1
    ends: tuple[float, ...] = ()
    label = f"{visible(name)} {text}"
    if interval is not None and exists(interval):
        ends = (max(interval.low, 0.0), min(interval.high, 1.0))  # the bar ends there
        label += f" {bounds_text(interval)}"
    yield f"<td>{rate_bar(Estimate(number, *ends), label, _BAR) if is_fraction else ''}</td>"


def _matrix(rows: list[list[Any]]) -> str:
    """Numbers on a ground that is the stronger the larger they are."""
    sizes = [abs(number) for row in rows for number in row if math.isfinite(number)]
    unit = _DARKEST / max(sizes) if any(sizes) else 0.0
    counts = all(size == int(size) for size in sizes)

    def cell(number: float) -> str:
        share = unit * abs(number) if math.isfinite(number) else 0.0
        ground = f"background: color-mix(in srgb, var(--mark) {share:.3g}%, transparent)"
        text = str(int(number)) if counts and math.isfinite(number) else value_text(number)
        return f'<td class="n" style="{ground}">{_text(text)}</td>'

    return _table([f"<tr>{''.join(map(cell, row))}</tr>" for row in rows])


def _text(text: str) -> Html:
    return escape(visible(text))
