"""Docstrings whose ``Args`` are completed from the classes that a class is derived from.

An argument is described once: in the docstring of the base class that all its users share. A derived class describes
only what is new or different there. ``__doc__``, ``help()``, ``inspect`` and the site show every argument.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

_C = TypeVar("_C", bound=type)
_F = TypeVar("_F", bound=Callable[..., Any])

_HEADING = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples):")
_ENTRY = re.compile(r" {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")
_UNPACK = re.compile(r"(?:\w+\.)*Unpack\[(\w+)\]")
_KEYWORDS = "    kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`."
"""Entry of ``**kwargs`` where no class describes it."""


class _Section(NamedTuple):
    """Lines of a docstring from a heading on; what comes first has no heading."""

    heading: str
    lines: list[str]


def documented(cls: _C) -> _C:
    """Returns the class, whose ``__doc__`` lists every argument of its constructor.

    An argument without an entry under ``Args`` has that of the nearest base class. Metrics need no decorator for this.

    Example:
        >>> class Base:
        ...     '''Counts.
        ...
        ...     Args:
        ...         scale: of the numbers.
        ...     '''
        >>> @documented
        ... class Mean(Base):
        ...     '''Computes a mean.'''
        ...     def __init__(self, scale: float) -> None: ...
        >>> print(Mean.__doc__)
        Computes a mean.
        <BLANKLINE>
        Args:
            scale: of the numbers.
    """
    if written := vars(cls).get("__doc__"):  # None under python -OO
        own: Any = cls if "__signature__" in vars(cls) else cls.__init__  # type: ignore[misc]
        cls.__doc__ = _completed(written, _names(own), (vars(base).get("__doc__") or "" for base in cls.__mro__[1:]))
    return cls


def arguments_of(*sources: Any) -> Callable[[_F], _F]:
    """Returns a decorator that completes the ``Args`` of a function from the docstrings of others.

    Args:
        sources: classes or functions; the first that describes an argument gives its entry.

    Example:
        >>> def area(box: float) -> None:
        ...     '''Computes areas.
        ...
        ...     Args:
        ...         box: corners.
        ...     '''
        >>> @arguments_of(area)
        ... def width(box: float) -> None:
        ...     '''Computes widths.'''
        >>> print(width.__doc__)
        Computes widths.
        <BLANKLINE>
        Args:
            box: corners.
    """

    def complete(function: _F) -> _F:
        if function.__doc__:
            docs = (inspect.getdoc(source) or "" for source in sources)
            function.__doc__ = _completed(function.__doc__, _names(function), docs)
        return function

    return complete


def _names(function: Any) -> list[str]:
    """Returns the parameters of a function but ``self``; those of an unpacked TypedDict stand before ``kwargs``."""
    names: list[str] = []
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.VAR_KEYWORD and (options := _UNPACK.fullmatch(str(each.annotation))):
            names += _option_names(options[1])
        names.append(each.name)
    return [name for name in names if name != "self"]


def _option_names(name: str) -> list[str]:
    """Returns the keys of a TypedDict of :mod:`valor_gpu.options`, without those of every metric."""
    from valor_gpu import options

    common = options.MetricOptions.__annotations__
    return [key for key in getattr(options, name).__annotations__ if key not in common]


def _completed(doc: str, names: Iterable[str], others: Iterable[str]) -> str:
    """Returns a docstring without indentation, whose ``Args`` describe each name that any of the docstrings does."""
    parts = list(_sections(doc))
    found = next((part for part in parts if part.heading == "Args"), None)
    own = _entries(found)
    bases = [_entries(next((part for part in _sections(other) if part.heading == "Args"), None)) for other in others]
    given = {name for names_of in own for name in names_of}
    entries: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        chosen = own if name in given else next((each for each in bases if any(name in key for key in each)), {})
        entries.update({key: lines for key, lines in chosen.items() if name in key})
        if name == "kwargs" and not any(name in key for key in entries):
            entries["kwargs",] = [_KEYWORDS]
    entries.update({key: lines for key, lines in own.items() if key not in entries})
    if not entries:
        return inspect.cleandoc(doc)
    lines = ["Args:", *(line for each in entries.values() for line in each), ""]
    place = parts.index(found) if found else 1
    kept = [part.lines for part in parts if part is not found]
    return "\n".join(line for part in (*kept[:place], lines, *kept[place:]) for line in part).strip()


def _sections(doc: str) -> Iterator[_Section]:
    """Yields the sections of a Google docstring; each but the last ends in an empty line."""
    part = _Section("", [])
    for line in inspect.cleandoc(doc).splitlines():
        if heading := _HEADING.fullmatch(line):
            yield part
            part = _Section(heading[1], [])
        part.lines.append(line)
    part.lines.append("")
    yield part


def _entries(section: _Section | None) -> dict[tuple[str, ...], list[str]]:
    """Returns the entries of ``Args`` by the names before their colon, with their lines."""
    found: dict[tuple[str, ...], list[str]] = {}
    lines: list[str] = []
    for line in section.lines[1:] if section else ():
        if entry := _ENTRY.match(line):
            lines = found[tuple(entry[1].replace("*", "").split(", "))] = []
        if line.strip():
            lines.append(line)
    return found
