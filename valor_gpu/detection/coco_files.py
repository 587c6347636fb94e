"""COCO files written from what a metric holds, and read into what it takes: torchmetrics' two methods."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.detection.coco_documents import documents, written_inputs
from valor_gpu.detection.kept_inputs import KeepsInputs
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_json import load_json
from valor_gpu.inputs._coco_records import shown
from valor_gpu.inputs.coco import (
    Annotations,
    Dataset,
    columns_from_dataset,
    read_ground_truth,
    read_result_rows,
    result_rows,
)
from valor_gpu.inputs.coco_ids import aligned, row_ids
from valor_gpu.inputs.missing_fields import areas_of, count_missing, describe_missing, keypoints_of
from valor_gpu.inputs.text_ids import shown_ids
from valor_gpu.ops.error_codes import raise_error

_KEYS = {"bbox": "bbox", "segm": "segmentation"}
_TARGET_KEYS = {**_KEYS, "keypoints": "keypoints"}
Item = dict[str, Any]


class CocoFiles(KeepsInputs):
    """The methods of torchmetrics' ``MeanAveragePrecision`` that write and read COCO files."""

    def tm_to_coco(self, name: str | os.PathLike[str] = "tm_map_input") -> None:
        """Writes what this process holds as COCO files: ``{name}_preds.json`` and ``{name}_target.json``.

        pycocotools, :class:`valor_gpu.coco.COCO` and ``valor-gpu detect`` read them. Keys are torchmetrics'. Boxes are
        x, y, width, height; masks are compressed run lengths; areas are those of ``target``, else of the masks or
        boxes. Images have their ``image_id`` where all have one (of several with one id, the first is written), else
        their place in order of arrival. Categories are all labels, named by their numbers, also with
        ``average="micro"``.

        Args:
            name: what both paths begin with.

        Raises:
            InputError: boxes or masks of a batch are not kept: ``keep_inputs=False``; masks on CUDA without
                ``keep_inputs=True``; a state from a file or another process, or of a CUDA graph; another
                ``iou_type``. With ``iou_type="bbox"`` and ``extended_summary=True`` states hold boxes, wherever they
                come from. Or an update on CUDA met bad data.
            OSError: a file cannot be written.

        Example:
            >>> import json, tempfile
            >>> from pathlib import Path
            >>> from valor_gpu.detection import MeanAveragePrecision
            >>> box, label = torch.tensor([[1.0, 2.0, 4.0, 6.0]]), torch.tensor([3])
            >>> metric = MeanAveragePrecision()
            >>> metric.update([{"boxes": box, "scores": torch.tensor([0.5]), "labels": label}],
            ...               [{"boxes": box, "labels": label}])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     metric.tm_to_coco(f"{folder}/map")
            ...     json.loads(Path(f"{folder}/map_preds.json").read_text())[0]["bbox"]
            [1.0, 2.0, 3.0, 4.0]
        """
        metric: Any = self
        metric._check_not_synced("tm_to_coco")
        inputs = written_inputs(metric)
        raise_error(metric.error, metric._describe_error)
        preds, target = documents(inputs)
        for side, document in (("preds", preds), ("target", target)):
            text = json.dumps(document, indent=4, allow_nan=False)
            Path(f"{os.fspath(name)}_{side}.json").write_text(text, encoding="utf-8")

    @staticmethod
    def coco_to_tm(
        coco_preds: str | os.PathLike[str],
        coco_target: str | os.PathLike[str],
        iou_type: str | Sequence[str] = "bbox",
        backend: str = "pycocotools",
    ) -> tuple[list[Item], list[Item]]:
        """Reads COCO files into lists that ``update`` takes, one dict for every image of the ground truth.

        Boxes are x, y, width, height: the metric needs ``box_format="xywh"``. Beside torchmetrics' keys, ``target`` has
        ``image_id``; numbers are float64; images without ground truths are there (torchmetrics leaves them out with
        their detections); masks stay run lengths or polygons, with the ``size`` of the image.

        Args:
            coco_preds: results file, plain or gzip-compressed.
            coco_target: annotation file, likewise.
            iou_type: ``bbox``, ``segm`` or both.
            backend: ``pycocotools`` or ``faster_coco_eval``, accepted as in torchmetrics; it changes nothing.

        Ids that are texts become their places among all ids in ascending order, which ``update`` takes: numbers are
        those of pycocotools then.

        Returns:
            Detections (``boxes`` or ``masks``, ``scores``, ``labels``) and ground truths (``boxes`` or ``masks``,
            ``labels``, ``iscrowd``, ``area``, ``image_id``).

        Raises:
            InputError: a file is not such as COCO's; says where.
        """
        kinds = _kinds(iou_type)
        check_choice("backend", backend, ("pycocotools", "faster_coco_eval"))
        data, rows = aligned(*_read(Path(coco_target), Path(coco_preds), "segm" in kinds))
        for side, names in ((data.annotations, ("category_id",)), (rows, ("image_id", "category_id", "score"))):
            side.require(*names, *(_KEYS[kind] for kind in kinds))
        _warn_of_missing(data, kinds)
        ids = np.array(list(dict.fromkeys(data.image_ids.tolist())), np.int64)
        return _items(rows, ids, data, kinds, True), _items(data.annotations, ids, data, kinds, False)


