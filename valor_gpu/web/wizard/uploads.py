"""Uploaded data sets: stored under names of ours, read once, kept in the list of data sets.

A file is noted in the store before its first byte is written, and its note goes when it is a data set: what a server
leaves behind that was killed in between is found by its note, at the next start.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.store import Store, StoredDataset
from valor_gpu.store.leases import lives, machine, start_time
from valor_gpu.web.processes.reader import list_file
from valor_gpu.web.processes.readings import SMALL, Reading
from valor_gpu.web.studio import Studio
from valor_gpu.web.wizard import drafts
from valor_gpu.web.wizard.counting import keep_columns

KIND = "upload"
MOST = 200 << 20
"""Bytes of an uploaded file."""
ENDINGS = (".csv", ".jsonl")
_CHUNK = 1 << 20
_SHOWN = 200  # characters of a name


def keep_upload(studio: Studio, draft: drafts.Draft, name: str, content: BinaryIO) -> None:
    """Stores an uploaded file for a draft and lists it as a data set, which the draft then has.

    A small file is read at once, a larger one by a process; the draft names the upload until that has ended. The same
    content is stored once.

    Args:
        studio: whose store lists it.
        draft: that is to have it.
        name: that the user's file has; it decides the format and is shown, and names no file of ours.
        content: read piece by piece.

    Raises:
        InputError: another kind of file, a larger one; or a small one that has more columns or longer names of them
            than pages show, or no row that can be read. Nothing is stored.
        OSError: the folder cannot be written. Nothing is stored.
    """
    shown = shown_name(name)
    ending = next((each for each in ENDINGS if shown.lower().endswith(each)), "")
    if not ending:
        raise InputError(f"{shown or 'the file'} must be a file that ends in .csv or .jsonl")
    store = studio.store
    studio.uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
    forget_upload(studio, draft.upload)
    uid = secrets.token_hex(8)
    path = studio.uploads / f"{uid}{ending}"
    store.views.save(KIND, uid, {"name": shown, "file": path.name, "draft": draft.id, **_owner()})
    try:
        _copy(content, path, shown)
        if path.stat().st_size > SMALL:
            drafts.save(store, draft, upload=uid)
            studio.readings.start(uid, shown, str(path), {}, lambda reading: _end(store, uid, path, reading)).wait()
            return
        digest = _listed(store, path, shown, list_file(str(path))).hash
    except BaseException as error:
        path.unlink(missing_ok=True)
        store.views.delete(KIND, uid)
        if isinstance(error, InputError):
            raise InputError(str(error).replace(str(path), shown)) from None
        raise
    store.views.delete(KIND, uid)
    drafts.save(store, draft, data=digest, upload="", **_other_columns(draft.data, digest))


def shown_name(name: str) -> str:
    r"""The name of a file for people: its last part, without signs that no line has, cut where it is long.

    Example:
        >>> shown_name("C:\\data\\a\nb.csv"), shown_name("../../" + "x" * 300 + ".csv")[-8:]
        ('a b.csv', 'xxx….csv')
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = "".join(" " if ord(sign) < 32 or 0xD800 <= ord(sign) <= 0xDFFF or ord(sign) == 127 else sign
                    for sign in last).strip()  # fmt: skip
    stem, ending = os.path.splitext(plain)
    return plain if len(plain) <= _SHOWN else f"{stem[: _SHOWN - 10]}…{ending[:9]}"


