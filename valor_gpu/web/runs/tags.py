"""Name, tags and note of a run as pages show them and forms take them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short, tag_words
from valor_gpu.pages.texts import visible
from valor_gpu.store import Run
from valor_gpu.store.edits import LONGEST_NAME, LONGEST_NOTE, edits_of

SHOWN = 20
"""Tags that a page shows."""


def shown_tags(tags: Mapping[str, Any], most: int = SHOWN) -> list[str]:
    """The first tags of a run, in words."""
    return [tag_words(name, value) for name, value in list(tags.items())[:most]]


def tag_line(name: str, value: Any) -> str:
    r"""The line of a form that stands for a tag.

    Example:
        >>> tag_line("model", "small"), tag_line("tries", 3), tag_line("golden", ""), tag_line("two\nlines", "x")
        ('model: small', 'tries: 3', 'golden', '"two\\nlines": x')
    """
    texts = [name, *([] if value == "" else [value if isinstance(value, str) else json.dumps(value)])]
    return ": ".join(json.dumps(text) if "\n" in text or "\r" in text else text for text in texts)


def tag_text(tags: Mapping[str, Any]) -> str:
    """Tags as a form shows them, one a line."""
    return "\n".join(tag_line(name, value) for name, value in tags.items())


def read_tags(text: str, before: Mapping[str, Any]) -> dict[str, Any]:
    r"""Tags of a form: ``name`` or ``name: value`` a line. A line that was not changed keeps its value of any type.

    Args:
        text: of the form.
        before: tags of which the form was made.

    Raises:
        InputError: a line without a name, or a name that stands on two lines.

    Example:
        >>> read_tags("tries: 3\nmodel: large\ngolden", {"tries": 3, "model": "small"})
        {'tries': 3, 'model': 'large', 'golden': ''}
    """
    known = {visible(tag_line(name, value)).strip(): (name, value) for name, value in before.items()}
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (line := line.strip()):
            continue
        name, value = known.get(line, _split(line))
        if not name:
            raise InputError(f"tags must have a name but line {number} has none: {short(line)}")
        if name in found:
            raise InputError(f"tags must have different names but {short(name)!r} stands on two lines")
        found[name] = value
    return found


def _split(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def is_unchanged(field: str, kept: str, has_lines: bool = False) -> bool:
    r"""Whether the field of a form says what its page was made of; pages show invisible characters as words.

    Args:
        field: text of the form.
        kept: text of which the page was made.
        has_lines: whether the field has several lines; a browser takes the ends of lines out of others.

    Example:
        >>> is_unchanged("two lines", "two\n lines "), is_unchanged("two lines", "two\n lines", has_lines=True)
        (True, False)
    """
    texts = [each.replace("\r\n", "\n").replace("\r", "\n") for each in (field, visible(kept))]
    if not has_lines:
        texts = ["".join(each.splitlines()) for each in texts]
    return texts[0].strip() == texts[1].strip()


def about_parts(run: Run) -> dict[str, Any]:
    """What the template of a run's name, tags and note needs."""
    said = edits_of(run)
    return {
        "about": {
            "name": run.name,
            "tags": tag_text(run.tags),
            "note": said.note,
            "edited": "" if said.edited is None else repr(said.edited),
            "more_tags": max(len(run.tags) - SHOWN, 0),
            "longest_name": LONGEST_NAME,
            "longest_note": LONGEST_NOTE,
        }
    }
