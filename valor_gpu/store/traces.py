"""Traces: what was asked and answered for each score, and for each answer of a target. Standard library alone."""

from __future__ import annotations

import json
import re
import secrets as randomness
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import check, damage, fetched, named, sealed, whole
from valor_gpu.store.database import RunHandle
from valor_gpu.store.records import check_count
from valor_gpu.store.totals import check_count_of
from valor_gpu.store.values import json_text, packed, unpacked

ANSWER = ""
"""The evaluator of the trace of a row's answer."""
_SAMPLE = 2000
"""Traces whose mean size stands for that of all."""
_LEVEL = 3
"""Of zlib: twice as fast as its default, for 3% more bytes."""
_START = 40
"""Bytes in which the first key of a trace says whether it has prompts."""
_WINDOW = 1 << 15
"""Bytes of a base that zlib looks at."""
_BASED, _PLACE = b"B", struct.Struct(">qq")  # a zlib stream begins with 0x78
_SELECT = """SELECT evaluator, repeat, content, checksum FROM traces WHERE run = ? AND row = ? AND repeat >= 0
    ORDER BY evaluator, repeat"""
_SELECT_BASE = "SELECT content, checksum FROM traces WHERE run = ? AND row = ? AND evaluator = ? AND repeat = ?"
_COLUMNS = "run, row, evaluator, repeat, content, checksum"
# A score that has a value stays as it is, and so does its trace: this runs before the scores are written. An answer
# that is replaced loses its trace by a trigger, so that a trace that is there is of an answer that stays.
_INSERT = f"""INSERT INTO traces ({_COLUMNS}) SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (SELECT 1 FROM scores
    WHERE run = ?1 AND row = ?2 AND evaluator = ?3 AND repeat = ?4 AND value IS NOT NULL)
    ON CONFLICT (run, row, evaluator, repeat) DO UPDATE SET content = excluded.content, checksum = excluded.checksum
    WHERE evaluator <> ''"""
_REPLACE = f"""INSERT INTO traces ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (run, row, evaluator, repeat) DO UPDATE SET content = excluded.content, checksum = excluded.checksum"""


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
              In place of ``judge`` also ``embedding``, of a score by embeddings, with a call for all texts of the row.
            * ``requests`` of a call: a mapping for each request, with ``status``, ``error``, ``seconds``, ``waited``
              (seconds before the next one), ``reply`` and, of a repair, the messages ``added`` to those of the call.
              One for embeddings has ``texts``, the number of texts of several rows that it was sent with, ``retries``,
              ``model``, ``usage`` of all its texts, and ``size`` of a vector.
            * ``reply``: ``text``, ``finish_reason``, ``model``, ``usage`` in tokens, and ``dropped``, the parameters
              that the request was sent without.

            Keys without content are left out. A text that was cut is a mapping with ``text``, its beginning, and
            ``left_out``, the number of characters that are missing.
        base: text that this trace shares with others of its evaluator; it takes less room then.

    Example:
        >>> StoredTrace(1, "gpt_fluency", content={"calls": []}).repeat
        0
    """

    row: int
    evaluator: str = ANSWER
    repeat: int = 0
    content: Mapping[str, Any] = field(default_factory=dict)
    base: TraceBase | None = field(default=None, compare=False, repr=False)

    def bound(self, run: int) -> tuple[Any, ...]:
        """Returns the trace as it is bound to a statement, with its checksum.

        Raises:
            InputError: content that JSON cannot express.
        """
        check_count("row", self.row, 1)
        check_count("repeat", self.repeat)
        check_type("evaluator", self.evaluator, str)
        content = _packed(_text_of(self.content), self.base)
        return sealed((run, self.row, packed(self.evaluator), self.repeat, content))

    def as_base(self) -> TraceBase:
        """Returns the base for later traces of the evaluator, which are much like this one."""
        # Another process that goes on with the run must not replace this one's base, so that each has its own number.
        return TraceBase(self.row, self.evaluator, -1 - randomness.randbelow(1 << 62), _text_of(self.content)[:_WINDOW])


@dataclass(frozen=True)
class TraceBase:
    """Keeps the text that many traces of an evaluator share: the prompt, in most of them.

    It is kept like a trace, under a repeat below 0, and never replaced: its row has an answer, which is final. A trace
    may be given it from the moment when it is in the store.

    Args:
        row: number of the row that it came from.
        evaluator: name.
        repeat: number below 0.
        text: beginning of the JSON of a trace.
    """

    row: int
    evaluator: str
    repeat: int
    text: bytes

    def bound(self, run: int) -> tuple[Any, ...]:
        """Returns the base as it is bound to a statement, with its checksum."""
        return sealed((run, self.row, packed(self.evaluator), self.repeat, _packed(self.text, None)))


def _text_of(content: Mapping[str, Any]) -> bytes:
    check_type("content", content, Mapping)
    return json_text("content", content).encode(errors="surrogatepass")


def _packed(text: bytes, base: TraceBase | None) -> bytes:
    """Compresses a text; with a base, the row and repeat of the base come first."""
    if base is None:
        return zlib.compress(text, _LEVEL)
    press = zlib.compressobj(_LEVEL, zdict=base.text)
    return _BASED + _PLACE.pack(base.row, base.repeat) + press.compress(text) + press.flush()


def _place_of(kept: bytes) -> tuple[int, int] | None:
    """Returns the row and repeat of the base of a trace; None for a trace without a base.

    Raises:
        DamageError: the store is damaged.
    """
    try:
        return _PLACE.unpack_from(kept, len(_BASED)) if kept.startswith(_BASED) else None
    except (struct.error, AttributeError, TypeError) as error:
        raise _damaged(error) from error


def _damaged(error: object) -> DamageError:
    return DamageError("", f"it cannot be read: {error}")


def _unpacked(kept: bytes, base: bytes | None) -> dict[str, Any]:
    """Returns the content of a trace.

    Raises:
        DamageError: the store is damaged.
    """
    try:
        if base is None:
            text = zlib.decompress(kept)
        else:
            text = zlib.decompressobj(zdict=base).decompress(kept[len(_BASED) + _PLACE.size :])
        return dict(json.loads(text.decode(errors="surrogatepass")))
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        raise _damaged(error) from error


def insert_traces(
    connection: sqlite3.Connection, bound: Iterable[tuple[Any, ...]], run: str, statement: str = _INSERT
) -> None:
    """Keeps traces within a transaction: before its scores, and behind its rows.

    Raises:
        InputError: a row that is not stored.
    """
    try:
        connection.executemany(statement, bound)
    except sqlite3.IntegrityError as error:
        raise InputError(f"traces must be of rows that are stored in run {run} but are of others") from error


def keep_traces(run: RunHandle, traces: Iterable[StoredTrace]) -> None:
    """Keeps traces, all or none, in place of those that are there.

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
        insert_traces(connection, bound, run.id, _REPLACE)


