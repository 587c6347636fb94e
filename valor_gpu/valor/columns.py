"""Ground truths and predictions as integer columns, made once: filters and metrics read nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import frames
from valor_gpu.valor.detection.frames import frame_shapes
from valor_gpu.valor.detection.shapes import ShapeLists, Shapes
from valor_gpu.valor.enums import TaskType
from valor_gpu.valor.label_map import Pair, map_labels
from valor_gpu.valor.labels import Label
from valor_gpu.valor.mask_columns import Mask, MaskReader, Outline
from valor_gpu.valor.schemas import Annotation, GroundTruth, Prediction
from valor_gpu.valor.tasks import ANNOTATION, DATUM, belongs, is_read, read_metadata, task_rows

Metadata = Mapping[str, Any]


@dataclass(frozen=True)
class Rows:
    """One row for each label of each annotation, in the order in which they came.

    Attributes:
        datum: int32 ``[rows]``, place in ``Columns.datums``.
        label: int32 ``[rows]``, place in ``Columns.labels``.
        annotation: int32 ``[rows]``, place in ``metadata``.
        score: float64 ``[rows]``; of ground truths NaN.
        metadata: of each annotation.
        masks: of each annotation of a segmentation, bool ``[H, W]``; while rows are read also outlines.
        shapes: of all annotations of a detection.
    """

    datum: NDArray[np.int32]
    label: NDArray[np.int32]
    annotation: NDArray[np.int32]
    score: NDArray[np.float64]
    metadata: Sequence[Metadata | None] = ()
    masks: Sequence[Any] = ()
    shapes: Shapes | None = None

    def __len__(self) -> int:
        return len(self.datum)

    def take(self, chosen: NDArray[Any]) -> Rows:
        """The rows of a mask, or at these places."""
        datum, label, annotation = (column[chosen] for column in (self.datum, self.label, self.annotation))
        return Rows(datum, label, annotation, self.score[chosen], self.metadata, self.masks, self.shapes)


@dataclass(frozen=True)
class Columns:
    """Both sides of an evaluation.

    Attributes:
        datums: uid of each datum that has a label of the task, in the order of the data, ground truths first.
        datum_metadata: of each datum.
        labels: (key, value) of each label.
        groundtruths: what is true.
        predictions: what a model said.
        annotations: number of annotations on both sides.
        uids: of all datums that were given, also of those without labels of the task.
        ignored: annotations of other tasks by side; of a frame its rows.
    """

    datums: list[str]
    datum_metadata: list[Metadata | None]
    labels: list[Pair]
    groundtruths: Rows
    predictions: Rows
    annotations: int
    uids: frozenset[str] = frozenset()
    ignored: Mapping[str, int] = field(default_factory=dict)

    def mapped(self, label_map: Mapping[Label, Label] | None) -> Columns:
        """The columns with the labels of a label map."""
        labels, places = map_labels(self.labels, label_map)
        moved = np.array(places, np.int32)
        truths, rows = (replace(side, label=moved[side.label]) for side in (self.groundtruths, self.predictions))
        return replace(self, labels=labels, groundtruths=truths, predictions=rows)

    def labels_of(self, rows: Rows) -> set[Pair]:
        """The labels that rows have."""
        return {self.labels[place] for place in np.unique(rows.label).tolist()}


_Codes = dict[Any, int]


@dataclass
class _Reader:
    """Codes that both sides share while they are read."""

    task: TaskType = TaskType.CLASSIFICATION
    datums: _Codes = field(default_factory=dict)
    labels: _Codes = field(default_factory=dict)
    metadata: dict[Any, Metadata] = field(default_factory=dict)  # by uid
    annotations: int = 0
    uids: dict[str, None] = field(default_factory=dict)  # in the order in which they came
    ignored: dict[str, int] = field(default_factory=dict)
    masks: MaskReader = field(default_factory=MaskReader)

    def objects(self, name: str, items: Iterable[GroundTruth | Prediction], kind: type) -> Rows:
        lists = _Lists()
        empty, self.ignored[name] = True, 0
        for item in items:
            empty = False
            if not isinstance(item, kind):
                raise InputTypeError(f"{name} must hold {kind.__name__} objects but got {type(item).__name__}")
            if item.datum.uid is None:
                raise InputError(f"{name} must have datums with a uid but got None")
            self.uids.setdefault(item.datum.uid)
            self._describe(item.datum.uid, item.datum.metadata)
            self._item(name, item, lists)
        if empty:
            raise InputError(
                f"{name} must hold at least one {kind.__name__} but is empty; {kind.__name__}(datum, []) stands for a "
                "datum without labels"
            )
        self.annotations += len(lists.metadata)
        rows = lists.rows()
        if self.task is not TaskType.OBJECT_DETECTION:
            return rows
        given = ShapeLists.of(lists.places, lists.annotations)
        return replace(rows, shapes=given.read(name, self._uids(rows), self.masks))

    def _uids(self, rows: Rows) -> list[str]:
        """The uid of the datum of each annotation."""
        datums = np.zeros(len(rows.metadata), np.int32)
        datums[rows.annotation] = rows.datum
        uids = list(self.datums)
        return [uids[datum] for datum in datums.tolist()]

    def _item(self, name: str, item: GroundTruth | Prediction, lists: _Lists) -> None:
        """Adds the annotations of a datum; runs once for each: it looks few names up."""
        wanted, labels, before, number = [self.task.value], self.labels, len(lists.label), len(lists.metadata)
        add_label, add_annotation, add_score = lists.label.append, lists.annotation.append, lists.score.append
        masked = self.task is TaskType.SEMANTIC_SEGMENTATION
        for place, annotation in enumerate(item.annotations):
            given = annotation.labels
            if not given or (
                annotation.implied_task_types != wanted
                and not belongs(name, item.datum.uid or "", annotation, self.task)
            ):
                self.ignored[name] += annotation.implied_task_types != [TaskType.EMPTY.value]
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

    def _describe(self, uid: Any, entry: Metadata | None) -> None:
        """Adds metadata of a datum; of a name that came before, the first value that is not None stays."""
        if not entry:
            return
        known = self.metadata.setdefault(uid, entry)
        if known is not entry and any(known.get(name) is None for name in entry):
            self.metadata[uid] = {**entry, **{name: value for name, value in known.items() if value is not None}}

    def frame(self, name: str, frame: Any, scored: bool) -> Rows:
        frame = frames.open_frame(name, frame)
        uids, keys, values = (frames.column(name, frame, c) for c in ("datum_uid", "label_key", "label_value"))
        if not len(uids) == len(keys) == len(values):
            raise InputError(f"{name} must have columns of one length but got {len(uids)}, {len(keys)}, {len(values)}")
        names = frames.column_names(frame)
        frames.check_lengths(name, frame, [column for column in names if is_read(column)], len(uids))
        score = np.full(len(uids), np.nan)
        if scored and (self.task is not TaskType.SEMANTIC_SEGMENTATION or "score" in names):
            score = frames.scores(name, frame)
        given = (frames.text_of(uid) for uid in dict.fromkeys(uids.tolist()) if not frames.is_missing(uid))
        self.uids.update(dict.fromkeys(given))
        every = read_metadata(name, frame, names, DATUM, np.arange(len(uids)))
        for uid, entry in zip(uids.tolist() if any(every) else (), every):
            self._describe(frames.text_of(uid), entry)
        kept, others = task_rows(name, frame, names, uids, keys, values, self.task)
        self.ignored[name] = len(others)
        uids, keys, values, score = uids[kept], keys[kept], values[kept], score[kept]
        datum = frames.encode(uids, self.datums, as_text=True)
        _check_whole(name, "datum_uid", self.datums, datum)
        annotation, first = _annotations_of(name, frame, names, kept, datum)
        self.annotations += len(first)
        first_rows = kept[first]
        label = self._label_codes(name, keys, values)
        metadata = read_metadata(name, frame, names, ANNOTATION, first_rows)
        rows = Rows(datum, label, annotation, score, metadata)
        if self.task is TaskType.CLASSIFICATION:
            return rows
        if self.task is TaskType.OBJECT_DETECTION:
            shapes = frame_shapes(name, frame, kept, annotation, first, self._uids(rows), self.masks)
            return replace(rows, shapes=shapes)
        return replace(rows, masks=self.masks.column(name, frame, kept, uids.tolist(), annotation))

    def _label_codes(self, name: str, keys: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int32]:
        """Encodes keys and values apart, so that tuples are made once per label and not once per row."""
        key_codes: _Codes = {}
        value_codes: _Codes = {}
        key = frames.encode(keys, key_codes, as_text=True)
        value = frames.encode(values, value_codes, as_text=True)
        _check_whole(name, "label_key", key_codes, key)
        _check_whole(name, "label_value", value_codes, value)
        pairs = key.astype(np.int64) << 32 | value
        key_names, value_names = list(key_codes), list(value_codes)
        table = {}
        for pair in dict.fromkeys(pairs.tolist()):
            label = (key_names[pair >> 32], value_names[pair & 0xFFFFFFFF])
            table[pair] = self.labels.setdefault(label, len(self.labels))
        return np.fromiter(map(table.__getitem__, pairs.tolist()), np.int32, len(pairs))

    def columns(self, groundtruths: Rows, predictions: Rows) -> Columns:
        # Codes were dealt to labels as they came: a datum without any on its first side got a late one.
        datums = [uid for uid in self.uids if uid in self.datums]
        places = np.empty(len(datums), np.int32)
        places[[self.datums[uid] for uid in datums]] = np.arange(len(datums), dtype=np.int32)
        truths, rows = (
            replace(side, datum=places[side.datum], masks=self.masks.complete(side.masks, self.metadata))
            for side in (groundtruths, predictions)
        )
        return Columns(
            datums,
            [self.metadata.get(uid) for uid in datums],
            list(self.labels),
            truths,
            rows,
            self.annotations,
            frozenset(self.uids),
            self.ignored,
        )


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


def _check_whole(name: str, column: str, codes: _Codes, rows: NDArray[np.int32]) -> None:
    """Raises if a row holds no value: None, NaN, NaT or NA."""
    for value, code in codes.items():
        if frames.is_missing(value):
            row = int(np.flatnonzero(rows == code)[0])
            raise InputError(f"{name} must have a {column} in every row but row {row} has {value!r}")


def _annotations_of(
    name: str, frame: Any, names: Sequence[str], kept: NDArray[np.int64], datum: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The annotation of each kept row, and the first row of each.

    Rows of a datum with one ``annotation_id`` are one annotation, a row without is one by itself. Ids are often counted
    anew in each datum, so that equal ones of two datums are two annotations.
    """
    if "annotation_id" not in names:
        return np.arange(len(kept), dtype=np.int32), np.arange(len(kept))
    codes: _Codes = {}
    ids = frames.encode(frames.column(name, frame, "annotation_id")[kept], codes).astype(np.int64)
    alone = np.isin(ids, [code for value, code in codes.items() if frames.is_missing(value)])
    ids[alone] = len(codes) + np.arange(np.count_nonzero(alone))
    first, place = np.unique(
        datum.astype(np.int64) * (len(codes) + len(kept)) + ids, return_index=True, return_inverse=True
    )[1:]
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return number[place], first[order]


