"""Choices of an evaluation of detections, and those of each of Valor's releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from valor_gpu.checks import check_choice
from valor_gpu.valor.columns import Pair

COMPAT = (None, "valor-api", "valor-core", "valor-lite", "coco")


@dataclass(frozen=True)
class DetectionRules:
    """The choices of one release.

    Attributes:
        order: how AP orders equal scores, see :func:`valor_gpu.reduce.overlap_curves.average_precision`.
        count_rows: labels of an annotation that a label map makes one stay several predictions or ground truths;
            otherwise they are one, of the largest score.
        positive_only: detections with a score of 0 or less are no false positives of AP, but find ground truths of AR.
        curve: counts of PrecisionRecallCurve. ``exact``; ``api``: false positives are the pairs below the IoU
            threshold, and twice the detections without a ground truth of their label on the datum; ``core``: only the
            first detection of a ground truth can be a true positive.
        kinds: kinds of observations of DetailedPrecisionRecallCurve. ``exact``; ``api``: each detection is compared
            with one ground truth, of its own label where the datum has one; ``core``: every detection that reaches the
            threshold is a true positive.
        undefined: the ratio of a curve whose denominator is 0; F1 has it where there is no true positive.
        least_examples: of each kind of observation, whatever is asked for.
        examples: what an example holds. ``geometry``: dataset, datum and the GeoJSON of the annotation; ``envelope``:
            of the box around it; ``datum``: datum and coordinates.
        mean_untrue: labels that are only predicted are part of means, with 0.
        dissolve: the confusion matrix pairs detections and ground truths of any IoU first, and lets those below the
            threshold go afterwards.
        least_score: scores up to this one are no predictions in counts, confusion matrix and examples.
        need_truths: data without any ground truth is an error.
        raster_to_polygon: how rasters become polygons, see :func:`valor_gpu.inputs.raster_to_polygon`.
    """

    order: str = "valor"
    count_rows: bool = False
    positive_only: bool = False
    curve: str = "exact"
    kinds: str = "exact"
    undefined: float = -1
    least_examples: int = 0
    examples: str = "geometry"
    mean_untrue: bool = False
    dissolve: bool = False
    least_score: float = -float("inf")
    need_truths: bool = False
    raster_to_polygon: str = "outline"


_PRESETS = {
    None: DetectionRules(),
    "valor-api": DetectionRules(
        curve="api",
        kinds="api",
        least_examples=1,
        examples="envelope",
        need_truths=True,
        count_rows=True,
        raster_to_polygon="hull",
    ),
    "valor-core": DetectionRules(
        positive_only=True, curve="core", kinds="core", undefined=0, examples="datum", need_truths=True, count_rows=True
    ),
    "valor-lite": DetectionRules(order="lite", mean_untrue=True, dissolve=True, least_score=1e-9),
    "coco": DetectionRules(),
}


def detection_rules(compat: str | None) -> DetectionRules:
    """The rules of a preset; None: those of this library.

    Args:
        compat: one of ``COMPAT``.

    Raises:
        InputError: no such preset.
    """
    check_choice("compat", compat, COMPAT)
    return _PRESETS[compat]


IOU_THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
SHOWN_THRESHOLDS = (0.5, 0.75)


@dataclass(frozen=True)
class DetectionRequest:
    """Choices of an evaluation, checked.

    Attributes:
        label_map: labels that count as another, by (key, value).
        metrics: names of those to return.
        convert: the geometry to compare; None: the most detailed one that both sides have.
        ious: thresholds of AP and AR.
        shown_ious: those of them that single values are returned for.
        recall_score: of AR.
        curve_iou: of the two curves.
        max_examples: of each kind of observation.
        compat: the preset.
        scores: thresholds of counts.
        matching: how a detection gets its ground truth.
        duplicates: whether these are a kind of observation.
        page: the first datum of Examples, and how many, None: all of them.
    """

    label_map: Mapping[Pair, Pair] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    convert: str | None = None
    ious: tuple[float, ...] = IOU_THRESHOLDS
    shown_ious: tuple[float, ...] = SHOWN_THRESHOLDS
    recall_score: float = 0.0
    curve_iou: float = 0.5
    max_examples: int = 1
    compat: str | None = None
    scores: tuple[float, ...] = (0.5,)
    matching: str = "valor"
    duplicates: bool = False
    page: tuple[int, int | None] = (0, None)

    @property
    def rules(self) -> DetectionRules:
        """The rules of the preset."""
        return detection_rules(self.compat)
