"""Holds outcomes of torchmetrics' tests beside the table of expected differences."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tools.peers.copies import PACKAGE
from tools.peers.table import Row, Table

_LOST = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '([\w.]+)'")
_NEVER_LOST = {"torchmetrics", "valor_gpu", "unittests", "tools", PACKAGE}


class Outcome(NamedTuple):
    """What became of a test, or of a file that could not be imported (``not collected``)."""

    test: str
    outcome: str
    cause: str


@dataclass
class Comparison:
    """Outcomes, sorted by whether the table expects them.

    Attributes:
        passed: how many passed; ``xfailed``: how many failed as torchmetrics marks them.
        skipped: how many were skipped, by the reason that torchmetrics gives.
        packages: tests and files that need a package that is not installed, by its name.
        expected: how many failures the table explains, by its reasons.
        unexpected: failures that it does not explain.
        stale: rows of which no test failed any more.
    """

    passed: int = 0
    xfailed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    packages: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    expected: Counter[str] = field(default_factory=Counter)
    unexpected: list[Outcome] = field(default_factory=list)
    stale: list[Row] = field(default_factory=list)

    @property
    def is_as_expected(self) -> bool:
        """Whether no failure is unexpected and no row is stale."""
        return not (self.unexpected or self.stale)


def compare(outcomes: list[Outcome], table: Table, whole: bool) -> Comparison:
    """Sorts outcomes.

    Args:
        outcomes: of one run; a test whose call and teardown fail has two.
        table: expected differences.
        whole: whether all tests of the suites were run; a sample says nothing about rows with stars.
    """
    found = Comparison()
    used: set[Row] = set()
    for each in outcomes:
        if each.outcome == "passed":
            found.passed += 1
        elif each.outcome == "xfailed":
            found.xfailed += 1
        elif each.outcome == "skipped":
            found.skipped[each.cause.removeprefix("Skipped: ")] += 1
        elif package := package_of(each.cause):
            found.packages[package].append(each.test)
        elif row := table.row_of(each.test, each.cause):
            found.expected[row.reason] += 1
            used.add(row)
        else:
            found.unexpected.append(each)
    found.stale = [row for row in table.rows if row not in used and _is_answered(row, outcomes, whole)]
    return found


def _is_answered(row: Row, outcomes: list[Outcome], whole: bool) -> bool:
    """Whether a run that saw no failure of a row tells that the row is stale."""
    if not whole:
        return "*" not in row.tests and any(each.test == row.tests and each.outcome == "passed" for each in outcomes)
    return any(row.is_of(each.test.split("::")[0]) and each.outcome != "not collected" for each in outcomes)


def package_of(cause: str) -> str:
    """Returns the name of the package whose absence is a cause, or nothing."""
    found = _LOST.search(cause)
    name = found[1].split(".")[0] if found else ""
    return "" if name in _NEVER_LOST else name


def lines_of(found: Comparison, table: Table) -> Iterator[str]:
    """The comparison as text, what needs work last."""
    yield f"passed: {found.passed}"
    if found.xfailed:
        yield f"failed as torchmetrics expects: {found.xfailed}"
    yield f"skipped by torchmetrics' own conditions: {found.skipped.total()}"
    yield from (f"  {count:5}  {reason}" for reason, count in found.skipped.most_common())
    yield f"not run, since a package is not installed: {sum(map(len, found.packages.values()))} files or tests"
    for package, tests in sorted(found.packages.items()):
        yield f"  {len(tests):5}  {package}: {', '.join(sorted({test.split('::')[0] for test in tests}))}"
    yield f"expected differences: {found.expected.total()}"
    yield from (f"  {count:5}  {name}: {table.reasons[name]}" for name, count in found.expected.most_common())
    yield f"expected differences that are none any more: {len(found.stale)} rows of the table"
    yield from (f"  line {row.line}: {row.tests} | {row.cause}" for row in found.stale)
    yield f"unexpected failures: {len(found.unexpected)}"
    yield from (f"  {each.test} | {each.cause}" for each in found.unexpected)