def traces_of(run: RunHandle, row: int) -> list[StoredTrace]:
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
    with run._database.read() as connection:
        check_count_of(connection, "traces", run._number)
        bases: dict[Any, bytes | None] = {None: None}
        kept = fetched(connection, _SELECT, (run._number, row))
        return [_trace(connection, run._number, row, values, bases) for values in kept]


def _trace(
    connection: sqlite3.Connection, run: int, row: int, values: tuple[Any, ...], bases: dict[Any, bytes | None]
) -> StoredTrace:
    """Returns a trace that was read; a base that it needs is added to ``bases``."""
    name, repeat, content, kept = values
    about = f"by {name!r}" if name else "of the answer"
    place = f"trace {about} of row {row} in run "
    check((run, row, name, repeat, content), kept, place, run)
    try:
        at = _place_of(content)
        key = None if at is None else (name, at)
        if at is not None and key not in bases:
            bases[key] = _base(connection, run, name, *at)
        return StoredTrace(row, unpacked(name), whole(repeat), _unpacked(content, bases[key]))
    except DamageError as error:
        raise named(error, place, run) from error


def _base(connection: sqlite3.Connection, run: int, evaluator: str | bytes, row: int, repeat: int) -> bytes:
    """Returns the text of a base.

    Raises:
        DamageError: the store is damaged.
    """
    for content, kept in fetched(connection, _SELECT_BASE, (run, row, evaluator, repeat)):
        place = f"text that traces by {evaluator!r} share, kept with row {row} of run "
        check((run, row, evaluator, repeat, content), kept, place, run)
        try:
            return text_of_base(content)
        except DamageError as error:
            raise named(error, place, run) from error
    raise _damaged("the text that it shares with others is gone")


def size_of_traces(run: RunHandle) -> int:
    """Returns the number of bytes that the traces of a run take in the store."""
    with run._database.read() as connection:
        check_count_of(connection, "traces", run._number)
        sql = "SELECT coalesce(sum(length(content)), 0) FROM traces WHERE run = ?"
        return int(connection.execute(sql, (run._number,)).fetchone()[0])


def about_size_of_traces(run: RunHandle) -> int:
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


def prompts_of_traces(run: RunHandle) -> set[bool]:
    """Returns whether processes of a run have kept prompts: True, False, or both where it went on otherwise.

    The bases say it: every process that keeps a trace of a score or of an answer has its own.

    Returns:
        An empty set for a run without such traces.
    """
    with run._database.read() as connection:
        check_count_of(connection, "traces", run._number)
        sql = (
            "SELECT content FROM traces WHERE id IN (SELECT id FROM traces WHERE run = ? AND repeat < 0)"  # by an index
        )
        try:
            starts = {
                zlib.decompressobj().decompress(content, _START)
                for (content,) in connection.execute(sql, (run._number,))
            }
        except (zlib.error, TypeError) as error:
            raise damage("text that traces share in run ", f"it cannot be read: {error}", run._number) from error
    return {prompts for prompts in (True, False) if any(_starts(prompts).match(each) for each in starts)}


def _starts(prompts: bool) -> re.Pattern[bytes]:
    return re.compile(rb'\{"prompts":\s*%s\b' % json.dumps(prompts).encode())


def text_of_base(kept: bytes) -> bytes:
    """Returns the text of a base, as it lies in the store.

    Raises:
        DamageError: it is damaged.
    """
    try:
        return zlib.decompress(kept)
    except (zlib.error, TypeError) as error:
        raise _damaged(error) from error


def check_trace(kept: bytes, bases: Mapping[tuple[int, int], bytes]) -> None:
    """Checks that a trace can be read.

    Args:
        kept: as it lies in the store.
        bases: texts of the bases of its evaluator, by row and repeat.

    Raises:
        DamageError: it is damaged, or its base is gone.
    """
    place = _place_of(kept)
    if place is not None and place not in bases:
        raise _damaged("its base is gone")
    _unpacked(kept, None if place is None else bases[place])
