"""Shards of COCO JSON: ground truths and detections of the same images; a row is an image. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_values import read_keypoints
from valor_gpu.inputs.coco import Annotations, Dataset, read_ground_truth, read_result_rows
from valor_gpu.inputs.coco_ids import aligned, row_ids
from valor_gpu.inputs.missing_fields import areas_of, count_missing, keypoints_of
from valor_gpu.inputs.text_ids import shown_ids
from valor_gpu.offline.chunks import Chunk
from valor_gpu.offline.shards import Shard


def read_coco(shard: Shard, columns: Sequence[str], batch_size: int) -> Iterator[Chunk]:
    """The images in the order of their ids, as pycocotools takes them. Both files are read whole.

    Args:
        shard: ``ground_truth`` and ``detections``.
        columns: of :data:`valor_gpu.offline.config.TASKS`' detection; ``masks`` come as COCO writes them.
        batch_size: images of a chunk.
    """
    truth, found = aligned(read_ground_truth(shard.files["ground_truth"]), read_result_rows(shard.files["detections"]))
    truth.annotations.require("image_id", "category_id", *(("bbox",) if "gt_boxes" in columns else ()))
    boxed = "boxes" in columns and "keypoints" not in columns  # else the extent of keypoints stands for a box
    found.require("image_id", "category_id", "score", *(("bbox",) if boxed else ()))
    for each in (truth.annotations, found):
        _check_listed(each, truth)
    ids = np.unique(truth.image_ids)
    sides = (_Side(truth.annotations, ids, "gt_keypoints" in columns), _Side(found, ids))
    shown = shown_ids(ids, truth.annotations.texts.image_id)
    numbers = [image_number(image) if isinstance(image, str) else image for image in shown]
    for begin in range(0, len(ids), batch_size):
        rows = range(begin, min(begin + batch_size, len(ids)))
        places = [f"{truth.where}, image {shown[row]}" for row in rows]
        made = {name: _column(name, rows, ids, sides, truth) for name in columns if name != "image_id"}
        made |= {"image_id": [numbers[row] for row in rows]} if "image_id" in columns else {}
        classes, texts = ({}, {}) if begin else (_classes(truth), _texts(truth, dict(zip(numbers, shown))))
        missing = {} if begin else count_missing(truth.annotations, sides[0].keypoints)
        yield Chunk(places, made, classes=classes, texts=texts, missing=missing)


def image_number(text: str) -> int:
    """63 bits of a hash of an image id.

    Example:
        >>> image_number("img_1") == image_number("img_1"), image_number("img_1") == image_number("img_2")
        (True, False)
    """
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _classes(truth: Dataset) -> dict[str, str]:
    """Label to name; to the id itself where ids are texts, since shards with other ones must not count together."""
    texts = truth.annotations.texts.category_id
    if texts is not None:
        return {str(label): text for label, text in enumerate(texts.texts)}
    return {str(each["id"]): str(each["name"]) for each in truth.categories if "name" in each}


def _texts(truth: Dataset, images: Mapping[int, Any]) -> dict[str, dict[str, str]]:
    """What image numbers and labels stand for where ids are texts."""
    image_id, category_id = truth.annotations.texts
    found = {} if image_id is None else {"image_id": {str(number): text for number, text in images.items()}}
    return found if category_id is None else {**found, "category_id": _classes(truth)}


def _check_listed(rows: Annotations, truth: Dataset) -> None:
    """Raises for a row of a category that is not listed where ids are texts, which has no label of its own then."""
    if rows.texts.category_id is None:
        return
    listed = np.isin(rows.category_id, truth.category_ids)
    if not listed.all():
        row = int(listed.argmin())
        got = row_ids(rows, "category_id", [row])[0]
        raise InputError(f"{rows.place(row)}.category_id must be an id that {truth.where} lists but got {got!r:.60}")


class _Side:
    """Annotations or detections by image.

    Args:
        rows: all of them.
        ids: of the images, ascending.
        keypoints: of ground truths, whether their keypoints are compared.

    Raises:
        InputError: a row is of another image.
    """

    def __init__(self, rows: Annotations, ids: NDArray[np.int64], keypoints: bool = False) -> None:
        self.rows, self.keypoints = rows, keypoints
        order = np.argsort(rows.image_id, kind="stable")
        place = np.searchsorted(ids, rows.image_id)
        known = np.zeros(len(rows), bool) if not len(ids) else ids[np.minimum(place, len(ids) - 1)] == rows.image_id
        if not known.all():
            row = int(known.argmin())
            raise InputError(
                f"{rows.place(row)} must be of an image of its shard but is of {row_ids(rows, 'image_id', [row])[0]}"
            )
        self.order = order
        self.ends = np.searchsorted(rows.image_id[order], ids, side="right")
        self.boxed = rows.has("bbox")

    def of(self, image: int) -> NDArray[np.int64]:
        """The rows of an image, in the order of the file."""
        return self.order[self.ends[image - 1] if image else 0 : self.ends[image]]


def _column(name: str, images: range, ids: NDArray[np.int64], sides: tuple[_Side, _Side], truth: Dataset) -> list[Any]:
    if name == "size":
        sizes = truth.annotations.images
        return [[0, 0]] * len(images) if sizes is None else sizes.of(ids[images.start : images.stop]).tolist()
    is_truth = name in ("gt_boxes", "gt_labels", "gt_masks", "gt_keypoints", "iscrowd", "area")
    side = sides[0 if is_truth else 1]
    if name == "area":
        return [areas_of(side.rows, side.of(image), side.keypoints) for image in images]
    if name == "gt_keypoints":
        return [keypoints_of(side.rows, side.of(image)) for image in images]
    if name == "boxes":
        return [_boxes(side, side.of(image)) for image in images]
    return [_value(name.removeprefix("gt_"), side.rows, side.of(image)) for image in images]


def _boxes(side: _Side, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Boxes of detections; of keypoints without one the extent, as ``loadRes`` of pycocotools has it."""
    boxes = side.rows.bbox[chosen]
    bare = np.flatnonzero(~side.boxed[chosen])
    if len(bare):
        points = _value("keypoints", side.rows, chosen[bare])[:, :, :2]
        low = points.min(1)
        boxes[bare] = np.concatenate([low, points.max(1) - low], 1)
    return boxes


_ARRAYS = {"boxes": "bbox", "labels": "category_id", "scores": "score", "iscrowd": "iscrowd"}
_VALUES = {"masks": "segmentation"}


def _value(name: str, rows: Annotations, chosen: NDArray[np.int64]) -> Any:
    if name in _ARRAYS:
        return getattr(rows, _ARRAYS[name])[chosen]
    if name == "keypoints":
        return read_keypoints(rows.values, chosen, rows.where)
    listed = [None if rows.values is None else rows.values.value(_VALUES[name], int(row)) for row in chosen]
    for row, value in zip(chosen, listed):
        if value is None:
            raise InputError(f"{rows.place(int(row))} must have {_VALUES[name]} but has none")
    return listed
