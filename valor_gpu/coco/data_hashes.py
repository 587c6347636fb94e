"""Hashes of the annotations and detections that an evaluation took, and what differs from its protocol. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.params import Params
from valor_gpu.coco.protocols import PROTOCOLS
from valor_gpu.digests import DataHashes
from valor_gpu.provenance import differences
from valor_gpu.result import grid_choice
from valor_gpu.row_digests import id_words, multiset_hash, text_words

if TYPE_CHECKING:
    from valor_gpu.coco.layout import Layout, Side
    from valor_gpu.inputs.coco import Dataset

_TEXTS = {"segm": "segmentation", "boundary": "segmentation", "rotated": "rotated"}
"""Types whose geometry is hashed as its JSON text."""


def annotation_hashes(layout: Layout, iou_type: str, images: Sequence[Any], more: str = "") -> DataHashes:
    """Returns the hashes of the rows that were evaluated, in any order.

    A detection counts with the ids of its image and category, its score and what ``iou_type`` compares: ``bbox``, or
    the text of ``segmentation``, ``keypoints`` or rotated ``bbox`` in the file without white space. A ground truth
    counts with the ids of its image and category, likewise its geometry, its area, ``iscrowd`` and ``ignore``; the ids
    of all images that were evaluated belong to it. Ids of annotations, names and other fields count not.

    Args:
        layout: the rows.
        iou_type: of the evaluation.
        images: ids of the images that were evaluated.
        more: a hash of what else is true.

    Raises:
        InputError: the file that masks or keypoints are in has changed since.
    """
    seen = sorted(str(number) for number in images)
    truths = {**_columns(layout.ground_truths, iou_type), **_flags(layout.ground_truths)}
    detections = {**_columns(layout.detections, iou_type), "score": layout.detections.take("score")}
    truth = multiset_hash("annotations", truths, iou_type, hashlib.sha256(repr(seen).encode()).hexdigest(), more)
    return DataHashes("annotations", truth, multiset_hash("detections", detections, iou_type))


def _columns(side: Side, iou_type: str) -> dict[str, NDArray[Any]]:
    """What both sides have."""
    columns: dict[str, NDArray[Any]] = {}
    for name in ("image_id", "category_id"):
        texts = getattr(side.columns.texts, name)
        columns[name] = id_words(side.take(name), None if texts is None else texts.texts)
    keypoints = iou_type.startswith("keypoints")
    if iou_type == "bbox" or keypoints or side.columns.corners:
        columns["bbox"] = side.take("bbox")
    field = "keypoints" if keypoints else _TEXTS.get(iou_type)
    if field is not None and side.columns.values is not None:
        rows = np.arange(len(side.columns)) if side.rows is None else side.rows
        with side.columns.values.texts(field, rows) as (data, places):
            columns[field] = text_words(data, places)
    return columns


def _flags(side: Side) -> dict[str, NDArray[Any]]:
    return {name: side.take(name) for name in ("area", "iscrowd", "ignore")}


def federated_hash(data: Dataset, images: Iterable[Any]) -> str:
    """Returns the hash of the lists of LVIS's images: categories that are not there, or not all of which are marked."""
    wanted, rows = set(images), []
    for image in data.images or ():
        if image["id"] in wanted:
            lists = [sorted(map(str, image.get(name) or ())) for name in _LISTS]
            rows.append(repr((str(image["id"]), *lists)))
    return hashlib.sha256("\n".join(sorted(rows)).encode(errors="surrogatepass")).hexdigest()


_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")


def coco_deviations(params: Any, convention: str, known: tuple[int, int]) -> list[str]:
    """Returns what an evaluation has that is no default of its protocol, by the names of pycocotools.

    Args:
        params: that were taken.
        convention: of the evaluation.
        known: how many images and categories the ground truth has.
    """
    pairs = [
        {
            "iouThrs": _grid(p.iouThrs),
            "recThrs": _grid(p.recThrs),
            "maxDets": [int(limit) for limit in p.maxDets],
            "areaRng": _ranges(p.areaRng, p.areaRngLbl),
            "useCats": int(bool(p.useCats)),
            **({"kpt_oks_sigmas": _grid(p.kpt_oks_sigmas)} if PROTOCOLS[p.iouType].sigmas else {}),
            **({"use_area": bool(p.use_area)} if p.iouType == "keypoints_crowd" else {}),
            "boundary_dilation_ratio": p.boundary_dilation_ratio,
        }
        for p in (params, Params(params.iouType))
    ]
    chosen = {"imgIds": (params.imgIds, known[0]), "catIds": (params.catIds, known[1])}
    return _told(pairs[0], pairs[1], convention, chosen)


def lvis_deviations(params: Any, convention: str, limit: int, known: tuple[int, int]) -> list[str]:
    """Returns what an evaluation has that is no default of LVIS, by the names of lvis-api.

    Args:
        params: :class:`valor_gpu.coco.LVISParams`.
        convention: of the evaluation.
        limit: of detections of an image.
        known: how many images and categories the ground truth has.
    """
    row = PROTOCOLS["lvis"]
    used = {
        "iou_thrs": _grid(params.iou_thrs),
        "rec_thrs": _grid(params.rec_thrs),
        "max_dets": int(limit),
        "area_rng": _ranges(params.area_rng, params.area_rng_lbl),
        "use_cats": int(bool(params.use_cats)),
    }
    usual = {
        "iou_thrs": _grid(row.threshold_grid()),
        "rec_thrs": _grid(row.recall_grid()),
        "max_dets": row.limits[0],
        "area_rng": _ranges(row.area_ranges(), row.area_names()),
        "use_cats": 1,
    }
    return _told(
        used, usual, convention, {"img_ids": (params.img_ids, known[0]), "cat_ids": (params.cat_ids, known[1])}
    )


def _told(
    used: Mapping[str, Any], usual: Mapping[str, Any], convention: str, chosen: Mapping[str, tuple[Sequence[Any], int]]
) -> list[str]:
    found = differences({**used, "convention": convention}, {**usual, "convention": "strict"})
    parts = {name: (len(set(ids)), number) for name, (ids, number) in chosen.items()}
    return found + [f"{name} has {few:,} instead of all {many:,}" for name, (few, many) in parts.items() if few != many]


def _grid(values: Any) -> str | list[float]:
    return grid_choice(np.asarray(values, np.float64).reshape(-1).tolist())


def _ranges(ranges: Any, names: Any) -> list[str]:
    return [f"{name} {low:g}-{high:g}" for name, (low, high) in zip(names, ranges)]
