"""MatchedDetections: rows and pairs of an evaluation, and what became of them at an IoU threshold."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.analysis.matching import match_rows
from valor_gpu.analysis.object_slices import check_bins
from valor_gpu.analysis.rows import Matching, Pairs, Rows
from valor_gpu.analysis.tide_curves import Rule, State
from valor_gpu.checks import check_number
from valor_gpu.errors import InputError
from valor_gpu.reduce.coco_summary import absent_reasons


class MatchedDetections(ImageNumbers, ABC):
    """Detections of a result; subclasses say where rows and pairs come from.

    Attributes:
        choices: of the signature of the result: metric, iou_type, limits, and so on.
        recall_thresholds: float64 ``[R]`` at which precision is read.
        iou_thresholds: of the numbers of the result.
    """

    choices: Mapping[str, Any]
    recall_thresholds: NDArray[np.float64]
    iou_thresholds: Sequence[float] = ()

    @abstractmethod
    def make_rows(self) -> Rows:
        """Returns detections and ground truths."""

    @abstractmethod
    def make_pairs(self) -> Pairs:
        """Returns the pairs that overlap; raises :class:`InputError`, naming the argument, where none were kept."""

    @cached_property
    def rows(self) -> Rows:
        """Detections and ground truths."""
        return self.make_rows()

    @cached_property
    def pairs(self) -> Pairs:
        """Pairs that overlap."""
        return self.make_pairs()

    def pairs_from(self, lowest: float) -> Pairs:
        """Returns all pairs whose IoU reaches ``lowest``, and perhaps others; ``pairs`` are these from then on.

        Raises:
            InputError: no pairs of so low an IoU are known.
        """
        if lowest < self.pairs.lowest:
            vars(self)["pairs"] = self.find_pairs(lowest)
        return self.pairs

    def find_pairs(self, lowest: float) -> Pairs:
        """Returns the pairs from a lower IoU on than those at hand; an error unless a subclass can find them."""
        raise InputError(
            f"iou and background must be at least {self.pairs.lowest:g}, from which on the state keeps pairs, but got"
            f" {lowest:g}"
        )

    @cached_property
    def _matchings(self) -> dict[float, Matching]:
        return {}

    def threshold_of(self, iou: float) -> float:
        """Returns the threshold of the result that a number stands for, though rounding tells them apart.

        0.9 stands for the 0.8999999999999999 of ``numpy.linspace(0.5, 0.95, 10)``. A number near none is itself.
        """
        known = self.iou_thresholds
        return iou if iou in known else next((each for each in known if math.isclose(each, iou, rel_tol=1e-9)), iou)

    def matching(self, iou: float = 0.5) -> Matching:
        """Returns the outcomes at one IoU threshold, see :meth:`threshold_of`, made once for each.

        Raises:
            InputError: ``iou`` is not above 0 and at most 1, or below what pairs are known of.
        """
        check_number("iou", iou, 0, 1)
        iou = self.threshold_of(iou)
        known = self._matchings.get(iou)
        if known is None:
            if not iou:
                raise InputError(f"iou must be above 0 and at most 1 but got {iou}")
            known = self._matchings[iou] = match_rows(self.rows, self.pairs_from(iou), iou)
        return known

    def average_precision(self, state: State) -> tuple[float, NDArray[np.float64]]:
        """Returns the mean over classes and float64 ``[K]`` of detections that are matched; by COCOeval's rule."""
        return state.average_precision(Rule(self.recall_thresholds, float(np.spacing(1)), False))

    def numbers_of_objects(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[Mapping[str, float]]:
        """Computes the numbers of the objects of each bin, by the names that the result has for all areas.

        As COCO's area ranges do: ground truths outside of a bin are ignored, and so are detections outside of it that
        match nothing. Counts of classes are of the rows in the bin.

        Args:
            attribute: ``size``, in square pixels, or ``aspect_ratio``, width over height.
            bins: pairs (low, high) at or above 0, both ends included; the ``corrected`` convention of ``COCOeval``
                gives a value between two bins to the second alone.

        Raises:
            InputError: another attribute or bins, or what the evaluation keeps does not say.
        """
        return self.object_numbers(attribute, check_bins(attribute, bins))

    def object_numbers(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[Mapping[str, float]]:
        """Computes :meth:`numbers_of_objects` of checked bins; an error unless a subclass does."""
        raise InputError(f"slices of objects by {attribute} are not defined for results of {self.metric}")

    def arrival(self) -> Sequence[int]:
        """See :class:`ImageNumbers`; positions are in the order that breaks ties."""
        return self.rows.image_ids

    def file_names(self) -> Sequence[str] | None:
        """See :class:`ImageNumbers`."""
        fields = self.rows.image_fields
        names = [] if fields is None else [fields(image).get("file_name") for image in range(self.images)]
        return [str(name) for name in names] if names and None not in names else None

    def reason_of(self, name: str, empty: bool) -> str:
        """See :class:`ImageNumbers`."""
        first = math.nan if empty else 0.0
        return absent_reasons({"map": first, name: math.nan}).get(name, "no ground truth counts for it")
