"""States of shards to one metric, by a tree whose form their number alone decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from valor_gpu.metric import Metric

M = TypeVar("M", bound=Metric[Any])


def merge_tree(states: Iterable[bytes | memoryview], empty: Callable[[], M]) -> M:
    """Merges states as a balanced binary tree would, in their order.

    The states 2i and 2i + 1 are merged, then those pairs, and so on. So sums of floats are added in one order whatever
    had computed the states, and rows are in the order of the states. No more than log2 of their number are in memory
    beside the states that were merged.

    Args:
        states: in order, as ``to_bytes`` gives them.
        empty: makes the metric without data.

    Raises:
        InputError: a state is damaged.
        SyncError: a state is of another metric.

    Example:
        >>> import torch
        >>> from valor_gpu.classification import Accuracy
        >>> shards = []
        >>> for preds in ([0, 1], [1, 1], [0, 0]):
        ...     metric = Accuracy(num_classes=2)
        ...     metric.update(torch.tensor(preds), torch.tensor([0, 1]))
        ...     shards.append(metric.to_bytes())
        >>> merge_tree(shards, lambda: Accuracy(num_classes=2)).compute()
        tensor(0.6667)
    """
    parts: list[tuple[int, M]] = []  # height of a part of the tree, and what it holds
    for state in states:
        parts.append((0, empty().from_bytes(state)))
        while len(parts) > 1 and parts[-1][0] == parts[-2][0]:
            _join_last(parts)
    while len(parts) > 1:
        _join_last(parts)
    return parts[0][1] if parts else empty()


def _join_last(parts: list[tuple[int, M]]) -> None:
    (_, right), (height, left) = parts.pop(), parts.pop()
    left.merge_state(right)
    parts.append((height + 1, left))
