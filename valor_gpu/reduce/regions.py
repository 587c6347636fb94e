"""Ratios of the pixels of regions, and averages over classes and images: int64 counts in, float64 out. No torch import.

Counts are ``[..., 3, C]``; the rows are true positives, predicted and true pixels of each class, as
:func:`valor_gpu.ops.pixel_counts.op.count_pixels` gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice, check_number
from valor_gpu.errors import InputError

Array = NDArray[Any]

AVERAGES = ("micro", "macro", "weighted", "none", None)

REGION_RATIOS: dict[str, Callable[[Array, Array, Array], tuple[Array, Array]]] = {
    "iou": lambda tp, predicted, true: (tp, predicted + true - tp),
    "precision": lambda tp, predicted, true: (tp, predicted),
    "recall": lambda tp, predicted, true: (tp, true),
    "f1": lambda tp, predicted, true: (2 * tp, predicted + true),
    "accuracy": lambda tp, predicted, true: (tp, true),
}
"""Numerator and denominator of each name.

The accuracy of a class is its recall, so that ``micro`` is the share of right pixels and ``macro`` the mean accuracy of
Long et al., Fully convolutional networks for semantic segmentation, CVPR 2015, section 5.
"""


def absent(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which classes have no pixel, neither true nor predicted: bool ``[..., C]`` of counts ``[..., 3, C]``.

    Example:
        >>> absent(np.array([[1, 0, 0], [2, 0, 4], [1, 0, 0]]))
        array([False,  True, False])
    """
    none: NDArray[np.bool_] = (counts[..., 1, :] == 0) & (counts[..., 2, :] == 0)
    return none


