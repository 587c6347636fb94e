"""The best of several runs, against plain comparisons of all pairs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation import compare_runs
from valor_gpu.evaluation.results.best_runs import best_runs
from valor_gpu.evaluation.results.run_pairs import PairOptions, RunPair, joined_pair, with_tests
from valor_gpu.stats import adjust_holm
from valor_gpu.store import Run, Store, StoredRow, StoredScore

OPTIONS = PairOptions(0.95, 500, 0)
NAMES = ("up", "down", "neither")
INFOS: list[dict[str, Any]] = [
    {"name": "up", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
    {"name": "down", "kind": "text", "low": 0, "high": 1, "higher_is_better": False},
    {"name": "neither", "kind": "text", "low": 0, "high": 1, "higher_is_better": None},
]


def made(
    store: Store,
    seed: int,
    shift: float,
    noise: float = 0.05,
    version: str = "1",
    rows: range = range(1, 41),
) -> Run:
    draw = random.Random(seed)
    infos = [{**info, "version": version} for info in INFOS]
    run = store.create_run(f"run {seed}", {"evaluators": infos, "data": {"hash": "h"}})
    run.add_rows([StoredRow(row, f"k{row}", {}) for row in rows])
    for row in rows:
        value = 0.5 + row / 500 + shift + noise * draw.gauss(0, 1)
        run.add_scores([StoredScore(row, "up", 0, value), StoredScore(row, "down", 0, 1 - value)])
        run.add_scores([StoredScore(row, "neither", 0, value)])
    return run


def pairs(runs: list[Run]) -> list[RunPair]:
    return [with_tests(joined_pair(run, runs[0], None, OPTIONS)) for run in runs[1:]]


def by_loop(runs: list[Run]) -> dict[str, int]:
    """Every run against every other one."""
    worst = {}
    for name in NAMES:
        for place, run in enumerate(runs):
            others = [other for other in runs if other is not run]
            found = [compare_runs(run, other, resamples=500).metrics[name] for other in others]
            better = [
                each.higher_is_better is not None
                and not each.warning
                and (each.difference or 0) * (1 if each.higher_is_better else -1) > 0
                for each in found
            ]
            p_value = max(1.0 if each.p_value is None else each.p_value for each in found) if all(better) else 1.0
            worst[name, place] = p_value
    leaders = {name: min(range(len(runs)), key=lambda place: worst[name, place]) for name in NAMES}
    scaled = adjust_holm([min(1.0, (len(runs) - 1) * worst[name, leaders[name]]) for name in NAMES])
    return {name: leaders[name] for name, p_value in zip(NAMES, scaled) if p_value <= 0.05}


@pytest.mark.parametrize("shifts", [(0, 0.1, 0.2), (0.2, 0.1, 0), (0, 0.1, 0.105), (0, 0, 0), (0, 0.2, 0.1, -0.1)])
def test_best_is_better_than_every_other_run(tmp_path: Path, shifts: tuple[float, ...]) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        runs = [made(store, seed, shift) for seed, shift in enumerate(shifts)]
        found = best_runs(pairs(runs))
        assert found == by_loop(runs)
        clear = {(0, 0.1, 0.2): 2, (0.2, 0.1, 0): 0, (0, 0.2, 0.1, -0.1): 1}.get(shifts)
        assert found == ({} if clear is None else {"up": clear, "down": clear})


def test_two_that_are_alike_are_not_told_apart(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        runs = [made(store, 0, 0.0), made(store, 1, 0.3), made(store, 1, 0.3)]
        compared = pairs(runs)
        assert {each.comparison().metrics["up"].verdict for each in compared} == {"better"}, "both beat the baseline"
        assert best_runs(compared) == {}


def test_what_is_not_comparable_is_not_best(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        runs = [made(store, 0, 0.0), made(store, 1, 0.1), made(store, 2, 0.4, version="2")]
        assert best_runs(pairs(runs)) == {}
        runs[2] = made(store, 3, 0.4)
        assert best_runs(pairs(runs)) == {"up": 2, "down": 2}


def test_too_few_rows_show_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        assert best_runs(pairs([made(store, seed, seed / 5, rows=range(1, 6)) for seed in range(3)])) == {}


def test_runs_that_share_rows_with_the_baseline_alone_are_not_told_apart(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        runs = [made(store, 0, 0.0), made(store, 1, 0.3, rows=range(1, 21)), made(store, 2, 0.4, rows=range(21, 41))]
        compared = pairs(runs)
        assert {each.comparison().metrics["up"].verdict for each in compared} == {"better"}, "both beat the baseline"
        assert best_runs(compared) == {}
