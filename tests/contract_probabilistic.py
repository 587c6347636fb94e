"""Rows of the contract table for the metrics of probabilities, of selective prediction and of costs."""

from __future__ import annotations

from typing import Any

_MULTICLASS = dict(num_classes=4)
PROBABILISTIC_CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "BrierScore": (
        dict(_MULTICLASS, n_bins=5, keep_rows=True),
        dict(_MULTICLASS, n_bins=5, ignore_index=1, keep_rows=True),
    ),
    "BrierScore-multilabel": (dict(num_labels=4, n_bins=5), dict(num_labels=4, n_bins=5, ignore_index=1)),
    "BrierSkillScore": (dict(n_bins=5), dict(n_bins=5, ignore_index=1)),
    "BrierSkillScore-multilabel": (
        dict(num_labels=4, n_bins=5, average="micro"),
        dict(num_labels=4, n_bins=5, average="micro", ignore_index=1),
    ),
    "NegativeLogLikelihood": (dict(_MULTICLASS, keep_rows=True), dict(_MULTICLASS, ignore_index=1, keep_rows=True)),
    "NegativeLogLikelihood-multilabel": (
        dict(num_labels=4, keep_rows=True),
        dict(num_labels=4, ignore_index=1, keep_rows=True),
    ),
    **dict.fromkeys(("AURC", "EAURC"), (_MULTICLASS, dict(_MULTICLASS, ignore_index=1))),
    "RiskAtCoverage": (dict(_MULTICLASS, coverage=0.5), dict(_MULTICLASS, coverage=0.5, ignore_index=1)),
    "CoverageAtRisk": (dict(max_risk=0.2), dict(max_risk=0.2, ignore_index=1)),
    "ConformalCoverage": (dict(_MULTICLASS, threshold=0.2), dict(_MULTICLASS, threshold=0.3)),
    "ConformalCoverage-kept": (
        dict(_MULTICLASS, threshold=0.2, keep_rows=True),
        dict(_MULTICLASS, threshold=0.3, keep_rows=True),
    ),
    "OperatingPoint": (dict(_MULTICLASS, objective="youden"), dict(_MULTICLASS, objective="youden", ignore_index=1)),
    "ExpectedCost": (dict(num_labels=4, cost_fn=2.0), dict(num_labels=4, cost_fn=2.0, ignore_index=1)),
    "CostCurve": (dict(_MULTICLASS, points=9), dict(_MULTICLASS, points=9, ignore_index=1)),
}
"""Arguments of each metric in two configurations; behind a hyphen of a name, which of several rows of a class it is."""
