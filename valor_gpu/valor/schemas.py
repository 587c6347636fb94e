"""Datums, labels, annotations, ground truths and predictions: the objects of valor_core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.valor.enums import TaskType
from valor_gpu.valor.evaluation import Evaluation, EvaluationParameters
from valor_gpu.valor.geometry import (
    Box,
    GeoJSON,
    LineString,
    MultiLineString,
    MultiPoint,
    Point,
    Polygon,
    Raster,
)

__all__ = [
    "Annotation",
    "Box",
    "Datum",
    "Embedding",
    "Evaluation",
    "EvaluationParameters",
    "GeoJSON",
    "GroundTruth",
    "Label",
    "LineString",
    "MultiLineString",
    "MultiPoint",
    "Point",
    "Polygon",
    "Prediction",
    "Raster",
]


@dataclass
class Embedding:
    """A vector."""

    value: list[int] | list[float] | None = None

    def __post_init__(self) -> None:
        if self.value is not None:
            check_type("Embedding.value", self.value, list)
            if not self.value:
                raise InputError("Embedding.value must hold at least one number but is empty")


@dataclass
class Datum:
    """One thing that is labelled: an image, a row, a question.

    Args:
        uid: its name; ground truths and predictions of the same name belong together.
        text: the question, in tasks of text.
        metadata: what is known about it, for filters.
    """

    uid: str | None = None
    text: str | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_type("Datum.uid", self.uid, (str, type(None)))
        check_type("Datum.text", self.text, (str, type(None)))
        check_type("Datum.metadata", self.metadata, (dict, type(None)))


@dataclass(unsafe_hash=True)
class Label:
    """A key, a value of that key and, in predictions, a score.

    Example:
        >>> Label("animal", "cat") == Label("animal", "cat", score=0.5)
        False
    """

    key: str
    value: str
    score: float | None = None

    def __post_init__(self) -> None:
        if type(self.key) is not str or type(self.value) is not str:
            check_type("Label.key", self.key, str)
            check_type("Label.value", self.value, str)
        if self.score is not None and type(self.score) is not float:
            self.score = float(self.score)


_ANNOTATION_TYPES = (("metadata", dict), ("bounding_box", Box), ("polygon", Polygon), ("raster", Raster))


@dataclass
class Annotation:
    """Labels of a datum, with or without a place in it.

    Args:
        labels: of several keys, in predictions with scores.
        metadata: what is known about it, for filters.
        bounding_box, polygon, raster: the place, for detection and segmentation.
        embedding: a vector.
        is_instance: whether the place is one object.
        implied_task_types: values of :class:`~valor_gpu.valor.enums.TaskType`; they follow from the other fields.
        text, context_list: the answer and its sources, in tasks of text.
    """

    labels: list[Label] | None = None
    metadata: dict[str, Any] | None = None
    bounding_box: Box | None = None
    polygon: Polygon | Box | None = None
    raster: Raster | None = None
    embedding: Embedding | None = None
    is_instance: bool | None = None
    implied_task_types: list[str] | None = None
    text: str | None = None
    context_list: list[str] | None = None

    def __post_init__(self) -> None:
        check_type("Annotation.labels", self.labels, (list, type(None)))
        for label in self.labels or ():
            if type(label) is not Label:  # by far the most objects: no call for each
                check_type("Annotation.labels", label, Label)
        for name, kind in _ANNOTATION_TYPES:
            if getattr(self, name) is not None:
                check_type(f"Annotation.{name}", getattr(self, name), (kind, type(None)))
        if self.implied_task_types is None:
            self.implied_task_types = [self._task().value]

    def _task(self) -> TaskType:
        placed = self.bounding_box is not None or self.polygon is not None or self.raster is not None
        if self.text is not None or self.context_list is not None:
            return TaskType.TEXT_GENERATION
        if not self.labels:
            return TaskType.EMBEDDING if self.embedding is not None else TaskType.EMPTY
        if not placed:
            return TaskType.CLASSIFICATION
        if self.is_instance:
            return TaskType.OBJECT_DETECTION
        return TaskType.SEMANTIC_SEGMENTATION if self.raster is not None else TaskType.SKIP


def _check_members(name: str, datum: object, annotations: object) -> None:
    check_type(f"{name}.datum", datum, Datum)
    check_type(f"{name}.annotations", annotations, list)
    assert isinstance(annotations, list)
    for annotation in annotations:
        check_type(f"{name}.annotations", annotation, Annotation)


@dataclass
class GroundTruth:
    """What is true of a datum."""

    datum: Datum
    annotations: list[Annotation]

    def __post_init__(self) -> None:
        _check_members("GroundTruth", self.datum, self.annotations)


@dataclass
class Prediction:
    """What a model says about a datum.

    Raises:
        InputError: a label of a classification or a detection has no score.

    Example:
        >>> cat = Label("animal", "cat", score=1.0)
        >>> Prediction(Datum("image 1"), [Annotation(labels=[cat])]).annotations[0].implied_task_types
        ['classification']
    """

    datum: Datum
    annotations: list[Annotation]

    def __post_init__(self) -> None:
        _check_members("Prediction", self.datum, self.annotations)
        scored = {TaskType.CLASSIFICATION.value, TaskType.OBJECT_DETECTION.value}
        for annotation in self.annotations:
            for label in annotation.labels or ():
                if label.score is None and scored.intersection(annotation.implied_task_types or ()):
                    raise InputError(
                        f"Prediction labels must have scores but {label.key}: {label.value} of datum "
                        f"{self.datum.uid!r} has none"
                    )
