"""An evaluator for MMDetection 3, in whose configuration it is named; imports nothing of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.integrations.coco_evaluation import CocoEvaluation, file_categories, image_key
from valor_gpu.result import Result

_NAMES = {
    "mAP": "map", "mAP_50": "map_50", "mAP_75": "map_75",
    "mAP_s": "map_small", "mAP_m": "map_medium", "mAP_l": "map_large",
}  # fmt: skip


class CocoMetric:
    """COCO's average precision in an MMDetection configuration, in place of its ``CocoMetric``.

    ``val_evaluator = dict(type="valor_gpu.integrations.mmdet.CocoMetric", ann_file=...)``. Names are MMDetection's,
    with every digit of the numbers: ``save_best="coco/bbox_mAP"``; a number that does not exist is NaN. Batches are
    matched where they are, and records are kept in place of predictions; the processes of a run exchange these. An
    image that several processes saw, as a sampler's padding, counts once.

    Args:
        ann_file: COCO annotation file.
        metric: ``bbox``, ``segm`` or both.
        classwise: also give the average precision of each class, as ``coco/dog_precision`` for the first of
            ``metric`` and ``coco/segm_dog_precision`` for another.
        prefix: before every name.

    Attributes:
        dataset_meta: set by MMEngine; its ``classes`` are the names of the model's classes in the file, in order.
        result: of the last evaluation, a :class:`~valor_gpu.result.Result`.

    Raises:
        InputError: ``metric`` is not known (MMDetection has no keypoints); in an evaluation: the file is not such as
            COCO's, or lacks a class.

    Example:
        >>> metric = CocoMetric("examples/data/instances_val2014_100.json", metric=["bbox", "segm"])
        >>> metric.dataset_meta = {"classes": ("person", "dog")}
    """

    def __init__(
        self,
        ann_file: str | os.PathLike[str],
        metric: str | Sequence[str] = "bbox",
        classwise: bool = False,
        prefix: str = "coco",
    ) -> None:
        self._file, self._tasks = ann_file, [metric] if isinstance(metric, str) else list(metric)
        for task in self._tasks:
            check_choice("metric", task, ("bbox", "segm"))
        self._classwise, self._prefix = classwise, prefix
        self._evaluation: CocoEvaluation | None = None
        self.dataset_meta: Mapping[str, Any] | None = None
        self.result: Result | None = None

    @property
    def _ready(self) -> CocoEvaluation:
        """The evaluation, made where MMEngine has told the classes."""
        if self._evaluation is None:
            classes = (self.dataset_meta or {}).get("classes")
            if classes is None:
                raise InputError("dataset_meta must have the classes of the model but has none")
            known = {name: key for key, name in file_categories(self._file).items()}
            if lost := [name for name in classes if name not in known]:
                raise InputError(f"{os.fspath(self._file)} must have every class of the model but lacks {lost}")
            labels = {known[name]: label for label, name in enumerate(classes)}
            self._evaluation = CocoEvaluation(self._file, self._tasks, labels)
        return self._evaluation

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        """Adds a batch.

        Args:
            data_batch: not read.
            data_samples: dicts with ``img_id`` and ``pred_instances``: ``bboxes [N, 4]``, corners; ``scores``,
                ``labels`` and, for ``segm``, ``masks``, dense or run lengths.
        """
        preds = [self._detections(each["pred_instances"], each["ori_shape"]) for each in data_samples]
        self._ready.add([image_key(each["img_id"]) for each in data_samples], preds)

    def _detections(self, found: Mapping[str, Any], size: Sequence[int]) -> dict[str, Any]:
        corners = found["bboxes"].double()  # as MMDetection, which subtracts Python's numbers
        boxes = torch.cat([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1)
        preds = {"boxes": boxes, "scores": found["scores"], "labels": found["labels"]}
        if "segm" in self._tasks:
            preds["masks"] = found["masks"]
            if not isinstance(found["masks"], Tensor):
                preds["size"] = [int(size[0]), int(size[1])]
        return preds

    def evaluate(self, size: int) -> dict[str, float]:
        """Numbers by name; every process calls it.

        Args:
            size: of the data set, which is not needed: images are known by their ids.
        """
        evaluation = self._ready
        results = evaluation.results()
        self.result = results[evaluation.tasks[0]]
        numbers: dict[str, float] = {}
        for task in evaluation.tasks:
            own = evaluation.numbers(results, task)
            numbers.update({f"{task}_{name}": own[key] for name, key in _NAMES.items()})
            if self._classwise:
                before = "" if task == evaluation.tasks[0] else f"{task}_"
                classes = evaluation.classes(results, task)
                numbers.update({f"{before}{name}_precision": value for name, value in classes.items()})
        evaluation.reset()
        return {f"{self._prefix}/{name}" if self._prefix else name: value for name, value in numbers.items()}
