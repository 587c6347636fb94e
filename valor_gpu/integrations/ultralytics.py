"""COCO's average precision in Ultralytics: a validator and a trainer; imports Ultralytics at the first use."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.exports.texts import is_scalar
from valor_gpu.integrations.lazy_types import lazy_types, trainer_type
from valor_gpu.result import Result


class ValidatorHooks:
    """Validates boxes with COCO's average precision beside Ultralytics' own numbers.

    ``CocoValidator`` is this class and Ultralytics' ``DetectionValidator``: ``model.val(data="coco8.yaml",
    validator=CocoValidator)``. Boxes, of predictions and labels, are those of the original images; labels of YOLO know
    no crowds, and their areas are those of boxes. Of each image COCO counts the best 100 of a class.

    Every number that is not of one class joins the dict that Ultralytics logs, as ``coco/map``; where it does not
    exist it is NaN. Under DDP the processes of Ultralytics validate together.

    Attributes:
        coco_metric: what :meth:`make_metric` gave.
        coco_result: its last :class:`~valor_gpu.result.Result`, also an attribute of the metrics that ``model.val``
            returns.

    Raises:
        ImportError: ``ultralytics`` is not installed, or is too old to gather statistics of several processes.

    Example:
        >>> # from ultralytics import YOLO
        >>> # from valor_gpu.integrations.ultralytics import CocoTrainer, CocoValidator
        >>> # YOLO("yolo26n.pt").val(data="coco8.yaml", validator=CocoValidator).coco_result
        >>> # YOLO("yolo26n.pt").train(data="coco8.yaml", trainer=CocoTrainer)
    """

    coco_metric: MeanAveragePrecision
    coco_result: Result | None = None

    def make_metric(self) -> MeanAveragePrecision:
        """The metric, of boxes in format ``xyxy``; a subclass gives another."""
        return MeanAveragePrecision(box_format="xyxy")

    def init_metrics(self, model: Any) -> None:
        """Begins a validation."""
        super().init_metrics(model)  # type: ignore[misc]
        self.coco_metric, self.coco_result = self.make_metric().to(self.device), None  # type: ignore[attr-defined]

    def update_metrics(self, preds: list[dict[str, torch.Tensor]], batch: dict[str, Any]) -> None:
        """Updates Ultralytics' numbers, then the metric."""
        super().update_metrics(preds, batch)  # type: ignore[misc]
        rows = [self._image(index, pred, batch) for index, pred in enumerate(preds)]
        self.coco_metric.update([row[0] for row in rows], [row[1] for row in rows])

    def _image(self, index: int, pred: dict[str, torch.Tensor], batch: dict[str, Any]) -> tuple[Any, Any]:
        own: Any = self
        truth, pred = own._prepare_batch(index, batch), own._prepare_pred(pred)
        boxes, known = (own.scale_preds({"bboxes": each["bboxes"]}, truth)["bboxes"] for each in (pred, truth))
        return (
            {"boxes": boxes, "scores": pred["conf"], "labels": pred["cls"].long()},
            {"boxes": known, "labels": truth["cls"].long(), "image_id": image_key(truth["im_file"])},
        )

    def gather_stats(self) -> None:
        """Gathers what all processes have; every one of them calls it."""
        super().gather_stats()  # type: ignore[misc]
        self.coco_result = self.coco_metric.result()

    def get_stats(self) -> dict[str, Any]:
        """Ultralytics' numbers, and those of the metric under ``coco/``."""
        stats: dict[str, Any] = super().get_stats()  # type: ignore[misc]
        result = self.coco_result
        assert result is not None  # gather_stats comes first
        self.metrics.coco_result = result  # type: ignore[attr-defined]
        numbers = {f"coco/{name}": float(v) for name, v in result.values.items() if is_scalar(v)}
        return {**stats, **numbers}


class TrainerHooks:
    """Trains a detector with the validator above: ``model.train(data="coco8.yaml", trainer=CocoTrainer)``.

    ``CocoTrainer`` is this class and Ultralytics' ``DetectionTrainer``. ``results.csv`` and every logger have the
    numbers as ``coco/map`` after each epoch.
    """

    def get_validator(self) -> Any:
        """A ``CocoValidator`` in place of Ultralytics' own."""
        from valor_gpu.integrations import ultralytics

        given = super().get_validator()  # type: ignore[misc]
        return ultralytics.CocoValidator(
            given.dataloader, save_dir=given.save_dir, args=given.args, _callbacks=given.callbacks
        )


def image_key(path: str) -> int:
    """The number that is the name of a file, as in COCO, else one made of the whole path.

    Example:
        >>> image_key("val2017/000000000139.jpg"), image_key("a/cat.jpg") == image_key("b/cat.jpg")
        (139, False)
    """
    stem = Path(path).stem
    if stem.isdecimal() and len(stem) < 19:
        return int(stem)
    return int.from_bytes(hashlib.blake2b(str(path).encode(), digest_size=8).digest(), "little", signed=True)


def _validator() -> type:
    kind = trainer_type(
        "CocoValidator", "ultralytics", "ultralytics.models.yolo.detect", "DetectionValidator", _INSTALL
    )
    if not hasattr(kind, "gather_stats"):
        raise ImportError(f"CocoValidator needs an ultralytics whose validators have gather_stats: {_INSTALL} -U")
    return kind


def _trainer() -> type:
    return trainer_type("CocoTrainer", "ultralytics", "ultralytics.models.yolo.detect", "DetectionTrainer", _INSTALL)


_INSTALL = "pip install ultralytics"
if TYPE_CHECKING:
    CocoValidator: type[Any]
    CocoTrainer: type[Any]

_MAKERS = {"CocoValidator": (ValidatorHooks, _validator), "CocoTrainer": (TrainerHooks, _trainer)}
__getattr__ = lazy_types(__name__, _MAKERS)
