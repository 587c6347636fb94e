"""Detectable differences and units against simulation and the normal distribution of SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]

from valor_gpu.errors import InputError
from valor_gpu.stats.power import detectable_difference, power_of, units_needed


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_a_detectable_difference_is_found_as_often_as_stated(confidence: float, power: float) -> None:
    error = 0.7
    size = detectable_difference(error, confidence, power)
    least = scipy.stats.norm.isf((1 - confidence) / 2) * error
    assert scipy.stats.norm.sf(least, size, error) == pytest.approx(power, rel=1e-9)
    both = scipy.stats.norm.sf(least, size, error) + scipy.stats.norm.cdf(-least, size, error)
    assert power_of(size, error, confidence) == power_of(-size, error, confidence) == pytest.approx(both, rel=1e-9)


def test_units_needed_show_the_difference_in_simulated_data() -> None:
    rng, scale, smallest = np.random.default_rng(0), 1.0, 0.2
    detectable = detectable_difference(scale / math.sqrt(50))
    units = int(units_needed(50, detectable, smallest))
    assert units == math.ceil(50 * (detectable / smallest) ** 2) == 197
    data = rng.normal(smallest, scale, (20_000, units))
    found = np.abs(data.mean(1)) * math.sqrt(units) / scale > 1.959964
    assert found.mean() == pytest.approx(0.8, abs=0.01)


def test_numbers_that_do_not_exist() -> None:
    assert math.isnan(detectable_difference(math.nan)) and math.isnan(units_needed(9, math.nan, 0.1))
    assert math.isnan(power_of(0.1, math.nan)) and math.isnan(power_of(math.nan, 0.1))
    assert math.isnan(power_of(0.1, 0.0))


def test_arguments_are_checked() -> None:
    for power in (0.0, 1.0):
        with pytest.raises(InputError, match="power must be above 0 and below 1 but is"):
            detectable_difference(1.0, power=power)
    with pytest.raises(InputError, match="confidence must be above 0 and below 1 but got 1"):
        detectable_difference(1.0, 1.0)
