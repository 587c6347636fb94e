"""The words of valor_core: task types, annotation types, metric types. Values are those that its dicts hold."""

from __future__ import annotations

from enum import Enum


class AnnotationType(str, Enum):
    """What an annotation is drawn with."""

    NONE = "none"
    BOX = "box"
    POLYGON = "polygon"
    RASTER = "raster"


class TaskType(str, Enum):
    """What an annotation is for; it follows from the fields that are set."""

    SKIP = "skip"
    EMPTY = "empty"
    CLASSIFICATION = "classification"
    OBJECT_DETECTION = "object-detection"
    SEMANTIC_SEGMENTATION = "semantic-segmentation"
    EMBEDDING = "embedding"
    TEXT_GENERATION = "text-generation"


class MetricType(str, Enum):
    """Names of metrics, as ``metrics_to_return`` takes them and ``Evaluation.metrics`` shows them as ``type``.

    The last nine are not in valor_core: ``Coherence`` is a metric of Valor's server before 0.32.2, ``ROCAUCPerLabel``
    the ROC AUC of each label, the others are metrics of valor-lite. Detection has them without
    ``compat`` too, but for ``mROCAUC``; in classification they need ``compat="valor-lite"``.

    Example:
        >>> MetricType("Accuracy") in MetricType.classification()
        True
    """

    Accuracy = "Accuracy"
    Precision = "Precision"
    Recall = "Recall"
    F1 = "F1"
    ROCAUC = "ROCAUC"
    AP = "AP"
    AR = "AR"
    mAP = "mAP"
    mAR = "mAR"
    APAveragedOverIOUs = "APAveragedOverIOUs"
    mAPAveragedOverIOUs = "mAPAveragedOverIOUs"
    IOU = "IOU"
    mIOU = "mIOU"
    PrecisionRecallCurve = "PrecisionRecallCurve"
    DetailedPrecisionRecallCurve = "DetailedPrecisionRecallCurve"
    AnswerCorrectness = "AnswerCorrectness"
    AnswerRelevance = "AnswerRelevance"
    Bias = "Bias"
    BLEU = "BLEU"
    ContextPrecision = "ContextPrecision"
    ContextRecall = "ContextRecall"
    ContextRelevance = "ContextRelevance"
    Faithfulness = "Faithfulness"
    Hallucination = "Hallucination"
    ROUGE = "ROUGE"
    SummaryCoherence = "SummaryCoherence"
    Toxicity = "Toxicity"
    Coherence = "Coherence"
    ROCAUCPerLabel = "ROCAUCPerLabel"
    mROCAUC = "mROCAUC"
    Counts = "Counts"
    ConfusionMatrix = "ConfusionMatrix"
    ConfusionMatrixWithExamples = "ConfusionMatrixWithExamples"
    Examples = "Examples"
    ARAveragedOverScores = "ARAveragedOverScores"
    mARAveragedOverScores = "mARAveragedOverScores"

    @classmethod
    def classification(cls) -> set[MetricType]:
        """The metrics of classification in valor_core."""
        return {
            cls.Accuracy,
            cls.Precision,
            cls.Recall,
            cls.F1,
            cls.ROCAUC,
            cls.PrecisionRecallCurve,
            cls.DetailedPrecisionRecallCurve,
        }

    @classmethod
    def object_detection(cls) -> set[MetricType]:
        """The metrics of object detection in valor_core."""
        return {
            cls.AP,
            cls.AR,
            cls.mAP,
            cls.mAR,
            cls.APAveragedOverIOUs,
            cls.mAPAveragedOverIOUs,
            cls.PrecisionRecallCurve,
            cls.DetailedPrecisionRecallCurve,
        }

    @classmethod
    def semantic_segmentation(cls) -> set[MetricType]:
        """The metrics of semantic segmentation."""
        return {cls.IOU, cls.mIOU}

    @classmethod
    def text_generation(cls) -> set[MetricType]:
        """The metrics of generated text in valor_core."""
        return {
            cls.AnswerCorrectness,
            cls.AnswerRelevance,
            cls.Bias,
            cls.BLEU,
            cls.ContextPrecision,
            cls.ContextRecall,
            cls.ContextRelevance,
            cls.Faithfulness,
            cls.Hallucination,
            cls.ROUGE,
            cls.SummaryCoherence,
            cls.Toxicity,
        }


class ROUGEType(str, Enum):
    """Variants of ROUGE."""

    ROUGE1 = "rouge1"
    ROUGE2 = "rouge2"
    ROUGEL = "rougeL"
    ROUGELSUM = "rougeLsum"
