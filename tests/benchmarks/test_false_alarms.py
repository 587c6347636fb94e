"""The benchmark of tests of two models: every case gives p-values, and what is written of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import false_alarms


@pytest.mark.parametrize("case", list(false_alarms.CASES))
def test_every_case_gives_p_values_that_its_seed_decides(case: str) -> None:
    simulate, difference = false_alarms.CASES[case]
    assert difference > 0
    one, other = (simulate(np.random.default_rng(5), 0.0) for _ in range(2))
    assert one == other and all(0 < p_value <= 1 for p_value in one.values())
    assert not any(map(math.isnan, simulate(np.random.default_rng(6), difference).values()))


def test_a_run_writes_counts_and_the_page_shares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    status = false_alarms.main(["run", "--cases", "any of 40 means", "--pairs", "10", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    alarms = rows[0]["alarms"] / 10
    assert status == int(not 0.04 <= alarms <= 0.06) and len(rows) == 1
    assert rows[0]["unequal_pairs"] == 2 and rows[0]["test"] == "max_t" and rows[0]["untested"] == 0
    line = f"| any of 40 means | max t | 10 | {100 * alarms:.1f}% | 1 | {50 * rows[0]['finds']}% |"
    assert line in capsys.readouterr().out
    false_alarms.report(rows, tmp_path / "page.md")
    assert line in (tmp_path / "page.md").read_text()
