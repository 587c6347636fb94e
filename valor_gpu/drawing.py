"""What all pictures share: axes, sizes, colours with dashes, and texts that draw whatever they hold.

Importing it loads no matplotlib.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

GREY = "0.72"
GRID: dict[str, Any] = {"color": "0.9", "linewidth": 0.8}
"""A light colour in place of transparency, which PostScript does not have."""

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# Okabe and Ito's palette for colour-blind readers, without black (means) and yellow (too pale for lines on white).
_DASHES: tuple[Any, ...] = ("solid", (0, (6, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))

_CONTROL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # drawn as escapes: control and format characters, surrogates, line breaks
_WIDE_FONTS = ("noto sans cjk", "noto serif cjk", "source han", "wenquanyi", "droid sans fallback", "unifont")


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of one of several lines: the first twelve differ in the pair, neighbours in both."""
    return {"color": _COLORS[index % len(_COLORS)], "linestyle": _DASHES[index % len(_DASHES)]}


def axes_to_draw(ax: Any, size: tuple[float, float], resize: bool = False) -> Any:
    """Axes of the caller, or new ones.

    Args:
        ax: matplotlib axes, or None for those of a new figure of pyplot.
        size: inches of a new figure.
        resize: give the figure of ``ax`` this size too.
    """
    if ax is None:
        from matplotlib import pyplot as plt  # needs a display or a backend; axes of the caller do not

        return plt.subplots(figsize=size, layout="constrained")[1]
    if resize:
        ax.figure.set_size_inches(size)
    return ax


def say_empty(ax: Any, reason: str) -> None:
    """Writes in the middle of the axes why nothing is drawn."""
    ax.text(0.5, 0.5, reason, transform=ax.transAxes, ha="center", va="center", color="0.35", wrap=True)


def titled(ax: Any, headline: str, details: Sequence[str], source: str | None = None) -> None:
    """Gives the axes a title: what is drawn and its number, and under it where it comes from and how it was counted."""
    shown = Texts.of([*([] if source is None else [source]), ", ".join(details)], limit=80, numbered=False)
    lines = shown.texts
    ax.set_title(headline, loc="left", fontsize="large", pad=8 + 12 * len(lines))
    ax.text(0.0, 1.0, "\n".join(lines) + "\n", transform=ax.transAxes, ha="left", va="baseline", fontsize="small",
            color="0.35", linespacing=1.25, **shown.font)  # fmt: skip


def count(number: int, noun: str) -> str:
    """A count and its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def has_room(ax: Any) -> bool:
    """Whether the figure makes room for what stands beside its axes, as figures with a layout engine do."""
    return ax.figure.get_layout_engine() is not None


def legend(ax: Any, handles: Sequence[Any], texts: Texts, title: str, inside: str) -> None:
    """A legend for any text: one that begins with _ is shown too.

    Args:
        ax: matplotlib axes.
        handles: the lines.
        texts: one for each line.
        title: of the legend.
        inside: where it stands if the figure makes no room for it beside the axes, where it hides no line.
    """
    place: dict[str, Any] = {"loc": inside, "framealpha": 0.8}
    if has_room(ax):
        place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0, "frameon": False}
    found = ax.legend(
        handles, [str(n) for n in range(len(handles))], title=title, handlelength=3.2, fontsize="small",
        title_fontsize="small", alignment="left", **place,
    )  # fmt: skip
    for label, text in zip(found.get_texts(), texts.texts):
        label.set(text=text, **texts.font)


def width(text: str) -> int:
    """Columns that ``text`` takes in a font of fixed width: wide characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


