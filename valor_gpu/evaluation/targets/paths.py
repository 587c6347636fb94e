"""Places in JSON: where an endpoint's reply has the answer, and where a request has the fields of a row. No torch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.judge.json_text import ParseError

Path = tuple[str | int, ...]
_STEP = re.compile(r"\.?([\w-]+)|\[(\d{1,6})\]|\[\"([^\"]*)\"\]|\['([^']*)'\]")
_REFERENCE = re.compile(r"\$\{(?:data[.$])?([^{}$:]{1,200})\}")


def path_of(name: str, text: Any) -> Path:
    """The steps of a path such as ``choices[0].message.content``, ``$.data['my key']`` or ``/data/answer``.

    Args:
        name: of the path, for messages.
        text: the path; the whole value for ``$``.

    Raises:
        InputError: no such path.

    Example:
        >>> path_of("answer", "$.choices[0].message.content"), path_of("answer", "/data/0/text")
        (('choices', 0, 'message', 'content'), ('data', '0', 'text'))
    """
    if not isinstance(text, str) or not text or len(text) > 1000:
        raise InputError(f"{name} must be a path such as 'choices[0].message.content' but got {text!r:.100}")
    if text.startswith("/"):  # RFC 6901
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))
    steps: list[str | int] = []
    rest = text.removeprefix("$")
    while rest:
        match = _STEP.match(rest)
        if match is None:
            raise InputError(f"{name} must be a path such as 'choices[0].message.content' but got {text!r:.100}")
        plain, index, *quoted = match.groups()
        steps.append(
            plain if plain is not None else int(index) if index is not None else next(filter(None, quoted), "")
        )
        rest = rest[match.end() :]
    return tuple(steps)


def value_at(value: Any, path: Path) -> Any:
    """What a JSON value has at a path; a step of digits is an index in a list.

    Raises:
        ParseError: nothing is there; the message says how far the path goes.

    Example:
        >>> value_at({"choices": [{"text": "hi"}]}, ("choices", 0, "text"))
        'hi'
    """
    place = "$"
    for step in path:
        if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
            value, place = value[int(step)], f"{place}[{step}]"
        elif isinstance(value, Mapping) and str(step) in value:
            value, place = value[str(step)], f"{place}.{step}"
        else:
            raise ParseError(f"the reply has no {step!r} at {place}, which is {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"an object with {', '.join(map(repr, list(value)[:20])) or 'nothing'}"
    return f"a list of {len(value)}" if isinstance(value, list) else f"of type {type(value).__name__}"


def references_in(template: Any) -> Iterator[str]:
    """Names of the fields that a template shows, ``${name}`` or ``${data.name}`` in its texts.

    Example:
        >>> list(references_in({"q": "${question}", "more": ["of ${data.id}"]}))
        ['question', 'id']
    """
    if isinstance(template, str):
        yield from _REFERENCE.findall(template)
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from references_in(value)
    elif isinstance(template, list):
        for value in template:
            yield from references_in(value)


def filled(template: Any, fields: Mapping[str, Any]) -> Any:
    """A template with the fields of a row in their places, in one pass: what they hold is not looked at again.

    A text that is one reference becomes the value itself, whatever its type; within a text values are written as they
    are, lists and objects as JSON, None as nothing.

    Example:
        >>> filled({"q": "${question}", "more": "of ${id}"}, {"question": ["a"], "id": 7})
        {'q': ['a'], 'more': 'of 7'}
    """
    if isinstance(template, str):
        whole = _REFERENCE.fullmatch(template)
        if whole is not None:
            return fields[whole[1]]
        return _REFERENCE.sub(lambda match: _text(fields[match[1]]), template)
    if isinstance(template, Mapping):
        return {name: filled(value, fields) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(value, fields) for value in template]
    return template


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
