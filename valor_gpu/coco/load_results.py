"""Result objects of ``COCO.loadRes``: what they describe, and the annotations that pycocotools makes of them."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.ids import members
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_json import load_json
from valor_gpu.inputs._coco_records import BIT, shown
from valor_gpu.inputs._coco_values import ImageSizes, keep_keypoints
from valor_gpu.inputs.coco import MADE, Annotations, Dataset, detections, read_result_rows, result_rows
from valor_gpu.inputs.coco_ids import aligned, row_ids
from valor_gpu.inputs.files import InputFile, source_name

Object = dict[str, Any]


class SourceFile(NamedTuple):
    """A JSON file that has been read as columns and may be read again as objects."""

    path: str
    # Device-wide number, size in bytes, time of change in nanoseconds; None of what can be read only once.
    stamp: tuple[int, int, int] | None

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> SourceFile:
        """The file at ``path`` as it is now."""
        file = InputFile(path)
        if file.is_stream:
            return cls(file.path, None)
        status = os.stat(file.path)
        return cls(file.path, (status.st_ino, status.st_size, status.st_mtime_ns))

    def load(self) -> Any:
        """The objects; raises when they may not be those that the columns came from."""
        if self.stamp is None:
            raise InputError(f"{source_name(self.path)} must be a file for its objects to be read")
        if SourceFile.at(self.path) != self:
            raise InputError(f"{self.path} must be as it was when it was loaded but has changed: load it again")
        return load_json(self.path)


def read_results(source: Any) -> tuple[Annotations, SourceFile | list[Object] | None]:
    """Results as rows, and what objects can be made from."""
    if isinstance(source, (str, os.PathLike)):
        file = SourceFile.at(source)
        return read_result_rows(source), file
    if isinstance(source, np.ndarray):
        announce_array(source)
        return result_rows(source), None
    return result_rows(source), source


def announce_array(data: NDArray[Any]) -> None:
    """What pycocotools prints while it turns an array into objects."""
    print("Converting ndarray to lists...")
    print(data.shape)
    for row in range(0, len(data), 1_000_000):
        print(f"{row}/{len(data)}")


def on_dataset(data: Dataset, rows: Annotations) -> tuple[Dataset, Annotations]:
    """A dataset and results on it with common codes of ids; raises unless every row belongs to one of the images."""
    rows.require("image_id")
    data, rows = aligned(data, rows)
    image_ids = data.image_ids
    starts = np.flatnonzero(np.diff(rows.image_id, prepend=~rows.image_id[:1]))  # results come image by image
    unknown = ~members(rows.image_id[starts], image_ids)
    if unknown.any():
        row = int(starts[unknown.argmax()])
        none = "" if len(image_ids) else ": the ground truth lists no images"
        raise InputError(
            f"Results do not correspond to current coco set: {rows.place(row)}.image_id must be the id of one of the"
            f" {len(image_ids)} images but got {shown(row_ids(rows, 'image_id', [row])[0])}{none}"
        )
    return data, rows


def kind_of_results(rows: Annotations) -> str:
    """What the first result describes, by the same precedence as pycocotools."""
    kinds = ("caption", "bbox", "rotated", "segmentation", "keypoints")
    found = [kind for kind in kinds if rows.has(kind)[:1].any()]
    return found[0] if found else "bbox"


def annotations_of_results(kind: str, rows: Annotations, images: ImageSizes | None) -> Annotations:
    """Results as annotations: with the box and the area of what they describe, and ids and crowd flags besides.

    Args:
        kind: ``bbox``, ``rotated``, ``segmentation`` or ``keypoints``.
        rows: the results; those with masks keep the boxes that they have.
        images: sizes of the images, for masks given as polygons.

    Raises:
        InputError: a record lacks what the first describes, or it is no such thing.
    """
    rows = replace(rows, images=images)
    if kind == "bbox":
        return detections(rows)
    if kind == "rotated":
        return _rotated(rows)
    rows.require("image_id", "category_id", kind)
    every = np.arange(len(rows))
    if kind == "segmentation":
        from valor_gpu.inputs.coco_masks import measure_masks

        measures = measure_masks(rows, every)
        area = measures.areas.astype(np.float64)
        boxes = np.where(rows.has("bbox")[:, None], rows.bbox, measures.boxes)
    else:
        values, boxes = keep_keypoints(rows.values, len(rows), rows.where)
        rows = replace(rows, values=values)
        area = boxes[:, 2] * boxes[:, 3]
    around = not rows.has("bbox").all()
    return detections(replace(rows, bbox=boxes, area=area, present=rows.present | BIT["bbox"], around=around))


def _rotated(rows: Annotations) -> Annotations:
    """Results with rotated boxes as annotations; one without such a box has no area, and may have a polygon."""
    from valor_gpu.inputs.coco_rotated import read_rotated, rotated_areas

    rows.require("image_id", "category_id")
    chosen = np.flatnonzero(rows.has("rotated"))
    area = rows.area.copy()
    area[chosen] = rotated_areas(read_rotated(rows, chosen))
    return replace(rows, area=area, present=rows.present | MADE)


def objects_of_rows(rows: Annotations) -> list[Object]:
    """The result objects that rows stand for."""
    images, categories = row_ids(rows, "image_id"), row_ids(rows, "category_id")
    values = zip(images, rows.bbox.tolist(), rows.score.tolist(), categories)
    return [{"image_id": i, "bbox": b, "score": s, "category_id": c} for i, b, s, c in values]


def with_box(number: int, result: Object) -> Object:
    """A result with a box as an annotation: corners as segmentation unless it has one."""
    x, y, width, height = result["bbox"]
    right, bottom = x + width, y + height
    corners = [[x, y, x, bottom, right, bottom, right, y]]
    return {"segmentation": corners, **result, "area": width * height, "id": number, "iscrowd": 0}


def _with_mask(number: int, result: Object, rows: Annotations) -> Object:
    """A result with a mask as an annotation: the area of the mask, and its box unless the result has one."""
    area, box = int(rows.area[number - 1]), rows.bbox[number - 1].tolist()
    return {"bbox": box, **result, "area": area, "id": number, "iscrowd": 0}


def _with_keypoints(number: int, result: Object) -> Object:
    """A result with keypoints as an annotation: the box around them all."""
    xs, ys = result["keypoints"][0::3], result["keypoints"][1::3]
    x, y, width, height = min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
    return {**result, "area": width * height, "id": number, "bbox": [x, y, width, height]}


def annotation_objects(kind: str, results: Sequence[Object], rows: Annotations) -> list[Object]:
    """The annotations that pycocotools makes of results, which are not changed; see :func:`annotations_of_results`."""
    if kind == "segmentation":
        return [_with_mask(number, result, rows) for number, result in enumerate(results, 1)]
    if kind == "rotated":
        more = zip(results, rows.area.tolist())
        return [{**result, "area": area, "id": n, "iscrowd": 0} for n, (result, area) in enumerate(more, 1)]
    prepare = with_box if kind == "bbox" else _with_keypoints
    return [prepare(number, result) for number, result in enumerate(results, 1)]


def dataset_of_captions(results: Sequence[Object], ground_truth: Object) -> Object:
    """The dataset that pycocotools makes of captions, on dataset ``ground_truth``."""
    dataset = result_dataset([{**result, "id": number} for number, result in enumerate(results, 1)], ground_truth)
    described = {result["image_id"] for result in results}
    dataset["images"] = [image for image in dataset["images"] if image["id"] in described]
    dataset.pop("categories", None)
    return dataset


def result_dataset(annotations: list[Object], ground_truth: Object) -> Object:
    """A dataset of ``annotations`` with the images, categories and info of ``ground_truth``."""
    dataset: Object = {
        "info": copy.deepcopy(ground_truth.get("info", {})),
        "images": list(ground_truth.get("images", ())),
    }
    if "categories" in ground_truth:
        dataset["categories"] = copy.deepcopy(ground_truth["categories"])
    return {**dataset, "annotations": annotations}
