"""Aggregates against numpy, closed forms, simulation and hand counts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.judge import Question, question_metric, run_judge
from valor_gpu.judge.protocol import Judgement, Status, Usage
from valor_gpu.judge.statistics import Prices, standard_error, summarize, variance_split


def scored(value: float, usage: Usage | None = None) -> Judgement:
    return Judgement(value, Status.OK, attempts=1, usage=usage or Usage())


def failed(status: Status) -> Judgement:
    return Judgement(None, status, attempts=2)


def test_standard_error_is_that_of_numpy_and_grows_with_clusters() -> None:
    values = np.random.default_rng(1).normal(size=40)
    plain = float(values.std(ddof=1) / math.sqrt(40))
    assert standard_error(values.tolist()) == pytest.approx(plain, rel=1e-12)
    assert standard_error(values.tolist(), [f"c{i}" for i in range(40)]) == pytest.approx(plain, rel=1e-12)
    # Every row five times, as a cluster: nothing is known that 40 rows do not tell.
    five = np.repeat(values, 5).tolist()
    assert standard_error(five, np.repeat(np.arange(40), 5).tolist()) == pytest.approx(plain, rel=1e-12)
    assert standard_error(five) < 0.5 * plain
    assert math.isnan(standard_error([1.0])) and math.isnan(standard_error([1.0, 2.0, 3.0], "aaa"))


def test_clusters_of_unequal_size_by_the_sandwich_of_a_regression_on_a_constant() -> None:
    rng = np.random.default_rng(2)
    values, clusters = rng.normal(size=60), rng.integers(0, 9, 60)
    x = np.ones((60, 1))
    residuals = values - values.mean()
    bread = np.linalg.inv(x.T @ x)
    scores = [x[clusters == c].T @ residuals[clusters == c] for c in range(9)]
    meat = sum(np.outer(score, score) for score in scores)
    expected = math.sqrt((bread @ meat @ bread)[0, 0] * 9 / 8)
    assert standard_error(values.tolist(), clusters.tolist()) == pytest.approx(expected, rel=1e-12)


def test_variance_split_finds_what_was_put_in() -> None:
    rng = np.random.default_rng(3)
    items = rng.normal(0, 2.0, size=(4000, 1))
    rows = (items + rng.normal(0, 1.0, size=(4000, 4))).tolist()
    ragged = [row[: 1 + at % 4] for at, row in enumerate(rows)] + [[]]
    for found in (variance_split(rows), variance_split(ragged)):
        assert found == pytest.approx((4.0, 1.0), rel=0.1)
    assert variance_split([[1.0, 1.0], [3.0, 3.0]]) == (2.0, 0.0)
    assert variance_split([[1.0, 3.0], [3.0, 1.0]]) == (-1.0, 2.0)
    assert all(map(math.isnan, variance_split([[1.0], [2.0]])))
    assert variance_split([[1.0, 3.0], [5.0]]) == pytest.approx((3.0, 2.0), rel=1e-12)  # size (3 - 5/3) / 1
    item, judge = variance_split([[1.0, 3.0]])
    assert math.isnan(item) and judge == 2.0


def test_summary_by_hand() -> None:
    rows = [
        [scored(4, Usage(100, 10)), scored(2, Usage(100, 10))],
        [scored(5), failed(Status.TIMEOUT)],
        [failed(Status.REFUSED), failed(Status.TIMEOUT)],
    ]
    found = summarize(rows, 1, 5, prices=Prices(10, 100))
    assert (found.mean, found.n, found.n_scored, found.rows_scored) == (4.0, 6, 3, 2)
    assert found.n_failed == {"timeout": 2, "refused": 1}
    assert found.lower == (3 + 3 + 1) / 3 and found.upper == (3 + 5 + 5) / 3
    assert found.standard_error == 1.0 and found.judge_variance == 2.0
    assert found.usage == Usage(200, 20) and found.cost == 0.004 and found.attempts == 9
    assert found.reasons == {}


def test_numbers_that_do_not_exist_have_reasons() -> None:
    found = summarize([[failed(Status.TIMEOUT)]], 0, 1)
    assert math.isnan(found.mean) and (found.lower, found.upper) == (0, 1) and found.cost is None
    assert found.reasons == {
        "mean": "no row has a score",
        "standard_error": "no row has a score",
        "item_variance": "no row has a score",
        "judge_variance": "no row has a score",
    }
    assert summarize([], 0, 1).reasons["lower"] == "there are no rows"
    one = summarize([[scored(1)]], 0, 1).reasons
    assert one.keys() == {"standard_error", "item_variance", "judge_variance"}
    assert summarize([[failed(Status.TIMEOUT)], [scored(3.0)]], 0, math.inf).upper == math.inf
    with pytest.raises(InputError, match="clusters must hold one id per row, 1, but has 2"):
        summarize([[scored(1)]], 0, 1, clusters="ab")


class Element:
    """Of a tensor: equal and hashed as itself, whatever it holds."""


class Vector:
    """A sequence as tensors are, whose elements are ids only as plain numbers."""

    def __init__(self, *ids: int) -> None:
        self.ids = list(ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Element]:
        return (Element() for _ in self.ids)

    def tolist(self) -> list[int]:
        return self.ids


def test_clusters_of_every_kind_are_the_same_clusters() -> None:
    values = [1.0, 1.0, 5.0, 5.0, 9.0, 9.0]
    expected = standard_error(values, "aabbcc")
    kinds: list[Any] = [Vector(0, 0, 1, 1, 2, 2), np.array([0, 0, 1, 1, 2, 2]), [(0,), (0,), (1,), (1,), (2,), (2,)]]
    assert [standard_error(values, kind) for kind in kinds] == [expected] * 3
    assert summarize([[scored(value)] for value in values], 0, 9, clusters=kinds[0]).standard_error == expected


@pytest.mark.parametrize("clusters", [[["a"]], [math.nan], [(["a"],)], iter("a"), np.zeros((1, 2)), "ab"])
def test_clusters_that_cannot_be_are_found_before_anything_is_asked(clusters: Any) -> None:
    asked: list[Any] = []
    metric = question_metric("q", lambda row: Question([{"role": "user", "content": "?"}], int), 0, 9)
    with pytest.raises(InputError, match="clusters must hold"):
        run_judge([1], [metric], asked.append, clusters=clusters)
    assert not asked


def test_prices_of_cached_tokens() -> None:
    usage = Usage(1_000_000, 0, 400_000)
    assert Prices(10, 1).cost(usage) == 10 and Prices(10, 1, 1).cost(usage) == pytest.approx(6.4, rel=1e-15)
