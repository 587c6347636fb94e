"""Clusters as the caller names them: plain values, and codes that no order changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.clusters import codes_by_name, codes_by_place, plain_clusters
from valor_gpu.stats.methods import METHODS
from valor_gpu.stats.resample import intervals_of
from valor_gpu.stats.row_samples import RowSample


@pytest.mark.parametrize(
    "given",
    [
        torch.tensor([4, 4, 7]),
        np.array([4, 4, 7], np.uint8),
        [torch.tensor(4), torch.tensor(4), torch.tensor(7)],
        [np.int64(4), 4, 7],
    ],
)
def test_numbers_of_tensors_and_arrays_are_numbers(given: Any) -> None:
    """Two tensors of one number are not equal as keys: every row would be a cluster of its own."""
    assert plain_clusters(given) == [4, 4, 7]
    assert plain_clusters(dict(zip("abc", given))) == {"a": 4, "b": 4, "c": 7}


def test_rows_of_several_values_are_one_cluster() -> None:
    assert plain_clusters([("p", 1), ["p", 2]]) == [("p", 1), ("p", 2)]
    assert codes_by_name([("p", 2), ("p", 1), ("p", 2)]).tolist() == [1, 0, 1]


def test_values_that_are_written_alike_are_apart() -> None:
    """An array of both would make texts of the numbers, or floats of large integers."""
    assert codes_by_name([1, "1", 1]).tolist() == [0, 1, 0]
    assert codes_by_name([2**63, -1, 2**63 + 1]).tolist() == [1, 0, 2]


def test_a_unit_without_a_cluster_is_named() -> None:
    with pytest.raises(InputError, match=r"every unit but that of 1 is None"):
        plain_clusters(["a", None])
    with pytest.raises(InputError, match=r"that of 'x' is nan"):
        plain_clusters({"x": float("nan")})
    with pytest.raises(InputError, match=r"must be hashable.*\{1\}"):
        plain_clusters([{1}])
    for given in ("aab", 5):
        with pytest.raises(InputTypeError, match="or the cluster of every unit, but is"):
            plain_clusters(given)  # type: ignore[arg-type]


def test_equal_units_of_several_clusters_have_ascending_codes() -> None:
    """Which of two equal units is of which cluster says nothing, so that it must not change a bit."""
    assert codes_by_place(["b", "a", "c"], [0, 0, 1]).tolist() == codes_by_place(["a", "b", "c"], [0, 0, 1]).tolist()
    assert codes_by_place(["b", "a", "a"], [0, 1, 1]).tolist() == [0, 1, 1]


def test_no_order_of_rows_changes_intervals_by_clusters() -> None:
    """Many rows are equal and of different clusters; a third has no score."""
    rng = np.random.default_rng(0)
    scores = rng.choice([0.1, 0.3, 0.7, np.nan], 90)
    clusters = rng.integers(0, 12, 90)
    found = []
    for order in (np.arange(90), rng.permutation(90), rng.permutation(90)):
        sample = RowSample({"score": scores[order]})
        found.append(repr(intervals_of({"score": 0.4}, sample, Bootstrap(40, clusters=clusters[order]))))
    assert len(set(found)) == 1 and "'clusters': 12" in found[0]


def test_no_rows_give_reasons_by_any_method() -> None:
    for method in METHODS:
        made = intervals_of({"score": np.nan}, RowSample({"score": np.zeros(0)}), Bootstrap(9, method=method))
        assert made["score"].reason == "the number does not exist"