def read_columns(groundtruths: Any, predictions: Any, task: TaskType = TaskType.CLASSIFICATION) -> Columns:
    """Integer columns of lists of objects or of frames.

    Args:
        groundtruths: :class:`~valor_gpu.valor.schemas.GroundTruth` objects, or a frame with columns ``datum_uid``,
            ``label_key`` and ``label_value``.
        predictions: :class:`~valor_gpu.valor.schemas.Prediction` objects, or such a frame with a column ``score``; of a
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
    reader = _Reader(task)
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
    _check_scores(columns, task)
    return columns


def _check_scores(columns: Columns, task: TaskType) -> None:
    row, wanted = columns.predictions, "finite scores"
    wrong = ~np.isfinite(row.score)
    if task is TaskType.SEMANTIC_SEGMENTATION:
        wrong, wanted = ~np.isnan(row.score), "no scores in a segmentation"
    bad = np.flatnonzero(wrong)
    if len(bad):
        label, uid = columns.labels[row.label[bad[0]]], columns.datums[row.datum[bad[0]]]
        raise InputError(
            f"predictions must have {wanted} but got {row.score[bad[0]]} for {': '.join(label)} of datum {uid!r}"
        )


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Several columns as one; a datum of several parts is one datum.

    Example:
        >>> join_columns([]).datums
        []
    """
    reader = _Reader(annotations=sum(part.annotations for part in parts))
    for names in (*(part.datums for part in parts), *(part.uids for part in parts)):
        reader.uids.update(dict.fromkeys(names))
    for part in parts:
        for name, number in part.ignored.items():
            reader.ignored[name] = reader.ignored.get(name, 0) + number
    moved: tuple[list[Rows], list[Rows]] = ([], [])
    offsets = [0, 0]
    for part in parts:
        datums, labels = frames.encode(part.datums, reader.datums), frames.encode(part.labels, reader.labels)
        for uid, entry in zip(part.datums, part.datum_metadata):
            reader._describe(uid, entry)
        for side, rows in enumerate((part.groundtruths, part.predictions)):
            annotation = rows.annotation + np.int32(offsets[side])
            offsets[side] += len(rows.metadata)
            moved[side].append(
                replace(rows, datum=datums[rows.datum], label=labels[rows.label], annotation=annotation, masks=())
            )
    return reader.columns(*(_concatenated(side) for side in moved))


def _concatenated(parts: Sequence[Rows]) -> Rows:
    if not parts:
        return _Lists().rows()
    shapes = [part.shapes for part in parts]
    return Rows(
        np.concatenate([part.datum for part in parts]),
        np.concatenate([part.label for part in parts]),
        np.concatenate([part.annotation for part in parts]),
        np.concatenate([part.score for part in parts]),
        [entry for part in parts for entry in part.metadata],
        shapes=None if None in shapes else Shapes.join([part for part in shapes if part is not None]),
    )


def count_annotations(columns: Columns, truths: NDArray[np.bool_], rows: NDArray[np.bool_]) -> int:
    """Annotations of both sides with a row that is kept.

    Args:
        columns: both sides.
        truths: which rows of ground truths are kept.
        rows: which rows of predictions are kept.
    """
    sides = ((columns.groundtruths, truths), (columns.predictions, rows))
    return sum(len(np.unique(side.annotation[mask])) for side, mask in sides)
