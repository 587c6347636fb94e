"""Pairs of masks as run lengths on the CPU, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.cpu import NUMPY, Access, check_dtype
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.pairs.cpu import Columns, Found, Search, columns, find, first_rows, stored, words
from valor_gpu.ops.runs.op import Runs

Boundaries = tuple[Runs, Runs]

ROW_BYTES = 48
"""Size of MaskRow in csrc/core/run_pairs.h."""

_RUNS_PER_HELPER = 1 << 17  # waking a thread for fewer takes longer than it saves
_SIDE = ("counts", "offsets", "sizes", "values", "rows", "ends")

SideWords = words("SideWords", _SIDE)
"""MaskSide of csrc/core/run_pairs.h: the masks of one side."""

MaskRowWords = words("MaskRowWords", (*_SIDE, "firsts", "valid", "images", "target", "areas", "hashes"))
"""MaskRows of csrc/core/run_pairs.h: one side to be loaded."""

MaskSideWords = words(
    "MaskSideWords",
    (*(f"{side}_{name}" for side in ("masks", "gt_masks", "boundaries", "gt_boundaries") for name in _SIDE), "lowest"),
    doubles=("lowest",),
)
"""MaskSides of csrc/core/run_pairs.h: the geometry of the pairs of a batch."""


def run_pairs(
    batch: MatchBatch, masks: Runs, gt_masks: Runs, lowest: float, agnostic: bool = False,
    boundaries: Boundaries | None = None, hashed: bool = True,
) -> MatchBatch:  # fmt: skip
    """Returns a batch of stored pairs; see :func:`valor_gpu.ops.run_pairs.op.run_pairs`.

    Args:
        batch: numpy arrays; has no boxes.
        masks: one for each detection, of all images one after another.
        gt_masks: likewise for ground truths.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.
        boundaries: of ``masks`` and ``gt_masks``.
        hashed: whether the batch gets hashes, which name images without ids.

    Raises:
        InputError: for the first mask whose runs are none, or arrays that do not fit the batch.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> mask = Runs(np.array([1, 3], np.int32), np.array([0, 2]), np.array([[2, 2]], np.int32))
        >>> gt_mask = Runs(np.array([0, 4], np.int32), np.array([0, 2]), np.array([[2, 2]], np.int32))
        >>> batch = MatchBatch(np.array([[1], [1]]), [], [np.ones(1)], [np.zeros(1, int)], gt_labels=[np.zeros(1, int)])
        >>> run_pairs(batch, mask, gt_mask, 0.5).pairs.similarities.tolist()
        [0.75]
    """
    found = run(batch, (masks, gt_masks), lowest, agnostic, boundaries, NUMPY, hashed)
    raise_error(found.error, describe_box)
    made = stored(batch, found)
    return made if hashed else replace(made, hashes=[], gt_hashes=[])


def check_masks(
    sides: Boundaries, boundaries: Boundaries | None, rows: Sequence[int], access: Access
) -> list[tuple[Runs, Runs | None]]:
    """Masks and boundaries of both sides as contiguous arrays; raises :class:`InputError` where they do not fit.

    Args:
        sides: masks of detections and of ground truths.
        boundaries: likewise.
        rows: detections and ground truths of the batch.
        access: how arrays are read.
    """
    checked: list[tuple[Runs, Runs | None]] = []
    for side, name in enumerate(("masks", "gt_masks")):
        whole = _checked(name, sides[side], rows[side], access)
        given = None if boundaries is None else boundaries[side]
        checked.append((whole, given and _checked(f"boundaries of {name}", given, rows[side], access)))
    return checked


def _checked(name: str, runs: Runs, rows: int, access: Access) -> Runs:
    shapes = {"counts": (int(runs.counts.shape[0]),), "offsets": (rows + 1,), "sizes": (rows, 2)}
    if len(runs) != rows:
        raise InputError(f"{name} must have {rows} rows, the sum of lengths, but has {len(runs)}")
    for field, dtype in (("counts", "int32"), ("offsets", "int64"), ("sizes", "int32")):
        array = getattr(runs, field)
        check_dtype(f"{field} of {name}", array.dtype, dtype)
        if tuple(array.shape) != shapes[field]:
            raise InputError(f"{field} of {name} must have shape {list(shapes[field])} but has {list(array.shape)}")
    return Runs(*(access.contiguous(getattr(runs, field)) for field in ("counts", "offsets", "sizes")))


class Side:
    """Masks of one side in C++: the table of their rows, and what the words of a struct point to."""

    def __init__(self, runs: Runs, access: Access) -> None:
        """Makes room for ``runs`` and the intervals of their ones."""
        self._runs = runs
        self._rows = access.empty((len(runs), ROW_BYTES // 8), "int64")
        values = int(runs.counts.shape[0])
        self._ends = access.empty((values,), "int32")
        places = (access.address(array) for array in (runs.counts, runs.offsets, runs.sizes))
        self.words = (*places, values, access.address(self._rows), access.address(self._ends))

    def loading(self, table: int, counts: int, images: int, target: bool, areas: int, hashes: int) -> bytes:
        """The words by which C++ loads this side.

        Args:
            table: address of int64 ``[I + 1]``, where images begin.
            counts: 0, or the address of int64 ``[I]``.
            images: I.
            target: whether these are ground truths.
            areas: address of float64 ``[N]``; 0 where they are not wanted, likewise ``hashes``, int64 ``[N]``.
            hashes: see ``areas``.
        """
        return bytes(MaskRowWords(*self.words, table, counts, images, target, areas, hashes))


def geometry(sides: Sequence[Side | None], lowest: float) -> ctypes.Structure:
    """The geometry of a search for pairs: masks of both sides, then boundaries or None. ``sides`` must live as long."""
    flat = [word for side in sides for word in (side.words if side else (0,) * len(_SIDE))]
    return MaskSideWords(*flat, lowest)


def run(
    batch: MatchBatch, sides: Boundaries, lowest: float, agnostic: bool, boundaries: Boundaries | None, access: Access,
    hashed: bool = True,
) -> Found:  # fmt: skip
    """Finds the pairs, and leaves the error code in the result, an int."""
    firsts = first_rows(batch.lengths)
    rows = [int(n) for n in firsts[:2, -1]]
    given = columns(batch, rows, access)
    checked = check_masks(sides, boundaries, rows, access)
    values = sum(int(runs.counts.shape[0]) for runs, _ in checked)
    threads = min(access.threads(), 1 + values // _RUNS_PER_HELPER)
    error = np.array(NO_ERROR, np.int64)
    load_runs = native.function("valor_cpu", "valor_load_runs_cpu", "ppq")
    tables = [firsts[side].ctypes.data for side in range(2)]
    loaded, made = load_sides(
        checked, rows, given, tables, firsts.shape[1] - 1, access,
        lambda task, masks: load_runs(task, error.ctypes.data, threads), hashed,
    )  # fmt: skip
    list_pairs = native.function("valor_cpu", "valor_run_pairs_cpu", "ppq")
    search = Search(given, geometry(loaded, lowest), lowest, agnostic)
    pairs = find(search, firsts, access, list_pairs, threads)
    (areas, hashes), (gt_areas, gt_hashes) = made
    return Found._make([*vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, int(error)])


def load_sides(
    checked: Sequence[tuple[Runs, Runs | None]], rows: Sequence[int], given: Columns, tables: Sequence[int],
    images: int, access: Access, load: Callable[[bytes, int], object], hashed: bool = True,
) -> tuple[list[Side | None], list[tuple[Any, Any]]]:  # fmt: skip
    """Loads masks and boundaries of both sides.

    Args:
        checked: of :func:`check_masks`.
        rows: detections and ground truths of the batch.
        given: columns of the batch.
        tables: addresses of int64 ``[I + 1]``, where images begin among the rows of each side.
        images: I.
        access: how arrays are read.
        load: calls C++ with the words of a side and its number of masks.
        hashed: whether hashes are made.

    Returns:
        Masks of both sides, then boundaries or None; areas and hashes of the masks of each side.
    """
    loaded: list[Side | None] = [None] * 4
    made = [(access.empty((n,), "float64"), access.empty((n if hashed else 0,), "int64")) for n in rows]
    for side, kinds in enumerate(checked):
        counts = given.addresses[("counts", "gt_counts")[side]]
        for kind, runs in enumerate(kinds):
            if runs is not None:
                areas, hashes = map(access.address, made[side]) if kind == 0 else (0, 0)
                hashes = hashes if hashed else 0
                masks = loaded[2 * kind + side] = Side(runs, access)
                load(masks.loading(tables[side], counts, images, bool(side), areas, hashes), rows[side])
    return loaded, made
