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

    def lacking(self, report: Report) -> Iterator[tuple[Damage, int | None, int]]:
        """Yields what must have been there once and was not found, nor named by an index.

        Args:
            report: of all that was read.

        Yields:
            The damage, the number of its run, and how many records are lost.
        """
        for table, number, then in self._promised():
            run = report.runs.get(number)
            if table in report.unknown or (number and run is None):
                continue
            counts = report if run is None else run
            found = counts.whole.get(table, 0) + counts.lost.get(table, 0)
            if found != then:
                place = f"table {table}" if run is None else f"{table} of run {run.id}"
                damage = Damage(table, place, f"there are {found} but there were {then}", run=run.id if run else None)
                yield damage, number or None, max(0, then - found)

    def _promised(self) -> Iterator[tuple[str, int, int]]:
        """Yields table, run (0 for all) and number of records, where no older version has written since."""
        for each in self._records(COUNTS):
            yield each["about"], each["run"], each["n"]
        for each in self._records(TOTALS):
            number, content = each["run"], unpacked_mapping(each["content"])
            scores = sum(found[0] for found in content["scores"].values())
            for table, then in (("rows", content["rows"][0]), ("scores", scores)):
                if (table, number) not in self._unsealed:
                    yield table, number, then
