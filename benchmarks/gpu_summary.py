"""The end of a GPU check in at most 100 lines: what failed and how to run it alone, what was not made, the verdict."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from benchmarks import gpu_table
from benchmarks.gpu_record import Record, checks_of

LINES, CHARACTERS = 100, 11_000
"""Of a summary at most: the end of an output is all that some machines show."""
_WIDTH, _WORDS = 220, 150
"""Characters of a line, and of the text ahead of a command, which must be whole."""
_FAILURES, _OTHERS = 40, 12
GREEN, RED, INCOMPLETE = 0, 1, 3
"""Exit codes: every check passed; one failed; none failed but one was not made."""


def summary(record: Record) -> tuple[str, int]:
    """Returns the text about the last run of a record, and the exit code."""
    run = record["runs"][-1]
    asked = [
        (section, check)
        for section, check in checks_of(record)
        if section in run["asked"] and (not run["chosen"] or check["name"] in run["chosen"])
    ]
    failed = [pair for pair in asked if pair[1]["outcome"] == "fail"]
    absent = [pair for pair in asked if pair[1]["outcome"] in ("skipped", "unavailable")]
    unended = [] if run["chosen"] else [name for name in run["asked"] if not _ended(record, name)]
    tail = list(_verdict(record, asked, failed, absent, unended))
    body = [*_sections(record), *_failures(failed), *_not_made(absent, unended), *_timings(record)]
    body = [line if line.startswith("failed: ") else line[:_WIDTH] for line in body]
    while len(body) + len(tail) > LINES - 1 or sum(len(line) + 1 for line in [*body, *tail]) > CHARACTERS:
        body.pop()
        if body[-1] != "(more in the record)":
            body[-1] = "(more in the record)"
    code = RED if failed else INCOMPLETE if absent or unended or not asked else GREEN
    return "\n".join([*body, *tail]), code


def _ended(record: Record, name: str) -> bool:
    return bool(record["sections"].get(name, {}).get("ended"))


def _sections(record: Record) -> Iterator[str]:
    for name, section in record["sections"].items():
        passed = sum(check["outcome"] == "pass" for check in section["checks"])
        yield f"{name}: {passed} of {len(section['checks'])} checks passed, {section['seconds']:.0f} s"


def _failures(failed: list[tuple[str, Record]]) -> Iterator[str]:
    for section, check in failed[:_FAILURES]:
        yield f"failed: {first_words(check)[:_WORDS]} | {command(section, check)}"
        if check.get("diagnosis"):
            yield "  " + " ".join(check["diagnosis"].split())
    if len(failed) > _FAILURES:
        yield f"and {len(failed) - _FAILURES} more checks failed"


def first_words(check: Record) -> str:
    """Returns the line of a detail that says most: the error of a traceback, else the first line."""
    lines = [line.strip() for line in check["detail"].splitlines() if line.strip()] or [""]
    if lines[0].startswith("Traceback"):
        return lines[-1]
    frame = next((line for line in lines[1:] if line.startswith("File ")), "")
    return f"{lines[0]}: {frame}" if frame else lines[0]


def command(section: str, check: Record) -> str:
    """Returns the command that makes a check alone."""
    name = check["name"]
    if name.startswith("test "):
        return f"python3 -m pytest -m gpu {shlex.quote(name.removeprefix('test '))}"
    quick = " --quick" if check.get("quick") else ""
    return f"python3 -m benchmarks.gpu_check{quick} --only {section} --check {shlex.quote(name)}"


def _not_made(absent: list[tuple[str, Record]], unended: list[str]) -> Iterator[str]:
    late = [check["name"] for _, check in absent if check["outcome"] == "skipped"]
    others = [check for _, check in absent if check["outcome"] == "unavailable"]
    if late:
        more = f" and {len(late) - 5} more" if len(late) > 5 else ""
        yield f"not made, no time was left: {', '.join(late[:5])}{more}"
    for check in others[:_OTHERS]:
        yield f"not made: {check['name']}: {first_words(check)}"
    if len(others) > _OTHERS:
        yield f"and {len(others) - _OTHERS} more checks were not made"
    if unended:
        yield f"not ended: section {', '.join(unended)}"


def _timings(record: Record) -> list[str]:
    """The table of the rows, where the last run was to measure some."""
    measured = {"timing", "classification", "masks"} & set(record["runs"][-1]["asked"])
    return gpu_table.text(record).splitlines() if measured else []


def _verdict(
    record: Record, asked: list[tuple[str, Record]], failed: list[object], absent: list[object], unended: list[str]
) -> Iterator[str]:
    others = sum(
        check["outcome"] == "fail" and section not in record["runs"][-1]["asked"]
        for section, check in checks_of(record)
    )
    if others:
        yield f"in other sections of this record {others} checks failed"
    if record.get("stopped"):
        yield f"stopped {record['stopped']}"
    if failed:
        yield f"RED: {len(failed)} of {len(asked)} checks failed"
    elif absent or unended or not asked:
        yield f"INCOMPLETE: none of {len(asked)} checks failed, but {len(absent)} were not made" + (
            f", and {len(unended)} sections did not end" if unended else ""
        )
    else:
        yield f"GREEN: all {len(asked)} checks passed"
