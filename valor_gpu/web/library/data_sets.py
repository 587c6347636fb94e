"""Data sets as pages show them: those that are kept by name, and those that runs read, by the hash of their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from valor_gpu.errors import ValorError
from valor_gpu.store import StoredDataset
from valor_gpu.web.book import Entry
from valor_gpu.web.library.uses import dataset_uses
from valor_gpu.web.routes import Ask
from valor_gpu.web.wizard.counting import opened_data

FIRST = 10
"""Rows of a preview."""


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
        hash: of the content.
        name: for people.
        columns: in their order.
        rows: how many; None where no run has counted them.
        source: where it was, such as a path.
        created: seconds since 1970, of its upload or of the first run that read it.
        uses: runs, the newest first.
        is_kept: whether it is in the store's list, which forms choose from.
    """

    hash: str
    name: str
    columns: tuple[str, ...]
    rows: int | None
    source: str
    created: float
    uses: Sequence[Entry] = field(default_factory=tuple)
    is_kept: bool = False

    @property
    def when(self) -> str:
        """Time of :attr:`created`."""
        return datetime.fromtimestamp(self.created).strftime("%d %b %Y, %H:%M")


def data_sets(ask: Ask) -> dict[str, DataSet]:
    """All data sets by hash, the newest first; those of runs made by code are among them."""
    uses = dataset_uses(ask)
    kept = {each.hash: each for each in ask.studio.store.datasets.list()}
    found = [_of_store(each, uses.get(digest, ())) for digest, each in kept.items()]
    found += [_of_runs(digest, entries) for digest, entries in uses.items() if digest not in kept]
    found.sort(key=lambda each: -each.created)
    return {each.hash: each for each in found}


def _of_store(each: StoredDataset, uses: Sequence[Entry]) -> DataSet:
    return DataSet(each.hash, each.name, each.columns, each.rows, each.source, each.created, uses, is_kept=True)


def _of_runs(digest: str, uses: Sequence[Entry]) -> DataSet:
    """A data set that only runs tell of; the newest one that counted its rows says the most."""
    said = [each.config.get("data") or {} for each in uses]
    best: Mapping[str, Any] = next((data for data in said if data.get("rows") is not None), said[0])
    source = str(best.get("source") or "")
    name = source.replace("\\", "/").rsplit("/", 1)[-1] or "without a name"
    columns = tuple(map(str, best.get("columns") or ()))
    return DataSet(digest, name, columns, best.get("rows"), source, uses[-1].head.created, uses)


def first_rows(ask: Ask, found: DataSet) -> tuple[list[Mapping[str, Any]], str]:
    """The first rows, and where they come from: of the uploaded file, else as a run keeps them."""
    path = Path(found.source)
    if found.is_kept and path.is_file() and path.resolve().is_relative_to(ask.studio.uploads.resolve()):
        try:
            return [row.values for row in islice(opened_data(str(path)), FIRST) if row.values], "of the file"
        except (ValorError, OSError):  # the runs may still have them
            pass
    for entry in found.uses:
        run = ask.studio.store.run(entry.head.id)
        rows: list[Mapping[str, Any]] = [row.inputs for row in run.rows(0, FIRST) if row.inputs]
        if rows:
            return rows, f"as run {entry.head.name or entry.head.id} keeps them"
    return [], ""
