"""Options of a command line that decide its numbers: ``--json`` keeps them, ``valor-gpu verify`` gives them again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.errors import InputError

Given = dict[str, Any]
"""By name without dashes: True of a flag, the text of a value, a list of texts where it is given again."""

_SHARED = ("intervals", "seed", "confidence")
_SLICES = ("cluster-file", "by", "images-table", "by-bins")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "detect": (
        "iou-type", "protocol", "sigmas", "convention", "errors", "errors-protocol", "operating-points",
        "analysis-iou", *_SHARED, *_SLICES,
    ),
    "classify": (
        "target", "scores", "scores-prefix", "pred", "labels", "ignore", "weight", "average", "thresholds",
        "cluster-column", *_SHARED,
    ),
    "segment": (
        "num-classes", "names", "ignore", "gt-suffix", "pred-suffix", "flat", "gt-key", "pred-key", "allow-missing",
        "skip-bad", *_SHARED, *_SLICES,
    ),
    "panoptic": (*_SHARED, *_SLICES),
    "text": (
        "prediction", "reference", "prediction-column", "reference-column", "metrics", "param", *_SHARED,
    ),
    "retrieval": ("measures", "names", "queries", "ties", *_SHARED),
}  # fmt: skip
"""By command the options that decide numbers; all others name files, devices or what is shown."""


def given_options(command: argparse.ArgumentParser, name: str, argv: Sequence[str]) -> Given:
    """Returns the options of a command line that decide the numbers.

    Args:
        command: the parser, which takes ``argv``.
        name: of the command.
        argv: arguments after the name.
    """
    actions = {flag: action for action in command._actions for flag in action.option_strings}
    found, rest = Given(), list(argv)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        action = actions.get(flag)
        if action is None:
            continue
        values: list[str] = [value] if equals else _values(action, rest)
        key = flag.removeprefix("--")
        if key not in CHOICES.get(name, ()):
            continue
        if type(action).__name__ in ("_AppendAction", "_ExtendAction"):
            found.setdefault(key, []).extend(values)
        else:
            found[key] = values[0] if values else True
    return _needed(found)


def _values(action: argparse.Action, rest: list[str]) -> list[str]:
    """Takes the values of an option from what follows it."""
    if action.nargs == 0:
        return []
    if action.nargs is None:
        return [rest.pop(0)] if rest else []
    most, taken = (1 if action.nargs == "?" else len(rest)), list[str]()
    while rest and len(taken) < most and not (rest[0].startswith("-") and len(rest[0]) > 1):
        taken.append(rest.pop(0))
    return taken


def _needed(found: Given) -> Given:
    """The options without those that only belong to files that were written beside."""
    if "errors" not in found:
        found.pop("errors-protocol", None)
        if "operating-points" not in found:
            found.pop("analysis-iou", None)
    return found


def command_line(name: str, given: Mapping[str, Any]) -> list[str]:
    """Returns options as arguments.

    Raises:
        InputError: one does not decide numbers of the command, or is no text.
    """
    argv: list[str] = []
    for key, value in given.items():
        if key not in CHOICES[name]:
            raise InputError(f"options of {name} must be of {', '.join(CHOICES[name])} but the file has {key!r}")
        parts = value if isinstance(value, list) else [value]
        if not parts or not all(part is True or isinstance(part, str) for part in parts):
            raise InputError(f"options.{key} must be true, a text or a list of texts but is {value!r:.60}")
        argv += [f"--{key}" if part is True else f"--{key}={part}" for part in parts]
    return argv
