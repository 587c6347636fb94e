"""Docstrings and signatures as Markdown, for the pages that tools/make_docs.py makes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

SHARED = ("Args", "Raises")
"""Sections whose entries classes and functions of one metric have in common."""

_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$")
_ENTRY = re.compile(r"^    (\*{0,2}\w[\w.]*(?:, \*{0,2}\w[\w.]*)*): (.*)$")


def plain(text: str) -> str:
    """Marks of a docstring (reStructuredText) as Markdown."""
    text = re.sub(r":(?:class|func|meth|attr):`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    text = re.sub(r":mod:`~?([\w.]+)`", r"`\1`", text)
    return text.replace("``", "`")


def summary(documented: Any) -> str:
    """The first line of a docstring."""
    return plain((documented.__doc__ or "").splitlines()[0])


def sections(doc: str) -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of every section of a Google docstring; the name of what comes first is empty."""
    name: str = ""
    lines: list[str] = []
    for line in doc.splitlines():
        heading = _SECTION.match(line)
        if heading:
            yield name, lines
            name, lines = heading[1], []
        else:
            lines.append(line)
    yield name, lines


def arguments(lines: list[str]) -> dict[str, str]:
    """``name: text`` entries of a section by the names before their colon, each with all its lines."""
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if entry := _ENTRY.match(line):
            name, found[entry[1]] = entry[1], line
        elif name and line.strip():
            found[name] += "\n" + line
    return found


def described(doc: str) -> set[str]:
    """The entries of ``Args`` and of ``Raises`` of a docstring, each with all its lines."""
    parts = dict(sections(inspect.cleandoc(doc)))
    return {text for name in SHARED for text in arguments(parts.get(name, [])).values()}


def entries(lines: list[str]) -> list[str]:
    """``name: text`` entries as a list, other text as it is."""
    out: list[str] = []
    for line in lines:
        entry = _ENTRY.match(line)
        out.append(f"- `{entry[1]}`: {entry[2]}" if entry else "  " + line.strip() if out else line.strip())
    return [plain(line) for line in out]


def markdown(doc: str, known: Collection[str] = ()) -> str:
    """A Google docstring as Markdown, without the entries of ``Args`` and of ``Raises`` that are among ``known``."""
    parts = []
    for name, lines in sections(inspect.cleandoc(doc)):
        if name in SHARED and known and (listed := arguments(lines)):
            lines = [each for each in listed.values() if each not in known]
        body = "\n".join(lines).strip("\n")
        if name.startswith("Example"):
            body = f"```python\n{inspect.cleandoc(body)}\n```"
        elif name:
            body = "\n".join(entries(body.splitlines()))
        else:
            body = plain(body)
        if body.strip():
            parts.append(f"**{name}**\n\n{body}" if name else body)
    return "\n\n".join(parts)


def parameter(p: inspect.Parameter) -> str:
    """One parameter as it is written."""
    stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
    text = f"{stars}{p.name}" + (f": {p.annotation}" if p.annotation is not p.empty else "")
    if p.default is p.empty:
        return text
    default = "..." if "factory" in repr(p.default) else getattr(p.default, "__name__", repr(p.default))
    return f"{text} = {default}"


def constructor(kind: type) -> Any:
    """What has the signature of a class: the class itself where it says so, else its ``__init__``."""
    return kind if "__signature__" in vars(kind) else kind.__init__  # type: ignore[misc]


def signature(name: str, function: Callable[..., Any]) -> str:
    """One line, or a line for each parameter when there are many."""
    declared = inspect.signature(function)
    parameters = [p for p in declared.parameters.values() if p.name != "self"]
    parts = [parameter(p) for p in parameters]
    first = next((n for n, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    if first is not None and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        parts.insert(first, "*")
    end = "" if declared.return_annotation in (declared.empty, "None", None) else f" -> {declared.return_annotation}"
    short = f"{name}({', '.join(parts)}){end}"
    return short if len(short) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"
