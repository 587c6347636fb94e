"""Words in the rows of a run: by an index and copies of texts from the end of the run on, before by reading rows."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import damage, fetched, is_damage, named, placed, whole
from valor_gpu.store.connections import add_function
from valor_gpu.store.heads import update_run
from valor_gpu.store.pages import chosen_rows
from valor_gpu.store.records import CHECKED_ROW, StoredRow, checked_row, checked_rows, rows_of
from valor_gpu.store.text_copies import UNSPACED, TextCopies, copied_rows, is_copied
from valor_gpu.store.totals import check_rows, kept_totals
from valor_gpu.store.values import packed, unpacked, unpacked_json

LONGEST = 1000  # characters of a text that is looked for
WORDS, SUBSTRING = "words", "substring"
_UNSPACED = re.compile(f"[{UNSPACED}]+")
_GAP = "\ue000"  # stands in the index for a text without spaces: a word, so that the words beside it are no neighbours
# Without content of its own, since the rows have it; so words of a row are deleted by giving them again.
_TABLE = "CREATE VIRTUAL TABLE IF NOT EXISTS row_words USING fts5 (run, words, content = '', detail = full)"
_HOLDS = f"row_holds(?, ?, {CHECKED_ROW})"
_PAGE = 1000  # rows that are in memory while the index is built
_MERGED = 500  # pages of the index that one transaction writes anew
_WORDS_ALONE, _WITH_COPIES = 1, 2  # of runs.indexed: the first by versions that had no copies of texts
_FUNCTIONS = {_WORDS_ALONE: "row_words_of", _WITH_COPIES: "spaced_words_of"}


@dataclass(frozen=True)
class FoundRows:
    """A page of rows that hold a text.

    Args:
        rows: in the order of their numbers.
        how: ``"words"`` where the index of an ended run was asked: the words of the text in their order, letters and
            digits alone, in any case and without accents. ``"substring"`` where the run goes on, this SQLite has no
            FTS5, or the text has no word, or is of a script without spaces between words, such as Chinese: the text as
            it is, in any case. Rows are read for it, unless the run has ended and the text has a letter of such a
            script, an arrow, a sign or an emoji.
    """

    rows: list[StoredRow]
    how: str


def row_words(key: str | bytes, inputs: str | bytes, outputs: str | bytes) -> str:
    """Returns all texts and numbers of a row, one a line, without names of columns: an SQL function."""
    texts = [unpacked(key)]
    for kept in (inputs, outputs):
        if kept != "{}":
            value = unpacked_json(kept)
            _add_leaves(value.values() if type(value) is dict else (value,), texts)
    text = "\n".join(texts)
    whole = text if text.isascii() else text.encode(errors="replace").decode()
    return whole.replace("\0", " ")  # FTS5 would end at a NUL


def _add_leaves(values: Iterable[Any], texts: list[str]) -> None:
    for value in values:
        if type(value) is str:
            texts.append(value)
        elif type(value) is dict:
            _add_leaves(value.values(), texts)
        elif type(value) is list:
            _add_leaves(value, texts)
        elif value is not None:
            texts.append(str(value))


def _holds(text: str, run: int, *kept: Any) -> bool:
    """Whether a row holds a folded text: an SQL function of the columns that are read."""
    return text in folded(_words_of(run, *kept))


def _words_of(run: int, *kept: Any) -> str:
    """What :func:`row_words` says of a row that has its checksum: an SQL function of the columns that are read."""
    number, *texts = checked_row(kept, run)
    with placed(f"row {number} of run ", run):
        return row_words(*texts[:3])


def _spaced_words(run: int, *kept: Any) -> str:
    """The words of a row for the index: an SQL function."""
    return _spaced(folded(_words_of(run, *kept)))


def _spaced(text: str) -> str:
    """A folded text without the scripts that have no words for the index; signs between words stay signs."""
    if text.isascii():
        return text
    return _apart(_UNSPACED.sub(lambda found: f" {_GAP} " if any(map(str.isalnum, found[0])) else " ", text))


def _apart(text: str) -> str:
    """A text whose accents are signs of their own: FTS5 leaves out these, but not two accents of one letter."""
    return unicodedata.normalize("NFD", text)


def folded(text: str) -> str:
    """Returns a text without the difference of cases, and with accents in one form: ``é`` can be one character or two.

    Example:
        >>> folded("CAF\u00c9") == folded("cafe\u0301")
        True
    """
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text.casefold())


def _prepare(connection: sqlite3.Connection) -> None:
    add_function(connection, "row_words_of", 8, _words_of)
    add_function(connection, "spaced_words_of", 8, _spaced_words)
    add_function(connection, "row_holds", 9, _holds)


def build(connection: sqlite3.Connection, run: int) -> bool:
    """Builds the index of a run's words, and copies the texts that have none.

    Returns:
        Whether all rows were read for it and compared with their checksums: False where the run has its index already
        and where this SQLite has no FTS5.
    """
    if _indexed(connection, run):
        return False
    try:
        connection.execute(_TABLE)
    except sqlite3.OperationalError as error:
        if "fts5" in str(error):
            return False
        raise
    connection.execute("DELETE FROM row_texts WHERE run = ?", (run,))  # versions without copies leave them to others
    copies = TextCopies(connection, run)
    words = _copying(connection, run, copies)
    connection.executemany("INSERT INTO row_words (rowid, run, words) VALUES (?, ?, ?)", words)
    copies.write()
    update_run(connection, run, indexed=_WITH_COPIES)
    return True


def _copying(connection: sqlite3.Connection, run: int, copies: TextCopies) -> Iterator[tuple[int, str, str]]:
    """Records of the index, each of a row whose texts are copied meanwhile."""
    last, sql = 0, f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number > ? ORDER BY number LIMIT {_PAGE}"
    name, ids = f"run{run}", "SELECT id FROM rows WHERE run = ? AND number > ? AND number <= ? ORDER BY number"
    while page := checked_rows(fetched(connection, sql, (run, last)), run):
        first, last = last, page[-1][0]
        for (row,), (number, key, inputs, outputs, *_) in zip(connection.execute(ids, (run, first, last)), page):
            try:
                text = folded(row_words(key, inputs, outputs))
                whole(number)
            except DamageError as error:
                raise named(error, f"row {number} of run ", run) from error
            copies.add(number, text)
            yield row, name, text if text.isascii() else _spaced(text)


def forget(connection: sqlite3.Connection, run: int) -> None:
    """Takes a run out of the index, before its rows change or go."""
    indexed = _indexed(connection, run)
    if not indexed:
        return
    _prepare(connection)
    words = f"SELECT 'delete', id, 'run' || run, {_FUNCTIONS[indexed]}(run, {CHECKED_ROW}) FROM rows WHERE run = ?"
    connection.execute(f"INSERT INTO row_words (row_words, rowid, run, words) {words}", (run,))
    connection.execute("DELETE FROM row_texts WHERE run = ?", (run,))
    update_run(connection, run, indexed=0)


def forget_for_good(connection: sqlite3.Connection, run: int) -> None:
    """Takes a run out of the index that is deleted: where its rows are damaged, the index is made anew without it."""
    _prepare(connection)
    try:
        forget(connection, run)
        return
    except DamageError:
        pass
    except sqlite3.DatabaseError as error:
        if not is_damage(error) and "user-defined function" not in str(error):  # ours, which reads rows
            raise
    connection.execute("DELETE FROM row_texts WHERE run = ?", (run,))
    _make_anew(connection, run)


def _make_anew(connection: sqlite3.Connection, without: int = 0) -> None:
    """Makes the index of the words of all runs anew, without those of one that goes."""
    connection.execute("DROP TABLE IF EXISTS row_words")
    connection.execute(_TABLE)
    for number, indexed in connection.execute("SELECT id, indexed FROM runs WHERE id <> ?", (without,)).fetchall():
        if indexed in _FUNCTIONS:
            _add_words(connection, number, indexed)


def _add_words(connection: sqlite3.Connection, run: int, indexed: int) -> None:
    """Adds the words of a run to an index that lacks them. One with damaged rows is not indexed from here on."""
    try:
        for kept in fetched(connection, f"SELECT {CHECKED_ROW} FROM rows WHERE run = ?", (run,)):
            _words_of(run, *kept)
    except DamageError:
        with contextlib.suppress(DamageError), kept_totals(connection, run):  # no run whose own record is damaged
            update_run(connection, run, indexed=0)
        return
    words = f"SELECT id, 'run' || run, {_FUNCTIONS[indexed]}(run, {CHECKED_ROW}) FROM rows WHERE run = ?"
    connection.execute(f"INSERT INTO row_words (rowid, run, words) {words}", (run,))


def compact(connection: sqlite3.Connection) -> bool:
    """Writes a part of the index anew without the words of runs that were taken out; False where nothing is left to do.

    FTS5 only marks words as deleted until its parts are merged, which one transaction need not do as a whole. Where
    parts are damaged, the index is made anew.
    """
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'row_words'").fetchone() is None:
        return False
    if connection.execute("SELECT 1 FROM runs WHERE indexed").fetchone() is None:
        connection.execute("INSERT INTO row_words (row_words) VALUES ('delete-all')")
        return False
    _prepare(connection)  # which SQLite refuses when a statement has failed
    before = connection.total_changes
    try:
        connection.execute(f"INSERT INTO row_words (row_words, rank) VALUES ('merge', {-_MERGED})")
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        _make_anew(connection)
        return False
    return connection.total_changes - before > 1  # SQLite's sign that the merge has not ended


def _indexed(connection: sqlite3.Connection, run: int) -> int:
    row = connection.execute("SELECT indexed FROM runs WHERE id = ?", (run,)).fetchone()
    if row is not None and row[0] not in (0, *_FUNCTIONS):
        raise damage("index of words of run ", f"it is {row[0]!r}, which is none", run)
    return 0 if row is None else int(row[0])


def find(connection: sqlite3.Connection, text: str, page: Sequence[Any]) -> FoundRows:
    """Finds a page of rows; ``page`` is run, number behind which it begins, and limit."""
    run, after, limit = page
    check_rows(connection, run)
    copied = _copied(connection, run, text)
    if copied is not None:
        numbers = sorted(number for number in copied if number > after)[:limit]
        return FoundRows(chosen_rows(connection, run, "number", numbers), SUBSTRING)
    where, values, how = _condition(connection, run, text)
    sql = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND {where} AND number > ? ORDER BY number LIMIT ?"
    found = fetched(connection, sql, (run, *values, after, limit))
    return FoundRows(rows_of(found, run), how)


def numbers(connection: sqlite3.Connection, run: int, text: str) -> tuple[array[int], str]:
    """Returns the numbers of the rows of a run with a text, in no order, and how it is looked for."""
    copied = _copied(connection, run, text)
    if copied is not None:
        return copied, SUBSTRING
    where, values, how = _condition(connection, run, text)
    return joined_numbers(connection, f"SELECT number FROM rows WHERE run = ? AND {where}", (run, *values)), how


def joined_numbers(connection: sqlite3.Connection, sql: str, values: Sequence[Any]) -> array[int]:
    """Returns the integers that a statement selects, in no order."""
    (found,) = connection.execute(f"WITH found (n) AS ({sql}) SELECT group_concat(n) FROM found", values).fetchone()
    return split_numbers(found)


def split_numbers(joined: Any) -> array[int]:
    """Returns the integers that SQLite has joined by commas; None for no integer.

    Raises:
        DamageError: something else was joined.
    """
    try:
        return array("q", json.loads(f"[{joined}]")) if joined else array("q")  # four times as fast as int by int
    except (ValueError, TypeError, OverflowError) as error:
        raise DamageError("numbers of rows", f"they are not integers: {error}") from error


def scan(connection: sqlite3.Connection, run: int, text: str, after: int) -> list[tuple[int, int, int]] | None:
    """Reads the rows that came behind a position: id, number, and whether the row holds a text, by id.

    A row that is replaced comes anew, with another id.

    Args:
        connection: of the store.
        run: number of the run.
        text: as of :meth:`valor_gpu.store.Run.search`.
        after: id of the last row that was read; 0 for all rows.

    Returns:
        None where an index has the rows.
    """
    _check(text)
    check_rows(connection, run)
    if _indexed(connection, run):
        return None
    _prepare(connection)
    # SQLite would go through all rows of the run by the index of their numbers; those that are new stand at the end.
    which = "+run = ? AND id > ?" if after else "run = ? AND id > ?"
    sql = f"SELECT id, number, {_HOLDS} FROM rows WHERE {which}"
    with placed("numbers of rows of run ", run):
        found = fetched(connection, sql, (packed(folded(_plain(text))), run, run, after))
        return sorted((whole(row), whole(number), whole(holds)) for row, number, holds in found)


def _check(text: str) -> None:
    if not text.strip() or len(text) > LONGEST:
        raise InputError(f"text must have 1 to {LONGEST} characters but has {len(text.strip())}")


def _copied(connection: sqlite3.Connection, run: int, text: str) -> array[int] | None:
    """Numbers of the rows with a text by the copies of texts; None where these do not answer."""
    _check(text)
    sought = folded(_plain(text))
    if _indexed(connection, run) != _WITH_COPIES or _quoted(text) or not is_copied(sought):
        return None
    return copied_rows(connection, run, sought)


def _condition(connection: sqlite3.Connection, run: int, text: str) -> tuple[str, tuple[Any, ...], str]:
    """SQL that holds for the rows of a run with a text, its values, and how it is looked for."""
    indexed = _indexed(connection, run)
    if indexed and (words := _quoted(text if indexed == _WORDS_ALONE else _apart(folded(text)))):
        where = "id IN (SELECT rowid FROM row_words WHERE row_words MATCH ?)"
        return where, (f"run : run{run} AND words : {words}",), WORDS
    _prepare(connection)
    return _HOLDS, (packed(folded(_plain(text))), run), SUBSTRING


def _plain(text: str) -> str:
    """A text as :func:`row_words` would have it."""
    return text.encode(errors="replace").decode().replace("\0", " ")


def _quoted(text: str) -> str:
    """A text as one phrase of FTS5; empty where the index has no words like it."""
    if not any(sign.isalnum() for sign in text) or _UNSPACED.search(folded(text)):
        return ""
    return '"' + _plain(text).replace('"', '""') + '"'
