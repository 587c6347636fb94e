"""Every public metric gives intervals, or says what to use instead."""

from __future__ import annotations

import math
import re

import pytest

from tests.contract import METRICS, Case, updated
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import single_numbers

_ADVICE = re.compile(r"make the metric with \S+=|take \w+|ask \w+|thresholds=None|wrap it in|resample the|as rows of")
"""What a message must tell: an argument, another metric, or a way to the intervals."""
_BESIDE = re.compile(r"_stderr$|^(lowest|highest|total|threshold|specificity|sensitivity|precision|recall)$")
"""Numbers that say how a number came about: standard errors, bounds, and what belongs to a threshold."""
_COUNTS = re.compile(r"^(tp|fp|fn|positives|negatives|support|group_counts/)")

CASES = [case for case in METRICS if not case.name.startswith("PassRate")]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_number_has_an_interval_or_a_reason(case: Case) -> None:
    metric = updated(case.make(distributed_available_fn=lambda: False), [case.batch(seed) for seed in range(6)])
    try:
        result = metric.result(intervals=5)  # type: ignore[call-arg]
    except InputError as error:
        assert _ADVICE.search(str(error)), error
        return
    for name, value in single_numbers(result.values).items():
        if math.isnan(value) or _COUNTS.match(name) or _BESIDE.search(name):
            continue
        interval = result.intervals[name]
        assert interval.reason or interval.low <= interval.high, name
