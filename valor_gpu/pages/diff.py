"""Two texts word by word: what the second one adds and leaves out, as markup."""

from __future__ import annotations

import difflib
import re
from collections import Counter

from valor_gpu.pages.texts import Html, escape, visible

MOST_WORDS = 1500
"""Words of each text that are compared; the time grows with their product."""
MOST_PAIRS = 50_000
"""Pairs of equal words, one of each text, that are compared: two texts of one word repeated take minutes."""

_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")  # blanks belong to the word before, else half of all words are equal


def word_diff(old: str, new: str) -> Html:
    """The new text with ``ins`` around what it adds, and ``del`` around what the old one had in its place.

    Texts of more than :data:`MOST_WORDS` words (or signs), or of so equal ones that they have more than
    :data:`MOST_PAIRS` pairs, are not compared: the new one is shown as it is.

    Example:
        >>> word_diff("It costs 0.30 a day.", "It costs 0.50 a day.")
        'It costs 0.<del>30</del><ins>50</ins> a day.'
    """
    before, after = _WORDS.findall(visible(old)), _WORDS.findall(visible(new))
    if max(len(before), len(after)) > MOST_WORDS or _pairs(before, after) > MOST_PAIRS:
        return escape("".join(after))
    parts: list[str] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        gone, come = "".join(before[i:j]), "".join(after[k:m])
        if kind == "equal":
            parts.append(escape(come))
            continue
        blanks = gone[len(gone.rstrip()) :]
        shared = blanks if gone and come and blanks == come[len(come.rstrip()) :] else ""
        for tag, text in (("del", gone), ("ins", come)):
            parts += [f"<{tag}>{escape(text.removesuffix(shared))}</{tag}>"] if text else []
        parts.append(shared)
    return Html("".join(parts))


def _pairs(before: list[str], after: list[str]) -> int:
    counts = Counter(after)
    return sum(n * counts[word] for word, n in Counter(before).items())


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
