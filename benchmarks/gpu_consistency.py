"""What a record of a GPU check cannot hold if a check has made it: numbers that contradict each other, or its digest.

Importing this loads no torch.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_record import Record, checks_of, digest_of
from benchmarks.machine import run
from testing.datasets import ROOT

_OUTCOMES = ("pass", "fail", "skipped", "unavailable")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?")
_CLOSE = 1e-9  # relative: a quotient of two floats of the record
_MOST = 1e30
_COMMIT = re.compile("[0-9a-f]{40}")
_SPREADS = ("seconds", "device_seconds", "host_seconds", "cpu_route", "torchmetrics")
_QUOTIENTS = {
    "times_cpu_route": (("cpu_route", "median"), ("seconds", "median")),
    "times_torchmetrics": (("torchmetrics", "median"), ("seconds", "median")),
    "floor_seconds": (("bytes",), ("copy_bytes_per_second",)),
    "share_of_copy": (("bytes",), ("copy_bytes_per_second",), ("device_seconds", "median")),
}
"""Numbers that others give: the first, divided by the others."""


def contradiction(record: Record) -> str:
    """Returns the first thing in a record that no check writes, empty where there is none.

    That there is none does not say that a GPU has made the numbers: whoever changes all that belongs together, and the
    digest, is not found out.

    Args:
        record: of the right shape.
    """
    return next(filter(None, _contradictions(record)), "")


def doubts(record: Record, root: Path = ROOT) -> str:
    """Returns what a reader should know who relies on a record.

    Args:
        record: of a GPU check.
        root: of the checkout whose commits are known.
    """
    if "digest" in record:
        digest = "Its digest tells a change by accident, and is no proof that a GPU made these numbers."
    else:
        digest = "The record has no digest: nothing tells whether it was changed after it was made."
    return " ".join(filter(None, (digest, _unknown_commit(record["commit"], root))))


def _unknown_commit(commit: str, root: Path) -> str:
    """A sentence about a commit that a whole repository has not; empty where it has it, or git cannot tell."""
    whole = run("git", "-C", str(root), "rev-parse", "--is-shallow-repository") == "false"
    if not whole or not _COMMIT.fullmatch(commit):
        return ""
    known = run("git", "-C", str(root), "cat-file", "-t", commit) == "commit"
    return "" if known else f"This repository has no commit {commit[:10]}."


def _contradictions(record: Record) -> Iterator[str]:
    if record.get("digest") not in (None, digest_of(record)):
        yield "its digest is of other content: it was changed after it was stored"
    if not _DATE.fullmatch(record["date"]):
        yield f"date must be a date of ISO 8601 in UTC but is {record['date']!r}"
    names = Counter(f"{check['name']} of section {section}" for section, check in checks_of(record))
    works = Counter(row["work"] for _, check in checks_of(record) for row in _rows(check) if "work" in row)
    for what, counts in (("check", names), ("row of", works)):
        yield from (f"{what} {name!r} is there {count} times" for name, count in counts.items() if count > 1)
    for section, check in checks_of(record):
        yield from (f"check {check['name']!r} {fault}" for fault in _of_check(record, section, check))


def _rows(check: Record) -> list[Record]:
    found: list[Record] = check.get("rows", [])
    return found


def _of_check(record: Record, section: str, check: Record) -> Iterator[str]:
    outcome, runs = check["outcome"], record.get("runs", [])
    if outcome not in _OUTCOMES:
        yield f"has the outcome {outcome!r}, not one of {', '.join(_OUTCOMES)}"
    if outcome == "pass" and check.get("detail"):
        yield f"passed, but says what is wrong: {check['detail'].splitlines()[0][:80]!r}"
    if outcome != "pass" and _rows(check):
        yield f"has the outcome {outcome!r}, but times"
    if "run" in check:
        number = check["run"]
        if not isinstance(number, int) or not 0 < number <= len(runs):
            yield f"is of run {number!r}, but there are {len(runs)}"
        elif section not in runs[number - 1]["asked"]:
            yield f"is of section {section!r}, which its run {number} was not asked for"
        elif runs[number - 1].get("quick", check["quick"]) != check["quick"]:
            yield f"has quick {check['quick']}, but its run {number} has not"
    for row in _rows(check):
        yield from (f"has a row in which {fault}" for fault in _of_row(row))


def _of_row(row: Record) -> Iterator[str]:
    yield from (f"{name} is {value}, not a number from 0 to 1e30" for name, value in _bad_numbers(row))
    for name in _SPREADS:
        if isinstance(spread := row.get(name), dict) and "median" in spread:
            median = spread["median"]
            if not 0 < spread.get("min", median) <= median <= spread.get("max", median):
                yield f"{name} is not above 0, or its median not between its min and its max"
    for name, (first, *others) in _QUOTIENTS.items():
        parts = [_at(row, path) for path in (first, *others)]
        if name in row and None not in parts:
            expected = parts[0] / math.prod(parts[1:])
            if not math.isclose(row[name], expected, rel_tol=_CLOSE):
                yield f"{name} is {row[name]:.6g}, but its parts give {expected:.6g}"
    yield from _of_targets(row)


def _of_targets(row: Record) -> Iterator[str]:
    if "targets" not in row or "work" not in row:
        return
    targets = row["targets"]
    missed = [target["text"] for target in targets if not target["met"]]
    if row.get("missed", missed) != missed or row.get("met") != (not missed if targets else None):
        yield "met and missed are not those of its targets"
    measured = {row.get("times_torchmetrics"), row.get("extra_memory"), *(_at(row, (n, "median")) for n in _SPREADS)}
    for target in targets:
        more = target["text"].startswith(tuple("0123456789")) and "torchmetrics" in target["text"]
        met = target["measured"] >= target["limit"] if more else target["measured"] <= target["limit"]
        if met != target["met"] or target["measured"] not in measured:
            yield f"the target {target['text']!r} is not of what was measured"


def _at(row: Record, path: tuple[str, ...]) -> Any:
    """The number at a path, None where there is none to divide by."""
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value or None


def _bad_numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers that are NaN, infinite or below 0, with their places."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _bad_numbers(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _bad_numbers(inner, f"{name}[{i}]")
    elif isinstance(value, (int, float)) and not 0 <= value <= _MOST:
        yield name, value
