"""A run: its rows and scores, written in transactions and read in pages by key."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.store import heads, opinions, pages, search
from valor_gpu.store.checksums import fetched, placed, real, whole
from valor_gpu.store.database import Database
from valor_gpu.store.leases import Lease, check_free, quiet_release
from valor_gpu.store.records import (
    CHECKED_ROW,
    LARGEST,
    OK,
    Feedback,
    StoredRow,
    StoredScore,
    check_count,
    rows_of,
)
from valor_gpu.store.summaries import EvaluatorSummary, Histogram, histogram, summarise, summarise_slices
from valor_gpu.store.totals import check_rows, keep_totals
from valor_gpu.store.traces import StoredTrace, TraceBase, insert_traces
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_json, unpacked_mapping
from valor_gpu.store.writing import insert_rows, insert_scores

RUN_STATES = heads.STATES
ENDED = ("finished", "stopped", "failed")


class Run:
    """A run of a :class:`~valor_gpu.store.Store`; made by :meth:`~valor_gpu.store.Store.create_run`.

    Attributes:
        id: a word that no other run has.
        name: as given; several runs may have one name.
        config: as given.
        tags: as given.
        dataset: hash of the data set, or ``""``.
        created: seconds since 1970.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {"metrics": ["exact_match"]})
        ...     with run.lease():
        ...         run.add_rows([StoredRow(1, "fr", {"question": "France?"}, {"answer": "Paris"})])
        ...         run.add_scores([StoredScore(1, "exact_match", 0, 1.0)])
        ...         run.finish("finished", {"mean_exact_match": 1.0})
        ...     run.rows()[0].outputs, run.summary()["exact_match"].mean
        1
        1
        ({'answer': 'Paris'}, 1.0)
    """

    def __init__(self, database: Database, number: int, values: Mapping[str, Any]) -> None:
        self._database, self._number = database, number
        self._lease: Lease | None = None
        with placed("configuration, tags or name of run ", number):
            self.id, self.name, self.dataset = (unpacked(values[column]) for column in ("uid", "name", "dataset"))
            self.config: dict[str, Any] = unpacked_mapping(values["config"])
            self.tags: dict[str, Any] = unpacked_mapping(values["tags"])
            self.created = real(values["created"])

    def __repr__(self) -> str:
        return f"Run({self.id!r}, name={self.name!r})"

    @contextlib.contextmanager
    def lease(self) -> Iterator[Lease]:
        """Reserves the run for this process, as a context manager; the run's state is "running" meanwhile.

        A run whose owner no longer lives is taken over. While a lease is held, only this object may write to the run.

        Raises:
            LeaseError: a process that lives works on the run.
        """
        lease = Lease(self._database, self._number, self.id)
        with quiet_release(lease):
            with self._database.write() as connection:
                heads.update_run(connection, self._number, state="running", finished=None)
            self._lease = lease
            try:
                yield lease
            finally:
                self._lease = None

    @contextlib.contextmanager
    def _write(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        with self._database.write(patience=patience) as connection:
            if self._lease is not None:
                self._lease.check(connection)
            else:
                check_free(connection, self._number, self.id)
            yield connection

    def reconfigure(self, config: Mapping[str, Any]) -> None:
        """Replaces the configuration, of a run that goes on with something added.

        Args:
            config: JSON, without secrets.
        """
        kept = packed_json("config", config)
        with self._write() as connection:
            heads.update_run(connection, self._number, config=kept)
        self.config = unpacked_json(kept)

    @property
    def state(self) -> str:
        """One of "draft", "running", "finished", "stopped" and "failed"."""
        with self._database.read() as connection:
            return heads.state_of(self._kept(connection), self._number)

    @property
    def finished_summary(self) -> dict[str, Any] | None:
        """What :meth:`finish` was given; None before."""
        with self._database.read() as connection, placed("summary of run ", self._number):
            kept = self._kept(connection)["summary"]
            return None if kept is None else unpacked_mapping(kept)

    def _kept(self, connection: sqlite3.Connection) -> dict[str, Any]:
        kept = heads.kept_run(connection, self._number)
        if kept is None:
            raise InputError(f"run {self.id} is no longer in the store: it was purged")
        return kept

    def add_rows(self, rows: Iterable[StoredRow], traces: Iterable[StoredTrace | TraceBase] = ()) -> int:
        """Keeps rows, all or none. They are safe from a kill when this returns.

        A row that is there with status "ok" stays as it is, so that a resumed run may offer it again. One with another
        status is replaced, and loses its scores, which judged another answer.

        Args:
            rows: of the run.
            traces: of the answers of these rows, kept with them.

        Returns:
            How many rows are new or replaced.

        Raises:
            InputError: a row that JSON cannot express, a key that another row has, or a row that is there under
                another key. Nothing is kept.
            LeaseError: another process works on the run.
        """
        bound = [row.bound(self._number) for row in rows]
        bound_traces = [trace.bound(self._number) for trace in traces]
        with self._write() as connection:
            changed = insert_rows(connection, self._number, self.id, bound)
            insert_traces(connection, bound_traces, self.id)
        return changed

    def add_scores(self, scores: Iterable[StoredScore], traces: Iterable[StoredTrace | TraceBase] = ()) -> int:
        """Keeps scores, all or none. They are safe from a kill when this returns.

        Give one list of 1,000 rows where scores cost nothing, and one score where it was paid for. A score that is
        there and has a value stays as it is; one without a value is replaced.

        Args:
            scores: of rows of the run.
            traces: of these scores, kept and replaced with them.

        Returns:
            How many scores are new or replaced.

        Raises:
            InputError: a value that is not finite, or that its status contradicts, or a row that is not stored. Nothing
                is kept.
            LeaseError: another process works on the run.
        """
        bound = [score.bound(self._number) for score in scores]
        bound_traces = [trace.bound(self._number) for trace in traces]
        with self._write() as connection:
            try:
                if bound_traces:
                    insert_traces(connection, bound_traces, self.id)
                return insert_scores(connection, self._number, bound)
            except sqlite3.IntegrityError as error:
                stored = self._statuses(connection, {values[1] for values in bound})
                lacking = next((values[1] for values in bound if values[1] not in stored), None)
                raise InputError(f"scores must be of stored rows but row {lacking} is not in run {self.id}") from error

    def row_statuses(self, numbers: Collection[int]) -> dict[int, str]:
        """Returns the status of those rows among ``numbers`` that are stored, at most some thousands at a time."""
        for number in numbers:
            check_count("number", number, 1)
        with self._database.read() as connection:
            return self._statuses(connection, numbers)

    def _statuses(self, connection: sqlite3.Connection, numbers: Collection[int]) -> dict[int, str]:
        found = pages.chosen(connection, self._number, "number", sorted(set(numbers)))
        with placed("statuses of rows of run ", self._number):
            return {whole(kept[0]): unpacked(kept[4]) for kept in found}

    def rows(
        self,
        after: int = 0,
        limit: int = 100,
        status: str | None = None,
        numbers: Sequence[int] | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[StoredRow]:
        """Returns a page of rows in the order of their numbers.

        Args:
            after: number of the row behind which the page begins; the last one of the page before.
            limit: at most so many rows.
            status: only rows of this status.
            numbers: these rows instead of a page, in this order; those that are not stored are left out.
            keys: of rows, likewise.
        """
        with self._database.read() as connection:
            check_rows(connection, self._number)
            if numbers is not None:
                return pages.chosen_rows(connection, self._number, "number", numbers)
            if keys is not None:
                return pages.chosen_rows(connection, self._number, "key", [packed(key) for key in keys])
            values = _page_values(self._number, after, limit)
            which = "" if status is None else pages.ANSWERED if status == OK else pages.FAILED
            values[2:2] = [] if status in (None, OK) else [packed(str(status))]
            sql = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number > ? {which} ORDER BY number LIMIT ?"
            found = rows_of(fetched(connection, sql, values), self._number)
            pages.check_statuses(found, status, self._number)
            return found

    def stream_rows(self) -> Iterator[StoredRow]:
        """Yields all rows in the order of their numbers, reading a page at a time."""
        after = 0
        while page := self.rows(after, pages.PAGE):
            yield from page
            after = page[-1].number

    def scores(
        self,
        evaluator: str | None = None,
        *,
        first: int = 1,
        last: int = LARGEST,
        repeat: int | None = None,
    ) -> Iterator[StoredScore]:
        """Yields scores by row, evaluator and repeat, reading a page at a time.

        Args:
            evaluator: only scores of this one.
            first: number of the first row.
            last: number of the last row.
            repeat: only scores of this repeat.
        """
        return pages.stream_scores(self._database, self._number, evaluator, first, last, repeat)

    def score_page(
        self,
        evaluator: str,
        after: StoredScore | None = None,
        limit: int = 100,
        descending: bool = False,
        repeat: int = 0,
        between: tuple[float | None, float | None] | None = None,
    ) -> list[StoredScore]:
        """Returns a page of one evaluator's scores in the order of their values; the rows are read with :meth:`rows`.

        Args:
            evaluator: whose scores; those without a value come first (last where ``descending``), equal ones by row.
            after: the score behind which the page begins; the last one of the page before.
            limit: at most so many scores.
            descending: the highest value first, and equal values by row from the last.
            repeat: of the judging.
            between: only values from the first to the second, both included, None for no bound.
        """
        return pages.score_page(self._database, self._number, evaluator, after, limit, descending, repeat, between)

    def missing(
        self, evaluators: Sequence[str], repeats: int = 1, retry: Collection[str] = ()
    ) -> Iterator[tuple[int, str, int]]:
        """Yields (row, evaluator, repeat) of every score that rows with status "ok" lack, in the order of the rows.

        Args:
            evaluators: names.
            repeats: how often each row is judged.
            retry: a stored score without a value is missing, too, when its status is one of these.
        """
        return pages.missing_scores(self._database, self._number, evaluators, repeats, retry)

    def counts(self) -> dict[str, int]:
        """Returns how many rows there are of each status."""
        with self._database.read() as connection:
            check_rows(connection, self._number)
            sql = "SELECT status, count(*) FROM rows WHERE run = ? AND status <> 'ok' GROUP BY status"
            with placed("statuses of rows of run ", self._number):
                failed = {unpacked(status): n for status, n in fetched(connection, sql, (self._number,))}
            total = connection.execute("SELECT count(*) FROM rows WHERE run = ?", (self._number,)).fetchone()[0]
        return {OK: total - sum(failed.values()), **failed}

    def summary(self) -> dict[str, EvaluatorSummary]:
        """Returns what the stored scores of each evaluator amount to, computed by SQL."""
        with self._database.read() as connection:
            return summarise(connection, self._number)

    def slices(self, column: str, most: int = 1000) -> list[tuple[Any, dict[str, EvaluatorSummary]]]:
        """Returns, for every value of an input column, that value and what the scores of its rows amount to.

        Args:
            column: of the inputs. A row that lacks it counts like one where it is None.
            most: an error where there are more values.

        Raises:
            InputError: more than ``most`` values.
        """
        check_type("column", column, str)
        check_count("most", most, 1)
        with self._database.read() as connection:
            return summarise_slices(connection, self._number, column, most)

    def histogram(self, evaluator: str, edges: Sequence[float]) -> Histogram:
        """Returns how many scores lie between ``edges``; every bin has its lower edge, the last one both."""
        with self._database.read() as connection:
            return histogram(connection, self._number, evaluator, edges)

    def search(self, text: str, after: int = 0, limit: int = 100) -> search.FoundRows:
        """Finds rows whose inputs, outputs or key hold a text; see :class:`~valor_gpu.store.FoundRows`."""
        check_type("text", text, str)
        values = _page_values(self._number, after, limit)
        with self._database.read() as connection:
            return search.find(connection, text, values)

    def finish(self, state: str, summary: Mapping[str, Any]) -> None:
        """Ends the run, for now: a stopped or failed one may be leased and continued. Builds the index of its words.

        Args:
            state: "finished", "stopped" or "failed".
            summary: JSON, as :attr:`finished_summary` returns it.
        """
        check_choice("state", state, ENDED)
        kept = packed_json("summary", summary)
        with self._write() as connection:
            heads.update_run(connection, self._number, state=state, summary=kept, finished=time.time())
        with self._write() as connection:
            keep_totals(connection, self._number, search.build(connection, self._number))

    def delete(self) -> None:
        """Marks the run as deleted, also one that is worked on: lists leave it out, ``Store.purge`` takes it away."""
        with self._database.write() as connection:
            heads.mark_deleted(connection, self.id, time.time())

    def undelete(self) -> None:
        """Takes the mark of :meth:`delete` away."""
        with self._database.write() as connection:
            heads.mark_deleted(connection, self.id, None)

    def add_feedback(self, feedback: Feedback) -> None:
        """Keeps what a person says about a row, instead of what the same author said before on the same score."""
        bound = feedback.bound(self._number, time.time())
        with self._database.write() as connection:  # people may speak while the run goes on, so without its lease
            opinions.add(connection, bound, self.id)

    def feedback(self, first: int = 1, last: int = LARGEST) -> list[Feedback]:
        """Returns what people said about the rows from ``first`` to ``last``."""
        check_count("first", first)
        check_count("last", last)
        with self._database.read() as connection:
            return opinions.between(connection, self._number, first, last)


def _page_values(run: int, after: int, limit: int) -> list[Any]:
    check_count("after", after)
    check_count("limit", limit, 1)
    return [run, after, limit]
