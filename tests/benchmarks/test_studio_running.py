"""The benchmark of a run that goes on takes no page whose number of rows cannot be true."""

from __future__ import annotations

import pytest

from benchmarks.studio_running import LIMITS, RUN, Seen, _page, problem, shown_rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("<p><b>41,200</b> of 100,000 rows, 41%</p>", 41_200),
        ("<p>0 of\n100,000 rows</p>", 0),
        ("<p>41,200 of 90,000 rows</p>", None),
        ("<p>41,200 rows</p>", None),
    ],
)
def test_the_number_of_rows_that_a_page_shows(text: str, rows: int | None) -> None:
    assert shown_rows(text, 100_000) == rows


@pytest.mark.parametrize(
    ("status", "shown", "wrong"),
    [(200, 10, False), (200, 12, False), (200, 13, True), (200, None, True), (500, 10, True)],
)
def test_a_page_must_show_what_the_run_had_meanwhile(status: int, shown: int | None, wrong: bool) -> None:
    assert bool(problem(status, shown, 10, 12)) is wrong


def test_pages_without_a_right_number_get_no_seconds() -> None:
    assert _page(10, RUN, [])["status"] == "mismatch"
    assert _page(10, RUN, [Seen(RUN, 0.1, ""), Seen(RUN, 0.1, "shows 3")])["reason"] == "shows 3"
    row = _page(10, RUN, [Seen(RUN, 0.1, ""), Seen(RUN, 0.3, "")])
    assert row["seconds"]["median"] == pytest.approx(0.2) and row["limit_seconds"] == LIMITS[RUN]
