"""Folded texts of an ended run's rows that hold a script without spaces between words, to be searched as bytes.

An index of pairs of characters takes 36 times as long to build, one of trigrams 42 times, and both take more room than
the texts themselves (measured in docs/design/031-studio.md).
"""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections.abc import Iterator

from valor_gpu.store.checksums import check, damage, sealed
from valor_gpu.store.totals import check_copies

# Hangul letters; Thai to Myanmar, Khmer, Chinese, Japanese, Korean: words have no spaces between them, or endings that
# nobody types.
UNSPACED = (
    "\u0e00-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
# Arrows, signs, emoji and wide forms besides: they are looked for as they stand, too.
_COPIED = re.compile(f"[{UNSPACED}\u2190-\u2bff\uff00-\uff65\U0001f000-\U0001faff]")
_BETWEEN = "\0"  # which no text has, since words of rows have a space instead
_PORTION = 1 << 20  # characters of one record, so that a search holds few of them at once


def is_copied(folded: str) -> bool:
    """Returns whether rows with a text are among the copies.

    Args:
        folded: text, as :func:`valor_gpu.store.search.folded` returns it.
    """
    return not folded.isascii() and _COPIED.search(folded) is not None


class TextCopies:
    """Writes the copies of a run.

    Args:
        connection: within a transaction.
        run: number of the run.
    """

    def __init__(self, connection: sqlite3.Connection, run: int) -> None:
        self._connection, self._run = connection, run
        self._numbers: list[int] = []
        self._texts: list[str] = []
        self._size = 0

    def add(self, number: int, folded: str) -> None:
        """Keeps the text of a row, where it is searched here.

        Args:
            number: of the row.
            folded: all its texts, without NUL.
        """
        if not is_copied(folded):
            return
        self._numbers.append(number)
        self._texts.append(folded)
        self._size += len(folded)
        if self._size >= _PORTION:
            self.write()

    def write(self) -> None:
        """Writes what was added since the last record."""
        if self._numbers:
            kept = ",".join(map(str, self._numbers)), _BETWEEN.join(self._texts).encode()
            values = sealed((self._run, *kept))
            self._connection.execute(
                "INSERT INTO row_texts (run, numbers, texts, checksum) VALUES (?, ?, ?, ?)", values
            )
        self._numbers, self._texts, self._size = [], [], 0


def copied_rows(connection: sqlite3.Connection, run: int, folded: str) -> array[int]:
    """Returns the numbers of the rows that hold a text, in no order.

    Args:
        connection: of the store.
        run: number of a run with copies.
        folded: text for which :func:`is_copied` holds, without NUL.
    """
    sought, between = folded.encode(), _BETWEEN.encode()
    found = array("q")
    check_copies(connection, run)
    sql = "SELECT numbers, texts, checksum FROM row_texts WHERE run = ?"
    where = "copies of texts of run "
    for numbers, texts, kept in connection.execute(sql, (run,)):
        check((run, numbers, texts), kept, where, run)
        try:
            found.extend(_holding(numbers, texts, sought, between))
        except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise damage(where, str(error), run) from error
    return found


def _holding(numbers: str, texts: bytes, sought: bytes, between: bytes) -> Iterator[int]:
    """Numbers of the rows of one record whose text holds another."""
    place = texts.find(sought)
    if place < 0:
        return
    rows = list(map(int, numbers.split(",")))
    row = start = 0
    while place >= 0:
        row += texts.count(between, start, place)
        yield rows[row]
        start = texts.find(between, place)
        place = -1 if start < 0 else texts.find(sought, start)
