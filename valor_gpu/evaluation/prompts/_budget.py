"""What a rendering of a template may make and how long it may take, and the sizes of values. No torch, no jinja2."""

from __future__ import annotations

import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sized, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from valor_gpu.errors import InputError

LONGEST_OUTPUT = 20_000_000  # characters; a row may have cells of megabytes
ELEMENT = 10  # characters that a text, or an element of a list or dict, counts as beside its text
MOST_STEPS = 200_000  # rounds of loops, and calls of macros
MOST_SECONDS = 5.0  # of this thread's processor time
LARGEST_BITS = 5_000  # of an integer; Python shows none of more than 4,300 digits
_CHUNK = 1 << 16
_LISTS = (list, tuple, range, KeysView, ValuesView, ItemsView)


class _Budget:
    """What a rendering has taken so far."""

    def __init__(self) -> None:
        self.steps, self.size, self.end = 0, 0, time.thread_time() + MOST_SECONDS

    def take(self, size: int, steps: int) -> None:
        self.size += max(size, 0)
        self.steps += steps
        if self.size > LONGEST_OUTPUT:
            raise too_much()
        if self.steps > MOST_STEPS:
            raise InputError(
                f"a template must take at most {MOST_STEPS:,} rounds of loops but takes more: loop over fewer values"
            )
        if time.thread_time() > self.end:
            raise InputError(f"a template must take at most {MOST_SECONDS:g} s but takes longer: let it do less")


_BUDGET: ContextVar[_Budget | None] = ContextVar("budget", default=None)


def too_much() -> InputError:
    """Returns the error of a template that makes too much."""
    return InputError(
        f"a template must make at most {LONGEST_OUTPUT:,} characters but makes more: shorten, repeat or pad less"
    )


def take(size: int = 0, steps: int = 0) -> None:
    """Counts characters and rounds of loops, and looks at the clock.

    Raises:
        InputError: more than a template may make or take.
    """
    budget = _BUDGET.get()
    if budget is not None:
        budget.take(size, steps)


def left() -> int:
    """Returns how many characters may still be made."""
    budget = _BUDGET.get()
    return LONGEST_OUTPUT - (budget.size if budget is not None else 0)


@contextmanager
def bounded() -> Iterator[None]:
    """Within, all that templates make is counted together."""
    token = _BUDGET.set(_Budget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def size_of(value: Any, shown: Callable[[str], str] | None = None) -> int:
    """Returns the characters and elements of a value, about as many as its text has; shared elements count each time.

    Args:
        value: a text, a number, a list or dict of them, or another object.
        shown: how texts within are written, as ``repr`` or JSON do; as they are by default.

    Raises:
        InputError: more than a template may make.
    """
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, _LISTS):
            waiting += one
        size += ELEMENT + _own_size(one, shown)
        if size + ELEMENT * len(waiting) > LONGEST_OUTPUT:
            raise too_much()
    return size


def _own_size(one: Any, shown: Callable[[str], str] | None) -> int:
    if isinstance(one, str):
        if shown is None or (one.isascii() and one.isprintable()):
            return len(one)
        return sum(len(shown(one[start : start + _CHUNK])) for start in range(0, len(one), _CHUNK))
    if isinstance(one, int):
        return one.bit_length() // 3
    return len(one) if isinstance(one, Sized) and not isinstance(one, (Mapping, *_LISTS)) else 0


def plain_text(value: Any) -> str:
    """Returns the text of a value, counted."""
    if isinstance(value, (Mapping, *_LISTS)):
        take(size_of(value, repr))
    elif not isinstance(value, (str, bool, int, float, type(None))) and type(value).__name__ != "StrictUndefined":
        raise InputError(f"a template must show texts, numbers, lists and dicts but shows a {type(value).__name__}")
    text = str(value)
    take(len(text) + (0 if isinstance(value, str) else ELEMENT))
    return text


def text_of(value: Any) -> str:
    """Returns the text of a value, counted; None is nothing."""
    return "" if value is None else plain_text(value)


def made(value: Any) -> Any:
    """Returns a value that a template makes, counted whole: lists within lists grow fast."""
    take(size_of(value))
    return value


def each(value: Iterable[Any], weight: int = 1) -> Iterator[Any]:
    """Yields the elements of a value, each counted whole.

    Args:
        value: to go through.
        weight: copies of an element that are made.
    """
    for one in value:
        take(weight * size_of(one))
        yield one


def watched(value: Iterable[Any]) -> Iterator[Any]:
    """Yields the elements of a value, which may be kept as a list, and looks at the clock before each."""
    for one in value:
        take(ELEMENT)
        yield one
