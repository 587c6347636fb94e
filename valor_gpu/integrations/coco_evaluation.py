"""Detections of a model against a COCO file, image by image: what evaluators of several trainers share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.detection import MeanAveragePrecision, coco_targets
from valor_gpu.errors import InputError
from valor_gpu.graphs import guarded_update
from valor_gpu.inputs._coco_records import shown
from valor_gpu.inputs.coco import read_ground_truth
from valor_gpu.inputs.coco_ids import listed_ids
from valor_gpu.inputs.text_ids import Id
from valor_gpu.result import Result

TASKS = ("bbox", "segm", "keypoints")


class CocoEvaluation:
    """Matches each batch where its boxes are, against the ground truths of a file, and keeps records only.

    Args:
        annotations: COCO annotation file, plain or gzip-compressed.
        tasks: one or more of ``bbox``, ``segm`` and ``keypoints``.
        labels: what the model calls each category id that it knows; ground truths of others are left out. Default: the
            ids themselves, of texts their places among all in ascending order.
        sigmas: of the keypoints; default COCO's 17.

    Raises:
        InputError: a task is not known; the file is not such as COCO's, or lacks a category of ``labels``.
    """

    def __init__(
        self,
        annotations: str | os.PathLike[str],
        tasks: Sequence[str] = ("bbox",),
        labels: Mapping[Any, int] | None = None,
        sigmas: Sequence[float] | None = None,
    ) -> None:
        for task in tasks:
            check_choice("tasks", task, TASKS)
        self.tasks, self._file = tuple(dict.fromkeys(tasks)), annotations
        known, codes = _categories_of(annotations)
        if lost := set(labels or ()) - known.keys():
            raise InputError(
                f"{os.fspath(annotations)} must have the categories of the model but lacks {sorted(lost, key=str)}"
            )
        labels = codes if labels is None else labels
        # Ids of the file are the labels of the metric: means are taken in the order of pycocotools then.
        self._names = {codes[key]: known[key] for key in labels}
        self._ids = torch.full((max(labels.values(), default=0) + 1,), -1)
        self._ids[list(labels.values())] = torch.tensor(list(self._names), dtype=torch.int64)
        self._targets = coco_targets(annotations, self.tasks, {key: codes[key] for key in labels})
        # One matching serves boxes and masks; keypoints have sizes and limits of their own.
        shapes = tuple(task for task in self.tasks if task != "keypoints")
        self._metrics: dict[tuple[str, ...], MeanAveragePrecision] = {}
        if shapes:
            self._metrics[shapes] = MeanAveragePrecision("xywh", shapes, keep_inputs=False)
        if "keypoints" in self.tasks:
            self._metrics["keypoints",] = MeanAveragePrecision("xywh", "keypoints", sigmas=sigmas, keep_inputs=False)
            for target in self._targets.values():  # pycocotools takes an area of 0, whose similarities are 0
                target["area"] = target["area"].clamp(min=_LEAST_AREA)
        for metric in self._metrics.values():
            metric.warn_on_many_detections = False  # as pycocotools

    def reset(self) -> None:
        """Begins an evaluation."""
        for metric in self._metrics.values():
            metric.reset()

    def add(self, image_ids: Sequence[Id], preds: Sequence[dict[str, Any]]) -> None:
        """Adds a batch.

        Args:
            image_ids: of the file, integers or texts as there.
            preds: as of :class:`MeanAveragePrecision` with boxes x, y, width, height; labels of the model.

        Raises:
            InputError: an image is not in the file, or a label is not a class of the model; the batch is not added.
        """
        for key in image_ids:
            if key not in self._targets:
                raise InputError(f"image_id must be that of an image of {os.fspath(self._file)} but is {shown(key)}")
        if not preds:
            return
        device = preds[0]["labels"].device
        known = [{**each, "labels": self._categories(each["labels"])} for each in preds]
        target = [_moved(self._targets[key], device) for key in image_ids]
        for metric in self._metrics.values():
            if metric.device != device:
                metric.to(device)
        _update_all(list(self._metrics.values()), known, target)

    def _categories(self, labels: Tensor) -> Tensor:
        """Ids of labels; -1, which the metric rejects, where a label has none."""
        self._ids = ids = self._ids.to(labels.device)
        known = (labels >= 0) & (labels < len(ids))
        found = torch.where(known, ids[labels.clamp(0, len(ids) - 1)], -1)
        if labels.device.type == "cpu" and (found < 0).any():
            raise InputError(f"labels must be classes of the model but one is {int(labels[found < 0][0])}")
        return found

    def results(self) -> dict[str, Result]:
        """All numbers by task; every process calls it. Warns where images of the file were not added."""
        found = [(tasks, metric.result()) for tasks, metric in self._metrics.items()]
        missing = len(self._targets) - found[0][1].counts["images"]
        if missing:
            need = "have no predictions and do not count; pycocotools counts their ground truths as missed"
            warnings.warn(f"{missing} of {len(self._targets)} images of {os.fspath(self._file)} {need}", stacklevel=2)
        return {task: result for tasks, result in found for task in tasks}

    def numbers(self, results: Mapping[str, Result], task: str) -> dict[str, float]:
        """The scalars of one task by the names of :class:`MeanAveragePrecision`, NaN where one does not exist."""
        values, before = results[task].values, self._prefix(task)
        return {name: float(values.get(before + name, float("nan"))) for name in _SCALARS}

    def classes(self, results: Mapping[str, Result], task: str) -> dict[str, float]:
        """Average precision of each class by name; NaN where the file has none of it."""
        found = results[task].values[f"{self._prefix(task)}map_per_class"]
        return {name: float(found.get(str(key), float("nan"))) for key, name in self._names.items()}

    def _prefix(self, task: str) -> str:
        return f"{task}_" if any(task in tasks and len(tasks) > 1 for tasks in self._metrics) else ""


_LEAST_AREA = 1e-300
_SCALARS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")


def image_key(value: Any) -> Id:
    """The image id that a trainer hands over: a text, or an integer that may be a tensor of one."""
    return value if isinstance(value, str) else int(value)


def file_categories(path: str | os.PathLike[str]) -> dict[Id, str]:
    """Ids and names of the categories of a COCO file.

    Example:
        >>> file_categories("examples/data/instances_val2014_100.json")[18]
        'dog'
    """
    return _categories_of(path)[0]


def _categories_of(path: str | os.PathLike[str]) -> tuple[dict[Id, str], dict[Id, int]]:
    """The names of the categories of a file, and their labels for a metric, by id."""
    data = read_ground_truth(Path(path))
    ids = listed_ids(data, "category_id")
    return dict(zip(ids, data.category_names)), dict(zip(ids, data.category_ids.tolist()))


def _update_all(metrics: Sequence[MeanAveragePrecision], preds: Any, target: Any) -> None:
    """Updates all metrics or, where one raises, none."""

    def update() -> None:
        metrics[0].update(preds, target)
        _update_all(metrics[1:], preds, target)

    if metrics:
        guarded_update(metrics[0], update)()


def _moved(target: Mapping[str, Any], device: Any) -> dict[str, Any]:
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in target.items()}
