"""The numbers of every image alone: the table of ``images()`` of results of segmentation. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valor_gpu.analysis.base import Analysis
from valor_gpu.analysis.image_table import ids_of
from valor_gpu.errors import InputError
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.segmentation.resampled_images import ResampledImages


def image_table(
    analysis: Analysis, state: ResampledImages, choices: Mapping[str, Any], iou: float, score: float | None
) -> ColumnTable:
    """Returns the table of :meth:`valor_gpu.result.Result.images` of a result of segmentation.

    Args:
        analysis: of the result.
        state: what is kept of each image.
        choices: of the signature of the result.
        iou: of the call; only its default is allowed.
        score: likewise.

    Raises:
        InputError: a threshold is given, or the numbers of an image are a matrix.
    """
    if iou != 0.5 or score is not None:
        raise InputError(
            f"iou and score must be left out for results of {analysis.metric}, which has no such thresholds, but got"
            f" iou={iou!r} and score={score!r}"
        )
    numbers = state.of_each()
    single = {name: values for name, values in numbers.items() if "/" not in name}
    if not single and any("," in name for name in numbers):
        raise InputError(f"images() is not defined for results of {analysis.metric}, which are matrices: ask mIOU")
    names = analysis.file_names()
    columns = {
        "image_id": ids_of(range(analysis.images) if analysis.image_ids is None else analysis.image_ids),
        **({} if names is None or names is analysis.image_ids else {"file_name": list(names)}),
        **state.outcomes,
        **(single or numbers),
    }
    return ColumnTable(columns, {name: choice for name, choice in choices.items() if name != "version"})
