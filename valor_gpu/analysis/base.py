"""Analysis: what a result answers about the data behind its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.errors import InputError
from valor_gpu.result_data import ResultData


class Analysis(ImageNumbers):
    """Questions that a result can answer; each is an error unless a subclass answers it."""

    def errors(self, iou: float | Sequence[float], background: float | Sequence[float], protocol: str) -> ResultData:
        """Computes the gains of mending each kind of error; see :meth:`valor_gpu.result.Result.errors`."""
        raise self._undefined("errors")

    def olrp(self, iou: float) -> ResultData:
        """Computes optimal LRP errors; see :meth:`valor_gpu.result.Result.olrp`."""
        raise self._undefined("olrp")

    def operating_points(self, **choices: Any) -> ResultData:
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

    def _undefined(self, name: str) -> InputError:
        return InputError(f"{name}() is not defined for results of {self.metric}")
