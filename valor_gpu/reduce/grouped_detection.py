"""Numbers of detection for many groups of images, from the records of one evaluation. No torch import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen, replaced
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@frozen
class GroupNumbers(Sequence[Mapping[str, float]]):
    """Numbers of N groups; item g is a dict of those of group g.

    Attributes:
        names: of the numbers, such as ``map`` and ``map_per_class/cat``.
        table: float64 ``[N, names]``; NaN where a number does not exist.

    Example:
        >>> found = GroupNumbers(("map", "mar_1"), np.array([[0.5, 0.25], [1.0, np.nan]]))
        >>> found[0], found.column("mar_1").tolist()
        ({'map': 0.5, 'mar_1': 0.25}, [0.25, nan])
    """

    names: tuple[str, ...]
    table: Floats

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> dict[str, float]: ...

    @overload
    def __getitem__(self, index: slice) -> GroupNumbers: ...

    def __getitem__(self, index: int | slice) -> dict[str, float] | GroupNumbers:
        if isinstance(index, slice):
            return GroupNumbers(self.names, self.table[index])
        return dict(zip(self.names, self.table[index].tolist()))

    def __iter__(self) -> Iterator[dict[str, float]]:
        return (dict(zip(self.names, row)) for row in self.table.tolist())

    def column(self, name: str) -> Floats:
        """Returns one number of all groups, float64 ``[N]``."""
        numbers: Floats = self.table[:, self.names.index(name)]
        return numbers


@frozen
class RecordTables:
    """What matching leaves: numpy arrays, or tensors on any device.

    Attributes:
        detections: uint8 rows, see docs/design/001-detection-records.md.
        ground_truths: uint8 rows.
        images: int64 ``[I, 8]``.
    """

    detections: Any
    ground_truths: Any
    images: Any


def grouped_numbers(
    tables: RecordTables,
    groups: Sequence[Ints],
    choices: AccumulateChoices,
    picks: Mapping[str, Pick],
    class_names: Sequence[str] = (),
    class_picks: Mapping[str, Pick] | None = None,
) -> GroupNumbers:
    """Computes means, and numbers of classes such as ``map_per_class/cat``, of groups of images.

    Each has the bits of an evaluation of the images of its group alone. Names are the same in all groups: a class
    without a ground truth in a group is NaN there, and has no part in its means.

    Args:
        tables: of all images.
        groups: ascending positions of the images of each group, see
            :func:`valor_gpu.ops.grouped_means.op.grouped_means`.
        choices: what to accumulate; its own picks are not read.
        picks: means by name.
        class_names: names of the classes, in the order of the labels; empty for those of the labels themselves.
        class_picks: means of each class, by the name that comes before the slash.
    """
    of_class = class_picks or {}
    found = _grouped_means(tables, groups, replaced(choices, picks=tuple(picks.values())), tuple(of_class.values()))
    labels, means, class_means = (_on_host(array) for array in found)
    names = class_names or [str(label) for label in labels.tolist()]
    shape = len(groups), len(of_class) * len(names)
    by_number = class_means[:, : len(names)].transpose(0, 2, 1).reshape(shape)
    leaf_names = (f"{number}/{name}" for number in of_class for name in names)
    return GroupNumbers((*picks, *leaf_names), np.concatenate((means, by_number), axis=1))


def joined_numbers(parts: Sequence[GroupNumbers]) -> GroupNumbers:
    """Returns the numbers of several tables of the same groups, side by side."""
    names = tuple(name for part in parts for name in part.names)
    return GroupNumbers(names, np.concatenate([part.table for part in parts], axis=1))


def _grouped_means(
    tables: RecordTables, groups: Sequence[Ints], choices: AccumulateChoices, class_picks: Sequence[Pick]
) -> tuple[Any, Any, Any]:
    rows = tables.detections, tables.ground_truths, tables.images
    if all(isinstance(table, np.ndarray) for table in rows):
        from valor_gpu.ops.grouped_means.cpu import grouped_means

        return grouped_means(*rows, groups, choices, class_picks)
    import torch

    from valor_gpu.ops.grouped_means import op

    detections, ground_truths, images = (
        torch.from_numpy(table) if isinstance(table, np.ndarray) else table for table in rows
    )
    return op.grouped_means(detections, ground_truths, images, groups, choices, class_picks)


def _on_host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.numpy()
