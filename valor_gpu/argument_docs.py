"""Docstrings completed from base classes, so that each argument and error is described once.

A base class describes the arguments that its subclasses share; a subclass describes only those that are new or differ.
``__doc__``, ``help()``, ``inspect`` and the site show all of them.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

_C = TypeVar("_C", bound=type)
_F = TypeVar("_F", bound=Callable[..., Any])

_HEADING = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples):$", re.MULTILINE)
_ENTRY = re.compile(r" {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \(.*?\))?:(?: |$)", re.MULTILINE)
_UNPACK = re.compile(r"(?:\w+\.)*Unpack\[(?:\w+\.)*(\w+)\]")
_OTHER_STYLE = re.compile(r"^ *(?:Parameters\n *---|:param )", re.MULTILINE)


class _Entry(NamedTuple):
    """Text that describes arguments; that before the first of them has no names."""

    names: tuple[str, ...]
    text: str

    def without(self, names: Collection[str]) -> _Entry:
        """Returns the entry without those of several names that have entries of their own."""
        if not any(name in names for name in self.names):
            return self
        kept = tuple(name for name in self.names if name not in names)
        return _Entry(kept, f"    {', '.join(kept)}:{self.text.partition(':')[2]}")


class _Section(NamedTuple):
    """Text of a docstring from a heading on; paragraphs outside all sections have no heading."""

    heading: str
    text: str


def documented(cls: _C) -> _C:
    """Returns the class, whose docstrings take the entries that they lack from those of its base classes.

    An argument of the constructor that is not described under ``Args`` has the entry of the nearest base class that
    describes it; a class without ``Raises`` has the section of the nearest base class with one. Arguments of a public
    method with a docstring have the entries of the methods of that name. Metrics need no decorator for this.

    Example:
        >>> class Base:
        ...     '''Counts.
        ...
        ...     Args:
        ...         scale: factor of the numbers.
        ...     '''
        >>> @documented
        ... class Mean(Base):
        ...     '''Computes a mean.'''
        ...     def __init__(self, scale: float) -> None: ...
        >>> print(Mean.__doc__)
        Computes a mean.
        <BLANKLINE>
        Args:
            scale: factor of the numbers.
    """
    members, bases = vars(cls), cls.__mro__[1:]
    if written := members.get("__doc__"):  # None under python -OO
        fields = "Attributes" if "__dataclass_fields__" in members else "Args"
        cls.__doc__ = _completed(written, _names(cls), [base.__doc__ for base in bases], fields, raises=True)
    for name, method in members.items():
        if isinstance(method, FunctionType) and method.__doc__ and name[0] != "_" and method.__name__ == name:
            docs = [vars(base)[name].__doc__ for base in bases if name in vars(base)]
            if any(doc and "Args:\n" in doc for doc in docs):
                method.__doc__ = _completed(method.__doc__, _names(method), docs)
    return cls


def arguments_of(*sources: Any) -> Callable[[_F], _F]:
    """Returns a decorator that completes the ``Args`` of a function, or of a class, from the docstrings of others.

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
            docs = [source.__doc__ for source in sources]
            function.__doc__ = _completed(function.__doc__, _names(function), docs)
        return function

    return complete


def _names(function: Any) -> list[str]:
    """Returns the parameters of a function, or of the constructor of a class, but ``self``.

    The keys of an unpacked TypedDict stand before ``kwargs``.
    """
    names: list[str] = []
    for name, annotation in _parameters(function):
        if options := _UNPACK.fullmatch(annotation):
            names += _option_names(options[1])
        names.append(name)
    return [name for name in names if name != "self"]


def _parameters(function: Any) -> list[tuple[str, str]]:
    """Returns name and annotation of each parameter; annotations only where they are text, not to evaluate them."""
    if isinstance(function, type) and "__signature__" not in vars(function):
        function = inspect.getattr_static(function, "__init__")
    if signature := getattr(function, "__signature__", None):
        return [(each.name, str(each.annotation)) for each in signature.parameters.values()]
    function = inspect.unwrap(function)
    if (code := getattr(function, "__code__", None)) is None:  # of C, such as object.__init__
        return []
    texts = function.__annotations__ if code.co_flags & annotations.compiler_flag else {}
    many, options = bool(code.co_flags & inspect.CO_VARARGS), bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + many + options])
    if many:  # stands behind the keywords there
        names.insert(code.co_argcount, names.pop(-1 - options))
    return [(name, texts.get(name, "")) for name in names]  # inspect.signature takes 70 us


