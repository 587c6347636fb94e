"""``compute`` of one small table in plain numbers gives the bits of that in arrays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from tests.contract import METRICS
from valor_gpu.plans import checked_only
from valor_gpu.reduce.region_tables import MAX_CLASSES, MAX_COUNT
from valor_gpu.segmentation import DiceScore, GeneralizedDiceScore, HausdorffDistance, MeanIoU
from valor_gpu.segmentation.region_base import RegionState
from valor_gpu.segmentation.surface_base import averaged, mean_ascending

_CLASSES = (1, 2, 5, 7, 8, 9, 21, MAX_CLASSES, MAX_CLASSES + 1)
_CHOICES: list[tuple[Any, dict[str, Any]]] = [
    *((MeanIoU, {"per_class": each}) for each in (True, False)),
    *(
        (DiceScore, {"average": average, "aggregation_level": level})
        for average, level in itertools.product(("micro", "macro", "weighted", "none", None), ("samplewise", "global"))
    ),
    *(
        (GeneralizedDiceScore, {"weight_type": kind, "per_class": each})
        for kind, each in itertools.product(("square", "simple", "linear"), (True, False))
    ),
]


@pytest.fixture
def _before_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of ``compute`` as float64: float32 would hide in which order they were added."""
    monkeypatch.setattr(RegionState, "_shown", lambda metric, value: torch.from_numpy(np.array(value, np.float64)))


def _same_bits(value: torch.Tensor, expected: torch.Tensor) -> None:
    assert (value.dtype, value.shape, value.device) == (expected.dtype, expected.shape, expected.device)
    assert value.isnan().equal(expected.isnan())
    assert value.nan_to_num(-7.0).numpy().tobytes() == expected.nan_to_num(-7.0).numpy().tobytes()


def _check(metric: Any) -> None:
    metric._computed = None
    value = metric.compute()
    metric._computed = None
    with checked_only():
        _same_bits(value, metric.compute())


def _table(generator: np.random.Generator, classes: int, top: int) -> torch.Tensor:
    """Counts [3, C] of which some classes have no pixel, no true one, or no predicted one."""
    sides = generator.integers(0, top, (2, classes)) * (generator.random((2, classes)) < 0.7)
    tp = (sides.min(0) * generator.random(classes)).astype(np.int64)
    return torch.from_numpy(np.stack((tp, *sides)))


@pytest.mark.usefixtures("_before_rounding")
@pytest.mark.parametrize(("kind", "choices"), _CHOICES, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("background", [True, False])
def test_tables_have_the_bits_of_arrays(kind: Any, choices: dict[str, Any], background: bool) -> None:
    generator = np.random.default_rng(5)
    for classes, top, images in itertools.product(_CLASSES, (2, 30, 2**31), (1, 1, 1, 2)):
        metric = kind(num_classes=classes, include_background=background, input_format="index", **choices)
        tables = torch.stack([_table(generator, classes, top) for _ in range(images)])
        metric._update_count = 1
        if metric.per_image:
            metric.counts.append(tables.int())
        else:
            metric.counts = tables.sum(0)
        _check(metric)


@pytest.mark.parametrize("case", [case for case in METRICS if hasattr(case.make(), "_table")], ids=lambda c: c.name)
def test_metrics_of_regions(case: Any) -> None:
    metric = case.make()
    for batch in (case.single(), case.empty(), case.batch(0)):
        metric.update(*batch)
        _check(metric)


def test_tables_are_taken_only_where_plain_numbers_are_exact() -> None:
    metric = DiceScore(2, aggregation_level="global", input_format="index")
    metric.counts = torch.tensor([[1, 2], [3, 4], [5, 6]])
    assert metric._table(1) == ([2], [4], [6])
    metric.counts = torch.tensor([[1, 2], [3, MAX_COUNT], [5, 6]])
    assert metric._table(0) is None
    with checked_only():
        metric.counts = torch.tensor([[1, 2], [3, 4], [5, 6]])
        assert metric._table(0) is None


def test_hausdorff_distances() -> None:
    generator = np.random.default_rng(6)
    for rows, missing in itertools.product((0, 1, 4, 100), (0.0, 0.5, 1.0)):
        scores = generator.random((rows, 4, 1)) * 30
        scores[generator.random(scores.shape) < missing] = np.nan
        metric: Any = HausdorffDistance(5, input_format="index")
        metric._update_count = 1
        metric.scores.append(torch.from_numpy(scores))
        few = metric._few_scores(metric.state())
        assert (few is None) == (rows > 64)
        if few is not None:
            assert np.array_equal(mean_ascending(few), averaged(scores[..., 0], "micro"), equal_nan=True)
        _check(metric)
        if rows:
            scores[0, 0, 0] = np.inf
            _check(metric)
