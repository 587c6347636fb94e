"""Numbers from histograms of scores between thresholds: of tensors on any device, or without torch of arrays; float64.

A histogram is ``[2, ..., T + 1]``: row 0 the positives, row 1 all; bucket b holds what reaches exactly b of T ascending
thresholds, as :func:`valor_gpu.ops.score_histogram.op.score_histogram` leaves it. Counts or sums of weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

MIN_OCTAVE = -32
"""Float-order thresholds begin at 2 to this power."""

MAX_EVEN_THRESHOLDS = 2**24
"""Most evenly spaced thresholds: more are not apart in float32."""


class CountsAtThresholds(NamedTuple):
    """Counts at thresholds, float64 ``[..., T]``: what reaches one (``score >= t``) is predicted positive."""

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor


class BinnedArea(NamedTuple):
    """``value`` and ``bound``, float64 ``[...]``: the exact area lies within ``bound`` of ``value``."""

    value: Tensor
    bound: Tensor


class BinnedPrecision(NamedTuple):
    """``value`` and the ``lowest`` and ``highest`` that the exact number can be, float64 ``[...]``."""

    value: Tensor
    lowest: Tensor
    highest: Tensor


def threshold_counts(histogram: Tensor) -> CountsAtThresholds:
    """Counts true and false positives, false and true negatives at each threshold.

    Example:
        >>> import torch
        >>> counts = threshold_counts(torch.tensor([[0, 1, 0, 1], [1, 1, 1, 1]]))
        >>> counts.tp.tolist(), counts.fp.tolist(), counts.fn.tolist(), counts.tn.tolist()
        ([2.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0])
    """
    positives, negatives = _sides(histogram)
    reach = [_from_top(side)[..., 1:] for side in (positives, negatives)]
    below = [side.cumsum(-1)[..., :-1] for side in (positives, negatives)]
    return CountsAtThresholds(*reach, *below)


def roc_auc(histogram: Tensor) -> BinnedArea:
    """Computes the area under the ROC curve from a histogram; within a bucket, scores tie and count half.

    The exact area differs by at most ``sum over buckets of tp * fp / (2 P N)``, since only pairs within a bucket are
    not ordered. NaN where there is no positive or no negative.

    Source: Hanley and McNeil, The meaning and use of the area under a ROC curve (1982).

    Example:
        >>> import torch
        >>> roc_auc(torch.tensor([[0, 2, 0, 2], [2, 4, 0, 2]]))
        BinnedArea(value=tensor(0.8750, dtype=torch.float64), bound=tensor(0.1250, dtype=torch.float64))
    """
    value, bound = map(as_given(histogram), roc_auc_values(quick(histogram)))
    return BinnedArea(value, bound)


def roc_auc_values(histogram: Any) -> tuple[Any, Any]:
    """Value and bound of :func:`roc_auc`; of arrays as arrays."""
    positives, negatives = _sides(histogram)
    pairs, ties = positives.sum(-1) * negatives.sum(-1), (positives * negatives).sum(-1) / 2
    before = negatives.cumsum(-1) - negatives
    with np.errstate(invalid="ignore"):  # 0 / 0 without pairs
        return ((positives * before).sum(-1) + ties) / pairs, ties / pairs


def average_precision(histogram: Tensor, least_weight: float = 0.0) -> BinnedPrecision:
    """Computes average precision from a histogram: scores of a bucket tie.

    Bounds: above a bucket lie A positives and B negatives, in it p and n. The precision at a positive rises with the
    positives and falls with the negatives counted so far. So, in any order, the p positives contribute at most
    ``p (A + p) / (A + p + B)``: all tied, above the n negatives. They contribute least one by one below these, where a
    positive of weight w that ends at W has precision ``f(W) = (A + W) / (A + W + B + n)``. As f rises and is concave,
    ``w f(W)`` is at least the integral of f from ``W - w + h`` to ``W + h`` for any ``h <= w / 2``, so that all of them
    contribute at least that from h to ``p + h``, which is ``p - D log(1 + p / (A + h + D))`` with ``D = B + n``.

    Args:
        histogram: ``[2, ..., T + 1]``.
        least_weight: what every positive weighs at least, 2 h: 1 for counts, 0 for any weights.

    Returns:
        Value and bounds, NaN where there is no positive. Source of the definition: scikit-learn,
        ``average_precision_score``.

    Example:
        >>> import torch
        >>> bounded = average_precision(torch.tensor([[0, 2, 0, 2], [2, 4, 0, 2]]), least_weight=1)
        >>> [round(float(number), 4) for number in bounded]
        [0.8333, 0.8161, 1.0]
    """
    from torch import log1p

    p, n = _sides(histogram)
    a, b = _from_top(p) - p, _from_top(n) - n
    highest = p * _share(a + p, b)
    d = b + n
    lowest = p - d * log1p(_ratio(p, a + least_weight / 2 + d))
    total = p.sum(-1)
    return BinnedPrecision(average_precision_value(histogram), *(part.sum(-1) / total for part in (lowest, highest)))


def average_precision_value(histogram: Any) -> Any:
    """The value of :func:`average_precision` without its bounds, in the same bits; of arrays an array.

    On the CPU it is computed by NumPy, in a third of the time.
    """
    p, n = _sides(quick(histogram))
    terms = p * _share(_from_top(p) - p + p, _from_top(n) - n + n)
    with np.errstate(invalid="ignore"):  # 0 / 0 without positives
        value = terms.sum(-1) / p.sum(-1)
    return as_given(histogram)(value)


def pooled(histogram: Any) -> Any:
    """``[2, 1, T + 1]``: the counts of all classes of ``[2, C, T + 1]`` as those of one."""
    return as_given(histogram)(quick(histogram).sum(1)[:, None])


def totals(histogram: Any) -> tuple[Any, Any]:
    """Positives and negatives ``[C]`` of ``[2, C, T + 1]``."""
    positives, every = quick(histogram).sum(-1)
    given = as_given(histogram)
    return given(positives), given(every - positives)


def quick(values: Any) -> Any:
    """``values`` as small ones are computed with: on the CPU as a NumPy array, where it has their dtype."""
    if isinstance(values, np.ndarray):
        return values
    if not values.is_cpu or (values.dtype.itemsize == 2 and str(values.dtype) == "torch.bfloat16"):
        return values
    return (values.detach() if values.requires_grad else values).numpy()


def as_given(values: Any) -> Callable[[Any], Any]:
    """What makes a tensor of what NumPy computed, where ``values`` are a tensor."""
    if isinstance(values, np.ndarray):
        return lambda computed: computed
    import torch

    return torch.as_tensor


def reversed_last(values: Any) -> Any:
    """``values`` with the last dimension in reverse; of tensors a copy, of arrays a view."""
    return values[..., ::-1] if isinstance(values, np.ndarray) else values.flip(-1)


def float_order_thresholds(per_octave: int = 32) -> Tensor:
    """Thresholds from 2^-32 to 1 that follow the order of floats towards both ends.

    From 2^-32 to 1/2 every power of two is split into ``per_octave`` equal bins: softmax over 1,000 classes leaves
    nearly all scores below 0.01. From 1/2 to 1 they mirror that, as scores of confident models lie near 1: 1 - 2^-k is
    split the same way, down to the spacing of float32, 2^-24.

    The default gives 1,601 thresholds, 26 kB a class in a float64 histogram. Bounds of :func:`roc_auc` with them, with
    as many powers of two not mirrored, and with evenly spaced thresholds:

    | scores | 1,601 here | 2,049 not mirrored | 2,048 even |
    | --- | --- | --- | --- |
    | uniform, ROC AUC 0.667 | 2.6e-3 | 3.4e-3 | 2.4e-4 |
    | sigmoid of logits of two normals at -6 and 6, sd 4, ROC AUC 0.983 | 1.0e-4 | 1.3e-3 | 2.0e-4 |
    | sigmoid, 1% positives at 8, negatives at 2, sd 3, ROC AUC 0.917 | 4.1e-4 | 7.5e-2 | 1.1e-2 |
    | softmax of 1,000 classes, ROC AUC 0.989, mean over classes | 9.1e-5 | 4.7e-5 | 7.5e-3 |

    Args:
        per_octave: bins in every power of two, at least 1. Bounds shrink as it grows.

    Returns:
        float64 ``[T]``, ascending, each a float32 number.

    Example:
        >>> float_order_thresholds(1)[[0, 1, 30, 31, 32, 33, -2, -1]]
        tensor([2.3283e-10, 4.6566e-10, 2.5000e-01, 5.0000e-01, 7.5000e-01, 8.7500e-01,
                1.0000e+00, 1.0000e+00], dtype=torch.float64)
    """
    import torch

    check_type("per_octave", per_octave, int)
    if per_octave < 1:
        raise InputError(f"per_octave must be at least 1 but is {per_octave}")
    steps = 1.0 + np.arange(per_octave) / per_octave
    low = np.multiply.outer(2.0 ** np.arange(MIN_OCTAVE, -1), steps).ravel()
    high = 1.0 - np.multiply.outer(2.0 ** np.arange(-24, -1), steps).ravel()
    grid = np.concatenate((low, [0.5], high, [1.0])).astype(np.float32)
    return torch.from_numpy(np.unique(grid).astype(np.float64))


def _sides(histogram: Any) -> tuple[Any, Any]:
    """Positives and negatives; a difference of sums of weights may not fall below 0."""
    if isinstance(histogram, np.ndarray):
        positives, every = histogram.astype(np.float64)
        return positives, np.maximum(every - positives, 0.0)
    positives, every = histogram.double()
    return positives, (every - positives).clamp(min=0)


def _from_top(values: Any) -> Any:
    """Of each bucket, the sum over it and all above."""
    return reversed_last(reversed_last(values).cumsum(-1))


def _ratio(numerator: Any, denominator: Any) -> Any:
    """The quotient, 0 where the denominator is 0."""
    if isinstance(denominator, np.ndarray):
        return np.divide(numerator, denominator, out=np.zeros(denominator.shape), where=denominator > 0)
    import torch

    return torch.where(denominator > 0, numerator / denominator, 0.0)


def _share(part: Any, rest: Any) -> Any:
    return _ratio(part, part + rest)
