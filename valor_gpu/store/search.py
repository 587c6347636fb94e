"""Words in the rows of a run: by an index that is built when the run ends, before that by reading the rows."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.store.records import ROW_COLUMNS, StoredRow
from valor_gpu.store.values import packed, unpacked

LONGEST = 1000  # characters of a text that is looked for
# Thai to Myanmar, Khmer, Chinese, Japanese, Korean: words have no spaces between them, or endings that nobody types.
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]"
)
# Without content of its own, since the rows have it; so words of a row are deleted by giving them again.
_TABLE = "CREATE VIRTUAL TABLE IF NOT EXISTS row_words USING fts5 (run, words, content = '', detail = full)"
_MERGED = 500  # pages of the index that one transaction writes anew
_WORDS = "SELECT id, 'run' || run, row_words_of(key, inputs, outputs) FROM rows WHERE run = ?"


@dataclass(frozen=True)
class FoundRows:
    """A page of rows that hold a text.

    Args:
        rows: in the order of their numbers.
        how: ``"words"`` where the index of an ended run was asked: the words of the text in their order, letters and
            digits alone, in any case and without accents. ``"substring"`` where the rows were read (the run goes on,
            this SQLite has no FTS5, or the text has no word, or is of a script without spaces between words, such as
            Chinese): the text as it is, in any case.
    """

    rows: list[StoredRow]
    how: str


def row_words(key: str | bytes, inputs: str | bytes, outputs: str | bytes) -> str:
    """Returns all texts and numbers of a row, one a line, without names of columns: an SQL function."""
    texts = [unpacked(key)]
    for kept in (inputs, outputs):
        if kept != "{}":
            _add_leaves(json.loads(unpacked(kept)), texts)
    text = "\n".join(texts)
    whole = text if text.isascii() else text.encode(errors="replace").decode()
    return whole.replace("\0", " ")  # FTS5 would end at a NUL


def _add_leaves(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _add_leaves(item, texts)
    elif isinstance(value, list):
        for item in value:
            _add_leaves(item, texts)
    elif value is not None:
        texts.append(str(value))


def _holds(key: str | bytes, inputs: str | bytes, outputs: str | bytes, text: str) -> bool:
    """Whether a row holds a folded text: an SQL function."""
    return text in _folded(row_words(key, inputs, outputs))


def _folded(text: str) -> str:
    """A text without the difference of cases, and with accents in one form: ``é`` can be one character or two."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text.casefold())


def _prepare(connection: sqlite3.Connection) -> None:
    connection.create_function("row_words_of", 3, row_words, deterministic=True)
    connection.create_function("row_holds", 4, _holds, deterministic=True)


def build(connection: sqlite3.Connection, run: int) -> bool:
    """Builds the index of a run's words; False where this SQLite has no FTS5."""
    if _indexed(connection, run):
        return True
    _prepare(connection)
    try:
        connection.execute(_TABLE)
    except sqlite3.OperationalError as error:
        if "fts5" in str(error):
            return False
        raise
    connection.execute(f"INSERT INTO row_words (rowid, run, words) {_WORDS}", (run,))
    connection.execute("UPDATE runs SET indexed = 1 WHERE id = ?", (run,))
    return True


def forget(connection: sqlite3.Connection, run: int) -> None:
    """Takes a run out of the index, before its rows change or go."""
    if not _indexed(connection, run):
        return
    _prepare(connection)
    kept = _WORDS.replace("SELECT", "SELECT 'delete',")
    connection.execute(f"INSERT INTO row_words (row_words, rowid, run, words) {kept}", (run,))
    connection.execute("UPDATE runs SET indexed = 0 WHERE id = ?", (run,))


def compact(connection: sqlite3.Connection) -> bool:
    """Writes a part of the index anew without the words of runs that were taken out; False where nothing is left to do.

    FTS5 only marks words as deleted until its parts are merged, which one transaction need not do as a whole.
    """
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'row_words'").fetchone() is None:
        return False
    if connection.execute("SELECT 1 FROM runs WHERE indexed = 1").fetchone() is None:
        connection.execute("INSERT INTO row_words (row_words) VALUES ('delete-all')")
        return False
    before = connection.total_changes
    connection.execute(f"INSERT INTO row_words (row_words, rank) VALUES ('merge', {-_MERGED})")
    return connection.total_changes - before > 1  # SQLite's sign that the merge has not ended


def _indexed(connection: sqlite3.Connection, run: int) -> bool:
    row = connection.execute("SELECT indexed FROM runs WHERE id = ?", (run,)).fetchone()
    return row is not None and bool(row[0])


def find(connection: sqlite3.Connection, text: str, page: Sequence[Any]) -> FoundRows:
    """Finds a page of rows; ``page`` is run, number behind which it begins, and limit."""
    run, after, limit = page
    where, values, how = condition(connection, run, text)
    sql = f"SELECT {ROW_COLUMNS} FROM rows WHERE run = ? AND {where} AND number > ? ORDER BY number LIMIT ?"
    return FoundRows([StoredRow.kept(row) for row in connection.execute(sql, (run, *values, after, limit))], how)


def condition(connection: sqlite3.Connection, run: int, text: str) -> tuple[str, tuple[Any, ...], str]:
    """Returns SQL that holds for the rows of a run with a text, its values, and how it is looked for."""
    if not text.strip() or len(text) > LONGEST:
        raise InputError(f"text must have 1 to {LONGEST} characters but has {len(text.strip())}")
    if _indexed(connection, run) and (words := _quoted(text)):
        where = "id IN (SELECT rowid FROM row_words WHERE row_words MATCH ?)"
        return where, (f"run : run{run} AND words : {words}",), "words"
    _prepare(connection)
    sought = text.encode(errors="replace").decode().replace("\0", " ")
    return "row_holds(key, inputs, outputs, ?)", (packed(_folded(sought)),), "substring"


def _quoted(text: str) -> str:
    """A text as one phrase of FTS5; empty where the index has no words like it."""
    if not any(sign.isalnum() for sign in text) or _UNSPACED.search(text):
        return ""
    return '"' + text.encode(errors="replace").decode().replace("\0", " ").replace('"', '""') + '"'
