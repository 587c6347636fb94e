"""Forms in which a person says what they think of a row: what they show, and how they are read."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short, short_name
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.pages import numbers
from valor_gpu.store import Feedback, Run
from valor_gpu.store.opinions import withdraw
from valor_gpu.web.routes import Ask
from valor_gpu.web.rows.run_rows import author
from valor_gpu.web.security import looks_like_key
from valor_gpu.web.typed import typed_number

NOTE = 4000
"""Characters of a note."""
MOST_STEPS = 11
"""Values of a scale that a form offers as radio buttons; longer scales take a number."""
_VERDICTS = {"1": True, "0": False}
_FRESH = 10.0
"""Seconds in which the page after a form says what the form did."""
WHOLE, WHOLE_ROW = "-", "the row as a whole"
"""How an address and a form name the row, where no evaluator is meant."""


def steps_of(low: float | None, high: float | None) -> list[int]:
    """The whole values of a scale, where it has 3 to 11 of them; a scale from 0 to 1 may have any value between.

    Example:
        >>> steps_of(1, 5), steps_of(0, 1), steps_of(0, 100), steps_of(None, 5)
        ([1, 2, 3, 4, 5], [], [], [])
    """
    if low is None or high is None or low != int(low) or high != int(high) or not 2 <= high - low < MOST_STEPS:
        return []
    return list(range(int(low), int(high) + 1))


def form_of(infos: Iterable[Mapping[str, Any]], name: str, said: Iterable[Feedback]) -> dict[str, Any]:
    """What the form of one evaluator shows.

    Args:
        infos: of the evaluators of the run.
        name: of the evaluator; empty for the row as a whole.
        said: of the row.
    """
    info: Mapping[str, Any] = next((each for each in infos if each["name"] == name), {})
    low, high, me = info.get("low"), info.get("high"), author()
    mine = next((each for each in said if (each.evaluator, each.author) == (name, me)), None)
    bounds = "" if low is None or high is None else f"from {low:g} to {high:g}"
    return {
        "evaluator": name,
        "words": short_name(name) or WHOLE_ROW,
        "steps": steps_of(low, high),
        "bounds": bounds,
        "mine": mine,
        "value": "" if mine is None or mine.value is None else repr(mine.value).removesuffix(".0"),
        "kept": "" if mine is None else repr(mine.created),
        "author": me,
    }


def opinion_parts(ask: Ask, infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the template of opinions needs beside the row: evaluators to choose from, and a form for each row."""
    names = [str(each["name"]) for each in infos]
    asked = ask.query.get("of")
    chosen = asked if asked in names else "" if asked == WHOLE else next(iter(names), "")
    return {
        "of": chosen,
        "of_choices": [*((name, short_name(name)) for name in names), ("", WHOLE_ROW)],
        "opinion_form": lambda said: form_of(infos, chosen, said),
        "just_said": lambda number: just_said(ask, number),
        "author": author(),
    }


def keep_opinion(ask: Ask, run: Run, tell_at: int | None = None) -> Feedback | None:
    """Keeps what a form says of a row, or takes it back.

    A part that the form leaves empty stays as it was; one that the form named as ``shown`` is taken away when it comes
    empty. What another page said meanwhile is replaced, and the next page says so.

    Args:
        ask: with the form.
        run: of the row.
        tell_at: the row at which the next page says so; None for the row itself.

    Returns:
        What the store has now; None where it was taken back.

    Raises:
        InputError: nothing was said, or something that cannot be kept.
    """
    number = ask.field("row")
    if not number.isdecimal() or len(number) > 15:
        raise InputError(f"row must be the number of a row but is {number[:100]!r}")
    name, row, me = ask.field("evaluator"), int(number), author()
    before = next((each for each in run.feedback(row, row) if (each.evaluator, each.author) == (name, me)), None)
    said = None if ask.field("do") == "delete" else _read(ask, run, Feedback(row, name, me), before)
    if said is not None:
        run.add_feedback(said)
    else:
        withdraw(run, row, name, me)
    _tell(ask, run, row if tell_at is None else tell_at, said, before)
    return said


