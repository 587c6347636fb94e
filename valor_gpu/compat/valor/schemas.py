"""Datums, labels, annotations, ground truths and predictions: the objects of valor_core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.compat.valor.enums import TaskType
from valor_gpu.compat.valor.evaluation import Evaluation, EvaluationParameters
from valor_gpu.compat.valor.labels import Label
from valor_gpu.errors import InputError
from valor_gpu.valor.geometry import (
    Box,
    GeoJSON,
    LineString,
    MultiLineString,
    MultiPoint,
    MultiPolygon,
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
    "MultiPolygon",
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
        if self.value is None:
            return
        check_type("Embedding.value", self.value, list)
        if not self.value:
            raise InputError("Embedding.value must hold at least one number but is empty")
        for number in self.value:
            check_number("Embedding.value", number)


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


_NONE = type(None)
_ANNOTATION_TYPES: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("metadata", dict),
    ("bounding_box", Box),
    ("polygon", (Polygon, MultiPolygon)),
    ("raster", Raster),
    ("embedding", Embedding),
    ("is_instance", bool),
    ("text", str),
)
_TASKS = tuple(task.value for task in TaskType)


@dataclass
class Annotation:
    """Labels of a datum, with or without a place in it.

    Args:
        labels: of several keys, in predictions with scores.
        metadata: what is known about it, for filters.
        bounding_box: the place as a rectangle.
        polygon: the place as a polygon, or as polygons that count as one.
        raster: the place as a mask.
        embedding: a vector.
        is_instance: whether the place is one object.
        implied_task_types: the tasks that the annotation belongs to, values of
            :class:`~valor_gpu.valor.enums.TaskType`. None: they follow from the other fields. An evaluation reads the
            annotations of its task and no other.
        text: the answer, in tasks of text.
        context_list: the sources of the answer, in tasks of text.

    Raises:
        InputTypeError: a field of a wrong type.
        InputError: a task that does not exist.
    """

    labels: list[Label] | None = None
    metadata: dict[str, Any] | None = None
    bounding_box: Box | None = None
    polygon: Polygon | Box | MultiPolygon | None = None
    raster: Raster | None = None
    embedding: Embedding | None = None
    is_instance: bool | None = None
    implied_task_types: list[str] | None = None
    text: str | None = None
    context_list: list[str] | None = None

    def __post_init__(self) -> None:
        check_type("Annotation.labels", self.labels, (list, _NONE))
        for label in self.labels or ():
            if type(label) is not Label:  # by far the most objects: no call for each
                check_type("Annotation.labels", label, Label)
        for name, kind in _ANNOTATION_TYPES:
            value = getattr(self, name)
            if value is not None:
                kinds = kind if isinstance(kind, tuple) else (kind,)
                check_type(f"Annotation.{name}", value, (*kinds, _NONE))
        self._check_texts("context_list", self.context_list)
        if self.implied_task_types is None:
            self.implied_task_types = [self._task().value]
            return
        self._check_texts("implied_task_types", self.implied_task_types)
        for task in self.implied_task_types:
            check_choice("Annotation.implied_task_types", task, _TASKS)

    def _check_texts(self, name: str, texts: object) -> None:
        check_type(f"Annotation.{name}", texts, (list, _NONE))
        assert texts is None or isinstance(texts, list)
        for text in texts or ():
            check_type(f"Annotation.{name}", text, str)

    def _task(self) -> TaskType:
        """The task of the fields that are set; SKIP where they fit none."""
        geometries = (self.bounding_box, self.polygon, self.raster)
        placed = any(geometry is not None for geometry in geometries)
        written = self.text is not None or self.context_list is not None
        embedded = self.embedding is not None
        if not self.labels:
            kinds = {(False, False): TaskType.EMPTY, (True, False): TaskType.TEXT_GENERATION,
                     (False, True): TaskType.EMBEDDING}  # fmt: skip
            return TaskType.SKIP if placed else kinds.get((written, embedded), TaskType.SKIP)
        if written or embedded:
            return TaskType.SKIP
        if not placed:
            return TaskType.CLASSIFICATION
        if self.is_instance:
            return TaskType.OBJECT_DETECTION
        only_raster = self.raster is not None and self.bounding_box is None and self.polygon is None
        return TaskType.SEMANTIC_SEGMENTATION if only_raster else TaskType.SKIP


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
