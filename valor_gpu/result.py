"""Result: what metrics and evaluations give. Imports no torch."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu.exports.signature import Signature as Signature
from valor_gpu.exports.signature import grid_choice as grid_choice
from valor_gpu.provenance import Served as Served
from valor_gpu.result_analysis import Analysed
from valor_gpu.result_data import ResultData as ResultData
from valor_gpu.result_data import require_matplotlib as require_matplotlib
from valor_gpu.stats.intervals import Intervals

if TYPE_CHECKING:
    from valor_gpu.stats.resample import Resampled


class Result(Analysed, ResultData, metaclass=ABCMeta):
    """Numbers of a metric, with the choices that made them, counts, and reasons for missing numbers.

    It also answers questions about the data behind the numbers; ``isinstance(answer, Result)`` holds for the answers.

    Args:
        values: name to number, to array, or to a mapping of these; see :class:`valor_gpu.result_data.ResultData`, also
            for the other arguments.
        signature: the choices that made the numbers.
        counts: how many there were, for example, of images.
        reasons: name to why that number is NaN.
        plotter: called as ``plotter(result, ax=..., **options)`` by :meth:`plot`.
        provenance: the mapping of :attr:`provenance`, or a function that returns it.
        intervals: leaf name to :class:`valor_gpu.stats.Interval`.
        state: what the numbers came from, or a function that returns it, for :meth:`with_intervals`; it is never saved.
        analysis: a :class:`valor_gpu.analysis.base.Analysis`, which answers :meth:`errors` and its like, a mapping of
            them by ``iou_type``, or a function that returns either; it is never saved.

    Raises:
        InputError: a value is of another kind, or a reason names no value.

    Example:
        >>> nan = float("nan")
        >>> signature = Signature({"metric": "AP", "version": "1.0"})
        >>> r = Result({"ap": 0.25, "ap_small": nan}, signature, {"images": 8}, {"ap_small": "no small ground truth"})
        >>> print(r)
        ap        0.2500
        ap_small     nan  no small ground truth
        images 8
        metric:AP|version:1.0
        >>> r.scalars("val/")
        {'val/ap': 0.25, 'val/ap_small': nan}
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        signature: Signature,
        counts: Mapping[str, int] | None = None,
        reasons: Mapping[str, str] | None = None,
        plotter: Callable[..., Any] | None = None,
        provenance: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        intervals: Intervals | None = None,
        state: Resampled | Callable[[], Resampled] | None = None,
        analysis: Any = None,
    ) -> None:
        super().__init__(values, signature, counts, reasons, plotter, provenance, intervals, state)
        vars(self)["_analysis"] = analysis

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        # not by base classes: analyses, which make the answers, lie below this module
        return issubclass(kind, ResultData) if cls is Result else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return Result, super().__reduce__()[1]
