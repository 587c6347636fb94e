"""One side of a detection in the order of its datums, as pairs of each kind of geometry need it. No torch."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.conversions import rasters_of
from valor_gpu.inputs.outlines import Floats, Integers, Outlines
from valor_gpu.ops.polygon_sets.op import PolygonSet
from valor_gpu.ops.polygons.cpu import MAX_COORDINATE
from valor_gpu.ops.runs.op import Runs
from valor_gpu.valor.columns import Columns, Rows
from valor_gpu.valor.detection.shapes import Shapes, describe_annotation

Flags = NDArray[np.bool_]
UPRIGHT, TURNED, POLYGON, RASTER = range(4)


class PairSide(NamedTuple):
    """Rows of one side.

    Attributes:
        name: ``predictions`` or ``groundtruths``.
        uids: of all datums.
        order: int64 ``[N]``, places of rows among those of the side; everything else is in this order.
        datums: int64 ``[N]``, ascending.
        labels: int64 ``[N]``, places in ``Columns.labels``.
        scores: float64 ``[N]``; of ground truths NaN.
        keys: int64 ``[N]``, the label key.
        groups: int64 ``[N]``, datum and label key in one number.
        annotations: int64 ``[N]``, rows of ``shapes``.
        kinds: int8 ``[N]``: ``UPRIGHT``, ``TURNED``, ``POLYGON`` or ``RASTER``.
        shapes: one geometry for each annotation.
    """

    name: str
    uids: list[str]
    order: Integers
    datums: Integers
    labels: Integers
    scores: Floats
    keys: Integers
    groups: Integers
    annotations: Integers
    kinds: NDArray[np.int8]
    shapes: Shapes

    @classmethod
    def of(cls, columns: Columns, name: str) -> PairSide:
        """Sorts the rows of a side.

        Args:
            columns: both sides, with one geometry for each annotation that has a row.
            name: of the side.
        """
        rows: Rows = getattr(columns, name)
        shapes = rows.shapes
        assert shapes is not None, "columns of a detection"
        keys = {key: code for code, key in enumerate(dict.fromkeys(key for key, _ in columns.labels))}
        key_of_label = np.array([keys[key] for key, _ in columns.labels], np.int64)
        order = np.argsort(rows.datum, kind="stable")
        datums, labels = rows.datum[order].astype(np.int64), rows.label[order].astype(np.int64)
        kinds, annotations = np.full(len(shapes), UPRIGHT, np.int8), rows.annotation[order].astype(np.int64)
        for kind, places in ((TURNED, shapes.turned), (POLYGON, shapes.drawn), (RASTER, shapes.masked)):
            kinds[places] = kind
        code = key_of_label[labels]
        return cls(
            name, columns.datums, order, datums, labels, rows.score[order], code, datums * max(len(keys), 1) + code,
            annotations, kinds[annotations], shapes,
        )  # fmt: skip

    @property
    def num_datums(self) -> int:
        """How many datums there are."""
        return len(self.uids)

    def lengths(self, chosen: Flags) -> Integers:
        """Chosen rows of each datum, int64 ``[datums]``."""
        return np.bincount(self.datums[chosen], minlength=self.num_datums)

    def corners(self, chosen: Flags) -> Floats:
        """float64 ``[n, 8]``, x and y of the corners of the boxes of chosen rows."""
        return box_corners(self.shapes)[self.annotations[chosen]]

    def polygons(self, chosen: Flags) -> PolygonSet:
        """Boxes and polygons of chosen rows."""
        used, places = np.unique(self.annotations[chosen], return_inverse=True)
        vertices, *tables = _outlines(self.shapes, used)
        try:
            return PolygonSet.of_tables(vertices, tables).take(places)
        except InputError as error:
            found = re.match(r"polygons\[(\d+)\](?:\[\d+\])*", str(error))
            if found is None:
                raise
            raise InputError(f"{self._describe(int(used[int(found[1])]))}{str(error)[found.end() :]}") from None

    def read_sizes(self, sizes: Integers) -> None:
        """Writes the size of the rasters of each datum, of which all are equal, to int64 ``[datums, 2]``."""
        there = self.kinds == RASTER
        places = np.searchsorted(self.shapes.masked, self.annotations[there])
        sizes[self.datums[there]] = self.shapes.masks.sizes[places]

    def rasters(self, chosen: Flags, sizes: Integers) -> Runs:
        """Rasters of chosen rows; other geometries become rasters.

        Args:
            chosen: rows.
            sizes: int64 ``[datums, 2]``, height and width of the rasters of each datum.

        Raises:
            InputError: naming the annotation that is too far away.
        """
        used, first, places = np.unique(self.annotations[chosen], return_index=True, return_inverse=True)
        masked = np.isin(used, self.shapes.masked)
        kept = self.shapes.masks.take(np.searchsorted(self.shapes.masked, used[masked]))
        outlines = _outlines(self.shapes, used[~masked])
        far = ~(np.abs(outlines.bounds()) <= MAX_COORDINATE).all(1)
        if far.any():
            raise InputError(
                f"{self._describe(int(used[~masked][far.argmax()]))} must have coordinates from -2e8 to 2e8 to be"
                " compared with a raster but has others"
            )
        made = rasters_of(outlines, sizes[self.datums[chosen][first[~masked]]])
        order = np.argsort(np.concatenate([np.flatnonzero(masked), np.flatnonzero(~masked)]))
        return Runs.join([kept, made]).take(order[places])

    def _describe(self, annotation: int) -> str:
        datum = self.datums[np.flatnonzero(self.annotations == annotation)[0]]
        return describe_annotation(self.name, int(self.shapes.places[annotation]), self.uids[datum])


def box_corners(shapes: Shapes) -> Floats:
    """float64 ``[A, 8]`` of all annotations; NaN where one has no box."""
    corners: Floats = shapes.boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]]
    corners[shapes.turned] = shapes.corners
    return corners


def _outlines(shapes: Shapes, annotations: Integers) -> Outlines:
    """Boxes and polygons of annotations, each of which has one, in their order."""
    drawn = np.isin(annotations, shapes.drawn)
    corners = box_corners(shapes)[annotations[~drawn]].reshape(-1, 4, 2)
    boxes = Outlines.of_rings(np.concatenate([corners, corners[:, :1]], 1))
    polygons = shapes.outlines.take(np.searchsorted(shapes.drawn, annotations[drawn]))
    order = np.argsort(np.concatenate([np.flatnonzero(drawn), np.flatnonzero(~drawn)]))
    return Outlines.join([polygons, boxes]).take(order)
