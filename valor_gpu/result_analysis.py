"""Methods of Result about the data behind its numbers: errors, operating points, tables, slices. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.analysis.tide_result import DetectionErrors
    from valor_gpu.exports.column_table import ColumnTable
    from valor_gpu.result import Result
    from valor_gpu.stats.intervals import Bootstrap

_UNKNOWN = (
    "{name}() needs the data that the result came from, which no file of a result holds: ask the metric or the"
    " evaluation for result() again"
)


class Analysed:
    """Part of every result: questions about the data behind its numbers.

    A result of several ``iou_type`` is asked about one of them by ``iou_type``.
    """

    def errors(
        self,
        iou: float | Sequence[float] = 0.5,
        background: float | Sequence[float] = 0.1,
        protocol: str = "coco",
        iou_type: str | None = None,
    ) -> DetectionErrors:
        """Returns the gain of average precision from mending each kind of error, each kind alone: TIDE.

        Every false positive has one kind, by its best IoU with the ground truths that count. The first that holds:
        ``localization``: with its class from ``background`` to below ``iou``; ``classification``: with another class
        from ``iou`` on; ``duplicate``: with its class from ``iou`` on, but another detection took the ground truth;
        ``background``: up to ``background`` with every class; ``both``: the rest. A ground truth without a hit is
        ``missed``, unless a classification or localization error is about it. To mend is to remove the detection or
        the missed ground truth; of the classification and localization errors about one ground truth without a hit,
        the one of the highest score becomes a hit when its kind is mended, the others are removed.
        ``false_positives`` removes all of them, ``false_negatives`` all ground truths without a hit. Gains do not add
        up, and may be negative. Source: Bolya et al., "TIDE: A General Toolbox for Identifying Object Detection
        Errors", ECCV 2020, arXiv 2008.08115.

        Args:
            iou: threshold of a match, above 0, at most 1; several: the gains at each.
            background: IoU up to which a detection shows background, above 0, below ``iou``; several: one for each
                ``iou``, or for one ``iou``.
            protocol: ``coco``: matching, limits, ignored detections, recall samples and mean are those of this result,
                so that ``ap`` is its number at ``iou`` to the last bit, and a gain is what an evaluation of the mended
                data would show. Detections beyond the limit have no part, in the mended data neither. To metrics by
                Valor's rules, detections of equal score stand as they came, which may move ``ap``. ``tidecv``:
                those of the program of the authors, version 1.0.1: 100 detections of an image over all classes,
                detections in crowds are among the errors, classes with detections alone have an AP of 0, and the
                gains of the first six kinds are at least 0.
            iou_type: of a result of several.

        Returns:
            ``values``: ``ap``; ``gains`` by kind, differences of AP as a fraction; ``ap_per_class`` by class;
            ``gains_per_class`` and ``counts_per_class`` by kind and class, the class of a detection its own. NaN, with
            a reason, where no ground truth counts or is left. ``counts``: of each kind, of hits, ignored detections,
            ground truths that count, images. With several thresholds ``values`` has all of these under the text of
            each, such as ``0.75``, and :meth:`~valor_gpu.analysis.tide_result.DetectionErrors.at` is the result of one.
            ``table()`` has a row per kind.

        Raises:
            InputError: a threshold is out of range; the result keeps no pairs of so low an IoU; errors are not defined
                for the metric.

        Example:
            >>> import torch
            >>> from valor_gpu.detection import MeanAveragePrecision
            >>> metric, box = MeanAveragePrecision(errors=True), torch.tensor([[0.0, 0.0, 10.0, 10.0]])
            >>> dog = {"boxes": box, "scores": torch.tensor([0.9]), "labels": torch.tensor([2])}
            >>> cat = {"boxes": box, "labels": torch.tensor([1])}
            >>> metric.update([dog], [cat])  # a cat that is called a dog
            >>> errors = metric.result().errors()
            >>> round(errors.values["ap"], 3), round(errors.values["gains"]["classification"], 3)
            (0.0, 1.0)
            >>> errors.counts["classification"], errors.values["counts_per_class"]["classification"]["2"]
            (1, 1)
        """
        found: DetectionErrors = self._asked("errors", iou_type).errors(iou, background, protocol)
        return found

    def olrp(self, iou: float = 0.5, iou_type: str | None = None) -> Result:
        """Returns the optimal localisation recall precision error and its parts."""
        found: Result = self._asked("olrp", iou_type).olrp(iou)
        return found

    def operating_points(
        self,
        beta: float | None = None,
        precision: float | None = None,
        recall: float | None = None,
        cost: tuple[float, float] | None = None,
        *,
        iou: float = 0.5,
        split: float | None = None,
        intervals: int | Bootstrap | None = None,
        iou_type: str | None = None,
    ) -> Result:
        """Returns the score threshold of each class that serves a purpose, with precision, recall and F there."""
        asked = {"beta": beta, "precision": precision, "recall": recall, "cost": cost}
        choices: dict[str, Any] = {**asked, "iou": iou, "split": split, "intervals": intervals}
        found: Result = self._asked("operating_points", iou_type).operating_points(**choices)
        return found

    def images(self, iou: float = 0.5, score: float | None = None, iou_type: str | None = None) -> ColumnTable:
        """Returns a table with a row per image: true positives, false positives, misses, F1 and mean IoU."""
        found: ColumnTable = self._asked("images", iou_type).image_table(iou=iou, score=score)
        return found

    def matches(
        self, iou: float = 0.5, score: float | None = None, background: float = 0.1, iou_type: str | None = None
    ) -> ColumnTable:
        """Returns a table with a row per detection and missed ground truth: outcome, kind of error and partner."""
        found: ColumnTable = self._asked("matches", iou_type).match_table(iou=iou, score=score, background=background)
        return found

    def by(
        self,
        table: Any,
        *columns: str,
        bins: Mapping[str, Sequence[float]] | None = None,
        intervals: int | Bootstrap | None = None,
        iou_type: str | None = None,
    ) -> ColumnTable:
        """Returns the numbers of slices of the images."""
        found: ColumnTable = self._asked("by", iou_type).by(table, columns, bins=bins, intervals=intervals)
        return found

    def _asked(self, name: str, iou_type: str | None) -> Any:
        """The analysis that answers; several by prefix where there are several ``iou_type``."""
        own = vars(self)
        if own.get("_analysis") is None:
            raise InputError(_UNKNOWN.format(name=name))
        if callable(own["_analysis"]):
            own["_analysis"] = own["_analysis"]()
        found = own["_analysis"]
        if isinstance(found, Mapping):
            kinds = tuple(found)
            if iou_type is None:
                raise InputError(f"iou_type must be one of {', '.join(map(repr, kinds))}, which the result has, for"
                                 f" {name}()")  # fmt: skip
            check_choice("iou_type", iou_type, kinds)
            return found[iou_type]
        return found
