"""What is whole of a store, and what is damaged."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Damage(NamedTuple):
    """Names a damaged place.

    Attributes:
        table: of the file; ``"index"`` for indexes, ``"file"`` for the file as a whole.
        place: in words.
        what: is wrong with it.
        is_lost: whether an export cannot save it; indexes are made anew.
        run: id of the run; None where it belongs to none.
        row: number of the row; None where it belongs to none.
        evaluator: name; None where it belongs to none.
    """

    table: str
    place: str
    what: str
    is_lost: bool = True
    run: str | None = None
    row: int | None = None
    evaluator: str | None = None


@dataclass
class RunCount:
    """Counts what is whole of a run, and what is lost, by table.

    Attributes:
        id: of the run.
        name: of the run.
        state: of the run.
        whole: table to number of records.
        lost: table to number of records.
    """

    id: str
    name: str
    state: str
    whole: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass
class Report:
    """Says what of a store is whole.

    Attributes:
        path: of the store.
        version: of the store.
        whole: table to number of records.
        lost: table to number of records that are damaged or cannot be read.
        unknown: tables of which more may be lost, since no index that can be read names all their records.
        runs: of the store, by their numbers in the file.
        damages: places, in the order of the tables.
    """

    path: str
    version: int
    whole: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unknown: list[str] = field(default_factory=list)
    runs: dict[int, RunCount] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damages

    @property
    def n_lost(self) -> int:
        """Number of records that an export cannot save."""
        return sum(self.lost.values())

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as JSON."""
        runs = [{**vars(run), "whole": dict(run.whole), "lost": dict(run.lost)} for run in self.runs.values()]
        found = {"store": self.path, "version": self.version, "is_whole": self.is_whole}
        counts = {"whole": dict(self.whole), "lost": dict(self.lost), "unknown": self.unknown}
        return {**found, **counts, "runs": runs, "damages": [damage._asdict() for damage in self.damages]}
