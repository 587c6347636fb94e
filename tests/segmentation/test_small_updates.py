"""Updates of region counts by plans leave the states of the checked path, and errors leave the metric alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.contract import METRICS, condition, unchanged
from valor_gpu.errors import InputError
from valor_gpu.plans import checked_only
from valor_gpu.segmentation.region_base import RegionState

_CASES = [case for case in METRICS if isinstance(case.make(), RegionState)]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_plans_leave_the_state_of_the_checked_path(case: Any) -> None:
    metric, checked = case.make(), case.make()
    for batch in (case.batch(0), case.single(), case.empty(), case.batch(1)):
        metric.update(*batch)
        with checked_only():
            checked.update(*batch)
        assert condition(metric) == condition(checked)
    with unchanged(metric), pytest.raises(InputError, match="must"):
        metric.update(*case.bad())
    with unchanged(metric), pytest.raises((InputError, TypeError), match=r"preds|target"):
        metric.update(batch[0].tolist(), batch[1])


def test_other_channels_change_nothing() -> None:
    from valor_gpu.segmentation import MeanIoU

    metric = MeanIoU()
    metric.update(*(torch.ones(1, 2, 4, 4, dtype=torch.bool),) * 2)
    with unchanged(metric), pytest.raises(InputError, match="2"):
        metric.update(*(torch.ones(1, 3, 4, 4, dtype=torch.bool),) * 2)
