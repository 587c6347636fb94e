"""Numbers as people type them into forms."""

from __future__ import annotations

import math
import re

_THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?")


def typed_number(text: str) -> float:
    """Returns the number of a text, with a point or a comma before its decimals; NaN where it is no finite number.

    A text such as ``1,000`` is a thousand to some and one to others, so it counts as no number.

    Example:
        >>> typed_number(" 2,5 "), typed_number("2.5"), typed_number("1,000"), typed_number("0,125")
        (2.5, 2.5, nan, 0.125)
    """
    text = text.strip()
    if _THOUSANDS.fullmatch(text):
        return math.nan
    try:
        found = float(text.replace(",", "."))
    except ValueError:
        return math.nan
    return found if math.isfinite(found) else math.nan
