"""Elements, tables and sections of a page, put together in Python; every text that is no :class:`Html` is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from valor_gpu.pages.sheets import stylesheet
from valor_gpu.pages.texts import Html, escape, visible


class Column(NamedTuple):
    """A column of a table: its heading, which :func:`heading` shows, and whether it holds numbers, flush right."""

    name: object
    number: bool = False


def tag(element: str, *inside: object, **attributes: object) -> Html:
    """An element with what stands in it; the attribute ``class`` is given as ``class_``, ``aria-label`` as aria_label.

    Example:
        >>> tag("td", "a < b", class_="n")
        '<td class="n">a &lt; b</td>'
    """
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    shown = "".join(f' {name}="{_text(value)}"' for name, value in names.items())
    return Html(f"<{element}{shown}>{''.join(map(_text, inside))}</{element}>")


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Parts of a page, one after the other.

    Example:
        >>> joined([tag("b", 1), "<"])
        '<b>1</b>&lt;'
    """
    return Html(_text(between).join(map(_text, parts)))


def _text(value: object) -> Html:
    return value if isinstance(value, Html) else escape(visible(str(value)))


def name_of(text: object) -> Html:
    """A name of others, in a direction of its own, so that right-to-left letters move nothing beside them."""
    return tag("bdi", text)


def heading(text: object) -> object:
    """The heading of a column: a word of ours begins with a capital, a symbol and a name of others stay.

    Example:
        >>> heading("difference"), heading("p, Holm"), heading("mAP"), heading(name_of("model")), heading("")
        ('Difference', 'p, Holm', 'mAP', '<bdi>model</bdi>', '')
    """
    if isinstance(text, Html) or not isinstance(text, str):
        return text
    first = text.split(" ")[0].rstrip(",")
    return text[0].upper() + text[1:] if len(first) > 1 and first.islower() else text


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], label: str, kind: str = "") -> Html:
    """A table that scrolls sideways in its frame; the first cell of each row is its heading.

    Args:
        columns: from left to right.
        rows: cells; texts, or markup.
        label: what the table says, for those who hear the page.
        kind: class of the table.
    """
    heads = [
        tag("th", heading(column.name), scope="col", **_class("pin" if not i else "n" if column.number else ""))
        for i, column in enumerate(columns)
    ]
    lines = [
        tag("tr", tag("th", row[0], scope="row", class_="pin"), *(
            tag("td", cell, **_class("n" if column.number else "")) for column, cell in zip(columns[1:], row[1:])
        ))
        for row in rows
    ]  # fmt: skip
    body = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines), **_class(kind))
    return tag("div", body, class_="scroll", role="region", tabindex="0", aria_label=label)


def folded_table(
    columns: Sequence[Column], rows: Sequence[Sequence[object]], label: str, most: int, rest: str, kind: str = ""
) -> Html:
    """A table of the first ``most`` rows, and the others in a part that opens.

    Args:
        columns: from left to right.
        rows: cells; texts, or markup.
        label: what the table says, for those who hear the page.
        most: rows that are always seen; all where no more than two would be folded.
        rest: what the folded rows are, in the plural, such as ``classes``.
        kind: class of the tables.
    """
    if len(rows) <= most + 2:
        return table(columns, rows, label, kind)
    more = f"{len(rows) - most:,} more {rest}"
    folded = tag("details", tag("summary", more), table(columns, rows[most:], f"{label}: {more}", kind))
    return joined([table(columns, rows[:most], label, kind), folded])


def section(name: str, title: str, *inside: object, note: object = "") -> Html:
    """A part of a page with its heading and a note beside it; ``name`` is its address on the page."""
    heading = tag("h2", title)
    if note:
        heading = tag("div", heading, tag("span", note, class_="small dim"), class_="line")
    return tag("section", heading, *inside, class_="stack", id=name)


def warning(text: object) -> Html:
    """A note that something is missing, or must be known."""
    return tag("div", tag("div", text), class_="note warn", role="note")


def page(title: str, brand: str, sections: Sequence[tuple[str, str, Html]], head: Html, foot: Html, style: str) -> str:
    """A whole page without a script, and without an address that a browser would ask.

    Args:
        title: of the window.
        brand: what kind of page it is.
        sections: address on the page, words of the link to it, markup.
        head: above the sections.
        foot: below them.
        style: rules beside those of :func:`~valor_gpu.pages.sheets.stylesheet`.
    """
    rules = stylesheet() + style
    digest = base64.b64encode(hashlib.sha256(rules.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    links = [tag("a", words, href=f"#{name}") for name, words, _ in sections]
    bar = (tag("span", _MARK, brand, class_="brand"), tag("nav", *links, aria_label="Sections"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{tag('title', title)}\n<style>{rules}</style>\n</head>\n<body>\n"
        f"{tag('a', 'Skip to content', class_='skip vh', href='#main')}\n"
        f"{tag('header', *bar, class_='bar')}\n"
        f"{tag('main', head, *(part for _, _, part in sections), foot, id='main')}\n</body>\n</html>\n"
    )


_MARK = Html(
    '<svg width="26" height="12" viewBox="0 0 26 12" aria-hidden="true">'
    '<path d="M1 1v10M25 1v10M1 6h24" class="whisk"/><circle cx="13" cy="6" r="4" class="dot"/></svg>'
)


def _class(name: str) -> dict[str, object]:
    return {"class_": name} if name else {}
