"""Why an area under a curve does not exist. Imports nothing."""

from __future__ import annotations

ROC_NEEDS = "positives or no negatives"
AP_NEEDS = "positives"
SEPARATED = "perfect separation: data of this size do not show how the number varies"
"""Why an area of 1, or of 0, has no interval."""


def no_ranking(needs: str, single: bool) -> str:
    """The reason of one number, or of those of classes, that lack what they need."""
    return f"there are no {needs}" if single else f"classes with no {needs} have none"
