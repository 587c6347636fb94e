"""Intervals of results as text, JSON and numbers for loggers. Imports neither torch nor NumPy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from valor_gpu.exports.leaves import json_value
from valor_gpu.exports.texts import is_scalar, printable, value_text
from valor_gpu.stats.intervals import Interval, Intervals

_WIDEST = 3
"""Intervals of a mapping, such as that of classes, that the text shows."""


def exists(interval: Interval | None) -> bool:
    """Whether an interval has both ends."""
    return interval is not None and not (math.isnan(interval.low) or math.isnan(interval.high))


# ------------------------------------------------------------------------------------------------------------- as text


def bounds_text(interval: Interval) -> str:
    """The ends of an interval, in parentheses.

    Example:
        >>> bounds_text(Interval(0.45777, 0.4728))
        '(0.4578 to 0.4728)'
    """
    return f"({value_text(interval.low)} to {value_text(interval.high)})"


def interval_note(name: str, value: Any, intervals: Intervals) -> str:
    """What the text says of the interval of a number, or of those of a mapping or an array; empty without any."""
    if is_scalar(value):
        interval = intervals.get(name)
        if interval is None or not math.isfinite(value):
            return ""  # the reason of a number that does not exist is that of its interval
        return bounds_text(interval) if exists(interval) else f"no interval: {interval.reason or 'no reason known'}"
    nested = {key.removeprefix(f"{name}/"): each for key, each in intervals.items() if key.startswith(f"{name}/")}
    have = {key: each for key, each in nested.items() if exists(each)}
    why = _shared_reason(each for key, each in nested.items() if key not in have)
    if not have:
        return f"no intervals{why}" if nested else ""
    widest = sorted(have, key=lambda key: have[key].low - have[key].high)[:_WIDEST]
    shown = ", ".join(f"{printable(key)} {bounds_text(have[key])}" for key in widest)
    without = len(nested) - len(have)
    return f"widest {shown}" + (f"; {without} without{why}" if without else "")


def _shared_reason(intervals: Iterable[Interval]) -> str:
    """The reason that most of the intervals have, without its numbers, after a colon; empty if none has one."""
    reasons = Counter(each.reason.partition(":")[0] for each in intervals if each.reason)
    if not reasons:
        return ""
    most = reasons.most_common(1)[0][0]
    return f": {most}" if len(reasons) == 1 else f": mostly {most}"


def interval_lines(intervals: Intervals) -> Iterator[str]:
    """Yields the last lines of a result's text: the bias of its first number, and the choices; none without any."""
    if not intervals.choices:
        return
    first = next((name for name, each in intervals.items() if exists(each)), None)
    if first is not None and intervals.choices.get("replicates"):
        yield _bias_text(first, intervals[first])
    yield choices_text(intervals.choices, first)


def _bias_text(name: str, interval: Interval) -> str:
    """The bootstrap's estimate of the bias, in the digits of the number with a sign."""
    text = value_text(interval.bias)
    notes = [f"bias of {name} by the bootstrap {text if text.startswith(('-', 'nan')) else f'+{text}'}"]
    if interval.lost_classes:
        notes.append(f"{interval.lost_classes:,} replicates lack a class, which their mean leaves out")
    if interval.lost:
        notes.append(f"{interval.lost:,} replicates without it are left out")
    return "; ".join(notes)


