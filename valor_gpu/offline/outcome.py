"""What an offline evaluation gives: numbers, what counted, and what did not. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu._headline import headline
from valor_gpu._version import __version__
from valor_gpu.exports.texts import value_text
from valor_gpu.offline.records import FAILED, BadRow, Record
from valor_gpu.result import Result

_SHOWN = 20  # failures and rows in the text of a result; to_dict has all


@dataclass(frozen=True)
class OfflineResult:
    """Numbers of all metrics over the shards that count.

    Attributes:
        results: name of a metric to its result.
        counts: ``shards``, and of them ``counted``, ``failed`` and ``duplicates`` (the same content as a shard before);
            ``rows`` that counted, ``bad_rows`` that were left out of shards that count; where there are such,
            ``ground_truths_without_iscrowd``, taken as 0, and ``ground_truths_without_area``, taken as that of the box
            or mask.
        failures: the records of the shards that failed.
        bad_rows: the rows that were left out.
        duplicates: name of a shard that does not count to that of the first one with the same content.
        empty: names of the shards that count and have no row, as a file that was cut to nothing.
        configuration: what the numbers are of: ``metrics``, ``data``, ``on_bad_row`` and ``duplicates``.
    """

    results: Mapping[str, Result]
    counts: Mapping[str, int]
    failures: tuple[Record, ...]
    bad_rows: tuple[BadRow, ...]
    duplicates: Mapping[str, str]
    empty: tuple[str, ...] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        several = len(self.results) > 1
        found = [(name, leaf, value) for name, result in self.results.items() for leaf, value in result.values.items()]
        values = {f"{name}/{leaf}" if several else leaf: value for name, leaf, value in found}
        return headline("OfflineResult", "" if several else ", ".join(self.results), values, self.counts, value_text)

    def to_dict(self) -> dict[str, Any]:
        """As strict JSON values: equal data and choices give equal ones, whatever the engine and the machine's load."""
        return {
            "schema_version": 1,
            "valor_gpu": __version__,
            "configuration": dict(self.configuration),
            "counts": dict(self.counts),
            "failures": [_failure(record) for record in self.failures],
            "bad_rows": [{"place": row.place, "message": row.message} for row in self.bad_rows],
            "duplicates": dict(self.duplicates),
            "empty": list(self.empty),
            "results": {name: result.to_dict() for name, result in self.results.items()},
        }

    def __str__(self) -> str:
        parts = [f"{name}\n{result}" for name, result in self.results.items()]
        lines = [", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in self.counts.items())]
        lines += _listed("failed", _causes(self.failures))
        lines += _listed("left out", [row.message for row in self.bad_rows])
        lines += _listed("duplicate", [f"{name}: the same as {first}" for name, first in self.duplicates.items()])
        lines += _listed("no rows", list(self.empty))
        return "\n\n".join([*parts, "\n".join(lines)])


@dataclass(frozen=True)
class OfflineStatus:
    """How far an evaluation is.

    Attributes:
        shards: how many there are.
        done: those whose states are there.
        failures: records of those that failed; the next run tries them again.
        rows: in the shards that are done.
        state_bytes: of their states on disk.
        other_folders: folders of states that another configuration, or another release, left in the same output.
    """

    shards: int
    done: int
    failures: tuple[Record, ...]
    rows: int
    state_bytes: int
    other_folders: tuple[str, ...]

    @property
    def pending(self) -> int:
        """How many shards have not been tried."""
        return self.shards - self.done - len(self.failures)

    def to_dict(self) -> dict[str, Any]:
        """As strict JSON values."""
        return {
            "shards": self.shards, "done": self.done, "pending": self.pending, "rows": self.rows,
            "state_bytes": self.state_bytes, "failures": [_failure(record) for record in self.failures],
            "other_folders": list(self.other_folders),
        }  # fmt: skip

    def __str__(self) -> str:
        head = (f"shards {self.shards:,}, done {self.done:,}, pending {self.pending:,}, failed {len(self.failures):,},"
                f" rows {self.rows:,}, states {self.state_bytes:,} bytes")  # fmt: skip
        others = _listed("states of another configuration or release", list(self.other_folders))
        return "\n".join([head, *_listed("failed", _causes(self.failures)), *others])


def _failure(record: Record) -> dict[str, Any]:
    assert record.status == FAILED
    place = record.bad_rows[0].place if record.bad_rows else record.name
    return {"shard": record.name, "place": place, "message": record.error}


def _causes(records: Sequence[Record]) -> list[str]:
    return [cause(record) for record in records]


def cause(record: Record) -> str:
    """Why a shard failed, with its name or the place in it."""
    known = record.name in record.error or (record.bad_rows and record.bad_rows[0].place in record.error)
    return record.error if known else f"{record.name}: {record.error}"


def _listed(what: str, texts: list[str]) -> list[str]:
    more = [f"... and {len(texts) - _SHOWN:,} more, all of them in result.json"] if len(texts) > _SHOWN else []
    return [*(f"{what}: {text}" for text in texts[:_SHOWN]), *more]
