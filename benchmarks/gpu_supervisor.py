"""Runs the sections of a GPU check in processes, each going on where the record of the one before ends.

A check that ended its process fails, or counts as skipped where its part's time was over. A hang and a lost device are
followed at once by that check alone under memcheck, so that one run tells kernel, address and thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import gpu_process
from benchmarks.gpu_record import Record, store

MOST_PROCESSES = 30
"""So many processes are started for one run; each but the last was ended by a check."""
MOST_DIAGNOSES = 3
LEAST_SECONDS = 10.0
"""No process is started with less time than this before the deadline: importing torch takes that long."""
GRACE = 5.0
"""Seconds after the deadline in which a process stops its last check by itself."""
_OTHER_PROGRAMS = ("tests", "nccl", "sanitizer")
"""Sections whose checks run programs, and diagnose these themselves."""

Ended = gpu_process.Ended


@dataclass(frozen=True)
class Programs:
    """How a supervisor starts what it needs.

    Attributes:
        sections: runs sections of these names in a process for at most so many seconds; a function that is called again
            and again may end it early.
        diagnose: runs a check of a section alone for at most so many seconds, and returns its first report.
        stacks: file that gets the stacks of a check that hangs.
    """

    sections: Callable[[Sequence[str], float, Callable[[], bool]], Ended]
    diagnose: Callable[[str, str, float], str]
    stacks: Path


def supervise(path: Path, names: Sequence[str], programs: Programs, deadline: float) -> Record:
    """Runs processes until one has gone through all sections, none can, or the time is over; returns the record.

    Args:
        path: of the record, which the processes write.
        names: of the sections.
        programs: see :class:`Programs`.
        deadline: ``time.time()`` at which the last check is stopped.
    """
    rest, diagnoses, died_early = list(names), 0, None
    for _ in range(MOST_PROCESSES):
        left = deadline - time.time()
        if left < LEAST_SECONDS:
            return _read(path)
        programs.stacks.unlink(missing_ok=True)
        ended = programs.sections(rest, left + GRACE, lambda: _stuck(path))
        record = _read(path)
        running = record["running"]
        if running is None and ended.code == 0:
            return record
        section = running["section"] if running else rest[0]
        rest = rest[rest.index(section) :]
        if running and running.get("since"):
            died_early = None
            failed = _judge(record, running, ended, programs.stacks)
            if failed and section not in _OTHER_PROGRAMS and diagnoses < MOST_DIAGNOSES:
                diagnoses += 1
                _diagnose(failed, section, programs, deadline)
        elif died_early == section:  # twice ahead of any check
            _append(record, section, _entry(record, f"process of section {section}", "fail", _how(ended)))
            rest = rest[1:]
        else:
            died_early = section
        record["running"] = None
        store(record, path)
        if not rest:
            return record
    record["stopped"] = f"after {MOST_PROCESSES} processes, ahead of section {rest[0]}"
    store(record, path)
    return record


def _read(path: Path) -> Record:
    record: Record = json.loads(path.read_text())
    return record


def _stuck(path: Path) -> bool:
    """Whether a check should have ended long ago: the driver may keep a process from ending itself."""
    running = _read(path)["running"]
    return bool(running and running.get("since")) and (
        time.time() > running["since"] + running["seconds"] + gpu_process.PATIENCE
    )


def _judge(record: Record, running: Record, ended: Ended, stacks: Path) -> Record | None:
    """Records how the check under way ended its process; returns its entry if it failed."""
    section, name = running["section"], running["check"]
    checks = record["sections"][section]["checks"]
    made = next((check for check in checks if check["name"] == name and check["run"] == len(record["runs"])), None)
    if made is not None:  # it came to an end, and the device was lost then
        made["detail"] = f"{made['detail'].rstrip()}\nthe device no longer answered: {_how(ended)}"
        made["outcome"] = "fail"
        return made
    where = stacks.read_text().strip() if stacks.exists() else ""
    stopped = ended.code is None or bool(where)
    if stopped and running["seconds"] < running["hangs_after"]:
        text = f"stopped after {running['seconds']:.0f} s, when no time was left"
        _append(record, section, _entry(record, name, "skipped", text))
        return None
    text = f"no answer for {running['seconds']:g} s\n{where}" if stopped else _how(ended)
    return _append(record, section, _entry(record, name, "fail", text.strip()))


def _how(ended: Ended) -> str:
    """Text about the end of a process: a signal or its exit code, and the last that it said."""
    how = "killed, since it did not end" if ended.code is None else gpu_process.ending(ended.code)
    return f"the process ended: {how}\n{gpu_process.last_words(ended.output)[-2000:]}".strip()


def _entry(record: Record, name: str, outcome: str, detail: str) -> Record:
    run = record["runs"][-1]
    entry: dict[str, Any] = {"name": name, "outcome": outcome, "detail": detail, "seconds": 0.0}
    return entry | {"run": len(record["runs"]), "quick": run["quick"]}


def _append(record: Record, section: str, entry: Record) -> Record:
    """Puts an entry into a section in place of one of an earlier run."""
    found = record["sections"].setdefault(section, {"seconds": 0.0, "ended": 0, "checks": []})
    found["checks"] = [*(check for check in found["checks"] if check["name"] != entry["name"]), entry]
    print(f"{entry['outcome']:11s} {entry['name']}: {entry['detail']}", flush=True)
    return entry


def _diagnose(entry: Record, section: str, programs: Programs, deadline: float) -> None:
    left = deadline - time.time() - LEAST_SECONDS
    if left < LEAST_SECONDS:
        return
    entry["diagnosis"] = programs.diagnose(section, entry["name"], left)
    print(f"diagnosis   {entry['name']}: {entry['diagnosis']}", flush=True)