@dataclass(frozen=True)
class Texts:
    """Texts that matplotlib draws as they are: no mathematics, no control characters, no character without a glyph.

    Attributes:
        texts: one for each text given, shortened and escaped.
        font: keyword of matplotlib's text: fonts that have all characters; empty where the default has.
        notes: what a reader has to know: that names are shortened, or have characters that no installed font has.
        columns: width of the longest text, in characters.
    """

    texts: list[str]
    font: dict[str, list[str]]
    notes: list[str]
    columns: int

    @classmethod
    def of(
        cls, texts: Iterable[str], limit: int = 36, numbered: bool = True, numbers: Sequence[int] | None = None
    ) -> Texts:
        """Prepares texts to be drawn.

        Args:
            texts: what to draw.
            limit: columns of the widest text; longer ones lose their middle.
            numbered: whether what cannot be drawn goes by number.
            numbers: of the texts, for those that cannot be told apart or drawn; by default 0, 1, 2, ...
        """
        plain = [_without_controls(str(text)) for text in texts]
        fonts, absent = fonts_for(frozenset(char for text in plain for char in text) | {"…"})
        numbers = range(len(plain)) if numbers is None else numbers
        shown = [_with_glyphs(f"#{n} " if numbered else "", text, absent) for n, text in zip(numbers, plain)]
        replaced = sum(text != kept for text, kept in zip(plain, shown))
        short = _distinct([_shortened(text, limit) for text in shown], shown, numbers)
        cut = sum(text != kept for text, kept in zip(shown, short))
        notes = [f"({_names(cut)} shortened)"] if cut else []
        if replaced:
            notes.append(f"({_names(replaced)} shown by number: no installed font has all characters)")
        font = {"family": list(fonts)} if fonts else {}
        escaped = [text.replace("$", r"\$") for text in short]
        return cls(escaped, font, notes, max(map(width, short), default=0))

    def with_notes(self, label: str) -> str:
        """The label of an axis, with the notes under it."""
        return "\n".join([label, *self.notes])


def _names(count: int) -> str:
    return f"{count} name is" if count == 1 else f"{count} names are"


def _without_controls(text: str) -> str:
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if unicodedata.category(char) in _CONTROL else char
        for char in text
    )


def _with_glyphs(number: str, text: str, absent: frozenset[str]) -> str:
    """``text``, or its number and what can be drawn of it."""
    if absent.isdisjoint(text):
        return text
    return number + re.sub(r"\?+", "?", "".join("?" if char in absent else char for char in text))


def _shortened(text: str, limit: int) -> str:
    """``text`` with its middle left out, since names often share their beginning and differ at their end."""
    if width(text) <= limit:
        return text
    head, tail = text[: (limit - 1) // 2], text[-(limit // 2) :]
    while width(head) + width(tail) > limit - 1:  # wide characters
        head, tail = (head[:-1], tail) if width(head) > width(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def _distinct(short: list[str], whole: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """Shortened names, with a number where two different ones have become the same."""
    times = Counter(short)
    return [f"{a} #{n}" if times[a] > 1 and a != b else a for n, a, b in zip(numbers, short, whole)]


@lru_cache(maxsize=64)
def fonts_for(chars: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Families of installed fonts that together draw ``chars``, none if the default does; characters that none has."""
    from matplotlib import font_manager

    default = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    absent = {char for char in chars if not default.get_char_index(ord(char))}
    families: list[str] = []
    for entry in sorted(font_manager.fontManager.ttflist, key=_preference) if absent else ():
        if entry.name in (default.family_name, *families):
            continue
        has = _drawn_by(entry.fname, absent)
        if has:
            families.append(entry.name)
            absent -= has
        if not absent:
            break
    return (default.family_name, *families) if families else (), frozenset(absent)


def _preference(entry: Any) -> tuple[bool, bool, bool, bool, str]:
    """Fonts of matplotlib itself first, then those known to have most characters; regular faces before others."""
    name = entry.name.lower()
    known = any(wide in name for wide in _WIDE_FONTS)
    regular = entry.style == "normal" and entry.weight in (400, "normal", "regular", "book")
    return not name.startswith("dejavu sans"), not known, not regular, "mono" in name, name


def _drawn_by(file: str, chars: Iterable[str]) -> set[str]:
    from matplotlib import font_manager

    if "lastresort" in file.lower():  # it has a box for everything
        return set()
    try:
        font = font_manager.get_font(file)
    except (OSError, RuntimeError):  # a font that FreeType cannot read
        return set()
    return {char for char in chars if font.get_char_index(ord(char))} if font.scalable else set()
