"""Prompt files: ``.prompty`` with a front matter of YAML, or a template alone. No torch."""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.config import check_keys_once
from valor_gpu.evaluation.prompts.templates import LONGEST_TEMPLATE, MessageTemplate
from valor_gpu.evaluation.rows._source_rows import plain_row

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?(.*)\Z", re.DOTALL | re.MULTILINE)
_PARAMETERS = ("temperature", "max_tokens", "seed", "top_p", "presence_penalty", "frequency_penalty", "stop")
_OWN = ("temperature", "max_tokens", "seed")
"""Parameters of a model that judges have by name; the others are sent as they are."""
_READ = ("name", "description", "model", "inputs", "outputs", "sample", "scale", "choices", "higher_is_better", "task")
_MODEL = ("api", "configuration", "parameters", "response")


@dataclass(frozen=True)
class PromptFile:
    """A prompt and what its front matter says.

    Attributes:
        template: of the messages.
        text: the whole file.
        name: of the front matter, else of the file; empty for a text without one.
        description: one text.
        parameters: of the model, by the names that judges have for them.
        defaults: input to its value where a row has none.
        declared: names of the inputs that the front matter has.
        outputs: names of the outputs with their types.
        rules: ``scale``, ``choices``, ``higher_is_better`` and ``task``, where they are said.
        notes: what the file says and nothing here reads.
    """

    template: MessageTemplate
    text: str
    name: str = ""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


_LEVELS = 20
"""Of lists and mappings within one another."""


def read_prompt(what: str | os.PathLike[str]) -> PromptFile:
    r"""Reads a prompt.

    Args:
        what: a path, or the text itself: a text of several lines, or with ``{{``, is no path.

    Raises:
        InputError: no file; a front matter that is no YAML, or holds something that cannot be.
        MissingExtraError: without jinja2, or with a front matter and without pyyaml.

    Example:
        >>> read_prompt("---\nname: tone\n---\nIs this polite? {{answer}}").name
        'tone'
    """
    if isinstance(what, str) and ("\n" in what or "{{" in what):
        return _parsed(what, "", "the prompt")
    if not isinstance(what, (str, os.PathLike)):
        raise InputError(f"a prompt must be a path or a text but is {type(what).__name__}")
    path = Path(what).expanduser()
    try:
        if path.stat().st_size > 8 * LONGEST_TEMPLATE:
            raise InputError(f"prompt file {str(path)!r} must have at most {8 * LONGEST_TEMPLATE:,} bytes")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InputError(f"prompt file {str(path)!r} cannot be read: {reason}") from None
    return _parsed(text, re.sub(r"\.(prompty|jinja2?|j2|md|txt)$", "", path.name), f"prompt file {path.name}")


def _parsed(text: str, stem: str, place: str) -> PromptFile:
    match = _FRONT.match(text)
    if match is None:
        return PromptFile(MessageTemplate(text, place), text, stem)
    front = _yaml(match[1], place)
    template = MessageTemplate(match[2], place)
    model = _mapping(front, "model", place)
    inputs = front.get("inputs") or {}
    inputs = dict.fromkeys(inputs) if isinstance(inputs, list) else _mapping(front, "inputs", place)
    sample = front.get("sample")
    notes = [
        f"{place}: {key!r} is not read"
        for key in front
        if key not in _READ and key not in ("authors", "tags", "version")
    ]
    notes += [f"{place}: model.{key} is not read" for key in model if key not in _MODEL]
    parameters, unread = _parameters(_mapping(model, "parameters", f"{place}: model"))
    notes += [f"{place}: model.parameters.{key} is not read" for key in unread]
    if sample is not None and not isinstance(sample, (str, Mapping)):
        raise InputError(f"{place}: sample must be a mapping or the name of a file")
    return PromptFile(
        template,
        text,
        _text(front, "name", place) or stem,
        _text(front, "description", place),
        parameters,
        {name: each["default"] for name, each in inputs.items() if isinstance(each, Mapping) and "default" in each},
        tuple(map(str, inputs)),
        _outputs(front, place),
        {key: front[key] for key in ("scale", "choices", "higher_is_better", "task") if front.get(key) is not None},
        tuple(notes),
    )


def _yaml(text: str, place: str) -> dict[str, Any]:
    """The front matter: one mapping."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise MissingExtraError("yaml", "eval", "the front matter of a prompt file") from None
    try:
        _check_events(yaml, text, place)
        check_keys_once(f"{place}: the front matter", yaml.compose(text, Loader=yaml.SafeLoader))
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 2}"
        raise InputError(f"{place}{line}: the front matter must be YAML: {getattr(error, 'problem', error)}") from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{place}: the front matter must be YAML: {type(error).__name__}") from None
    if not isinstance(found, dict) and found is not None:
        raise InputError(f"{place}: the front matter must be a mapping but is {type(found).__name__}")
    return plain_row(f"{place}: the front matter", found or {})


def _check_events(yaml: Any, text: str, place: str) -> None:
    """Raises for aliases, which could make a short text large, and for levels that take the parser long."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{place}: the front matter must have no aliases")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _LEVELS:
            raise InputError(f"{place}: the front matter must be YAML of at most {_LEVELS} levels")


def _mapping(holder: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    found = holder.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise InputError(f"{place}: {key} must be a mapping but is {type(found).__name__}")
    return found or {}


def _text(holder: Mapping[str, Any], key: str, place: str) -> str:
    found = holder.get(key)
    if found is not None and not isinstance(found, (str, int, float)):
        raise InputError(f"{place}: {key} must be a text but is {type(found).__name__}")
    return "" if found is None else str(found).strip()


def _parameters(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Parameters by the names that judges have, and what is none of them."""
    named = {"max_tokens" if key == "max_completion_tokens" else key: value for key, value in given.items()}
    found = {key: value for key, value in named.items() if key in _OWN}
    extra = {key: value for key, value in named.items() if key in _PARAMETERS and key not in _OWN and value is not None}
    return {**found, **({"extra": extra} if extra else {})}, [key for key in named if key not in _PARAMETERS]


def _outputs(front: Mapping[str, Any], place: str) -> dict[str, str]:
    return {
        name: str(each.get("type", "")) if isinstance(each, Mapping) else str(each or "")
        for name, each in _mapping(front, "outputs", place).items()
    }


def scale_of(value: Any, place: str) -> tuple[float, float]:
    """Least and greatest number of a scale, ``[1, 5]`` or ``{low: 1, high: 5}``.

    Raises:
        InputError: no such scale.

    Example:
        >>> scale_of({"low": 0, "high": 1}, "scale")
        (0.0, 1.0)
    """
    found: Any = [value.get("low"), value.get("high")] if isinstance(value, Mapping) else value
    is_pair = isinstance(found, (list, tuple)) and len(found) == 2
    if not is_pair or any(isinstance(each, bool) or not isinstance(each, (int, float)) for each in found):
        raise InputError(f"{place} must be [low, high] or have low and high but is {value!r:.100}")
    low, high = float(found[0]), float(found[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"{place} must go from a number to a higher one but is {value!r:.100}")
    return low, high
