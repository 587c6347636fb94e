"""Data sets of drafts, opened and counted once while they do not change: pages of the wizard come again and again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.engine.forecast import RowCounts, count_rows
from valor_gpu.evaluation.rows.columns import ColumnNames
from valor_gpu.evaluation.rows.data import DataSource, open_data
from valor_gpu.evaluation.rows.mapping import Mapping as Fields
from valor_gpu.store import Store, StoredDataset
from valor_gpu.web.processes.reader import ERRORS
from valor_gpu.web.processes.readings import SMALL, Reading
from valor_gpu.web.studio import Studio

KIND, COLUMNS = "counts", "columns"
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


def keep_columns(store: Store, found: Mapping[str, Any]) -> None:
    """Keeps the columns and paths of all rows of a data set, where its first rows do not tell them.

    Args:
        store: that keeps them.
        found: what :func:`valor_gpu.web.processes.reader.list_file` returned.
    """
    if found["is_partial"]:
        store.views.save(COLUMNS, found["hash"], {name: found[name] for name in ("columns", "paths", "rows")})


def with_all_columns(store: Store, source: DataSource, dataset: StoredDataset) -> DataSource:
    """The source with the columns and paths of all rows, which are read for that where the store does not have them."""
    kept = store.views.get(COLUMNS, dataset.hash) if source.columns.is_partial else None
    if kept is None:
        return source.with_all_columns()
    columns = ColumnNames(kept["columns"])
    columns.paths = None if kept["paths"] is None else frozenset(kept["paths"])
    columns.seen = f"all {kept['rows']:,} rows"
    found = replace(source, columns=columns)
    found.__dict__["hash"] = source.hash
    return found


def counts_of(
    studio: Studio, source: DataSource, mapping: Fields, limit: int | None, dataset: StoredDataset
) -> RowCounts | Reading:
    """Counts of rows under a mapping, read once and then kept in the store under the hash of the content.

    Args:
        studio: whose store keeps them.
        source: the data.
        mapping: where fields come from.
        limit: number of rows; None for all.
        dataset: of the source.

    Returns:
        The counts, or how far the process is that counts them.

    Raises:
        InputError: the file cannot be read, or its process has failed.
    """
    store = studio.store
    said = json.dumps([_FORM, mapping.to_dict(), limit], sort_keys=True)
    name = f"{source.hash}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"
    kept = store.views.get(KIND, name)
    if kept is not None:
        return RowCounts.from_dict(kept)
    if os.path.getsize(dataset.source) <= SMALL:
        found = count_rows(source, mapping, limit, ERRORS)
        store.views.save(KIND, name, found.to_dict(ERRORS))
        return found

    def keep(reading: Reading) -> None:
        if reading.found is not None:
            store.views.save(KIND, name, reading.found)

    asked = {"mapping": mapping.to_dict(), "limit": limit}
    key = f"{KIND}.{name}"
    goes_on = studio.readings.get(key) is not None
    reading = studio.readings.start(key, dataset.name, dataset.source, asked, keep)
    if not (reading.is_done if goes_on else reading.wait()):
        return reading
    if reading.found is None:
        raise InputError(reading.error or f"The rows of {dataset.name} were not counted. Load the page again.")
    return RowCounts.from_dict(reading.found)


def forget_counts(store: Store, digest: str) -> None:
    """Drops the counts and columns of a data set that goes."""
    for name in store.views.list(KIND):
        if name.startswith(f"{digest}."):
            store.views.delete(KIND, name)
    store.views.delete(COLUMNS, digest)
