"""Weighted kappa against scikit-learn, hand counts and simulation."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz import seeds
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.stats import Agreement, weighted_kappa

NAN = math.nan


def raters(rng: np.random.Generator, n: int, noise: float = 1.0) -> tuple[Any, Any]:
    first = rng.integers(1, 6, n)
    second = np.clip(np.rint(first + rng.normal(0, noise, n)), 1, 5).astype(int)
    return first, second


@pytest.mark.parametrize("n", [2, 7, 300])
@pytest.mark.parametrize("seed", seeds(4))
def test_the_number_is_that_of_scikit_learn(seed: int, n: int) -> None:
    first, second = raters(np.random.default_rng(seed), n)
    second[0] = 1 if first[0] > 2 else 5  # of two pairs, chance may draw equal ones
    peer = cohen_kappa_score(first, second, labels=range(1, 6), weights="quadratic")
    assert weighted_kappa(first, second, resamples=10).kappa == pytest.approx(peer, rel=1e-12, abs=1e-12)
    # Neither the origin nor the unit matters.
    assert weighted_kappa(1e6 + 1e-3 * first, 1e6 + 1e-3 * second, resamples=10).kappa == pytest.approx(peer, abs=1e-6)


@pytest.mark.parametrize("seed", seeds(3))
def test_of_verdicts_it_is_the_plain_kappa(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, 50)
    second = np.where(rng.random(50) < 0.3, 1 - first, first)
    assert weighted_kappa(first, second).kappa == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)


def test_a_hand_count() -> None:
    # Differences 0, 0, 1 and 2 squared: mean 1.25. All 16 pairings of (1, 2, 3, 5) with (1, 2, 4, 3): mean 3.5.
    found = weighted_kappa([1, 2, 3, 5], [1, 2, 4, 3])
    assert found.kappa == pytest.approx(1 - 1.25 / 3.5, rel=1e-12)
    assert (found.n, found.n_clusters, found.n_missing, found.n_equal) == (4, 4, 0, 2)


def test_the_interval_holds_the_kappa_of_many() -> None:
    rng = np.random.default_rng(5)
    truth = weighted_kappa(*raters(rng, 200_000), resamples=1).kappa
    held = [(found := weighted_kappa(*raters(rng, 100), resamples=400)).low <= truth <= found.high for _ in range(300)]
    assert 0.90 <= np.mean(held) <= 0.98


def test_clusters_are_drawn_whole() -> None:
    first, second = raters(np.random.default_rng(1), 60)
    rows = np.repeat(np.arange(60), 4)
    alone = weighted_kappa(first, second)
    copied = weighted_kappa(np.repeat(first, 4), np.repeat(second, 4), rows)
    wrong = weighted_kappa(np.repeat(first, 4), np.repeat(second, 4))
    assert (copied.n, copied.n_clusters) == (240, 60) and copied.kappa == pytest.approx(alone.kappa, abs=1e-12)
    assert copied.high - copied.low == pytest.approx(alone.high - alone.low, rel=0.1)
    assert wrong.high - wrong.low < 0.6 * (alone.high - alone.low)


def test_the_seed_decides() -> None:
    first, second = raters(np.random.default_rng(2), 40)
    assert weighted_kappa(first, second, seed=3) == weighted_kappa(first, second, seed=3)
    assert weighted_kappa(first, second, seed=3) != weighted_kappa(first, second, seed=4)


def nans(found: Agreement) -> list[bool]:
    return [math.isnan(number) for number in (found.kappa, found.low, found.high)]


@pytest.mark.parametrize(
    ("first", "second", "missing", "reason"),
    [
        ([], [], [True] * 3, "it takes two pairs of ratings but there are none"),
        ([1], [2], [True] * 3, "it takes two pairs of ratings but there is 1"),
        ([1, NAN, 3], [1, 2, NAN], [True] * 3, "it takes two pairs of ratings but there is 1"),
        ([2, 2, 2], [2, 2, 2], [True] * 3, "both gave the same rating to all"),
        ([0, 0], [0, 0], [True] * 3, "both gave the same rating to all"),
        ([1, 2, 3], [1, 2, 3], [False, True, True], "all pairs agree: resampling shows no spread"),
        ([1, 1, 1, 2], [1, 1, 1, 1], [False, True, True], "one gave the same rating to all"),
        ([*[1] * 9, 2], [*[1] * 8, 2, 1], [False, True, True], "resamples have no kappa"),
    ],
)
def test_what_does_not_exist(first: Any, second: Any, missing: list[bool], reason: str) -> None:
    found = weighted_kappa(first, second)
    assert nans(found) == missing and reason in found.reason


def test_one_cluster_has_no_interval() -> None:
    found = weighted_kappa([1, 2, 3], [1, 3, 2], [7, 7, 7])
    assert nans(found) == [False, True, True] and "two clusters" in found.reason


def test_missing_ratings_are_counted_and_left_out() -> None:
    found = weighted_kappa([1, NAN, 3, 4, 5], [1, 2, NAN, 5, 5])
    assert (found.n, found.n_missing) == (3, 2) and found.kappa == weighted_kappa([1, 4, 5], [1, 5, 5]).kappa


def test_large_ratings_do_not_overflow() -> None:
    found = weighted_kappa([1e300, 2e300, 3e300], [1e300, 3e300, 3e300])
    assert found.kappa == pytest.approx(weighted_kappa([1, 2, 3], [1, 3, 3]).kappa, rel=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "more", "words"),
    [
        ([1, 2], [1], {}, "second must have 2 ratings"),
        ([1, math.inf], [1, 2], {}, r"first\[1\] is infinite"),
        ([[1]], [[1]], {}, "first must hold one rating for each row"),
        ([1, 2], [1, 2], {"clusters": [1]}, "clusters must have one for each of"),
        ([1, 2], [1, 2], {"confidence": 1.0}, "confidence must"),
        ([1, 2], [1, 2], {"resamples": 0}, "resamples must be"),
        ([1, 2], [1, 2], {"seed": -1}, "seed must be"),
    ],
)
def test_arguments(first: Any, second: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=words):
        weighted_kappa(first, second, **more)


def test_it_imports_neither_torch_nor_scikit_learn() -> None:
    code = "import sys; from valor_gpu.stats import weighted_kappa as kappa; kappa([1, 2], [1, 3])"
    code += "; print({'torch', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
