"""The public names of classification: one row per metric, and the arguments of its classes and functions by task.

The row of ``Precision`` gives that class; the classes of one task that ``task_classes`` makes of it
(``BinaryPrecision``, ``MulticlassPrecision``, ``MultilabelPrecision``); and the functions that
``functional.task_functions`` makes (``precision``, ``binary_precision`` and so on). Arguments are those of torchmetrics
1.9, in its order. This module loads no torch.
"""

from __future__ import annotations

import functools
from typing import Any

TASKS = ("binary", "multiclass", "multilabel")
ANY = "any"
"""Stands for the class and the function that take ``task``."""
REQUIRED: Any = ...
"""Default of an argument that must be given."""

_SIZES = "num_classes=None num_labels=None"
_LAST = "ignore_index=None validate_args=True"
_EACH = f"multidim_average='global' {_LAST}"
_ZERO = "zero_division=0"
_COUNTED = f"{_SIZES} average='micro' multidim_average='global' top_k=1 {_LAST}"
_RANKED = f"thresholds=None {_LAST}"
_RANGE = "fpr_range=(0.001,0.1)"
_HINGE = "squared=False multiclass_mode='crammer-singer'"

_Arguments = dict[str, str | tuple[str, str]]
"""Task to ``name`` or ``name=default`` of each argument; two texts where class and function differ."""

_COUNTS: _Arguments = {
    ANY: f"task threshold=0.5 {_COUNTED}",
    "binary": f"threshold=0.5 {_EACH}",
    "multiclass": (f"num_classes=None top_k=1 average='macro' {_EACH}", f"num_classes average='macro' top_k=1 {_EACH}"),
    "multilabel": f"num_labels threshold=0.5 average='macro' {_EACH}",
}
_CURVES: _Arguments = {
    ANY: (f"task thresholds=None {_SIZES} {_LAST}", f"task thresholds=None {_SIZES} average=None {_LAST}"),
    "binary": (f"{_RANKED} normalization='sigmoid'", _RANKED),
    "multiclass": f"num_classes thresholds=None average=None {_LAST}",
    "multilabel": f"num_labels {_RANKED}",
}
_AREAS: _Arguments = {
    ANY: f"task thresholds=None {_SIZES} average='macro' {_LAST}",
    "binary": (f"{_RANKED} normalization='sigmoid'", _RANKED),
    "multiclass": f"num_classes average='macro' {_RANKED}",
    "multilabel": f"num_labels average='macro' {_RANKED}",
}


def _f_score(first: str, first_of_any: str) -> _Arguments:
    return {
        ANY: f"task {first_of_any}threshold=0.5 {_COUNTED} {_ZERO}",
        "binary": f"{first}threshold=0.5 {_EACH} {_ZERO}",
        "multiclass": (
            f"{first}num_classes top_k=1 average='macro' {_EACH} {_ZERO}",
            f"{first}num_classes average='macro' top_k=1 {_EACH} {_ZERO}",
        ),
        "multilabel": f"{first}num_labels threshold=0.5 average='macro' {_EACH} {_ZERO}",
    }


def _point(given: str) -> _Arguments:
    return {
        ANY: f"task {given} thresholds=None {_SIZES} {_LAST}",
        "binary": f"{given} {_RANKED}",
        "multiclass": f"num_classes {given} {_RANKED}",
        "multilabel": f"num_labels {given} {_RANKED}",
    }


