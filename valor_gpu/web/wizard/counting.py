"""Data sets of drafts, opened and counted once while they do not change: pages of the wizard come again and again."""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache

from valor_gpu.evaluation.engine.forecast import RowCounts, count_rows
from valor_gpu.evaluation.rows.data import DataSource, open_data
from valor_gpu.evaluation.rows.mapping import Mapping
from valor_gpu.store import Store

KIND = "counts"
_ERRORS = 20  # of rows that cannot be read, kept with the counts
_OPENED = 32
_FORM = 2  # of counts in the store: those of another form are not found


def opened_data(path: str) -> DataSource:
    """The data of a file, whose content is hashed once as long as its size and time are the same.

    Raises:
        InputError: they cannot be opened.
    """
    try:
        now = os.stat(path)
    except OSError:
        return open_data(path)  # which says why not
    return _opened(path, now.st_size, now.st_mtime_ns)


@lru_cache(_OPENED)
def _opened(path: str, size: int, changed: int) -> DataSource:
    return open_data(path)


def counts_of(store: Store, source: DataSource, mapping: Mapping, limit: int | None) -> RowCounts:
    """Counts of rows under a mapping, read once and then kept in the store under the hash of the content.

    Args:
        store: that keeps them.
        source: the data.
        mapping: where fields come from.
        limit: number of rows; None for all.
    """
    said = json.dumps([_FORM, mapping.to_dict(), limit], sort_keys=True)
    name = f"{source.hash}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"
    kept = store.views.get(KIND, name)
    if kept is not None:
        return RowCounts.from_dict(kept)
    found = count_rows(source, mapping, limit)
    store.views.save(KIND, name, found.to_dict(_ERRORS))
    return found


def forget_counts(store: Store, digest: str) -> None:
    """Drops the counts of a data set that goes."""
    for name in store.views.list(KIND):
        if name.startswith(f"{digest}."):
            store.views.delete(KIND, name)
