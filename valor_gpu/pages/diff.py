"""Two texts word by word: what the second one adds and leaves out, as markup."""

from __future__ import annotations

import difflib
import re

from valor_gpu.pages.texts import Html, escape, visible

MOST_WORDS = 1500
"""Words of each text that are compared; the time grows with their product."""

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(old: str, new: str) -> Html:
    """The new text with ``ins`` around what it adds, and ``del`` around what the old one had in its place.

    Texts of more than :data:`MOST_WORDS` words (or blanks, or signs) are not compared: the new one is shown as it is.

    Example:
        >>> word_diff("It costs 0.30 a day.", "It costs 0.50 a day.")
        'It costs 0.<del>30</del><ins>50</ins> a day.'
    """
    before, after = _WORDS.findall(visible(old)), _WORDS.findall(visible(new))
    if max(len(before), len(after)) > MOST_WORDS:
        return escape("".join(after))
    parts: list[str] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        gone, come = escape("".join(before[i:j])), escape("".join(after[k:m]))
        if kind == "equal":
            parts.append(come)
        else:
            parts += [f"<del>{gone}</del>" if gone else "", f"<ins>{come}</ins>" if come else ""]
    return Html("".join(parts))