_FAMILIES: dict[str, _Arguments] = {
    "counts": _COUNTS,
    "accuracy": {
        **_COUNTS,
        "multiclass": (
            f"num_classes=None top_k=1 average='macro' {_EACH}",
            f"num_classes=None average='macro' top_k=1 {_EACH}",
        ),
    },
    "precision": {
        ANY: (f"task threshold=0.5 {_COUNTED}", f"task threshold=0.5 {_COUNTED} {_ZERO}"),
        "binary": (f"threshold=0.5 {_EACH}", f"threshold=0.5 {_EACH} {_ZERO}"),
        "multiclass": (
            f"num_classes=None top_k=1 average='macro' {_EACH}",
            f"num_classes average='macro' top_k=1 {_EACH} {_ZERO}",
        ),
        "multilabel": (
            f"num_labels threshold=0.5 average='macro' {_EACH}",
            f"num_labels threshold=0.5 average='macro' {_EACH} {_ZERO}",
        ),
    },
    "f1": _f_score("", ""),
    "fbeta": _f_score("beta ", "beta=1.0 "),
    "jaccard": {
        ANY: (
            f"task threshold=0.5 {_SIZES} average='macro' {_LAST}",
            f"task threshold=0.5 {_SIZES} average='macro' {_LAST} {_ZERO}.0",
        ),
        "binary": (f"threshold=0.5 {_LAST} {_ZERO}", f"threshold=0.5 {_LAST} {_ZERO}.0"),
        "multiclass": (
            f"num_classes average='macro' {_LAST} {_ZERO}",
            f"num_classes average='macro' {_LAST} {_ZERO}.0",
        ),
        "multilabel": (
            f"num_labels threshold=0.5 average='macro' {_LAST} {_ZERO}",
            f"num_labels threshold=0.5 average='macro' {_LAST} {_ZERO}.0",
        ),
    },
    "confusion": {
        ANY: f"task threshold=0.5 {_SIZES} normalize=None {_LAST}",
        "binary": (
            "threshold=0.5 ignore_index=None normalize=None validate_args=True",
            f"threshold=0.5 normalize=None {_LAST}",
        ),
        "multiclass": (
            "num_classes ignore_index=None normalize=None validate_args=True",
            f"num_classes normalize=None {_LAST}",
        ),
        "multilabel": (
            "num_labels threshold=0.5 ignore_index=None normalize=None validate_args=True",
            f"num_labels threshold=0.5 normalize=None {_LAST}",
        ),
    },
    "kappa": {
        ANY: f"task threshold=0.5 num_classes=None weights=None {_LAST}",
        "binary": (
            "threshold=0.5 ignore_index=None weights=None validate_args=True",
            f"threshold=0.5 weights=None {_LAST}",
        ),
        "multiclass": (
            "num_classes ignore_index=None weights=None validate_args=True",
            f"num_classes weights=None {_LAST}",
        ),
    },
    "matthews": {
        ANY: f"task threshold=0.5 {_SIZES} {_LAST}",
        "binary": f"threshold=0.5 {_LAST}",
        "multiclass": f"num_classes {_LAST}",
        "multilabel": f"num_labels threshold=0.5 {_LAST}",
    },
    "exact match": {
        ANY: (f"task threshold=0.5 {_SIZES} {_EACH}", f"task {_SIZES} threshold=0.5 {_EACH}"),
        "multiclass": f"num_classes {_EACH}",
        "multilabel": f"num_labels threshold=0.5 {_EACH}",
    },
    "calibration": {
        ANY: f"task n_bins=15 norm='l1' num_classes=None {_LAST}",
        "binary": f"n_bins=15 norm='l1' {_LAST}",
        "multiclass": f"num_classes n_bins=15 norm='l1' {_LAST}",
    },
    "curve": _CURVES,
    "equal error": {**_CURVES, ANY: f"task thresholds=None {_SIZES} average=None {_LAST}"},
    "average precision": _AREAS,
    "area": {
        **_AREAS,
        ANY: f"task thresholds=None {_SIZES} average='macro' max_fpr=None {_LAST}",
        "binary": f"max_fpr=None {_RANKED}",
    },
    "log area": {
        ANY: (
            f"task thresholds=None {_RANGE} {_SIZES} {_LAST}",
            f"task thresholds=None {_SIZES} {_RANGE} average=None {_LAST}",
        ),
        "binary": (f"{_RANGE} thresholds=None ignore_index=None validate_args=False", f"{_RANGE} {_RANKED}"),
        "multiclass": (
            f"num_classes {_RANGE} average=None {_RANKED}",
            f"num_classes {_RANGE} average='macro' {_RANKED}",
        ),
        "multilabel": (
            f"num_labels {_RANGE} average=None {_RANKED}",
            f"num_labels {_RANGE} average='macro' {_RANKED}",
        ),
    },
    "hinge": {
        ANY: f"task num_classes=None {_HINGE} {_LAST}",
        "binary": (f"squared=False {_LAST}", "squared=False ignore_index=None validate_args=False"),
        "multiclass": (
            f"num_classes {_HINGE} {_LAST}",
            f"num_classes {_HINGE} ignore_index=None validate_args=False",
        ),
    },
    "point by recall": _point("min_recall"),
    "point by precision": _point("min_precision"),
    "point by sensitivity": _point("min_sensitivity"),
    "point by specificity": _point("min_specificity"),
    "ranking of labels": {"multilabel": f"num_labels {_LAST}"},
}
SEVERAL = frozenset(name for name in _FAMILIES if name.startswith(("curve", "point")))
"""Families whose functions return several tensors."""
OWN: dict[str, dict[str, Any]] = {"calibration": {"separate_ones": False}}
"""Family to what its functions take by name beyond torchmetrics' arguments; classes have it among their options."""


class Row:
    """One metric.

    Args:
        name: of the class; it takes ``task`` where the family has that.
        module: of :mod:`valor_gpu.classification`, which defines the class.
        function: of the class with any task; empty where torchmetrics has neither class nor function.
        family: of the arguments.
    """

    def __init__(self, name: str, module: str, function: str = "", family: str = "") -> None:
        self.name, self.module, self.function, self.family = name, module, function, family


