"""Average precision at every recall step: by hand, and against the curve drawn step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.detection.open_images_reference import area_under_curve
from tests.fuzz import seeds
from valor_gpu.reduce.all_points import all_points_average_precision, mean_of_classes


def average_precision(verdicts: list[list[bool]], positives: list[int]) -> list[float]:
    """AP of classes whose detections are true or false positives, by rank."""
    classes = [k for k, row in enumerate(verdicts) for true in row if true]
    ranks = [rank for row in verdicts for rank, true in enumerate(row, 1) if true]
    arrays = (np.array(values, np.int64) for values in (classes, ranks, positives))
    return all_points_average_precision(*arrays).tolist()


def test_by_hand() -> None:
    # T F F T T of 4: precision 1, 2/4, 3/5, interpolated 1, 3/5, 3/5; the fourth is never found.
    assert average_precision([[True, False, False, True, True]], [4]) == [(1 + 3 / 5 + 3 / 5) / 4]
    assert average_precision([[], [False], [True]], [2, 1, 1]) == [0.0, 0.0, 1.0]
    assert math.isnan(average_precision([[False]], [0])[0])
    assert average_precision([], []) == []


@pytest.mark.parametrize("seed", seeds(20))
def test_equals_the_curve(seed: int) -> None:
    rng = np.random.default_rng([seed, 41])
    verdicts = [(rng.random(rng.integers(0, 40)) < rng.random()).tolist() for _ in range(6)]
    positives = [sum(row) + int(rng.integers(0, 3)) for row in verdicts]
    got = average_precision(verdicts, positives)
    for ap, row, count in zip(got, verdicts, positives, strict=True):
        assert (
            math.isnan(ap)
            if count == 0
            else ap == pytest.approx(area_under_curve(["true" if true else "false" for true in row], count), abs=1e-14)
        )


def test_mean_of_classes_leaves_out_what_does_not_exist() -> None:
    assert mean_of_classes(np.array([[0.5, math.nan], [1.0, math.nan]])) == 0.75
    assert math.isnan(mean_of_classes(np.array([math.nan])))
