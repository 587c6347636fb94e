"""Views that people save: a name for the part of an address that says which rows, or which runs, are shown."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import QueryParams

from valor_gpu.errors import InputError
from valor_gpu.store import Store
from valor_gpu.web.rows.row_addresses import ALL, with_named_columns
from valor_gpu.web.security import looks_like_key

ROWS_VIEW, RUNS_VIEW = "rows view", "runs view"
"""Kinds of the store's views."""
PARTS = {
    ROWS_VIEW: ("q", "if", "sort", "status", "column", "level"),
    RUNS_VIEW: ("q", "kind", "status", "data", "metric", "least", "tag", "column", "sort"),
}
"""Parts of an address that a view keeps."""
MOST = 100
"""Views of one kind."""
LONGEST = 80
"""Characters of a name."""
_QUERY = 8_000
"""Characters of an address."""


@dataclass(frozen=True)
class SavedView:
    """A view of a menu.

    Attributes:
        name: as it was given.
        query: part of an address behind its question mark.
        is_shown: whether the page shows it now.
    """

    name: str
    query: str
    is_shown: bool


def parts_of(kind: str, query: str) -> list[tuple[str, str]]:
    """The parts of a query that a view of a kind keeps, in one order."""
    found = [pair for pair in parse_qsl(query) if pair[0] in PARTS[kind]]
    return sorted(found, key=lambda pair: PARTS[kind].index(pair[0]))


def metrics_of(pairs: list[tuple[str, str]]) -> set[str]:
    """Names of the evaluators that a view of rows speaks of."""
    conditions = {text.rsplit(":", 2)[0] for name, text in pairs if name == "if"}
    columns = {text for name, text in pairs if name == "column"}
    order = {text.removeprefix("-") for name, text in pairs if name == "sort"}
    return {*conditions, *columns, *order} - {"", ALL}


def saved_views(
    store: Store, kind: str, query: QueryParams, metrics: Mapping[str, object] | None = None
) -> list[SavedView]:
    """The views of a kind by name; of rows those alone whose evaluators a run has.

    Args:
        store: that keeps them.
        kind: :data:`ROWS_VIEW` or :data:`RUNS_VIEW`.
        query: of the page.
        metrics: evaluators of the run.
    """
    shown = parts_of(kind, with_named_columns(str(query), list(metrics or ())))
    found = []
    for name in store.views.list(kind):
        text = str((store.views.get(kind, name) or {}).get("query", ""))
        pairs = parts_of(kind, text)
        if metrics is None or metrics_of(pairs) <= metrics.keys():
            found.append(SavedView(name, urlencode(pairs), bool(pairs) and pairs == shown))
    return sorted(found, key=lambda view: (view.name.casefold(), view.name))


def save(store: Store, kind: str, name: str, query: str) -> str:
    """Keeps a view under a name, in place of one that has it already; returns the query that was kept.

    Raises:
        InputError: the name is empty or too long, either holds what looks like a key, there is nothing to keep, or
            there are too many views.
    """
    _check_name(name)
    pairs = parts_of(kind, query)
    kept = urlencode(pairs)
    if looks_like_key(name) or any(looks_like_key(text) for _, text in pairs):
        raise InputError("the view holds what looks like a key of a service, so it was not kept")
    if not pairs:
        raise InputError("a view must have a search, a condition, a column or an order, and this page has none")
    if len(kept) > _QUERY:
        raise InputError(f"a view may have {_QUERY:,} characters but has {len(kept):,}: take conditions or columns out")
    names = store.views.list(kind)
    if name not in names and len(names) >= MOST:
        raise InputError(f"there may be {MOST} views and there are {len(names)}: delete one, then save this one")
    store.views.save(kind, name, {"query": kept, "saved": time.time()})
    return kept


def rename(store: Store, kind: str, name: str, new: str) -> None:
    """Gives a view another name.

    Raises:
        InputError: the view is gone, or the name is empty, too long, looks like a key or is that of another view.
    """
    _check_name(new)
    if looks_like_key(new):
        raise InputError("the name holds what looks like a key of a service, so it was not kept")
    if new == name:
        return
    kept = store.views.get(kind, name)
    if kept is None:
        raise InputError(f"the view {name[:LONGEST]!r} is gone: save it again")
    if new in store.views.list(kind):
        raise InputError(f"another view has the name {new!r}: choose one that is free")
    store.views.save(kind, new, kept)
    store.views.delete(kind, name)


def _check_name(name: str) -> None:
    if not name.strip():
        raise InputError("the name of a view must not be empty: give it one")
    if len(name) > LONGEST:
        raise InputError(f"the name of a view may have {LONGEST} characters but has {len(name)}: shorten it")
