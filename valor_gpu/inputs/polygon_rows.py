"""Polygons as users hold them, to one :class:`MatchBatch` and the polygons of all images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.boxes import read_batch
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.polygon_sets.op import PolygonSet


def polygon_batch(preds: Any, target: Any) -> tuple[MatchBatch, tuple[PolygonSet, PolygonSet]]:
    """Reads a batch given as two lists of dicts, one per image.

    ``preds[i]`` holds ``polygons``, ``scores [D]``, ``labels [D]``; ``target[i]`` holds ``polygons``, ``labels [G]``
    and optionally ``iscrowd [G]``, ``area [G]`` and ``image_id``. ``polygons`` has an item for each label, in a list as
    :meth:`PolygonSet.of` takes it, or is a :class:`PolygonSet`; both are on the host.

    Args:
        preds: the detections.
        target: the ground truths.

    Raises:
        InputError: naming the image, key and item, what is needed and what came.
    """
    for side, items in (("preds", preds), ("target", target)):
        if isinstance(items, Mapping):
            raise InputError(
                f"{side} must be a sequence of dicts, one per image, but got dict: polygons come as lists, only boxes"
                " may be padded"
            )
    batch = read_batch(preds, target, None)
    sizes = batch.lengths.tolist()
    return batch, (_joined(preds, "preds", sizes[0]), _joined(target, "target", sizes[1]))


def _joined(items: Sequence[Any], side: str, sizes: Sequence[int]) -> PolygonSet:
    return PolygonSet.join([_of_image(item, f"{side}[{i}]", n) for i, (item, n) in enumerate(zip(items, sizes))])


def _of_image(item: Any, place: str, count: int) -> PolygonSet:
    if "polygons" not in item:
        raise InputError(f"{place} must have key 'polygons' but has {sorted(item)}")
    given, name = item["polygons"], f"{place}['polygons']"
    check_type(name, given, (PolygonSet, list, tuple))
    if len(given) != count:
        raise InputError(f"{name} must have one item for each of the {count} labels but has {len(given)}")
    return given if isinstance(given, PolygonSet) else PolygonSet.of(given, name)
