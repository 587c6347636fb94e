"""Says how long a regular expression is with its repeats written out, as the compiler of ``regex`` does. No torch."""

from __future__ import annotations

import re

from valor_gpu.errors import InputError

MOST_SIGNS = 100_000
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.?|[^\]\\])*(?:\]|\Z)|\{(\d+)(?:,\d*)?\}|[(){]|[^\\\[{}()]+|.", re.DOTALL)


def check_repeats(pattern: str) -> None:
    """Raises :class:`InputError` for an expression that is too long with its repeats written out.

    Only the least count of a repeat is written out, of ``(ab){3,9}`` three.

    Example:
        >>> check_repeats("[a-z]{2,}-(ab){3}")
    """
    if len(pattern) > MOST_SIGNS:
        raise InputError(f"pattern must have at most {MOST_SIGNS:,} signs but has {len(pattern):,}")
    sizes, last = [0], [0]  # of each open group: all so far, and the last piece, which a repeat is of
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if piece[1] is not None:
            more = last[-1] * (max(int(piece[1]), 1) - 1) if len(piece[1]) < 12 else MOST_SIGNS + 1
            sizes[-1] += more
            last[-1] += more
        elif text == "(":
            sizes.append(0)
            last.append(0)
        elif text == ")" and len(sizes) > 1:
            whole = sizes.pop() + 1
            last.pop()
            sizes[-1] += whole
            last[-1] = whole
        else:
            sizes[-1] += len(text)
            last[-1] = 1
        if max(sizes) > MOST_SIGNS:
            raise InputError(
                f"pattern must have at most {MOST_SIGNS:,} signs with its repeats written out but has more: repeat less"
            )
