"""Porter's suffix stripping with the extensions that rouge_score's stemmer has.

Source: M. F. Porter, "An algorithm for suffix stripping" (1980), with the departures that NLTK lists for its default
mode: irregular words, words of one or two letters as they are, ``-ies`` and ``-ied`` of short words, ``y`` after a
consonant, ``-fulli``, ``-logi``, and short stems of a vowel and a consonant.
"""

from __future__ import annotations

from functools import lru_cache

_IRREGULAR = {
    "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "innings": "inning", "outings": "outing",
    "cannings": "canning",
    **{word: word for word in ("sky", "news", "inning", "outing", "canning", "howe", "proceed", "exceed", "succeed")},
}  # fmt: skip
_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "fulli": "ful",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a word in lower case.

    Example:
        >>> [stem(word) for word in ("running", "flies", "relational", "sky")]
        ['run', 'fli', 'relat', 'sky']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (_plural, _past, _last_y, _double_suffix, _suffix, _long_suffix, _last_e, _last_double):
        word = step(word)
    return word


def _shape(word: str) -> str:
    """The letters as ``c`` and ``v``; ``y`` is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    return _shape(word).count("vc")


def _short_end(word: str) -> bool:
    """Ends in consonant, vowel, consonant other than w, x, y; or is a vowel and a consonant."""
    shape = _shape(word)
    return (shape.endswith("cvc") and word[-1] not in "wxy") or shape == "vc"


def _double_end(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    for suffix in ("ed", "ing"):
        root = word.removesuffix(suffix)
        if root != word and "v" in _shape(root):
            return _mended(root)
    return word


def _mended(root: str) -> str:
    """What ``-ed`` or ``-ing`` left, with the letters that it had taken or doubled."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _double_end(root):
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _measure(root) == 1 and _short_end(root) else root


def _last_y(word: str) -> str:
    if word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        return word[:-1] + "i"
    return word


def _double_suffix(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]):
        return _double_suffix(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) else word
    return _replaced(word, _STEP_2)


def _suffix(word: str) -> str:
    return _replaced(word, _STEP_3)


def _replaced(word: str, suffixes: dict[str, str]) -> str:
    """The first suffix of the table that fits decides."""
    for suffix, other in suffixes.items():
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            return root + other if _measure(root) else word
    return word


def _long_suffix(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            stays = _measure(root) < 2 or (suffix == "ion" and root[-1] not in "st")
            return word if stays else root
    return word


def _last_e(word: str) -> str:
    if not word.endswith("e"):
        return word
    root = word[:-1]
    goes = _measure(root) > 1 or (_measure(root) == 1 and not _short_end(root))
    return root if goes else word


def _last_double(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
