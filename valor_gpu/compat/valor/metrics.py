"""The metric classes of valor_core: what a number belongs to, and its dict. ``value`` None: there is no number."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice, check_int, check_number, check_type
from valor_gpu.compat.valor.curve_keys import curve_with_names
from valor_gpu.compat.valor.labels import Label
from valor_gpu.errors import InputError

_ROUNDING = 1e-9  # by which a ratio may exceed 1


def _number_or_none(name: str, value: object) -> None:
    if value is not None:
        check_number(name, value)


_CHECKS: dict[str, Callable[[str, object], None]] = {
    "label": lambda name, value: check_type(name, value, Label),
    "label_key": lambda name, value: check_type(name, value, str),
    "value": _number_or_none,
    "iou": lambda name, value: check_number(name, value, 0, 1),
    "ious": lambda name, value: check_type(name, value, set),
}


@dataclass
class _MetricBase:
    """What all metrics share: the checks of their fields and their type."""

    __type__: ClassVar[str] = "BaseClass"

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            _CHECKS[one.name](f"{type(self).__name__}.{one.name}", getattr(self, one.name))

    def _ious(self) -> dict[str, Any]:
        """The IoU thresholds, by the name of the field that holds them."""
        found = {name: getattr(self, name) for name in ("iou", "ious") if hasattr(self, name)}
        return {name: sorted(value) if name == "ious" else value for name, value in found.items()}


@dataclass
class _LabelMetricBase(_MetricBase):
    """A number of one label."""

    label: Label
    value: float | None

    def to_dict(self) -> dict[str, Any]:
        """``label``, ``value``, ``type``, and ``parameters`` where the metric has any."""
        parameters = self._ious()
        return {
            "label": {"key": self.label.key, "value": self.label.value},
            **({"parameters": parameters} if parameters else {}),
            "value": self.value,
            "type": self.__type__,
        }


@dataclass
class _LabelKeyMetricBase(_MetricBase):
    """A number of one label key."""

    label_key: str
    value: float | None

    def to_dict(self) -> dict[str, Any]:
        """``parameters`` with the label key, ``value``, ``type``."""
        return {
            "parameters": {"label_key": self.label_key, **self._ious()},
            "value": self.value,
            "type": self.__type__,
        }


@dataclass
class ARMetric(_LabelMetricBase):
    """Average recall of a label."""

    ious: set[float]
    __type__: ClassVar[str] = "AR"


@dataclass
class APMetric(_LabelMetricBase):
    """Average precision of a label."""

    iou: float
    __type__: ClassVar[str] = "AP"


@dataclass
class APMetricAveragedOverIOUs(_LabelMetricBase):
    """Average precision of a label, mean over IoU thresholds."""

    ious: set[float]
    __type__: ClassVar[str] = "APAveragedOverIOUs"


@dataclass
class mARMetric(_LabelKeyMetricBase):
    """Mean over the labels of a key of average recall."""

    ious: set[float]
    __type__: ClassVar[str] = "mAR"


@dataclass
class mAPMetric(_LabelKeyMetricBase):
    """Mean over the labels of a key of average precision."""

    iou: float
    __type__: ClassVar[str] = "mAP"


@dataclass
class mAPMetricAveragedOverIOUs(_LabelKeyMetricBase):
    """Mean over labels and IoU thresholds of average precision."""

    ious: set[float]
    __type__: ClassVar[str] = "mAPAveragedOverIOUs"


@dataclass
class IOUMetric(_LabelMetricBase):
    """Pixels of a label on both sides, over those on any; not in valor_core, which has no segmentation."""

    __type__: ClassVar[str] = "IOU"


@dataclass
class mIOUMetric(_LabelKeyMetricBase):
    """Mean over the labels of a key of IOU; not in valor_core."""

    __type__: ClassVar[str] = "mIOU"


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
    """Fraction of ground truths whose label has the highest score."""

    __type__: ClassVar[str] = "Accuracy"


@dataclass
class _BasePrecisionRecallCurve:
    """Counts at the score thresholds 0.05, 0.1, ... 0.95 of every label of a key.

    Thresholds of ``value`` are numbers, and answer as texts too; ``missed_detections`` is ``no_predictions``.
    """

    label_key: str
    value: dict[str, dict[float, dict[str, Any]]]
    pr_curve_iou_threshold: float | None
    __type__: ClassVar[str] = "BaseClass"

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_type(f"{name}.label_key", self.label_key, str)
        check_type(f"{name}.value", self.value, dict)
        _number_or_none(f"{name}.pr_curve_iou_threshold", self.pr_curve_iou_threshold)
        self.value = curve_with_names(self.value)

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

    def __post_init__(self) -> None:
        check_type("ConfusionMatrixEntry.prediction", self.prediction, str)
        check_type("ConfusionMatrixEntry.groundtruth", self.groundtruth, str)
        check_int("ConfusionMatrixEntry.count", self.count)

    def to_dict(self) -> dict[str, Any]:
        """The three fields."""
        return {"prediction": self.prediction, "groundtruth": self.groundtruth, "count": self.count}


@dataclass
class _BaseConfusionMatrix:
    """The cells of a confusion matrix that are not zero."""

    label_key: str
    entries: list[ConfusionMatrixEntry]

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_type(f"{name}.label_key", self.label_key, str)
        check_type(f"{name}.entries", self.entries, list)
        for entry in self.entries:
            check_type(f"{name}.entries", entry, ConfusionMatrixEntry)

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
        super().__post_init__()
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
    """A number of one answer.

    Args:
        status: ``success``, or ``error`` where there is no number.
        value: the number; of ROUGE one for each of its types; None with the status ``error``.
        parameters: what it belongs to.
    """

    status: str
    value: int | float | dict[str, float] | None
    parameters: dict[str, Any]
    __type__: ClassVar[str] = "BaseClass"
    _range: ClassVar[tuple[float, float]] = (0, 1)

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_type(f"{name}.status", self.status, str)
        check_choice(f"{name}.status", self.status, ("success", "error"))
        check_type(f"{name}.parameters", self.parameters, dict)
        if self.status == "success":
            self._check_value(f"{name}.value")
        elif self.value is not None:
            raise InputError(f"{name}.value must be None with the status 'error' but got {self.value!r}")

    def _check_value(self, name: str) -> None:
        self._check_number(name, self.value)

    def _check_number(self, name: str, value: object) -> None:
        low, high = self._range
        if not (isinstance(value, float) and high < value <= high + _ROUNDING):
            check_number(name, value, low, high)

    def to_dict(self) -> dict[str, Any]:
        """``type``, ``status``, ``value``, ``parameters``."""
        return {"type": self.__type__, "status": self.status, "value": self.value, "parameters": self.parameters}


def _text_metric(name: str, about: str, base: type[_TextGenerationMetricBase] = _TextGenerationMetricBase) -> Any:
    """The class of one metric of generated text; they differ in the name and the range of the value."""
    fields = {"__type__": name, "__doc__": about, "__module__": __name__}
    return dataclass(type(f"{name}Metric", (base,), fields))


class _Rating(_TextGenerationMetricBase):
    """A number from 1 to 5."""

    _range = (1, 5)


class _Scores(_TextGenerationMetricBase):
    """Several numbers by name."""

    def _check_value(self, name: str) -> None:
        check_type(name, self.value, dict)
        assert isinstance(self.value, dict)
        for key, number in self.value.items():
            check_type(f"{name} key", key, str)
            self._check_number(f"{name}[{key!r}]", number)


AnswerCorrectnessMetric = _text_metric("AnswerCorrectness", "F1 of the statements of an answer against the true ones.")
AnswerRelevanceMetric = _text_metric(
    "AnswerRelevance", "Fraction of the statements of an answer that concern the question."
)
BiasMetric = _text_metric("Bias", "Fraction of the opinions in a text that are biased.")
BLEUMetric = _text_metric("BLEU", "BLEU of an answer against the true ones.")
CoherenceMetric = _text_metric(
    "Coherence", "How the sentences of a text belong together, 1 to 5; not in valor_core.", _Rating
)
ContextPrecisionMetric = _text_metric("ContextPrecision", "How high the useful contexts rank.")
ContextRecallMetric = _text_metric("ContextRecall", "Fraction of the true statements that the contexts hold.")
ContextRelevanceMetric = _text_metric("ContextRelevance", "Fraction of the contexts that concern the question.")
FaithfulnessMetric = _text_metric("Faithfulness", "Fraction of the claims of an answer that the contexts support.")
HallucinationMetric = _text_metric("Hallucination", "Fraction of the contexts that an answer contradicts.")
ROUGEMetric = _text_metric("ROUGE", "ROUGE of an answer against the true ones.", _Scores)
SummaryCoherenceMetric = _text_metric("SummaryCoherence", "Coherence of a summary, 1 to 5.", _Rating)
ToxicityMetric = _text_metric("Toxicity", "Fraction of the opinions in a text that are toxic.")
