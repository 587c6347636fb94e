"""Reads everything of a store and says what of it is damaged; the file is never written."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from valor_gpu.store import contents
from valor_gpu.store.contents import Table, problem
from valor_gpu.store.damages import Damage, Report, RunCount
from valor_gpu.store.promises import Promises
from valor_gpu.store.reading import Source, source
from valor_gpu.store.scanning import Numbers, TableScan, Undecodable, damage_ends_it, keyed_records
from valor_gpu.store.traces import text_of_base
from valor_gpu.store.values import packed, unpacked

_MOST = 1000
"""Faults that SQLite's own check lists at most."""
_INDEX = re.compile(r"(?:missing from index|entries in index|entry in index) (\S+)")
_SEARCH = "row_words"

Record = dict[str, Any]
Keep = Callable[[str, Record], str]
"""Takes the table and a record that is whole; returns why it cannot be kept, or nothing."""


def check(path: str | os.PathLike[str]) -> Report:
    """Reads everything of a store, without writing to it.

    Args:
        path: of the file. Other processes may use it meanwhile.

    Returns:
        What is whole, and each damaged place.

    Raises:
        InputError: there is no such file, or it is no store.
        StoreError: nothing of it can be read.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     report = check(store.path)
        ...     report.is_whole, dict(report.whole)
        (True, {'runs': 1})
    """
    with source(Path(path)) as opened:
        report = Walk(opened, lambda table, record: "").report()
        report.damages += _file_damages(opened)
    return report


