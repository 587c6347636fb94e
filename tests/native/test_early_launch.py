"""Kernels that begin before the one ahead of them has ended wait for it before they write or end, in machine code.

The simulator runs one kernel after another; csrc/sim/watch.cpp finds there what is read or written too early.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.native import ptxas, sass
from tests.native.sim import CSRC, compiled, find_nvcc
from tests.native.test_simulator import probes

_NO_TOOLS = find_nvcc() is None or sass.nvdisasm() is None
_SECTION = re.compile(r"^\.text\.(\w+):$")
_LABEL = re.compile(r"^(\.L_x_\d+):$")
_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?(\w+)\S*\s*(.*?);")
_LABELS = re.compile(r"\.L_x_\d+")
_WAIT, _WRITES = "ACQBULK", ("ST", "STG", "RED", "REDG", "ATOM", "ATOMG")
_LAUNCHED = re.compile(r"VALOR_LAUNCH_EARLY\(\(?(\w+)")
SOURCES = sorted(path for path in (CSRC / "cuda").glob("*.cu") if _LAUNCHED.search(path.read_text()))

WAITING = """
.text.waiting:
        /*0000*/              @!P0 BRA `(.L_x_1) ;
        /*0010*/                   ACQBULK ;
        /*0020*/                   EXIT ;
.L_x_1:
        /*0030*/                   BSSY B0, `(.L_x_3) ;
        /*0040*/              @P1  BRA `(.L_x_2) ;
        /*0050*/                   LDG.E R0, desc[UR4][R2.64] ;
.L_x_2:
        /*0060*/                   BSYNC B0 ;
.L_x_3:
        /*0070*/                   ACQBULK ;
        /*0080*/                   REDG.E.ADD.64 desc[UR8][R40.64], R8 ;
        /*0090*/                   EXIT ;
.L_x_4:
        /*00a0*/                   BRA `(.L_x_4);
"""

Regions = frozenset[tuple[str, int]]
"""By its barrier, where a divergent region ends."""


@dataclass
class Kernel:
    """Instructions as predicate, name and operands, and the places of labels."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def following(self, place: int, ends: Regions) -> Iterator[tuple[int, Regions]]:
        """Where a thread may be after an instruction, and where the divergent regions end in which it is then."""
        predicate, name, operands = self.lines[place]
        jumps = [self.labels[target] for target in _LABELS.findall(operands)]
        if name == "BSYNC":  # to where the lanes of the region meet
            yield dict(ends)[operands.split()[0]], ends
            return
        if name == "BSSY":
            ends, jumps = frozenset({**dict(ends), operands.split(",")[0]: jumps[0]}.items()), []
        for jump in jumps:
            yield jump, ends
        if predicate or name not in ("BRA", "BRX", "EXIT"):
            yield place + 1, ends

    def too_early(self) -> list[str]:
        """What a thread may do before it has waited: writes of device memory, and its end."""
        todo: list[tuple[int, Regions]] = [(0, frozenset())]
        reached = set(todo)
        while todo:
            place, ends = todo.pop()
            if self.lines[place][1] == _WAIT:
                continue
            new = set(self.following(place, ends)) - reached
            reached |= new
            todo += new
        found = [self.lines[place] for place in sorted({place for place, _ in reached})]
        return [" ".join(line).strip() for line in found if line[1] in (*_WRITES, "EXIT", "CALL")]


def kernels(listing: str) -> dict[str, Kernel]:
    """By mangled name, from what nvdisasm prints."""
    found: dict[str, Kernel] = {}
    kernel = Kernel()
    for text in listing.split("\n"):
        if section := _SECTION.match(text):
            kernel = found[section[1]] = Kernel()
        elif label := _LABEL.match(text):
            kernel.labels[label[1]] = len(kernel.lines)
        elif line := _LINE.match(text):
            kernel.lines.append(((line[1] or "").strip(), line[2], line[3]))
    return found


def test_a_write_before_the_wait_is_found() -> None:
    assert kernels(WAITING)["waiting"].too_early() == []
    for wait, text in (("0010", "EXIT"), ("0070", "REDG desc[UR8][R40.64], R8")):
        without = kernels("\n".join(line for line in WAITING.split("\n") if f"/*{wait}*/" not in line))["waiting"]
        assert text in without.too_early()


@pytest.mark.skipif(_NO_TOOLS, reason="no nvcc, or no nvdisasm, which comes with Triton")
@pytest.mark.parametrize("stem", [path.stem for path in SOURCES])
def test_kernels_wait_before_they_write_or_end(stem: str) -> None:
    source = CSRC / "cuda" / f"{stem}.cu"
    command = [str(find_nvcc()), *ptxas.FLAGS, f"-arch={sass.ARCH}", *ptxas.PRODUCTS[sass.ARCH]]
    cubin = compiled(command, source, f"ptxas-{stem}-{sass.ARCH}")
    found = kernels(subprocess.check_output([str(sass.nvdisasm()), "-c", str(cubin)], text=True))
    names = dict(zip(found, ptxas.readable(list(found))))
    early = set(_LAUNCHED.findall(source.read_text()))
    checked = {kernel: [name for name in found if f"::{kernel}" in names[name]] for kernel in early}
    assert all(checked.values())
    for mangled in (name for group in checked.values() for name in group):
        assert found[mangled].too_early() == [], names[mangled]


@pytest.mark.parametrize(
    ("archs", "device", "expected"),
    [
        ((800, 900), (8, 0), False),
        ((800, 900), (9, 0), True),
        ((900, 800), (9, 0), True),
        ((900, 800), (10, 0), False),  # the PTX is that of 8.0
        ((900, 1000), (10, 3), True),
        ((900, 1030), (10, 0), False),
        ((750, 890), (12, 0), False),
    ],
)
def test_kernels_begin_early_where_the_code_that_runs_is_known_to_wait(
    archs: tuple[int, int], device: tuple[int, int], expected: bool
) -> None:
    assert probes().probe_code_waits(*archs, *device) == expected
