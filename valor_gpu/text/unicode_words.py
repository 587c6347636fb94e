"""Words of any script, and texts that a tokenizer of a-z and 0-9 cannot read. No torch."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_SPACELESS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\uaa80-\uaadf"  # Khmer, Tai
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"  # kana, Bopomofo
)
"""Scripts that write no blanks between words."""
_JOINERS = "\u200c\u200d"  # within words of Persian and Indic scripts, and within emoji
_LATIN = re.compile("[a-z0-9]+")


def unicode_words(text: str) -> list[str]:
    """Words of a text of any script, in lower case and composed form (NFC), without punctuation.

    A word is a run of letters, digits and their marks. In scripts that write no blanks between words (Chinese,
    Japanese, Thai, Lao, Khmer, Myanmar) every character with its marks is a word, and so is every symbol and emoji.

    Example:
        >>> unicode_words("Das Café, 今天 2024 👍")
        ['das', 'café', '今', '天', '2024', '👍']
    """
    lower = unicodedata.normalize("NFC", text.lower())
    return (_LATIN if lower.isascii() else _pattern()).findall(lower)


@lru_cache(1)
def _pattern() -> re.Pattern[str]:
    points = [chr(point) for point in range(sys.maxunicode + 1) if point < 0x20000 or 0xE0000 <= point < 0xE0200]
    kinds = [unicodedata.category(character) for character in points]
    marks = _ranges(character for character, kind in zip(points, kinds) if kind[0] == "M")
    symbols = _ranges(character for character, kind in zip(points, kinds) if kind == "So")
    tones = "\U0001f3fb-\U0001f3ff"  # of skin, behind an emoji
    letter = rf"(?:(?![_{_SPACELESS}])[\w{marks}])"
    emoji = rf"[{symbols}][{marks}{tones}]*"
    return re.compile(
        rf"[{_SPACELESS}][{marks}]*|{letter}(?:{letter}|[{_JOINERS}](?={letter}))*|{emoji}(?:\u200d{emoji})*"
    )


def _ranges(characters: Iterable[str]) -> str:
    """Ascending characters as the inside of a set of a regular expression."""
    runs: list[list[str]] = []
    for character in characters:
        if runs and ord(runs[-1][1]) + 1 == ord(character):
            runs[-1][1] = character
        else:
            runs.append([character, character])
    return "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in runs)


def beyond_latin(text: str) -> bool:
    """Whether more than half of the letters of a text are none of a to z, in either case.

    Example:
        >>> beyond_latin("naïve café"), beyond_latin("今天 2024"), beyond_latin("2024")
        (False, True, False)
    """
    if text.isascii():
        return False
    lower = text.lower()
    letters = sum(map(str.isalpha, lower))
    return 2 * sum(map(_is_latin, lower)) < letters


def _is_latin(character: str) -> bool:
    return "a" <= character <= "z"
