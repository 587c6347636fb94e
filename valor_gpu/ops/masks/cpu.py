"""Pairs of dense masks on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.cpu import NUMPY, Access
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Columns, Found, Search, columns, find, first_rows, stored, words

PACKED_BYTES = 1 << 26
"""Packed ground truths that are held at once, unless those of one image are more."""

MAX_PIXELS = 2**31 - 1
"""Most pixels of a mask: overlaps have 32 bits."""

Masks = Sequence[Any]
"""bool or uint8 ``[N, H, W]`` of each image."""

_BYTES_PER_HELPER = 1 << 20  # waking a thread for less takes longer than it saves

DenseWords = words(
    "DenseWords",
    (
        "images", "masks", "gt_masks", "heights", "widths", "first_words", "packed", "spans", "overlaps", "areas",
        "gt_areas", "hashes", "gt_hashes",
    ),
)  # fmt: skip
"""DenseMasks of csrc/core/dense_pairs.h."""

OverlapWords = words(
    "OverlapWords",
    (
        "firsts", "images", "layers", "overlaps", "boundary_overlaps", "areas", "boundary_areas", "gt_areas",
        "boundary_gt_areas",
    ),
)  # fmt: skip
"""DenseOverlaps of csrc/core/dense_pairs.h; what it has as an array of two is two fields here."""


class Plan(NamedTuple):
    """Where the masks of a batch lie, and in which groups of images they are worked on.

    Attributes:
        table: int64 ``[5, I]``: addresses of masks and ground truths, heights, widths, and where the packed ground
            truths of an image begin.
        groups: first image and end of each group.
        packed: words of the largest group.
        largest: words of the largest mask.
        bytes: of all masks.
        kept: what the addresses point to.
    """

    table: NDArray[np.int64]
    groups: list[tuple[int, int]]
    packed: int
    largest: int
    bytes: int
    kept: list[Any]

    def scratch_bytes(self, threads: int) -> int:
        """Memory beside the outputs, the table of overlaps (4 bytes a pair) and spans (16 bytes a ground truth).

        Args:
            threads: how many work; each holds one packed mask.
        """
        return 8 * (self.packed + threads * self.largest)


def plan(lengths: Any, masks: Masks, gt_masks: Masks, access: Access, budget: int = PACKED_BYTES) -> Plan:
    """Looks at the masks of every image.

    Args:
        lengths: int64 ``[2, I]``: detections and ground truths of each image.
        masks: of the detections.
        gt_masks: of the ground truths.
        access: how arrays are read.
        budget: bytes of packed ground truths of a group, unless one image has more.

    Raises:
        InputError: naming the first image whose masks have another shape or dtype than they must, or another size than
            its ground truths.
    """
    images = int(lengths.shape[1])
    for name, side in (("masks", masks), ("gt_masks", gt_masks)):
        if len(side) != images:
            raise InputError(f"{name} must have one entry for each of {images} images but has {len(side)}")
    table, kept, total = np.zeros((5, images), np.int64), [], 0
    groups, first, used, most, largest = [], 0, 0, 0, 0
    for i, (rows, gt_rows) in enumerate(zip(*np.asarray(lengths).tolist())):
        ours, theirs = _checked("masks", i, masks[i], rows), _checked("gt_masks", i, gt_masks[i], gt_rows)
        height, width = (int(n) for n in (ours if rows else theirs).shape[1:])
        if rows and gt_rows and ours.shape[1:] != theirs.shape[1:]:
            raise InputError(
                f"gt_masks[{i}] must have masks of {height} x {width} pixels like masks[{i}] but has"
                f" {int(theirs.shape[1])} x {int(theirs.shape[2])}"
            )
        if height * width > MAX_PIXELS:
            raise InputError(f"masks[{i}] must have at most {MAX_PIXELS} pixels each but have {height} x {width}")
        kept += [access.contiguous(ours), access.contiguous(theirs)]
        each = (height * width + 63) // 64
        if used and 8 * (used + gt_rows * each) > budget:
            groups.append((first, i))
            first, used = i, 0
        table[:, i] = access.address(kept[-2]), access.address(kept[-1]), height, width, used
        used += gt_rows * each
        most, largest, total = max(most, used), max(largest, each), total + (rows + gt_rows) * height * width
    if images:
        groups.append((first, images))
    return Plan(table, groups, most, largest, total, kept)


def _checked(name: str, image: int, masks: Any, rows: int) -> Any:
    """``masks``; raises :class:`InputError` unless they are the masks of ``rows`` rows."""
    dtype = str(getattr(masks, "dtype", type(masks).__name__)).removeprefix("torch.")
    if dtype not in ("bool", "uint8"):
        raise InputError(f"{name}[{image}] must be bool or uint8 but is {dtype}")
    if len(masks.shape) != 3 or masks.shape[0] != rows:
        raise InputError(f"{name}[{image}] must have shape [{rows}, H, W] but has {list(masks.shape)}")
    return masks


class Layer(NamedTuple):
    """What loading the masks of a batch leaves: overlaps int32 ``[P]``, areas float64 and hashes int64 of rows."""

    overlaps: Any
    areas: Any
    gt_areas: Any
    hashes: Any
    gt_hashes: Any

    @classmethod
    def room(cls, rows: Sequence[int], access: Access) -> Layer:
        """Room for ``rows``: detections, ground truths, pairs."""
        n, m, pairs = rows
        return cls(
            access.empty((pairs,), "int32"),
            *(access.empty((count,), dtype) for dtype in ("float64", "int64") for count in (n, m)),
        )


def mask_words(found: Layer, tables: Sequence[int], packed: Any, spans: Any, images: int, access: Access) -> Any:
    """The words of a DenseMasks, whose ``tables`` are addresses of the rows of :attr:`Plan.table`."""
    at = access.address
    return DenseWords(
        images, *tables, at(packed), at(spans), at(found.overlaps), at(found.areas), at(found.gt_areas),
        at(found.hashes), at(found.gt_hashes),
    )  # fmt: skip


def overlap_words(layers: Sequence[Layer], table: int, images: int, access: Access) -> Any:
    """The geometry of a search for pairs: of masks, and of boundaries if there is a second layer."""
    fields = [[access.address(x) for x in (layer.overlaps, layer.areas, layer.gt_areas)] for layer in layers]
    first, second = fields if len(fields) == 2 else (fields[0], [0, 0, 0])
    return OverlapWords(table, images, len(layers), *(x for pair in zip(first, second) for x in pair))


def result(layers: Sequence[Layer], pairs: Any, error: Any) -> Found:
    """What the op returns, areas and hashes those of the masks."""
    first = layers[0]
    return Found._make([*vars(pairs).values(), first.areas, first.gt_areas, first.hashes, first.gt_hashes, error])


def dense_pairs(
    batch: MatchBatch, masks: Masks, gt_masks: Masks, lowest: float, agnostic: bool = False,
    boundaries: tuple[Masks, Masks] | None = None,
) -> MatchBatch:  # fmt: skip
    """Returns a batch of stored pairs; see :func:`valor_gpu.ops.masks.op.dense_pairs`.

    Args:
        batch: numpy arrays; boxes are not read.
        masks: bool or uint8 ``[D_i, H_i, W_i]`` of each image.
        gt_masks: likewise ``[G_i, H_i, W_i]``.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.
        boundaries: boundaries of ``masks`` and of ``gt_masks``.

    Raises:
        InputError: masks of other shapes, dtypes or sizes.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> box = np.zeros((1, 4, 6), bool)
        >>> box[0, 1:3, 1:5] = True
        >>> batch = MatchBatch(np.array([[1], [1]]), [], [np.ones(1)], [np.zeros(1, int)], gt_labels=[np.zeros(1, int)])
        >>> dense_pairs(batch, [box], [box], 0.5).pairs.similarities.tolist()
        [1.0]
    """
    layers = [(masks, gt_masks), *([] if boundaries is None else [boundaries])]
    return stored(batch, run(batch, layers, lowest, agnostic, NUMPY))


def run(
    batch: MatchBatch, sides: Sequence[tuple[Masks, Masks]], lowest: float, agnostic: bool, access: Access,
    budget: int = PACKED_BYTES,
) -> Found:  # fmt: skip
    """Finds the pairs; the error code in the result is an int.

    Args:
        batch: labels, flags, lengths and counts are read.
        sides: masks of detections and ground truths; then those of boundaries, if they count.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.
        access: how arrays are read.
        budget: see :func:`plan`.
    """
    firsts, images = first_rows(batch.lengths), int(batch.lengths.shape[1])
    plans = [plan(batch.lengths, *side, access, budget) for side in sides]
    rows = [int(n) for n in firsts[:, -1]]
    given = columns(batch, rows[:2], access)
    threads = min(access.threads(), 1 + plans[0].bytes // _BYTES_PER_HELPER)
    layers = [_load(given, p, firsts, rows, agnostic, access, threads) for p in plans]
    search = Search(given, overlap_words(layers, firsts.ctypes.data, images, access), lowest, agnostic)
    list_pairs = native.function("valor_cpu", "valor_dense_pairs_cpu", "ppq")
    return result(layers, find(search, firsts, access, list_pairs, threads), NO_ERROR)


def _load(
    given: Columns, planned: Plan, firsts: NDArray[np.int64], rows: Sequence[int], agnostic: bool, access: Access,
    threads: int,
) -> Layer:  # fmt: skip
    """Reads all masks, group by group."""
    images = firsts.shape[1] - 1
    found = Layer.room(rows, access)
    packed, spans = access.empty((planned.packed,), "int64"), access.empty((rows[1], 2), "int64")
    tables = [row.ctypes.data for row in planned.table]
    task = mask_words(found, tables, packed, spans, images, access)
    batch = Search(given, task, 0.0, agnostic).words(firsts.ctypes.data, images, access)
    call = native.function("valor_cpu", "valor_dense_overlaps_cpu", "ppqqq")
    for first, end in planned.groups:
        call(ctypes.addressof(batch), ctypes.addressof(task), first, end, threads)
    return found
