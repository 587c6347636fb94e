"""What follows from the stored table of how often intervals hold: the defaults, and the page."""

from __future__ import annotations

import pytest

from benchmarks import coverage_report
from valor_gpu.stats import methods
from valor_gpu.stats.intervals import TARGETS


@pytest.mark.parametrize("paired", [False, True], ids=["one model", "difference"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", methods.FAMILIES)
def test_a_default_is_the_shortest_method_that_holds(family: str, target: str, paired: bool) -> None:
    rows = coverage_report.table()["rows"]
    wanted = coverage_report.wanted(rows, family, target, paired)
    default = methods.default_of(family, target, paired)
    assert (default.method, default.least) == (wanted.method, wanted.least), "python -m benchmarks.coverage choose"


def test_the_page_is_up_to_date() -> None:
    assert coverage_report.PAGE.read_text() == coverage_report.page(coverage_report.table()), (
        "python -m benchmarks.coverage report"
    )
