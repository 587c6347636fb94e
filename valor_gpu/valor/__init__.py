"""The API of valor_core over the ops of valor_gpu: ``import valor_gpu.valor as valor_core``.

Objects, functions and dicts have the names and fields of valor_core; docs/valor.md lists what differs. They come from
:mod:`valor_gpu.compat.valor`, over the mathematics in the modules here. Importing this loads neither torch nor numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names, open_front_door

if TYPE_CHECKING:
    from valor_gpu.compat.valor import enums, managers, metrics, schemas, segmentation, text_generation
    from valor_gpu.compat.valor.datasets import Dataset
    from valor_gpu.compat.valor.detection.manager import ValorDetectionManager
    from valor_gpu.compat.valor.evaluation import Evaluation, EvaluationParameters
    from valor_gpu.compat.valor.labels import Label
    from valor_gpu.compat.valor.managers import ValorClassificationManager
    from valor_gpu.compat.valor.metrics import (
        AccuracyMetric,
        APMetric,
        APMetricAveragedOverIOUs,
        ARMetric,
        ConfusionMatrix,
        ConfusionMatrixEntry,
        DetailedPrecisionRecallCurve,
        F1Metric,
        IOUMetric,
        PrecisionMetric,
        PrecisionRecallCurve,
        RecallMetric,
        ROCAUCMetric,
        mAPMetric,
        mAPMetricAveragedOverIOUs,
        mARMetric,
        mIOUMetric,
    )
    from valor_gpu.compat.valor.result_curves import detailed_curve, threshold_curve
    from valor_gpu.compat.valor.schemas import Annotation, Datum, Embedding, GroundTruth, Prediction
    from valor_gpu.compat.valor.segmentation import evaluate_segmentation
    from valor_gpu.compat.valor.text_generation import evaluate_text_generation
    from valor_gpu.compat.valor.text_manager import ValorTextGenerationStreamingManager
    from valor_gpu.valor import classification, detection, exceptions, filters, geometry
    from valor_gpu.valor.classification import evaluate_classification, evaluate_classification_slices
    from valor_gpu.valor.detection import evaluate_detection
    from valor_gpu.valor.filters import Filter
    from valor_gpu.valor.geometry import (
        Box,
        GeoJSON,
        LineString,
        MultiLineString,
        MultiPoint,
        MultiPolygon,
        Point,
        Polygon,
        Raster,
    )

__all__ = [
    "APMetric",
    "APMetricAveragedOverIOUs",
    "ARMetric",
    "AccuracyMetric",
    "Annotation",
    "Box",
    "ConfusionMatrix",
    "ConfusionMatrixEntry",
    "Dataset",
    "Datum",
    "DetailedPrecisionRecallCurve",
    "Embedding",
    "Evaluation",
    "EvaluationParameters",
    "F1Metric",
    "Filter",
    "GeoJSON",
    "GroundTruth",
    "IOUMetric",
    "Label",
    "LineString",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "Point",
    "Polygon",
    "PrecisionMetric",
    "PrecisionRecallCurve",
    "Prediction",
    "ROCAUCMetric",
    "Raster",
    "RecallMetric",
    "ValorClassificationManager",
    "ValorDetectionManager",
    "ValorTextGenerationStreamingManager",
    "classification",
    "detailed_curve",
    "detection",
    "enums",
    "evaluate_classification",
    "evaluate_classification_slices",
    "evaluate_detection",
    "evaluate_segmentation",
    "evaluate_text_generation",
    "exceptions",
    "filters",
    "geometry",
    "mAPMetric",
    "mAPMetricAveragedOverIOUs",
    "mARMetric",
    "mIOUMetric",
    "managers",
    "metrics",
    "schemas",
    "segmentation",
    "text_generation",
    "threshold_curve",
]

_PLACES = {
    "classification": ("classification", "evaluate_classification", "evaluate_classification_slices"),
    "datasets": ("Dataset",),
    "detection": ("detection", "evaluate_detection"),
    "detection.manager": ("ValorDetectionManager",),
    "evaluation": ("Evaluation", "EvaluationParameters"),
    "filters": ("Filter", "filters"),
    "geometry": (
        "Box",
        "GeoJSON",
        "LineString",
        "MultiLineString",
        "MultiPoint",
        "MultiPolygon",
        "Point",
        "Polygon",
        "Raster",
        "geometry",
    ),
    "labels": ("Label",),
    "managers": ("ValorClassificationManager", "managers"),
    "metrics": (
        "APMetric",
        "APMetricAveragedOverIOUs",
        "ARMetric",
        "AccuracyMetric",
        "ConfusionMatrix",
        "ConfusionMatrixEntry",
        "DetailedPrecisionRecallCurve",
        "F1Metric",
        "IOUMetric",
        "PrecisionMetric",
        "PrecisionRecallCurve",
        "ROCAUCMetric",
        "RecallMetric",
        "mAPMetric",
        "mAPMetricAveragedOverIOUs",
        "mARMetric",
        "mIOUMetric",
        "metrics",
    ),
    "result_curves": ("detailed_curve", "threshold_curve"),
    "schemas": ("Annotation", "Datum", "Embedding", "GroundTruth", "Prediction", "schemas"),
    "segmentation": ("evaluate_segmentation", "segmentation"),
    "enums": ("enums",),
    "exceptions": ("exceptions",),
    "text_generation": ("evaluate_text_generation", "text_generation"),
    "text_manager": ("ValorTextGenerationStreamingManager",),
}

_HOMES = {name: f"{__name__}.{place}" for place, names in _PLACES.items() for name in names}

open_front_door(__name__, "valor_gpu.compat.valor")
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
