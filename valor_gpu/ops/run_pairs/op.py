"""Pairs of masks as run lengths for matching: intersections without pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.assign.cuda import check_one_device
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.pairs.cpu import Found, Search, columns, first_rows, stored
from valor_gpu.ops.pairs.cuda import access_on, fake, find
from valor_gpu.ops.run_pairs import cpu as _run_pairs_cpu
from valor_gpu.ops.run_pairs import reference as _run_pairs_reference
from valor_gpu.ops.run_pairs.cpu import Boundaries
from valor_gpu.ops.runs.op import Runs


def run_pairs(
    batch: MatchBatch, masks: Runs, gt_masks: Runs, lowest: float, agnostic: bool = False,
    boundaries: Boundaries | None = None,
) -> MatchBatch:  # fmt: skip
    """Returns a batch of stored pairs for :func:`valor_gpu.ops.assign.op.assign`.

    Pairs have a detection and a ground truth of its class whose similarity reaches ``lowest``, every pair of the class
    if that is at most 0. The similarity is intersection over union, against a crowd intersection over detection area,
    from integers as in pycocotools: masks of different height or width have similarity -1 where their boxes meet, and
    else 0. With boundaries it is the smaller one of mask IoU and boundary IoU (Cheng et al. 2021), against a crowd
    that of the masks alone. Areas are those of the masks. A mask without runs has no pixel set.

    Args:
        batch: tensors; has no boxes.
        masks: tensors on the device of the batch, a mask for each detection, of all images one after another.
        gt_masks: likewise for ground truths.
        lowest: the lowest threshold.
        agnostic: pair detections with ground truths of every class.
        boundaries: of ``masks`` and ``gt_masks``.

    Returns:
        The batch with pairs, areas and hashes.

    Raises:
        InputError: for arrays that do not fit the batch, or the first mask whose runs are negative or do not add up to
            height x width. On CUDA this check synchronises with the device; :func:`deferred_run_pairs` does not.

    Example:
        >>> mask, gt_mask = (
        ...     Runs(torch.tensor(counts).int(), torch.tensor([0, 2]), torch.tensor([[2, 2]]).int())
        ...     for counts in ([1, 3], [0, 4])
        ... )
        >>> batch = MatchBatch(torch.tensor([[1], [1]]), [], [torch.ones(1)], [torch.zeros(1).long()],
        ...                    gt_labels=[torch.zeros(1).long()])
        >>> run_pairs(batch, mask, gt_mask, 0.5).pairs.similarities.tolist()
        [0.75]
    """
    found, error = deferred_run_pairs(batch, masks, gt_masks, lowest, agnostic, boundaries)
    raise_error(error, describe_box)
    return found


def deferred_run_pairs(
    batch: MatchBatch, masks: Runs, gt_masks: Runs, lowest: float, agnostic: bool = False,
    boundaries: Boundaries | None = None,
) -> tuple[MatchBatch, Tensor]:  # fmt: skip
    """Returns what :func:`run_pairs` does, and an error code, int64 ``[]``, in place of an error.

    On CUDA every detection has room for all ground truths of its image, 12 bytes each, so that the host does not wait.
    A mask whose runs are none counts as empty.

    Raises:
        InputError: for arrays that do not fit the batch.
    """
    edges = [] if boundaries is None else [*_tensors(boundaries[0]), *_tensors(boundaries[1])]
    columns = (getattr(batch, name) for name in _BATCH_FIELDS)
    found = Found(*_PAIRS(*columns, _tensors(masks), _tensors(gt_masks), edges, float(lowest), agnostic))
    return stored(batch, found), found.error


_BATCH_FIELDS = ("labels", "gt_labels", "gt_flags", "lengths", "counts", "gt_counts")


def _tensors(runs: Runs) -> list[Tensor]:
    return [runs.counts, runs.offsets, runs.sizes]


def _given(arguments: Sequence[Any]) -> tuple[MatchBatch, Boundaries, float, bool, Boundaries | None]:
    """What the op's arguments stand for."""
    *columns, masks, gt_masks, edges, lowest, agnostic = arguments
    batch = MatchBatch(**dict(zip(_BATCH_FIELDS, columns)))
    boundaries = (Runs(*edges[:3]), Runs(*edges[3:])) if edges else None
    return batch, (Runs(*masks), Runs(*gt_masks)), lowest, agnostic, boundaries


def _pairs_on_cpu(*arguments: Any) -> Found:
    found = _run_pairs_cpu.run(*_given(arguments), access_on(torch.device("cpu")))
    return found._replace(error=torch.tensor(found.error))


def _pairs_on_cuda(*arguments: Any) -> Found:
    batch, sides, lowest, agnostic, boundaries = _given(arguments)
    device = check_one_device({
        "labels": batch.labels, "gt_labels": batch.gt_labels, "gt_flags": batch.gt_flags, "masks": arguments[6],
        "gt_masks": arguments[7], "boundaries": arguments[8],
        "counts": [c for c in (batch.counts, batch.gt_counts) if c is not None],
    })  # fmt: skip
    access, firsts = access_on(device), first_rows(batch.lengths)
    rows = [int(n) for n in firsts[:2, -1]]
    with launching(device) as stream:
        given = columns(batch, rows, access)
        checked = _run_pairs_cpu.check_masks(sides, boundaries, rows, access)
        table, error = to_device(torch.from_numpy(firsts), device), torch.full((), NO_ERROR, device=device)
        launch = native.function("valor_cuda", "valor_load_runs_cuda", "pqpp")

        def load(task: bytes, masks: int) -> None:
            launch(task, masks, error.data_ptr(), stream)

        tables = [table[side].data_ptr() for side in range(2)]
        loaded, made = _run_pairs_cpu.load_sides(checked, rows, given, tables, batch.lengths.shape[1], access, load)
        search = Search(given, _run_pairs_cpu.geometry(loaded, lowest), lowest, agnostic)
        find_pairs = native.function("valor_cuda", "valor_run_pairs_cuda", "pqp")
        pairs = find(search, firsts, table, access, find_pairs, stream)
    (areas, hashes), (gt_areas, gt_hashes) = made
    return Found._make([*vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, error])


def _pairs_by_reference(*arguments: Any) -> Found:
    return _run_pairs_reference.run(*_given(arguments), arguments[6][0].device)


def _pairs_fake(*arguments: Any) -> Found:
    return fake(arguments[6][0])


_PAIRS = register(
    "run_pairs(Tensor[] labels, Tensor[] gt_labels, Tensor[] gt_flags, Tensor lengths, Tensor? counts,"
    " Tensor? gt_counts, Tensor[] masks, Tensor[] gt_masks, Tensor[] boundaries, float lowest, bool agnostic)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=_pairs_by_reference,
    fake=_pairs_fake,
    cpu=cpp(_pairs_on_cpu),
    cuda=cuda(_pairs_on_cuda),
)
