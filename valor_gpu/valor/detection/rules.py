"""Where Valor's releases differ in detection, and which of these differences a preset takes."""

from __future__ import annotations

from dataclasses import dataclass

from valor_gpu.checks import check_choice

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
