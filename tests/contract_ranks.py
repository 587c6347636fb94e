"""The contract of a metric in three processes: every check in ``RANK_CHECKS`` runs on every case of the table.

Those in ``FAMILY_RANK_CHECKS`` are about ``valor_gpu.metric`` and what it does with a state, so that one case of each
kind of state is enough. To add a check, write a function ``(case, rank, world)``, which all ranks call together and
whose docstring states the rule, and list it; where a metric can break it by its own code, in ``RANK_CHECKS``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import MetricCollection

from tests.contents import content, expect
from tests.contract import Case, failing, unchanged, unchanged_but_state, updated, value_of
from tests.contract_intervals import check_intervals_of_ranks
from tests.ddp import Collectives
from valor_gpu.errors import InputError, SyncError
from valor_gpu.metric import Metric


def check_uneven_ranks(case: Case, rank: int, world: int) -> None:
    """Ranks with two batches, with none and with three have the value of all of them, within two collectives."""
    batches = [case.batch(i) for i in range(5)]
    shares = [batches[:2], [], batches[2:]]
    metric = updated(case.make(), shares[rank])
    with unchanged(metric), Collectives() as seen:
        value = _compute(metric)
    expect(seen.count, 2)
    expect(content(value), value_of(case, batches))
    values: list[Any] = [None] * world
    dist.all_gather_object(values, content(value))
    expect(values, [values[0]] * world)
    with Collectives() as seen:
        metric.result()  # what compute gathered serves it
    expect(seen.count, 0)
    more = [case.batch(5 + i) for i in range(world)]
    metric.update(*more[rank])
    expected = [part for i in range(world) for part in (*shares[i], more[i])]
    expect(content(metric.compute()), value_of(case, expected))
    metric.reset()
    metric.update(*more[rank])
    expect(content(metric.compute()), value_of(case, more))


def _compute(metric: Metric[Any]) -> Any:
    """``compute`` on a rank that may have had no data, of which torchmetrics warns on rank 0."""
    if metric.update_count == 0 and dist.get_rank() == 0:
        with pytest.warns(UserWarning, match="before the ``update``"):
            return metric.compute()
    return metric.compute()


def check_no_data_on_any_rank(case: Case, rank: int, world: int) -> None:
    """Without data on any rank the value is that of an empty batch."""
    with Collectives() as seen:
        value = _compute(case.make())
    expect(seen.count, 2)
    expect(content(value), value_of(case, [case.empty()]))


def check_collection_of_ranks(case: Case, rank: int, world: int) -> None:
    """A MetricCollection gives every rank the value of all ranks, in every compute group."""
    batches = [case.batch(i) for i in range(world)]
    collection = MetricCollection({"a": case.make(), "b": case.other(), "same": case.make()})
    collection.update(*(batches[rank] if rank else case.empty()))
    collection.update(*(case.empty() if rank else batches[rank]))
    value = value_of(case, batches)
    for _ in range(2):
        members = {name: content(metric.compute()) for name, metric in collection.items()}
        expect(members["a"], value)
        expect(members["same"], value)
        expect(members["b"] == value, False)
    collection.update(*case.batch(9))
    expect(
        content(collection["a"].compute()),
        value_of(case, [part for i in range(world) for part in (batches[i], case.batch(9))]),
    )


def check_forward_of_ranks(case: Case, rank: int, world: int) -> None:
    """``forward`` gives the value of the batch of this rank, or with ``dist_sync_on_step`` of all ranks."""
    first, second = [case.batch(i) for i in range(world)], [case.batch(world + i) for i in range(world)]
    epoch = value_of(case, [part for pair in zip(first, second, strict=True) for part in pair])
    for on_step in (False, True):
        metric = updated(case.make(dist_sync_on_step=on_step), [first[rank]])
        with Collectives() as seen:
            value = metric(*second[rank])
        expect(seen.count, 2 if on_step else 0)
        expect(content(value), value_of(case, second if on_step else [second[rank]]))
        expect(content(metric.compute()), epoch)


def check_forward_that_fails_on_one_rank(case: Case, rank: int, world: int) -> None:
    """A batch that raises on one rank raises on all of them at once, and none has counted it."""
    batches = [case.batch(i) for i in range(world)]
    metric = updated(case.make(dist_sync_on_step=True), [batches[rank]])
    if rank == 1:
        with unchanged(metric), Collectives() as seen, pytest.raises(InputError, match=r"\S"):
            metric(*case.bad())
    else:
        error = "not synchronised: rank 1 failed with InputError"
        with unchanged(metric), Collectives() as seen, pytest.raises(SyncError, match=error):
            metric(*case.batch(5))
    expect(seen.count <= 2, True)
    expect(content(metric(*case.batch(6 + rank))), value_of(case, [case.batch(6 + i) for i in range(world)]))
    expect(
        content(metric.compute()),
        value_of(case, [part for i in range(world) for part in (batches[i], case.batch(6 + i))]),
    )


def check_failed_update_of_one_rank(case: Case, rank: int, world: int) -> None:
    """The sticky error of one rank raises on all, and every rank is local again."""
    metric = updated(case.make(), [case.batch(rank)])
    if rank == 1:
        metric.error = torch.zeros_like(metric.error)
    for read in (metric.compute, metric.compute, metric.result):
        with unchanged(metric), pytest.raises(InputError, match=r"\S"):
            read()
    metric.reset()
    metric.update(*case.batch(rank))
    expect(content(metric.compute()), value_of(case, [case.batch(i) for i in range(world)]))


def check_compute_that_fails_on_one_rank(case: Case, rank: int, world: int) -> None:
    """The ranks whose compute succeeded answer from their cache; the other one must not wait for them."""
    metric = updated(case.make(), [case.batch(rank)])
    expected = value_of(case, [case.batch(i) for i in range(world)])
    if rank == 1:
        metric.state = failing
        with unchanged_but_state(metric), pytest.raises(RuntimeError, match="failed on purpose"):
            metric.compute()
        del metric.state
    else:
        expect(content(metric.compute()), expected)
    with unchanged(metric):
        expect(content(metric.compute()), expected)
    metric.update(*case.batch(5))
    expect(
        content(metric.compute()),
        value_of(case, [part for i in range(world) for part in (case.batch(i), case.batch(5))]),
    )


def check_other_configuration_on_one_rank(case: Case, rank: int, world: int) -> None:
    """Ranks of different configurations raise on every rank, within two collectives."""
    metric = updated(case.other() if rank == 1 else case.make(), [case.batch(rank)])
    difference = r"rank [01] has another config\..* there but .* here"
    with unchanged(metric), Collectives() as seen, pytest.raises(SyncError, match=difference):
        metric.compute()
    expect(seen.count, 2)
    again = updated(case.make(), [case.batch(rank)])
    expect(content(again.compute()), value_of(case, [case.batch(i) for i in range(world)]))


def check_gather_function_of_the_user(case: Case, rank: int, world: int) -> None:
    """``dist_sync_fn`` is called instead of torch.distributed, twice for each synchronisation."""
    calls = []

    def gather(tensor: Tensor, group: Any = None) -> list[Tensor]:
        calls.append(tensor.shape)
        parts = [torch.zeros_like(tensor) for _ in range(world)]
        dist.all_gather(parts, tensor, group=group)
        return parts[::-1]

    metric = updated(case.make(dist_sync_fn=gather), [case.batch(rank)])
    expect(content(metric.compute()), value_of(case, [case.batch(i) for i in reversed(range(world))]))
    expect(len(calls), 2)


def check_one_rank_reads_again(case: Case, rank: int, world: int) -> None:
    """After a compute on every rank, one rank alone may read once more; without a cache, all ranks always can."""
    metric = updated(case.make(), [case.batch(rank)])
    metric.compute()
    if rank == 0:
        metric.compute()
        metric.result()
    fresh = updated(case.make(compute_with_cache=False), [case.batch(rank)])
    fresh.compute()
    if rank == 2:
        fresh.update(*case.batch(5))
    expect(content(fresh.compute()), value_of(case, [*(case.batch(i) for i in range(world)), case.batch(5)]))


def check_sync_by_hand(case: Case, rank: int, world: int) -> None:
    """Between ``sync`` and ``unsync`` the metric has the state of all ranks, and changes are rejected."""
    metric = updated(case.make(), [case.batch(rank)])
    with unchanged(metric):
        metric.sync()
        whole = value_of(case, [case.batch(i) for i in range(world)])
        for refused in (
            partial(metric.update, *case.batch(0)),
            partial(metric, *case.batch(0)),
            partial(metric.merge_state, case.make()),
            partial(metric.from_bytes, case.make().to_bytes()),
            partial(case.make().merge_state, metric),
            metric.to_bytes,
        ):
            with pytest.raises(SyncError, match=r"call unsync\(\)"):
                refused()
        metric.unsync()
    metric.sync()
    metric.reset()
    metric.update(*case.batch(rank))
    expect(content(metric.compute()), whole)


def check_group_of_two(case: Case, rank: int, world: int) -> None:
    """``process_group`` limits synchronisation to its members."""
    group = dist.new_group([0, 2])
    metric = updated(case.make(process_group=group), [case.batch(rank)])
    if rank == 1:
        with unchanged(metric), pytest.raises(SyncError, match="not a member of process_group"):
            metric.compute()
    else:
        expect(content(metric.compute()), value_of(case, [case.batch(0), case.batch(2)]))


RANK_CHECKS: list[Callable[[Case, int, int], None]] = [
    check_uneven_ranks,
    check_no_data_on_any_rank,
    check_intervals_of_ranks,
]
FAMILY_RANK_CHECKS: list[Callable[[Case, int, int], None]] = [
    check_collection_of_ranks,
    check_forward_of_ranks,
    check_forward_that_fails_on_one_rank,
    check_other_configuration_on_one_rank,
    check_failed_update_of_one_rank,
    check_compute_that_fails_on_one_rank,
    check_gather_function_of_the_user,
    check_one_rank_reads_again,
    check_sync_by_hand,
    check_group_of_two,
]
