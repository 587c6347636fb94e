"""Two texts word by word: what the second one adds and leaves out, as markup."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from valor_gpu.pages.texts import Html, escape, visible

MOST_PAIRS = 20_000
"""Pairs of equal words, one of each text, that are compared at once; the time grows with them."""
MOST_WORDS = 1_500
"""Words of each text that are compared at once."""
_DEEPEST = 12
"""How often a part between words that both texts have once is divided again."""
_RUN = 8
"""Words of a run that divides texts without a word that both have once, such as texts of few signs."""
_BLANKS = str.maketrans({" ": "␣", "\t": "⇥", "\n": "↵\n"})

# Thai to Myanmar, Khmer, Chinese, Japanese: words have no spaces between them, so each sign stands alone, with its
# marks.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3\u3099\u309a"
_WORDS = re.compile(rf"[{_UNSPACED}][{_MARKS}]*|(?:(?![{_UNSPACED}])\w)+|\s+|[^\w\s]")

Words = Sequence[str]


class Part(NamedTuple):
    """A part of two texts.

    Attributes:
        old: what the first text has here.
        new: what the second one has; the same words where nothing changed.
        compared: whether the words of a part that changed were compared; else it was too long for that.
    """

    old: str
    new: str
    compared: bool = True


def changed_parts(old: str, new: str) -> list[Part]:
    """Divides two texts into parts that are equal and parts that changed.

    Words that both texts have once, in one order, divide long texts first, so that texts of 50,000 words take a
    fraction of a second. A part of more than :data:`MOST_WORDS` words, or of so equal ones that they have more than
    :data:`MOST_PAIRS` pairs, which no such word divides, is not compared word by word.

    Args:
        old: the first text.
        new: the second text.

    Returns:
        The parts in order; all ``old`` together are the first text, all ``new`` the second one, with their invisible
        characters made visible.

    Source: Bram Cohen's patience diff for the words that divide; :mod:`difflib` between them.

    Example:
        >>> [(part.old, part.new) for part in changed_parts("It costs 0.30.", "It costs 0.50.")]
        [('It costs 0.', 'It costs 0.'), ('30', '50'), ('.', '.')]
    """
    before, after = _WORDS.findall(visible(old)), _WORDS.findall(visible(new))
    found: list[Part] = []
    for part in _divided(before, after, _DEEPEST):
        is_equal = part.old == part.new
        if found and is_equal == (found[-1].old == found[-1].new):
            last = found.pop()
            part = Part(last.old + part.old, last.new + part.new, last.compared and part.compared)
        found.append(part)
    return found


def word_diff(old: str, new: str) -> Html:
    """The new text with ``ins`` around what it adds, and ``del`` around what the old one had in its place.

    Blanks that were added or taken away alone are shown as signs.

    Args:
        old: the first text.
        new: the second text.

    Example:
        >>> word_diff("It costs 0.30 a day.", "It costs 0.50 a day.")
        'It costs 0.<del>30</del><ins>50</ins> a day.'
    """
    return inline(changed_parts(old, new))


def inline(parts: Sequence[Part]) -> Html:
    """Parts as one text: what went in ``del``, what came in ``ins``."""
    return Html(
        "".join(
            escape(each.new) if each.old == each.new else _marked("del", each.old) + _marked("ins", each.new)
            for each in parts
        )
    )


def side(parts: Sequence[Part], which: str) -> Html:
    """One of both texts, with what the other one lacks marked.

    Args:
        parts: as of :func:`changed_parts`.
        which: ``old``, whose changes are in ``del``, or ``new``, whose changes are in ``ins``.
    """
    mark = "del" if which == "old" else "ins"
    texts = ((each, getattr(each, which)) for each in parts)
    return Html("".join(escape(text) if each.old == each.new else _marked(mark, text) for each, text in texts))


def _marked(mark: str, text: str) -> str:
    shown = text.translate(_BLANKS) if text.isspace() else text
    return f"<{mark}>{escape(shown)}</{mark}>" if text else ""


def _divided(before: Words, after: Words, depth: int) -> Iterator[Part]:
    """Parts of two lists of words, perhaps several equal or changed ones after another."""
    start = _common(before, after)
    end = _common(before[: start - len(before) - 1 : -1], after[: start - len(after) - 1 : -1])
    if start:
        yield _equal(before[:start])
    middle = before[start : len(before) - end], after[start : len(after) - end]
    if any(middle):
        yield from _middle(*middle, depth)
    if end:
        yield _equal(before[len(before) - end :])


def _common(before: Words, after: Words) -> int:
    """How many words both begin with."""
    return next((n for n, (one, two) in enumerate(zip(before, after)) if one != two), min(len(before), len(after)))


def _middle(before: Words, after: Words, depth: int) -> Iterator[Part]:
    """Parts of words that begin and end in another way."""
    if not before or not after:
        yield Part("".join(before), "".join(after))
    elif max(len(before), len(after)) <= MOST_WORDS and _pairs(before, after) <= MOST_PAIRS:
        matcher = difflib.SequenceMatcher(str.isspace, before, after, autojunk=False)
        for _, i, j, k, m in matcher.get_opcodes():
            yield Part("".join(before[i:j]), "".join(after[k:m]))
    elif depth and (shared := _dividing(before, after)):
        i = k = 0
        for j, m in [*shared, (len(before), len(after))]:
            yield from _divided(before[i:j], after[k:m], depth - 1)
            if j < len(before):
                yield _equal(before[j : j + 1])
            i, k = j + 1, m + 1
    else:
        yield Part("".join(before), "".join(after), compared=False)


def _equal(words: Words) -> Part:
    text = "".join(words)
    return Part(text, text)


def _dividing(before: Words, after: Words) -> list[tuple[int, int]]:
    """Places of words that both have once; where no word is, of runs of :data:`_RUN` words."""
    found = _in_one_order(_places_of_words(before), _places_of_words(after))
    return found or _in_one_order(_places_of_runs(before), _places_of_runs(after))


def _places_of_words(words: Words) -> dict[Hashable, int]:
    """Places of the words that stand once in a list; blanks are none."""
    times = Counter(words)
    return {word: place for place, word in enumerate(words) if times[word] == 1 and not word.isspace()}


def _places_of_runs(words: Words) -> dict[Hashable, int]:
    """Places of the runs of words that stand once in a list."""
    runs = list(zip(*(words[n:] for n in range(_RUN))))
    times = Counter(runs)
    return {run: place for place, run in enumerate(runs) if times[run] == 1}


def _in_one_order(before: Mapping[Hashable, int], after: Mapping[Hashable, int]) -> list[tuple[int, int]]:
    """The longest list of places in both texts that rise in both."""
    pairs = [(place, after[key]) for key, place in before.items() if key in after]
    ends: list[int] = []
    last: list[int] = []
    behind = [-1] * len(pairs)
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        behind[number] = last[length - 1] if length else -1
        ends[length : length + 1], last[length : length + 1] = [place], [number]
    found, number = [], last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = behind[number]
    return found[::-1]


def _pairs(before: Words, after: Words) -> int:
    """Pairs of equal words that :mod:`difflib` looks at; blanks are none."""
    counts = Counter(after)
    return sum(n * counts[word] for word, n in Counter(before).items() if not word.isspace())


def line_diff(unified: str) -> Html:
    r"""A unified diff with each line in an element of its own: ``add`` for what came, ``gone`` for what went.

    Args:
        unified: as of :func:`difflib.unified_diff`; its two lines of headings are left out.

    Example:
        >>> line_diff("--- a\n+++ b\n@@ -1 +1 @@\n-old <b>\n+new")
        '@@ -1 +1 @@\n<span class="gone">-old &lt;b&gt;</span><span class="add">+new</span>'
    """
    lines = unified.split("\n")
    parts = []
    for line in lines[2:] if lines[0].startswith("--- ") else lines:
        kind = {"+": "add", "-": "gone"}.get(line[:1])
        shown = escape(visible(line))
        parts.append(f'<span class="{kind}">{shown}</span>' if kind else f"{shown}\n")
    return Html("".join(parts).rstrip("\n"))
