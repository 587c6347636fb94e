"""Rows of a batch under a hierarchy: both ways to leave rows out give the same rows."""

from __future__ import annotations

import weakref
from unittest import mock

import numpy as np
import pytest
import torch

from tests.fuzz import seeds
from valor_gpu.inputs import expansion
from valor_gpu.inputs.expansion import HierarchyTables, Rows, contains
from valor_gpu.inputs.hierarchy import ClassHierarchy

CPU = torch.device("cpu")
PARENTS = {1: [0], 2: [0], 3: [1, 2], 5: 4, -7: 2**31 - 1}


def tables(hierarchy: dict[int, object] | None = None) -> HierarchyTables:
    return HierarchyTables.of(ClassHierarchy.of(hierarchy, None), CPU)


@pytest.mark.parametrize("seed", seeds(5))
def test_expansion_row_by_row(seed: int) -> None:
    rng = np.random.default_rng([seed, 51])
    lengths = torch.from_numpy(rng.integers(0, 5, 7))
    labels = torch.from_numpy(rng.choice([0, 1, 2, 3, 5, 6, -7], int(lengths.sum())))
    ancestors = ClassHierarchy.of(PARENTS, None).ancestors
    rows, counts = Rows.of([labels], lengths, None, CPU).expanded(tables(PARENTS)).compact()
    image = torch.repeat_interleave(lengths).tolist()
    expected = [
        (i, row, label) for row, (i, own) in enumerate(zip(image, labels.tolist()))
        for label in (own, *ancestors.get(own, ()))
    ]  # fmt: skip
    assert list(zip(rows.image.tolist(), rows.source.tolist(), rows.labels.tolist())) == expected
    assert counts is None and rows.lengths.tolist() == [image_rows(expected, i) for i in range(7)]


def image_rows(rows: list[tuple[int, int, int]], image: int) -> int:
    return sum(row[0] == image for row in rows)


@pytest.mark.parametrize("seed", seeds(5))
def test_rows_behind_those_that_count_are_the_others(seed: int) -> None:
    """On a GPU rows are moved, on the CPU they are left out."""
    rng = np.random.default_rng([seed, 52])
    lengths = torch.from_numpy(rng.integers(0, 5, 7))
    labels = torch.from_numpy(rng.integers(0, 6, int(lengths.sum())))
    counts = torch.minimum(torch.from_numpy(rng.integers(0, 5, 7)), lengths)
    rows = Rows.of([labels], lengths, counts, CPU).expanded(tables(PARENTS))
    left, _ = rows.compact()
    moved, valid = rows.sorted(), rows.count(rows.real)
    starts = (moved.lengths.cumsum(0) - moved.lengths).tolist()
    first = [torch.arange(start, start + n) for start, n in zip(starts, valid.tolist())]
    for name in ("labels", "image", "source"):
        assert torch.equal(getattr(moved, name)[torch.cat(first)], getattr(left, name)), name
    assert torch.equal(left.lengths, valid) and moved.lengths.tolist() == [n * 4 for n in lengths.tolist()]


def test_without_a_hierarchy_rows_stay_as_they_are() -> None:
    rows = Rows.of([torch.tensor([4, 2]), torch.tensor([9])], torch.tensor([2, 1]), None, CPU)
    assert rows.expanded(tables()).compact()[0].labels.tolist() == [4, 2, 9]


def test_contains() -> None:
    values = torch.tensor([[-5, 0], [2**40, 3]])
    assert contains(torch.tensor([-5, 3, 7]), values).tolist() == [[True, False], [False, True]]
    assert contains(torch.zeros(0, dtype=torch.int64), values).tolist() == [[False, False], [False, False]]


def test_tables_that_a_graph_makes_are_its_own_and_those_that_it_reads_stay() -> None:
    """In a capture nothing is written before a replay; an address in a graph must stay that of the tables."""
    before, within = (ClassHierarchy.of({1: 0, 2: 0}, None) for _ in range(2))
    kept = HierarchyTables.of(before, CPU)
    with mock.patch.object(expansion, "capturing", lambda: True):
        assert HierarchyTables.of(before, CPU) is kept
        made = HierarchyTables.of(within, CPU)
        assert HierarchyTables.of(within, CPU) is not made
    after = HierarchyTables.of(within, CPU)
    assert after is not made
    assert HierarchyTables.of(within, CPU) is after
    gone = weakref.ref(after.labels)
    del after
    reads = weakref.ref(kept.labels)
    del kept
    for _ in range(40):
        tables({3: 0})
    assert gone() is None
    assert reads() is not None
