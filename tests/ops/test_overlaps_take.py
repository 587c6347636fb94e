"""Taking rows of overlaps by masks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.ops.overlaps.op import Overlaps


def _overlaps(generator: torch.Generator, datums: int = 7) -> Overlaps:
    """Random pairs, with datums and detections that have none."""
    sizes = torch.randint(0, 5, (2, datums), generator=generator)
    counts, gts, start = [], [], 0
    for detections, ground_truths in sizes.T.tolist():
        for _ in range(detections):
            chosen = torch.randperm(ground_truths, generator=generator)
            chosen = chosen[: int(torch.randint(0, ground_truths + 1, (1,), generator=generator))]
            counts.append(len(chosen))
            gts += (start + chosen).tolist()
        start += ground_truths
    rows, gt_rows = len(counts), start
    return Overlaps(
        sizes, torch.arange(rows) + 100, torch.rand(rows, generator=generator).double(), torch.arange(gt_rows) + 500,
        torch.tensor(counts, dtype=torch.int64), torch.tensor(gts, dtype=torch.int64),
        torch.rand(len(gts), generator=generator).double(),
    )  # fmt: skip


def _named(overlaps: Overlaps) -> tuple[object, ...]:
    """The content by names of rows, which taking does not change: labels are numbers of rows here."""
    names, gt_names = overlaps.labels.tolist(), overlaps.gt_labels.tolist()
    ends = zip(overlaps.detections().tolist(), overlaps.ground_truths.tolist(), overlaps.ious.tolist(), strict=True)
    pairs = [(names[row], gt_names[gt], iou) for row, gt, iou in ends]
    datums, gt_datums = overlaps.datums()
    sides = [list(zip(names, datums.tolist())), list(zip(gt_names, gt_datums.tolist()))]
    by_datum = [
        tuple([name for name, datum in side if datum == i] for side in sides) for i in range(overlaps.sizes.shape[1])
    ]
    return by_datum, pairs, dict(zip(names, overlaps.scores.tolist(), strict=True)), overlaps.counts.tolist()


def _expected(overlaps: Overlaps, kept: Tensor, gt_kept: Tensor, datums_kept: Tensor) -> tuple[object, ...]:
    by_datum, pairs, scores, _ = _named(overlaps)
    names = {n for n, keep in zip(overlaps.labels.tolist(), kept.tolist()) if keep}
    gt_names = {n for n, keep in zip(overlaps.gt_labels.tolist(), gt_kept.tolist()) if keep}
    rows = [
        ([n for n in found if n in names], [n for n in gts if n in gt_names])
        for (found, gts), keep in zip(by_datum, datums_kept.tolist())
        if keep
    ]
    names, gt_names = {n for found, _ in rows for n in found}, {n for _, gts in rows for n in gts}
    left = [pair for pair in pairs if pair[0] in names and pair[1] in gt_names]
    order = [n for found, _ in rows for n in found]
    return rows, left, {n: scores[n] for n in order}, [sum(pair[0] == n for pair in left) for n in order]


@pytest.mark.parametrize("seed", range(12))
def test_take_equals_taking_by_name(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    overlaps = _overlaps(generator)
    masks = [
        torch.rand(count, generator=generator) < 0.6
        for count in (len(overlaps.labels), len(overlaps.gt_labels), overlaps.sizes.shape[1])
    ]
    taken = overlaps.take(*masks)
    assert _named(taken) == _expected(overlaps, *masks)
    assert all(column.dtype == old.dtype for column, old in zip(taken.columns(), overlaps.columns(), strict=True))


@pytest.mark.parametrize("masked", range(3))
def test_absent_masks_keep_everything(masked: int) -> None:
    generator = torch.Generator().manual_seed(3)
    overlaps = _overlaps(generator)
    counts = (len(overlaps.labels), len(overlaps.gt_labels), overlaps.sizes.shape[1])
    masks: list[Tensor | None] = [None, None, None]
    full = [torch.ones(count, dtype=torch.bool) for count in counts]
    masks[masked] = full[masked] = torch.arange(counts[masked]) % 2 == 0
    assert _named(overlaps.take(*masks)) == _expected(overlaps, *full)
    assert _named(overlaps.take()) == _named(overlaps)


def test_nothing_kept_and_nothing_there() -> None:
    overlaps = _overlaps(torch.Generator().manual_seed(1))
    none = overlaps.take(datums=torch.zeros(7, dtype=torch.bool))
    assert [tuple(column.shape) for column in none.columns()] == [(2, 0), *[(0,)] * 6]
    assert _named(none.take(datums=torch.zeros(0, dtype=torch.bool))) == _named(none)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"detections": torch.zeros(3, dtype=torch.bool)}, r"detections must have shape \[\d+\] but got \[3\]"),
        ({"ground_truths": torch.zeros(2, dtype=torch.bool)}, r"ground_truths must have shape \[\d+\] but got \[2\]"),
        ({"datums": torch.zeros(7)}, r"datums must have dtype torch.bool but got torch.float32"),
    ],
)
def test_a_mask_that_does_not_fit_is_an_error(masks: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _overlaps(torch.Generator().manual_seed(1)).take(**masks)
