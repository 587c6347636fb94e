"""Metrics over rows that a judge decides: quality, safety, preference, guards. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.evaluation.judged.conversation import Conversation, read_conversation
    from valor_gpu.evaluation.judged.fields import JudgedTexts
    from valor_gpu.evaluation.judged.guard import GuardMetric
    from valor_gpu.evaluation.judged.make import judged_metric
    from valor_gpu.evaluation.judged.metric import PromptMetric, RowMetric
    from valor_gpu.evaluation.judged.preference import PreferenceCounts, PreferenceMetric, preference_counts
    from valor_gpu.evaluation.judged.ratings import RatingMetric
    from valor_gpu.evaluation.judged.scores import JudgedScore, NoScore, judged_outcome, mean_of_scored
    from valor_gpu.evaluation.judged.severity import (
        LEVELS,
        DefectRate,
        defect_rate,
        jailbreak_defect_rate,
        severity_level,
    )
    from valor_gpu.evaluation.judged.table import QUALITY, RATINGS, SAFETY, Rating

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
    "guard": ("GuardMetric",),
    "make": ("judged_metric",),
    "metric": ("PromptMetric", "RowMetric"),
    "preference": ("PreferenceCounts", "PreferenceMetric", "preference_counts"),
    "ratings": ("RatingMetric",),
    "scores": ("JudgedScore", "NoScore", "judged_outcome", "mean_of_scored"),
    "severity": ("LEVELS", "DefectRate", "defect_rate", "jailbreak_defect_rate", "severity_level"),
    "table": ("QUALITY", "RATINGS", "SAFETY", "Rating"),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