def _copy(content: BinaryIO, path: Path, shown: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        size = 0
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            if size > MOST:
                raise InputError(f"{shown} must have at most {MOST >> 20} MB")
            file.write(chunk)


def _listed(store: Store, path: Path, shown: str, found: Mapping[str, Any]) -> StoredDataset:
    """The data set of a file that was read; the file goes where its content is there already."""
    known = {each.hash: each for each in store.datasets.list()}.get(found["hash"])
    if known is not None and known.source != str(path) and os.path.isfile(known.source):
        path.unlink()
        return known
    keep_columns(store, found)
    return store.datasets.save(found["hash"], shown, found["columns"], found["rows"], str(path))


def _other_columns(before: str, after: str) -> dict[str, Any]:
    return {"mapping": {}} if before != after else {}


def _end(store: Store, uid: str, path: Path, reading: Reading) -> None:
    """Lists the file that was read and gives it to its draft, or takes it away and keeps why."""
    if reading.found is None or reading.is_cancelled:
        path.unlink(missing_ok=True)
        _note_end(store, uid, "" if reading.is_cancelled else reading.error)
        return
    try:
        digest = _listed(store, path, reading.name, reading.found).hash
    except BaseException as error:
        path.unlink(missing_ok=True)
        _note_end(store, uid, f"What was read of {reading.name} could not be kept: {error}")
        raise
    _give(store, uid, digest)
    store.views.delete(KIND, uid)


def _give(store: Store, uid: str, digest: str) -> None:
    """Lets the draft that waits for an upload have its data set; another choice made meanwhile stays."""
    note = store.views.get(KIND, uid)

    def make(kept: dict[str, Any] | None) -> dict[str, Any] | None:
        if kept is None or kept.get("upload") != uid:
            return kept
        return {**kept, "upload": "", "data": digest, **_other_columns(kept.get("data", ""), digest)}

    if note is not None and store.views.get(drafts.KIND, note["draft"]) is not None:
        store.views.change(drafts.KIND, note["draft"], make)


def _note_end(store: Store, uid: str, error: str) -> None:
    """Keeps why an upload is no data set, for the page of its draft."""

    def make(kept: dict[str, Any] | None) -> dict[str, Any] | None:
        return {"name": kept["name"], "draft": kept["draft"], "error": error} if kept is not None and error else None

    store.views.change(KIND, uid, make)


def upload_of(studio: Studio, draft: drafts.Draft) -> tuple[Reading | None, str, str]:
    """The upload that a draft waits for: its reading, where this server reads it; its name; why it failed."""
    note = studio.store.views.get(KIND, draft.upload) if draft.upload else None
    if note is None:
        return None, "", ""
    reading, name, error = studio.readings.get(draft.upload), str(note["name"]), str(note.get("error", ""))
    if reading is None and not error and (note["pid"] == os.getpid() or not _is_read(note)):
        again = studio.store.views.get(KIND, draft.upload)  # it may have ended just now
        error = "" if again is None else str(again.get("error") or f"{name} was not read to its end. Upload it again.")
        return None, "" if again is None else name, error
    return reading, name, error


def forget_upload(studio: Studio, uid: str) -> None:
    """Cancels an upload that goes on, and forgets why one failed; a data set stays."""
    if not uid:
        return
    reading = studio.readings.get(uid)
    if reading is not None:
        reading.cancel()
        reading.wait(10.0)
    note = studio.store.views.get(KIND, uid)
    if note is not None and ("error" in note or note["pid"] == os.getpid() or not _is_read(note)):
        clean_up(studio.store, studio.uploads, uid)
        studio.store.views.delete(KIND, uid)


def clean_up(store: Store, uploads: Path, only: str = "") -> None:
    """Takes away the files of uploads whose server was ended while it read them, and notes that for their drafts.

    Args:
        store: with the notes.
        uploads: folder of uploaded data sets.
        only: an upload; all of them where that is empty.
    """
    for uid in [only] if only else store.views.list(KIND):
        note = store.views.get(KIND, uid)
        if note is None or "error" in note or _is_read(note):
            continue
        path = uploads / str(note["file"])
        if path.parent == uploads and all(each.source != str(path) for each in store.datasets.list()):
            path.unlink(missing_ok=True)
        _note_end(store, uid, f"Studio was ended while it read {short(note['name'])}. Upload it again.")
    if not only:
        waiting = {each.upload for each in drafts.drafts(store)}
        for uid in store.views.list(KIND):
            note = store.views.get(KIND, uid)
            if note is not None and "error" in note and uid not in waiting:
                store.views.delete(KIND, uid)


def _owner() -> dict[str, Any]:
    return {"pid": os.getpid(), "started": start_time(os.getpid()) or "", "machine": machine(), "at": time.time()}


def _is_read(note: Mapping[str, Any]) -> bool:
    """Whether the server that has taken a file lives, and reads it."""
    return lives(int(note["pid"]), str(note["started"]), str(note["machine"]), float(note["at"]))
