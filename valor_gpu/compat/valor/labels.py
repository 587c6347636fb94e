"""Labels: a key, a value and a score; and label maps, whose labels count as another label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError, InputTypeError

Pair = tuple[str, str]
LabelMap: TypeAlias = "Mapping[Label, Label] | Sequence[Any] | None"


@dataclass(unsafe_hash=True)
class Label:
    """A key, a value of that key and, in predictions, a score.

    Args:
        key: name of the attribute, for example ``animal``.
        value: what it is, for example ``cat``.
        score: any real number; kept as a float.

    Raises:
        InputTypeError: a key or a value that is no text, or a score that is no number.
        InputError: a score that no float holds.

    Example:
        >>> Label("animal", "cat") == Label("animal", "cat", score=0.5)
        False
    """

    key: str
    value: str
    score: float | None = None

    def __post_init__(self) -> None:
        if type(self.key) is not str or type(self.value) is not str:
            check_type("Label.key", self.key, str)
            check_type("Label.value", self.value, str)
        if self.score is not None and type(self.score) is not float:
            if not isinstance(self.score, Real):
                raise InputTypeError(f"Label.score must be a number or None but got {self.score!r}")
            try:
                self.score = float(self.score)
            except OverflowError:
                raise InputError("Label.score must be a number of at most 1.8e308 but got a larger one") from None


def read_label_map(label_map: LabelMap) -> dict[Label, Label] | None:
    """The map as valor_core takes it, from there or from the pairs ``[[[key, value], [key, value]], ...]`` of valor.

    Raises:
        InputTypeError: neither of these.
        InputError: a label that becomes two others.

    Example:
        >>> read_label_map([[["class", "tabby"], ["animal", "cat"]]])
        {Label(key='class', value='tabby', score=None): Label(key='animal', value='cat', score=None)}
    """
    if not label_map:
        return None
    try:
        pairs = label_map.items() if isinstance(label_map, Mapping) else label_map
        found = [(_label(source), _label(target)) for source, target in pairs]
    except (TypeError, ValueError):
        raise InputTypeError(
            f"label_map must be a dict of Label to Label, or pairs of [key, value], but got {label_map!r}"
        ) from None
    made: dict[Label, Label] = {}
    for source, target in found:
        if made.setdefault(source, target) != target:
            raise InputError(
                f"label_map must map {source.key}: {source.value} once but maps it to {made[source].key}: "
                f"{made[source].value} and {target.key}: {target.value}"
            )
    return made


def _label(label: Any) -> Label:
    if isinstance(label, Label):
        return Label(label.key, label.value)
    key, value = label
    return Label(key, value)


def pairs_of(label_map: Mapping[Label, Label] | None) -> dict[Pair, Pair]:
    """Returns a label map by (key, value)."""
    return {(a.key, a.value): (b.key, b.value) for a, b in (label_map or {}).items()}


def label_map_of(pairs: Mapping[Pair, Pair]) -> dict[Label, Label] | None:
    """Returns the label map of :func:`pairs_of`; None for an empty one."""
    return {Label(*source): Label(*target) for source, target in pairs.items()} or None
