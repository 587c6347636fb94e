"""What a place in a text says about what stands there: in a code fence, in quotes, or by itself. No torch."""

from __future__ import annotations

import re
from collections.abc import Sequence

STANDS, FENCED, QUOTED = 2, 1, 0
"""How much a value counts: it gives the verdict; only where nothing else does; never, but it can contradict one."""
_SIGN = re.compile('[\n"`\u201c\u201d\u00ab\u00bb]')
PAIRS = {'"': '"', "`": "`", "\u201c": "\u201d", "\u00ab": "\u00bb"}
"""Quotation marks, the closing one by the opening one."""
_OPENING = {"\u201d": "\u201c", "\u00bb": "\u00ab"}


class InOrder:
    """Whether places lie in spans; both come in their order."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self._spans, self._number = spans, 0

    def holds(self, position: int) -> bool:
        """Whether a place, not before the last one that was asked for, lies in a span."""
        while self._number < len(self._spans) and self._spans[self._number][1] <= position:
            self._number += 1
        return self._number < len(self._spans) and self._spans[self._number][0] <= position


class Places:
    """Places of a text, which are asked for in their order, so that all of them take one pass.

    A place is in quotes where a mark before it is open, in its line or in the whole text, and is closed behind it.

    Args:
        prose: the text without its objects.
        fences: where code fences begin and end in it; marks in them open nothing outside.

    Example:
        >>> places = Places('a "b" c', ())
        >>> places.weight(3) == QUOTED, places.weight(6) == STANDS
        (True, True)
    """

    def __init__(self, prose: str, fences: Sequence[tuple[int, int]]) -> None:
        self._prose, self._fences = prose, fences
        self._fenced = InOrder(fences)
        self._signs: list[re.Match[str]] | None = None
        self._number = self._begin = 0
        self._in_line: dict[str, bool] = {}
        self._in_text: dict[str, bool] = {}

    def _prepare(self) -> list[re.Match[str]]:
        """Looks for quotation marks, which takes time: most texts have no place that is asked for."""
        fenced = InOrder(self._fences)
        signs = [match for match in _SIGN.finditer(self._prose) if match[0] == "\n" or not fenced.holds(match.start())]
        self._last = {match[0]: match.start() for match in signs}
        self._following: list[frozenset[str]] = []  # signs that follow in the line, by the number of the next sign
        following: frozenset[str] = frozenset()
        for match in reversed(signs):
            self._following.append(following)
            if match[0] == "\n":
                following = frozenset()
            elif match[0] not in following:
                following |= {match[0]}
        self._following.append(following)
        self._following.reverse()
        self._signs = signs
        return signs

    def weight(self, position: int) -> int:
        """How much a value counts that stands at ``position``."""
        self._go_to(position, self._prepare() if self._signs is None else self._signs)
        mail = self._begin < position and self._prose[self._begin : self._begin + 4].lstrip().startswith(">")
        if mail or self._fenced.holds(position):
            return FENCED
        follows = self._following[self._number]
        here = any(opened and PAIRS[sign] in follows for sign, opened in self._in_line.items())
        there = any(opened and self._last.get(PAIRS[sign], -1) >= position for sign, opened in self._in_text.items())
        return QUOTED if here or there else STANDS

    def _go_to(self, position: int, signs: Sequence[re.Match[str]]) -> None:
        while self._number < len(signs) and signs[self._number].start() < position:
            match = signs[self._number]
            self._number += 1
            if match[0] == "\n":
                self._begin, self._in_line = match.end(), {}
                continue
            for opened in (self._in_line, self._in_text):
                sign = _OPENING.get(match[0], match[0])
                opened[sign] = match[0] in PAIRS and not (PAIRS[sign] == sign and opened.get(sign, False))
