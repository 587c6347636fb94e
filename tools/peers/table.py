"""Reads tools/peers/expected.txt, whose first lines say how it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TABLE = Path(__file__).with_name("expected.txt")


def _pattern(text: str) -> re.Pattern[str]:
    """Returns a pattern in which only the star is special, since ids of tests are full of brackets."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


@dataclass(frozen=True)
class Row:
    """Tests that differ from torchmetrics, for one reason.

    Attributes:
        reason: name of the reason.
        tests: their ids, with stars.
        cause: type and first line of their errors, with stars.
        line: number of the line in the table.
    """

    reason: str
    tests: str
    cause: str
    line: int

    @cached_property
    def _of_tests(self) -> re.Pattern[str]:
        return _pattern(self.tests)

    @cached_property
    def _of_causes(self) -> re.Pattern[str]:
        return _pattern(self.cause)

    def covers(self, test: str) -> bool:
        """Whether the row is about a test."""
        return self._of_tests.fullmatch(test) is not None

    def is_of(self, file: str) -> bool:
        """Whether tests of the row are in a file."""
        return _pattern(self.tests.split("::")[0]).fullmatch(file) is not None

    def explains(self, test: str, cause: str) -> bool:
        """Whether the row expects this failure."""
        return self.covers(test) and self._of_causes.fullmatch(cause) is not None


@dataclass(frozen=True)
class Table:
    """Expected differences: texts of reasons by their names, and rows."""

    reasons: dict[str, str]
    rows: list[Row]

    def row_of(self, test: str, cause: str) -> Row | None:
        """Returns the first row that expects a failure."""
        return next((row for row in self.rows if row.explains(test, cause)), None)


def read_table(text: str) -> Table:
    """Returns the table in a text; raises ValueError, with the number of the line, where it is not well written."""
    reasons: dict[str, str] = {}
    rows: list[Row] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if heading := re.fullmatch(r"## ([\w-]+): (.+)", line):
            if heading[1] in reasons:
                raise ValueError(f"line {number}: the reason {heading[1]!r} must have one heading but got a second")
            reasons[heading[1]] = heading[2]
        elif line and not line.startswith("#"):
            parts = line.split(" | ", 1)
            if len(parts) != 2 or not reasons:
                raise ValueError(f"line {number} must be 'tests | cause' below a '## name: reason' but got {line!r}")
            rows.append(Row(list(reasons)[-1], parts[0].strip(), parts[1].strip(), number))
    return Table(reasons, rows)
