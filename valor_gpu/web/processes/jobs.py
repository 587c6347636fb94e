"""Runs go on in processes of their own, which neither the end of the server nor that of the browser ends.

Who works on a run is said by its lease in the store. Between the start of a process and its lease, and to cancel a run,
there are two settings in the store: ``job`` (the process) and ``cancel`` (that it shall end).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.engine.tries import KILLED, end_killed_try, tries_of
from valor_gpu.store import Run, Store
from valor_gpu.store.leases import lives, machine, start_time

JOB, CANCEL = "job", "cancel"
GONE = KILLED
BROKE_OFF = "broke off:"
"""Word of the log before the reason for which a process ended that could not write it into the store."""
_LAST_BYTES = 16 << 10
_LONGEST_REASON = 500  # characters


def log_path(store: Store, run_id: str) -> Path:
    """The file beside the store where the process of a run says what it does, without secrets."""
    return store.path.with_name(f"{store.path.name}.{run_id}.log")


def why_gone(store: Store, run_id: str) -> str:
    """Says that the process of a run is gone, with the reason where the end of its log has one."""
    said = f" run {run_id} {BROKE_OFF} "
    with contextlib.suppress(OSError), log_path(store, run_id).open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
        for line in reversed(file.read(_LAST_BYTES).decode("utf-8", "replace").splitlines()):
            if said in line:
                return f"{GONE} Its last words: {line.partition(said)[2][:_LONGEST_REASON]}"
            if line.endswith(f" works on run {run_id}"):
                break
    return GONE


def start(store: Store, run_id: str) -> int:
    """Starts a process that goes on with a run, or begins it.

    Args:
        store: that has the run.
        run_id: of a run on which nobody works.

    Returns:
        The number of the process.

    Raises:
        InputError: no such run, one that is worked on, or one that has finished without a failure that may go when it
            is asked for again.
    """
    run = store.run(run_id)
    state = state_of(store, run)
    if state == "running" or (state == "finished" and not tries_of(run).n):
        holder = store.owner(run)
        over = " and has no failure that another try may fix" if state == "finished" else ""
        raise InputError(f"run {run_id} {f'is worked on by {holder}' if holder else f'is {state}{over}'}")
    store.views.delete(CANCEL, run.id)
    log = os.open(log_path(store, run.id), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "valor_gpu.web.processes.worker", str(store.path), run.id],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    threading.Thread(target=process.wait, name=f"end of run {run.id}", daemon=True).start()
    note_process(store, run.id, process.pid)
    return process.pid


def note_process(store: Store, run_id: str, pid: int) -> bool:
    """Keeps which process is to work on a run, before it has the lease.

    Returns:
        Whether it may: not while another one that lives is to work on it, as after two clicks on a button.
    """
    started = start_time(pid)
    if started is None:
        return False
    noted = {"pid": pid, "started": started, "machine": machine(), "at": time.time()}

    free: list[bool] = []

    def make(job: dict[str, Any] | None) -> dict[str, Any]:
        free.append(job is None or _same_process(job, noted) or not _is_alive(job))
        return noted if job is None or free[-1] else job

    store.views.change(JOB, run_id, make)
    return free[-1]


def forget_process(store: Store, run_id: str, pid: int) -> None:
    """Takes away that a process works on a run, and that it shall end; nothing of another process."""
    own = {"pid": pid, "started": start_time(pid) or "", "machine": machine()}

    def make(job: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if job is None or _same_process(job, own) else job

    before = store.views.change(JOB, run_id, make)
    if before is not None and _same_process(before, own):
        store.views.delete(CANCEL, run_id)


def _same_process(job: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(job[name] == other[name] for name in ("pid", "started", "machine"))


def state_of(store: Store, run: Run) -> str:
    """The state of a run as pages show it: ``running`` while a process works on it, else ``stopped`` if none does.

    A finished run whose failures were tried again by a process that was killed is brought to its end here.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     state_of(store, store.create_run("capitals", {}))
        'draft'
    """
    state, job = run.state, store.views.get(JOB, run.id)
    if state == "finished":  # a process that is to try its failures again may not have begun yet
        is_new = job is not None and float(job["at"]) > (store.finished_at(run) or 0.0)
        return "running" if job is not None and is_new and _is_alive(job) else state
    if store.owner(run) is not None or (job is not None and _is_alive(job)):
        return "running"
    if state == "running":
        end_killed_try(run)
        state = run.state
    return "stopped" if state == "running" or (state == "draft" and job is not None) else state


def changed_states(store: Store, states: Mapping[str, str]) -> dict[str, str]:
    """Those runs of a list, id to state, that are shown in another state than the stored one."""
    jobs = set(store.views.list(JOB))
    asked = [uid for uid, state in states.items() if state == "running" or uid in jobs]
    found = {uid: state_of(store, store.run(uid)) for uid in asked}
    return {uid: state for uid, state in found.items() if state != states[uid]}


def cancel(store: Store, run: Run) -> None:
    """Lets the process of a run end: what is under way is given up, what is stored stays, and the run can be resumed.

    Raises:
        InputError: nobody works on it, or a process that Studio has not started.
    """
    if state_of(store, run) != "running":
        raise InputError(f"run {run.id} is not running, so it cannot be cancelled")
    job = store.views.get(JOB, run.id)
    if job is None or not _is_alive(job):
        raise InputError(
            f"run {run.id} is worked on by {store.owner(run)}, which Studio did not start: stop it there with Ctrl-C"
        )
    store.views.save(CANCEL, run.id, {"at": time.time()})


def is_cancelling(store: Store, uid: str) -> bool:
    """Whether a run that goes on has been told to end."""
    return store.views.get(CANCEL, uid) is not None


def _is_alive(job: Mapping[str, Any]) -> bool:
    return lives(int(job["pid"]), str(job["started"]), str(job["machine"]), float(job["at"]))
