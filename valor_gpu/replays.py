"""Metrics in CUDA graphs: what a replay writes, added to a metric outside the graph.

A graph that captured ``update`` writes to the same memory at every replay, and the host code of ``update`` runs once::

    step, total = MeanAveragePrecision().to(device), MeanAveragePrecision().to(device)
    step.update(preds, target)  # loads kernels and copies constant tables
    step.reset()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.update(preds, target)
    for batch in batches:
        ...  # copy the batch to the tensors in preds and target
        graph.replay()
        add_replay(total, step)

Counts and image ids must lie on the device: what comes from the host is the same in every replay. ``compute`` reads
numbers back and runs outside the graph.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from valor_gpu.checks import check_same_device, check_type
from valor_gpu.metric import Metric
from valor_gpu.ops._launch import check_not_capturing


def add_replay(metric: Metric[Any], step: Metric[Any]) -> None:
    """Adds a copy of the state that the last replay of a CUDA graph wrote; does not synchronise with the device.

    Unlike ``merge_state`` it shares no memory with ``step``, which the next replay overwrites, and reads no value back.

    Args:
        metric: gets the rows.
        step: of the same class, configuration and device; it was empty before the graph captured its ``update``.

    Raises:
        InputError: they lie on different devices, or a CUDA graph is captured, whose replays would all add to the state
            of now.
        SyncError: they have other configurations, or one holds the state of all ranks.

    Example:
        >>> import torch
        >>> from valor_gpu.classification import Accuracy
        >>> step, total = Accuracy(num_classes=3), Accuracy(num_classes=3)
        >>> step.update(torch.tensor([0, 2, 2]), torch.tensor([0, 1, 2]))
        >>> add_replay(total, step)
        >>> add_replay(total, step)
        >>> total.compute(), total.update_count
        (tensor(0.6667), 2)
    """
    check_type("metric", metric, Metric)
    check_type("step", step, Metric)
    metric._identity.check(step._identity.text, "step")
    metric._check_not_synced("add_replay")
    step._check_not_synced("add_replay of it")
    check_same_device(("metric", "step"), (metric.error, step.error))
    if metric.error.is_cuda:
        check_not_capturing("add_replay must not run")
    state = step.metric_state
    parts = {name: [part.clone() for part in _parts(state[name])] for name in metric._merge}
    metric._combine(metric.metric_state, parts, metric._update_count + step._update_count)


def _parts(now: Any) -> list[Tensor]:
    return now if isinstance(now, list) else [now]
