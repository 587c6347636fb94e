"""The end of a GPU check in at most 100 lines: failures and how to run each alone, checks not run, the verdict."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Iterator
from typing import Any

from benchmarks import gpu_table
from benchmarks.gpu_record import Record, checks_of, standing

LINES, CHARACTERS = 100, 11_000
"""Of a summary at most: the end of an output is all that some machines show."""
_WIDTH, _WORDS = 220, 150
"""Characters of a line, and of the text ahead of a command, which must be whole."""
_FAILURES, _OTHERS = 40, 12
GREEN, RED, INCOMPLETE = 0, 1, 3
"""Exit codes: every check passed; one failed; none failed but one was not run."""


def summary(record: Record) -> tuple[str, int]:
    """Returns the text about the last run of a record, and the exit code.

    Only checks count that this run has made, or that stand from an earlier one.
    """
    run = record["runs"][-1]
    asked = [pair for pair in checks_of(record) if pair[0] in run["asked"] and _is_chosen(pair[1], run)]
    counted = [(section, check) for section, check in asked if check["name"] in _counting(record, section)]
    failed = [pair for pair in counted if pair[1]["outcome"] == "fail"]
    absent = [pair for pair in counted if pair[1]["outcome"] in ("skipped", "unavailable")]
    absent += [(section, _left_out(check)) for section, check in asked if (section, check) not in counted]
    absent += [("", _unknown(name, record)) for name in run["chosen"] if not any(c["name"] == name for _, c in asked)]
    unended = [] if run["chosen"] else [name for name in run["asked"] if not _ended(record, name)]
    code = RED if failed else INCOMPLETE if absent or unended or not counted or record.get("stopped") else GREEN
    tail = [*_before(record, counted), _verdict(code, counted, failed, absent, unended)]
    body = [*_sections(record), *_failures(failed), *_not_run(absent, unended), *_timings(record)]
    body = [line if line.startswith("failed: ") else line[:_WIDTH] for line in body]
    while len(body) + len(tail) > LINES - 1 or sum(len(line) + 1 for line in [*body, *tail]) > CHARACTERS:
        body.pop()
        if body[-1] != "(more in the record)":
            body[-1] = "(more in the record)"
    return "\n".join([*body, *tail]), code


def _is_chosen(check: Record, run: Record) -> bool:
    return not run["chosen"] or check["name"] in run["chosen"]


def _counting(record: Record, section: str) -> Collection[str]:
    run = record["runs"][-1]
    return standing(record, section, run["quick"], run["chosen"])


def _left_out(check: Record) -> Record:
    return {**check, "outcome": "unavailable", "detail": "this run did not come to it"}


def _unknown(name: str, record: Record) -> Record:
    near = difflib.get_close_matches(name, [check["name"] for _, check in checks_of(record)], 3)
    hint = f", but {' and '.join(map(repr, near))}" if near else ""
    return {"name": name, "outcome": "unavailable", "detail": f"these sections have no check of this name{hint}"}


def _ended(record: Record, name: str) -> bool:
    return bool(record["sections"].get(name, {}).get("ended") == len(record["runs"]))


def _sections(record: Record) -> Iterator[str]:
    for name, section in record["sections"].items():
        passed = sum(check["outcome"] == "pass" for check in section["checks"])
        yield f"{name}: {passed} of {_checks(len(section['checks']))} passed, {section['seconds']:.0f} s"


def _checks(count: int) -> str:
    return f"{count} check" if count == 1 else f"{count} checks"


def _failures(failed: list[tuple[str, Record]]) -> Iterator[str]:
    for section, check in failed[:_FAILURES]:
        yield f"failed: {first_words(check)[:_WORDS]} | {command(section, check)}"
        if check.get("diagnosis"):
            yield "  " + " ".join(check["diagnosis"].split())
    if len(failed) > _FAILURES:
        yield f"and {len(failed) - _FAILURES} more failed"


def first_words(check: Record) -> str:
    """Returns the line of a detail that says most: a traceback's error, else the first line and a frame of ours."""
    lines = [line.strip() for line in check["detail"].splitlines() if line.strip()] or [""]
    if lines[0].startswith("Traceback"):
        return lines[-1]
    frames = [line for line in lines[1:] if line.startswith("File ")]
    ours = next((frame for frame in frames if "/valor_gpu/" in frame), next(iter(frames), ""))
    return f"{lines[0]}: {ours}" if ours else lines[0]


def command(section: str, check: Record) -> str:
    """Returns the command that makes a check alone."""
    name = check["name"]
    if name.startswith("test "):
        return f"python3 -m pytest -m gpu -o filterwarnings=default {shlex.quote(name.removeprefix('test '))}"
    quick = " --quick" if check.get("quick") else ""
    return f"python3 -m benchmarks.gpu_check{quick} --only {section} --check {shlex.quote(name)}"


def _not_run(absent: list[tuple[str, Record]], unended: list[str]) -> Iterator[str]:
    late = [check["name"] for _, check in absent if check["outcome"] == "skipped"]
    others = [check for _, check in absent if check["outcome"] == "unavailable"]
    if late:
        more = f" and {len(late) - 5} more" if len(late) > 5 else ""
        yield f"not run, no time was left: {', '.join(late[:5])}{more}"
    for check in others[:_OTHERS]:
        yield f"not run: {check['name']}: {first_words(check)}"
    if len(others) > _OTHERS:
        yield f"and {len(others) - _OTHERS} more were not run"
    if unended:
        yield f"unfinished: {', '.join(unended)}"


def _timings(record: Record) -> list[str]:
    """The table of the rows, where the last run was to measure some."""
    measured = {"timing", "classification", "masks"} & set(record["runs"][-1]["asked"])
    return gpu_table.text(record).splitlines() if measured else []


def _before(record: Record, counted: list[tuple[str, Record]]) -> Iterator[str]:
    """Lines about what the verdict says nothing of."""
    again = [c["name"] for _, c in counted if c["outcome"] == "pass" and c.get("failed_before")]
    if again:
        yield f"passed now, but failed in an earlier run (a race?): {', '.join(again)}"[:_WIDTH]
    asked = record["runs"][-1]["asked"]
    if others := sum(check["outcome"] == "fail" and section not in asked for section, check in checks_of(record)):
        yield f"in the other sections of this record {_checks(others)} failed"
    if record.get("stopped"):
        yield f"stopped {record['stopped']}"


def _verdict(code: int, counted: list[Any], failed: list[Any], absent: list[Any], unended: list[str]) -> str:
    sections = ", ".join(dict.fromkeys(section for section, _ in counted))
    if code == RED:
        return f"RED: {len(failed)} of {_checks(len(counted))} failed"
    if code == GREEN:
        return f"GREEN: {'all ' if len(counted) > 1 else ''}{_checks(len(counted))} of {sections} passed"
    missing = [f"{len(absent)} not run"] if absent else []
    missing += [f"unfinished: {', '.join(unended)}"] if unended else []
    return f"INCOMPLETE: none of {_checks(len(counted))} failed; {'; '.join(missing) or 'no check was run'}"
