"""The ratio of counts of classes that a metric computes, and its average over the classes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from valor_gpu.inputs.scores import Task
from valor_gpu.reduce.ratios import Outcomes, Ratio, average_ratio


class ClassRatio:
    """Computes the numbers of a metric from its outcomes; a subclass gives the ratio in ``_ratio``.

    Attributes:
        task: what is predicted.
        average: over the classes.
        top_k: multiclass: how many of the largest scores count as predicted.
        zero_division: value of a class whose denominator is 0.
    """

    task: Task
    average: str | None
    top_k: int
    zero_division: float
    _top_k_by_support: ClassVar[bool] = False  # torchmetrics' rule differs between its metrics
    _of_rows: ClassVar[bool] = True  # the ratio of a class is a proportion of rows
    _of_truths: ClassVar[bool] = False  # multiclass: the ratio needs hits and truths alone

    def _ratio(self, o: Outcomes) -> Ratio:
        raise NotImplementedError

    def _counted(self, o: Outcomes) -> Any:
        """The classes that ``macro`` takes, bool ``[C]``."""
        if self.task.kind != "multiclass":
            return o.true >= 0
        return o.true > 0 if self.top_k > 1 and self._top_k_by_support else o.true + o.predicted > 0

    def _per_class(self, o: Outcomes) -> Any:
        """float64 ``[C]``, NaN where the denominator is 0."""
        return self._ratio(o).value()

    def _value(self, o: Outcomes, empty: float | None) -> Any:
        """The value, ``empty`` where nothing counts; None: what torchmetrics gives there."""
        return average_ratio(self._ratio, o, self.average, self._counted(o), self.zero_division, empty)

    def _numbers(self, o: Outcomes) -> dict[str, float]:
        """The numbers of a result by name, without those of classes."""
        if self.average in ("none", None):
            return {}
        found = {type(self).__name__: float(self._value(o, math.nan))}
        if self.task.kind == "binary":
            counts = {"tp": o.tp, "fp": o.fp, "fn": o.fn, "tn": o.tn, "support": o.true}
            found |= {name: float(count[0]) for name, count in counts.items()}
        return found

    def _arrays_by_class(self, o: Outcomes) -> dict[str, Any]:
        """The arrays ``[C]`` of a result whose numbers have intervals, by name."""
        return {} if self.task.kind == "binary" else {"per_class": self._per_class(o)}

    def _class_numbers(self, o: Outcomes) -> dict[str, float]:
        """The numbers of classes by the names that they have among the numbers of a result."""
        arrays = self._arrays_by_class(o).items()
        return {f"{name}/{index}": value for name, array in arrays for index, value in enumerate(array.tolist())}
