"""An evaluator for Detectron2, whose catalogue alone is imported, and that where a data set is named."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from valor_gpu.errors import InputError
from valor_gpu.integrations.coco_evaluation import CocoEvaluation, image_key
from valor_gpu.integrations.lazy_types import trainer_type
from valor_gpu.result import Result

_NAMES = {"AP": "map", "AP50": "map_50", "AP75": "map_75", "APs": "map_small", "APm": "map_medium", "APl": "map_large"}


class CocoEvaluator:
    """COCO's average precision for ``inference_on_dataset`` and ``DefaultTrainer.build_evaluator``.

    Takes the place of Detectron2's ``COCOEvaluator`` for boxes, masks and keypoints, with the same names and numbers,
    in percent.
    Batches are matched where they are, and records are kept in place of predictions; the processes of a run exchange
    these. An image that several processes saw counts once.

    Args:
        dataset_name: of ``MetadataCatalog``, registered by ``register_coco_instances``.
        tasks: one or more of ``bbox``, ``segm`` and ``keypoints``; Detectron2's default is that of the model.
        annotations: COCO file, in place of ``dataset_name``.
        labels: with ``annotations``: the model's class of each category id, as Detectron2's
            ``thing_dataset_id_to_contiguous_id``; default: the ids themselves.
        kpt_oks_sigmas: of the keypoints, as ``cfg.TEST.KEYPOINT_OKS_SIGMAS``; default COCO's 17.

    Attributes:
        result: of the last evaluation, a :class:`~valor_gpu.result.Result`; with ``keypoints`` and another task, that
            of the other.
        keypoint_result: likewise, of keypoints.

    Raises:
        InputError: neither or both of ``dataset_name`` and ``annotations``; the data set has no file; a task is not
            known; the file is not such as COCO's, or lacks a category.
        ImportError: a data set is named, and ``detectron2`` is not installed.

    Example:
        >>> evaluator = CocoEvaluator(annotations="examples/data/instances_val2014_100.json")
        >>> # inference_on_dataset(model, build_detection_test_loader(cfg, name), CocoEvaluator(name))["bbox"]["AP"]
    """

    def __init__(
        self,
        dataset_name: str | None = None,
        tasks: Sequence[str] = ("bbox",),
        *,
        annotations: str | os.PathLike[str] | None = None,
        labels: Mapping[Any, int] | None = None,
        kpt_oks_sigmas: Sequence[float] = (),
    ) -> None:
        if (dataset_name is None) == (annotations is None):
            raise InputError("dataset_name or annotations must be given, and not both")
        if annotations is None:
            annotations, labels = _registered(str(dataset_name))
        self._evaluation = CocoEvaluation(annotations, tasks, labels, list(kpt_oks_sigmas) or None)
        self.result: Result | None = None
        self.keypoint_result: Result | None = None

    def reset(self) -> None:
        """Begins an evaluation."""
        self._evaluation.reset()

    def process(self, inputs: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]) -> None:
        """Adds a batch.

        Args:
            inputs: of a model: dicts with ``image_id``.
            outputs: of a model: dicts with ``instances``, which have ``pred_boxes``, ``scores``, ``pred_classes`` and,
                for ``segm``, ``pred_masks`` and, for ``keypoints``, ``pred_keypoints [N, K, 3]``.
        """
        preds = [self._detections(each["instances"]) for each in outputs]
        self._evaluation.add([image_key(each["image_id"]) for each in inputs], preds)

    def _detections(self, instances: Any) -> dict[str, Any]:
        corners = instances.pred_boxes.tensor
        boxes = torch.cat([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1)  # in its own dtype, as Detectron2
        found = {"boxes": boxes, "scores": instances.scores, "labels": instances.pred_classes}
        if "segm" in self._evaluation.tasks:
            found["masks"] = instances.pred_masks
        if "keypoints" in self._evaluation.tasks:
            found["keypoints"] = points = instances.pred_keypoints.clone()
            points[..., :2] -= 0.5  # Detectron2 has continuous coordinates, COCO the indices of pixels
        return found

    def evaluate(self) -> dict[str, dict[str, float]]:
        """Numbers by task in percent: ``{"bbox": {"AP": ..., "AP50": ..., "AP-dog": ...}}``; every process calls it."""
        results = self._evaluation.results()
        self.result, self.keypoint_result = next(iter(results.values())), results.get("keypoints")
        found: dict[str, dict[str, float]] = {}
        for task in self._evaluation.tasks:
            numbers, classes = self._evaluation.numbers(results, task), self._evaluation.classes(results, task)
            names = {name: own for name, own in _NAMES.items() if name != "APs" or task != "keypoints"}
            found[task] = {name: 100 * numbers[own] for name, own in names.items()}
            if len(classes) > 1:
                found[task].update({f"AP-{name}": 100 * value for name, value in classes.items()})
        return found


def _registered(name: str) -> tuple[str, Mapping[Any, int] | None]:
    """File and labels of a data set."""
    line = "see detectron2.readthedocs.io/tutorials/install.html"
    catalogue: Any = trainer_type("CocoEvaluator", "detectron2", "detectron2.data", "MetadataCatalog", line)
    data = catalogue.get(name)
    file = getattr(data, "json_file", None)
    if file is None:
        raise InputError(f"dataset_name must be that of a COCO file but {name!r} has no json_file; give annotations=")
    return str(file), getattr(data, "thing_dataset_id_to_contiguous_id", None)
