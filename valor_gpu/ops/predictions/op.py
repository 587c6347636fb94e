"""Predicted classes from scores: the confusion matrix in one read of them, and the largest score of each pixel of maps.

Design: docs/design/034-classification-on-cuda.md.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NAN_SCORE, NO_ERROR, TARGET, first_error
from valor_gpu.ops.targets.cpu import block_rows
from valor_gpu.ops.targets.op import (
    check_labels,
    check_scores,
    check_target,
    pair_words,
    read_target,
    target_words,
)

LEFT_OUT = -1
"""In place of the class of a row that does not count; kLeftOut in csrc/core/labels.h."""


class Confusion(NamedTuple):
    """``matrix`` int64 ``[C, C]``, rows are true classes; ``classes`` int32 ``[N]`` and ``error`` as in MapClasses."""

    matrix: Tensor
    classes: Tensor
    error: Tensor


class MapClasses(NamedTuple):
    """``classes`` int32 ``[N]``, ``LEFT_OUT`` where a row is ignored or in error; ``error`` int64 ``[]``, see
    :mod:`valor_gpu.ops.error_codes`.
    """

    classes: Tensor
    error: Tensor


def confuse_scores(scores: Tensor, target: Tensor, *, ignore_index: int | None = None) -> Confusion:
    """Rows of each pair of true class and class of the largest score, in one read of the scores.

    Of equal scores the lower class is predicted; -0.0 equals 0.0.

    Args:
        scores: float16, bfloat16, float32 or float64 ``[N, C]``.
        target: any integer dtype ``[N]``, class indices.
        ignore_index: rows with this target are left out, whatever else they hold.

    Returns:
        Confusion. A bad value is in ``error``, so that the host does not synchronise with the device.

    Raises:
        InputError: on another shape, dtype or device.

    Example:
        >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]])
        >>> confuse_scores(scores, torch.tensor([1, 2])).matrix
        tensor([[0, 0, 0],
                [0, 1, 0],
                [1, 0, 0]])
    """
    check_scores(scores)
    check_target(target, scores, per_element=False)
    return Confusion(*_CONFUSE(scores, target, ignore_index))


def predict_maps(scores: Tensor, target: Tensor, *, ignore_index: int | None = None) -> MapClasses:
    """Class of the largest score of each pixel, of maps as they lie: nothing is transposed on CUDA.

    Of equal scores the lower class is predicted; -0.0 equals 0.0.

    Args:
        scores: float16, bfloat16, float32 or float64 ``[B, C, S]``: a map of S pixels for each class.
        target: any integer dtype ``[B * S]``, class indices.
        ignore_index: pixels with this target are left out, whatever else they hold.

    Returns:
        MapClasses of all pixels, image by image.

    Raises:
        InputError: on another shape, dtype or device.

    Example:
        >>> scores = torch.tensor([[[0.1, 0.7], [0.5, 0.4]]])
        >>> predict_maps(scores, torch.tensor([0, 1])).classes
        tensor([1, 0], dtype=torch.int32)
    """
    check_shape("scores", scores, (None, None, None))
    check_dtype("scores", scores, FLOAT_TYPES)
    if scores.shape[1] == 0:
        raise InputError(f"scores must have at least one class but has shape {list(scores.shape)}")
    check_labels(target, "target", like=("scores", scores[:, 0].reshape(-1)))
    return MapClasses(*_MAPS(scores, target, ignore_index))


# -------------------------------------------------------------------------------------------------------- definitions


def _rows(scores: Tensor) -> Tensor:
    """``[B, C, S]`` as ``[B * S, C]``."""
    return scores.movedim(1, 2).reshape(-1, scores.shape[1])


def _predict_reference(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Classes and error of rows ``[N, C]``."""
    values = scores.double() + 0.0  # -0.0 becomes 0.0
    labels = read_target(target, scores.shape[1], ignore_index)
    nan = values.isnan() & labels.kept[:, None]
    best = values.sort(dim=1, descending=True, stable=True).indices[:, 0].int()
    classes = torch.where(labels.kept & ~nan.any(1), best, LEFT_OUT)
    return classes, first_error([(labels.bad, TARGET), (nan, NAN_SCORE)])


