"""The machine code of hot loops: instructions an element, registers, spills and widths of loads, for sm_90.

A machine without a GPU notices a slow kernel by it. nvdisasm comes with Triton. ``python -m tests.native.sass``
writes the committed table anew; as in :mod:`tests.native.ptxas`, it stands for sources that are as they were then.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.native import ptxas
from tests.native.code_only import code_of
from tests.native.sass_budgets import BUDGETS, Budget
from tests.native.sim import CSRC, compiled, find_nvcc

TABLE = Path(__file__).with_suffix(".json")
ARCH = "sm_90"
_SECTION = re.compile(r"^\.text\.(\w+):$")
_LABEL = re.compile(r"^(\.L_x_\d+):$")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\w+)((?:\.\w+)*)\s*(.*?);")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_LOADS = {"LDG": "global", "LD": "generic"}


@dataclass(frozen=True)
class Instruction:
    """One instruction: its operation, the suffixes of it, and its operands as printed."""

    name: str
    suffixes: str
    operands: str

    @property
    def load_bits(self) -> int:
        """Bits that a load of device memory brings a thread; 0 for other instructions."""
        if self.name not in _LOADS:
            return 0
        width = re.search(r"\.(?:[US])?(8|16|64|128|256)\b", self.suffixes)
        return int(width.group(1)) if width else 32


@dataclass(frozen=True)
class Code:
    """Instructions of one kernel in their order, and the positions that labels name."""

    instructions: list[Instruction]
    labels: dict[str, int]

    def loops(self) -> list[list[Instruction]]:
        """The innermost loops: what lies between a label and a branch back to it, without a loop inside."""
        ranges = []
        for end, instruction in enumerate(self.instructions):
            target = _TARGET.search(instruction.operands) if instruction.name == "BRA" else None
            begin = self.labels.get(target.group(1), end + 1) if target else end + 1
            if begin < end:  # a branch to itself ends a kernel
                ranges.append((begin, end + 1))
        inner = [r for r in ranges if not any(r != o and r[0] <= o[0] and o[1] <= r[1] for o in ranges)]
        return [self.instructions[begin:end] for begin, end in inner]


def nvdisasm() -> str | None:
    """Path of the disassembler of Triton, or None."""
    try:
        from triton import knobs
    except ImportError:
        return None
    return str(knobs.nvidia.nvdisasm.path)


def parse(text: str) -> dict[str, Code]:
    """Kernels by mangled name, from what nvdisasm prints."""
    found: dict[str, Code] = {}
    code = Code([], {})
    for line in text.split("\n"):
        if section := _SECTION.match(line):
            code = found[section.group(1)] = Code([], {})
        elif label := _LABEL.match(line):
            code.labels[label.group(1)] = len(code.instructions)
        elif (match := _INSTRUCTION.match(line)) and match.group(1) != "NOP":
            code.instructions.append(Instruction(*match.groups()))
    return found


@cache
def disassembled(stem: str) -> dict[str, Code]:
    """Kernels of csrc/cuda/<stem>.cu by readable name."""
    source = CSRC / "cuda" / f"{stem}.cu"
    tool = nvdisasm()
    assert tool is not None
    command = [str(find_nvcc()), *ptxas.FLAGS, f"-arch={ARCH}", *ptxas.PRODUCTS[ARCH]]
    cubin = compiled(command, source, f"ptxas-{stem}-{ARCH}")
    kernels = parse(subprocess.check_output([tool, "-c", str(cubin)], text=True))
    return dict(zip(ptxas.readable(list(kernels)), kernels.values()))


@cache
def table() -> dict[str, Any]:
    """The committed table."""
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def digest(budget: Budget) -> str:
    """Of the source of a loop, of how it is looked for, and of this file."""
    parts = [ptxas.digest(CSRC / "cuda" / f"{budget.source}.cu"), repr(budget), code_of(Path(__file__)).decode()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def row(budget: Budget) -> dict[str, Any]:
    """What :func:`disassembled_row` finds, or found when the table was written."""
    if ptxas.recorded(table(), budget.name, digest(budget)):
        found: dict[str, Any] = table()["loops"][budget.name]
        return found
    return disassembled_row(budget)


def disassembled_row(budget: Budget) -> dict[str, Any]:
    """What the table holds of one loop."""
    code = disassembled(budget.source)[budget.kernel]
    body = code.instructions
    if budget.loop:
        body = max(code.loops(), key=lambda loop: sum(i.load_bits == budget.load_bits for i in loop))
    return {
        "instructions": len(body),
        "elements": budget.elements,
        "an element": round(len(body) / budget.elements, 2),
        "loads": {str(bits): n for bits, n in sorted(Counter(i.load_bits for i in body).items()) if bits},
        "generic loads": sum(_LOADS.get(i.name) == "generic" for i in body),
        "calls": sum(i.name == "CALL" for i in body),
        "local memory": sum(i.name in ("STL", "LDL") for i in code.instructions),
        "registers": ptxas.kernels(CSRC / "cuda" / f"{budget.source}.cu", ARCH)[budget.kernel]["registers"],
    }


def measure(of: Callable[[Budget], dict[str, Any]] = row) -> dict[str, Any]:
    """The table as it is now, with the rows that ``of`` gives."""
    digests = {budget.name: digest(budget) for budget in BUDGETS}
    return {"nvcc": ptxas.nvcc_release(), "digests": digests, "loops": {b.name: of(b) for b in BUDGETS}}


if __name__ == "__main__":
    TABLE.write_text(json.dumps(measure(disassembled_row), indent=1, sort_keys=True) + "\n")