class Walk:
    """Reads a store, and hands on each record that is whole and whose parents are.

    Args:
        opened: the file.
        keep: gets each record, parents before their children.
    """

    def __init__(self, opened: Source, keep: Keep) -> None:
        self._source, self._keep = opened, keep
        self._report = Report(str(opened.path), opened.version)
        self._rows: dict[int, Numbers] = defaultdict(Numbers)
        self._evaluators: dict[int, str] = {}
        self._hashes: set[str] = set()
        self._versioned: set[int] = set()
        self._bases: dict[tuple[int, Any], dict[tuple[int, int], bytes]] = defaultdict(dict)
        self._promises = Promises(opened)
        self._lost: set[tuple[str, str]] = set()

    def report(self) -> Report:
        """Reads everything and returns what was found."""
        self._report.damages += [Damage("file", "the file", odd, is_lost=False) for odd in self._source.odd]
        for table in contents.TABLES:
            if table.name in self._source.columns:
                self._read(table)
            elif table.since <= self._source.version:
                self._report.unknown.append(table.name)
                self._add(Damage(table.name, f"table {table.name}", "it is not in the file's list of tables"), None, 0)
        for number in self._evaluators.keys() - self._versioned:
            name = self._evaluators[number]
            self._add(Damage("evaluators", f"evaluator {name!r}", "all its versions are lost", evaluator=name), None, 1)
            self._report.whole["evaluators"] -= 1
        for damage, run, n in list(self._promises.lacking(self._report)):
            self._add(damage, run, n)
        return self._report

    # ---------------------------------------------------------------------------------------------------- tables

    def _read(self, table: Table) -> None:
        if table is contents.TRACES:
            self._read_bases()
        if table.keys:
            self._read_keyed(table)
            return
        columns = self._source.columns[table.name]
        scan = TableScan(self._source.connection, table.name, columns, self._indexes(table))
        for _, *values in scan:
            record = dict(zip(columns, values))
            if table is not contents.TRACES or not _is_base(record):
                self._take(table, record)
        for _, *values in scan.doubles:
            self._lose(table, dict(zip(columns, values)), "another record has its id")
        for number, names in sorted(scan.lost.items()):
            self._lose(table, {**names, "id": number}, "its page cannot be read" if scan.faults else "it is gone")
        if scan.faults and not scan.is_exact:
            self._more_may_be_lost(table, scan.faults[0])

    def _read_keyed(self, table: Table) -> None:
        columns, faults = self._source.columns[table.name], list[str]()
        for values in keyed_records(self._source.connection, table.name, columns, table.keys, faults):
            self._take(table, dict(zip(columns, values)))
        if faults:
            self._more_may_be_lost(table, faults[0])

    def _more_may_be_lost(self, table: Table, fault: str) -> None:
        self._report.unknown.append(table.name)
        what = f"a part of it cannot be read, and nothing tells what was there ({fault})"
        self._add(Damage(table.name, f"table {table.name}", what), None, 0)

    def _indexes(self, table: Table) -> list[Any]:
        """Returns the indexes that the file's list of tables still has."""
        known: set[str] = set()
        with damage_ends_it([]):
            sql = "SELECT name FROM sqlite_master WHERE type = 'index'"
            known = {str(name) for (name,) in self._source.connection.execute(sql)}
        return [index for index in table.indexes if index.name in known]

    def _read_bases(self) -> None:
        """Reads the traces that others need first, wherever they lie."""
        columns = self._source.columns["traces"]
        for _, *values in TableScan(self._source.connection, "traces", columns, self._indexes(contents.TRACES)):
            record = dict(zip(columns, values))
            if _is_base(record) and self._take(contents.TRACES, record):
                text = text_of_base(record["content"])
                self._bases[record["run"], record["evaluator"]][record["row"], record["repeat"]] = text

    # --------------------------------------------------------------------------------------------------- records

    def _take(self, table: Table, record: Record) -> bool:
        """Keeps a record, or says why it is lost; returns whether it is kept as it is."""
        wrong = contents.faults(table, self._promises.sealed(table, record))
        if table is contents.RUNS:
            self._take_run(record, wrong)
            return False
        if table is contents.EVALUATORS and wrong and "id" not in wrong:
            self._stand_in_for_evaluator(record, wrong)
            return False
        said = _joined(wrong) or self._lacking(table, record) or self._keep(table.name, record)
        if said:
            self._lose(table, record, said)
            return False
        self._count(table, record["run"] if table in contents.OF_RUNS else None)
        if table is contents.ROWS:
            self._rows[record["run"]].add(record["number"])
        elif table is contents.EVALUATORS:
            self._evaluators[record["id"]] = unpacked(record["name"])
        elif table is contents.CONTENTS:
            self._hashes.add(record["hash"])
        elif table is contents.VERSIONS:
            self._versioned.add(record["evaluator"])
        return True

    def _lacking(self, table: Table, record: Record) -> str:
        """Returns which parent of a record is lost."""
        if table in contents.OF_RUNS and record["run"] not in self._report.runs:
            if table.is_saved:
                self._take_run({"id": record["run"]}, {"": "it is lost"})
            else:
                return "its run is lost"
        if table in contents.OF_ROWS and record["row"] not in self._rows[record["run"]]:
            return "its row is lost"
        if table is contents.TRACES:
            bases = self._bases[record["run"], record["evaluator"]]
            return problem(lambda: contents.check_kept_trace(record, bases))
        if table is contents.VERSIONS:
            if record["evaluator"] not in self._evaluators:
                self._stand_in_for_evaluator({"id": record["evaluator"]}, {"": "it is lost"})
            return "" if record["hash"] in self._hashes else "its content is lost"
        return ""

    def _take_run(self, record: Record, wrong: Mapping[str, str]) -> None:
        """Keeps a run; one that is damaged without what is wrong, so that its rows are not lost with it."""
        number = record["id"]
        if type(number) is not int or "id" in wrong:
            self._lose(contents.RUNS, record, wrong["id"])
            return
        kept = record
        if wrong:
            whole = {column: value for column, value in record.items() if column not in wrong}
            stand_in = _stand_in_for_run(number, _joined(wrong))
            kept = {**stand_in, **whole, "state": "failed", "summary": None}
            if "note" in whole:
                kept["note"] = packed(f"{stand_in['note']} {unpacked(whole['note'])}".strip())
            kept.pop("checksum", None)
        refused = self._keep("runs", kept)
        if refused:
            kept = {**kept, "uid": secrets.token_hex(6)}
            wrong = {**wrong, "uid": refused}
            self._keep("runs", kept)
        self._report.runs[number] = RunCount(kept["uid"], unpacked(kept["name"]), kept["state"])
        if not wrong:
            self._count(contents.RUNS, None)
            return
        stands = "a stand-in without it holds the rows"
        for column, what in wrong.items():
            place = f"{column or 'record'} of run {kept['uid']}"
            damage = Damage("runs", place, f"{what}; {stands}", run=kept["uid"])
            self._add(damage, None, int(column == next(iter(wrong))))

    def _stand_in_for_evaluator(self, record: Record, wrong: Mapping[str, str]) -> None:
        """Keeps an evaluator under what is left of its name, so that its versions are not lost with it."""
        number, name = record["id"], record.get("name")
        if "name" in wrong or name is None:
            name = f"rescued evaluator {number}"
        kept = {"id": number, "name": name, "deleted": None}
        if self._keep("evaluators", kept):
            kept["name"] = f"rescued evaluator {number}"
            self._keep("evaluators", kept)
        self._evaluators[number] = unpacked(kept["name"])
        place = f"record of evaluator {unpacked(kept['name'])!r}"
        self._add(
            Damage("evaluators", place, f"{_joined(wrong)}; its versions are kept", evaluator=unpacked(name)), None, 1
        )

    # --------------------------------------------------------------------------------------------------- findings

    def _lose(self, table: Table, record: Record, what: str) -> None:
        if table is contents.RUNS and type(record.get("id")) is int:
            known = {name: record[name] for name in ("uid", "name") if type(record.get(name)) is str}
            self._take_run({"id": record["id"], **known}, {"": what})
            return
        if table is contents.EVALUATORS and type(record.get("id")) is int:
            known = {"name": record["name"]} if type(record.get("name")) is str else {}
            self._stand_in_for_evaluator({"id": record["id"], **known}, {"": what})
            return
        number = record.get("run")
        run = self._report.runs.get(number) if type(number) is int else None
        words: dict[str, Any] = defaultdict(lambda: "?")
        words.update({column: _shown(value) for column, value in record.items() if _shown(value) is not None})
        words["run"] = run.id if run else f"number {number}"
        if type(record.get("evaluator")) is int:
            words["evaluator"] = self._evaluators.get(record["evaluator"], words["evaluator"])
        row = record.get("number" if table is contents.ROWS else "row")
        evaluator = words["evaluator"] if "evaluator" in record else None
        damage = Damage(
            table.name, table.place.format_map(words), what, table.is_saved, run.id if run else None,
            row if type(row) is int else None, None if evaluator is None else str(evaluator),
        )  # fmt: skip
        self._add(damage, number if run else None, int(table.is_saved))
        if (table.name, damage.place) in self._lost and table.name not in self._report.unknown:
            self._more_may_be_lost(table, "two records say that they are one")
        self._lost.add((table.name, damage.place))

    def _add(self, damage: Damage, run: int | None, n: int) -> None:
        self._report.damages.append(damage)
        if n:
            self._report.lost[damage.table] += n
            if run is not None:
                self._report.runs[run].lost[damage.table] += n

    def _count(self, table: Table, run: int | None) -> None:
        if not table.is_saved:
            return
        self._report.whole[table.name] += 1
        if run is not None:
            self._report.runs[run].whole[table.name] += 1


