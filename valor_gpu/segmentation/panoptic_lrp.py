"""Localisation recall precision errors of panoptic segmentation, from counts of segments. Imports no torch.

Source: Oksuz, Cam, Kalkan, Akbas, "One Metric to Measure Them All: Localisation Recall Precision (LRP) for Evaluating
Visual Detection Tasks", TPAMI 2021, section 5. Segments have no scores, so there is no threshold to choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.base import Analysis
from valor_gpu.errors import InputError
from valor_gpu.ops.panoptic.cpu import FALSE_NEGATIVES, FALSE_POSITIVES, TRUE, TRUE_POSITIVES
from valor_gpu.reduce.panoptic import NO_SEGMENT, iou_sums, panoptic_groups
from valor_gpu.result import Result, Signature
from valor_gpu.segmentation.resampled_images import ResampledImages, Weights, no_images

Floats = NDArray[np.float64]
Names = Sequence[str]
Segments = Callable[[], tuple[NDArray[np.int64], Any]] | None

NUMBERS = ("lrp", "lrp_localization", "lrp_false_positive", "lrp_false_negative")
_IOU = 0.5
_ABSENT = ("", "no segment of it matches", "no segment is predicted for it", "no segment is true for it")


class PanopticAnalysis(Analysis):
    """Answers of a panoptic result from its counts of segments; questions about images go to another analysis.

    Args:
        signature: of the panoptic result.
        counts: of the panoptic result.
        of_images: the analysis that answers questions about images, a function that returns it, or None.
        segments: returns int64 ``[8, C]`` and None, or ``[N, 8, C]`` of each image and the keys of the images, see
            :class:`ResampledImages`; None: LRP is not defined for the metric.
        things: bool ``[C]``.
        names: of the categories.
    """

    image_ids = None

    def __init__(
        self,
        signature: Signature,
        counts: Mapping[str, int],
        of_images: Any,
        segments: Segments,
        things: Any,
        names: Names,
    ) -> None:
        self.metric, self.images = str(signature["metric"]), counts["images"]
        self._signature, self._counts, self._of_images = signature, counts, of_images
        self._segments, self._things, self._names = segments, things, names

    def olrp(self, iou: float) -> Result:
        """See :meth:`valor_gpu.result.Result.olrp`."""
        if self._segments is None:
            raise self._undefined("olrp")
        if iou != _IOU:
            raise InputError(f"iou must be {_IOU} for panoptic segments, which match above that IoU, but got {iou}")
        tables, keys = self._segments()
        table = tables if tables.ndim == 2 else tables.sum(0)
        values = lrp_values(table, self._things, self._names)
        state = no_images if keys is None else partial(resampled_lrp, tables, keys, self._things, self._names)
        signature = Signature({**self._signature, "metric": "LRP", "of": self.metric})
        return Result(values, signature, self._counts, _reasons(values), state=state)

    def by(self, table: Any, columns: Sequence[str | Sequence[str]], **choices: Any) -> Any:
        """See :meth:`valor_gpu.result.Result.by`."""
        return self.about_images("by").by(table, columns, **choices)

    def worst_slices(self, table: Any, columns: Sequence[str], **choices: Any) -> Any:
        """See :meth:`valor_gpu.result.Result.worst_slices`."""
        return self.about_images("worst_slices").worst_slices(table, columns, **choices)

    def image_table(self, **choices: Any) -> Any:
        """See :meth:`valor_gpu.result.Result.images`."""
        return self.about_images("images").image_table(**choices)

    def about_images(self, name: str) -> Any:
        """Returns the analysis of the images; raises where they were not kept.

        Args:
            name: of the method that is asked.
        """
        found = self._of_images() if callable(self._of_images) else self._of_images
        if found is None:
            raise self._undefined(name)
        return found


def answers_lrp(result: Result, segments: Segments, things: Any, names: Names) -> Result:
    """Returns the panoptic result, which answers :meth:`valor_gpu.result.Result.olrp` now; see PanopticAnalysis."""
    own = vars(result)
    own["_analysis"] = partial(
        PanopticAnalysis, result.signature, result.counts, own["_analysis"], segments, things, names
    )
    return result


def category_errors(tables: NDArray[np.int64]) -> Floats:
    """Returns the LRP error of every category and its three parts, ``[..., 4, C]`` of tables ``[..., 8, C]``.

    LRP = (sum over matches of (1 - IoU) / 0.5 + FP + FN) / (TP + FP + FN).

    Returns:
        The error; mean 1 - IoU of matches; 1 - precision; 1 - recall. NaN where a number does not exist.

    Example:
        >>> table = np.array([[1], [1], [0], [1], [2], [3 << 30], [0], [0]])  # IoU 0.75, and a false positive
        >>> category_errors(table)[:, 0].tolist()
        [0.75, 0.25, 0.5, 0.0]
    """
    tp, fp, fn = (tables[..., row, :] for row in (TRUE_POSITIVES, FALSE_POSITIVES, FALSE_NEGATIVES))
    losses = tp - iou_sums(tables)
    parts = [(losses / (1 - _IOU) + fp + fn, tp + fp + fn), (losses, tp), (fp, tp + fp), (fn, tp + fn)]
    return np.stack([
        np.divide(up, down, out=np.full(np.shape(down), math.nan), where=down > 0) for up, down in parts
    ], -2)  # fmt: skip


def lrp_values(table: NDArray[np.int64], things: NDArray[np.bool_], names: Names) -> dict[str, Any]:
    """Returns the values of a result: means over all categories, over things and over stuff, and of every category."""
    errors = category_errors(table)
    by_name = {f"{name}_per_class": dict(zip(names, part.tolist())) for name, part in zip(NUMBERS, errors)}
    return {**{name: float(mean) for name, mean in _means(errors, things).items()}, **by_name}


def resampled_lrp(tables: NDArray[np.int64], keys: Any, things: NDArray[np.bool_], names: Names) -> ResampledImages:
    """Returns what intervals of :func:`lrp_values` are made of; see ``resampled_panoptic``."""

    def numbers(weights: Weights, tables: NDArray[np.int64]) -> Mapping[str, Floats]:
        errors = category_errors(weights.sums(tables))
        found = dict(_means(errors, things))
        for place, number in enumerate(NUMBERS):
            found |= {f"{number}_per_class/{name}": errors[:, place, c] for c, name in enumerate(names)}
        return found

    supports = [[f"{number}_per_class/{name}" for name in names] for number in NUMBERS]
    true = tables[:, TRUE]
    return ResampledImages("panoptic", keys, numbers, supports, true > 0, tables=[tables], truths=true)


def _means(errors: Floats, things: NDArray[np.bool_]) -> dict[str, Any]:
    """Means ``[...]`` of ``[..., 4, C]`` over the categories of each group that have the number."""
    found: dict[str, Any] = {}
    for group, chosen in panoptic_groups(things).items():
        part = errors[..., chosen]
        known = part == part
        number = known.sum(-1)
        means = np.divide(
            np.where(known, part, 0.0).sum(-1), number, out=np.full(number.shape, math.nan), where=number > 0
        )
        found |= {f"{name}{group}": means[..., place] for place, name in enumerate(NUMBERS)}
    return found


def _reasons(values: Mapping[str, Any]) -> dict[str, str]:
    """Why numbers of :func:`lrp_values` are NaN."""
    reasons = {}
    for number, absent in zip(NUMBERS, _ABSENT):
        for key, value in values[f"{number}_per_class"].items():
            if math.isnan(value):
                nothing = math.isnan(values["lrp_per_class"][key])
                reasons[f"{number}_per_class/{key}"] = NO_SEGMENT if nothing else absent
    means = (name for name, value in values.items() if not isinstance(value, Mapping) and math.isnan(value))
    return reasons | dict.fromkeys(means, "no category of the mean has the number")
