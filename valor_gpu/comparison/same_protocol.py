"""Whether two results can be compared: the same metric, protocol and thresholds."""

from __future__ import annotations

from valor_gpu.errors import InputError
from valor_gpu.exports.signature import Signature

_NOTED = ("version",)
"""Choices of a signature that may differ, which is told."""
_OF_MODEL = {"ConformalCoverage": ("threshold",)}
"""Choices by metric that belong to the model, as the threshold that was found on its held-out rows; likewise told."""


def check_protocols(
    first: Signature, second: Signature, names: tuple[str, str] = ("the first", "the second")
) -> list[str]:
    """Raises for the first choice that differs; returns notes on differences that do not matter.

    Args:
        first: of one model.
        second: of the other.
        names: of the models, for messages.

    Raises:
        InputError: a choice of the signatures differs.

    Example:
        >>> old, new = (Signature({"metric": "mAP", "version": version}) for version in ("0.1.0", "0.2.0"))
        >>> check_protocols(old, new)
        ['version: 0.1.0 of the first and 0.2.0 of the second']
    """
    notes, may_differ = [], (*_NOTED, *_OF_MODEL.get(str(first.get("metric")), ()))
    for name in dict.fromkeys((*first, *second)):
        mine, other = first.get(name), second.get(name)
        if mine == other:
            continue
        said = ("none" if each is None else str(each) for each in (mine, other))
        shown = " and ".join(f"{each} of {model}" for each, model in zip(said, names))
        if name not in may_differ:
            raise InputError(f"both sides must be made with the same choices but {name} is {shown}")
        notes.append(f"{name}: {shown}")
    return notes
