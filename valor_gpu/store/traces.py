"""Traces: what was asked and answered for each score, and for each answer of a target. Standard library alone."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.store.records import check_count
from valor_gpu.store.values import encoded, json_text, packed, unpacked

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run

ANSWER = ""
"""The evaluator of the trace of a row's answer."""
_SAMPLE = 2000
"""Traces whose mean size stands for that of all."""
_COLUMNS = "run, row, evaluator, repeat, content"
# A score that has a value stays as it is, and so does its trace: this runs before the scores are written. An answer
# that is replaced loses its trace by a trigger, so that a trace that is there is of an answer that stays.
_INSERT = f"""INSERT INTO traces ({_COLUMNS}) SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM scores
    WHERE run = ?1 AND row = ?2 AND evaluator = ?3 AND repeat = ?4 AND value IS NOT NULL)
    ON CONFLICT (run, row, evaluator, repeat) DO UPDATE SET content = excluded.content
    WHERE evaluator <> ''"""


@dataclass(frozen=True)
class StoredTrace:
    """Keeps what was asked and answered for a score, or for the answer of a target.

    Args:
        row: number of the row.
        evaluator: name; ``""`` for the answer of the target.
        repeat: 0, 1, ... of a row that is judged several times.
        content: JSON.

            * ``prompts``: False where the run keeps no prompts and no requests.
            * ``judge``: kind, model, address and parameters of the judge. In its place ``target``: kind, address,
              headers and the like of the target.
            * ``calls``: a mapping for each question, in the order of asking. Its keys are ``messages`` (each with
              ``role`` and ``content``) or, of a function, ``arguments`` and ``returned``; ``requests``; ``status``,
              ``error``, ``seconds``; ``cached`` (True for a reply that was known already) with its ``reply``.
            * ``requests`` of a call: a mapping for each request, with ``status``, ``error``, ``seconds``, ``waited``
              (seconds before the next one), ``reply`` and, of a repair, the messages ``added`` to those of the call.
            * ``reply``: ``text``, ``finish_reason``, ``model``, ``usage`` in tokens, and ``dropped``, the parameters
              that the request was sent without.

            Keys without content are left out. A text that was cut is a mapping with ``text``, its beginning, and
            ``left_out``, the number of characters that are missing.

    Example:
        >>> StoredTrace(1, "gpt_fluency", content={"calls": []}).repeat
        0
    """

    row: int
    evaluator: str = ANSWER
    repeat: int = 0
    content: Mapping[str, Any] = field(default_factory=dict)

    def bound(self, run: int) -> tuple[Any, ...]:
        """Returns the trace as it is bound to a statement.

        Raises:
            InputError: content that JSON cannot express.
        """
        check_count("row", self.row, 1)
        check_count("repeat", self.repeat)
        check_type("evaluator", self.evaluator, str)
        return run, self.row, packed(self.evaluator), self.repeat, pack_content(self.content)


def pack_content(content: Mapping[str, Any]) -> bytes:
    """Returns the compressed JSON of a trace's content."""
    check_type("content", content, Mapping)
    try:
        text = encoded(content)
    except (TypeError, ValueError, RecursionError):
        text = json_text("content", content)  # whose message names what is wrong
    return zlib.compress(text.encode(errors="surrogatepass"))


def unpack_content(kept: bytes) -> dict[str, Any]:
    """Returns the content that :func:`pack_content` was given."""
    return dict(json.loads(zlib.decompress(kept).decode(errors="surrogatepass")))


def insert_traces(connection: sqlite3.Connection, bound: Iterable[tuple[Any, ...]], run: str) -> None:
    """Keeps traces within a transaction, before the scores of the same transaction.

    Raises:
        InputError: a row that is not stored.
    """
    try:
        connection.executemany(_INSERT, bound)
    except sqlite3.IntegrityError as error:
        raise InputError(f"traces must be of rows that are stored in run {run} but are of others") from error


def keep_traces(run: Run, traces: Iterable[StoredTrace]) -> None:
    """Keeps traces, all or none. Those of answers, and of scores that have a value, stay where they are there.

    Traces that come with scores or rows are given to :meth:`~valor_gpu.store.Run.add_scores` and
    :meth:`~valor_gpu.store.Run.add_rows`, which keep both or neither.

    Args:
        run: of a store.
        traces: of its rows.

    Raises:
        InputError: a row that is not stored, or content that JSON cannot express. Nothing is kept.
        LeaseError: another process works on the run.
    """
    bound = [trace.bound(run._number) for trace in traces]
    with run._write() as connection:
        insert_traces(connection, bound, run.id)


def traces_of(run: Run, row: int) -> list[StoredTrace]:
    """Returns the traces of a row: that of its answer first, then those of its scores by evaluator and repeat.

    Args:
        run: of a store.
        row: number of the row.

    Returns:
        An empty list for a run without traces.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "fr", {"question": "France?"})])
        ...     keep_traces(run, [StoredTrace(1, "gpt_fluency", content={"calls": []})])
        ...     traces_of(run, 1)
        [StoredTrace(row=1, evaluator='gpt_fluency', repeat=0, content={'calls': []})]
    """
    check_count("row", row, 1)
    sql = "SELECT row, evaluator, repeat, content FROM traces WHERE run = ? AND row = ? ORDER BY evaluator, repeat"
    with run._database.read() as connection:
        found = connection.execute(sql, (run._number, row)).fetchall()
    return [StoredTrace(number, unpacked(name), repeat, unpack_content(kept)) for number, name, repeat, kept in found]


def size_of_traces(run: Run) -> int:
    """Returns the number of bytes that the traces of a run take in the store."""
    with run._database.read() as connection:
        sql = "SELECT coalesce(sum(length(content)), 0) FROM traces WHERE run = ?"
        return int(connection.execute(sql, (run._number,)).fetchone()[0])


def about_size_of_traces(run: Run) -> int:
    """Returns about the number of bytes that :func:`size_of_traces` returns, without reading all traces.

    Up to 2,000 traces are counted exactly. Of more, the first 2,000 stand for all.
    """
    with run._database.read() as connection:
        sql = (
            "SELECT count(*), coalesce(sum(length(content)), 0) FROM (SELECT content FROM traces WHERE run = ? LIMIT ?)"
        )
        n, size = connection.execute(sql, (run._number, _SAMPLE)).fetchone()
        if n == _SAMPLE:
            total = connection.execute("SELECT count(*) FROM traces WHERE run = ?", (run._number,)).fetchone()[0]
            size = round(size / n * total)
    return int(size)
