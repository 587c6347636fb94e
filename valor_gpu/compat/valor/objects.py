"""Ground truths and predictions of valor_core, or frames of them, as the columns that are evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from valor_gpu.compat.valor.enums import TaskType
from valor_gpu.compat.valor.schemas import Annotation, GroundTruth, Prediction
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import frames
from valor_gpu.valor.columns import Columns, Metadata, Reader, Rows, check_scores
from valor_gpu.valor.detection.shapes import ShapeLists
from valor_gpu.valor.mask_columns import Mask, Outline
from valor_gpu.valor.tasks import DETECTION, EMPTY, OTHERS, SEGMENTATION, SKIP, no_task


def read_columns(groundtruths: Any, predictions: Any, task: TaskType = TaskType.CLASSIFICATION) -> Columns:
    """Reads lists of objects, or frames, as integer columns.

    Args:
        groundtruths: :class:`~valor_gpu.valor.GroundTruth` objects, or a frame with columns ``datum_uid``,
            ``label_key`` and ``label_value``.
        predictions: :class:`~valor_gpu.valor.Prediction` objects, or such a frame with a column ``score``; of a
            segmentation both frames have a column ``raster`` and no scores, of a detection columns of geometries, see
            :mod:`valor_gpu.valor.detection.frames`.
        task: classification, object detection or semantic segmentation; annotations of others are left out, see
            :mod:`valor_gpu.valor.tasks`.

    A frame may have ``annotation_id`` and metadata for filters in columns ``datum_metadata.<name>`` and
    ``annotation_metadata.<name>`` or, as dicts, ``datum_metadata`` and ``annotation_metadata``.

    Raises:
        InputError: another type, an empty list, a column that is missing, a row of a frame without uid, label key or
            label value, an annotation that belongs to no task, a score that is no finite number (in a segmentation any
            score), masks of a datum of several shapes, or an annotation of a detection without a geometry.
    """
    reader = ObjectReader(TaskType(task).value)
    rows = []
    for name, data, kind in (("groundtruths", groundtruths, GroundTruth), ("predictions", predictions, Prediction)):
        if frames.is_frame(data):
            rows.append(reader.frame(name, data, scored=kind is Prediction))
        elif isinstance(data, Iterable):
            rows.append(reader.objects(name, data, kind))
        else:
            raise InputTypeError(
                f"{name} must be a list of {kind.__name__} objects or a frame but got {type(data).__name__}"
            )
    columns = reader.columns(*rows)
    check_scores(columns, reader.task)
    return columns


class ObjectReader(Reader):
    """Reads objects, beside frames."""

    def objects(self, name: str, items: Iterable[GroundTruth | Prediction], kind: type) -> Rows:
        """Returns the rows of objects that belong to the task.

        Args:
            name: of the side, for messages.
            items: objects.
            kind: their class.
        """
        lists = _Lists()
        empty, self.ignored[name] = True, 0
        for item in items:
            empty = False
            if not isinstance(item, kind):
                raise InputTypeError(f"{name} must hold {kind.__name__} objects but got {type(item).__name__}")
            if item.datum.uid is None:
                raise InputError(f"{name} must have datums with a uid but got None")
            self.uids.setdefault(item.datum.uid)
            self.describe(item.datum.uid, item.datum.metadata)
            self._item(name, item, lists)
        if empty:
            raise InputError(
                f"{name} must hold at least one {kind.__name__} but is empty; {kind.__name__}(datum, []) stands for a "
                "datum without labels"
            )
        self.annotations += len(lists.metadata)
        rows = lists.rows()
        if self.task != DETECTION:
            return rows
        given = lists.shapes()
        return replace(rows, shapes=given.read(name, self.uids_of(rows), self.masks))

    def _item(self, name: str, item: GroundTruth | Prediction, lists: _Lists) -> None:
        """Adds the annotations of a datum; runs once for each: it looks few names up."""
        wanted, labels, before, number = [self.task], self.labels, len(lists.label), len(lists.metadata)
        add_label, add_annotation, add_score = lists.label.append, lists.annotation.append, lists.score.append
        masked = self.task == SEGMENTATION
        for place, annotation in enumerate(item.annotations):
            given = annotation.labels
            if not given or (
                annotation.implied_task_types != wanted
                and not _belongs(name, item.datum.uid or "", annotation, self.task)
            ):
                self.ignored[name] += annotation.implied_task_types != [EMPTY]
                continue
            if masked:
                where, geometries = f"{name} annotation {place}", (annotation.raster, annotation.polygon)
                lists.masks.append(self.masks.read_either(where, item.datum.uid, *geometries))
            for label in given:
                add_label(labels.setdefault((label.key, label.value), len(labels)))
                add_annotation(number)
                add_score(label.score)
            number += 1
            lists.metadata.append(annotation.metadata)
            lists.places.append(place)
            lists.annotations.append(annotation)
        if added := len(lists.label) - before:
            lists.datum.extend([self.datums.setdefault(item.datum.uid, len(self.datums))] * added)


@dataclass
class _Lists:
    """Rows under construction."""

    datum: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    annotation: list[int] = field(default_factory=list)
    score: list[float | None] = field(default_factory=list)
    metadata: list[Metadata | None] = field(default_factory=list)
    masks: list[Mask | Outline] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)

    def rows(self) -> Rows:
        datum, label, annotation = (np.array(values, np.int32) for values in (self.datum, self.label, self.annotation))
        return Rows(datum, label, annotation, np.array(self.score, np.float64), self.metadata, self.masks)

    def shapes(self) -> ShapeLists:
        columns = ([getattr(each, name) for each in self.annotations] for name in ("bounding_box", "polygon", "raster"))
        return ShapeLists(self.places, *columns)


def _belongs(name: str, uid: str, annotation: Annotation, task: str) -> bool:
    """Returns whether an annotation with labels belongs to a task.

    Args:
        name: of the side, for messages.
        uid: of the datum, for messages.
        annotation: an annotation with labels.
        task: classification, object detection or semantic segmentation.

    Raises:
        InputError: the annotation belongs to no task.
    """
    tasks = annotation.implied_task_types or ()
    if task in tasks:
        return True
    if SKIP in tasks:
        if task == SEGMENTATION and _is_outline(annotation):
            return True
        raise no_task(name, uid)
    return False


def _is_outline(annotation: Annotation) -> bool:
    """Returns whether a polygon is all that an annotation has beside labels: valor_core gives such a one no task."""
    others = (getattr(annotation, field) for field in ("bounding_box", "raster", *OTHERS))
    return annotation.polygon is not None and not annotation.is_instance and all(other is None for other in others)
