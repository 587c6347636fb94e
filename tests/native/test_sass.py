"""The machine code of hot loops stays within its budget and is that of the table."""

from __future__ import annotations

import pytest

from tests.native import ptxas, sass
from tests.native.sass_budgets import BUDGETS, Budget
from tests.native.sim import find_nvcc

_NO_TOOLS = find_nvcc() is None or sass.nvdisasm() is None
needs_tools = pytest.mark.skipif(_NO_TOOLS, reason="no nvcc, or no nvdisasm, which comes with Triton")

LISTING = """
.text._Z3sumPKfPf:
.L_x_0:
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/              @!P0 NOP ;
.L_x_1:
        /*0020*/                   LDG.E.U8.CONSTANT R8, desc[UR4][R2.64] ;
        /*0030*/              @!P0 BRA `(.L_x_1) ;
        /*0040*/               @P1 BRA `(.L_x_0) ;
.L_x_2:
        /*0050*/                   BRA `(.L_x_2);
"""


def test_only_innermost_loops_are_found() -> None:
    code = sass.parse(LISTING)["_Z3sumPKfPf"]
    assert [[(i.name, i.load_bits) for i in loop] for loop in code.loops()] == [[("LDG", 8), ("BRA", 0)]]
    assert [i.load_bits for i in code.instructions] == [128, 8, 0, 0, 0]


@needs_tools
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.name)
def test_budgets_hold(budget: Budget) -> None:
    if ptxas.nvcc_release() != sass.table()["nvcc"]:
        pytest.skip(f"the budgets are those of another nvcc than {ptxas.nvcc_release()}")
    row = sass.row(budget)
    assert row["an element"] <= budget.most, row
    assert max(map(int, row["loads"])) == budget.load_bits, row
    assert (row["generic loads"], row["calls"], row["local memory"]) == (0, budget.calls, 0), row


@needs_tools
def test_loops_are_those_of_the_table() -> None:
    """After a wanted change: python -m tests.native.sass."""
    table = sass.table()
    if ptxas.nvcc_release() != table["nvcc"]:
        pytest.skip(f"the table is of nvcc {table['nvcc']}, here is {ptxas.nvcc_release()}")
    assert sass.measure() == table
