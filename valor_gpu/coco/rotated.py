"""Rotated boxes as the geometry of an evaluation. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.engine import Engine, engine_on
from valor_gpu.coco.geometry import Geometry, Object
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import Annotations, columns_from_dataset
from valor_gpu.inputs.coco_rotated import read_rotated, rotated_areas
from valor_gpu.ops.assign.match_batch import CROWD, MatchBatch
from valor_gpu.ops.error_codes import GROUND_TRUTH_BOX_ERRORS, NO_ERROR, unpack_box
from valor_gpu.ops.rotated.cpu import CORNERS, DEGREES


class RotatedGeometry(Geometry):
    """Intersection over union of rotated boxes, exact polygon clipping.

    Boxes are centre, width, height and degrees counterclockwise as seen in the image, as in Detectron2's
    ``RotatedCOCOEvaluator``, or four corners of a convex quadrilateral; see
    :func:`valor_gpu.inputs.coco_rotated.read_rotated`. The area of a detection is that of its rotated box.
    """

    area_text = "the area of the rotated box"

    def missing_areas(self, columns: Annotations, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """See :class:`Geometry`."""
        return rotated_areas(read_rotated(columns, rows))

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """See :class:`Geometry`."""
        sides = layout.detections, layout.ground_truths
        boxes = [read_rotated(side.columns, _rows(side)) for side in sides]
        codes = [CORNERS if side.shape[1] == 8 else DEGREES for side in boxes]
        given = replace(common, boxes=boxes[:1], gt_boxes=boxes[1:], box_format=codes[0], gt_box_format=codes[1])
        found, error = engine.rotated_pairs(given, lowest)
        if error != NO_ERROR:
            raise _error(layout, error)
        return replace(found, hashes=[], gt_hashes=[])

    def ious(self, detections: Sequence[Object], ground_truths: Sequence[Object], cocos: tuple[Any, Any]) -> Any:
        """See :class:`Geometry`."""
        columns = [
            columns_from_dataset({"annotations": list(side)}).annotations for side in (detections, ground_truths)
        ]
        sizes = np.array([[len(side)] for side in columns])
        sides = [Side(c, None, np.zeros(len(c), np.int32), n) for c, n in zip(columns, sizes)]
        crowd = np.array([bool(gt["iscrowd"]) for gt in ground_truths])
        common = MatchBatch(
            sizes, scores=[np.zeros(len(detections))], labels=[sides[0].labels], gt_labels=[sides[1].labels],
            gt_flags=[crowd.astype(np.uint8) * np.uint8(CROWD)],
        )  # fmt: skip
        layout = Layout(sides[1], sides[0], np.zeros(1, np.int64))
        pairs = self.batch(layout, common, -np.inf, engine_on()).pairs
        offsets, counts, columns_of, values = (
            np.asarray(getattr(pairs, name)) for name in ("offsets", "counts", "ground_truths", "similarities")
        )
        out = np.zeros((len(detections), len(ground_truths)), order="F")
        for row, (begin, count) in enumerate(zip(offsets.tolist(), counts.tolist())):
            out[row, columns_of[begin : begin + count]] = values[begin : begin + count]
        return out


def _error(layout: Layout, code: int) -> InputError:
    """The error for a row that is no box."""
    image, row, kind = unpack_box(code)
    side = layout.ground_truths if kind in GROUND_TRUTH_BOX_ERRORS else layout.detections
    place = side.row(int(side.lengths[:image].sum()) + row)
    columns = side.columns
    got = read_rotated(columns, np.array([place]))[0].tolist()
    need = "a box whose area is finite" if len(got) == 5 else "the corners of a convex quadrilateral in order"
    return InputError(f"{columns.place(place)}.bbox (id {columns.id[place]}) must be {need} but got {got}")


def _rows(side: Side) -> NDArray[np.int64]:
    """The rows of a side in its columns."""
    return np.arange(len(side), dtype=np.int64) if side.rows is None else side.rows
