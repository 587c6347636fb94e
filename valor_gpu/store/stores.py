"""The store: one SQLite file with runs, evaluators, data sets and views."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import DamageError, InputError, InputTypeError
from valor_gpu.store import deletions, heads, search
from valor_gpu.store.checksums import tell
from valor_gpu.store.database import BUSY, Database, default_path
from valor_gpu.store.datasets import DatasetLibrary, ViewLibrary
from valor_gpu.store.evaluators import EvaluatorLibrary
from valor_gpu.store.heads import Content
from valor_gpu.store.leases import owner
from valor_gpu.store.records import check_count
from valor_gpu.store.runs import RUN_STATES, Run
from valor_gpu.store.states import content_of, state_of
from valor_gpu.store.values import packed, packed_json

if TYPE_CHECKING:
    from valor_gpu.store.saved import Savable


class NewRun(NamedTuple):
    """A run that is to be made; see :meth:`Store.create_run`."""

    name: str
    config: Mapping[str, Any]
    tags: Mapping[str, Any]
    dataset: str = ""

    def bound(self) -> dict[str, Any]:
        """Returns the columns of the run as they are bound to a statement, with an id of its own, checked."""
        for argument, value in (("name", self.name), ("dataset", self.dataset)):
            check_type(argument, value, str)
        check_type("config", self.config, Mapping)
        texts = {"config": packed_json("config", self.config), "tags": packed_json("tags", self.tags)}
        names = {"uid": secrets.token_hex(6), "name": packed(self.name), "dataset": packed(self.dataset)}
        return {**names, **texts, "created": time.time(), "state": "draft"}


class Store:
    """A file of runs, for any number of threads and processes of one machine at a time.

    The file holds what was asked, answered and judged: it is made readable for its owner alone, as are the folders
    that it lacks. It must lie on a local disk, since SQLite's write-ahead log does not work across machines. What a
    method has written is safe from a kill when it returns; a power cut may lose the last moments.

    Args:
        path: the file, made when it does not exist. By default the environment variable ``VALOR_GPU_STORE``, else
            ``valor_gpu/store.sqlite`` in the folder of the user's data (on Linux ``~/.local/share``).
        busy: seconds to wait for another process that writes.

    Raises:
        StoreError: the file is something else, of a newer version, or cannot be opened.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {"metrics": ["f1_score"]}, tags={"model": "small"})
        ...     store.run("capitals").tags, store.run(run.id).state
        ({'model': 'small'}, 'draft')
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, busy: float = BUSY) -> None:
        self._database = Database(default_path() if path is None else path, busy)
        self.path = self._database.path
        self.evaluators = EvaluatorLibrary(self._database)
        self.datasets = DatasetLibrary(self._database)
        self.views = ViewLibrary(self._database)
        self._marks = deletions.Marks()

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def create_run(
        self, name: str, config: Mapping[str, Any], tags: Mapping[str, Any] | None = None, dataset: str = ""
    ) -> Run:
        """Makes a run in the state "draft".

        Args:
            name: for people; other runs may have it.
            config: JSON, without secrets.
            tags: JSON, for people.
            dataset: hash of the data set.
        """
        return self.create_runs([NewRun(name, config, tags or {}, dataset)])[0]

    def create_runs(self, runs: Sequence[NewRun], instead_of: tuple[str, str] | None = None) -> list[Run]:
        """Makes several runs in the state "draft", all or none.

        Args:
            runs: as for :meth:`create_run`.
            instead_of: kind and name of settings of :attr:`views` that go as the runs come.

        Returns:
            The runs; none of them are made where those settings have gone already.
        """
        bound = [run.bound() for run in runs]
        with self._database.write() as connection:
            if instead_of is not None:
                sql = "DELETE FROM views WHERE kind = ? AND name = ?"
                if not connection.execute(sql, tuple(map(packed, instead_of))).rowcount:
                    return []
            for each in bound:
                heads.insert_run(connection, each)
        return [self.run(each["uid"]) for each in bound]

    def save(
        self,
        result: Savable,
        name: str,
        *,
        images: str | os.PathLike[str] | None = None,
        tags: Mapping[str, Any] | None = None,
        data: Mapping[str, str] | None = None,
        saved_by: str = "Store.save",
        state: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Run:
        """Keeps a finished result of detection, segmentation or classification as a run.

        Args:
            result: a :class:`~valor_gpu.result.Result`, which gives numbers, classes, curves and confusion matrix as
                far as it has them; or a finished :class:`~valor_gpu.coco.COCOeval`, which also gives every image with
                its own numbers and boxes; or another object with a method ``to_run``, as a
                :class:`~valor_gpu.store.SavedRun` has.
            name: for people.
            images: folder of the pictures, by the names of the images' files. They are shown from there, not copied.
            tags: JSON, for people.
            data: what was evaluated: ``source``, for people, and ``hash``, by which comparisons know equal data.
            saved_by: what saves it, for people.
            state: path of the state file that ``save_state`` of a metric wrote, with which
                :func:`valor_gpu.stats.compare` takes the run; an evaluation knows its own.
            options: of the result's ``to_run``.

        Returns:
            The run, in the state "finished". Nothing is kept where this raises.

        Raises:
            InputTypeError: it is no such result.
            InputError: an option is wrong, ``images`` is no folder, or ``state`` no state file.

        Example:
            >>> import tempfile
            >>> from valor_gpu import Result, Signature
            >>> result = Result({"map": 0.5}, Signature({"metric": "COCOeval"}), {"images": 8})
            >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
            ...     run = store.save(result, "shelf-m")
            ...     run.state, run.config["kind"], run.finished_summary["metrics"]
            ('finished', 'detection', {'map': 0.5})
        """
        from valor_gpu.store.saved import within_limits, write  # here, since most stores keep runs of answers

        if not hasattr(result, "to_run"):
            raise InputTypeError(f"result must have a method to_run, as a Result has, but got {type(result).__name__}")
        if images is not None and not os.path.isdir(images):
            got = "is a file" if os.path.exists(images) else "does not exist"
            raise InputError(f"images must be a folder but {os.fspath(images)} {got}")
        found = result.to_run(**options)
        found = within_limits(found if state is None else replace(found, state=content_of(state)))
        folder, data = None if images is None else os.path.abspath(images), data or {}
        run = self.create_run(name, found.config(name, data, folder, saved_by), tags, str(data.get("hash", "")))
        try:
            write(run, found)
        except BaseException:
            run.delete()
            raise
        return run

    def run(self, id_or_name: str) -> Run:
        """Returns the run of an id, else the newest run of a name that is not deleted.

        Raises:
            InputError: there is none.
            DamageError: the run is damaged, or one that is newer than those of the name is, and may have that name.
        """
        check_type("id_or_name", id_or_name, str)
        with self._database.read() as connection:
            by_id = heads.kept_runs(connection, "WHERE uid = ?", (packed(id_or_name),))
            found = by_id[0] if by_id else heads.newest_named(connection, id_or_name)
            if found is None:
                raise InputError(f"no run with the id or name {id_or_name!r} in the store {self.path}")
            return Run(self._database, found.number, found.values)

    def runs(
        self,
        limit: int = 100,
        before: Run | None = None,
        *,
        state: str | None = None,
        dataset: str | None = None,
        deleted: bool = False,
        damaged: list[heads.RunHead] | None = None,
    ) -> list[Run]:
        """Returns a page of runs, the newest first.

        A run whose record is damaged cannot be given. The others are, and a warning names it, or ``damaged`` gets it.

        Args:
            limit: at most so many runs.
            before: the last run of the page before.
            state: only runs in this state.
            dataset: only runs of the data set of this hash.
            deleted: only runs that are marked as deleted, instead of all others.
            damaged: gets damaged runs that were met, whatever is asked for, since nothing that stands there counts; no
                warning is given then. It is none of the runs marked as deleted.
        """
        check_count("limit", limit, 1)
        if state is not None:
            check_choice("state", state, RUN_STATES)
        sought = {"state": state, "dataset": None if dataset is None else packed(dataset)}
        found, unread = [], []
        with self._database.read() as connection:
            for each in heads.each_run(connection, None if before is None else before._number):
                if (head := heads.head_of(each)).damage:
                    unread += [] if deleted else [head]
                elif (head.deleted is not None) == deleted and all(
                    value in (None, each.values[column]) for column, value in sought.items()
                ):
                    found.append(Run(self._database, each.number, each.values))
                    if len(found) == limit:
                        break
        if damaged is not None:
            damaged += unread
        else:
            for head in unread:
                tell(DamageError(f"run {head.id}", head.damage), self.path)
        return found

    def heads(self, deleted: bool = False) -> list[heads.RunHead]:
        """Returns what a list shows of every run, the newest first, without its configuration.

        A run whose record is damaged has ``damage``, the state "damaged", and stand-ins for what cannot be read.

        Args:
            deleted: only runs that are marked as deleted, instead of all others, damaged ones among them.
        """
        with self._database.read() as connection:
            return heads.heads(connection, deleted)

    def contents(self, ids: Collection[str], damaged: dict[str, str] | None = None) -> dict[str, Content]:
        """Returns configuration, tags and summary (None before the end) of runs, by their ids.

        Args:
            ids: of the runs; those that are not there are left out.
            damaged: gets the id of each damaged run and what is wrong with it, so that the others are returned.

        Raises:
            DamageError: a run is damaged, and ``damaged`` is not given.
        """
        with self._database.read() as connection:
            return heads.contents(connection, ids, damaged)

    def finished_at(self, run: Run) -> float | None:
        """Returns when a run ended, seconds since 1970; None of one that has not, or that goes on again."""
        with self._database.read() as connection:
            return heads.finished_at(connection, run.id)

    def owner(self, run: Run) -> str | None:
        """Returns a description of the process that lives and works on a run; None if there is none.

        A run in the state "running" without an owner was killed, and may be resumed.
        """
        with self._database.read() as connection:
            return owner(connection, run._number)

    def purge(self, seconds: float = 60) -> int:
        """Takes away runs that were marked as deleted at least ``seconds`` ago, with rows, scores, feedback and words.

        What they held is overwritten in the file. A run on which a process still works stays until a later call, and so
        does one that was marked since the last call of this object but that the clock, set forward, makes look older.

        A run with damaged rows goes, too. One whose record is damaged stays, since its mark cannot be trusted.

        Returns:
            How many runs were taken away.

        Raises:
            DamageError: a run cannot be taken away, since SQLite cannot read what belongs to it. It is there as before,
                and the others are gone.
        """
        with self._database.read() as connection:
            old, goes_on = self._marks.old(connection, seconds), deletions.goes_on(connection)
        gone, problems = 0, []
        for mark in sorted(old):
            try:
                gone += self._purge(mark)
            except DamageError as error:  # noqa: PERF203 -- one run must not keep the others
                problems.append(error)
        if gone or goes_on:
            self._compact()
        if problems:
            raise problems[0]
        return gone

    def _purge(self, mark: deletions.Mark) -> bool:
        """Takes a run away that has still this mark, and on which nobody works."""
        number, deleted = mark
        with self._database.write(overwriting=True) as connection:
            if not heads.is_marked(connection, number, deleted) or owner(connection, number) is not None:
                return False
            search.forget_for_good(connection, number)
            connection.execute("DELETE FROM runs WHERE id = ?", (number,))
            deletions.begin(connection)
            return True

    def _compact(self) -> None:
        """Takes words of runs that are gone out of the file."""
        goes_on = True
        while goes_on:
            with self._database.write(overwriting=True) as connection:
                goes_on = search.compact(connection)
                if not goes_on:
                    deletions.end(connection)
        self._database.checkpoint()

    def state_file(self, run: Run) -> bytes | None:
        """Returns what the numbers of a saved result came from, as ``--save-state`` writes it to a file.

        Args:
            run: of this store; :func:`valor_gpu.stats.compare` also takes the run itself.

        Returns:
            The content of the file; None of a run of answers, of one that an older version saved, and of a result that
            does not know its state.
        """
        return state_of(run)

    def close(self) -> None:
        """Closes the file for good."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
