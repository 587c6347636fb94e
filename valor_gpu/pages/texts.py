"""Texts of others, shown on a page: escaped, cut, and with their invisible characters made visible."""

from __future__ import annotations

import html
import re

# What a reader does not see and a browser obeys: control characters, overrides and isolates of the direction of text,
# separators, tags, and what is no character. Joiners and the marks of right-to-left scripts stay.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufdd0-\ufdef\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


class Html(str):
    """Text that is markup already; templates with automatic escaping leave it as it is.

    Example:
        >>> Html("<b>4</b>").__html__()
        '<b>4</b>'
    """

    __slots__ = ()

    def __html__(self) -> str:
        """The markup."""
        return str(self)


def escape(text: object) -> Html:
    """Text as it stands in markup, also within an attribute; :class:`Html` stays as it is.

    Example:
        >>> escape('<a href="javascript:f()">')
        '&lt;a href=&quot;javascript:f()&quot;&gt;'
    """
    return text if isinstance(text, Html) else Html(html.escape(str(text)))


def visible(text: str) -> str:
    r"""Text with its invisible characters named: NUL is ``␀``, an override of the direction ``[U+202E]``.

    Line feeds and tabs stay, other ends of lines become line feeds. The result can be encoded in UTF-8, whatever the
    text holds.

    Example:
        >>> visible("a\x00b\u202ec\ud800\r\nd")
        'a␀b[U+202E]c[U+D800]\nd'
    """
    return _INVISIBLE.sub(_name, text.replace("\r\n", "\n").replace("\r", "\n"))


# A name that differs from another one in these alone could not be told from it.
_WITHOUT_WIDTH = re.compile("[\t\n\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u3164\uffa0]")


def visible_name(text: str) -> str:
    r"""A name with all of its invisible characters named, also joiners, marks of direction, tabs and ends of lines.

    Example:
        >>> visible_name("f1\u200b_score\u202e\n")
        'f1[U+200B]_score[U+202E]␊'
    """
    return _WITHOUT_WIDTH.sub(_name, visible(text))


def _name(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # its picture
    return f"[U+{code:04X}]"


def cut(text: str, most: int) -> tuple[str, int]:
    """The first ``most`` characters of a text, and how many are left out; what is invisible is made visible.

    Example:
        >>> cut("to be or not", 5)
        ('to be', 7)
    """
    return visible(text[:most]), max(len(text) - most, 0)
