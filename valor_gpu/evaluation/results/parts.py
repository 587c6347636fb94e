"""Metrics of their own that one evaluator of the user's gives: ``mine.words`` and ``mine.signs`` of ``mine``. No torch.

An evaluator that returns ``{"words": 7, "signs": 31}`` has no number under its own name; a run keeps scores of each key
under ``<evaluator>.<key>``, which no configuration names.

Example:
    >>> mine = {"name": "mine", "kind": "custom", "summary_name": "mean_mine"}
    >>> [each["summary_name"] for each in with_parts([mine], ["mine.signs", "mine.words"])]
    ['mean_mine.signs', 'mean_mine.words']
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Info = Mapping[str, Any]


def part_name(evaluator: str, key: str) -> str:
    """Name of the metric that a key is."""
    return f"{evaluator}.{key}"


def has_parts(info: Info) -> bool:
    """Whether an evaluator may return numbers under keys of its own: code of the user's that asks no judge."""
    return info.get("kind") == "custom" and not info.get("needs_judge", False)


def parent_of(name: str, infos: Iterable[Info]) -> Info | None:
    """The evaluator of the user's own that a metric may be a part of, by its name; None without any.

    Args:
        name: of a metric that no evaluator has.
        infos: as in ``run.config["evaluators"]``.
    """
    found = [each for each in infos if has_parts(each) and name.startswith(f"{each['name']}.")]
    return max(found, key=lambda each: len(each["name"]), default=None)


def with_parts(infos: Sequence[Info], stored: Collection[str], wanted: Collection[str] = ()) -> list[Info]:
    """Evaluators with their parts in their places.

    Args:
        infos: of a configuration.
        stored: names that scores have; those that no evaluator has are parts, where one may have them.
        wanted: further names, such as those of thresholds, which are listed even where no score has them.

    Returns:
        The evaluators. One that has parts stands beside them only where it has scores or is wanted itself.
    """
    known = {each["name"] for each in infos}
    parts: dict[str, list[str]] = {}
    for name in dict.fromkeys((*sorted(stored), *wanted)):
        parent = None if name in known else parent_of(name, infos)
        if parent is not None:
            parts.setdefault(parent["name"], []).append(name)
    found: list[Info] = []
    for each in infos:
        mine = parts.get(each["name"], [])
        if not mine or each["name"] in stored or each["name"] in wanted:
            found.append(each)
        found += [{**each, "name": name, "summary_name": f"mean_{name}"} for name in mine]
    return found