def coco_targets(
    path: str | os.PathLike[str], iou_type: str | Sequence[str] = "bbox", labels: Mapping[Any, int] | None = None
) -> dict[Any, Item]:
    """Reads the ground truths of a COCO file by image, for a model whose batches name images by their ids.

    Args:
        path: annotation file, plain or gzip-compressed.
        iou_type: one or more of ``bbox``, ``segm`` and ``keypoints``.
        labels: what a model calls each category id, such as ``{1: 0, 3: 1}`` or ``{"cat": 0}``; default: the ids
            themselves, of texts their places among all in ascending order. Ground truths of other categories are left
            out.

    Returns:
        By image id, a text where the file has texts, a ``target`` of :meth:`MeanAveragePrecision.update` with
        ``box_format="xywh"``: ``boxes`` float64, ``masks`` or ``keypoints [G, K, 3]`` float64 with their ``boxes``;
        ``labels``, ``iscrowd``, ``area`` and ``image_id``, of texts the place among all in ascending order. Every image
        of the file is there.

    Raises:
        InputError: the file is not such as COCO's; says where.

    Example:
        >>> targets = coco_targets("examples/data/instances_val2014_100.json")
        >>> len(targets), targets[42]["labels"].tolist(), targets[42]["image_id"]
        (100, [18], 42)
    """
    kinds = _kinds(iou_type, tuple(_TARGET_KEYS))
    file = Path(path)
    data = read_ground_truth(file) if kinds == ("bbox",) else columns_from_dataset(load_json(file), f"{file}")
    if "keypoints" in kinds:
        kinds = tuple(dict.fromkeys((*kinds, "bbox")))
    data.annotations.require("category_id", *(_KEYS[kind] for kind in kinds if kind in _KEYS))
    _warn_of_missing(data, kinds)
    ids = np.array(list(dict.fromkeys(data.image_ids.tolist())), np.int64)
    items = _items(data.annotations, ids, data, kinds, False)
    texts = data.annotations.texts
    if labels is not None and texts.category_id is not None:
        codes = texts.category_id.codes(list(labels)).tolist()
        labels = {code: label for code, label in zip(codes, labels.values()) if code >= 0}
    keys = shown_ids(ids, texts.image_id)
    return {key: item if labels is None else _relabelled(item, labels) for key, item in zip(keys, items)}


def _warn_of_missing(data: Dataset, kinds: tuple[str, ...]) -> None:
    """Warns of ground truths without ``iscrowd`` or ``area``; called by what users call."""
    area = "the area of the mask" if kinds == ("segm",) else "width x height"
    found = describe_missing(count_missing(data.annotations, "keypoints" in kinds), area)
    if found:
        warnings.warn(f"{data.where}: {'; '.join(found)}", stacklevel=3)


def _relabelled(item: Item, labels: Mapping[int, int]) -> Item:
    """An image with the labels of a model, without other categories."""
    old = item["labels"].tolist()
    rows = [row for row, category in enumerate(old) if category in labels]
    chosen: Item = {n: v[rows] if isinstance(v, Tensor) else v for n, v in item.items()}
    if "masks" in item:
        chosen["masks"] = [item["masks"][row] for row in rows]
    return {**chosen, "labels": torch.tensor([labels[old[row]] for row in rows], dtype=torch.int64)}


def _kinds(iou_type: str | Sequence[str], known: tuple[str, ...] = tuple(_KEYS)) -> tuple[str, ...]:
    check_type("iou_type", iou_type, (str, list, tuple))
    kinds = (iou_type,) if isinstance(iou_type, str) else tuple(iou_type)
    for kind in kinds:
        check_choice("iou_type", kind, known)
    return kinds


def _read(target: Path, preds: Path, masks: bool) -> tuple[Dataset, Annotations]:
    if not masks:
        return read_ground_truth(target), read_result_rows(preds)
    return columns_from_dataset(load_json(target), f"{target}"), result_rows(load_json(preds), f"{preds}: ")


def _items(
    rows: Annotations, ids: NDArray[np.int64], data: Dataset, kinds: tuple[str, ...], results: bool
) -> list[Item]:
    """One dict for each of the images ``ids``."""
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids[order], rows.image_id)
    known = np.isin(rows.image_id, ids)
    if not known.all():
        row = int(known.argmin())
        need = f"must be that of an image of {data.where} but is {shown(row_ids(rows, 'image_id', [row])[0])}"
        raise InputError(f"{rows.place(row)}: image_id {need}")
    image = order[place]
    by_image = np.argsort(image, kind="stable")
    parts = np.split(by_image, np.searchsorted(image[by_image], np.arange(1, len(ids))))[: len(ids)]
    sizes = data.annotations.images
    listed = [None] * len(ids) if sizes is None else sizes.of(ids).tolist()
    return [_item(rows, part, (int(key), size), kinds, results) for part, key, size in zip(parts, ids, listed)]


def _item(
    rows: Annotations,
    part: NDArray[np.int64],
    image: tuple[int, list[int] | None],
    kinds: tuple[str, ...],
    results: bool,
) -> Item:
    """The rows of one image, of which id and size are given."""
    item: Item = {"boxes": _tensor(rows.bbox[part].reshape(-1, 4))} if "bbox" in kinds else {}
    if "segm" in kinds:
        values = rows.values
        item["masks"] = [] if values is None else [values.value("segmentation", row) for row in part.tolist()]
        if image[1] is not None and min(image[1]) >= 0:
            item["size"] = image[1]
    if "keypoints" in kinds:
        item["keypoints"] = _tensor(keypoints_of(rows, part))
    item["labels"] = _tensor(rows.category_id[part])
    if results:
        return {**item, "scores": _tensor(rows.score[part])}
    crowd = _tensor(rows.iscrowd[part].astype(np.int64))
    areas = areas_of(rows, part, "keypoints" in kinds)
    return {**item, "iscrowd": crowd, "area": _tensor(areas), "image_id": image[0]}


def _tensor(column: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(column))
