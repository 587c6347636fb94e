"""Typed values of metadata in filters: moments, times, durations, flags, numbers, texts."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.errors import InputError
from valor_gpu.valor.columns import Columns, Rows
from valor_gpu.valor.filters import Expression, Filter, datum_metadata

x = datum_metadata["x"]

_EVERY = np.arange(3, dtype=np.int32)
_ROWS = Rows(_EVERY, np.zeros(3, np.int32), _EVERY, np.full(3, np.nan), [None] * 3)


def _mask(expression: Expression, *values: Any) -> list[bool]:
    """Which of three datums pass whose metadata ``x`` is one of these values."""
    columns = Columns(list("abc"), [{"x": value} for value in values], [("k", "v")], _ROWS, _ROWS, 6)
    return Filter(datums=expression).masks(columns)[0].tolist()


def _typed(kind: str, *values: Any) -> list[dict[str, Any]]:
    return [{"type": kind, "value": value} for value in values]


_MOMENTS = _typed("datetime", "2024-05-01T12:00:00", "2024-05-01T12:00:00+02:00", "2024-05-03")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (x >= datetime(2024, 5, 1, 12), [1, 0, 1]),  # without a zone: UTC
        (x == datetime(2024, 5, 1, 10, tzinfo=timezone.utc), [0, 1, 0]),
        (x > date(2024, 5, 1), [1, 1, 1]),  # a date is its midnight
        (x == date(2024, 5, 3), [0, 0, 1]),
        (x < "2024-05-01T11:00:00", [0, 1, 0]),  # a text is read as the type of the other side
        (x.isin([date(2024, 5, 3), datetime(2024, 5, 1, 12)]), [1, 0, 1]),
        (x != datetime(2024, 5, 1, 12), [0, 1, 1]),
        (x.isnull(), [0, 0, 0]),
    ],
)
def test_moments(expression: Expression, expected: list[int]) -> None:
    read = [datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))), date(2024, 5, 3)]
    assert _mask(expression, *_MOMENTS) == list(map(bool, expected))
    assert _mask(expression, *read) == list(map(bool, expected))


def test_times_and_durations() -> None:
    times = _typed("time", "08:00", "12:30:01", "23:59:59.5")
    assert _mask(x > time(12, 30, 1), *times) == [False, False, True]
    assert _mask(x <= "12:30:01", *times) == [True, True, False]
    assert _mask(x >= timedelta(minutes=1), *_typed("duration", 59.5, 60, 61.0)) == [False, True, True]
    assert _mask(x.isin([time(8)]), *times) == [True, False, False]


def test_dicts_hold_flags_numbers_and_texts() -> None:
    assert _mask(x == True, *_typed("boolean", True, False, True)) == [True, False, True]  # noqa: E712
    assert _mask(x >= 2, {"type": "integer", "value": 2}, {"type": "float", "value": 1.5}, 3) == [True, False, True]
    assert _mask(x.contains("ai"), *_typed("string", "rain", "sun", "hail")) == [True, False, True]
    assert _mask(x == np.float64(2), 2, np.int64(2), None) == [True, True, False]
    assert _mask(x.contains("b"), ["a", "b"], ["c"], None) == [True, False, False]


@pytest.mark.parametrize(
    ("expression", "value", "message"),
    [
        (x > 3, {"type": "date", "value": "2024-05-01"}, r"datum\.metadata x must compare with 3 by gt but holds dat"),
        (x == date(2024, 5, 1), 4, r"datum\.metadata x must compare with datetime.* by eq but holds 4"),
        (x > time(8), timedelta(1), r"datum\.metadata x must compare with datetime\.time\(8, 0\) by gt but holds"),
        (x > date(2024, 5, 1), "tomorrow", r"datum\.metadata x must hold a datetime but holds 'tomorrow'"),
        (x > time(8), time(8, tzinfo=timezone.utc), "must hold a time of day without time zone but holds"),
        (x == 1, {"type": "dat", "value": 1}, r"type of datum\.metadata x must be one of .*; did you mean 'date'"),
        (x == 1, {"type": "integer", "value": "1"}, r"datum\.metadata x must hold a integer but holds '1'"),
        (x == 1, {"type": "point", "coordinates": [0, 0]}, r"x must hold a geojson but holds .*GeoJSON.type must be"),
        (x > 1, {"speed": 3}, r"datum\.metadata x must compare with 1 by gt but holds \{'speed': 3\}"),
    ],
)
def test_values_that_do_not_compare(expression: Expression, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _mask(expression, value, value, value)


def test_frames_keep_moments_and_durations() -> None:
    """Numpy makes numbers of the items of datetime64[ns]."""
    frame = {
        "datum_uid": ["a", "b"],
        "label_key": ["k", "k"],
        "label_value": ["x", "x"],
        "score": [1.0, 1.0],
        "datum_metadata.taken": np.array(["2024-05-01T12:00", "NaT"], "datetime64[ns]"),
        "datum_metadata.length": np.array([1500, 2500], "timedelta64[ms]").astype("timedelta64[ns]"),
    }
    columns = read_columns(frame, frame)
    when, length = datum_metadata["taken"], datum_metadata["length"]
    assert Filter(datums=when == datetime(2024, 5, 1, 12)).masks(columns)[0].tolist() == [True, False]
    assert Filter(datums=when.isnull()).masks(columns)[0].tolist() == [False, True]
    assert Filter(datums=length > timedelta(seconds=2)).masks(columns)[0].tolist() == [False, True]
