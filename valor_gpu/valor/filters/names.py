"""Names that may be mistyped."""

from __future__ import annotations

from collections.abc import Collection

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError


def choose(place: str, name: object, known: Collection[str]) -> str:
    """``name`` where it is known.

    Args:
        place: what is named, for messages.
        name: what was given.
        known: the names that there are.

    Raises:
        InputError: another name; the message has those that look alike.
    """
    if isinstance(name, str) and name in known:
        return name
    raise InputError(f"{place} must be one of {', '.join(map(repr, known))} but got {name!r}{near_names(name, known)}")
