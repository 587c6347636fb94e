"""The metric classes of valor_core: what a number belongs to, and its dict. ``value`` None: there is no number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from valor_gpu.valor.schemas import Label


@dataclass
class _LabelMetricBase:
    """A number of one label."""

    label: Label
    value: float | None
    __type__: ClassVar[str] = "BaseClass"

    def _parameters(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        """``label``, ``value``, ``type``, and ``parameters`` where the metric has any."""
        parameters = self._parameters()
        return {
            "label": {"key": self.label.key, "value": self.label.value},
            **({"parameters": parameters} if parameters else {}),
            "value": self.value,
            "type": self.__type__,
        }


@dataclass
class _LabelKeyMetricBase:
    """A number of one label key."""

    label_key: str
    value: float | None
    __type__: ClassVar[str] = "BaseClass"

    def _parameters(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        """``parameters`` with the label key, ``value``, ``type``."""
        return {
            "parameters": {"label_key": self.label_key, **self._parameters()},
            "value": self.value,
            "type": self.__type__,
        }


@dataclass
class _OneIoU:
    """A metric at one IoU threshold."""

    iou: float

    def _parameters(self) -> dict[str, Any]:
        return {"iou": self.iou}


@dataclass
class _ManyIoUs:
    """A metric over several IoU thresholds."""

    ious: set[float]

    def _parameters(self) -> dict[str, Any]:
        return {"ious": sorted(self.ious)}


# Fields come from the last base first, so that the label or key and the value lead.
@dataclass
class ARMetric(_ManyIoUs, _LabelMetricBase):
    """Average recall of a label."""

    __type__: ClassVar[str] = "AR"


@dataclass
class APMetric(_OneIoU, _LabelMetricBase):
    """Average precision of a label."""

    __type__: ClassVar[str] = "AP"


@dataclass
class APMetricAveragedOverIOUs(_ManyIoUs, _LabelMetricBase):
    """Average precision of a label, mean over IoU thresholds."""

    __type__: ClassVar[str] = "APAveragedOverIOUs"


@dataclass
class mARMetric(_ManyIoUs, _LabelKeyMetricBase):
    """Mean over the labels of a key of average recall."""

    __type__: ClassVar[str] = "mAR"


@dataclass
class mAPMetric(_OneIoU, _LabelKeyMetricBase):
    """Mean over the labels of a key of average precision."""

    __type__: ClassVar[str] = "mAP"


@dataclass
class mAPMetricAveragedOverIOUs(_ManyIoUs, _LabelKeyMetricBase):
    """Mean over labels and IoU thresholds of average precision."""

    __type__: ClassVar[str] = "mAPAveragedOverIOUs"


@dataclass
class PrecisionMetric(_LabelMetricBase):
    """``tp / (tp + fp)`` of a label."""

    __type__: ClassVar[str] = "Precision"


@dataclass
class RecallMetric(_LabelMetricBase):
    """``tp / (tp + fn)`` of a label."""

    __type__: ClassVar[str] = "Recall"


@dataclass
class F1Metric(_LabelMetricBase):
    """Harmonic mean of precision and recall of a label."""

    __type__: ClassVar[str] = "F1"


@dataclass
class ROCAUCPerLabelMetric(_LabelMetricBase):
    """Area under the ROC curve of a label against the rest; not in valor_core."""

    __type__: ClassVar[str] = "ROCAUCPerLabel"


@dataclass
class ROCAUCMetric(_LabelKeyMetricBase):
    """Mean over the labels of a key of the area under the ROC curve.

    Example:
        >>> ROCAUCMetric(label_key="animal", value=0.75).to_dict()
        {'parameters': {'label_key': 'animal'}, 'value': 0.75, 'type': 'ROCAUC'}
    """

    __type__: ClassVar[str] = "ROCAUC"


@dataclass
class AccuracyMetric(_LabelKeyMetricBase):
    """Share of ground truths whose label has the highest score."""

    __type__: ClassVar[str] = "Accuracy"


@dataclass
class _BasePrecisionRecallCurve:
    """Counts at the score thresholds 0.05, 0.1, ... 0.95 of every label of a key."""

    label_key: str
    value: dict[str, dict[float, dict[str, Any]]]
    pr_curve_iou_threshold: float | None
    __type__: ClassVar[str] = "BaseClass"

    def to_dict(self) -> dict[str, Any]:
        """``parameters`` with the label key and the IoU threshold, ``value``, ``type``."""
        return {
            "parameters": {"label_key": self.label_key, "pr_curve_iou_threshold": self.pr_curve_iou_threshold},
            "value": self.value,
            "type": self.__type__,
        }


@dataclass
class PrecisionRecallCurve(_BasePrecisionRecallCurve):
    """``value[label][threshold]``: tp, fp, fn, tn, precision, recall, accuracy, f1_score."""

    __type__: ClassVar[str] = "PrecisionRecallCurve"


@dataclass
class DetailedPrecisionRecallCurve(_BasePrecisionRecallCurve):
    """``value[label][threshold][outcome]``: a total and, for each kind of observation, a count and examples."""

    __type__: ClassVar[str] = "DetailedPrecisionRecallCurve"


@dataclass
class ConfusionMatrixEntry:
    """How many ground truths of one label were predicted as another."""

    prediction: str
    groundtruth: str
    count: int

    def to_dict(self) -> dict[str, Any]:
        """The three fields."""
        return {"prediction": self.prediction, "groundtruth": self.groundtruth, "count": self.count}


@dataclass
class _BaseConfusionMatrix:
    """The cells of a confusion matrix that are not zero."""

    label_key: str
    entries: list[ConfusionMatrixEntry]

    def to_dict(self) -> dict[str, Any]:
        """``label_key`` and ``entries``."""
        return {"label_key": self.label_key, "entries": [entry.to_dict() for entry in self.entries]}


@dataclass
class ConfusionMatrix(_BaseConfusionMatrix):
    """The confusion matrix of a label key.

    Attributes:
        label_map: label value to row and column, sorted by name.

    Example:
        >>> ConfusionMatrix("animal", [ConfusionMatrixEntry("cat", "dog", 2)]).matrix.tolist()
        [[0, 0], [2, 0]]
    """

    label_map: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = {name for entry in self.entries for name in (entry.prediction, entry.groundtruth)}
        self.label_map = {name: place for place, name in enumerate(sorted(names))}

    @property
    def matrix(self) -> NDArray[np.int64]:
        """Counts, int64 ``[labels, labels]``: rows are ground truths."""
        counts = np.zeros((len(self.label_map), len(self.label_map)), np.int64)
        for entry in self.entries:
            counts[self.label_map[entry.groundtruth], self.label_map[entry.prediction]] = entry.count
        return counts


@dataclass
class _TextGenerationMetricBase:
    """A number of one answer."""

    status: str
    value: int | float | dict[str, float] | None
    parameters: dict[str, Any]
    __type__: ClassVar[str] = "BaseClass"

    def to_dict(self) -> dict[str, Any]:
        """``type``, ``status``, ``value``, ``parameters``."""
        return {"type": self.__type__, "status": self.status, "value": self.value, "parameters": self.parameters}


def _text_metric(name: str, about: str) -> type[_TextGenerationMetricBase]:
    """The class of one metric of generated text; they differ in nothing but the name."""
    fields = {"__type__": name, "__doc__": about, "__module__": __name__}
    return dataclass(type(f"{name}Metric", (_TextGenerationMetricBase,), fields))


AnswerCorrectnessMetric = _text_metric("AnswerCorrectness", "F1 of the statements of an answer against the true ones.")
AnswerRelevanceMetric = _text_metric(
    "AnswerRelevance", "Share of the statements of an answer that concern the question."
)
BiasMetric = _text_metric("Bias", "Share of the opinions in a text that are biased.")
BLEUMetric = _text_metric("BLEU", "BLEU of an answer against the true ones.")
CoherenceMetric = _text_metric("Coherence", "How the sentences of a text belong together, 1 to 5; not in valor_core.")
ContextPrecisionMetric = _text_metric("ContextPrecision", "How high the useful contexts rank.")
ContextRecallMetric = _text_metric("ContextRecall", "Share of the true statements that the contexts hold.")
ContextRelevanceMetric = _text_metric("ContextRelevance", "Share of the contexts that concern the question.")
FaithfulnessMetric = _text_metric("Faithfulness", "Share of the claims of an answer that the contexts support.")
HallucinationMetric = _text_metric("Hallucination", "Share of the contexts that an answer contradicts.")
ROUGEMetric = _text_metric("ROUGE", "ROUGE of an answer against the true ones.")
SummaryCoherenceMetric = _text_metric("SummaryCoherence", "Coherence of a summary, 1 to 5.")
ToxicityMetric = _text_metric("Toxicity", "Share of the opinions in a text that are toxic.")
