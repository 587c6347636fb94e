"""Polygons: pairwise IoU from exact areas, and the pairs of a batch for matching.

Design: docs/design/021-polygon-areas.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_shape, check_type
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.assign.cuda import check_one_device
from valor_gpu.ops.assign.match_batch import AGNOSTIC, MatchBatch, MatchRule
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Found, Search, columns, first_rows, stored
from valor_gpu.ops.pairs.cuda import access_on, fake, find
from valor_gpu.ops.polygon_areas import cpu as _polygon_areas_cpu
from valor_gpu.ops.polygon_areas import reference as definition
from valor_gpu.ops.polygon_sets.op import PolygonSet

Sides = tuple[PolygonSet, PolygonSet]


def polygon_iou(
    polygons1: PolygonSet | Sequence[Any],
    polygons2: PolygonSet | Sequence[Any],
    *,
    crowd: Tensor | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """IoU of every item of ``polygons1`` with every one of ``polygons2``, from exact areas.

    An item is a polygon or several, with holes, concave, crossing themselves or each other: see
    :class:`valor_gpu.ops.PolygonSet` for what is inside. Areas are computed with 106 bits from the coordinates as they
    are, so that the result is the double nearest to the exact IoU: small whole numbers whose IoU is 1/2 give 0.5, equal
    polygons 1, and exchanging the two sides changes nothing. Rectangles whose edges are parallel to the axes have the
    IoU of :func:`box_iou` of their float64 ``xyxy``, to the last bit but never above 1. An item without area has IoU 0
    with all; no item gives NaN. The IoU has no gradient.

    Args:
        polygons1: N items, or a list from which :meth:`PolygonSet.of` makes them: an item is a list of polygons, a
            polygon a list of rings, the outer one and holes, a ring numbers ``[n, 2]``, x and y.
        polygons2: likewise M items.
        crowd: bool ``[M]``: IoU with a crowd region is intersection over the area of the item of ``polygons1``.
        device: where the result is computed; by default that of ``crowd``, or the CPU.

    Returns:
        float64 ``[N, M]``.

    Raises:
        InputError: naming the item that is no polygon or has a coordinate that is not finite; on another shape or dtype
            of ``crowd``.

    Example:
        >>> square, triangle = [[[0, 0], [2, 0], [2, 2], [0, 2]]], [[[0, 0], [2, 0], [0, 2]]]
        >>> polygon_iou([[square]], [[square], [triangle], [square, triangle]])
        tensor([[1.0000, 0.5000, 1.0000]], dtype=torch.float64)
    """
    sides = [
        given if isinstance(given, PolygonSet) else PolygonSet.of(given, name)
        for name, given in (("polygons1", polygons1), ("polygons2", polygons2))
    ]
    if crowd is not None:
        check_type("crowd", crowd, Tensor)
        check_dtype("crowd", crowd, (torch.bool,))
        check_shape("crowd", crowd, (len(sides[1]),))
    place = torch.device(device) if device is not None else torch.device("cpu") if crowd is None else crowd.device
    flags = None if crowd is None else crowd.detach().to(place)
    return _IOU(*(t for side in sides for t in _tensors(on_device(side, place))[:3]), flags)  # type: ignore[no-any-return]


def on_device(polygons: PolygonSet, device: torch.device) -> PolygonSet:
    """The set as tensors on a device, without waiting for it.

    Args:
        polygons: numpy arrays.
        device: where they go.
    """
    arrays = (torch.from_numpy(array) for array in _tensors(polygons))
    return PolygonSet(*(to_device(array, device) for array in arrays))


def _tensors(side: PolygonSet) -> list[Any]:
    return [side.edges, side.offsets, side.shapes, side.hashes]


# ------------------------------------------------------------------------------------------------------ polygon_iou


def _iou_by_reference(*arguments: Any) -> Tensor:
    return definition.pairwise(*_given_sides(arguments), arguments[6])


def _iou_fake(*arguments: Any) -> Tensor:
    shapes, gt_shapes = arguments[2], arguments[5]
    return shapes.new_empty((shapes.shape[0], gt_shapes.shape[0]))  # type: ignore[no-any-return]


def _iou_on_cpu(*arguments: Any) -> Tensor:
    sides, access = _given_sides(arguments), access_on(torch.device("cpu"))
    iou, words, flags = _iou_arguments(sides, arguments[6])
    threads = _polygon_areas_cpu.threads_for(sides, access)
    native.function("valor_cpu", "valor_polygon_iou_cpu", "pqqppq")(*words, threads)
    del flags  # lived as long as C++ read it
    return iou


def _iou_on_cuda(*arguments: Any) -> Tensor:
    with launching(arguments[0].device) as stream:
        iou, words, flags = _iou_arguments(_given_sides(arguments), arguments[6])
        native.function("valor_cuda", "valor_polygon_iou_cuda", "pqqppp")(*words, stream)
        del flags
    return iou


def _given_sides(arguments: Sequence[Any]) -> Sides:
    """Both sides, without hashes."""
    edges, offsets, shapes, gt_edges, gt_offsets, gt_shapes = (t.contiguous() for t in arguments[:6])
    first = PolygonSet(edges, offsets, shapes, offsets[1:])
    second = PolygonSet(gt_edges, gt_offsets, gt_shapes, gt_offsets[1:])
    return first, second


def _iou_arguments(sides: Sides, crowd: Tensor | None) -> tuple[Tensor, tuple[Any, ...], Tensor | None]:
    """The matrix, what C functions take before threads or a stream, and the flags, which must live as long."""
    n, m = map(len, sides)
    flags = None if crowd is None else crowd.contiguous()
    iou = sides[0].shapes.new_empty((n, m))
    words = _polygon_areas_cpu.side_words(sides, access_on(iou.device))
    return iou, (bytes(words), n, m, 0 if flags is None else flags.data_ptr(), iou.data_ptr()), flags


_IOU = register(
    "polygon_iou(Tensor edges, Tensor offsets, Tensor shapes, Tensor gt_edges, Tensor gt_offsets, Tensor gt_shapes,"
    " Tensor? crowd) -> Tensor",
    reference=_iou_by_reference,
    fake=_iou_fake,
    cpu=cpp(_iou_on_cpu),
    cuda=cuda(_iou_on_cuda),
)


# ---------------------------------------------------------------------------------------------------- polygon_pairs


def polygon_pairs(batch: MatchBatch, shapes: Sides, rule: MatchRule) -> tuple[MatchBatch, Tensor]:
    """Returns a batch of stored pairs for :func:`valor_gpu.ops.assign.op.assign`, and an error code.

    Pairs have a detection and a ground truth of its class (of any class with ``AGNOSTIC``) whose :func:`polygon_iou`
    reaches the lowest threshold, every pair of the class if that is at most 0; against a crowd it is intersection over
    detection area. On CUDA every detection has room for all ground truths of its image, 12 bytes each, so that the host
    waits for nothing.

    Args:
        batch: tensors; labels, flags, lengths and counts are read.
        shapes: numpy arrays: a polygon for each detection and one for each ground truth, of all images one after
            another.
        rule: of which thresholds and options are looked at.

    Returns:
        The batch with pairs, areas and hashes, and int64 ``[]``, the error code of no error: a set holds no bad item.

    Raises:
        InputError: for sets that do not fit the batch.

    Example:
        >>> square, triangle = [[[0, 0], [2, 0], [2, 2], [0, 2]]], [[[0, 0], [2, 0], [0, 2]]]
        >>> sides = PolygonSet.of([[square]]), PolygonSet.of([[triangle]])
        >>> batch = MatchBatch(torch.tensor([[1], [1]]), [], [torch.ones(1)], [torch.zeros(1).long()],
        ...                    gt_labels=[torch.zeros(1).long()])
        >>> polygon_pairs(batch, sides, MatchRule.make([0.5], [[0, 1e10]], [100]))[0].pairs.similarities.tolist()
        [0.5]
    """
    device = batch.labels[0].device if batch.labels else torch.device("cpu")
    sides = [_tensors(on_device(side, device)) for side in shapes]
    given = (getattr(batch, name) for name in _BATCH_FIELDS)
    made = Found(*_PAIRS(*given, *sides, float(rule.thresholds.min()), bool(rule.options & AGNOSTIC)))
    return stored(batch, made), made.error


_BATCH_FIELDS = ("labels", "gt_labels", "gt_flags", "lengths", "counts", "gt_counts")


def _given(arguments: Sequence[Any]) -> tuple[MatchBatch, Sides, float, bool]:
    """What the op's arguments stand for."""
    *given, polygons, gt_polygons, lowest, agnostic = arguments
    sides = PolygonSet(*polygons), PolygonSet(*gt_polygons)
    return MatchBatch(**dict(zip(_BATCH_FIELDS, given))), sides, lowest, agnostic


