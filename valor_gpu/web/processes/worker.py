"""The process of a run: ``python -m valor_gpu.web.processes.worker STORE RUN``.

It needs no server, and none of its packages.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError, LeaseError, StoreError
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.evaluation.resume import resume_run
from valor_gpu.evaluation.secrets import Secrets, resolve_env
from valor_gpu.judge.protocol import describe
from valor_gpu.store import Run, Store
from valor_gpu.store.runs import ENDED
from valor_gpu.store.tries import note_try
from valor_gpu.web.processes.jobs import BROKE_OFF, CANCEL, forget_process, note_process
from valor_gpu.web.processes.masking import masked_output
from valor_gpu.web.registry import named_texts

PAUSE = 0.25
"""Seconds between two looks whether the run is cancelled."""
CANCELLED = "Cancelled in Studio."


def main(store_path: str, run_id: str) -> int:
    """Goes on with a run until it ends or is cancelled; returns the exit status."""
    # A server in the background of a shell hands down that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _main(store_path, run_id)
    except (InputError, StoreError) as error:  # a run that was purged meanwhile, a disk that is full
        _say(f"run {run_id} {BROKE_OFF} {error}")
        return 1


def _main(store_path: str, run_id: str) -> int:
    with Store(store_path) as store:
        run = store.run(run_id)
        is_ours = note_process(store, run.id, os.getpid())
        secrets = secrets_of(run.config)
    try:
        # The store is opened behind the fork of the log's process, which must not have its connection.
        with masked_output(secrets), Store(store_path) as store:
            if not is_ours:
                _say(f"process {os.getpid()} ends, since another one is to work on run {run_id}")
                return 1
            warnings.showwarning = _warn  # without the line of the code, which says nothing to a reader of the log
            _say(f"process {os.getpid()} works on run {run_id}")
            return _work(store, store.run(run_id), secrets)
    finally:
        if is_ours:  # when the log is complete
            with contextlib.suppress(StoreError), Store(store_path) as store:  # the number of a process that is gone
                forget_process(store, run_id, os.getpid())


def _work(store: Store, run: Run, secrets: Secrets) -> int:
    over = threading.Event()
    threading.Thread(target=_watch, args=(store, run.id, over), name="cancel", daemon=True).start()
    try:
        resume_run(store, run.id)
        over.set()
    except KeyboardInterrupt:
        over.set()
        _end(run, "stopped", CANCELLED)
        return 0
    except LeaseError as error:
        over.set()
        _say(str(error))
        return 1
    except BaseException as error:
        over.set()
        reason = secrets.message(describe(error))
        _say(f"run {run.id} {BROKE_OFF} {reason}")
        if not isinstance(error, StoreError):  # a full disk has no room for more words
            _say(traceback.format_exc())
        with contextlib.suppress(StoreError, LeaseError):  # where the lease could not be given back it is still held
            if run.state not in ENDED or isinstance(error, InputError):
                _end(run, run.state if run.state in ENDED else "failed", reason)
        return 1
    _say(f"run {run.id} is {run.state}")
    return 0


def _watch(store: Store, run_id: str, over: threading.Event) -> None:
    """Interrupts the main thread, as Ctrl-C does, when the run is cancelled."""
    while not over.wait(PAUSE):
        try:
            cancelled = store.views.get(CANCEL, run_id) is not None
        except StoreError:
            continue  # busy, or closed at the end
        if cancelled:
            if hasattr(signal, "pthread_kill"):
                # The signal itself wakes a wait, which a mere request to interrupt does not.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                _thread.interrupt_main()
            return


def _end(run: Run, state: str, reason: str) -> None:
    """Ends the run with a reason. One that has finished stays so, and keeps why its failures were not tried again."""
    if run.state == "finished":
        note_try(run, reason)
        _say(f"run {run.id} is finished as before: {reason}")
        return
    with run.lease():
        run.finish(state, run_summary(run, stopped=reason))  # a summary that is there may be of an earlier end
    _say(f"run {run.id} is {state}: {reason}")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # a log that cannot be written must not end the run
        print(time.strftime("%Y-%m-%d %H:%M:%S"), text, file=sys.stderr, flush=True)


def _warn(message: Warning | str, category: type[Warning], *_place: object, **_kept: object) -> None:
    _say(f"{'' if category is UserWarning else category.__name__ + ': '}{message}")


def secrets_of(config: Mapping[str, Any]) -> Secrets:
    """The values of all variables that a configuration names.

    Example:
        >>> import os
        >>> os.environ["VALOR_GPU_DOC"] = "a-long-value"
        >>> secrets_of({"judge": {"api_key_env": "VALOR_GPU_DOC"}}).mask("key a-long-value")
        'key ***'
    """
    secrets = Secrets()
    for name, text in named_texts(config):
        if name.endswith("_env"):
            secrets.add(os.environ.get(text))
        else:
            try:
                resolve_env(text, secrets)
            except InputError:
                continue  # not set, which the run itself says
    return secrets


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
