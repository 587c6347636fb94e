"""Pages of scores between bounds, and of those that failed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.groups import failed_numbers


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("between", [(None, 0.4), (0.4, None), (0.2, 0.6), (0.7, 0.1), (None, None)])
def test_pages_have_what_lies_between(
    tmp_path: Path, between: tuple[float | None, float | None], descending: bool
) -> None:
    draw = random.Random(3)
    values = [None if draw.random() < 0.2 else draw.randrange(11) / 10 for _ in range(80)]
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("r", {})
        run.add_rows([StoredRow(n, str(n), {}) for n in range(1, 81)])
        status = {True: "failed", False: "ok"}
        run.add_scores([StoredScore(n, "m", 0, value, status[value is None]) for n, value in enumerate(values, 1)])
        found: list[StoredScore] = []
        while page := run.score_page("m", found[-1] if found else None, 7, descending, between=between):
            found += page
        failed = [*failed_numbers(run, "m", 0, 5), *failed_numbers(run, "m", failed_numbers(run, "m", 0, 5)[-1])]
    low, high = between[0] or 0.0, 1.0 if between[1] is None else between[1]
    wanted = [(value, n) for n, value in enumerate(values, 1) if value is not None and low <= value <= high]
    assert [(each.value, each.row) for each in found] == sorted(wanted, reverse=descending)
    assert failed == [n for n, value in enumerate(values, 1) if value is None]
