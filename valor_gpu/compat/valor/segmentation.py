"""Evaluation of semantic segmentations: objects or frames with masks in, metrics of each label key out. No torch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_choice
from valor_gpu.compat.valor.enums import MetricType, TaskType
from valor_gpu.compat.valor.evaluation import Evaluation, EvaluationParameters
from valor_gpu.compat.valor.labels import pairs_of, read_label_map
from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.compat.valor.request import check_metrics, read_filter
from valor_gpu.compat.valor.schemas import GroundTruth, Label, Prediction
from valor_gpu.compat.valor.segmentation_metrics import METRICS, LiteKey, SegmentationKey
from valor_gpu.errors import InputError
from valor_gpu.valor.columns import Kept
from valor_gpu.valor.filters import Filter
from valor_gpu.valor.pixel_keys import KeyPixels, count_keys, kept_pixels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from valor_gpu.valor.frames import Frame

_SERVER_METRICS = [MetricType.IOU, MetricType.mIOU, MetricType.Precision, MetricType.Recall, MetricType.F1]
_OTHER_PRESETS = {
    "valor-api": "the default has the definitions of Valor's server",
    "valor-core": "valor_core has no segmentation",
    "coco": "COCO's rules are those of detection",
}
_SIDES = ("groundtruths", "predictions")


def evaluate_segmentation(
    groundtruths: Iterable[GroundTruth] | Frame,
    predictions: Iterable[Prediction] | Frame,
    label_map: Mapping[Label, Label] | None = None,
    metrics_to_return: Sequence[MetricType | str] | None = None,
    filters: Filter | Mapping[str, Any] | None = None,
    compat: str | None = None,
) -> Evaluation:
    """Compares predicted masks with true ones, pixel by pixel, each label key apart.

    Pixels of a label are counted over all datums before they are divided: IOU is ``tp / (true + predicted - tp)``. A
    label has the pixels of all its annotations of a datum, each pixel once; a pixel may have several labels. Labels
    without true pixels have no metrics and no part in mIOU. Definitions (those of Valor's server 0.33), edge cases and
    the rules of ``compat="valor-lite"`` are in docs/valor.md.

    Args:
        groundtruths: objects whose annotations have labels and a raster, or a frame with columns ``datum_uid``,
            ``label_key``, ``label_value`` and ``raster`` (a Raster or bool ``[H, W]`` in each row). In place of a
            raster a Polygon or MultiPolygon, of frames in a column ``polygon``, is drawn as ``Raster.from_geometry``
            draws it, in the size of a raster of its datum, else of its metadata ``height`` and ``width``. Annotations
            of other tasks are left out and counted in ``meta["ignored_annotations"]``.
        predictions: likewise, without scores. A datum that is only on one side has no pixel on the other.
        label_map: labels that count as another label, also of another key; their masks are united.
        metrics_to_return: default: IOU, mIOU, Precision, Recall and F1. Accuracy (fraction of pixels whose labels are
            the same on both sides) and ConfusionMatrix (IOU of each true with each predicted label, and pixels in
            ``confusion_matrices``) are returned when asked for.
        filters: keep only some datums, ground truths or predictions; scores cannot be compared.
        compat: None, or ``valor-lite`` for the numbers and dicts of that package, which returns all seven metrics by
            default. Of masks that overlap the first one then keeps the pixel, with a warning.

    Returns:
        The evaluation; ``meta`` also has the numbers of ``pixels``, ``overlapping_pixels``, ``ignored_annotations``,
        ``datums_without_masks`` and of the datums that lack a side.

    Raises:
        InputError: masks of a datum of different shapes, a score, an annotation without raster and polygon, a
            polygon of a datum without a size, no mask at all, a metric or a preset of another task, malformed input.

    Example:
        >>> from valor_gpu.valor import Annotation, Box, Datum, Raster
        >>> image, road = Datum("image 1"), [Label("class", "road")]
        >>> masks = [Raster.from_geometry(Box.from_extrema(0, x, 0, 4), height=4, width=8) for x in (4, 6)]
        >>> truth, found = (Annotation(labels=road, raster=mask) for mask in masks)
        >>> evaluate_segmentation([GroundTruth(image, [truth])], [Prediction(image, [found])]).metrics[0]
        {'label': {'key': 'class', 'value': 'road'}, 'value': 0.6666666666666666, 'type': 'IOU'}
    """
    start = time.perf_counter()
    lite = _is_lite(compat)
    chosen = metrics_to_return if metrics_to_return is not None else list(METRICS) if lite else _SERVER_METRICS
    wanted = check_metrics(chosen, METRICS)
    mapping = read_label_map(label_map)
    chosen_filter = _read_filter(filters)
    columns = read_columns(groundtruths, predictions, TaskType.SEMANTIC_SEGMENTATION)
    columns = columns.mapped(pairs_of(mapping))
    if not columns.labels:
        raise InputError("groundtruths and predictions must hold a label of a segmentation but hold none")
    kept = Kept(columns, *chosen_filter.masks(columns))
    pairs = MetricType.ConfusionMatrix in wanted
    found = count_keys(kept, exclusive=lite, pairs=pairs, every_label=lite)
    if lite:
        _warn_of_overlaps(found)
    reasons: dict[str, str] = {}
    keys = [(LiteKey if lite else SegmentationKey)(key, reasons) for key in found]
    shown = [metric for key in keys for name in wanted for metric in METRICS[name](key)]
    true, predicted = kept.labels
    if not true and not predicted:
        reasons["filters"] = "the filter keeps no label"
    return Evaluation(
        parameters=EvaluationParameters(label_map=mapping, metrics_to_return=list(wanted), compat=compat),
        metrics=shown,
        confusion_matrices=[key.entries() for key in keys] if pairs else None,
        ignored_pred_labels=sorted(predicted - true),
        missing_pred_labels=sorted(true - predicted),
        meta={**_meta(kept, found), "reasons": reasons, "duration": time.perf_counter() - start},
    )


def _is_lite(compat: str | None) -> bool:
    if compat in _OTHER_PRESETS:
        raise InputError(f"compat must be None or 'valor-lite' but got {compat!r}: {_OTHER_PRESETS[compat]}")
    check_choice("compat", compat, (None, "valor-lite"))
    return compat == "valor-lite"


def _read_filter(filters: Filter | Mapping[str, Any] | None) -> Filter:
    found = read_filter(filters)
    for side in (found.groundtruths, found.predictions):
        if side is not None and "score" in side.fields():
            raise InputError("filters must not compare score but do: labels of a segmentation have none")
    return found


def _warn_of_overlaps(keys: list[KeyPixels]) -> None:
    for key in keys:
        for side, pixels, datums in zip(_SIDES, key.overlap.tolist(), key.overlap_datums.tolist()):
            if pixels:
                warnings.warn(
                    f"{pixels} pixels of {side} lie in masks of several labels of key {key.key!r}, in {datums} datums; "
                    "the first mask keeps them",
                    stacklevel=3,
                )


def _meta(kept: Kept, keys: list[KeyPixels]) -> dict[str, Any]:
    columns, (without_truths, without_rows) = kept.columns, kept.one_sided()
    overlap = [sum(int(key.overlap[place]) for key in keys) for place in (0, 1)]
    return {
        "labels": len(set().union(*kept.labels)),
        "datums": kept.num_datums,
        "annotations": kept.num_annotations,
        "pixels": kept_pixels(kept),
        "overlapping_pixels": dict(zip(_SIDES, overlap)),
        "ignored_annotations": dict(columns.ignored),
        "datums_without_masks": len(columns.uids) - len(columns.datums),
        "datums_without_groundtruths": without_truths,
        "datums_without_predictions": without_rows,
    }
