"""ImageNumbers: numbers of groups of the images behind a result, which slices are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.result_data import ResultData

Ints = NDArray[np.int64]


class ImageNumbers:
    """Images of a result, and numbers of groups of them; each is an error unless a subclass has it.

    Attributes:
        metric: name of the metric, for messages.
        image_ids: ids of the images in the order of their positions; None where some have none.
        images: number of images.
    """

    metric: str
    images: int
    image_ids: Sequence[Any] | None

    def numbers_of_objects(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[Mapping[str, float]]:
        """Computes the numbers of the objects of each bin; see :class:`valor_gpu.analysis.matched.MatchedDetections`.

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

    def result_of(self, images: Ints) -> ResultData:
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
        return [dict(numbers_of(self.result_of(group).values)) for group in groups]

    def _without_slices(self) -> InputError:
        return InputError(f"by() and worst_slices() are not defined for results of {self.metric}")
