"""The process that reads a data set: ``python -m valor_gpu.web.processes.reader``, asked by a line of JSON.

It says how far it is, a line of JSON each time, and at last what it found. It ends when nobody listens any more.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from valor_gpu.errors import InputError, ValorError
from valor_gpu.evaluation.engine.forecast import count_rows
from valor_gpu.evaluation.rows.data import DataSource, SourceRow, open_data
from valor_gpu.evaluation.rows.mapping import Mapping as Fields

PAUSE = 0.25
"""Seconds between two words of how far it is."""
MOST_COLUMNS = 2_000
"""Of an uploaded file: pages list all of them for every field."""
LONGEST_NAME = 500
"""Characters of a column's name."""
ERRORS = 20
"""Errors of rows that cannot be read, of those that are counted."""
_SAYING = threading.Lock()


class Seen:
    """How far a file was read.

    Attributes:
        rows: read so far.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._source: DataSource | None = None

    def offset(self) -> int:
        """Bytes of the file up to which it is read."""
        return 0 if self._source is None else self._source.offset()

    def counting(self, source: DataSource) -> DataSource:
        """Returns the source, whose rows are counted while they are read."""
        self._source = source

        def rows() -> Iterator[SourceRow]:
            self.rows = 0
            for row in source:
                self.rows += 1
                yield row

        return replace(source, _rows=rows)


def list_file(path: str, seen: Seen | None = None) -> dict[str, Any]:
    """Reads what the list of data sets says of a file.

    Args:
        path: of the file.
        seen: counts its rows meanwhile.

    Returns:
        ``hash``, ``columns`` of all rows, ``paths`` of values within them (None where they are too many),
        ``rows``, and ``is_partial``, whether the first rows do not tell the columns of all.

    Raises:
        InputError: it cannot be read, or has more columns or longer names of them than pages show.
    """
    source = open_data(path)
    counting = (seen or Seen()).counting(source)
    digest = counting.hash
    whole = counting.with_all_columns()
    columns = whole.columns
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"{path} must have at most {MOST_COLUMNS:,} columns but has {len(columns):,}")
    longest = max(columns, key=len)
    if len(longest) > LONGEST_NAME:
        raise InputError(
            f"{path} must have names of columns of at most {LONGEST_NAME} characters but has one of {len(longest):,}"
        )
    paths = None if columns.paths is None else sorted(columns.paths)
    found = {"hash": digest, "columns": list(columns), "paths": paths, "is_partial": source.columns.is_partial}
    return {**found, "rows": whole.count_rows()}


def count_file(path: str, mapping: Mapping[str, Any], limit: int | None, seen: Seen) -> dict[str, Any]:
    """Counts the rows of a file under a mapping.

    Args:
        path: of the file.
        mapping: where fields come from, as JSON.
        limit: number of rows; None for all.
        seen: counts its rows meanwhile.

    Raises:
        InputError: it cannot be read.
    """
    source = open_data(path)
    fields = Fields.from_dict(mapping, list(source.columns))
    return count_rows(seen.counting(source), fields, limit, ERRORS).to_dict(ERRORS)


def main() -> int:
    """Reads what the first line of standard input asks for; returns the exit status."""
    asked, seen, over = json.loads(sys.stdin.readline()), Seen(), threading.Event()
    threading.Thread(target=_tell, args=(seen, over), name="progress", daemon=True).start()
    said: dict[str, Any]
    try:
        if "mapping" in asked:
            said = {"found": count_file(asked["path"], asked["mapping"], asked["limit"], seen)}
        else:
            said = {"found": list_file(asked["path"], seen)}
    except MemoryError:
        said = {"error": f"{asked['path']} needs more memory than there is"}
    except (ValorError, OSError) as error:
        said = {"error": str(error)}
    except Exception as error:
        traceback.print_exc()
        said = {"error": f"{asked['path']} cannot be read: {type(error).__name__}"}
    over.set()
    return 0 if _say(said) else 1


def _tell(seen: Seen, over: threading.Event) -> None:
    while not over.wait(PAUSE):
        if not _say({"rows": seen.rows, "bytes": seen.offset()}):
            os._exit(1)  # the server is gone, and nobody needs what is read


def _say(said: Mapping[str, Any]) -> bool:
    """Whether a line could be said."""
    try:
        with _SAYING:  # of two threads, whose lines must not run into each other
            print(json.dumps(said), flush=True)
    except (BrokenPipeError, ValueError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
