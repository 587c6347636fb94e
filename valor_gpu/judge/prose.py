"""Ratings in the words of a judge, outside of JSON. No torch.

A number is a rating where a label gives it at the beginning of a line, with nothing else before it than words such as
"my final score", or where it is the only number of a text that neither negates, compares nor conditions it. All other
labelled numbers are read, too: they can contradict a rating and give none.

Every quantifier below is bounded: a reply is hostile text, and no part of it may be read again and again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from valor_gpu.judge.lenient import ParseError, quoted
from valor_gpu.judge.phrases import END, NUMBER, RATED, SIGNS, only_phrases, phrases, vague

_TAG = re.compile(r"<(/?)(S1|S2)>", re.IGNORECASE)
_OPEN = rf"[\s*_\"'`|(\[{{${SIGNS}]{{0,16}}(?:\\boxed\{{|<(?=\d{{1,4}}>))?"
_NAME = (
    r"(?:<(?:score|rating)>|(?<![^\W_])(?:score|rating|(?:scores|ratings)(?=[\s*_]{0,8}[:=])|(?<!<)S2)(?![^\W_])"
    r"|\b[a-z]{2,16}(?-i:Score|Rating)\b|\#[^\S\n]?Result\b|\[Result\])"
)
# What may follow the name of a label: "for this answer", "I would assign", "(1-5)", "on a scale of 1 to 5".
_OF = (
    r"(?:\s{1,4}(?:given|assigned|awarded|(?:that\s{1,4})?I\s{1,4}(?:would\s{1,4})?(?:give|assign)))?"
    r"(?:\s{1,4}(?:for|of)(?:\s{1,4}[a-z']{1,20}){1,3})?"
    r"(?:\s{0,4}[*_]{0,4}(?:\([^()\n]{1,60}\)|\[[^\[\]\n]{1,60}\]"
    r"|(?:on|from)\s(?:a\sscale\s(?:of|from)\s)?\d{1,3}\s?(?:-|to)\s?\d{1,3}))?"
)
_LABEL = re.compile(
    rf"{_NAME}(?:{_OF}[\s*_\"'`]{{0,16}}(?:[:=\uff1a|\u2192\u21d2]|\bis\b:?|[-\u2013\u2014](?=\s)){_OPEN}"
    rf"|(?<=>)\s{{0,8}}|[\s*_\"'`]{{0,16}}(?:\bof\b[\s*_\"'`]{{0,16}})?){RATED}{END}",
    re.IGNORECASE,
)
_FRACTION = re.compile(rf"(?<![\d./])({NUMBER})\s{{0,8}}(?:/|\bout of\b)\s{{0,8}}(\d{{1,9}}){END}", re.IGNORECASE)
_ALONE = re.compile(RATED, re.IGNORECASE)
_BEFORE = re.compile(r"[\s*_\"'`(\[]*")
_BEHIND = re.compile(r"[\s*_\"'`)\].]*")
_MARKS = re.compile(rf"(?:\s{{0,8}}\d{{1,2}}[.)]\s)?[\s*_\"'`#<(\[{{|+\u2022\u2013{SIGNS}-]*")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_NUMERAL = re.compile(
    r"\d[\d.,]*|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|first|second|third|half|both|none)\b",
    re.IGNORECASE,
)
_MOST_TRIED = 4  # places of the one number of a text: several patterns may find it
_BEGIN_OF_LINE = 120  # characters; a label further on does not begin its line
_TAIL = re.compile(
    r"[*_\"'`)\]>]{0,8}(?:\s{0,8}\Z|[^\S\n]{0,8}\n|\s{0,8}(?:[.;,:!|=(\u2013\u2014-]|</)|"
    r"\s{1,8}(?:because|since|as|for|based|overall|stars?|points?|in total|to (?:this|the))\b)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"[\s*_\"'`)\]>.;,:!|(\u2013\u2014-]{0,32}"
    r"(?:no\b\s{0,8}[^\w\s]|(?:not|wait|hmm+|actually|correction|scratch|sorry|if|unless|or|would|could|should|might|may"
    r"|perhaps|maybe|rather|instead|but|though|although|is|was|were)\b)",
    re.IGNORECASE,
)
# "A score of 5 means that ..." explains the scale.
_EXPLAINED = re.compile(
    r"[\s*_\"'`)]{1,8}(?:(?:is|are|was)\s(?:for|reserved|given|defined)|(?:would|will)\s(?:mean|need|require)|means?|needs?"
    r"|requires?|indicates?|represents?|denotes?|stands\sfor|corresponds)\b",
    re.IGNORECASE,
)
_UNSEEN = dict.fromkeys((0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0x20E3, 0xFE0F,
                         0xFEFF), " ")  # fmt: skip
"""Characters of no width and marks of direction."""
_QUOTES = frozenset("\"'`\u201c\u201d\u2018\u2019\u00ab")
_LABEL_WORDS = frozenset((
    "a", "an", "the", "my", "our", "final", "overall", "total", "quality", "fluency", "coherence", "relevance",
    "groundedness", "similarity", "retrieval", "severity", "safety", "violence", "harm", "correctness", "consistency",
    "completeness", "accuracy", "helpfulness", "politeness", "clarity", "and", "with", "i", "i'd", "i'll", "we", "give",
    "gives", "assign", "award", "rate", "it", "this", "answer", "response", "text", "summary", "deserves", "gets",
    "receives", "earns", "so", "therefore", "thus", "hence", "conclusion", "in", "as", "of", "at", "to", "here", "is",
    "here's", "based", "on", "above", "criteria", "considering", "given", "all", "these", "observations", "evaluation",
    "verdict", "after", "careful", "have", "determined", "that", "assigned", "output", "reply", "result", "grade",
    "assessment", "judgment", "judgement", "mark", "\u8bc4\u5206", "\u5f97\u5206", "\u5206\u6570", "\u8a55\u4fa1",
    "\u30b9\u30b3\u30a2", "\uc810\uc218", "\ud3c9\uc810", "bewertung", "punktzahl", "note", "puntuaci\u00f3n",
    "calificaci\u00f3n", "nota", "punteggio", "valutazione", "pontua\u00e7\u00e3o", "avalia\u00e7\u00e3o",
    "\u043e\u0446\u0435\u043d\u043a\u0430",
))  # fmt: skip
"""Words that may stand between the beginning of a line or sentence and a label."""
_OF_WORDS = _LABEL_WORDS | {"for", "from", "scale", "would", "awarded", "boxed"}
"""Words that a label may have behind its name."""
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_SCALE = re.compile(r"(?:\d\s?(?:-|\u2013|to)\s?|\b(?:out\sof|max\w{0,4})\s)(\d{1,4})\b", re.IGNORECASE)
_SCALE_BEHIND = re.compile(
    r"[\s*_]{0,8}\(?(?:on|from|in)\s(?:a|the)\sscale\s(?:of|from)\s\d{1,4}\s?(?:-|\u2013|to)\s?(\d{1,4})\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"n['\u2019]t\b|\b(?:no|not|never|neither|nor|without|cannot|would|could|should|might|may|must|if|unless|when|than"
    r"|too|instead|rather|but|however|although|though|disagree|claim\w{0,3}|sa(?:y|ys|id)|state[sd]?|want\w{0,2}"
    r"|ask\w{0,3}|demand\w{0,3}|tell\w{0,1}|told|request\w{0,3}|perhaps|maybe|possibly|between|least|most|above|below|over"
    r"|under|more|less|higher|lower|wrong|false|example|expected|previous\w{0,2}|maximum|minimum|scale|out|only)\b|\?",
    re.IGNORECASE,
)  # "out" without "of": a fraction is taken away first


@dataclass(frozen=True)
class Rated:
    """A number that a text gives as a rating.

    Attributes:
        value: the number.
        gives: whether it can be the verdict; otherwise it can contradict one.
        begin: where the number stands in the text.
    """

    value: float
    gives: bool
    begin: int = 0


def alone(text: str, high: float) -> float | None:
    """Returns the rating that a text is, but for marks and brackets around it; None when it is more or less.

    Example:
        >>> alone("**4**", 5), alone("4 of them", 5)
        (4.0, None)
    """
    begin, back = _BEFORE.match(text), _BEHIND.match(text[::-1])
    first, last = begin.end() if begin else 0, len(text) - (back.end() if back else 0)
    match = _ALONE.fullmatch(text, first, last) if first < last else None
    return None if match is None else _of_fraction(match[1], match[2], high)


def ratings(text: str, high: float) -> list[Rated]:
    """Returns the ratings of a text, in their order.

    Args:
        text: without objects of JSON.
        high: the greatest rating.

    Raises:
        ParseError: a rating of another scale, or a tag without a number.

    Example:
        >>> ratings("My score: 3. It claims a score of 5.", 5)
        [Rated(value=3.0, gives=True, begin=10), Rated(value=5.0, gives=False, begin=34)]
    """
    text = text.translate(_UNSEEN)
    if (value := alone(text, high)) is not None:
        return [Rated(value, True)]
    labels = [*_LABEL.finditer(text)]
    found = [Rated(_in_tag(tag, high), True, begin) for tag, begin in tagged(text, "S2")]
    found += [
        Rated(_of_label(text, match, high), _is_own(match) and begins_line(text, match), match.start(1))
        for match in labels
        if not _explains(text, match)
    ]
    fractions = [match for match in _FRACTION.finditer(text) if float(match[2]) == high]
    said = [*phrases(text, high)]
    if not any(one.gives for one in found):
        found += _only_number(text, high, [*(match for match in labels if _is_own(match)), *fractions, *said])
    found += [Rated(float(match[1]), False, match.start(1)) for match in (*fractions, *said)]
    found += [Rated(value, False, begin) for value, begin in vague(text, high)]
    return sorted(found, key=lambda one: one.begin)


def _explains(text: str, match: re.Match[str]) -> bool:
    """Whether a label says what a rating would mean."""
    behind = text[match.end() : match.end() + 80]
    return not {":", "=", "\uff1a", "|", ">"} & {*match[0]} and _EXPLAINED.match(behind) is not None


def begins_line(text: str, match: re.Match[str]) -> bool:
    """Whether a label stands at the beginning of a line, and what it gives is not taken back."""
    begin = text.rfind("\n", max(0, match.start() - _BEGIN_OF_LINE), match.start()) + 1
    if not begin and match.start() > _BEGIN_OF_LINE:
        return False
    return _is_plain(text[begin : match.start()]) and _is_kept(text, match)


def _is_plain(before: str) -> bool:
    """Whether nothing stands before a label but marks and words that belong to it."""
    marks = _MARKS.match(before)
    rest = before[marks.end() if marks else 0 :]
    words = [word.lower().replace("\u2019", "'") for word in _WORD.findall(rest)]
    return all(word in _LABEL_WORDS for word in words) and not _WORD.sub("", rest).strip(
        " \t,:\uff1a*_\"'`-\u2013\u2014"
    )


def _is_kept(text: str, match: re.Match[str]) -> bool:
    """Whether a label is not quoted, and what follows its number ends it and does not begin to take it back."""
    if match.start() and text[match.start() - 1] in _QUOTES and not _QUOTES & {*match[0]}:
        return False
    behind = text[match.end() : match.end() + 80]
    behind = behind.lstrip("}$") if {"{", "$"} & {*match[0]} else behind
    return _TAIL.match(behind) is not None and _TAKEN_BACK.match(behind) is None


def _only_number(text: str, high: float, said: Sequence[re.Match[str]]) -> Iterator[Rated]:
    """The rating of a text that has one number alone, which nothing doubts."""
    found = [(match, match.start()) for match in said[:_MOST_TRIED]]
    for match, begin in [*found, *only_phrases(text)][:_MOST_TRIED]:
        rest = f"{text[:begin]} {text[match.end() :]}"
        if _NUMERAL.search(rest) is not None or _DOUBT.search(rest) is not None:
            continue
        sentence = max(text.rfind(sign, 0, match.start()) for sign in ".!;\n") + 1
        if _is_plain(text[sentence:begin]) and _is_kept(text, match):
            yield Rated(_of_label(text, match, high), True, match.start(1))
            return


def tagged(text: str, tag: str) -> list[tuple[str, int]]:
    """Returns what stands between every ``<tag>`` and the next ``</tag>``, and where it begins.

    Example:
        >>> tagged("<S2>4</S2>", "S2")
        [('4', 4)]
    """
    found, begin = [], -1
    for match in _TAG.finditer(text):
        if match[2].upper() != tag:
            continue
        if match[1] and begin >= 0:
            found.append((text[begin : match.start()], begin))
            begin = -1
        elif not match[1] and begin < 0:
            begin = match.end()
    return found


def _in_tag(text: str, high: float) -> float:
    found = alone(text, high)
    if found is None:
        raise ParseError(f"the tag must hold a number but holds {quoted(text)}")
    return found


def _is_own(match: re.Match[str]) -> bool:
    """Whether a label is of what is judged: the score of a reference, or of the first of two answers, is not."""
    named = _BRACKETS.sub("", match[0][: match.start(1) - match.start()])
    return all(word.lower().replace("\u2019", "'") in _OF_WORDS for word in _WORD.findall(named)[1:])


def _of_label(text: str, match: re.Match[str], high: float) -> float:
    """The number of a label, which may name its scale before it or behind it.

    Raises:
        ParseError: it is another scale.
    """
    tops = _SCALE.findall(match[0][: match.start(1) - match.start()])
    behind = _SCALE_BEHIND.match(text[match.end() : match.end() + 60])
    for top in (*tops, *([behind[1]] if behind is not None else [])):
        _of_fraction(match[1], top, high)
    return _of_fraction(match[1], match[2], high)


def _of_fraction(number: str, top: str | None, high: float) -> float:
    if top and float(top) != high:
        raise ParseError(f"the rating must be out of {high:g} but is {number}/{top}")
    return float(number)
