"""What matching gets and gives, declared once: the images of a batch, the choices of a run, the row tables. No torch.

The fields of :class:`MatchBatch` say dtype, values per row and side. From them come the schema of the torch op and the
order of its arguments. C++ reads them by the structs of csrc/core/match_batch.h, whose columns have the same names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu._frozen import frozen, replaced
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError

PADDING_BUCKET = 255
IMAGE_COLUMNS = (
    "ID", "HAS_ID", "GROUND_TRUTH_HASH", "RECORD_HASH", "DETECTIONS", "GROUND_TRUTHS",
    "NEGATIVE_SIZES", "REACHES",
)  # fmt: skip

CROWD, IGNORED, ID_ZERO, GROUP = 1, 2, 4, 8
"""Flags of ground truths; ``GROUP``, of a crowd under ``GROUP_OF``: counts as one, which its first detection finds."""

FREE, UNMATCHED_IGNORED = 1, 2
"""Flags of detections: one leaves its ground truth free; is ignored in the settings in which it matches nothing."""

AGNOSTIC, HASHED, CHECK_SCORES, USER_INPUT, WANT_MATCHES = 1, 2, 4, 8, 16
"""Options of a rule."""

COCO, GROUP_OF = 0, 1
"""Kinds of rules: how a detection chooses among its candidates."""

MAX_ROWS = 2**31 - 1
"""Most detections and ground truths of an image: kernels number them in 32 bits."""

FLOATS, INTEGERS = "floating", "integer"
DETECTIONS, GROUND_TRUTHS = "detections", "ground_truths"

Arrays = Sequence[Any]
"""One numpy array or tensor for each image, or one for all images; empty where the column is absent."""


class Column(NamedTuple):
    """What a column holds.

    Attributes:
        dtype: ``FLOATS`` or ``INTEGERS`` (several dtypes), or the one dtype by name.
        width: values per row.
        side: ``DETECTIONS`` or ``GROUND_TRUTHS``, which has a row for each.
    """

    dtype: str
    width: int
    side: str

    @property
    def typed(self) -> bool:
        """Whether kernels have to be told the dtype."""
        return self.dtype in (FLOATS, INTEGERS)


def _column(dtype: str, side: str, width: int = 1) -> dict[str, Any]:
    return {"column": Column(dtype, width, side), "schema": "Tensor[]"}


@frozen
class Pairs:
    """Pairs of a detection and a ground truth of its class that reach the lowest threshold, as a geometry finds them.

    The counts let a geometry write into rooms of a fixed size without first counting. The pairs of a detection come by
    similarity descending, of equal ones the later ground truth first.

    Attributes:
        offsets: int64 ``[D + 1]``: the room of detection d, in input order, begins at ``offsets[d]``.
        counts: int32 ``[D]``: how many entries of its room are used.
        ground_truths: int32 ``[P]``: positions of ground truths in their image.
        similarities: float64 ``[P]``, none NaN; every pair of the class where a threshold is at most 0.
    """

    offsets: Any = field(metadata={"dtype": "int64"})
    counts: Any = field(metadata={"dtype": "int32"})
    ground_truths: Any = field(metadata={"dtype": "int32"})
    similarities: Any = field(metadata={"dtype": "float64"})


@frozen
class MatchBatch:
    """Images whose detections are to be matched: boxes, or stored pairs of any geometry.

    Every column is a list that holds one contiguous array (numpy) or tensor per image, or one for all images; absent
    columns are empty. A batch of stored pairs has ``pairs``, ``areas``, ``gt_own_areas`` and, to be hashed, ``hashes``
    and ``gt_hashes`` in place of ``boxes`` and ``gt_boxes``.

    Attributes:
        lengths: int64 ``[2, I]`` on the CPU: detections D_i, then ground truths G_i of each image.
        boxes: ``[D_i, 4]`` floating, one dtype; likewise ``gt_boxes`` ``[G_i, 4]``.
        scores: ``[D_i]`` floating.
        labels: ``[D_i]`` integer; likewise ``gt_labels`` ``[G_i]``.
        areas: ``[D_i]`` float64 areas of the detections, else width x height.
        flags: ``[D_i]`` uint8 sums of ``FREE`` and ``UNMATCHED_IGNORED``.
        hashes: ``[D_i]`` int64, the content of a geometry in 64 bits; likewise ``gt_hashes`` ``[G_i]``.
        gt_flags: ``[G_i]`` integer: 0 or ``CROWD`` (with ``USER_INPUT``), else sums of the flags of ground truths.
        gt_areas: ``[G_i]`` floating, square pixels, as the user gives them.
        gt_own_areas: ``[G_i]`` float64 areas by geometry, which serve where ``gt_areas`` do not.
        image_ids: empty, or one int64 ``[I]`` on the CPU, or I one-element int64 tensors.
        counts: int64 ``[I]`` valid rows of padded detections, on the device; likewise ``gt_counts``.
        pairs: the pairs of a batch without boxes.
        box_format: code of the format, see ``ops.native_types.BOX_FORMATS``; likewise ``gt_box_format``.
        room: rows from one image to the next in every column of detections; 0: as many as the image has. Likewise
            ``gt_room``. Only the CPU kernel reads columns with gaps; :meth:`without_gaps` serves others.
    """

    lengths: Any = field(metadata={"schema": "Tensor"})
    boxes: Arrays = field(default_factory=list, metadata=_column(FLOATS, DETECTIONS, 4))
    scores: Arrays = field(default_factory=list, metadata=_column(FLOATS, DETECTIONS))
    labels: Arrays = field(default_factory=list, metadata=_column(INTEGERS, DETECTIONS))
    areas: Arrays = field(default_factory=list, metadata=_column("float64", DETECTIONS))
    flags: Arrays = field(default_factory=list, metadata=_column("uint8", DETECTIONS))
    hashes: Arrays = field(default_factory=list, metadata=_column("int64", DETECTIONS))
    gt_boxes: Arrays = field(default_factory=list, metadata=_column(FLOATS, GROUND_TRUTHS, 4))
    gt_labels: Arrays = field(default_factory=list, metadata=_column(INTEGERS, GROUND_TRUTHS))
    gt_flags: Arrays = field(default_factory=list, metadata=_column(INTEGERS, GROUND_TRUTHS))
    gt_areas: Arrays = field(default_factory=list, metadata=_column(FLOATS, GROUND_TRUTHS))
    gt_own_areas: Arrays = field(default_factory=list, metadata=_column("float64", GROUND_TRUTHS))
    gt_hashes: Arrays = field(default_factory=list, metadata=_column("int64", GROUND_TRUTHS))
    image_ids: Arrays = field(default_factory=list, metadata={"schema": "Tensor[]"})
    counts: Any = field(default=None, metadata={"schema": "Tensor?"})
    gt_counts: Any = field(default=None, metadata={"schema": "Tensor?"})
    pairs: Pairs | None = None
    box_format: int = field(default=0, metadata={"schema": "int"})
    gt_box_format: int = field(default=0, metadata={"schema": "int"})
    room: int = 0
    gt_room: int = 0

    def without_gaps(self, mask: Callable[[NDArray[np.bool_]], Any]) -> MatchBatch:
        """The batch with the rows of each image next to those of the image before.

        Args:
            mask: makes what the columns are indexed by.
        """
        changed: dict[str, Any] = {}
        for room, name, lengths in zip(
            (self.room, self.gt_room), (DETECTIONS, GROUND_TRUTHS), np.asarray(self.lengths)
        ):
            if room and (lengths < room).any():
                kept = mask((np.arange(room) < lengths[:, None]).reshape(-1))
                columns = [c for c, column in COLUMNS.items() if column.side == name]
                changed.update({c: [whole[kept] for whole in getattr(self, c)] for c in columns})
        return replaced(self, **changed, room=0, gt_room=0)


COLUMNS: dict[str, Column] = {f.name: f.metadata["column"] for f in fields(MatchBatch) if "column" in f.metadata}
"""The columns of a batch, detections first."""

TYPED = tuple(name for name, column in COLUMNS.items() if column.typed)
PAIR_TYPES: dict[str, str] = {f.name: f.metadata["dtype"] for f in fields(Pairs)}
"""The dtype of each array of pairs."""


@frozen
class MatchRule:
    """The choices of a matching run. A setting is one threshold of one area range.

    Attributes:
        thresholds: float64 ``[T]`` similarity thresholds, any order; those of ``COCO`` are lowered to
            ``1 - 1e-10`` as cocoeval does.
        area_ranges: float64 ``[A, 2]``, square pixels, both ends included.
        limits: int64 ``[M]`` ascending max-detection limits, 1 <= M < 255.
        options: a sum of ``AGNOSTIC``, ``HASHED``, ``CHECK_SCORES``, ``USER_INPUT`` and ``WANT_MATCHES``.
        kind: ``COCO`` or ``GROUP_OF``.
    """

    thresholds: NDArray[np.float64]
    area_ranges: NDArray[np.float64]
    limits: NDArray[np.int64]
    options: int = 0
    kind: int = COCO

    @classmethod
    def make(
        cls,
        thresholds: Sequence[float],
        area_ranges: Sequence[Sequence[float]],
        limits: Sequence[int],
        options: int = 0,
        kind: int = COCO,
    ) -> MatchRule:
        """Builds a rule from numbers; raises :class:`InputError` on empty, unsorted or non-finite ones."""
        check_choice("kind", kind, (COCO, GROUP_OF))
        ious = np.asarray(thresholds, np.float64).reshape(-1)
        areas = np.ascontiguousarray(area_ranges, np.float64)
        tops = np.ascontiguousarray(limits, np.int64).reshape(-1)
        if not ious.size or not np.isfinite(ious).all():
            raise InputError(f"iou_thresholds must hold at least one finite number but got {list(thresholds)}")
        if areas.ndim != 2 or not areas.shape[0] or areas.shape[1] != 2 or np.isnan(areas).any():
            raise InputError(f"area_ranges must be pairs [low, high] but got {area_ranges}")
        if not 0 < tops.size < PADDING_BUCKET or tops.tolist() != sorted(tops.tolist()) or int(tops[0]) < 0:
            raise InputError(
                f"max_detection limits must be 1 to {PADDING_BUCKET - 1} ascending numbers but got {len(limits)}:"
                f" {list(limits)[:8]}"
            )
        return cls(np.minimum(ious, 1 - 1e-10) if kind == COCO else ious, areas, tops, options, kind)

    @functools.cached_property
    def settings(self) -> int:
        """T * A: how many outcomes a detection has."""
        return int(self.thresholds.shape[0] * self.area_ranges.shape[0])

    @functools.cached_property
    def setting_bytes(self) -> int:
        """Bytes of one bit field: ceil(T * A / 8)."""
        return (self.settings + 7) // 8

    @functools.cached_property
    def detection_bytes(self) -> int:
        """Bytes of a row of ``detections``."""
        return 13 + 2 * self.setting_bytes

    @functools.cached_property
    def ground_truth_bytes(self) -> int:
        """Bytes of a row of ``ground_truths``."""
        return 4 + (int(self.area_ranges.shape[0]) + 2 + 7) // 8

    def numbers(self) -> NDArray[np.int64]:
        """Thresholds, area ranges and limits as words that follow one another."""
        parts = (self.thresholds, self.area_ranges, self.limits)
        return np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.int64) for part in parts])

    @functools.cached_property
    def _cache(self) -> dict[Any, bytes]:
        return {}

    def words(self, types: Mapping[str, int], box_format: int, gt_box_format: int) -> bytes:
        """The Rule of csrc/core/match_batch.h and the numbers, for columns of dtype codes ``types``, 0 if absent."""
        key = (*types.values(), box_format, gt_box_format)
        if key not in self._cache:
            sizes = {"num_thresholds": self.thresholds, "num_areas": self.area_ranges, "num_limits": self.limits}
            head = native.struct("valor_cpu", "Rule")(
                box_format=box_format,
                gt_box_format=gt_box_format,
                options=self.options,
                kind=self.kind,
                **{name: len(numbers) for name, numbers in sizes.items()},
                **{f"{name}_type": code for name, code in types.items()},
            )
            self._cache[key] = bytes(head) + self.numbers().tobytes()
        return self._cache[key]

    def plain_words(self, codes: tuple[int, ...], box_format: int) -> bytes:
        """Returns :meth:`words` for codes in the order of ``TYPED`` and one format, without a dict where it can."""
        known = self._cache.get((*codes, box_format, box_format))
        return known or self.words(dict(zip(TYPED, codes)), box_format, box_format)


class Matched(NamedTuple):
    """What matching leaves: three row tables, matches int32 ``[D, L]`` when wanted (-1: none), and an error code.

    Row layouts: docs/design/001-detection-records.md.
    """

    detections: Any
    ground_truths: Any
    images: Any
    matches: Any
    error: Any


def allocate(empty: Callable[[tuple[int, ...], str], Any], rows: tuple[Any, Any, Any], rule: MatchRule) -> Matched:
    """Output for so many detections, ground truths and images; ``matches`` and ``error`` are not set.

    Args:
        empty: makes an array of a shape and a dtype, by name.
        rows: detections, ground truths, images.
        rule: the choices of the run.
    """
    detections, ground_truths, images = rows
    wanted = rule.options & WANT_MATCHES
    return Matched(
        empty((detections, rule.detection_bytes), "uint8"),
        empty((ground_truths, rule.ground_truth_bytes), "uint8"),
        empty((images, len(IMAGE_COLUMNS)), "int64"),
        empty((detections if wanted else 0, rule.settings), "int32"),
        empty((), "int64"),
    )


def check_sizes(rows: tuple[int, int, int], lengths: Any) -> None:
    """Raises unless every image has fewer rows than 32 bits can number; images are looked at only where one might."""
    if rows[0] + rows[1] > MAX_ROWS and (largest := int(lengths.sum(0).max())) > MAX_ROWS:
        raise InputError(f"an image must have at most {MAX_ROWS} detections and ground truths but one has {largest}")


# ------------------------------------------------------------------------------------------------- arguments of the op

_BATCH_ARGUMENTS = {f.name: f.metadata["schema"] for f in fields(MatchBatch) if "schema" in f.metadata}
_RULE_ARGUMENTS = {"thresholds": "Tensor", "area_ranges": "Tensor", "limits": "Tensor", "options": "int", "kind": "int"}
_ARGUMENTS = {**_BATCH_ARGUMENTS, **{f"pair_{name}": "Tensor?" for name in PAIR_TYPES}, **_RULE_ARGUMENTS}


def schema(op: str) -> str:
    """The torch schema of an op that takes a batch and a rule."""
    arguments = ", ".join(f"{kind} {name}" for name, kind in _ARGUMENTS.items())
    return f"{op}({arguments}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"


def to_arguments(batch: MatchBatch, rule: MatchRule, tensor: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The arguments of the op, in the order of its schema; ``tensor`` makes tensors of the arrays of the rule."""
    values = [getattr(batch, name) for name in _BATCH_ARGUMENTS]
    values += [None if batch.pairs is None else getattr(batch.pairs, name) for name in PAIR_TYPES]
    for name, kind in _RULE_ARGUMENTS.items():
        value = getattr(rule, name)
        values.append(tensor(value) if kind == "Tensor" else value)
    return tuple(values)


def from_arguments(arguments: Sequence[Any], array: Callable[[Any], Any]) -> tuple[MatchBatch, MatchRule]:
    """The batch and the rule that :func:`to_arguments` took apart; ``array`` makes arrays of the rule's tensors."""
    values = dict(zip(_ARGUMENTS, arguments))
    stored = [values[f"pair_{name}"] for name in PAIR_TYPES]
    pairs = None if stored[0] is None else Pairs(*stored)
    batch = MatchBatch(**{name: values[name] for name in _BATCH_ARGUMENTS}, pairs=pairs)
    choices = {
        name: array(values[name]) if kind == "Tensor" else values[name] for name, kind in _RULE_ARGUMENTS.items()
    }
    return batch, MatchRule(**choices)
