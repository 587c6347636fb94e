"""PairedTest: whether a number of two models differs, by a test made for that number."""

from __future__ import annotations

import math

from valor_gpu._frozen import frozen


@frozen
class PairedTest:
    """A number of two models on the same rows, with its test.

    Attributes:
        first: of the first model; NaN: it does not exist.
        second: of the second.
        difference: second less first.
        low: lower end of the interval of the difference; NaN: there is none.
        high: upper end.
        p_value: how often so large a difference, in either direction, would come about under ``null``; NaN: there is no
            test.
        test: name of the test.
        null: hypothesis that it tests.
        n: rows, or clusters of rows.
        confidence: of the interval.
        standard_error: of the difference; NaN where the test takes none.
        reason: why numbers are NaN; empty where they are not.
    """

    first: float
    second: float
    difference: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    test: str = ""
    null: str = ""
    n: int = 0
    confidence: float = 0.95
    standard_error: float = math.nan
    reason: str = ""
