"""What a comparison takes: results, metrics, evaluations, state files and stored runs, as sides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from valor_gpu._frozen import frozen, replaced
from valor_gpu.comparison.state_files import load_run, load_state_file
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.exports.signature import Signature
from valor_gpu.result_data import ResultData
from valor_gpu.stats.resample import Resampled
from valor_gpu.store.runs import Run
from valor_gpu.store.saved import VISION


@frozen
class Side:
    """One model of a comparison.

    Attributes:
        name: of the model, for texts.
        result: its numbers.
        state: what they came from.
        notes: what a reader of the comparison must know of it, such as the version that wrote its file.
        shared: numbers of the units that the other model has them for, too, by leaf name, where they are others than
            those of the result.
        left_out: how many units a number leaves out, by its leaf name.
    """

    name: str
    result: ResultData
    state: Resampled
    notes: tuple[str, ...] = ()
    shared: Mapping[str, float] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def values(self) -> Mapping[str, float]:
        """Numbers by leaf name."""
        return {**dict(numbers_of(self.result.values)), **self.shared}

    @property
    def called(self) -> str:
        """What messages call the model: its name, or a word for the place of an argument."""
        return f"the {self.name}" if self.name in ("first", "second", "third") else self.name

    @property
    def signature(self) -> Signature:
        """Choices that made the numbers."""
        return self.result.signature


def side_of(given: Any, name: str) -> Side:
    """Returns the side that an argument of :func:`compare` stands for.

    Args:
        given: a :class:`~valor_gpu.result.Result` that this process made, or an answer of it such as ``olrp()``; a
            metric or an evaluation, whose ``result()`` is taken; the path of a state file; or a run of a store.
        name: of the argument, for messages and texts.

    Raises:
        InputTypeError: it is none of these.
        InputError: the result does not know the state that it came from, the file is no state file, or the run has
            none.
    """
    if isinstance(given, Side):
        return replaced(given, name=name)
    notes: tuple[str, ...] = ()
    if isinstance(given, (str, os.PathLike)) or (isinstance(given, Run) and given.config.get("kind") in VISION):
        loaded = load_run(given) if isinstance(given, Run) else load_state_file(given)
        given, notes = loaded.result, loaded.notes
    result = given if isinstance(given, ResultData) else _result_of(given, name)
    state = vars(result)["_state"]
    if state is None:
        raise InputError(
            f"{name} must know the state that its numbers came from but is a result without it, such as one that was"
            " read from a file: compare metrics, results of this process, or state files"
        )
    return Side(name, result, state() if callable(state) else state, notes)


def text_run(given: Any) -> Run | None:
    """Returns the run of a stored evaluation of texts, or of the result of one; None of anything else.

    Args:
        given: a model of a comparison.
    """
    run = getattr(given, "run", given)
    return run if isinstance(run, Run) and run.config.get("kind") not in VISION else None


def shared_sides(first: Side, second: Side) -> tuple[Side, Side]:
    """Returns sides whose numbers are of the units that both models have them for.

    A row that failed for one of two models is left out of the mean of the other, too, and counted.

    Args:
        first: one model.
        second: the other.
    """
    found = []
    for side, other in ((first, second), (second, first)):
        kept = side.state.shared(other.state)
        found.append(replace(side, state=kept.state, shared=kept.values, left_out=kept.left_out))
    return found[0], found[1]


def _result_of(given: Any, name: str) -> ResultData:
    result = getattr(given, "result", None)
    if not callable(result):
        raise InputTypeError(f"{name} must be a result, a metric or a state file but is {type(given).__name__}")
    found = result()
    if not isinstance(found, ResultData):
        raise InputTypeError(f"{name} must give a Result but its result() is {type(found).__name__}")
    return found
