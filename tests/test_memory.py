"""The memory that a metric says it takes, held against what is allocated."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contract import METRICS, Case
from valor_gpu import memory
from valor_gpu.classification import ROCAUC, Accuracy
from valor_gpu.detection import BinnedMeanAveragePrecision, MeanAveragePrecision
from valor_gpu.distributed import exchange
from valor_gpu.errors import InputError
from valor_gpu.memory import MemoryPlan
from valor_gpu.metric import Metric

MB = 1_000_000
linux = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")


def held(metric: Metric[Any]) -> int:
    """Bytes of the tensors of a metric."""
    states = metric.metric_state.values()
    return sum(part.nbytes for now in states for part in (now if isinstance(now, list) else [now]))


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_the_state_is_as_large_as_planned(case: Case) -> None:
    metric, batch = case.make(), case.batch(1)
    before = held(metric)
    plan = metric.memory_plan(*batch, updates=3)
    assert held(metric) == before and metric.update_count == 0
    for _ in range(3):
        metric.update(*batch)
    assert held(metric) == plan.state


def peak_of(work: Callable[[], Any]) -> int:
    kept = []
    found = memory.peak(torch.device("cpu"), lambda: kept.append(work()))
    assert found is not None and kept
    return found


@linux
def test_an_update_takes_what_is_planned() -> None:
    scores, target = torch.rand(200_000, 20), torch.randint(20, (200_000,))
    for metric, most in ((ROCAUC(num_classes=20), 60 * MB), (Accuracy(num_classes=20), 20 * MB)):
        plan = metric.memory_plan(scores, target)

        def work(metric: Any = metric) -> Any:
            metric.update(scores, target)
            return metric

        assert plan.update is not None and plan.update >= plan.per_update - MB
        assert abs(peak_of(work) - plan.update) <= max(2 * MB, plan.update // 10), type(metric).__name__
        assert plan.update <= most


@linux
@pytest.mark.parametrize(("updates", "ranks"), [(2, 2), (1, 5)])
def test_a_synchronisation_takes_what_is_planned(updates: int, ranks: int) -> None:
    """Scores of more than 32 MB: the C library gives back such blocks, where it keeps and cuts smaller ones."""
    metric = ROCAUC(num_classes=20)
    batch = torch.rand(430_000, 20), torch.randint(20, (430_000,))
    plan = metric.memory_plan(*batch, updates=updates, ranks=ranks)
    for _ in range(updates):
        metric.update(*batch)

    def gather(tensor: Tensor) -> list[Tensor]:
        return list(tensor.expand(ranks, *tensor.shape).clone().unbind(0))

    make = functools.partial(metric._tensors, metric._schema)
    work = functools.partial(exchange, make, metric._identity, gather, torch.device("cpu"))
    found = peak_of(work)
    assert found <= plan.sync + 4 * MB
    assert plan.sync <= 1.2 * found


@linux
def test_memory_that_the_c_library_kept_is_counted() -> None:
    """A block freed to a heap with a high threshold stays resident: 64 rows of 1 MB are taken and given back first."""
    batch = torch.rand(50_000, 20), torch.randint(20, (50_000,))
    kept = [torch.ones(250_000) for _ in range(64)]
    del kept
    plans = [ROCAUC(num_classes=20).memory_plan(*batch) for _ in range(5)]
    assert all(plan.update is not None and plan.update >= plan.per_update - MB for plan in plans), plans


def test_a_state_of_sums_is_no_larger_for_more_data_or_ranks() -> None:
    metric = BinnedMeanAveragePrecision(3, bins=2)
    boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0]])
    image = dict(boxes=boxes, labels=torch.tensor([1]))
    batch = [dict(image, scores=torch.tensor([0.5]))], [image]
    plans = [metric.memory_plan(*batch, updates=n, ranks=ranks) for n, ranks in ((1, 2), (10**9, 512))]
    assert plans[0].per_update == 0 and plans[0].state == plans[1].state == held(metric)
    assert plans[0].sync == plans[1].sync == plans[0].fixed
    assert "whatever the data" in str(plans[1]) and "synchronising 512 ranks" in str(plans[1])
    records = MeanAveragePrecision().memory_plan(*batch, updates=1000)
    assert records.per_update == 23 + 5 + 64 and records.sync == 0


def test_bad_arguments_are_named() -> None:
    metric = Accuracy(num_classes=3)
    with pytest.raises(InputError, match="updates must be at least 1"):
        metric.memory_plan(torch.rand(2, 3), torch.tensor([0, 1]), updates=0)
    with pytest.raises(InputError, match="ranks must be at least 1"):
        metric.memory_plan(torch.rand(2, 3), torch.tensor([0, 1]), ranks=0)
    with pytest.raises(InputError, match="target"):
        metric.memory_plan(torch.rand(2, 3), torch.tensor([0, 7]))
    assert metric.update_count == 0


def test_where_no_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    plan = Accuracy(num_classes=3).memory_plan(preds=torch.rand(2, 3), target=torch.tensor([0, 1]))
    assert plan.update is None and "unknown on this system" in str(plan)


def test_the_text_says_units() -> None:
    text = str(MemoryPlan(fixed=999, per_update=0, updates=2, update=10**12, ranks=1, sync=0))
    assert "999 bytes" in text and "1.0 TB" in text
