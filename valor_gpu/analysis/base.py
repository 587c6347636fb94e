"""Analysis: what a result answers about the data behind its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.result import Result

Ints = NDArray[np.int64]


class Analysis:
    """Questions that a result can answer; each is an error unless a subclass answers it.

    Attributes:
        metric: name of the metric, for messages.
        image_ids: ids of the images in the order of their positions; None where some have none.
        images: number of images.
    """

    metric: str
    images: int
    image_ids: Sequence[Any] | None

    def errors(self, iou: float | Sequence[float], background: float | Sequence[float], protocol: str) -> Result:
        """Computes the gains of mending each kind of error; see :meth:`valor_gpu.result.Result.errors`."""
        raise self._undefined("errors")

    def olrp(self, iou: float) -> Result:
        """Computes optimal LRP errors; see :meth:`valor_gpu.result.Result.olrp`."""
        raise self._undefined("olrp")

    def operating_points(self, **choices: Any) -> Result:
        """Computes score thresholds; see :meth:`valor_gpu.result.Result.operating_points`."""
        raise self._undefined("operating_points")

    def image_table(self, **choices: Any) -> Any:
        """Counts outcomes per image; see :meth:`valor_gpu.result.Result.images`."""
        raise self._undefined("images")

    def match_table(self, **choices: Any) -> Any:
        """Lists detections and missed ground truths; see :meth:`valor_gpu.result.Result.matches`."""
        raise self._undefined("matches")

    def by(self, table: Any, columns: Sequence[str | Sequence[str]], **choices: Any) -> Any:
        """Computes the numbers of slices; see :meth:`valor_gpu.result.Result.by`."""
        from valor_gpu.analysis.slices import slices

        return slices(self, table, columns, **choices)

    def worst_slices(self, table: Any, columns: Sequence[str], **choices: Any) -> Any:
        """Searches for slices with low numbers; see :meth:`valor_gpu.result.Result.worst_slices`."""
        from valor_gpu.analysis.worst_slices import worst_slices

        return worst_slices(self, table, columns, **choices)

    def numbers_of_objects(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[Mapping[str, float]]:
        """Computes the numbers of the objects of each bin; see :meth:`DetectionAnalysis.numbers_of_objects`.

        Args:
            attribute: ``size`` or ``aspect_ratio``.
            bins: pairs (low, high), both ends included.
        """
        raise InputError(f"by({attribute!r}) is not defined for results of {self.metric}")

    def counting_objects(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[int] | None:
        """Returns how many ground truths of each bin count, which :meth:`numbers_of_objects` took; None: not known."""
        return None

    def arrival(self) -> Sequence[int]:
        """Returns the places of arrival of images without ids, counted from 0, in the order of their positions."""
        return range(self.images)

    def file_names(self) -> Sequence[str] | None:
        """Returns the names of the files of the images, None where they are not known."""
        return None

    def other_file_names(self) -> Sequence[str] | None:
        """Returns other names of the images, such as those of photos beside label maps, None where there are none."""
        return None

    def reason_of(self, name: str, empty: bool) -> str:
        """Returns why a number of a group of images does not exist.

        Args:
            name: of the number.
            empty: whether the first number of the group does not exist either.
        """
        return "nothing in the images counts for it"

    def result_of(self, images: Ints) -> Result:
        """Computes the result of some images, with the same bits as a fresh run on them.

        Args:
            images: ascending positions of images.
        """
        raise self._without_slices()

    def numbers_of(self, groups: Sequence[Ints]) -> Sequence[Mapping[str, float]]:
        """Computes the single numbers of each group of images, such as ``map`` and ``map_per_class/cat``.

        Args:
            groups: ascending positions of the images of each group.
        """
        from valor_gpu.exports.leaves import numbers_of

        return [dict(numbers_of(self.result_of(group).values)) for group in groups]

    def _without_slices(self) -> InputError:
        return InputError(f"by() and worst_slices() are not defined for results of {self.metric}")

    def _undefined(self, name: str) -> InputError:
        return InputError(f"{name}() is not defined for results of {self.metric}")
