"""Ratings that prose gives without a label such as ``Score:``. No torch.

They can contradict a rating; a text without any other number is rated by them. Every quantifier is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from valor_gpu.judge.lenient import PLACEHOLDER

NUMBER = r"[-+]?\d{1,15}(?:\.\d{1,15})?"
# Not a part of a longer number, of a range, of several numbers, of a correction, or a percentage.
_MORE = r"to|or|and|-|\u2013|->|\u2192|,|\?\s{0,8}no\b\W{0,8}"
END = rf"(?![\d.,/*_]{{0,8}}\d|[eE][-+]?\d|[\s*_]{{0,8}}(?:{_MORE})[\s*_]{{0,8}}\d|\s{{0,8}}%)"
RATED = rf"({NUMBER})(?:[\s*_()\]]{{0,8}}(?:/|\bout of\b)[\s*_]{{0,8}}(\d{{1,9}}))?"
SIGNS = "\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff"
"""Stars, ticks and other pictures, for a set of a pattern."""
_CLOSED = (
    r"(?=[*_\"'`)\]}$]{0,8}(?:\s{0,8}\Z|[^\S\n]{0,8}\n|[.;,:!)](?!\d)"
    r"|\s{1,8}(?:because|since|as|for|overall|stars?|points?|to\s(?:this|the))\b))"
)
_GIVEN = re.compile(
    r"\b(?:I|we)(?:['\u2019](?:d|ll|ve)\b)?(?:\s{1,4}(?:would|will|have|think|therefore|thus|hereby|rather|also))?"
    r"\s{1,4}(?:give|gave|given|rate|rated|score|scored|assign|assigned|award|awarded|say|grade)"
    r"(?:\s{1,4}(?:it|this|that|the|an?|at|as|with|to|of|answer|response|reply|text|summary|output|one|score|rating|grade"
    rf"|mark|overall|solid|strong|only)){{0,7}}\s{{1,4}}[*_\"'`(\[]{{0,8}}{RATED}{END}{_CLOSED}",
    re.IGNORECASE,
)
_BEING = re.compile(
    rf"\b(?:it|this|that|answer|response)(?:['\u2019]s|\s{{1,4}}is|\s{{1,4}}deserves|\s{{1,4}}gets|\s{{1,4}}earns)"
    rf"\s{{1,4}}an?\s{{1,4}}[*_]{{0,4}}{RATED}{END}{_CLOSED}",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:^|[.!?;])[\s*_#>-]{0,8}(?:my\s|the\s|final\s|overall\s){0,3}(?:verdict|grade|judge?ment|assessment|decision|final|overall)"
    rf"[\s*_]{{0,8}}[:=\uff1a][\s*_\[(]{{0,8}}{RATED}{END}{_CLOSED}",
    re.IGNORECASE | re.MULTILINE,
)
_LINE = re.compile(
    rf"^[^\S\n]{{0,8}}[*_#\"'`(\[]{{0,8}}\s?{RATED}{END}[*_\"'`)\].]{{0,8}}[^\S\n]{{0,8}}$", re.MULTILINE
)
_FIRST = re.compile(rf"\s{{0,8}}[*_]{{0,4}}{RATED}{END}(?=[*_]{{0,4}}(?:\s{{0,8}}[-\u2013\u2014:]\s|[.]?\s{{0,8}}\n))")
_BOXED = re.compile(rf"\\boxed\{{\s{{0,4}}{RATED}\s{{0,4}}\}}")
# One heading alone: "Fluency: 4", also where it is written in another language.
_WHOLE = re.compile(
    rf"[\s*_#]{{0,8}}(?:[^\W\d_]{{1,30}}[\s_]{{0,4}}){{1,4}}[*]{{0,4}}[:=\uff1a][\s*_]{{0,8}}{RATED}{END}[*_.\s]{{0,8}}"
)
_NEAR = 12  # characters around a line in which blank lines are looked for
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORD = "|".join(_WORDS)
_SPELT = re.compile(
    rf"\b(?:score|rating)[\s*_]{{0,8}}(?:[:=\uff1a]|\bis\b|\bof\b)[\s*_]{{0,8}}({_WORD})\b"
    rf"|\b({_WORD}|\d{{1,2}})\s{{1,4}}out\s{{1,4}}of\s{{1,4}}({_WORD})(?=[*_]{{0,4}}\s{{0,4}}(?:[.;,:!)\n]|\Z))",
    re.IGNORECASE,
)
# "Score: 20%", "Rating: 1-5"; and what judges of exercises write about the judged text, too, "Final answer: 4".
_OTHER = re.compile(
    r"(?:^|[.!?;])[\s*_#>-]{0,8}(?:my\s|the\s|final\s|overall\s|actual\s|correct\s){0,3}"
    rf"(?:(?:score|rating)[\s*_]{{0,8}}[:=\uff1a][\s*_]{{0,8}}{NUMBER}"
    r"(?:\s{0,8}%|[\s*_]{0,8}(?:to|or|and|-|\u2013|,)[\s*_]{0,8}(\d{1,9}))"
    r"|(?:answer|results?|points?|marks?|value)[\s*_]{0,8}(?:[:=\uff1a]|\bis\b)"
    rf"[\s*_\[(]{{0,8}}{RATED}{END}{_CLOSED})",
    re.IGNORECASE | re.MULTILINE,
)


def phrases(text: str, high: float) -> Iterator[re.Match[str]]:
    """Yields where a text gives a number up to ``high`` in words that can mean nothing but a rating.

    Example:
        >>> [match[1] for match in phrases("I would give it a 4.", 5)]
        ['4']
    """
    for pattern in (_GIVEN, _BEING, _NAMED, _LINE):
        for match in pattern.finditer(text):
            if float(match[1]) <= high and (pattern is not _LINE or _is_paragraph(text, match)):
                yield match


def _is_paragraph(text: str, match: re.Match[str]) -> bool:
    """Whether a line is a paragraph of its own; the first and the last line need a blank line on one side alone."""
    before, behind = text[max(0, match.start() - _NEAR) : match.start()], text[match.end() : match.end() + _NEAR]
    first, last = match.start() <= _NEAR and not before.strip(), match.end() + _NEAR >= len(text) and not behind.strip()
    above = first or before[len(before.rstrip()) :].count("\n") > 1 or before.rstrip()[-1:] == PLACEHOLDER
    below = last or behind[: -len(behind.lstrip()) or None].count("\n") > 1 or behind.lstrip()[:1] == PLACEHOLDER
    return (above or last) and (below or first)


def only_phrases(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yields where a text gives a number in words that mean a rating where no other number is in the text.

    With each comes the place up to which the text must hold nothing but words of a label.

    Example:
        >>> [(match[1], begin) for match, begin in only_phrases("Fluency: 4")]
        [('4', 9)]
    """
    for match in (_FIRST.match(text), _WHOLE.fullmatch(text)):
        if match is not None:
            yield match, match.start(1)
    if PLACEHOLDER not in text:  # beside a verdict it may be quoted mathematics
        yield from ((match, match.start()) for match in _BOXED.finditer(text))


def vague(text: str, high: float) -> Iterator[tuple[float, int]]:
    """Yields what may be a rating of a text: words, "final answer: 4", NaN for ranges and percentages; and where.

    Example:
        >>> list(vague("Score: two", 5)), list(vague("Score: 1-2", 5))
        ([(2.0, 0)], [(nan, 0)])
    """
    for match in _SPELT.finditer(text):
        word = (match[1] or match[2]).lower()
        if match[3] and _WORDS.index(match[3].lower()) != high:
            continue
        yield float(_WORDS.index(word) if word in _WORDS else word), match.start()
    for match in _OTHER.finditer(text):
        if match[2] is not None and float(match[2]) <= high:
            yield float(match[2]), match.start()
        elif match[2] is None and (match[1] is None or float(match[1]) != high):  # "Rating: 1-5" is the scale
            yield float("nan"), match.start()
