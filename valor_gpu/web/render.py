"""Templates: escaped, strict about missing names, with texts of others made visible."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from starlette.responses import HTMLResponse

from valor_gpu.errors import check_command
from valor_gpu.evaluation.report.bounds import short_name
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.bytecode import TemplateBytecode
from valor_gpu.pages.texts import Html, cut, escape, visible
from valor_gpu.web.routes import Ask
from valor_gpu.web.typed import carried

_JSON = 20_000
_HEAD = 20
"""Characters of a head of a column, whose width studio.css bounds."""
_FOLDER = Path(__file__).parent / "templates"
_FILTERS = (
    "number", "count", "rows", "span", "percent", "percent_span", "difference", "p_value", "amount", "duration",
    "cost",
)  # fmt: skip


def _shown(value: Any) -> Any:
    """What an expression of a template prints; macros and charts give :class:`Html` or Markup, which stay."""
    return visible(value) if type(value) is str else value


def _json(value: Any) -> str:
    """JSON for readers, cut where it is long."""
    shown, left_out = cut(json.dumps(value, indent=2, ensure_ascii=False), _JSON)
    return shown + (f"\n… {left_out:,} more characters" if left_out else "")


def _head_width(names: Iterable[str]) -> int:
    """Characters that heads of columns take side by side.

    Each takes its longest part that :func:`_breakable` keeps whole, as far as the style lets it grow.

    Example:
        >>> _head_width(["mean of f1_score", "x" * 90])
        25
    """
    return sum(min(max(map(len, name.replace("_", "_ ").split()), default=0), _HEAD) for name in names)


def _breakable(name: str) -> Html:
    """The name of a column as markup that may go on in the next line behind an underscore.

    Example:
        >>> _breakable("mean of gpt_<b>")
        'mean of gpt_<wbr>&lt;b&gt;'
    """
    return Html(escape(visible(name)).replace("_", "_<wbr>"))


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
        bytecode_cache=TemplateBytecode(_FOLDER, "studio"),
    )
    for name in _FILTERS:
        environment.filters[name] = getattr(numbers, name)
    environment.filters["json"] = _json
    environment.filters["metric"] = short_name
    environment.filters["urlencode"] = lambda value: quote(str(value), errors="replace")  # half a pair has no code
    environment.filters["carried"] = lambda value: carried(str(value))
    environment.filters["head_width"] = _head_width
    environment.filters["breakable"] = _breakable
    environment.globals.update(icon=charts.icon, pips=charts.pips, NOTHING=numbers.NOTHING)
    return environment


_ENVIRONMENT = _environment()


def prepare() -> None:
    """Reads all templates, so that the first page of a server does not wait for them."""
    for name in _ENVIRONMENT.list_templates(extensions=["html"]):
        _ENVIRONMENT.get_template(name)


def page(ask: Ask, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page from a template.

    Templates also get ``csrf`` (the hidden field of forms), ``here`` (path and query, for links that change one part
    of the address by :func:`address`), ``store`` (name of the file), ``damages`` (what the page had to leave out) and
    ``check_command`` (the line that says more).
    """
    studio = ask.studio
    common = {
        "csrf": Html(f'<input type="hidden" name="csrf" value="{escape(studio.session.csrf)}">'),
        "store": studio.store.path.name,
        "address": lambda **changes: address(ask, **changes),
        "query": ask.query,
        "damages": [(each.place, each.what) for each in ask.damages],
        "check_command": check_command(studio.store.path),
    }
    return HTMLResponse(_ENVIRONMENT.get_template(template).render({**common, **context}), status)


def address(ask: Ask, **changes: str | list[str] | None) -> str:
    """The address of this page with parts of its query changed; None takes a part away.

    Rows that are shown from the first one are those of now, unless ``as_of`` is given.
    """
    if "at" in changes and changes["at"] is None:
        changes = {"as_of": None, **changes}
    kept = [(name, text) for name, text in ask.query.multi_items() if name not in changes and text]
    for name, value in changes.items():
        texts = [] if value is None else [value] if isinstance(value, str) else value
        kept += [(name, text) for text in texts]
    path = ask.request.url.path
    return path + "?" + urlencode(kept, errors="replace") if kept else path
