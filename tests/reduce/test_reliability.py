"""Bins of confidence, and numbers of arrays that are those of tensors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from valor_gpu.reduce import histogram_metrics as histograms
from valor_gpu.reduce import ratios
from valor_gpu.reduce.reliability import bin_edges, calibration_error

MATRIX = np.random.default_rng(3).integers(0, 9, (5, 5)).astype(np.float64)


@pytest.mark.parametrize("n_bins", [1, 10, 15, 20, 100])
def test_edges_are_the_nearest_numbers(n_bins: int) -> None:
    assert bin_edges(n_bins).tolist() == [k / n_bins for k in range(n_bins + 1)]
    assert bin_edges(n_bins, np.float32).tolist() == [float(np.float32(k / n_bins)) for k in range(n_bins + 1)]


@pytest.mark.parametrize("norm", ["l1", "max", "l2"])
def test_calibration_errors_of_arrays_and_tensors(norm: str) -> None:
    count = np.array([4.0, 0.0, 2.0])
    sums = count, count * [0.25, 0.0, 0.875], np.array([2.0, 0.0, 2.0])
    expected = {"l1": (4 * 0.25 + 2 * 0.125) / 6, "max": 0.25, "l2": math.sqrt((4 * 0.25**2 + 2 * 0.125**2) / 6)}
    assert calibration_error(*sums, norm) == expected[norm]
    assert calibration_error(*map(torch.from_numpy, sums), norm) == expected[norm]
    assert math.isnan(calibration_error(*np.zeros((3, 3)), norm))


@pytest.mark.parametrize("power", [0, 1, 2])
def test_kappa_and_matthews_of_arrays_are_those_of_tensors(power: int) -> None:
    tensor = torch.from_numpy(MATRIX)
    for found, expected in (
        (ratios.cohen_kappa(MATRIX, power), ratios.cohen_kappa(tensor, power)),
        (ratios.matthews(MATRIX), ratios.matthews(tensor)),
    ):
        assert float(found.value()) == pytest.approx(float(expected.value()), rel=1e-14)
    for nothing in (np.zeros((2, 2)), torch.zeros(2, 2).double()):
        assert math.isnan(ratios.cohen_kappa(nothing, power).value())
        assert math.isnan(ratios.matthews(nothing).value())


def test_areas_of_histograms_as_arrays_are_those_of_tensors() -> None:
    positives = np.random.default_rng(4).integers(0, 5, (3, 9)).astype(np.float64)
    positives[2] = 0.0
    histogram = np.stack((positives, positives + np.random.default_rng(5).integers(0, 5, (3, 9))))
    tensor = torch.from_numpy(histogram)
    for found, expected in zip(histograms.roc_auc_values(histogram), histograms.roc_auc(tensor)):
        np.testing.assert_array_equal(found, expected.numpy())
    found = histograms.average_precision_value(histogram)
    np.testing.assert_array_equal(found, histograms.average_precision(tensor).value.numpy())
    assert np.isnan(found).tolist() == [False, False, True]
