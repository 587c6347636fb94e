"""Texts of forms: numbers as people type them, and names as hidden fields carry them."""

from __future__ import annotations

import math
import re
import sys

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


_OPEN, _SHUT = "\uf8f0", "\uf8f1"  # of the private use area, so that nobody types them
_CHANGED = re.compile(
    r"^ | $|[^\S ]|[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff]"
    rf"|[\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e007f{_OPEN}{_SHUT}]"
)
_CARRIED = re.compile(f"{_OPEN}([0-9A-F]{{1,6}}){_SHUT}")


def carried(text: str) -> str:
    r"""Returns a text as the value of a field: pages and browsers would change its invisible characters.

    Example:
        >>> carried("f1_score"), read_carried(carried("f1\u202e\n")) == "f1\u202e\n"
        ('f1_score', True)
    """
    return _CHANGED.sub(lambda match: f"{_OPEN}{ord(match[0]):X}{_SHUT}", text)


def read_carried(text: str) -> str:
    """Returns the text that :func:`carried` has made the value of a field; other texts as they are.

    Half a pair of UTF-16 stays as it came, since no address can have it.
    """
    if _OPEN not in text:
        return text
    return _CARRIED.sub(lambda match: _sign(match[0], min(int(match[1], 16), sys.maxunicode)), text)


def _sign(text: str, code: int) -> str:
    return text if 0xD800 <= code < 0xE000 else chr(code)