TABLE = (
    Row("AURC", "selective"),
    Row("AUROC", "ranking_metrics", "auroc", "area"),
    Row("Accuracy", "accuracy", "accuracy", "accuracy"),
    Row("AveragePrecision", "ranking_metrics", "average_precision", "average precision"),
    Row("BalancedAccuracy", "accuracy"),
    Row("BinaryFairness", "group_fairness"),
    Row("BinaryGroupStatRates", "group_fairness"),
    Row("BrierScore", "brier"),
    Row("BrierSkillScore", "brier"),
    Row("CalibrationError", "calibration", "calibration_error", "calibration"),
    Row("CohenKappa", "confusion", "cohen_kappa", "kappa"),
    Row("ConformalCoverage", "conformal"),
    Row("ConfusionMatrix", "confusion", "confusion_matrix", "confusion"),
    Row("CostCurve", "cost_curve"),
    Row("CoverageAtRisk", "selective"),
    Row("DetailedPrecisionRecallCurve", "threshold_counts"),
    Row("EAURC", "selective"),
    Row("EER", "equal_error", "eer", "equal error"),
    Row("ExactMatch", "exact_match", "exact_match", "exact match"),
    Row("ExpectedCost", "chosen_points"),
    Row("F1Score", "ratio_metrics", "f1_score", "f1"),
    Row("FBetaScore", "ratio_metrics", "fbeta_score", "fbeta"),
    Row("HammingDistance", "accuracy", "hamming_distance", "counts"),
    Row("HingeLoss", "hinge_loss", "hinge_loss", "hinge"),
    Row("JaccardIndex", "ratio_metrics", "jaccard_index", "jaccard"),
    Row("LogAUC", "log_auc", "logauc", "log area"),
    Row("MatthewsCorrCoef", "confusion", "matthews_corrcoef", "matthews"),
    Row("MultilabelCoverageError", "label_ranking", "coverage_error", "ranking of labels"),
    Row("MultilabelRankingAveragePrecision", "label_ranking", "ranking_average_precision", "ranking of labels"),
    Row("MultilabelRankingLoss", "label_ranking", "ranking_loss", "ranking of labels"),
    Row("NegativeLogLikelihood", "log_loss"),
    Row("NegativePredictiveValue", "ratio_metrics", "negative_predictive_value", "precision"),
    Row("OperatingPoint", "chosen_points"),
    Row("Precision", "ratio_metrics", "precision", "precision"),
    Row("PrecisionAtFixedRecall", "operating_points", "precision_at_fixed_recall", "point by recall"),
    Row("PrecisionRecallCurve", "curves", "precision_recall_curve", "curve"),
    Row("ROC", "curves", "roc", "curve"),
    Row("ROCAUC", "ranking_metrics"),
    Row("Recall", "ratio_metrics", "recall", "precision"),
    Row("RecallAtFixedPrecision", "operating_points", "recall_at_fixed_precision", "point by precision"),
    Row("RiskAtCoverage", "selective"),
    Row("SensitivityAtSpecificity", "operating_points", "sensitivity_at_specificity", "point by specificity"),
    Row("Specificity", "ratio_metrics", "specificity", "counts"),
    Row("SpecificityAtSensitivity", "operating_points", "specificity_at_sensitivity", "point by sensitivity"),
    Row("StatScores", "stat_scores", "stat_scores", "counts"),
    Row("ThresholdCounts", "threshold_counts"),
    Row("mROCAUC", "ranking_metrics"),
)


class Named:
    """A class with arguments of the table, and its function.

    Args:
        row: of the table.
        task: of both; ``any`` where they take ``task``.

    Attributes:
        name: of the class.
        function: of the function.
        made: whether the class is made of that of any task.
    """

    def __init__(self, row: Row, task: str) -> None:
        self.row, self.task = row, task
        self.made = task != ANY and not row.name.startswith(task.capitalize())
        self.name = f"{task.capitalize()}{row.name}" if self.made else row.name
        self.function = row.function if task == ANY else f"{task}_{row.function}"

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the class to their defaults, in order."""
        return _arguments(self.row.family, self.task)[0]

    @property
    def function_arguments(self) -> dict[str, Any]:
        """Arguments of the function after ``preds`` and ``target`` to their defaults, in order."""
        return _arguments(self.row.family, self.task)[1]


@functools.cache
def _arguments(family: str, task: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arguments of class and function; Python reads the defaults, which are literals."""
    texts = _FAMILIES[family][task]
    of_class, of_function = (texts, texts) if isinstance(texts, str) else texts
    return _parsed(of_class), _parsed(of_function)


def _parsed(text: str) -> dict[str, Any]:
    # By eval, since ast.literal_eval raises SystemError now and then where several threads call it.
    pairs = (part.partition("=") for part in text.split())
    return {name: eval(value, {}) if equals else REQUIRED for name, equals, value in pairs}


_ALL = [Named(row, task) for row in TABLE if row.family for task in _FAMILIES[row.family]]
NAMED = {each.name: each for each in _ALL}
"""Class to its names and arguments, of those that torchmetrics has by task."""
FUNCTIONS = {each.function: each for each in _ALL}
MADE = {each.name: each for each in _ALL if each.made}
"""Classes of one task that add only arguments."""
HOMES = {row.name: f"valor_gpu.classification.{row.module}" for row in TABLE} | {
    name: f"valor_gpu.classification.{each.task}" for name, each in MADE.items()
}
"""Public class to the module that it is imported from."""