def _confuse_reference(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor, Tensor]:
    predicted, error = _predict_reference(scores, target, ignore_index)
    classes, used = scores.shape[1], predicted >= 0
    cells = target[used].long() * classes + predicted[used]
    return torch.bincount(cells, minlength=classes**2).view(classes, classes), predicted, error


def _maps_reference(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    return _predict_reference(_rows(scores), target, ignore_index)


def _confuse_fake(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor, Tensor]:
    rows, classes = scores.shape
    matrix = scores.new_empty((classes, classes), dtype=torch.int64)
    return matrix, scores.new_empty(rows, dtype=torch.int32), scores.new_empty((), dtype=torch.int64)


def _maps_fake(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    return scores.new_empty(target.shape[0], dtype=torch.int32), scores.new_empty((), dtype=torch.int64)


# ------------------------------------------------------------------------------------------------------------ kernels


def _predict_cpu(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    scores, target = scores.contiguous(), target.contiguous()
    rows, classes = scores.shape
    predicted, error = scores.new_empty(rows, dtype=torch.int32), torch.tensor(NO_ERROR)
    native.function("valor_cpu", "valor_predict_top_cpu", "pqqpqppq")(
        scores.data_ptr(), FLOAT_TYPES[scores.dtype], rows, target_words(target, classes, ignore_index), 1,
        predicted.data_ptr(), error.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return predicted, error


def _confuse_cpu(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor, Tensor]:
    predicted, error = _predict_cpu(scores, target, ignore_index)
    target, classes = target.contiguous(), scores.shape[1]
    matrix, counted = torch.zeros((classes, classes), dtype=torch.int64), torch.tensor(NO_ERROR)
    native.function("valor_cpu", "valor_count_pairs_cpu", "pqppq")(
        pair_words(predicted, target, classes, ignore_index, None, True),
        block_rows(target.shape[0], matrix.numel()), matrix.data_ptr(), counted.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return matrix, predicted, torch.minimum(error, counted)


def _maps_cpu(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    return _predict_cpu(_rows(scores), target, ignore_index)


def _confuse_cuda(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor, Tensor]:
    scores, target = scores.contiguous(), target.contiguous()
    with launching(scores.device) as stream:
        matrix, predicted, error = _confuse_fake(scores, target, ignore_index)
        native.function("valor_cuda", "valor_confuse_scores_cuda", "pqqpqpppp")(
            scores.data_ptr(), FLOAT_TYPES[scores.dtype], scores.shape[0],
            target_words(target, scores.shape[1], ignore_index), block_rows(target.shape[0], matrix.numel()),
            predicted.data_ptr(), matrix.zero_().data_ptr(), error.fill_(NO_ERROR).data_ptr(), stream,
        )  # fmt: skip
    return matrix, predicted, error


def _maps_cuda(scores: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    scores, target = scores.contiguous(), target.contiguous()
    images, classes, pixels = scores.shape
    with launching(scores.device) as stream:
        predicted, error = _maps_fake(scores, target, ignore_index)
        native.function("valor_cuda", "valor_predict_maps_cuda", "pqqqpppp")(
            scores.data_ptr(), FLOAT_TYPES[scores.dtype], images, pixels,
            target_words(target, classes, ignore_index), predicted.data_ptr(), error.fill_(NO_ERROR).data_ptr(), stream,
        )  # fmt: skip
    return predicted, error


_CONFUSE = register(
    "confuse_scores(Tensor scores, Tensor target, int? ignore_index) -> (Tensor, Tensor, Tensor)",
    reference=_confuse_reference,
    fake=_confuse_fake,
    cpu=cpp(_confuse_cpu),
    cuda=cuda(_confuse_cuda),
)
_MAPS = register(
    "predict_maps(Tensor scores, Tensor target, int? ignore_index) -> (Tensor, Tensor)",
    reference=_maps_reference,
    fake=_maps_fake,
    cpu=cpp(_maps_cpu),
    cuda=cuda(_maps_cuda),
)
