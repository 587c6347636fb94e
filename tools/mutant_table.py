"""Reads tools/mutants.txt, whose first lines say how it is written, and puts mutants into a checkout."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TABLE = Path(__file__).with_name("mutants.txt")
NATIVE = Path("csrc", "core"), Path("csrc", "cpu")
"""Folders from which the C++ library is built."""


@dataclass(frozen=True)
class Mutant:
    """A fault in one place of the code.

    Attributes:
        name: short, of this mutant alone.
        room: the part of the code that it is in.
        tests: arguments of pytest that choose the tests of the room.
        path: of the file, from the root of the checkout.
        why: what goes wrong.
        old: lines as they are.
        new: lines of the mutant.
    """

    name: str
    room: str
    tests: tuple[str, ...]
    path: Path
    why: str
    old: str
    new: str

    @property
    def is_native(self) -> bool:
        """Whether the C++ library must be built again."""
        return any(folder in self.path.parents for folder in NATIVE)

    def mutated(self, source: str) -> str:
        """The source with the fault; raises ValueError unless the old lines stand in it exactly once."""
        old = re.compile(f"^{re.escape(self.old)}$", re.MULTILINE)
        if (count := len(old.findall(source))) != 1:
            raise ValueError(
                f"{self.name}: {self.path} must have these lines once but has them {count} times:\n{self.old}"
            )
        return old.sub(lambda _: self.new, source)


@dataclass
class _Entry:
    """The lines of a mutant that have been read so far."""

    name: str
    path: str
    why: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def read_table(text: str) -> list[Mutant]:
    """The mutants of a table; raises ValueError, with the number of the line, where it is not written as it must be."""
    found: list[Mutant] = []
    for room, tests, entry in _entries(text):
        if not (entry.why and entry.old and entry.new) or entry.old == entry.new:
            raise ValueError(f"{entry.name} must have a line that says what goes wrong, and different - and + lines")
        if entry.name in [mutant.name for mutant in found]:
            raise ValueError(f"the name of each mutant must be its own but {entry.name} comes twice")
        parts = " ".join(entry.why), "\n".join(entry.old), "\n".join(entry.new)
        found.append(Mutant(entry.name, room, tests, Path(entry.path), *parts))
    return found


def _entries(text: str) -> Iterator[tuple[str, tuple[str, ...], _Entry]]:
    """Room, tests and lines of each mutant."""
    room, entry = "", None
    tests: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.partition(" ")
        if word in ("room", "mutant") and entry is not None:
            yield room, tests, entry
            entry = None
        if word == "room":
            room, tests = rest, ()
        elif word == "tests" and room and entry is None:
            tests = tuple(shlex.split(rest))
        elif word == "mutant" and tests and len(rest.split()) == 2:
            entry = _Entry(rest.split()[0], rest.split()[1])
        elif entry is not None and line[:1] in ("=", "-", "+"):
            {"=": entry.why, "-": entry.old, "+": entry.new}[line[0]].append(
                line[1:].strip() if line[0] == "=" else line[1:]
            )
        elif line and not line.startswith("#"):
            raise ValueError(f"line {number} must begin with room, tests, mutant, =, -, + or # in this order: {line!r}")
    if entry is not None:
        yield room, tests, entry