@functools.cache
def _option_names(name: str) -> tuple[str, ...]:
    """Returns the keys of a TypedDict of :mod:`valor_gpu.options`, without those of every metric."""
    from valor_gpu import options

    keys = getattr(getattr(options, name, None), "__annotations__", ())
    return tuple(key for key in keys if key not in options.MetricOptions.__annotations__)


def _completed(
    doc: str, names: Iterable[str], others: Iterable[str | None], fields: str = "Args", raises: bool = False
) -> str:
    """Returns a docstring without indentation, which describes each name that any of the docstrings does.

    Docstrings in the style of NumPy or Sphinx, as subclasses of users may have, stay as they are.

    Args:
        doc: the docstring as written.
        names: the arguments, in the order of their entries.
        others: docstrings of base classes, the nearest first.
        fields: heading under which the docstring may describe its arguments instead: ``Attributes`` of a dataclass.
        raises: take the section ``Raises`` of the first docstring that has it, if this one has none.
    """
    if _OTHER_STYLE.search(doc):
        return doc
    parts, bases = list(_sections(doc)), [other for other in others if other]
    own = next((part for part in parts if part.heading in ("Args", fields)), _Section("Args", ""))
    entries = _chosen(names, _entries(own), [_described(base) for base in bases])
    if entries:
        place = parts.index(own) if own in parts else 1
        text = "\n".join((f"{own.heading}:", *(entry.text for entry in entries)))
        parts[place : place + (own in parts)] = [_Section(own.heading, text)]
    if raises and not any(part.heading == "Raises" for part in parts):
        place = max(at for at, part in enumerate(parts) if not at or part.heading in ("Args", fields, "Returns")) + 1
        inherited = (part for base in bases for part in _sections(base) if part.heading == "Raises")
        parts[place:place] = itertools.islice(inherited, 1)
    return "\n\n".join(part.text for part in parts if part.text)


def _chosen(names: Iterable[str], own: Sequence[_Entry], bases: Sequence[dict[str, _Entry]]) -> list[_Entry]:
    """Returns an entry for each name, that of ``own`` before those of ``bases``, and what else ``own`` has."""
    written = {name: entry for entry in own for name in entry.names}
    chosen = {entry: None for entry in own if not entry.names}
    for name in names:
        if name in written:
            chosen[written[name]] = None
        elif (base := next((base for base in bases if name in base), None)) is not None:
            chosen[base[name].without(written)] = None
    return list(chosen | dict.fromkeys(own))


@functools.lru_cache(maxsize=256)
def _sections(doc: str) -> tuple[_Section, ...]:
    """Returns the sections of a Google docstring; the first is what stands before all headings."""
    parts = [_Section("", "")]
    for block in re.split(r"\n(?=\S)", inspect.cleandoc(doc)):
        heading = _HEADING.match(block)
        if heading or parts[-1].heading:
            parts.append(_Section(heading[1] if heading else "", block))
        else:
            parts[-1] = _Section("", f"{parts[-1].text}\n{block}")
    return tuple(_Section(part.heading, part.text.strip()) for part in parts)


@functools.lru_cache(maxsize=256)
def _described(doc: str) -> dict[str, _Entry]:
    """Returns the entries of a docstring by the names of the arguments."""
    return {name: entry for part in reversed(_sections(doc)) for entry in _entries(part) for name in entry.names}


def _entries(section: _Section) -> tuple[_Entry, ...]:
    """Returns the entries of ``Args`` or ``Attributes``; other sections have none."""
    if section.heading not in ("Args", "Attributes"):
        return ()
    entries = [_Entry((), "")]
    for block in re.split(r"\n(?= {4}\S)", section.text)[1:]:
        if match := _ENTRY.match(block):
            entries.append(_Entry(tuple(match[1].replace("*", "").split(", ")), block.rstrip()))
        else:
            entries[-1] = _Entry(entries[-1].names, f"{entries[-1].text}\n{block}".strip("\n"))
    return tuple(entry for entry in entries if entry.text)
