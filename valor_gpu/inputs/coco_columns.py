"""COCO ground truth and results as numpy columns."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import BIT, count_repeats, missing_field, wrong_value
from valor_gpu.inputs._coco_values import ImageSizes, Values
from valor_gpu.inputs.text_ids import NO_TEXTS, IdTexts


@frozen
class Annotations:
    """Annotations or detections, one row each, in the order of their file or list.

    Attributes:
        id: int64 ``[N]``; of results 1 .. N.
        image_id: int64 ``[N]``.
        category_id: int64 ``[N]``.
        bbox: float64 ``[N, 4]``, x, y, width, height in pixels.
        area: float64 ``[N]``, square pixels; of results width x height.
        iscrowd: bool ``[N]``.
        ignore: bool ``[N]``, the optional ``ignore`` key.
        score: float64 ``[N]``, NaN where absent.
        present: uint16 ``[N]``, the fields that a record has: see :meth:`has`. Absent integers and flags are 0, absent
            numbers NaN.
        where: what stands before ``[row]`` in a message, for example ``instances.json: annotations``.
        values: what is read when somebody asks: masks, keypoints and how many; None where there is none of it.
        images: heights and widths of the images; None where they are not known.
        corners: whether a row without ``segmentation`` has its box for a mask, as in pycocotools' ``loadRes``.
        around: whether rows without ``bbox`` have the box around their mask or keypoints.
        texts: what ``image_id`` and ``category_id`` stand for, where ids are texts.

    Example:
        >>> from valor_gpu.inputs.coco import columns_from_results
        >>> rows = columns_from_results([{"image_id": 7, "category_id": 1, "bbox": [0, 0, 4, 5], "score": 0.5}])
        >>> rows.id.tolist(), rows.area.tolist(), rows.place(0)
        ([1], [20.0], 'results[0]')
    """

    id: NDArray[np.int64]
    image_id: NDArray[np.int64]
    category_id: NDArray[np.int64]
    bbox: NDArray[np.float64]
    area: NDArray[np.float64]
    iscrowd: NDArray[np.bool_]
    ignore: NDArray[np.bool_]
    score: NDArray[np.float64]
    present: NDArray[np.uint16]
    where: str
    values: Values | None = None
    images: ImageSizes | None = None
    corners: bool = False
    around: bool = False
    texts: IdTexts = NO_TEXTS

    def __len__(self) -> int:
        return len(self.image_id)

    def place(self, row: int) -> str:
        """How a message calls ``row``."""
        return f"{self.where}[{row}]"

    def has(self, name: str) -> NDArray[np.bool_]:
        """Bool ``[N]``: the records that have field ``name`` (a null, and an empty ``bbox``, count as absent)."""
        found: NDArray[np.bool_] = (self.present & BIT[name]) != 0
        return found

    def require(self, *names: str) -> None:
        """Raises :class:`InputError` with the place of the first record that lacks one of ``names``."""
        in_all = np.bitwise_and.reduce(self.present)  # of no rows: every field
        for name in names:
            if not in_all & BIT[name]:
                row = int(self.has(name).argmin())
                raise self.lacking(row, name, int(self.present[row]))

    def lacking(self, row: int, name: str, present: int) -> InputError:
        """The error for ``row``, which has no field ``name``; ``present`` has the bits of the fields to tell of."""
        if name == "bbox" and present & BIT["rotated"] and self.values is not None:
            return wrong_value(self.where, row, name, self.values.value("rotated", row))
        return missing_field(self.where, row, name, present)

    def take(self, rows: NDArray[Any]) -> Annotations:
        """These rows, int64 ``[M]`` or bool ``[N]``, in their order; messages tell of them by their new places."""
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        taken: dict[str, Any] = {name: c[rows] for name, c in columns.items() if isinstance(c, np.ndarray)}
        return replace(self, **taken, values=None if self.values is None else self.values.take(rows))

    @cached_property
    def repeated_ids(self) -> int:
        """How many rows have the id of an earlier row."""
        return count_repeats(self.id)

    def last_of_id(self) -> NDArray[np.int64]:
        """int64 ``[N]``: for each row, the last row with the same id.

        pycocotools looks annotations up by id, so that the last of several with one id stands for all of them.

        Example:
            >>> from valor_gpu.inputs.coco import columns_from_dataset
            >>> rows = columns_from_dataset({"annotations": [{"id": i, "image_id": 1} for i in (5, 6, 5)]}).annotations
            >>> rows.last_of_id().tolist()
            [2, 1, 2]
        """
        rows = len(self)
        if not self.repeated_ids:
            return np.arange(rows, dtype=np.int64)
        ids, from_the_end = np.unique(self.id[::-1], return_index=True)
        return np.asarray(rows - 1 - from_the_end[np.searchsorted(ids, self.id)], np.int64)


@frozen
class Dataset:
    """A COCO dataset without what evaluation does not need.

    Attributes:
        image_ids: int64 ``[I]``, in file order, repeated ids kept; codes as of ``annotations`` where ids are texts.
        categories: the category objects (few) with all their keys, in file order; empty when there are none.
        category_ids: int64 ``[K]``, their ids or codes.
        annotations: the annotations or detections.
        where: the file, or ``dataset``.
        images: the image objects with all their keys, where they were asked for; else None.

    Example:
        >>> from valor_gpu.inputs.coco import columns_from_dataset
        >>> data = columns_from_dataset({"images": [{"id": 3}], "categories": [{"id": 1, "name": "cat"}]})
        >>> data.image_ids.tolist(), data.category_names, len(data.annotations)
        ([3], ('cat',), 0)
    """

    image_ids: NDArray[np.int64]
    categories: list[dict[str, Any]]
    category_ids: NDArray[np.int64]
    annotations: Annotations
    where: str
    images: list[dict[str, Any]] | None = None

    @property
    def category_names(self) -> tuple[str, ...]:
        """The name of each category, or its id as text when it has none."""
        return tuple(str(c.get("name", c["id"])) for c in self.categories)
