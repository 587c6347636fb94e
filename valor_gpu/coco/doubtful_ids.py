"""Ids that are 0 or repeat, and fields that are missing: how many there are, and what to say of them. No torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.coco.doubtful_values import WAY_OUT
from valor_gpu.coco.match_layout import lacks
from valor_gpu.inputs._coco_records import count_repeats

if TYPE_CHECKING:
    from valor_gpu.coco.geometry import Geometry
    from valor_gpu.coco.layout import Layout, Side
    from valor_gpu.inputs.coco import Annotations, Dataset


def count_ids_of_dataset(ground_truths: Dataset, detections: Any) -> dict[str, int]:
    """Counts doubtful ids of columns.

    Args:
        ground_truths: the whole set.
        detections: ids of those on it, int64 ``[N]``.

    Returns:
        Ground truths of id 0, and ground truths, images and categories with the id of an earlier one; of detections,
        whose ids are mostly those that ``loadRes`` gives, what there is.
    """
    return {
        "ground_truths_of_id_0": _zeros(ground_truths.annotations),
        "ground_truths_of_repeated_id": ground_truths.annotations.repeated_ids,
        "images_of_repeated_id": count_repeats(ground_truths.image_ids),
        "categories_of_repeated_id": count_repeats(ground_truths.category_ids),
        **_of_detections(detections),
    }


def count_ids(ground_truth: Any, detections: Any, layout: Layout | None) -> dict[str, int]:
    """As :func:`count_ids_of_dataset`, of COCO objects, ours or pycocotools'.

    Args:
        ground_truth: the whole set.
        detections: those on it.
        layout: what was evaluated of them; None where steps of single cells were.
    """
    columns = getattr(ground_truth, "_columns", None)
    if columns is not None and layout is not None:
        return count_ids_of_dataset(columns, _ids(detections, layout.detections))
    objects = ground_truth.dataset.get("annotations", ())
    zeros = sum(a.get("id") == 0 for a in objects)
    if layout is not None:
        zeros = int((_ids(ground_truth, layout.ground_truths) == 0).sum())
    ids = [a.get("id", 1) for a in detections.dataset.get("annotations", ())] if layout is None else None
    return {
        "ground_truths_of_id_0": zeros,
        "ground_truths_of_repeated_id": _listed_again(ground_truth, "annotations", "anns"),
        "images_of_repeated_id": _listed_again(ground_truth, "images", "imgs"),
        "categories_of_repeated_id": _listed_again(ground_truth, "categories", "cats"),
        **_of_detections(np.array(ids, np.int64) if layout is None else _ids(detections, layout.detections)),
    }


def _ids(coco: Any, side: Side) -> Any:
    """int64 ``[N]``: ids of the whole set, or of the rows of a side where ``coco`` read no others as columns."""
    in_part = hasattr(coco, "_columns") and coco._columns is None
    return side.take("id") if in_part else side.columns.id


def _zeros(rows: Annotations) -> int:
    return len(rows) - int(np.count_nonzero(rows.id))


def _of_detections(ids: Any) -> dict[str, int]:
    """Counts above 0 of ids of detections, int64 ``[N]``: those of ``loadRes`` ascend from 1 on."""
    found = {
        "detections_of_id_0_or_below": int((ids <= 0).sum()),
        "detections_of_repeated_id": count_repeats(ids),
    }
    return {name: count for name, count in found.items() if count}


def _listed_again(coco: Any, part: str, index: str) -> int:
    """How many objects of a part of a dataset have the id of an earlier one; quick where the index has as many."""
    objects, known = coco.dataset.get(part, ()), getattr(coco, index, None)
    if known is not None and len(known) == len(objects):
        return 0
    return len(objects) - len({each.get("id") for each in objects})


def count_completed(layout: Layout, geometry: Geometry) -> dict[str, int]:
    """Counts the ground truths for which the corrected convention took what a field that they lack should hold."""
    if geometry.strict:
        return {}
    return {
        f"ground_truths_without_{name}": int(lacks(layout.ground_truths, name, geometry).sum())
        for name in ("iscrowd", "area")
        if name not in geometry.unread
    } | geometry.counted(layout.ground_truths)


_STANDS = "the id of an earlier one: the last one with an id stands in for the others, as in pycocotools"
_STRICT_SENTENCES = {
    "ground_truths_of_id_0": (
        "ground truth",
        "id 0: a detection that matches it counts as a false positive, as in pycocotools",
    ),
    "ground_truths_of_repeated_id": ("ground truth", _STANDS),
    "detections_of_id_0_or_below": (
        "detection",
        "an id of 0 or below: the ground truth that it matches stays free for others, as in pycocotools",
    ),
    "detections_of_repeated_id": ("detection", _STANDS),
}
_SENTENCES = {
    "images_of_repeated_id": ("image", "the id of an earlier one: the last one counts"),
    "categories_of_repeated_id": ("category", "the id of an earlier one: the last one counts"),
}
_MANY = {"category": "categories"}


def describe_ids(counts: Mapping[str, int], strict: bool, way_out: str = WAY_OUT) -> list[str]:
    """One sentence for each kind of doubtful ids that there are and that matter.

    Args:
        counts: those of :func:`count_ids`, and others.
        strict: the convention; the other one takes every annotation as itself.
        way_out: how it is asked for.

    Example:
        >>> describe_ids({"images": 5, "images_of_repeated_id": 2}, True)
        ['2 images have the id of an earlier one: the last one counts']
    """
    found = _told(counts, _STRICT_SENTENCES) if strict else []
    return [*(f"{text}; {way_out} avoids this" for text in found), *_told(counts, _SENTENCES)]


def _told(counts: Mapping[str, int], sentences: Mapping[str, tuple[str, str]]) -> list[str]:
    return [
        f"{counts[name]:,} {what} has {text}"
        if counts[name] == 1
        else f"{counts[name]:,} {_MANY.get(what, what + 's')} have {text}"
        for name, (what, text) in sentences.items()
        if counts.get(name)
    ]


def warn_of_ids(counts: Mapping[str, int], strict: bool, stacklevel: int) -> None:
    """Warns once of all doubtful ids that matter, and names the argument that asks for the other convention.

    Args:
        counts: those of :func:`count_ids`.
        strict: the convention.
        stacklevel: of the caller's caller, as :func:`warnings.warn` counts.
    """
    found = describe_ids(counts, strict)
    if found:
        warnings.warn("; ".join(found), UserWarning, stacklevel=stacklevel + 1)


def without_harmless(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts without those of ids 0, which CrowdPose's protocol takes like any other."""
    return {name: count for name, count in counts.items() if name != "ground_truths_of_id_0"}