def _read(ask: Ask, run: Run, said: Feedback, before: Feedback | None) -> Feedback | None:
    """What a form says, with what its author said before; None where nothing is left of it."""
    note = ask.field("note")
    if looks_like_key(note):
        raise InputError("the note holds what looks like a key of a service, so it was not kept")
    if len(note) > NOTE:
        raise InputError(f"a note may have {NOTE:,} characters but has {len(note):,}; nothing was kept")
    value, passed = _score(ask.field("value"), _scale(run, said.evaluator)), _VERDICTS.get(ask.field("passed"))
    shown = {*ask.fields("shown"), *ask.fields("clear")}
    said = _with_before(replace(said, value=value, passed=passed, note=note), before, shown)
    if said.value is not None or said.passed is not None or said.note:
        return said
    if before is None:
        raise InputError("give a score, a verdict or a note; nothing was kept")
    return None


def _with_before(said: Feedback, before: Feedback | None, shown: set[str]) -> Feedback:
    """Feedback with what the same person said before, where the form leaves a part empty that it did not show."""
    if before is None:
        return said
    value = before.value if said.value is None and "value" not in shown else said.value
    passed = before.passed if said.passed is None and "passed" not in shown else said.passed
    note = before.note if not said.note and "note" not in shown else said.note
    return replace(said, value=value, passed=passed, note=note)


def _tell(ask: Ask, run: Run, row: int, said: Feedback | None, before: Feedback | None) -> None:
    """Notes what the page after a form says, once."""
    words = "Taken back." if said is None else "Saved."
    seen = ask.field("kept", "unknown")
    now = "" if before is None else repr(before.created)
    if seen not in ("unknown", now):
        was = "had been taken back" if before is None else f"said {in_words(before)}"
        words += f" Another page {was} since this form was read; this is the last word."
    memory: dict[Any, tuple[float, str]] = ask.studio.memory.setdefault("just said", {})
    memory.clear()  # of one user, who has just sent one form
    memory[(run.id, row)] = (time.monotonic(), words)


def in_words(said: Feedback) -> str:
    """A score, a verdict and a note on one line.

    Example:
        >>> in_words(Feedback(1, value=4, passed=True, note="clear"))
        '4, pass, “clear”'
    """
    verdict = {True: "pass", False: "fail", None: ""}[said.passed]
    value = "" if said.value is None else f"{said.value:g}"
    note = f"“{short(said.note)}”" if said.note else ""
    return ", ".join(part for part in (value, verdict, note) if part) or numbers.NOTHING


def just_said(ask: Ask, number: int) -> str:
    """What the last form did to this row, told once; empty otherwise."""
    memory: dict[Any, tuple[float, str]] = ask.studio.memory.get("just said", {})
    when, words = memory.pop((ask.path.get("run"), number), (0.0, ""))
    return words if time.monotonic() - when < _FRESH else ""


def _scale(run: Run, name: str) -> tuple[float, float]:
    """Ends of the scale of an evaluator, infinite where there is none; of the row as a whole too."""
    infos = {each["name"]: each for each in evaluator_infos(run)}
    if name and name not in infos:
        raise InputError(f"evaluator must be one of the run but is {name[:100]!r}; nothing was kept")
    low, high = (infos.get(name, {}).get(end) for end in ("low", "high"))
    return -math.inf if low is None else low, math.inf if high is None else high


def _score(text: str, scale: tuple[float, float]) -> float | None:
    if not text:
        return None
    found = typed_number(text)
    if math.isnan(found):
        raise InputError(f"your score must be a number but is {text[:100]!r}; nothing was kept")
    if not scale[0] <= found <= scale[1]:
        raise InputError(f"your score must be from {scale[0]:g} to {scale[1]:g} but is {found:g}; nothing was kept")
    return found