def choices_text(choices: Mapping[str, Any], name: str | None) -> str:
    """What made intervals, on one line.

    Args:
        choices: of :class:`~valor_gpu.stats.Intervals`.
        name: the number that the line names; None: no number has an interval.

    Example:
        >>> choices = {"replicates": 1000, "confidence": 0.95, "seed": 0, "target": "expected", "method": "normal"}
        >>> print(choices_text({**choices, "unit": "images", "units": 5000}, "map"))
        95% intervals of E[map] at 5,000 images: 1,000 replicates of images, method normal, seed 0
        >>> print(choices_text({"confidence": 0.95, "method": "delong", "unit": "rows", "units": 500}, "AUROC"))
        95% intervals of E[AUROC] at 500 rows: method delong
    """
    unit, units = choices.get("unit") or "rows", choices.get("units") or 0
    what, at = f"E[{name}]", "at"
    if choices.get("target") == "population":
        what, at = f"the population's {name}", "from"
    if name is None:
        return f"no number has an interval at {units:,} {unit.removesuffix('s') if units == 1 else unit}"
    drawn = f"{choices['clusters']:,} clusters of {unit}" if choices.get("clusters") else unit
    whole = f"{100 * (choices.get('confidence') or math.nan):g}% intervals of {what} {at} {units:,} {unit}:"
    if "replicates" not in choices:
        return f"{whole} method {_method_text(choices)}" + (f", {drawn}" if choices.get("clusters") else "")
    return (
        f"{whole} {choices.get('replicates') or 0:,} replicates of {drawn}, method {_method_text(choices)},"
        f" seed {choices.get('seed')}"
    )


def _method_text(choices: Mapping[str, Any]) -> str:
    """The method, and the proportions that have the interval of Wilson instead."""
    wilson = choices.get("wilson") or ()
    named = ", ".join(wilson) if len(wilson) <= _WIDEST else f"{len(wilson)} proportions"
    return f"{choices.get('method', 'unknown')}{f', Wilson of {named}' if wilson else ''}"


# ---------------------------------------------------------------------------------------------------- for other readers


def interval_scalars(intervals: Intervals, names: Iterable[str]) -> dict[str, float]:
    """The ends of the intervals of numbers, ``map_low`` and ``map_high`` of ``map``; none where it has no interval."""
    found = {name: intervals[name] for name in names if exists(intervals.get(name))}
    return {f"{name}_{end}": getattr(each, end) for name, each in found.items() for end in ("low", "high")}


def interval_document(intervals: Intervals) -> dict[str, Any]:
    """``intervals`` and ``interval_choices`` in strict JSON; empty unless intervals were asked for."""
    if not intervals.choices and not intervals:
        return {}
    found = {name: each.to_dict() for name, each in intervals.items()}
    return {"intervals": found, "interval_choices": json_value(intervals.choices)}


def infinite_ends(intervals: Intervals) -> dict[str, dict[str, int]]:
    """The signs of what is infinite in intervals, by name and attribute, since JSON has None for it."""
    found: dict[str, dict[str, int]] = {}
    for name, each in intervals.items():
        for attribute in ("low", "high", "standard_error", "bias"):
            if math.isinf(value := getattr(each, attribute)):
                found.setdefault(name, {})[attribute] = 1 if value > 0 else -1
    return found


def read_intervals(document: Mapping[str, Any]) -> Intervals | None:
    """The intervals of a document, with the same bits; None where it has none.

    Raises:
        ValueError: they are damaged.
    """
    if "intervals" not in document and "interval_choices" not in document:
        return None
    parts = [document.get(name, {}) for name in ("intervals", "interval_choices", "infinite_ends")]
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError("intervals that are no object")
    found, choices, infinite = parts
    return Intervals({name: _interval(each, infinite.get(name, {})) for name, each in found.items()}, choices)


def _interval(written: Any, infinite: Any) -> Interval:
    """One interval; an attribute that an older version did not write has its default."""
    if not isinstance(written, dict) or not isinstance(infinite, dict):
        raise ValueError("an interval that is no object")
    read: dict[str, Any] = {}
    for field in fields(Interval):  # type: ignore[arg-type]
        if field.name not in written:
            continue
        kind: Callable[..., Any] = type(field.default)
        value = written[field.name]
        if kind is float:
            value = float(infinite.get(field.name, math.nan)) * math.inf if value is None else value
            value = float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if type(value) is not kind:
            raise ValueError(f"an interval whose {field.name} is {value!r}")
        read[field.name] = value
    return Interval(**read)