def _shown(value: Any) -> Any:
    """Returns a value of a damaged record as a message has it; None for one that says nothing."""
    if isinstance(value, Undecodable):
        return value.content.decode(errors="replace")
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _is_base(record: Record) -> bool:
    return type(record["repeat"]) is int and record["repeat"] < 0


def _joined(wrong: Mapping[str, str]) -> str:
    return "; ".join(f"{column}: {what}" if column else what for column, what in wrong.items())


def _stand_in_for_run(number: int, wrong: str) -> Record:
    return {
        "uid": secrets.token_hex(6), "name": f"rescued run {number}", "config": "{}", "tags": "{}", "dataset": "",
        "created": 0.0, "finished": None, "deleted": None, "indexed": 0, "edited": None,
        "note": f"Rescued from a damaged store; of its record is lost: {wrong}."[:1000],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ the file as a whole


def _file_damages(opened: Source) -> Iterator[Damage]:
    """Yields what SQLite's own check finds: indexes that do not agree with their tables, and pages."""
    lines, faults = list[str](), list[str]()
    with damage_ends_it(faults):
        for (line,) in opened.connection.execute(f"PRAGMA integrity_check({_MOST})"):
            lines += str(line).splitlines()
    owners = _owners(opened.connection)
    indexes: dict[str, None] = {}
    for line in [*lines, *faults]:
        if line == "ok" or line.startswith("***"):
            continue
        if found := _INDEX.search(line):
            indexes[found[1]] = None
        else:
            yield Damage("file", "pages of the file", f"SQLite says: {line}", is_lost=False)
    if len(lines) >= _MOST:
        yield Damage("file", "pages of the file", f"SQLite's check ends after {_MOST} faults", is_lost=False)
    for index in indexes:
        table = owners.get(index, "?")
        place = "index of words" if table.startswith(_SEARCH) else f"index {index} of {table}"
        yield Damage("index", place, "it does not agree with its table; an export makes it anew", is_lost=False)


def _owners(connection: sqlite3.Connection) -> dict[str, str]:
    found: dict[str, str] = {}
    with damage_ends_it([]):
        for name, table in connection.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'"):
            found[str(name)] = str(table)
    return found
