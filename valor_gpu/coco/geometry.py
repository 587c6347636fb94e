"""What each ``iouType`` compares: a class for each, of which the evaluator asks everything that differs. No torch."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.engine import Engine, engine_on
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import Annotations, columns_from_dataset
from valor_gpu.ops.assign.match_batch import MatchBatch, Pairs
from valor_gpu.ops.native_types import BOX_FORMATS

Object = dict[str, Any]
Rows = tuple[NDArray[np.int64], NDArray[np.int64]]
Wrong = tuple[str, str, NDArray[np.bool_]]
"""A field, what it must be, and bool ``[N]``: which rows are not."""

_XYWH = BOX_FORMATS.index("xywh")


class Geometry:
    """How detections and ground truths of one ``iouType`` are compared.

    Args:
        params: the parameters of the evaluation.
        strict: the convention.

    Attributes:
        needs: fields that detections must have, besides ``score`` and ``area``; see :meth:`needs_of`.
        gt_needs: fields that ground truths must have, besides ``iscrowd`` and ``area``.
        unread: those of ``iscrowd`` and ``area`` that nothing reads.
        area_text: what stands for an area that is missing, for a message.
        step: the method of ``COCOeval`` that gives the similarities of one cell.
        order: ``F`` or ``C``, the layout of these.
        pools: whether pycocotools compares anything when categories are not used.
        ids_matter: whether ids of 0 and below have the effects that they have in pycocotools.
        doubts: counts of doubtful values that :meth:`batch` came across, by name.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    gt_needs: ClassVar[tuple[str, ...]] = ()
    area_text: ClassVar[str] = "width x height"
    step: ClassVar[str] = "computeIoU"
    order: ClassVar[Literal["C", "F"]] = "F"
    pools: ClassVar[bool] = True
    ids_matter: ClassVar[bool] = True

    def __init__(self, params: Any, strict: bool = True) -> None:
        self.params = params
        self.strict = strict
        self.unread: tuple[str, ...] = ()
        self.doubts: dict[str, int] = {}

    def needs_of(self, detections: Annotations) -> tuple[str, ...]:
        """Fields that these detections must have."""
        return self.needs

    def excused(self, ground_truths: Side, name: str) -> NDArray[np.bool_] | None:
        """Bool ``[G]``: ground truths that may lack field ``name``; None for none."""
        return ground_truths.take("iscrowd") if name == "area" else None

    def missing_areas(self, columns: Annotations, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64 ``[n]`` areas of ``rows`` of ground truths, int64 ``[n]``, which have none of their own."""
        areas: NDArray[np.float64] = columns.bbox[rows, 2] * columns.bbox[rows, 3]
        return areas

    def laid_out(self, layout: Layout) -> Layout:
        """``layout`` as this geometry sees it, before it is checked: other areas, rows left out."""
        return layout

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """``common``, which has all but geometry, with boxes or stored pairs.

        Args:
            layout: the rows.
            common: scores, labels, areas and flags of the rows.
            lowest: pairs of a lower similarity may be left out.
            engine: where to find pairs.

        Raises:
            InputError: a value that cannot be compared; names the annotation.
        """
        raise NotImplementedError

    def ious(self, detections: Sequence[Object], ground_truths: Sequence[Object], cocos: tuple[Any, Any]) -> Any:
        """float64 ``[D, G]`` similarities of one cell, in memory as ``order`` says.

        Args:
            detections: annotation objects, at least one.
            ground_truths: annotation objects, at least one.
            cocos: the COCO objects of detections and ground truths.
        """
        raise NotImplementedError

    def wrong(self, side: Side) -> list[Wrong]:
        """What rows of a side cannot be compared, for a message."""
        return []

    def ignored(self, ground_truths: Side) -> NDArray[np.bool_] | None:
        """Bool ``[G]``: ground truths that neither count nor make a false positive, besides crowds; None for none."""
        return None

    def counted(self, ground_truths: Side) -> dict[str, int]:
        """Counts of further fields that ground truths lack and that this geometry completes."""
        return {}

    def ignores(self, ground_truth: Mapping[str, Any]) -> bool:
        """As :meth:`ignored`, of one annotation object."""
        return False

    def complete(self, ground_truth: Object) -> None:
        """Gives a ground truth the fields that it lacks, in the corrected convention; see :meth:`missing_areas`."""
        if self.strict:
            return
        if ground_truth.get("iscrowd") is None:
            ground_truth["iscrowd"] = 0
        if ground_truth.get("area") is None:
            columns = columns_from_dataset({"annotations": [ground_truth]}).annotations
            ground_truth["area"] = float(self.missing_areas(columns, np.zeros(1, np.int64))[0])

    def prepare(self, annotation: Object, coco: Any) -> None:
        """Changes an annotation object as pycocotools' ``_prepare`` does."""

    def cell_ious(self, layout: Layout, orders: Rows, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Similarities of cells, those of each ``[D, G]`` row by row, one cell after another.

        Args:
            layout: the rows.
            orders: detection rows and ground truth rows, cell after cell.
            sizes: int64 ``[2, S]`` how many of them each of S cells has.
        """
        ground_truths, detections = layout.ground_truths, layout.detections
        common = MatchBatch(
            layout.lengths(), scores=[detections.take("score")], labels=[detections.labels],
            gt_labels=[ground_truths.labels], gt_flags=[ground_truths.take("iscrowd").astype(np.uint8)],
        )  # fmt: skip
        made = self.batch(layout, common, -np.inf, engine_on()).pairs
        pairs = Pairs(*map(np.asarray, vars(made).values()))
        starts = sizes.prod(0).cumsum() - sizes.prod(0)
        begin = np.full(len(detections), -1, np.int64)  # where the values of a detection begin
        begin[orders[0]] = np.repeat(starts, sizes[0]) + _ranks(sizes[0]) * np.repeat(sizes[1], sizes[0])
        rank = np.zeros(len(ground_truths), np.int64)
        rank[orders[1]] = _ranks(sizes[1])
        rows = np.repeat(np.arange(len(detections)), pairs.counts)
        entries = np.repeat(pairs.offsets[:-1], pairs.counts) + _ranks(pairs.counts)
        firsts = np.repeat(ground_truths.lengths.cumsum() - ground_truths.lengths, detections.lengths)
        found = begin[rows] >= 0
        rows, entries = rows[found], entries[found]
        out = np.zeros(int(sizes.prod(0).sum()))
        out[begin[rows] + rank[firsts[rows] + pairs.ground_truths[entries]]] = pairs.similarities[entries]
        return out


def _ranks(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """0, 1, ... within each of the segments that are so long."""
    ranks: NDArray[np.int64] = np.arange(int(sizes.sum())) - np.repeat(sizes.cumsum() - sizes, sizes)
    return ranks


class BoxGeometry(Geometry):
    """Boxes as they are: matching computes their IoU itself."""

    needs = gt_needs = ("bbox",)

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """See :class:`Geometry`."""
        boxes, gt_boxes = layout.detections.take("bbox"), layout.ground_truths.take("bbox")
        return replace(common, boxes=[boxes], gt_boxes=[gt_boxes], box_format=_XYWH, gt_box_format=_XYWH)

    def ious(self, detections: Sequence[Object], ground_truths: Sequence[Object], cocos: tuple[Any, Any]) -> Any:
        """See :class:`Geometry`."""
        from valor_gpu.coco.one_cell import box_ious

        return box_ious(detections, ground_truths)

    def wrong(self, side: Side) -> list[Wrong]:
        """See :class:`Geometry`."""
        return [("bbox", "finite", ~np.isfinite(side.take("bbox")).all(1))]

    def cell_ious(self, layout: Layout, orders: Rows, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """See :class:`Geometry`."""
        ground_truths = layout.ground_truths
        boxes = layout.detections.take("bbox")[orders[0]], ground_truths.take("bbox")[orders[1]]
        return engine_on().box_iou(*boxes, ground_truths.take("iscrowd")[orders[1]], sizes)


_HOMES = {
    "bbox": ("valor_gpu.coco.geometry", "BoxGeometry"),
    "segm": ("valor_gpu.coco.mask_geometry", "MaskGeometry"),
    "boundary": ("valor_gpu.coco.mask_geometry", "BoundaryGeometry"),
    "rotated": ("valor_gpu.coco.rotated", "RotatedGeometry"),
    "keypoints": ("valor_gpu.coco.keypoints", "KeypointGeometry"),
    "keypoints_crowd": ("valor_gpu.coco.crowdpose", "CrowdGeometry"),
}
"""iouType -> module and class, imported when it is asked for."""


def geometry_of(params: Any, strict: bool = True) -> Geometry:
    """The geometry of ``params.iouType``.

    Args:
        params: the parameters of the evaluation.
        strict: the convention.

    Raises:
        InputError: there is no such type.
    """
    home = _HOMES.get(params.iouType)
    if home is None:
        raise InputError(f"params.iouType must be one of {', '.join(map(repr, _HOMES))} but got {params.iouType!r}")
    try:
        module = importlib.import_module(home[0])
    except ModuleNotFoundError as error:
        if error.name != home[0]:
            raise
        raise InputError(f"params.iouType must be one that is evaluated yet but got {params.iouType!r}") from None
    made: Geometry = getattr(module, home[1])(params, strict)
    return made
