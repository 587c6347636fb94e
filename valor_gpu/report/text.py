"""Aligned tables in plain text."""

from __future__ import annotations

from collections.abc import Sequence

from valor_gpu.drawing import width


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns two spaces apart: the first ``left`` flush left, the others flush right.

    Characters that are not printable, such as newlines and those that steer a terminal, are shown as escapes.

    Example:
        >>> print(table(["class", "AP"], [["cat", "0.500"], ["aeroplane", "-"]]))
        class         AP
        cat        0.500
        aeroplane      -
    """
    lines = [[_printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(width(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(_line(cells, widths, left) for cells in lines)


def _printable(cell: str) -> str:
    if cell.isprintable():
        return cell
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cell)


def _line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    gaps = [" " * (wide - width(cell)) for cell, wide in zip(cells, widths)]
    parts = [cell + gap if c < left else gap + cell for c, (cell, gap) in enumerate(zip(cells, gaps))]
    return "  ".join(parts).rstrip()


def plural(count: int, noun: str) -> str:
    """A count and its noun.

    Example:
        >>> plural(1, "image"), plural(5000, "image")
        ('1 image', '5,000 images')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
