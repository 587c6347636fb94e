"""What results of metrics without images answer: nothing, and what to use for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from valor_gpu.analysis.base import Analysis
from valor_gpu.errors import InputError

_NEED_PAIRS = ("errors", "olrp", "matches")
_OF_SLICES = ("by", "worst_slices")


class NoImages(Analysis):
    """Answers of a detection metric that keeps sums over images: every question raises :class:`InputError`.

    Args:
        metric: its name.
        for_slices: says how to get the numbers of slices.
    """

    image_ids = None
    images = 0

    def __init__(self, metric: str, for_slices: str) -> None:
        self.metric, self._for_slices = metric, for_slices

    def by(self, table: Any, columns: Sequence[str | Sequence[str]], **choices: Any) -> NoReturn:
        """Raises; see :meth:`valor_gpu.result.Result.by`."""
        raise self._undefined("by")

    def worst_slices(self, table: Any, columns: Sequence[str], **choices: Any) -> NoReturn:
        """Raises; see :meth:`valor_gpu.result.Result.worst_slices`."""
        raise self._undefined("worst_slices")

    def _undefined(self, name: str) -> InputError:
        advice = self._for_slices if name in _OF_SLICES else "use MeanAveragePrecision"
        more = " with errors=True" if name in _NEED_PAIRS else ""
        return InputError(f"{name}() needs images, which {self.metric} does not keep: {advice}{more}")
