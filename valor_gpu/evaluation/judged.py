"""Metrics over rows that a judge decides: quality, safety, preference, guards. No torch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.evaluation.evaluators.judged import judged_outcome
    from valor_gpu.judge.metrics.conversation import Conversation, read_conversation
    from valor_gpu.judge.metrics.fields import JudgedTexts
    from valor_gpu.judge.metrics.guard import GuardMetric
    from valor_gpu.judge.metrics.make import judged_metric
    from valor_gpu.judge.metrics.preference import PreferenceCounts, PreferenceMetric, preference_counts
    from valor_gpu.judge.metrics.ratings import RatingMetric
    from valor_gpu.judge.metrics.row_base import PromptMetric, RowMetric
    from valor_gpu.judge.metrics.scores import JudgedScore, NoScore, mean_of_scored
    from valor_gpu.judge.metrics.severity import (
        LEVELS,
        DefectRate,
        defect_rate,
        jailbreak_defect_rate,
        severity_level,
    )
    from valor_gpu.judge.metrics.table import QUALITY, RATINGS, SAFETY, Rating

__all__ = [
    "LEVELS",
    "QUALITY",
    "RATINGS",
    "SAFETY",
    "Conversation",
    "DefectRate",
    "GuardMetric",
    "JudgedScore",
    "JudgedTexts",
    "NoScore",
    "PreferenceCounts",
    "PreferenceMetric",
    "PromptMetric",
    "Rating",
    "RatingMetric",
    "RowMetric",
    "defect_rate",
    "jailbreak_defect_rate",
    "judged_metric",
    "judged_outcome",
    "mean_of_scored",
    "preference_counts",
    "read_conversation",
    "severity_level",
]

_HOMES = {
    "conversation": ("Conversation", "read_conversation"),
    "fields": ("JudgedTexts",),
    "guard": ("GuardMetric", "guarded_messages"),  # a metric keeps the function
    "make": ("judged_metric",),
    "preference": ("PreferenceCounts", "PreferenceMetric", "preference_counts"),
    "ratings": ("RatingMetric",),
    "row_base": ("PromptMetric", "RowMetric"),
    "scores": ("JudgedScore", "NoScore", "mean_of_scored"),
    "severity": ("LEVELS", "DefectRate", "defect_rate", "jailbreak_defect_rate", "severity_level"),
    "table": ("QUALITY", "RATINGS", "SAFETY", "Rating", "ValorRating"),
    "valor": ("ValorMetric",),
}
__getattr__, __dir__ = lazy_names(
    __name__,
    {name: f"valor_gpu.judge.metrics.{module}" for module, names in _HOMES.items() for name in names}
    | {"judged_outcome": "valor_gpu.evaluation.evaluators.judged"},
)

# Pickles of 0.2.0 name these modules.
for _old in (*_HOMES, "metric"):
    sys.modules.setdefault(f"{__name__}.{_old}", sys.modules[__name__])
