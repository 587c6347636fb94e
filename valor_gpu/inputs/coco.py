"""COCO ground truth and results as numpy columns, from JSON files or from Python objects.

Files are read by the native scanner (``csrc/cpu/coco_json.cpp``), which makes no Python object for a record. Without
the native library, of which ``valor_gpu.native.reason("valor_cpu")`` tells, :mod:`json` reads them into equal columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs import _coco_scan
from valor_gpu.inputs._coco_json import load_json
from valor_gpu.inputs._coco_records import (
    BIT,
    RECORD_FIELDS,
    SIZES,
    TEXT_COLUMNS,
    Columns,
    box_areas,
    check_array,
    check_keys,
    check_no_dataset,
    columns_from_records,
    shown,
    wrong_value,
)
from valor_gpu.inputs._coco_values import TEXTS, FileValues, ImageSizes, ObjectValues, Values
from valor_gpu.inputs.coco_columns import Annotations as Annotations
from valor_gpu.inputs.coco_columns import Dataset as Dataset
from valor_gpu.inputs.coco_ids import joined, texts_of
from valor_gpu.inputs.files import Path, source_name
from valor_gpu.inputs.text_ids import IdTexts

_ALL_FIELDS = (*RECORD_FIELDS, "num_keypoints")
_REQUIRED = ("image_id", "category_id", "bbox", "score")  # of results with boxes
_RESULT_FIELDS = (*_REQUIRED, "segmentation", "keypoints", "caption")


def read_ground_truth(path: Path, *, threads: int | None = None, images: bool = False) -> Dataset:
    """Columns of a COCO annotation file.

    Args:
        path: a JSON object with ``images``, ``annotations`` and ``categories``, each optional; plain or
            gzip-compressed, ``-`` for standard input.
        threads: how many to use; default: all CPUs of this process.
        images: keep the image objects.

    Raises:
        InputError: not JSON, or a value of the wrong type; says where. Annotations need ``id`` and ``image_id``, and
            ``category_id`` when the file has categories; what evaluation needs besides, it asks for itself.
    """
    if not native.usable("valor_cpu"):
        return columns_from_dataset(load_json(path), source_name(path), images)
    with _coco_scan.JsonFile.open(path, threads=threads or native.threads()) as file:
        return _scan_dataset(file, images)


def read_results(path: Path, *, threads: int | None = None) -> Annotations:
    """Columns of a COCO results file with boxes.

    Args:
        path: a JSON array of objects with ``image_id``, ``category_id``, ``bbox`` and ``score``; plain or
            gzip-compressed, ``-`` for standard input.
        threads: how many to use; default: all CPUs of this process.

    Raises:
        InputError: not JSON, a value of the wrong type, or a missing key; says where.
    """
    rows = read_result_rows(path, threads=threads)
    rows.require(*_REQUIRED)
    return detections(rows)


def read_result_rows(path: Path, *, threads: int | None = None) -> Annotations:
    """As :func:`read_results`, but any key may be absent."""
    if not native.usable("valor_cpu"):
        return result_rows(load_json(path), f"{source_name(path)}: ")
    with _coco_scan.JsonFile.open(path, threads=threads or native.threads()) as file:
        return _scan_results(file)


def columns_from_dataset(dataset: Mapping[str, Any], where: str = "dataset", images: bool = False) -> Dataset:
    """As :func:`read_ground_truth`, from the object that the file holds.

    Args:
        dataset: an object as ``json.load`` gives it; numbers may be numpy's or torch's.
        where: what messages call it.
        images: keep the image objects.
    """
    if not isinstance(dataset, Mapping):
        raise InputError(f"{where} must be an object with images, annotations and categories but got {shown(dataset)}")
    check_keys(where, dataset)
    parts: dict[str, Any] = {}
    for name, fields in _DATASET_FIELDS.items():
        records = dataset.get(name, ())
        check_array(f"{where}: {name}", records)
        parts[name] = columns_from_records(records, f"{where}: {name}", fields)
    values = {name: ObjectValues(dataset.get(name, ())) for name in ("images", "annotations")}
    whole = _dataset(parts, values, list(dataset.get("categories", ())), "categories" in dataset, where)
    return replace(whole, images=list(dataset.get("images", ()))) if images else whole


def columns_from_results(results: Sequence[Mapping[str, Any]] | NDArray[Any], where: str = "results") -> Annotations:
    """As :func:`read_results`, from a list of objects or an array.

    Args:
        results: objects with ``image_id``, ``category_id``, ``bbox`` and ``score``, or an integer or floating array
            ``[N, 7]`` with the columns image_id, x, y, width, height, score, category_id.
        where: what messages call it.

    Example:
        >>> columns_from_results(np.array([[7, 0, 0, 4, 5, 0.5, 1]])).bbox.tolist()
        [[0.0, 0.0, 4.0, 5.0]]
    """
    rows = result_rows(results, where)
    rows.require(*_REQUIRED)
    return detections(rows)


def result_rows(results: Sequence[Mapping[str, Any]] | NDArray[Any], where: str = "results") -> Annotations:
    """As :func:`columns_from_results`, but any key may be absent."""
    if isinstance(results, np.ndarray):
        return _rows_of_array(results, where)
    if isinstance(results, Mapping):
        check_no_dataset(where.rstrip(": "), [str(key) for key in results])
    check_array(where, results)
    columns = columns_from_records(results, where, _RESULT_FIELDS)
    rows = replace(_annotations(columns, where), values=ObjectValues(results))
    has = rows.has("bbox")
    rows.area[has] = box_areas([record["bbox"] for record, it_has in zip(results, has) if it_has], rows.bbox[has])
    return rows


def detections(rows: Annotations) -> Annotations:
    """Results with boxes as annotations, which have ids, areas and crowd flags besides.

    Raises:
        InputError: a record lacks ``image_id``, ``category_id`` or ``bbox``.
    """
    rows.require(*_REQUIRED[:3])
    return replace(rows, present=rows.present | MADE, corners=True)


MADE = BIT["id"] | BIT["area"] | BIT["iscrowd"]
"""What annotations have besides, of results."""


_DATASET_FIELDS: dict[str, tuple[str, ...]] = {
    "images": ("id",),
    "annotations": RECORD_FIELDS,
    "categories": ("id",),
}


def _scan_dataset(file: _coco_scan.JsonFile, images: bool) -> Dataset:
    parts: dict[str, Any] = {}
    objects: dict[str, list[dict[str, Any]]] = {"images": [], "categories": []}
    values: dict[str, Any] = {}
    keys: list[str] = []

    def read(key: str, at: int) -> int:
        keys.append(key)
        if key == "annotations":
            parts[key], end = file.array(at, _ALL_FIELDS, f"{file.name}: {key}")
            values[key] = FileValues.of_scan(file.file, parts[key])
            return end
        end = file.skip_value(at)
        if key == "images":
            parts[key], _ = file.array(at, ("id", "height", "width"), f"{file.name}: {key}", end)
            values[key] = FileValues.of_scan(file.file, parts[key])
            if images:
                objects[key] = file.value(at)
        elif key == "categories":
            objects[key] = file.value(at)
            check_array(f"{file.name}: {key}", objects[key])
            parts[key] = columns_from_records(objects[key], f"{file.name}: {key}", _DATASET_FIELDS[key])
        return end

    file.finish(file.each_member(file.start, read))
    check_keys(file.name, keys)
    has_categories = "categories" in parts
    for name, fields in _DATASET_FIELDS.items():
        parts.setdefault(name, columns_from_records((), name, fields))
    whole = _dataset(parts, values, objects["categories"], has_categories, file.name)
    return replace(whole, images=objects["images"]) if images else whole


def _scan_results(file: _coco_scan.JsonFile) -> Annotations:
    where = f"{file.name}: "
    check_no_dataset(file.name, file.keys())
    columns, end = file.array(file.start, _RESULT_FIELDS, where)
    file.finish(end)
    values = FileValues.of_scan(file.file, columns)
    return replace(_annotations(columns, where), values=values)


def _dataset(
    parts: Mapping[str, Columns], values: Mapping[str, Values | None], categories: list[Any], has_categories: bool,
    where: str,
) -> Dataset:  # fmt: skip
    for name in ("images", "categories"):
        _annotations(parts[name], f"{where}: {name}").require("id")
    annotations = _annotations(parts["annotations"], f"{where}: annotations")
    annotations.require("id", "image_id", *(["category_id"] if has_categories else []))
    texts = [texts_of(parts[name], "id") for name in ("images", "categories")]
    images = ImageSizes(parts["images"]["id"], values.get("images"), texts[0])
    annotations = replace(annotations, values=values.get("annotations"), images=images)
    return joined(Dataset(images.ids, categories, parts["categories"]["id"], annotations, where), *texts)


def _annotations(columns: Columns, where: str) -> Annotations:
    """Rows of the columns given; the others hold what stands for an absent value, ids 1 .. N."""
    rows = len(columns["present"])
    left_out = (*TEXTS, *SIZES, *TEXT_COLUMNS)
    whole: dict[str, Any] = {name: c for name, c in columns.items() if name not in left_out}
    if "id" not in whole:
        whole["id"] = np.arange(1, rows + 1, dtype=np.int64)
    for name, dtype in (("image_id", np.int64), ("category_id", np.int64), ("iscrowd", np.bool_), ("ignore", np.bool_)):
        if name not in whole:
            whole[name] = np.zeros(rows, dtype)
    for name, shape in (("bbox", (rows, 4)), ("area", (rows,)), ("score", (rows,))):
        if name not in whole:
            whole[name] = np.full(shape, np.nan)
    texts = IdTexts(texts_of(columns, "image_id"), texts_of(columns, "category_id"))
    return Annotations(**whole, where=where, texts=texts)


def _rows_of_array(results: NDArray[Any], where: str) -> Annotations:
    """The columns of an array ``[N, 7]``; areas in its own precision, as pycocotools computes them."""
    if results.ndim != 2 or results.shape[1] != 7 or results.dtype.kind not in "iuf":
        got = f"{results.dtype} {list(results.shape)}"
        raise InputError(f"{where} must be an integer or floating array [N, 7] but got {got}")
    with np.errstate(over="ignore", invalid="ignore"):
        area = results[:, 3] * results[:, 4]
    columns: Columns = {
        "image_id": _whole_numbers(results[:, 0], "image_id", where),
        "category_id": _whole_numbers(results[:, 6], "category_id", where),
        "bbox": results[:, 1:5].astype(np.float64),
        "area": area.astype(np.float64),
        "score": results[:, 5].astype(np.float64),
        "present": np.full(len(results), sum(BIT[f] for f in _REQUIRED), np.uint16),
    }
    return _annotations(columns, where)


def _whole_numbers(values: NDArray[Any], name: str, where: str) -> NDArray[np.int64]:
    """One column as int64; 1.0 is an integer, 1.5, NaN and what 64 bits do not hold are not."""
    if values.dtype.kind == "f":
        fits = (values >= -(2.0**63)) & (values < 2.0**63) & (np.trunc(values) == values)
    else:
        fits = values <= np.iinfo(np.int64).max
    if not fits.all():
        row = int(fits.argmin())
        raise wrong_value(where, row, name, values[row].item(), "a 64-bit integer")
    return values.astype(np.int64)
