"""Masks and their boundaries as the geometry of an evaluation. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.engine import Engine
from valor_gpu.coco.geometry import Geometry, Object
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.inputs._coco_values import ImageSizes, ObjectValues
from valor_gpu.inputs.coco import Annotations, columns_from_dataset
from valor_gpu.inputs.coco_masks import Room, measure_masks, read_masks
from valor_gpu.ops.assign.match_batch import COLUMNS, DETECTIONS, GROUND_TRUTHS, MatchBatch, Pairs
from valor_gpu.ops.runs.op import Runs

Boundaries = tuple[Runs, Runs] | None

_PAIR_COLUMNS = ("counts", "ground_truths", "similarities")


class MaskGeometry(Geometry):
    """Intersection over union of masks; that of masks of different sizes is -1, as in pycocotools.

    Only masks that have a partner are read: ground truths whose class was detected in the image, and detections of a
    class that the image has. The others have no pixels, and pairs with nothing.
    """

    needs = gt_needs = ("segmentation",)
    area_text = "the area of the mask"

    def needs_of(self, detections: Annotations) -> tuple[str, ...]:
        """See :class:`Geometry`; of results with boxes, the corners serve as masks."""
        return () if detections.corners else self.needs

    def missing_areas(self, columns: Annotations, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """See :class:`Geometry`."""
        return measure_masks(columns, rows).areas.astype(np.float64)

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """See :class:`Geometry`."""
        sides = layout.detections, layout.ground_truths
        wanted = [_has_partner(side, other) for side, other in (sides, sides[::-1])]
        firsts = np.zeros((2, len(layout.images) + 1), np.int64)
        firsts[:, 1:] = layout.lengths().cumsum(1)
        parts, rooms, odd = [], (Room(), Room()), 0
        for images in _tiles(wanted, firsts, engine.masks_at_once):
            rows = [slice(*first[[images.start, images.stop]].tolist()) for first in firsts]
            masks = [_masks_of(*arguments) for arguments in zip(sides, rows, wanted, rooms)]
            odd += _of_other_size(masks, [w[r] for w, r in zip(wanted, rows)], layout.lengths()[:, images])
            part = _part(common, images, rows)
            parts.append(engine.run_pairs(part, masks[0], masks[1], lowest, self._boundaries(masks)))
        self.doubts = {"detections_of_other_size": odd}
        found = _joined(common, parts) if len(parts) > 1 else parts[0]
        return replace(found, areas=common.areas or found.areas)

    def _boundaries(self, masks: Sequence[Runs]) -> Boundaries:
        return None

    def ious(self, detections: Sequence[Object], ground_truths: Sequence[Object], cocos: tuple[Any, Any]) -> Any:
        """See :class:`Geometry`."""
        from valor_gpu.ops.runs.cpu import iou

        masks = [_masks_of_objects(side, coco) for side, coco in zip((detections, ground_truths), cocos)]
        crowd = np.array([bool(gt["iscrowd"]) for gt in ground_truths])
        values = iou(masks[0], masks[1], crowd)
        boundaries = self._boundaries(masks)
        if boundaries is not None:
            smaller = np.minimum(values, iou(*boundaries, crowd))
            values = np.where(crowd, values, smaller)
        return np.asfortranarray(values)

    def prepare(self, annotation: Object, coco: Any) -> None:
        """Replaces a segmentation by its run lengths."""
        annotation["segmentation"] = coco.annToRLE(annotation)


class BoundaryGeometry(MaskGeometry):
    """The smaller of the IoU of masks and the IoU of their boundaries; against a crowd, that of masks.

    Source: Cheng et al., "Boundary IoU: Improving Object-Centric Image Segmentation Evaluation", CVPR 2021.
    """

    def _boundaries(self, masks: Sequence[Runs]) -> Boundaries:
        from valor_gpu.ops.boundary.cpu import boundary_runs

        ratio = self.params.boundary_dilation_ratio
        return boundary_runs(masks[0], ratio), boundary_runs(masks[1], ratio)


def _cells(side: Side, classes: int) -> NDArray[np.int64]:
    """int64 ``[N]``: a number for the image and class of each row."""
    images = np.repeat(np.arange(len(side.lengths)), side.lengths)
    return images * classes + side.labels


def _has_partner(side: Side, other: Side) -> NDArray[np.bool_]:
    """Bool ``[N]``: the other side has a row of the same image and class."""
    classes = 1 + max(int(s.labels.max(initial=0)) for s in (side, other))
    there = np.zeros(classes * len(side.lengths), np.bool_)
    there[_cells(other, classes)] = True
    return there[_cells(side, classes)]


def _tiles(wanted: Sequence[NDArray[np.bool_]], firsts: NDArray[np.int64], rows: int) -> Iterator[slice]:
    """Images in parts of about so many wanted rows each: their masks stay in the cache and take little memory."""
    counts = sum(np.append(0, side.cumsum())[first] for side, first in zip(wanted, firsts))
    begin, images = 0, firsts.shape[1] - 1
    while begin < images or begin == 0:
        end = int(np.searchsorted(counts, counts[begin] + rows, side="right")) - 1
        end = min(max(end, begin + 1), images)
        yield slice(begin, end)
        begin = max(end, 1)


def _part(batch: MatchBatch, images: slice, rows: Sequence[slice]) -> MatchBatch:
    """Some images of a batch; ``rows`` are their detections and ground truths."""
    sides = dict(zip((DETECTIONS, GROUND_TRUTHS), rows))
    columns: dict[str, Any] = {
        name: [array[sides[column.side]] for array in getattr(batch, name)] for name, column in COLUMNS.items()
    }
    return replace(batch, lengths=np.ascontiguousarray(batch.lengths[:, images]), **columns)


def _joined(batch: MatchBatch, parts: Sequence[MatchBatch]) -> MatchBatch:
    """``batch`` with what was found in its parts; hashes, which some engines make, are for images without ids."""
    pairs = [part.pairs for part in parts if part.pairs is not None]
    whole = {name: np.concatenate([getattr(p, name) for p in pairs]) for name in _PAIR_COLUMNS}
    ends = np.cumsum([0, *(len(p.similarities) for p in pairs)])
    offsets = [p.offsets[:-1] + end for p, end in zip(pairs, ends)]
    columns: dict[str, Any] = {
        name: [np.concatenate([getattr(p, name)[0] for p in parts])] for name in ("areas", "gt_own_areas")
    }
    return replace(batch, pairs=Pairs(offsets=np.concatenate([*offsets, ends[-1:]]), **whole), **columns)


def _masks_of(side: Side, part: slice, wanted: NDArray[np.bool_], room: Room) -> Runs:
    """Masks of a part of the rows of ``side``, without runs for those that are not ``wanted``."""
    chosen = np.flatnonzero(wanted[part])
    rows = chosen + part.start
    read = read_masks(side.columns, rows if side.rows is None else side.rows[rows], room)
    count = part.stop - part.start
    lengths, sizes = np.zeros(count + 1, np.int64), np.zeros((count, 2), np.int32)
    lengths[chosen + 1] = np.diff(read.offsets)
    sizes[chosen] = read.sizes
    return Runs(read.counts, lengths.cumsum(), sizes)


def _of_other_size(masks: Sequence[Runs], wanted: Sequence[NDArray[np.bool_]], lengths: NDArray[np.int64]) -> int:
    """How many wanted detections have another size than one of the wanted ground truths of their image."""
    rows = [np.flatnonzero(side) for side in wanted]
    keys, gt_keys = (runs.sizes[r].astype(np.int64) @ (1 << 32, 1) for runs, r in zip(masks, rows))
    images, gt_images = (np.repeat(np.arange(len(side)), side)[r] for side, r in zip(lengths, rows))
    size = np.full(lengths.shape[1], -1, np.int64)
    size[gt_images] = gt_keys
    size[gt_images[gt_keys != size[gt_images]]] = -1  # several
    return int((keys != size[images]).sum())


def _masks_of_objects(annotations: Sequence[Object], coco: Any) -> Runs:
    """Masks of annotation objects of one image."""
    image = coco.imgs.get(annotations[0]["image_id"], {}) if coco is not None else {}
    dataset = {"annotations": list(annotations)}
    columns = columns_from_dataset(dataset).annotations
    sizes = ImageSizes(columns.image_id[:1], ObjectValues([image]))
    return read_masks(replace(columns, images=sizes), np.arange(len(columns)))
