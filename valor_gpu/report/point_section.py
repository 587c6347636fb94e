"""Section of the report about score thresholds."""

from __future__ import annotations

import math

from valor_gpu.pages.markup import section
from valor_gpu.pages.texts import Html
from valor_gpu.result import Result


def common_threshold(found: Result) -> float:
    """Returns the threshold of all classes together; NaN where there is none."""
    return math.nan


def point_section(found: Result) -> Html:
    """The threshold of each class and what it gives."""
    return section("points", "Score thresholds")
