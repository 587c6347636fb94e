"""Decisions and numbers as Markdown of GitHub, for summaries of jobs and comments on pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from valor_gpu.gates.decisions import Decision

LIMIT = 1_000_000
"""Bytes of a summary; GitHub takes 1 MiB for all summaries of a step."""

_MARKS = re.compile(r"[\\`*~\[\]|<>&!]|(?<![^\W_])_|_(?![^\W_])|:(?=//|\w+:)|(?<=www)\.", re.IGNORECASE)
_MARKS_AND_LINKS = re.compile(rf"{_MARKS.pattern}|[@#]", re.IGNORECASE)


def markdown_text(text: str) -> str:
    """Returns a text that GitHub's Markdown shows as it is, on one line, in a cell too.

    Characters that are not printable become escapes. Marks become entities, which GitHub never takes as marks.
    ``@`` and ``#`` get a space of no width after them, without which GitHub would notify people and link issues.

    Example:
        >>> print(markdown_text("a|b <img> @me"))
        a&#124;b &#60;img&#62; @&#8203;me
    """
    return _MARKS_AND_LINKS.sub(_shown_as_it_is, _printable(text))


def markdown_code(text: str) -> str:
    """Returns a text in the font of code, in which GitHub links nothing; for names.

    Example:
        >>> print(markdown_code("map_per_class/salt @home"))
        <code>map_per_class/salt @home</code>
    """
    return f"<code>{_MARKS.sub(_shown_as_it_is, _printable(text))}</code>" if text else ""


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _shown_as_it_is(found: re.Match[str]) -> str:
    return f"{found[0]}&#8203;" if found[0] in "@#" else f"&#{ord(found[0])};"


def verdict(decisions: Sequence[Decision]) -> str:
    """Returns the first line of a summary: whether a gate failed, and which.

    Example:
        >>> from valor_gpu.gates import decide
        >>> verdict(decide({"map": 0.3}, ["map < 0.2", "map < 0.4"], str, fail_if=True))
        '❌ 1 of 2 gates failed'
    """
    if not decisions:
        return "no gate was asked for"
    failed = sum(each.failed for each in decisions)
    gates = f"{len(decisions):,} gate{'' if len(decisions) == 1 else 's'}"
    return f"❌ {failed:,} of {gates} failed" if failed else f"✅ {gates} passed"


def markdown_summary(
    title: str,
    decisions: Sequence[Decision],
    header: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
    notes: Sequence[str] = (),
    *,
    noun: str = "rows",
    limit: int = LIMIT,
) -> str:
    """Returns a summary: the verdict first, the gates, a table of numbers, and notes.

    Args:
        title: of the summary.
        decisions: of the gates.
        header: names of the columns of the table.
        rows: texts of its cells; the first of a row is a name.
        notes: one line each.
        noun: of the rows in the plural, for the line that says how many were left out.
        limit: bytes of UTF-8 that the summary has at most. Rows that do not fit are left out, and a line says how many.

    Example:
        >>> print(markdown_summary("compare", [], ["name", "difference"], [["map", "+0.01"]]))
        ### compare: no gate was asked for
        <BLANKLINE>
        | name | difference |
        | --- | ---: |
        | <code>map</code> | +0.01 |
        <BLANKLINE>
    """
    head = [f"### {markdown_text(title)}: {verdict(decisions)}", ""]
    if decisions:
        head += ["| gate | found |", "| --- | --- |", *map(_gate_line, decisions), ""]
    tail = [f"- {markdown_text(note)}" for note in notes]
    tail += [""] if notes else []
    if header:
        head += [f"| {' | '.join(map(markdown_text, header))} |", "| --- |" + " ---: |" * (len(header) - 1)]
    left = limit - sum(len(f"{line}\n".encode()) for line in [*head, *tail])
    return "\n".join([*head, *_fitting(rows, left, noun), *([""] if rows else []), *tail])


def _gate_line(decision: Decision) -> str:
    mark = "❌" if decision.failed else "✅"
    return f"| {mark} {markdown_code(str(decision.gate))} | {markdown_text(decision.found)} |"


def _line(cells: Sequence[str]) -> str:
    name, *others = cells
    return f"| {' | '.join([markdown_code(name), *map(markdown_text, others)])} |"


def _fitting(rows: Sequence[Sequence[str]], left: int, noun: str) -> Iterator[str]:
    """Lines of the rows that fit, and what is said of the others."""
    lines = [_line(row) for row in rows]
    sizes = [len(f"{line}\n".encode()) for line in lines]
    if sum(sizes) <= left:
        yield from lines
        return
    left -= len(f"\nand {len(lines):,} more {noun}\n".encode())
    for number, (line, size) in enumerate(zip(lines, sizes)):
        left -= size
        if left < 0:
            yield ""
            yield f"and {len(lines) - number:,} more {noun}"
            return
        yield line
