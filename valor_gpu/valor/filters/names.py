"""Names that may be mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Collection

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
    near = difflib.get_close_matches(str(name), known, 3)
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise InputError(f"{place} must be one of {', '.join(map(repr, known))} but got {name!r}{meant}")
