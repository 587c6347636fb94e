"""Label maps: labels that count as another label, also of another key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor.labels import Label

Pair = tuple[str, str]
LabelMap = Mapping[Label, Label] | Sequence[Any] | None


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


def map_labels(labels: Sequence[Pair], label_map: Mapping[Label, Label] | None) -> tuple[list[Pair], list[int]]:
    """Labels after the map, and for each label before it, which of them it became.

    Args:
        labels: (key, value) of each label.
        label_map: labels that are not in it stay.

    Example:
        >>> map_labels([("c", "a"), ("c", "b")], {Label("c", "a"): Label("c", "b")})
        ([('c', 'b')], [0, 0])
    """
    targets = {(a.key, a.value): (b.key, b.value) for a, b in (label_map or {}).items()}
    codes: dict[Pair, int] = {}
    places = [codes.setdefault(targets.get(label, label), len(codes)) for label in labels]
    return list(codes), places
