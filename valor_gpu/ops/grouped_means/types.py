"""Groups of images, and the numbers that they have. No torch import: arrays are numpy arrays, or tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, PickTable
from valor_gpu.ops.assign.image_order import check_row_counts, choose_images

Ints = NDArray[np.int64]


class GroupedMeans(NamedTuple):
    """Numbers of N groups, numpy arrays or tensors on the host.

    Attributes:
        labels: int64, the ascending labels of the K classes, wanted or found in any image; the class that pools them
            stands for all.
        means: float64 ``[N, P]``, the picks of the choices; NaN where nothing counts.
        class_means: float64 ``[N, K, Q]``: mean of each class for each class pick; NaN where no ground truth of the
            class counts in the group.
    """

    labels: Any
    means: Any
    class_means: Any


@frozen
class GroupedImages:
    """Images that may belong to groups, and the groups.

    Attributes:
        units: int64 ``[U]``, rows of the images table in the order that breaks ties of scores.
        offsets: int64 ``[N + 1]``: group g is ``members[offsets[g]:offsets[g + 1]]``.
        members: int64, positions in ``units``, ascending in each group.
    """

    units: Ints
    offsets: Ints
    members: Ints

    @classmethod
    def of(
        cls, table: Ints, rows: tuple[int, int], groups: Sequence[Ints], choices: AccumulateChoices
    ) -> GroupedImages:
        """Checks groups; see :func:`valor_gpu.ops.grouped_means.op.grouped_means`.

        Args:
            table: int64 ``[I, 8]``, the images.
            rows: of detections and of ground truths.
            groups: positions of the images of each group.
            choices: what to accumulate.
        """
        if choices.ties[0] != "given":
            raise InputError(f"choices.ties must begin with given but begins with {choices.ties[0]}")
        check_row_counts(table, *rows)
        units = choose_images(table, choices.by_key) if choices.images is None else choices.images
        if len(units) and not 0 <= units.min() <= units.max() < len(table):
            raise InputError(f"choices.images must be rows from 0 to {len(table) - 1} of images but has others")
        offsets = np.zeros(len(groups) + 1, np.int64)
        np.cumsum([len(group) for group in groups], out=offsets[1:])
        members = np.concatenate([np.zeros(0, np.int64), *groups])
        if members.dtype != np.int64:
            raise InputError(f"groups must hold int64 positions of images but hold {members.dtype}")
        _check_ascending(members, offsets)
        if len(members) and not 0 <= members.min() <= members.max() < len(units):
            raise InputError(f"groups must hold positions from 0 to {len(units) - 1} but one has others")
        return cls(units, offsets, members)


def _check_ascending(members: Ints, offsets: Ints) -> None:
    """Raises :class:`InputError` for the first group whose positions do not ascend."""
    wrong = members[1:] <= members[:-1]
    ends = offsets[1:-1]
    wrong[ends[(ends > 0) & (ends < len(members))] - 1] = False  # from one group to the next
    if wrong.any():
        group = int(np.searchsorted(offsets, int(wrong.argmax()), side="right")) - 1
        raise InputError(f"groups[{group}] must have ascending positions, each once, but has not")


def class_pick_table(picks: Sequence[Pick], choices: AccumulateChoices) -> PickTable:
    """The picks of single classes as numbers."""
    return PickTable.of(picks, choices.shape, choices.curves)
