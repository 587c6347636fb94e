"""Aligned tables in plain text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from valor_gpu.exports.texts import printable as printable

if TYPE_CHECKING:
    from valor_gpu.result_data import ResultData


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns two spaces apart: the first ``left`` flush left, the others flush right.

    Characters that are not printable, such as newlines and those that steer a terminal, are shown as escapes.

    Example:
        >>> print(table(["class", "AP"], [["cat", "0.500"], ["aeroplane", "-"]]))
        class         AP
        cat        0.500
        aeroplane      -
    """
    from valor_gpu.drawing import width  # here, since numbers alone need no table

    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    sizes = [[width(cell) for cell in line] for line in lines]
    widths = [max(column) for column in zip(*sizes)]
    gaps = [[" " * (wide - size) for wide, size in zip(widths, line)] for line in sizes]
    return "\n".join(_line(cells, spaces, left) for cells, spaces in zip(lines, gaps))


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which it keeps."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _line(cells: Sequence[str], gaps: Sequence[str], left: int) -> str:
    parts = [cell + gap if c < left else gap + cell for c, (cell, gap) in enumerate(zip(cells, gaps))]
    return "  ".join(parts).rstrip()


def number_lines(rows: Sequence[tuple[str, float, str]]) -> str:
    """One line per number: its name, four digits or ``-`` for what does not exist, and a note.

    Example:
        >>> print(number_lines([("accuracy", 0.25, ""), ("F1", float("nan"), "no sample")]))
        accuracy   0.2500
        F1              -  no sample
    """
    wide = max(len(name) for name, _, _ in rows)
    return "\n".join(f"{name:<{wide}}  {shown_number(value):>7}  {note}".rstrip() for name, value, note in rows)


def shown_number(value: float | None) -> str:
    """Four digits, or ``-`` for what does not exist."""
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def plural(count: int, noun: str) -> str:
    """A count and its noun.

    Example:
        >>> plural(1, "image"), plural(5000, "image")
        ('1 image', '5,000 images')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def failure_lines(what: str, reasons: Sequence[str], limit: int = 10) -> Iterator[str]:
    """The first reasons why rows failed, one line each, and how many more there are."""
    yield from (printable(f"{what}: {reason}") for reason in reasons[:limit])
    if len(reasons) > limit:
        yield f"{what}: {plural(len(reasons) - limit, 'more row')}"


def number(value: float) -> str:
    """Three digits, or ``-`` for what does not exist."""
    return "-" if math.isnan(value) else f"{value:.3f}"


def bounded(result: ResultData, name: str, key: str | None = None) -> str:
    """A number of a result, with the ends of its interval or why it has none, where intervals were asked for.

    Args:
        result: the result.
        name: of the number, or of a mapping of numbers.
        key: of the number in the mapping.
    """
    value = result.values[name] if key is None else result.values[name][key]
    interval = result.intervals.get(name if key is None else f"{name}/{key}")
    if interval is None or math.isnan(value):
        return number(value)
    if math.isnan(interval.low):
        return f"{number(value)} ({interval.reason.partition(':')[0]})"
    return f"{number(value)} ({number(interval.low)} to {number(interval.high)})"
