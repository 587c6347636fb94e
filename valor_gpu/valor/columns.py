"""Ground truths and predictions as integer columns, made once: filters and metrics read nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.valor import frames
from valor_gpu.valor.detection.frames import frame_shapes
from valor_gpu.valor.detection.shapes import Shapes
from valor_gpu.valor.mask_columns import MaskReader
from valor_gpu.valor.tasks import (
    ANNOTATION,
    CLASSIFICATION,
    DATUM,
    DETECTION,
    SEGMENTATION,
    is_read,
    read_metadata,
    task_rows,
)

Metadata = Mapping[str, Any]
Pair = tuple[str, str]


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


def map_labels(labels: Sequence[Pair], label_map: Mapping[Pair, Pair]) -> tuple[list[Pair], list[int]]:
    """Returns the labels after the map, and for each label before it the place of its successor among them.

    Args:
        labels: (key, value) of each label.
        label_map: labels that are not in it stay.

    Example:
        >>> map_labels([("c", "a"), ("c", "b")], {("c", "a"): ("c", "b")})
        ([('c', 'b')], [0, 0])
    """
    codes: dict[Pair, int] = {}
    places = [codes.setdefault(label_map.get(label, label), len(codes)) for label in labels]
    return list(codes), places


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

    def mapped(self, label_map: Mapping[Pair, Pair]) -> Columns:
        """Returns the columns with labels replaced by those that a label map gives for them."""
        labels, places = map_labels(self.labels, label_map)
        moved = np.array(places, np.int32)
        truths, rows = (replace(side, label=moved[side.label]) for side in (self.groundtruths, self.predictions))
        return replace(self, labels=labels, groundtruths=truths, predictions=rows)

    def labels_of(self, rows: Rows) -> set[Pair]:
        """The labels that rows have."""
        return {self.labels[place] for place in np.unique(rows.label).tolist()}


_Codes = dict[Any, int]


@dataclass
class Reader:
    """Codes that both sides share while they are read.

    Attributes:
        task: task type whose annotations are read.
    """

    task: str = CLASSIFICATION
    datums: _Codes = field(default_factory=dict)
    labels: _Codes = field(default_factory=dict)
    metadata: dict[Any, Metadata] = field(default_factory=dict)  # by uid
    annotations: int = 0
    uids: dict[str, None] = field(default_factory=dict)  # in the order in which they came
    ignored: dict[str, int] = field(default_factory=dict)
    masks: MaskReader = field(default_factory=MaskReader)

    def uids_of(self, rows: Rows) -> list[str]:
        """The uid of the datum of each annotation."""
        datums = np.zeros(len(rows.metadata), np.int32)
        datums[rows.annotation] = rows.datum
        uids = list(self.datums)
        return [uids[datum] for datum in datums.tolist()]

    def describe(self, uid: Any, entry: Metadata | None) -> None:
        """Adds metadata of a datum; of a name that came before, the first value that is not None stays."""
        if not entry:
            return
        known = self.metadata.setdefault(uid, entry)
        if known is not entry and any(known.get(name) is None for name in entry):
            self.metadata[uid] = {**entry, **{name: value for name, value in known.items() if value is not None}}

    def frame(self, name: str, frame: Any, scored: bool) -> Rows:
        """Returns the rows of a frame that belong to the task.

        Args:
            name: of the side, for messages.
            frame: with columns ``datum_uid``, ``label_key`` and ``label_value``.
            scored: whether it has a column ``score``.
        """
        frame = frames.open_frame(name, frame)
        uids, keys, values = (frames.column(name, frame, c) for c in ("datum_uid", "label_key", "label_value"))
        if not len(uids) == len(keys) == len(values):
            raise InputError(f"{name} must have columns of one length but got {len(uids)}, {len(keys)}, {len(values)}")
        names = frames.column_names(frame)
        frames.check_lengths(name, frame, [column for column in names if is_read(column)], len(uids))
        score = np.full(len(uids), np.nan)
        if scored and (self.task != SEGMENTATION or "score" in names):
            score = frames.scores(name, frame)
        given = (frames.text_of(uid) for uid in dict.fromkeys(uids.tolist()) if not frames.is_missing(uid))
        self.uids.update(dict.fromkeys(given))
        every = read_metadata(name, frame, names, DATUM, np.arange(len(uids)))
        for uid, entry in zip(uids.tolist() if any(every) else (), every):
            self.describe(frames.text_of(uid), entry)
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
        if self.task == CLASSIFICATION:
            return rows
        if self.task == DETECTION:
            shapes = frame_shapes(name, frame, kept, annotation, first, self.uids_of(rows), self.masks)
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
        """Returns both sides, after they are read."""
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


def check_scores(columns: Columns, task: str) -> None:
    """Raises unless predictions have finite scores, or in a segmentation none."""
    row, wanted = columns.predictions, "finite scores"
    wrong = ~np.isfinite(row.score)
    if task == SEGMENTATION:
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
    reader = Reader(annotations=sum(part.annotations for part in parts))
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
            reader.describe(uid, entry)
        for side, rows in enumerate((part.groundtruths, part.predictions)):
            annotation = rows.annotation + np.int32(offsets[side])
            offsets[side] += len(rows.metadata)
            moved[side].append(
                replace(rows, datum=datums[rows.datum], label=labels[rows.label], annotation=annotation, masks=())
            )
    return reader.columns(*(_concatenated(side) for side in moved))


def _concatenated(parts: Sequence[Rows]) -> Rows:
    if not parts:
        none = np.zeros(0, np.int32)
        return Rows(none, none, none, np.zeros(0), [], [])
    shapes = [part.shapes for part in parts]
    return Rows(
        np.concatenate([part.datum for part in parts]),
        np.concatenate([part.label for part in parts]),
        np.concatenate([part.annotation for part in parts]),
        np.concatenate([part.score for part in parts]),
        [entry for part in parts for entry in part.metadata],
        shapes=None if None in shapes else Shapes.join([part for part in shapes if part is not None]),
    )


Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Kept:
    """Data that a filter keeps.

    Attributes:
        columns: all data.
        datums: bool, which of ``columns.datums`` are kept.
        truths: bool, which of ``columns.groundtruths``.
        rows: bool, which of ``columns.predictions``.
    """

    columns: Columns
    datums: Mask
    truths: Mask
    rows: Mask

    @property
    def masks(self) -> tuple[Mask, Mask, Mask]:
        """Of datums, ground truths and predictions."""
        return self.datums, self.truths, self.rows

    @cached_property
    def sides(self) -> tuple[Rows, Rows]:
        """Ground truths and predictions that are kept."""
        return self.columns.groundtruths.take(self.truths), self.columns.predictions.take(self.rows)

    @cached_property
    def labels(self) -> tuple[set[Pair], set[Pair]]:
        """Labels of the ground truths and of the predictions."""
        truths, rows = map(self.columns.labels_of, self.sides)
        return truths, rows

    @property
    def num_datums(self) -> int:
        """Number of datums."""
        return int(np.count_nonzero(self.datums))

    @property
    def num_annotations(self) -> int:
        """Number of annotations of both sides that have a row."""
        return sum(len(np.unique(side.annotation)) for side in self.sides)

    def one_sided(self) -> tuple[int, int]:
        """Returns the numbers of datums without ground truths and of datums without predictions."""
        here = np.zeros((2, len(self.datums)), np.bool_)
        for place, side in enumerate(self.sides):
            here[place, side.datum] = True
        truths, rows = np.count_nonzero(self.datums & ~here, axis=1).tolist()
        return truths, rows
