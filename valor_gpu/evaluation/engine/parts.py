"""Scores of evaluators that return several numbers: each is a metric of its own, in every row. No torch.

A row with one number under a key of its own has it as the evaluator's value. Where another row has another key, all are
metrics of their own: :func:`settle_parts` sees to that when the rows are done, so that the order of rows plays no part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from valor_gpu.evaluation.evaluators.base import EVALUATOR_ERROR, UNDEFINED, Outcome
from valor_gpu.evaluation.evaluators.custom import MOST_PARTS
from valor_gpu.evaluation.results.parts import has_parts, parent_of, part_name
from valor_gpu.store import Run, StoredScore
from valor_gpu.store.columns import Columns
from valor_gpu.store.score_changes import move_scores


class Parts:
    """The keys that evaluators have returned in a run.

    Args:
        names: of the evaluators of the run, which no part may have.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._keys: dict[str, set[str]] = {}

    def is_open(self, name: str, done: Collection[tuple[str, int]]) -> bool:
        """Returns whether a row has neither the score of an evaluator nor one of its parts.

        Args:
            name: of the evaluator.
            done: (metric, repeat) of the scores that are there.
        """
        begin = part_name(name, "")
        return not any(each == name or (each.startswith(begin) and each not in self._names) for each, _ in done)

    def outcomes(self, name: str, outcome: Outcome) -> dict[str, Outcome]:
        """Name of a metric to its outcome, of what an evaluator said of a row."""
        if outcome.parts is None:
            return {name: outcome}
        keys = self._keys.setdefault(name, set())
        problem = ""
        if len(keys | outcome.parts.keys()) > MOST_PARTS:
            problem = f"an evaluator must return at most {MOST_PARTS} different keys over all rows but has more"
        taken = [part for key in outcome.parts if (part := part_name(name, key)) in self._names]
        if taken:
            problem = (
                f"its number must not be called {taken[0]!r}, as another evaluator of the run is: rename one of them"
            )
        if problem:
            return {name: Outcome(None, EVALUATOR_ERROR, f"InputError: {problem}")}
        keys.update(outcome.parts)
        if len(outcome.parts) == 1:
            return {name: outcome}
        return {part_name(name, key): each for key, each in outcome.parts.items()}


def settle_parts(run: Run, evaluators: Sequence[Mapping[str, Any]]) -> bool:
    """Gives every row that an evaluator of several numbers has scored a score under each of its keys.

    Args:
        run: leased by the caller.
        evaluators: of its configuration.

    Returns:
        Whether the run has such an evaluator.
    """
    known = {each["name"] for each in evaluators}
    parts: dict[str, list[str]] = {}
    for name in Columns(run).evaluators():
        parent = parent_of(name, evaluators)
        if parent is not None and name not in known:
            parts.setdefault(parent["name"], []).append(name)
    found = False
    for each in evaluators:
        name = each["name"]
        if name in parts or _only_keys_differ(run, each):
            found = True
            keys = {key for score in run.scores(name) if (key := _only_key(score)) is not None}
            _settle(run, name, sorted({*parts.get(name, ()), *(part_name(name, key) for key in keys)}))
    return found


def _only_keys_differ(run: Run, evaluator: Mapping[str, Any]) -> bool:
    """Returns whether every value of an evaluator came under a key, and not all under the same."""
    if not has_parts(evaluator):
        return False
    keys = set()
    for score in run.scores(evaluator["name"]):
        if score.value is not None:
            keys.add(_only_key(score))
            if None in keys:
                return False
    return len(keys) > 1


def _only_key(score: StoredScore) -> str | None:
    """The key that the value of a row came under; None where it came as ``value`` or as a number, or is none."""
    if score.value is None:
        return None
    numbers = [key for key, value in (score.details or {}).items() if isinstance(value, (int, float))]
    return numbers[0] if len(numbers) == 1 and (score.details or {})[numbers[0]] == score.value else None


def _settle(run: Run, name: str, names: Sequence[str]) -> None:
    gone: list[StoredScore] = []
    new: list[StoredScore] = []
    for row, grouped in groupby(_scores_of(run, [name, *names]), key=lambda each: each.row):
        scores = {each.evaluator: each for each in grouped}
        whole = scores.pop(name, None)
        key = None if whole is None else _only_key(whole)
        if whole is not None and (whole.value is None or key is not None):
            gone.append(whole)
        if whole is not None and key is not None:
            scores[part_name(name, key)] = moved = replace(whole, evaluator=part_name(name, key))
            new.append(moved)
        new += [_lacking(row, each, name, whole) for each in names if each not in scores]
        if len(new) + len(gone) >= 1000:
            move_scores(run, gone, new)
            gone, new = [], []
    move_scores(run, gone, new)


def _lacking(row: int, part: str, name: str, whole: StoredScore | None) -> StoredScore:
    """The score of a key that a row has not: why the whole row failed, else that its mapping lacks it."""
    if whole is not None and whole.value is None:
        return replace(whole, evaluator=part)
    reason = f"the evaluator returned no number {part[len(name) + 1 :]!r} for this row"
    return StoredScore(row, part, 0, None, UNDEFINED, reason)


def _scores_of(run: Run, names: Sequence[str]) -> Iterator[StoredScore]:
    """The scores of some evaluators, row by row."""
    wanted = set(names)
    return (each for each in run.scores() if each.evaluator in wanted)