def _pairs_on_cpu(*arguments: Any) -> Found:
    pairs, checked = _polygon_areas_cpu.search(*_given(arguments), access_on(torch.device("cpu")))
    return _polygon_areas_cpu.found(pairs, checked, list(map(definition.areas_of, checked)), torch.tensor(NO_ERROR))


def _pairs_on_cuda(*arguments: Any) -> Found:
    batch, sides, lowest, agnostic = _given(arguments)
    device = check_one_device({
        "labels": batch.labels, "gt_labels": batch.gt_labels, "gt_flags": batch.gt_flags, "polygons": arguments[6],
        "gt_polygons": arguments[7], "counts": [c for c in (batch.counts, batch.gt_counts) if c is not None],
    })  # fmt: skip
    access, firsts = access_on(device), first_rows(batch.lengths)
    rows = [int(n) for n in firsts[:2, -1]]
    with launching(device) as stream:
        given, checked = columns(batch, rows, access), _polygon_areas_cpu.check_sides(sides, rows, access)
        table = to_device(torch.from_numpy(firsts), device)
        search = Search(given, _polygon_areas_cpu.side_words(checked, access), lowest, agnostic)
        launch = native.function("valor_cuda", "valor_polygon_pairs_cuda", "pqp")
        pairs = find(search, firsts, table, access, launch, stream)
        error = torch.full((), NO_ERROR, device=device)
        return _polygon_areas_cpu.found(pairs, checked, list(map(definition.areas_of, checked)), error)


def _pairs_by_reference(*arguments: Any) -> Found:
    return definition.run(*_given(arguments), arguments[6][0].device)


def _pairs_fake(*arguments: Any) -> Found:
    return fake(arguments[6][0])


_PAIRS = register(
    "polygon_pairs(Tensor[] labels, Tensor[] gt_labels, Tensor[] gt_flags, Tensor lengths, Tensor? counts,"
    " Tensor? gt_counts, Tensor[] polygons, Tensor[] gt_polygons, float lowest, bool agnostic)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=_pairs_by_reference,
    fake=_pairs_fake,
    cpu=cpp(_pairs_on_cpu),
    cuda=cuda(_pairs_on_cuda),
)
