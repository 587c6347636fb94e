"""Error codes that kernels report: NO_ERROR, how a place is packed into a code, and the message of each code.

Kernels return the smallest code they meet, int64 ``[]``. A code of a table of values is
``(row << 32 | column) << 4 | kind``, a code of a batch of images ``(image << 28 | row) << 5 | kind``, so that the
smallest is the first in reading order. csrc/core/error_codes.h packs the same way. Imports torch only to make codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from valor_gpu.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

NO_ERROR = 2**63 - 1
"""Code of a run without an error, larger than every other code."""

TARGET, NAN_SCORE, WEIGHT, PREDICTION = 1, 2, 3, 4
"""Kinds of errors in a table of values."""

GROUP = 6
"""Kind of an error in the group of an element."""

ROUNDED_SCORES = 5
"""Code without a place: float64 scores that would change in the dtype in which they are kept."""

LAST_ROW = (1 << 27) - 1
"""Row that stands for itself and for all rows after it."""

PAIR_OFFSETS, PAIR_COUNT, PAIR_GROUND_TRUTH, PAIR_SIMILARITY, PAIR_ORDER, PAIR_CLASS = range(10, 16)
"""Kinds of errors in the stored pairs of a detection."""

NOT_FINITE, NEGATIVE_SIZE = 1, 16
"""Kinds of errors in a box of a detection."""

_Code = TypeVar("_Code", int, "Tensor")
_Places = TypeVar("_Places", int, "NDArray[np.int64]", "Tensor")

_KIND_BITS, _COLUMN_BITS = 4, 32
_BOX_KIND_BITS, _BOX_BITS = 5, 28
_BOX_ERRORS = {
    NOT_FINITE: ("preds", "boxes", "must be finite"),
    2: ("preds", "scores", "must not be NaN"),
    3: ("preds", "labels", "must fit in int32"),
    4: ("target", "boxes", "must be finite"),
    5: ("target", "labels", "must fit in int32"),
    6: ("target", "area", "must be finite"),
    7: ("target", "iscrowd", "must be 0 or 1"),
    8: ("preds", "counts", "must lie between 0 and the padded length"),
    9: ("target", "counts", "must lie between 0 and the padded length"),
    PAIR_OFFSETS: ("preds", "pairs.offsets", "must ascend and lie inside the pairs"),
    PAIR_COUNT: ("preds", "pairs.counts", "must lie between 0 and the room of the detection"),
    PAIR_GROUND_TRUTH: ("preds", "pairs.ground_truths", "must be positions in the image"),
    PAIR_SIMILARITY: ("preds", "pairs.similarities", "must not be NaN"),
    PAIR_ORDER: ("preds", "pairs.similarities", "must descend, the later ground truth first on ties"),
    PAIR_CLASS: ("preds", "pairs.ground_truths", "must have the label of the detection"),
    NEGATIVE_SIZE: ("preds", "boxes", "must have a width and a height of at least 0"),
    17: ("target", "boxes", "must have a width and a height of at least 0"),
    18: ("preds", "boxes", "must be the corners of a convex quadrilateral, one after another"),
    19: ("target", "boxes", "must be the corners of a convex quadrilateral, one after another"),
    20: ("preds", "masks", "must be runs of at least 0 that add up to height x width"),
    21: ("target", "masks", "must be runs of at least 0 that add up to height x width"),
    24: ("preds", "keypoints", "must be finite"),
    25: ("target", "keypoints", "must be finite"),
    26: ("target", "area", "must be finite and at least 0"),
    27: ("target", "area", "must be finite and above 0"),
}
GROUND_TRUTH_BOX_ERRORS = tuple(k for k, (side, name, _) in _BOX_ERRORS.items() if (side, name) == ("target", "boxes"))
"""Kinds of errors in boxes of ground truths; of other kinds in boxes, a detection is wrong."""


class Names(NamedTuple):
    """What a message calls the arguments, and what their values may be.

    Attributes:
        classes: number of classes or labels, C.
        per_element: whether the target is ``[N, C]`` of 0 and 1, else ``[N]`` of class indices.
        scores: the argument that holds scores, or predicted classes.
        target: the argument that holds the target.
        weight: the argument that holds the weights.
    """

    classes: int
    per_element: bool = False
    scores: str = "preds"
    target: str = "target"
    weight: str = "sample_weight"


def pack_value(row: _Places, column: _Places, kind: int) -> _Places:
    """Returns the code of a value of a table; rows must be at most ``LAST_ROW``."""
    return (row << _COLUMN_BITS | column) << _KIND_BITS | kind


def value_kind(code: _Code) -> _Code:
    """Returns the kind of a code of a table of values: ``TARGET``, ``NAN_SCORE``, ``WEIGHT`` or ``PREDICTION``."""
    return code & ((1 << _KIND_BITS) - 1)


def value_row(code: _Code) -> _Code:
    """Returns the row of a code of a table of values; ``LAST_ROW`` stands for all later rows as well."""
    return code >> (_KIND_BITS + _COLUMN_BITS)


def value_place(code: int) -> int:
    """Returns the column of a code of a table of values; of pixels, which one of the image."""
    return code >> _KIND_BITS & ((1 << _COLUMN_BITS) - 1)


def describe_value(code: int, names: Names) -> str:
    """Returns the message of a code of a table of values: the place, and what the value there must be.

    Example:
        >>> describe_value((7 << 32 | 2) << 4 | NAN_SCORE, Names(classes=3))
        'preds[7, 2] must not be NaN'
    """
    kind, row = value_kind(code), value_row(code)
    column = value_place(code)
    first = f"{row}" if row < LAST_ROW else f"{row} or later"
    element = f"{first}, {column}" if names.classes > 1 else first
    index = f"must be a class index from 0 to {names.classes - 1}"
    if kind in (TARGET, PREDICTION) and names.per_element:
        return f"{names.target if kind == TARGET else names.scores}[{element}] must be 0 or 1"
    return {
        TARGET: f"{names.target}[{first}] {index}",
        NAN_SCORE: f"{names.scores}[{element}] must not be NaN",
        WEIGHT: f"{names.weight}[{first}] must be from 0 to 1e60",
        PREDICTION: f"{names.scores}[{first}] {index}",
    }.get(kind, f"{names.scores}[{first}] failed with code {kind}")


def describe_pixel(code: int, shape: Sequence[int], names: Names, sides: tuple[Any, Any] | None = None) -> str:
    """Returns the message of a code of label maps: the place, what the label must be, and what it is.

    Args:
        code: the error code; its row is an index of the first dimension where there are others.
        shape: of the label maps.
        names: what the arguments are called.
        sides: predicted and true labels ``[shape]``, from which the message takes the value; None leaves it out.

    Example:
        >>> describe_pixel((1 << 32 | 5) << 4 | TARGET, (2, 3, 4), Names(classes=3))
        'target[1, 1, 1] must be a class index from 0 to 2'
    """
    of_target, row = value_kind(code) == TARGET, value_row(code)
    name = names.target if of_target else names.scores
    need = f"must be a class index from 0 to {names.classes - 1}"
    if row >= LAST_ROW:
        return f"{name}[{row} or later] {need}"
    left = value_place(code)
    place: list[int] = []
    for size in reversed(shape[1:] if len(shape) > 1 else shape):
        place.insert(0, left % size)
        left //= size
    at = (row, *place) if len(shape) > 1 else tuple(place)
    got = "" if sides is None else f" but is {_number(sides[of_target][at].item())}"
    return f"{name}[{', '.join(map(str, at))}] {need}{got}"


def _number(value: float) -> str:
    """A value as messages show it: integers without a point, whatever their dtype."""
    return f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else str(int(value))


def describe_box(code: int, kinds: Mapping[int, tuple[str, str, str]] | None = None) -> str:
    """Returns the message of a code of a batch of images: the image of the batch, the key, the row, what is wrong.

    Args:
        code: the error code.
        kinds: side, key and what its values must be, of kinds of errors that matching does not know or names otherwise.

    Example:
        >>> describe_box((3 << 28 | 7) << 5 | 2)
        "preds[3]['scores'][7] must not be NaN"
    """
    image, row, kind = unpack_box(code)
    known = {**_BOX_ERRORS, **(kinds or {})}
    side, name, need = known.get(kind, ("update", "?", f"failed with code {code}"))
    return f"{side}[{image}]['{name}']" + ("" if name == "counts" else f"[{row}]") + f" {need}"


def unpack_box(code: int) -> tuple[int, int, int]:
    """Returns image, row and kind of a code of a batch of images."""
    row = code >> _BOX_KIND_BITS & ((1 << _BOX_BITS) - 1)
    return code >> (_BOX_KIND_BITS + _BOX_BITS), row, code & ((1 << _BOX_KIND_BITS) - 1)


def pack_box(image: _Places, row: _Places, kind: int) -> _Places:
    """Returns the code of a row of an image, or the codes of many."""
    return (image << _BOX_BITS | row) << _BOX_KIND_BITS | kind


def raise_error(code: Any, describe: Callable[[int], str]) -> None:
    """Raises :class:`InputError` with the message of ``code``; does nothing when it is ``NO_ERROR``.

    Args:
        code: an error code: a number, or an int64 ``[]`` array or tensor; a tensor on CUDA is waited for.
        describe: gives the message of a code.
    """
    if getattr(code, "is_cuda", False):
        from valor_gpu.ops._launch import check_not_capturing

        check_not_capturing("compute reads numbers back and must not run")
    if (number := int(code)) != NO_ERROR:
        raise InputError(describe(number))


def raise_or_defer(error: Tensor, describe: Callable[[int], str]) -> Tensor | None:
    """Raises an error of CPU tensors at once; returns that of CUDA tensors, since reading it would wait for the device.

    Args:
        error: int64 ``[]``, an error code.
        describe: gives the message of a code.

    Returns:
        ``error`` on CUDA, to be kept and raised later, or None.
    """
    if error.is_cuda:
        return error
    raise_error(error, describe)
    return None


def first_error(masks: Sequence[tuple[Tensor, int]]) -> Tensor:
    """Returns the smallest code, int64 ``[]``, of bool masks ``[N]`` or ``[N, C]`` and their kinds."""
    import torch

    codes = [torch.full((1,), NO_ERROR, device=masks[0][0].device)]
    for mask, kind in masks:
        columns = mask if mask.ndim == 2 else mask[:, None]
        rows = torch.arange(columns.shape[0], device=mask.device).clamp(max=LAST_ROW)[:, None]
        places = pack_value(rows, torch.arange(columns.shape[1], device=mask.device), kind)
        codes.append(torch.where(columns, places, NO_ERROR).reshape(-1))
    return torch.cat(codes).min()
