"""Results as text. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from valor_gpu.exports.intervals import interval_lines, interval_note
from valor_gpu.exports.texts import needs_reason, value_text
from valor_gpu.stats.intervals import Intervals


def result_text(
    values: Mapping[str, Any],
    counts: Mapping[str, int],
    signature: str,
    reason: Callable[[str], str | None],
    intervals: Intervals,
) -> str:
    """One line for each number, then counts, signature and the choices of intervals.

    Args:
        values: numbers, arrays and mappings of them.
        counts: those that are 0 are left out, unless all are.
        signature: its text.
        reason: gives why a number does not exist.
        intervals: of the numbers; empty: none were asked for.
    """
    rows = [(name, value_text(value), _note(name, value, reason, intervals)) for name, value in values.items()]
    wide = max((len(name) for name, _, _ in rows), default=0)
    # A list of numbers may be wider than the column: it pushes no other number to the right.
    tall = max((len(text) for _, text, _ in rows if not text.startswith("[")), default=0)
    lines = [f"{name:<{wide}}  {text:>{tall}}  {note}".rstrip() for name, text, note in rows]
    if counts:
        # Counts of what is left out or doubtful are mostly 0; a count that is not shown is 0.
        shown = {name: count for name, count in counts.items() if count} or counts
        lines.append(", ".join(f"{name} {count}" for name, count in shown.items()))
    return "\n".join([*lines, signature, *interval_lines(intervals)])


def _note(name: str, value: Any, reason: Callable[[str], str | None], intervals: Intervals) -> str:
    """Why a number does not exist, and its interval."""
    notes = (needs_reason(value) and reason(name)) or "", interval_note(name, value, intervals)
    return "; ".join(note for note in notes if note)
