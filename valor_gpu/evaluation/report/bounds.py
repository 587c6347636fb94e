"""How much of a run a page shows. What is left out is always said, with its count."""

from __future__ import annotations

from valor_gpu.pages.texts import cut, visible_name

PAGE_BYTES = 5_000_000
"""No page is larger, whatever the run; the other bounds see to that."""
ROW_BYTES = 3_000_000
"""Of all rows together, after escaping."""
ROWS = 200
WORST = 150
"""Of the rows; the others are the first ones of failures, and those that fill up."""
SPOKEN = 25
"""Of the rows; those of which people said something."""
COLUMNS = 8
"""Evaluators with a column in the table of rows; all are in the part that opens."""
CELL = 2_000
"""Characters of one text."""
CLIP = 300
"""Characters of a text in a table."""
NAME = 120
"""Characters of names and of short facts."""
FIELDS = 24
"""Texts of one row."""
TURNS = 50
"""Messages of a conversation, and turns of a score."""
EVALUATORS = 100
SLICE_COLUMNS, SLICES, SLICE_EVALUATORS = 8, 50, 12
FAILURES = 50
NOTES = 20
CONFIG = 20_000
"""Characters of the configuration."""
DIFFERENCES = 100


def short(text: object, most: int = NAME) -> str:
    r"""A name or a short text, on one line, with an ellipsis where it is cut.

    Example:
        >>> short("a" * 9, 4), short("one\ntwo")
        ('aaaa…', 'one two')
    """
    shown, left_out = cut(str(text), most)
    return " ".join(shown.split()) + ("…" if left_out else "")


def short_name(name: object, most: int = NAME) -> str:
    r"""A name of an evaluator or a column, on one line, whose invisible characters are named.

    Example:
        >>> short_name("f1\u200b_score")
        'f1[U+200B]_score'
    """
    return short(visible_name(str(name)), most)


def tag_words(name: str, value: object) -> str:
    """A tag in words.

    Example:
        >>> tag_words("model", "small"), tag_words("golden", ""), tag_words("tries", 3)
        ('model: small', 'golden', 'tries: 3')
    """
    return short(name) if value == "" else f"{short(name)}: {short(value)}"


def words(status: str) -> str:
    """A status in words.

    Example:
        >>> words("parse_error")
        'parse error'
    """
    return short(status).replace("_", " ")
