"""The library of evaluators: names whose versions are immutable and known by the hash of their content."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import check, checksum, damages_met, fetched, placed, real, sealed, told, whole
from valor_gpu.store.database import Database
from valor_gpu.store.records import check_count
from valor_gpu.store.totals import check_count_of
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_json, unpacked_mapping

_COLUMNS = """evaluators.name, evaluator_versions.number, evaluator_versions.hash, note, created, evaluators.id,
    deleted, evaluators.checksum, (SELECT checksum FROM checks WHERE about = 'version' AND first = evaluators.id
    AND second = evaluator_versions.number)"""
_ID, _DELETED = 5, 6  # places of columns
_LOST = "its newest version is not where it was written"
_FROM = "evaluator_versions JOIN evaluators ON evaluators.id = evaluator"


@dataclass(frozen=True)
class EvaluatorVersion:
    """A version of an evaluator.

    Args:
        name: of the evaluator.
        number: from 1.
        hash: SHA-256 of the content, 64 hexadecimal digits.
        content: JSON: prompt, files, parameters.
        note: what the version is, in words.
        created: seconds since 1970.
    """

    name: str
    number: int
    hash: str
    content: dict[str, Any]
    note: str
    created: float


def content_hash(content: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a JSON value, the same for any order of its keys.

    Raises:
        InputError: something that JSON cannot express.

    Example:
        >>> content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
        True
    """
    ordered = json.dumps(unpacked_json(packed_json("content", content)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(ordered.encode()).hexdigest()


class EvaluatorLibrary:
    """The evaluators of a store, :attr:`valor_gpu.store.Store.evaluators`.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     first = store.evaluators.save("politeness", {"prompt": "Is it polite?"})
        ...     second = store.evaluators.save("politeness", {"prompt": "How polite is it?"})
        ...     print(store.evaluators.diff("politeness", 1, 2))
        --- politeness version 1
        +++ politeness version 2
        @@ -1,2 +1,2 @@
         prompt:
        -    Is it polite?
        +    How polite is it?
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, name: str, content: Mapping[str, Any], note: str = "") -> EvaluatorVersion:
        """Adds a version, unless the newest one has this content already; returns the newest.

        Args:
            name: a new one, or one that is there; a deleted one comes back.
            content: JSON: prompt, files, parameters.
            note: what the version is, in words.

        Raises:
            InputError: an empty name, or something that JSON cannot express.
        """
        check_type("name", name, str)
        check_type("content", content, Mapping)
        check_type("note", note, str)
        if not name.strip():
            raise InputError("name must not be empty")
        digest, kept = content_hash(content), packed_json("content", content)
        with self._database.write() as connection:
            _mark(connection, name, None)
            connection.execute("INSERT OR IGNORE INTO evaluator_contents VALUES (?, ?)", (digest, kept))
            return self._add(connection, name, digest, note)

    def _add(self, connection: sqlite3.Connection, name: str, digest: str, note: str) -> EvaluatorVersion:
        newest = self._find(connection, name, None)
        if newest is None or newest.hash != digest:
            number = 1 if newest is None else newest.number + 1
            sql = "SELECT id FROM evaluators WHERE name = ?"
            place = connection.execute(sql, (packed(name),)).fetchone()[0]
            values = (place, number, digest, packed(note), time.time())
            connection.execute(
                "INSERT INTO evaluator_versions (evaluator, number, hash, note, created) VALUES (?, ?, ?, ?, ?)", values
            )
            connection.execute(
                "INSERT OR REPLACE INTO checks (about, first, second, checksum) VALUES ('version', ?, ?, ?)",
                (place, number, checksum(values)),
            )
        return self._found(connection, name, None)

    def get(self, name: str, version: int | str | None = None) -> EvaluatorVersion:
        """Returns a version by its number or the beginning of its hash, at least 8 digits; the newest by default.

        Raises:
            InputError: there is no such evaluator or version.
        """
        with self._database.read() as connection:
            return self._found(connection, name, version)

    def _found(self, connection: sqlite3.Connection, name: str, version: int | str | None) -> EvaluatorVersion:
        found = self._find(connection, name, version)
        if found is None:
            numbers = [str(number) for number in self._numbers(connection, name)]
            there = f"it has versions {', '.join(numbers)}" if numbers else "there is no evaluator of this name"
            asked = "" if version is None else f" version {version!r} of"
            raise InputError(f"no{asked} evaluator {name!r} in the store: {there}")
        return found

    def _numbers(self, connection: sqlite3.Connection, name: str) -> list[int]:
        sql = f"SELECT evaluator_versions.number FROM {_FROM} WHERE evaluators.name = ? ORDER BY 1"
        return [number for (number,) in connection.execute(sql, (packed(name),))]

    def _find(self, connection: sqlite3.Connection, name: str, version: int | str | None) -> EvaluatorVersion | None:
        check_type("name", name, str)
        values: list[Any] = [packed(name)]
        which = ""
        if isinstance(version, str):
            if len(version) < 8 or any(sign not in "0123456789abcdef" for sign in version):
                raise InputError(f"version must be a number or at least 8 digits of a hash but got {version!r}")
            which = "AND substr(evaluator_versions.hash, 1, ?) = ?"
            values += [len(version), version]
        elif version is not None:
            check_count("version", version, 1)
            which = "AND evaluator_versions.number = ?"
            values.append(version)
        sql = f"SELECT {_COLUMNS}, content FROM {_FROM} JOIN evaluator_contents USING (hash)"
        sql += f" WHERE evaluators.name = ? {which} ORDER BY evaluator_versions.number DESC LIMIT 1"
        _check_counts(connection)
        found = fetched(connection, sql, values)
        if found and version is None:
            _check_newest(connection, found[0])
        return _version(found[0]) if found else None

    def list(self, deleted: bool = False) -> list[EvaluatorVersion]:
        """Returns the newest version of every evaluator by name; a warning names those that are damaged and left out.

        Args:
            deleted: only those that are deleted, instead of all others, damaged ones among them.
        """
        sql = f"""SELECT {_COLUMNS}, content FROM {_FROM} JOIN evaluator_contents USING (hash)
            WHERE evaluator_versions.number =
            (SELECT max(number) FROM evaluator_versions AS all_versions WHERE all_versions.evaluator = evaluators.id)
            ORDER BY evaluators.name"""
        found: dict[bool, list[EvaluatorVersion]] = {False: [], True: []}
        with self._database.read() as connection, damages_met() if deleted else contextlib.nullcontext():
            _check_counts(connection)
            rows = {row[_ID]: row for row in fetched(connection, sql)}
            for number, name in fetched(connection, "SELECT id, name FROM evaluators ORDER BY name"):
                with told(self._database.path):
                    row = rows.get(number)
                    if row is None:
                        raise DamageError(f"evaluator {name!r}", _LOST)
                    _check_newest(connection, row)
                    found[row[_DELETED] is not None].append(_version(row))
        return found[deleted]

    def versions(self, name: str) -> tuple[EvaluatorVersion, ...]:
        """Returns all versions of an evaluator, the first one first."""
        with self._database.read() as connection:
            self._found(connection, name, None)
            return tuple(self._found(connection, name, number) for number in self._numbers(connection, name))

    def diff(self, name: str, old: int | str, new: int | str | None = None) -> str:
        """Returns what differs between two versions, as a unified diff of texts; empty if nothing does."""
        with self._database.read() as connection:
            first, second = (self._found(connection, name, version) for version in (old, new))
        left, right = (list(_lines(version.content)) for version in (first, second))
        labels = (f"{name} version {first.number}", f"{name} version {second.number}")
        return "\n".join(difflib.unified_diff(left, right, *labels, lineterm=""))

    def restore(self, name: str, version: int | str) -> EvaluatorVersion:
        """Makes an old content the newest version again, under a new number; the versions between are kept."""
        with self._database.write() as connection:
            old = self._found(connection, name, version)
            _mark(connection, name, None)
            return self._add(connection, name, old.hash, f"restored from version {old.number}")

    def delete(self, name: str) -> None:
        """Takes an evaluator out of the list. Its versions stay, since runs name them; :meth:`restore` undoes it."""
        with self._database.write() as connection:
            self._found(connection, name, None)
            _mark(connection, name, time.time())


def _check_counts(connection: sqlite3.Connection) -> None:
    for table in ("evaluators", "evaluator_versions"):
        check_count_of(connection, table)


def _check_newest(connection: sqlite3.Connection, row: tuple[Any, ...]) -> None:
    """Raises DamageError where a version that was found is not the newest one: checksums of newer ones are there."""
    sql = "SELECT max(second) FROM checks WHERE about = 'version' AND first = ?"
    newest = connection.execute(sql, (row[_ID],)).fetchone()[0]
    if type(newest) is int and newest > whole(row[1]):
        raise DamageError(f"evaluator {row[0]!r}", _LOST)


def _mark(connection: sqlite3.Connection, name: str, deleted: float | None) -> None:
    """Writes a name, new or known, with or without a mark that it is deleted."""
    values = sealed((packed(name), deleted))
    connection.execute(
        """INSERT INTO evaluators (name, deleted, checksum) VALUES (?, ?, ?)
        ON CONFLICT (name) DO UPDATE SET deleted = excluded.deleted, checksum = excluded.checksum""",
        values,
    )


def _version(row: tuple[Any, ...]) -> EvaluatorVersion:
    """Returns a version that was read.

    Raises:
        DamageError: it is not what was written, or its content does not have its hash.
    """
    name, number, digest, note, created, evaluator, deleted, marked, kept, content = row
    place = f"version {number} of evaluator {name!r}"
    check((name, deleted), marked, place)
    check((evaluator, number, digest, note, created), kept, place)
    with placed(place):
        found = unpacked_mapping(content)
        if content_hash(found) != digest:
            raise DamageError("", "its content does not have its hash")
        return EvaluatorVersion(unpacked(name), whole(number), digest, found, unpacked(note), real(created))


def _lines(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """A JSON value as lines: texts in lines of their own, so that a changed line of a prompt shows as one."""
    margin = "    " * depth
    if isinstance(value, dict):
        inner = depth
        if name:
            yield f"{margin}{name}:"
            inner += 1
        for key in sorted(value):
            yield from _lines(value[key], key, inner)
    elif isinstance(value, str):
        yield f"{margin}{name}:"
        yield from (f"{margin}    {line}" for line in value.split("\n"))
    else:
        yield f"{margin}{name}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"
