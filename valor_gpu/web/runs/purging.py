"""Deleted runs go for good a minute later, with all that belongs to them, also when the server was ended meanwhile."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError, ValorError
from valor_gpu.evaluation.engine.execute import remove_journal
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.store import Store, label_queues, tries
from valor_gpu.store.checksums import damages_met
from valor_gpu.web.processes.jobs import CANCEL, JOB, log_path
from valor_gpu.web.wizard import drafts
from valor_gpu.web.wizard.counting import forget_counts
from valor_gpu.web.wizard.uploads import clean_up

UNDO = 60
"""Seconds in which a deletion can be taken back."""
PAUSE = 15
"""Seconds between two looks for runs to purge."""
KIND = "purge"

_LOG = logging.getLogger(__name__)


def purge(store: Store, uploads: Path, seconds: float = UNDO) -> int:
    """Takes away runs deleted at least ``seconds`` ago, with what only they need.

    That is the log and the replies of their processes, their own entries of the judge's cache, and uploaded data sets
    that no other run and no draft reads. What is to go is noted in the store first, so that a process that ends in
    between leaves nothing behind: the next call goes on.

    Args:
        store: of the runs.
        uploads: folder of uploaded data sets.
        seconds: since the deletion.

    Returns:
        How many runs were taken away.
    """
    noted = store.views.list(KIND)  # without a damaged note, which is written anew
    for head in store.heads(deleted=True):
        if head.id not in noted:
            cache = store.run(head.id).config.get("cache")
            store.views.save(KIND, head.id, {"dataset": head.dataset, "cache": cache})
    gone = store.purge(seconds)
    noted = store.views.list(KIND)
    if noted:
        here = {head.id: head.deleted for deleted in (False, True) for head in store.heads(deleted)}
        for uid in noted:
            _take_rest(store, uploads, uid, here)
    return gone


def _take_rest(store: Store, uploads: Path, uid: str, here: Mapping[str, float | None]) -> None:
    """What is left of a run that was purged; the note of one that came back goes."""
    if uid not in here:
        said = store.views.get(KIND, uid) or {}
        remove_journal(store, uid)
        log_path(store, uid).unlink(missing_ok=True)
        for kind in (JOB, CANCEL, tries.KIND, label_queues.KIND):
            store.views.delete(kind, uid)
        _forget_replies(said.get("cache"), uid)
        _take_upload(store, uploads, str(said.get("dataset") or ""))
    elif here[uid] is not None:
        return
    store.views.delete(KIND, uid)


def _forget_replies(cache: Any, uid: str) -> None:
    path = Path(str(cache)) if cache else None
    if path is not None and path.is_file() and path.stat().st_size:
        with contextlib.suppress(InputError), JudgeCache(path) as opened:  # by now it may be another program's file
            opened.forget_run(uid)


def _take_upload(store: Store, uploads: Path, digest: str) -> None:
    """An uploaded data set, with its file, unless a run or a draft reads it; a damaged run may be one that does."""
    if any(head.dataset == digest or head.damage for deleted in (False, True) for head in store.heads(deleted)):
        return
    if any(draft.data == digest for draft in drafts.drafts(store)):
        return
    known = {each.hash: each for each in store.datasets.list()}
    found = known.pop(digest, None)
    if found is None or not _is_upload(found.source, uploads):
        return
    store.datasets.delete(digest)
    forget_counts(store, digest)
    if all(each.source != found.source for each in known.values()):
        Path(found.source).unlink(missing_ok=True)


def _is_upload(source: str, uploads: Path) -> bool:
    return bool(source) and Path(source).resolve().parent == uploads.resolve()


class Sweeper:
    """A thread that purges deleted runs, at once and then every few seconds; a context manager that ends it.

    Args:
        store: of the runs.
        uploads: folder of uploaded data sets.
        pause: seconds between two looks.
    """

    def __init__(self, store: Store, uploads: Path, pause: float = PAUSE) -> None:
        self._store, self._uploads, self._pause = store, uploads, pause
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="purge", daemon=True)

    def _work(self) -> None:
        told = ""
        while True:
            try:
                with damages_met():  # which pages of lists show
                    clean_up(self._store, self._uploads)
                    purge(self._store, self._uploads)
                told = ""
            except (ValorError, OSError) as error:  # a full disk, a locked store: the next look may have more luck
                if str(error) != told:
                    _LOG.warning("deleted runs stay in the store for now: %s", error)
                told = str(error)
            except Exception as error:  # a thread that ends would leave every deleted run in the store
                if repr(error) != told:
                    _LOG.exception("deleted runs stay in the store for now")
                told = repr(error)
            if self._ended.wait(self._pause):
                return

    def __enter__(self) -> Sweeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
