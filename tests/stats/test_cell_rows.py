"""Rows that fall into cells: the intervals of their counts, and comparisons that a plain loop over rows gives too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from valor_gpu.classification import BinaryFairness, BinaryGroupStatRates, ConformalCoverage
from valor_gpu.errors import InputError
from valor_gpu.regression import CriticalSuccessIndex
from valor_gpu.stats import Bootstrap, compare
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Intervals

ROWS = 90
Batch = tuple[Tensor, ...]


def drawn(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of one model, and the targets and groups that all have."""
    rng, own = np.random.default_rng(7), np.random.default_rng(seed)
    target, groups = (torch.from_numpy((rng.random(ROWS) < 0.4).astype(np.int64)) for _ in range(2))
    return torch.from_numpy(own.random(ROWS)) * 0.7 + 0.3 * target, target, groups


def groups_batch(seed: int) -> Batch:
    return drawn(seed)


def events_batch(seed: int) -> Batch:
    scores, target, _ = drawn(seed)
    return scores, target.double()


def sets_batch(seed: int) -> Batch:
    rng, target = np.random.default_rng(seed), drawn(seed)[1]
    return torch.from_numpy(rng.random((ROWS, 3))), target


CASES: list[tuple[Any, dict[str, Any], Callable[[int], Batch]]] = [
    (BinaryFairness, {"num_groups": 2}, groups_batch),
    (BinaryGroupStatRates, {"num_groups": 2}, groups_batch),
    (ConformalCoverage, {"num_classes": 3, "threshold": 0.4}, sets_batch),
    (CriticalSuccessIndex, {"threshold": 0.5}, events_batch),
]
each_case = pytest.mark.parametrize(
    ("kind", "choices", "batch"), CASES, ids=lambda value: getattr(value, "__name__", "")
)


def fed(kind: Any, choices: dict[str, Any], batch: Batch, **more: Any) -> Any:
    metric = kind(**choices, **more)
    for part in torch.arange(len(batch[0])).tensor_split(3):
        metric.update(*(side[part] for side in batch))
    return metric


def ends(found: Intervals) -> dict[str, Any]:
    return {name: (interval.low, interval.high, interval.reason) for name, interval in found.items()}


@each_case
def test_rows_give_the_numbers_and_intervals_of_counts(kind: Any, choices: Any, batch: Any) -> None:
    counts, rows = (fed(kind, choices, batch(0), keep_rows=keep).result(intervals=80) for keep in (False, True))
    assert str(counts.values) == str(rows.values) and counts.signature == rows.signature
    assert str(ends(counts.intervals)) == str(ends(rows.intervals))


@each_case
def test_a_replicate_of_clusters_is_the_metric_of_its_rows(kind: Any, choices: Any, batch: Any) -> None:
    given = batch(1)
    state = vars(fed(kind, choices, given, keep_rows=True).result())["_state"]()
    codes = state.clusters([row // 3 for row in range(ROWS)])
    draws = Draws(state.units, 5, seed=2, clusters=codes)
    weights = np.asarray(Draws(draws.drawn, 5, seed=2).array())
    found = state.replicates(draws)
    for column in range(5):
        repeated = torch.from_numpy(np.repeat(np.arange(ROWS), weights[:, column].astype(np.int64)[codes]))
        expected = fed(kind, choices, tuple(side[repeated] for side in given)).result().values
        for name, values in found.items():
            first, _, rest = name.partition("/")
            number: Any = expected[first]
            if rest:
                number = number[rest] if isinstance(number, Mapping) else number[int(rest)]
            if not name.endswith(("_ratio", "_difference")):  # of the groups that the data name
                assert values[column] == pytest.approx(number, nan_ok=True), name


@each_case
def test_models_are_compared_row_by_row(kind: Any, choices: Any, batch: Any) -> None:
    same, first, second = (fed(kind, choices, batch(seed), keep_rows=True).result() for seed in (0, 0, 1))
    equal = compare({"a": same, "b": first}, replicates=60)
    apart = compare({"a": first, "b": second}, replicates=60)
    assert "rows" in str(equal) and str(equal) != str(apart)
    counts = fed(kind, choices, batch(1)).result()
    with pytest.raises(InputError, match=r"needs the rows one by one .*keep_rows=True"):
        compare({"a": counts, "b": counts}, replicates=60)
    other = batch(1)
    other[1][0] = 1 - other[1][0]
    with pytest.raises(InputError, match="target"):
        compare({"a": first, "b": fed(kind, choices, other, keep_rows=True).result()}, replicates=60)


def test_thresholds_of_sets_are_those_of_their_models() -> None:
    kind, batch = ConformalCoverage, sets_batch(0)
    first, second = (fed(kind, {"num_classes": 3, "threshold": at}, batch, keep_rows=True) for at in (0.2, 0.4))
    found = compare(first, second, replicates=60)
    assert found.values["difference"]["mean_set_size"] < 0
    assert "threshold: 0.2 of the first and 0.4 of the second" in found.signature["notes"]
    events = [fed(CriticalSuccessIndex, {"threshold": at}, events_batch(0), keep_rows=True) for at in (0.2, 0.4)]
    with pytest.raises(InputError, match=r"the same choices but threshold is 0\.2 of the first and 0\.4"):
        compare(*events, replicates=60)


@each_case
def test_clusters_widen_intervals_of_repeated_rows(kind: Any, choices: Any, batch: Any) -> None:
    fourfold = tuple(side.repeat_interleave(4, 0) for side in batch(3))
    result = fed(kind, choices, fourfold, keep_rows=True).result()
    clusters = [row // 4 for row in range(4 * ROWS)]
    plain, wide = (result.with_intervals(Bootstrap(200, clusters=given)).intervals for given in (None, clusters))
    widths = [
        (wide[name].high - wide[name].low, plain[name].high - plain[name].low)
        for name in plain
        if not plain[name].reason and not wide[name].reason and plain[name].high > plain[name].low
    ]
    assert widths and np.mean([one > other for one, other in widths]) > 0.9
    with pytest.raises(InputError, match="clusters must have one for each"):
        result.with_intervals(Bootstrap(20, clusters=clusters[1:]))


def test_ignored_rows_and_nan() -> None:
    scores, target, groups = drawn(0)
    target[::5] = -1
    metric: Any = BinaryFairness(2, ignore_index=-1, keep_rows=True)
    metric.update(scores, target, groups)
    assert int((metric.state().rows == -1).sum()) == 18
    assert metric.result(intervals=40).intervals["selection_rate/0"].low > 0
    events: Any = CriticalSuccessIndex(0.5, keep_rows=True)
    events.update(torch.tensor([0.9, 0.1, float("nan")]), torch.tensor([1.0, 1.0, 1.0]))
    assert events.state().rows.tolist() == [0, 1, 4]
    with pytest.raises(InputError, match="1 are NaN"):
        events.result(intervals=40)


def test_states_that_do_not_fit_and_arguments() -> None:
    with pytest.raises(InputError, match="keep_rows must be False with keep_sequence_dim"):
        CriticalSuccessIndex(0.5, 0, keep_rows=True)
    for kind, choices, batch in CASES:
        metric = fed(kind, choices, batch(0), keep_rows=True)
        metric.rows = [metric.state().rows.clone().fill_(99)]
        with pytest.raises(InputError, match="rows"):
            metric.state().check(metric._state_rule)
