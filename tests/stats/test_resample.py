"""Intervals of a state: choices and their errors, ends by hand and by scipy, and numbers that have none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]
import torch

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.result import Result, Signature
from valor_gpu.stats import Bootstrap, Interval, Intervals
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.methods import FEW_UNITS, Replicates, interval_by
from valor_gpu.stats.resample import Resampled, collected, intervals_of

NAN = math.nan
ROWS = np.array([0.5, 1.5, 1.5, 2.0, 3.5, 4.0, 4.5, 7.0, 8.5, 11.0, 16.0, 30.0])


class Means(Resampled):
    """Rows of numbers: their mean, their maximum, and a mean that only replicates with the first row have."""

    unit, chunk = "rows", 7

    def __init__(self, rows: Any = ROWS, support: int = 100) -> None:
        self.rows, self.units, self.support = np.asarray(rows, np.float64), len(rows), support

    def replicates(self, draws: Draws) -> dict[str, Any]:
        weights = draws.array().astype(np.float64)
        with np.errstate(invalid="ignore"):
            means = (self.rows[:, None] * weights).sum(0) / weights.sum(0)
        return {"mean": means, "most": means, "rare": np.where(weights[0] > 0, means, NAN), "of/class": means}

    def supports(self, clusters: Any = None) -> Mapping[str, int]:
        return {"of/class": self.support if clusters is None else len(set(clusters.tolist()))}

    def refused(self) -> Mapping[str, str]:
        return {"most": "a maximum has no interval"}

    def clusters(self, given: Any) -> Any:
        return np.asarray(given, np.int64)


MEAN = float(ROWS.mean())
NUMBERS = {"mean": MEAN, "most": 30.0, "rare": MEAN, "of/class": MEAN, "gone": NAN, "count": 12.0}


def replicates(count: int = 400, kind: str = "multinomial") -> Any:
    weights = Draws(len(ROWS), count, kind=kind).array()
    return np.array([np.repeat(ROWS, weight).mean() for weight in weights.T])


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_ends_are_those_of_scipy_for_the_same_replicates(method: str) -> None:
    found = intervals_of(NUMBERS, Means(), Bootstrap(400, 0.9, method=method))["mean"]
    peer = scipy.stats.bootstrap(
        (ROWS,),
        np.mean,
        n_resamples=0,
        confidence_level=0.9,
        method="BCa" if method == "bca" else method,
        bootstrap_result=SimpleNamespace(bootstrap_distribution=replicates()),
    )
    assert found.low == pytest.approx(peer.confidence_interval.low, rel=1e-12)
    assert found.high == pytest.approx(peer.confidence_interval.high, rel=1e-12)
    assert found.standard_error == pytest.approx(peer.standard_error, rel=1e-12)


def test_normal_intervals_by_hand() -> None:
    kept = replicates()
    error, bias, z = kept.std(ddof=1), kept.mean() - MEAN, 1.6448536269514722
    plain = intervals_of(NUMBERS, Means(), Bootstrap(400, 0.9, method="normal"))["mean"]
    assert (plain.low, plain.high) == pytest.approx((MEAN - z * error, MEAN + z * error), rel=1e-12)
    assert (plain.standard_error, plain.bias) == pytest.approx((error, bias), rel=1e-9)
    shifted = intervals_of(NUMBERS, Means(), Bootstrap(400, 0.9, method="normal_bias"))["mean"]
    assert (shifted.low, shifted.high) == pytest.approx((plain.low - bias, plain.high - bias), rel=1e-12)
    half = intervals_of(NUMBERS, Means(), Bootstrap(400, 0.9, method="half_normal"))["mean"]
    spread = replicates(kind="half").std(ddof=1)
    assert (half.low, half.high) == pytest.approx((MEAN - z * spread, MEAN + z * spread), rel=1e-12)


def test_a_number_without_an_honest_interval_says_why() -> None:
    found = intervals_of(NUMBERS, Means(support=FEW_UNITS - 1), Bootstrap(400))
    assert list(found) == ["mean", "most", "rare", "of/class"], "count is no number of the state"
    assert found["most"].reason == "a maximum has no interval" and math.isnan(found["most"].low)
    without = int((Draws(12, 400).array()[0] == 0).sum())
    assert found["rare"].reason == f"the number does not exist in {without} of 400 replicates"
    assert found["rare"].lost == without > 100
    assert found["of/class"].reason == f"too few rows: {FEW_UNITS - 1} hold a truth, it takes {FEW_UNITS}"
    enough = intervals_of(NUMBERS, Means(support=FEW_UNITS), Bootstrap(400))["of/class"]
    assert not enough.reason and enough.low < MEAN < enough.high


class Fractions(Means):
    """Numbers from 0 to 1."""

    def range_of(self, name: str) -> tuple[float, float]:
        return 0.0, 1.0


@pytest.mark.parametrize("rows", [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
def test_ends_stay_within_what_the_number_can_be(rows: list[float]) -> None:
    values, choices = {"mean": sum(rows) / 3}, Bootstrap(50, method="normal")
    wide, kept = (intervals_of(values, state(rows), choices)["mean"] for state in (Means, Fractions))
    assert (wide.low < 0) != (wide.high > 1)
    assert (kept.low, kept.high) == (max(wide.low, 0.0), min(wide.high, 1.0))


@pytest.mark.parametrize("method", [None, "half_normal", "bca"])
def test_a_single_unit_gives_no_interval(method: str | None) -> None:
    found = intervals_of({"mean": 0.5}, Means([0.5]), Bootstrap(8, method=method))["mean"]
    assert found.reason == "too few rows: there is 1, it takes 2" and math.isnan(found.low)
    together = intervals_of({"mean": 1.0}, Means([0.0, 2.0]), Bootstrap(8, clusters=[0, 0], method=method))["mean"]
    assert together.reason == "too few clusters: there is 1, it takes 2"


def test_few_lost_replicates_are_left_out() -> None:
    values = np.concatenate([replicates(100), [NAN] * 5])
    found = interval_by("percentile", MEAN, Replicates(values), 0.9, "rows")
    assert found.lost == 5 and not found.reason
    assert found.low == float(np.quantile(values[:100], (1 - 0.9) / 2))
    more = interval_by("percentile", MEAN, Replicates(np.append(values, NAN)), 0.9, "rows")
    assert more.reason == "the number does not exist in 6 of 106 replicates" and math.isnan(more.high)
    assert interval_by("normal", NAN, Replicates(values), 0.9, "rows").reason == "the number does not exist"


def test_portions_and_what_they_are_of_change_no_bit() -> None:
    whole, portions = Means(), Means()
    whole.chunk = 1000
    for kind in ("multinomial", "half"):
        first, second = (collected(state, Draws(12, 50, kind=kind)) for state in (whole, portions))
        assert first.keys() == second.keys()
        assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    one, same, other = (intervals_of(NUMBERS, Means(), Bootstrap(50, seed=seed)) for seed in (3, 3, 4))
    assert one == same != other and one.choices["seed"] == 3


def test_clusters_are_drawn_as_a_whole() -> None:
    state = Means(np.repeat([0.0, 1.0], 50))
    apart = intervals_of({"mean": 0.5}, state, Bootstrap(500))
    together = intervals_of({"mean": 0.5}, state, Bootstrap(500, clusters=np.repeat(np.arange(10), 10).tolist()))
    assert "clusters" not in apart.choices and together.choices["clusters"] == 10
    assert together["mean"].standard_error > 2 * apart["mean"].standard_error


class Plain(Resampled):
    """A state that says nothing beyond what it must."""

    units = 3

    def replicates(self, draws: Draws) -> dict[str, Any]:
        return {"x": draws.array().sum(0).astype(np.float64)}


def test_clusters_are_plain_values() -> None:
    plain = Bootstrap(10, clusters=[0, 0, 1]).clusters
    assert plain == [0, 0, 1]
    tensor = torch.tensor([0, 0, 1])
    for given in (np.array([0, 0, 1]), tensor, list(tensor), pandas.Series([0, 0, 1], index=[5, 3, 4])):
        assert Bootstrap(10, clusters=given).clusters == plain  # type: ignore[arg-type]
    assert Bootstrap(10, clusters={7: tensor[2], "b": "x"}).clusters == {7: 1, "b": "x"}
    for missing in (None, NAN, np.float64("nan"), pandas.NA, pandas.NaT):
        with pytest.raises(InputError, match=f"have one for every unit but that of 1 is {missing}"):
            Bootstrap(10, clusters=["a", missing])
        with pytest.raises(InputError, match=r"but that of 'x\.png' is"):
            Bootstrap(10, clusters={"y.png": 1, "x.png": missing})
    for odd, kind in (("ab", "str"), ({1, 2}, "set"), (3, "int")):
        with pytest.raises(InputTypeError, match=f"a sequence of the cluster of every unit but is {kind}"):
            Bootstrap(10, clusters=odd)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="must be numbers or texts but that of 0 is a list"):
        Bootstrap(10, clusters=np.zeros((2, 2)))  # type: ignore[arg-type]


def test_a_state_of_counts_knows_no_clusters() -> None:
    with pytest.raises(InputError, match="clusters must be None but came: the state keeps counts"):
        intervals_of({"x": 3.0}, Plain(), Bootstrap(10, clusters=[0, 0, 1]))
    assert Plain().supports() == Plain().refused() == {}


def test_choices_are_checked() -> None:
    for wrong, message in (
        ({"replicates": 1}, "replicates must be at least 2 but got 1"),
        ({"seed": -1}, "seed must be at least 0 but got -1"),
        ({"seed": 1 << 64}, "seed must be below 2\\*\\*64"),
        ({"confidence": 1.0}, "confidence must be above 0 and below 1 but is 1.0"),
        ({"confidence": NAN}, "confidence must be a number but got nan"),
        ({"target": "truth"}, "target must be"),
    ):
        with pytest.raises(InputError, match=message):
            Bootstrap(**{"replicates": 100, **wrong})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="method must be"):
        intervals_of({"x": 3.0}, Plain(), Bootstrap(10, method="magic"))
    given = Bootstrap(10, seed=5)
    assert Bootstrap.of(given) is given and Bootstrap.of(70).replicates == 70
    for odd in (True, 10.0, "10", None):
        with pytest.raises(InputTypeError, match="intervals must be a number of replicates, a method or a Bootstrap"):
            Bootstrap.of(odd)  # type: ignore[arg-type]


def test_a_result_that_knows_no_state_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"ask the metric for result\(intervals=1000\), or the command"):
        Result({"x": 1.0}, Signature({})).with_intervals()


def test_intervals_are_a_mapping_of_their_names() -> None:
    found = Intervals({"a": Interval(0.0, 1.0)}, {"seed": 0})
    assert list(found) == ["a"] and len(found) == 1 and found["a"].high == 1.0
    assert not Intervals() and Intervals().choices == {}
    assert Interval() == Interval() and hash(Interval()) == hash(Interval()) and Interval() != Interval(reason="x")
    assert Interval(0.5, math.inf).to_dict()["high"] is None and Interval(0.5, 1.0).to_dict()["low"] == 0.5
    assert repr(found).startswith("Intervals({'a': Interval(low=0.0, high=1.0")
