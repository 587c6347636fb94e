"""States of shards to one metric, by a tree whose form their number alone decides."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from valor_gpu.metric import Metric

M = TypeVar("M", bound=Metric[Any])

_BLOCK = 8  # states that one thread merges: a power of two, so that they are a part of the tree


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
    return _merged((empty().from_bytes(state) for state in states), 1, empty)


def merge_read(reads: Sequence[Callable[[], bytes | memoryview]], empty: Callable[[], M], threads: int = 1) -> M:
    """Merges states like :func:`merge_tree`, to the same bits, by threads that each read, check and merge some.

    Beside what :func:`merge_tree` holds in memory, each thread holds the states of a few shards.

    Args:
        reads: each gives a state, called once and perhaps in another thread; in the order of the states.
        empty: makes the metric without data; also called in other threads.
        threads: how many of them.

    Raises:
        InputError: a state is damaged.
        SyncError: a state is of another metric.
    """

    def part(start: int) -> M:
        return merge_tree((read() for read in reads[start : start + _BLOCK]), empty)

    starts = range(0, len(reads), _BLOCK)
    before = torch.get_num_threads()
    try:  # one thread of torch's in each: more of them wait for one another where all CPUs are busy
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return _merged(_ahead(pool, part, starts, threads), _BLOCK, empty)
    finally:
        torch.set_num_threads(before)  # what a thread sets is also that of threads that begin later


def _ahead(pool: ThreadPoolExecutor, work: Callable[[int], M], items: Iterable[int], count: int) -> Iterator[M]:
    """``map(work, items)`` where up to ``count`` items are at work or wait beside the one that is asked for."""
    begun: deque[Future[M]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) > count:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()


def _merged(metrics: Iterable[M], leaves: int, empty: Callable[[], M]) -> M:
    """The root of a tree over full parts of ``leaves`` states each, of which the last may have fewer."""
    parts: list[tuple[int, M]] = []  # leaves of a part of the tree, and what it holds
    for metric in metrics:
        parts.append((leaves, metric))
        while len(parts) > 1 and parts[-1][0] == parts[-2][0]:
            _join_last(parts)
    while len(parts) > 1:
        _join_last(parts)
    return parts[0][1] if parts else empty()


def _join_last(parts: list[tuple[int, M]]) -> None:
    (_, right), (leaves, left) = parts.pop(), parts.pop()
    _join(left, right)
    parts.append((2 * leaves, left))


def _join(left: M, right: M) -> None:
    """``left.merge_state(right)`` without the checks of values: both were checked when they were read.

    Records of detections would be checked, and copied for that, once in each level of the tree.
    """
    if type(left).merge_state is not Metric.merge_state:
        left.merge_state(right)
        return
    parts = {name: now if isinstance(now, list) else [now] for name, now in right.metric_state.items()}
    left._combine(left.metric_state, parts, left.update_count + right.update_count)
