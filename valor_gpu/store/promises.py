"""What a store says it holds besides the records themselves, held against what was found of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.store.contents import CHECKS, COUNTS, TOTALS, VERSIONS, VIEWS, Table, faults
from valor_gpu.store.damages import Damage, Report
from valor_gpu.store.reading import Source
from valor_gpu.store.scanning import keyed_records
from valor_gpu.store.values import unpacked_mapping

_ABOUT = {VERSIONS.name: ("version", "evaluator", "number"), VIEWS.name: ("view", "kind", "name")}


class Promises:
    """Holds the checksums, totals and numbers of records that a file has in tables of their own.

    Args:
        opened: the file; one of an older version has none of these tables.
    """

    def __init__(self, opened: Source) -> None:
        self._source = opened
        self._checks = {
            (each["about"], each["first"], each["second"]): each["checksum"] for each in self._records(CHECKS)
        }
        self._unsealed: set[tuple[str, int]] = set()

    def _records(self, table: Table) -> Iterator[dict[str, Any]]:
        """Yields the records that are whole."""
        columns = self._source.columns.get(table.name)
        if columns is None:
            return
        for values in keyed_records(self._source.connection, table.name, columns, table.keys or ("run",), []):
            record = dict(zip(columns, values))
            if not faults(table, record):
                yield record

    def sealed(self, table: Table, record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a record with its checksum, wherever that lies.

        Args:
            table: of the record.
            record: as it was read.
        """
        if table.name in _ABOUT:
            about, first, second = _ABOUT[table.name]
            return {**record, "checksum": self._checks.get((about, record.get(first), record.get(second)))}
        if record.get("checksum") is None and type(record.get("run")) is int:
            self._unsealed.add((table.name, record["run"]))
        return dict(record)

    def lacking(self, report: Report) -> Iterator[Damage]:
        """Yields what must have been there once and was not found, nor named by an index.

        Args:
            report: of all that was read.
        """
        for each in self._records(COUNTS):
            table, number, n = each["about"], each["run"], each["n"]
            run = report.runs.get(number)
            if table in report.unknown or (number and run is None):
                continue
            counts = report if run is None else run
            yield from _missing(table, n, counts.whole[table] + counts.lost[table], run.id if run else None)
        for each in self._records(TOTALS):
            run = report.runs.get(each["run"])
            content = unpacked_mapping(each["content"])
            rows, scores = content.get("rows"), content.get("scores")
            if run is None or type(rows) is not list or type(scores) is not dict:
                continue
            for table, n in (("rows", rows[0]), ("scores", sum(found[0] for found in scores.values()))):
                if (table, each["run"]) not in self._unsealed and table not in report.unknown:
                    yield from _missing(table, n, run.whole[table] + run.lost[table], run.id)


def _missing(table: str, then: int, found: int, run: str | None) -> Iterator[Damage]:
    if found != then:
        place = f"{table} of run {run}" if run else f"table {table}"
        yield Damage(table, place, f"there are {found} but there were {then}", run=run)