def region_value(
    name: str,
    counts: NDArray[np.int64],
    average: str | None,
    *,
    zero_division: float = 0.0,
    classes: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """One ratio of regions, of each class or averaged over classes.

    A class that is absent (neither true nor predicted) has no value, NaN, and no part in a mean. A class that is there
    but whose denominator is 0 (precision: never predicted; recall and accuracy: never true) has ``zero_division``.

    Args:
        name: ``iou``: tp / (predicted + true - tp); ``precision``: tp / predicted; ``recall``: tp / true; ``f1``:
            2 tp / (predicted + true), which is Dice's coefficient; ``accuracy``: by class the recall.
        counts: int64 ``[..., 3, C]``: true positives, predicted and true pixels of each class.
        average: ``micro`` pools the pixels of all classes; ``macro`` is the mean over classes, ``weighted`` that by
            true pixels; ``none`` or None gives every class.
        zero_division: from 0 to 1; NaN leaves such classes out of means. ``weighted`` has it also where pixels were
            predicted but none is true.
        classes: bool ``[C]``, the classes that count, such as all but the background; the others are NaN.

    Returns:
        float64 ``[..., C]`` without average, else ``[...]``.

    Raises:
        InputError: the name, the average, ``zero_division`` or a shape is not one of these.

    Example:
        >>> counts = np.array([[3, 1, 0], [4, 1, 0], [3, 2, 0]])
        >>> region_value("iou", counts, None)
        array([0.75, 0.5 ,  nan])
        >>> float(region_value("iou", counts, "macro"))
        0.625
    """
    _check(name, counts, average, zero_division, classes)
    if average == "micro":
        shown = counts if classes is None else counts[..., classes]
        return _by_class(name, shown.sum(-1, keepdims=True), zero_division)[..., 0]
    values = _by_class(name, counts, zero_division)
    if classes is not None:
        values[..., ~classes] = math.nan
    if average in ("none", None):
        return values
    weights = counts[..., 2, :] if average == "weighted" else np.ones(counts.shape[-1], np.int64)
    return _mean(values, weights, zero_division)


def undefined(name: str, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which classes are there but have a denominator of 0: bool ``[..., C]``; their value is ``zero_division``.

    Example:
        >>> undefined("precision", np.array([[0, 0, 3], [0, 0, 3], [7, 0, 4]]))
        array([ True, False, False])
    """
    check_choice("name", name, REGION_RATIOS)
    zero: NDArray[np.bool_] = REGION_RATIOS[name](*_rows(counts))[1] == 0
    return zero & ~absent(counts)


def mean_of_images(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the images, the first dimension, where the value exists; NaN where it exists in none.

    The sum is exact before it is rounded, so that the order of the images changes no bit.

    Example:
        >>> mean_of_images(np.array([[0.5, np.nan], [1.0, np.nan]]))
        array([0.75,  nan])
    """
    if len(values) == 1:
        return np.array(values[0])
    rows = values.reshape(len(values), math.prod(values.shape[1:]))
    sums = np.array([math.fsum(column[~np.isnan(column)]) for column in rows.T], np.float64)
    found = np.count_nonzero(~np.isnan(rows), 0)
    return _divide(sums, found).reshape(values.shape[1:])


def generalized_dice(counts: NDArray[np.int64], weight_type: str, per_class: bool = False) -> NDArray[np.float64]:
    """Generalized Dice score of each image, 0 for 0 / 0.

    Args:
        counts: int64 ``[N, 3, C]``.
        weight_type: weights of the classes by their true pixels t: ``square`` 1 / t^2, ``simple`` 1 / t, both 0 where
            t is 0, or ``linear`` 1.
        per_class: the quotient of each class, in place of that of the sums over classes.

    Returns:
        float64 ``[N]``, with ``per_class`` ``[N, C]``.

    Example:
        >>> generalized_dice(np.array([[[2, 1], [2, 2], [3, 1]]]), "square")
        array([0.6875])
    """
    tp, predicted, true = _rows(counts)
    power = {"square": 2, "simple": 1, "linear": 0}[weight_type]
    one = np.ones(true.shape)
    weights = np.divide(
        one, true.astype(np.float64) ** power, out=np.zeros(true.shape), where=(true > 0) | (power == 0)
    )
    numerator, denominator = 2 * tp * weights, (predicted + true) * weights
    if not per_class:
        numerator, denominator = numerator.sum(-1), denominator.sum(-1)
    value = np.asarray(_divide(numerator, denominator))
    value[np.isnan(value)] = 0.0
    return value


def check_zero_division(zero_division: object) -> None:
    """Raises :class:`InputError` unless it is a number from 0 to 1 or NaN."""
    if not (isinstance(zero_division, float) and math.isnan(zero_division)):
        check_number("zero_division", zero_division, 0, 1)


def _check(
    name: str, counts: NDArray[np.int64], average: str | None, zero_division: float,
    classes: NDArray[np.bool_] | None,
) -> None:  # fmt: skip
    check_choice("name", name, REGION_RATIOS)
    check_choice("average", average, AVERAGES)
    check_zero_division(zero_division)
    if counts.ndim < 2 or counts.shape[-2] != 3 or counts.dtype.kind not in "iu":
        raise InputError(f"counts must be integers [..., 3, C] but are {counts.dtype} {list(counts.shape)}")
    if classes is not None and (classes.shape != counts.shape[-1:] or classes.dtype != np.bool_):
        raise InputError(f"classes must be bool [{counts.shape[-1]}] but is {classes.dtype} {list(classes.shape)}")


def _by_class(name: str, counts: NDArray[np.int64], zero_division: float) -> NDArray[np.float64]:
    numerator, denominator = REGION_RATIOS[name](*_rows(counts))
    value = _divide(numerator, denominator)
    zero = denominator == 0
    if zero.any():
        value[zero & ~absent(counts)] = zero_division
    return value


def _rows(counts: Array) -> tuple[Array, Array, Array]:
    """True positives, predicted and true pixels ``[..., C]``; a view each, in a tenth of the time of moveaxis."""
    return counts[..., 0, :], counts[..., 1, :], counts[..., 2, :]


def _mean(values: Array, weights: Array, zero_division: float) -> NDArray[np.float64]:
    """Weighted mean of what exists; ``zero_division`` where something exists but weighs nothing."""
    exists = ~np.isnan(values)
    weights = np.where(exists, weights, 0)
    means = _divide((weights * np.where(exists, values, 0.0)).sum(-1), weights.sum(-1))
    return np.where(np.isnan(means) & exists.any(-1), zero_division, means)


def _divide(numerator: Array, denominator: Array) -> NDArray[np.float64]:
    """The quotient, NaN where the denominator is 0."""
    out = np.empty(np.shape(numerator))
    out.fill(math.nan)
    np.divide(numerator, denominator, out=out, where=denominator != 0)
    return out
