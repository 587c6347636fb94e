"""Pairs of a batch by any similarity, over addresses and sizes, for numpy arrays and tensors alike. No torch.

A geometry adds a struct of its own, a C function over ``csrc/cpu/pairs.h``, and areas and hashes of its rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu._frozen import replaced
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.cpu import Access, check_dtype
from valor_gpu.ops.assign.match_batch import COLUMNS, MatchBatch, Pairs

_ROWS_PER_HELPER = 4096  # waking a thread for fewer takes longer than it saves


def words(name: str, names: Sequence[str], doubles: Sequence[str] = ()) -> type[ctypes.Structure]:
    """A struct of fields of 8 bytes, int64 but for those in ``doubles``, that C++ has with the same names."""
    kinds = {field: ctypes.c_double if field in doubles else ctypes.c_int64 for field in names}
    return type(name, (ctypes.Structure,), {"_fields_": list(kinds.items())})


PairWords = words(
    "PairWords",
    (
        "geometry", "labels", "gt_labels", "gt_flags", "firsts", "counts", "gt_counts", "label_type", "gt_label_type",
        "gt_flag_type", "images", "agnostic", "lowest", "offsets", "used", "ground_truths", "similarities",
    ),
    doubles=("lowest",),
)  # fmt: skip
"""PairBatch of csrc/core/pairs.h: the pairs of a batch."""


class Found(NamedTuple):
    """What an op that finds pairs returns: fields of :class:`Pairs` and of :class:`MatchBatch`, then an error code."""

    offsets: Any
    counts: Any
    ground_truths: Any
    similarities: Any
    areas: Any
    gt_own_areas: Any
    hashes: Any
    gt_hashes: Any
    error: Any


def first_rows(lengths: Any) -> NDArray[np.int64]:
    """int64 ``[3, I + 1]``: where each image begins among detections, ground truths and all pairs of the two.

    Args:
        lengths: int64 ``[2, I]``.

    Raises:
        InputError: an image has fewer than 0 rows.
    """
    sizes = np.asarray(lengths, np.int64)
    if sizes.size and sizes.min() < 0:
        raise InputError(f"lengths must be at least 0 but are {sizes.tolist()}")
    firsts = np.zeros((3, sizes.shape[1] + 1), np.int64)
    np.cumsum((*sizes, sizes[0] * sizes[1]), axis=1, out=firsts[:, 1:])
    return firsts


def stored(batch: MatchBatch, found: Found) -> MatchBatch:
    """Returns ``batch`` with pairs, areas and hashes in place of boxes."""
    columns: dict[str, Any] = {
        name: [getattr(found, name)] for name in ("areas", "gt_own_areas", "hashes", "gt_hashes")
    }
    return replaced(batch, boxes=[], gt_boxes=[], box_format=0, gt_box_format=0, pairs=Pairs(*found[:4]), **columns)


class Columns(NamedTuple):
    """One contiguous array each, None where the batch has none, and how they are read.

    Attributes:
        arrays: by the name of the field of :class:`MatchBatch`.
        addresses: likewise; 0 where there is none.
        codes: codes of dtypes.
    """

    arrays: dict[str, Any]
    addresses: dict[str, int]
    codes: dict[str, int]


def columns(batch: MatchBatch, rows: Sequence[int], access: Access, widths: Mapping[str, int] | None = None) -> Columns:
    """Joins the columns of a batch; raises :class:`InputError` where one is not what C++ reads for its lengths.

    Args:
        batch: labels, flags and counts are read.
        rows: detections and ground truths of all images.
        access: how arrays are read.
        widths: columns that the geometry reads too, and their values per row.
    """
    wide = widths or {}
    names = (*wide, "labels", "gt_labels", "gt_flags")
    arrays = {name: _whole(getattr(batch, name), wide.get(name, 1), access) for name in names}
    for name, array in arrays.items():
        need, got = rows[name.startswith("gt_")], 0 if array is None else int(array.shape[0])
        if got != need and not (array is None and name == "gt_flags"):
            raise InputError(f"{name} must have {need} rows, the sum of lengths, but has {got}")
        if array is not None:
            _check_values(name, array, wide.get(name, 1))
    for name in ("counts", "gt_counts"):
        count, images = getattr(batch, name), batch.lengths.shape[1]
        arrays[name] = None if count is None else access.contiguous(count)
        if count is not None:
            check_dtype(name, count.dtype, "int64")
            if tuple(count.shape) != (images,):
                raise InputError(f"{name} must have shape [{images}] but has {list(count.shape)}")
    addresses = {name: 0 if array is None else access.address(array) for name, array in arrays.items()}
    codes = {name: 0 if array is None else access.codes[array.dtype] for name, array in arrays.items()}
    return Columns(arrays, addresses, codes)


def _check_values(name: str, array: Any, width: int) -> None:
    """Raises unless a column has a dtype that C++ knows, and ``width`` values in a row."""
    check_dtype(name, array.dtype, COLUMNS[name].dtype)
    if width > 1 and array.shape[0] and tuple(array.shape[1:]) != (width,):
        raise InputError(f"{name} must have shape [{array.shape[0]}, {width}] but has {list(array.shape)}")


def _whole(parts: Sequence[Any], width: int, access: Access) -> Any:
    if not parts:
        return None
    if len(parts) > 1:
        flat = [
            part.reshape(-1, width) if width > 1 else part if part.ndim == 1 else part.reshape(-1) for part in parts
        ]
        return access.join(flat)
    return access.contiguous(parts[0])


class Search(NamedTuple):
    """What is searched for pairs.

    Attributes:
        columns: the columns of the batch.
        geometry: the struct from which C++ makes the similarity; what it points to must live as long.
        lowest: the lowest threshold.
        agnostic: pair detections with ground truths of every class.
    """

    columns: Columns
    geometry: ctypes.Structure
    lowest: float
    agnostic: bool

    def words(self, table: int, images: int, access: Access, *out: Any) -> Any:
        """The words of a batch of pairs.

        Args:
            table: address of :func:`first_rows`, where the kernel can read it.
            images: I.
            access: how arrays are read.
            out: offsets and counts, then ground truths and similarities once there.
        """
        at, codes = self.columns.addresses, self.columns.codes
        return PairWords(
            ctypes.addressof(self.geometry), at["labels"], at["gt_labels"], at["gt_flags"], table, at["counts"],
            at["gt_counts"], codes["labels"], codes["gt_labels"], codes["gt_flags"], images, self.agnostic, self.lowest,
            *map(access.address, out),
        )  # fmt: skip


def threads_for(rows: int, access: Access) -> int:
    """How many threads may work on so many rows of both sides."""
    return min(access.threads(), 1 + rows // _ROWS_PER_HELPER)


def find(
    search: Search, firsts: NDArray[np.int64], access: Access, list_pairs: Callable[..., Any], threads: int
) -> Pairs:
    """Finds the pairs of a batch on the CPU.

    Args:
        search: what is searched.
        firsts: of :func:`first_rows`.
        access: how arrays are read.
        list_pairs: C function of the geometry, over ``valor::find_pairs`` of csrc/cpu/pairs.h.
        threads: how many may work.
    """
    rows = int(firsts[0, -1])
    offsets, counts = access.empty((rows + 1,), "int64"), access.empty((rows,), "int32")
    task = search.words(firsts.ctypes.data, firsts.shape[1] - 1, access, offsets, counts)
    made = ctypes.c_int64()
    list_pairs(ctypes.addressof(task), ctypes.addressof(made), threads)
    collect = native.function("valor_cpu", "valor_collect_pairs_cpu", "qpp")
    try:
        size = int(offsets[-1])
        ground_truths, similarities = access.empty((size,), "int32"), access.empty((size,), "float64")
    except BaseException:
        collect(made.value, None, None)
        raise
    collect(made.value, access.address(ground_truths), access.address(similarities))
    return Pairs(offsets, counts, ground_truths, similarities)
