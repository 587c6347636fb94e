"""The same metrics for slices of a detection: by camera, by day, by size of the objects. Thousands in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from valor_gpu.compat.valor.evaluation import Evaluation
from valor_gpu.errors import InputError
from valor_gpu.result_analysis import Analysed
from valor_gpu.valor.detection.scene import EvaluatedData
from valor_gpu.valor.detection.slice_fields import Dealt, SliceField, deal_slices
from valor_gpu.valor.filters import Field

if TYPE_CHECKING:
    from valor_gpu.detection.overlap_analysis import OverlapAnalysis
    from valor_gpu.valor.detection.slice_numbers import SliceTables


class DetectionEvaluation(Evaluation, Analysed):
    """An evaluation that also gives its metrics for slices of its data, and what its errors are.

    It holds that data, as long as it lives; a copied or loaded one does not. ``errors``, ``olrp``,
    ``operating_points``, ``images`` and ``matches`` are those of :class:`valor_gpu.result.Result`, over the pairs that
    overlap and by Valor's rule of matching. The average precision that errors cost is Valor's, of the classes of all
    label keys; a class is named by its value alone where the data has one key, else as ``key: value``.
    """

    data: EvaluatedData | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("data", "_analysis")}

    def _asked(self, name: str, iou_type: str | None) -> OverlapAnalysis:
        if iou_type is not None:
            raise InputError(f"iou_type must be None for an evaluation of detections but got {iou_type!r}")
        if self.data is None:
            raise InputError(f"{name} needs the data of the evaluation, which a copied or loaded one does not hold")
        return self._analysis

    @cached_property
    def _analysis(self) -> OverlapAnalysis:
        from valor_gpu.valor.detection.analysis import evaluation_analysis  # loads torch

        assert self.data is not None
        return evaluation_analysis(self.data)

    def by(  # type: ignore[override]
        self, field: Field | str, edges: Sequence[Any] | None = None, side: str | None = None
    ) -> DetectionSlices:
        """Evaluates each value of a field as a filter that keeps nothing else would, in one pass over the pairs.

        Args:
            field: of datums, annotations or labels: ``"metadata.weather"``, ``"annotation.geometry.area"``, or a field
                of ``valor_gpu.valor.filters``. Where it is missing, there is a slice named None.
            edges: ascending; a slice then is a bin of values from one edge to below the next, named by both. What lies
                below the first edge or at or above the last has a bin of its own.
            side: of fields of annotations, labels and scores: whose rows are dealt out, ``both``, ``groundtruths`` or
                ``predictions``; the other side is in every slice as a whole. Default: both, of scores the predictions.

        Raises:
            InputError: no such field, metadata that nothing has, values that are no names, edges that do not ascend, or
                an evaluation without data.

        Example:
            >>> from valor_gpu.valor import Box, evaluate_detection
            >>> frame = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": ["x", "x"],
            ...          "bounding_box": [Box.from_extrema(0, 2, 0, 2)] * 2, "is_instance": [True, True],
            ...          "datum_metadata.night": [True, False]}
            >>> found = {name: column[:1] for name, column in frame.items()} | {"score": [0.5]}
            >>> slices = evaluate_detection(frame, found, metrics_to_return=["mAR"]).by("metadata.night")
            >>> [(row["slice"], row["metrics"][0]["value"]) for row in slices.rows()]
            [(False, 0.0), (True, 1.0)]
        """
        if self.data is None:
            raise InputError("by needs the data of the evaluation, which a copied or loaded one does not hold")
        return DetectionSlices(deal_slices(self.data, SliceField.read(field, edges), side))


class DetectionSlices(Mapping[Any, dict[str, Any]]):
    """The metrics of each slice by its name: numbers are computed in one pass, dicts when they are asked for.

    A slice is a dict of ``slice`` (its name), ``metrics`` and ``confusion_matrices`` as an evaluation of its data alone
    has them, ``datums`` (of fields of annotations those that have a row), ``groundtruths`` and ``predictions`` (labels
    of annotations), ``ignored_pred_labels``, ``missing_pred_labels`` and ``reasons`` why values are None.

    Args:
        dealt: data of the evaluation, dealt out.
    """

    def __init__(self, dealt: Dealt) -> None:
        self._dealt, self._values = dealt, dealt.values
        self._places = {_key(value): place for place, value in enumerate(dealt.values)}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, value: Any) -> dict[str, Any]:
        try:
            place = self._places[_key(value)]
        except (KeyError, TypeError):
            raise KeyError(value) from None
        return self._slice(place)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values!r})"

    def rows(self) -> Iterator[dict[str, Any]]:
        """The slices in their order: ascending, None last."""
        return map(self._slice, range(len(self._values)))

    def _slice(self, place: int) -> dict[str, Any]:
        from valor_gpu.compat.valor.detection.keys import key_metrics
        from valor_gpu.valor.detection.slice_numbers import counts_all  # loads torch

        data = self._dealt.data
        reasons: dict[str, str] = {}
        if counts_all(data.request):
            found, matrices = key_metrics(data.scene, data.request, reasons, self._tables.numbers(place))
        else:
            found, matrices = key_metrics(data.scene.keep(*self._dealt.masks(place)), data.request, reasons)
        datums, truths, rows = (int(count[place]) for count in self._dealt.counts)
        true, predicted = (table[place] for table in self._dealt.labels)
        return {
            "slice": self._values[place],
            "datums": datums,
            "groundtruths": truths,
            "predictions": rows,
            "metrics": found,
            "confusion_matrices": matrices,
            "ignored_pred_labels": sorted(predicted - true),
            "missing_pred_labels": sorted(true - predicted),
            "reasons": reasons,
        }

    @cached_property
    def _tables(self) -> SliceTables:
        from valor_gpu.valor.detection.slice_numbers import slice_tables

        return slice_tables(self._dealt)


def _key(value: Any) -> Any:
    """A key of a dict for the name of a slice; True is not 1."""
    return isinstance(value, bool), value
