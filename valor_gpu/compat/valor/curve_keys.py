"""The keys of Valor's curves: thresholds are numbers in valor_core and texts in JSON, and one kind has two names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = {"missed_detections": "no_predictions", "no_predictions": "missed_detections"}
"""Valor's document has both names of ground truths that no prediction found; its releases have ``no_predictions``."""
_NOTHING: Any = object()


class _Aliased(dict[Any, Any]):
    """A dict that also answers to other names of its keys; it is equal to a plain one, and printed and exported so."""

    def _kept(self, key: Any) -> Any:
        """The key that is there under another name, or ``_NOTHING``."""
        raise NotImplementedError

    def __missing__(self, key: Any) -> Any:
        kept = self._kept(key)
        if kept is _NOTHING:
            raise KeyError(key)
        return self[kept]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self._kept(key) is not _NOTHING

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key under any of its names, else ``default``."""
        try:
            return self[key]
        except KeyError:
            return default

    def copy(self) -> _Aliased:
        """A shallow copy of the same kind."""
        return type(self)(self)


class CurvePoints(_Aliased):
    """Threshold to what is counted there: a number also answers as its text, and a text as its number.

    Example:
        >>> points = CurvePoints({0.05: {"tp": 3}})
        >>> points["0.05"], points[0.05], "0.05" in points, points.get("0.06"), points
        ({'tp': 3}, {'tp': 3}, True, None, {0.05: {'tp': 3}})
    """

    def _kept(self, key: Any) -> Any:
        if isinstance(key, str):
            return next((kept for kept in self if not isinstance(kept, str) and str(kept) == key), _NOTHING)
        if isinstance(key, (int, float)) and not isinstance(key, bool):
            text = str(float(key))
            return text if dict.__contains__(self, text) else _NOTHING
        return _NOTHING


class Observations(_Aliased):
    """Kind of observation to its count and examples: ``missed_detections`` answers as ``no_predictions``.

    Example:
        >>> Observations({"no_predictions": {"count": 2}})["missed_detections"]
        {'count': 2}
    """

    def _kept(self, key: Any) -> Any:
        other = _NAMES.get(key) if isinstance(key, str) else None
        return other if other is not None and dict.__contains__(self, other) else _NOTHING


def curve_with_names(value: Mapping[str, Any]) -> dict[str, Any]:
    """The value of a curve, ``{label: {threshold: point}}``, as a dict whose keys answer to all of their names.

    Args:
        value: of valor_core's form, or of JSON; it is left as it is.

    Example:
        >>> missed = {"total": 1, "observations": {"no_predictions": {"count": 1, "examples": []}}}
        >>> curve = curve_with_names({"cat": {0.05: {"fn": missed}}})
        >>> curve["cat"]["0.05"]["fn"]["observations"]["missed_detections"]["count"]
        1
    """
    return {label: _points(each) if isinstance(each, dict) else each for label, each in value.items()}


def _points(points: dict[Any, Any]) -> CurvePoints:
    return CurvePoints((threshold, _point(each)) for threshold, each in points.items())


def _point(point: Any) -> Any:
    """A point of a curve; that of a detailed one has observations."""
    if not isinstance(point, dict):
        return point
    return {outcome: _outcome(each) for outcome, each in point.items()}


def _outcome(found: Any) -> Any:
    if not isinstance(found, dict) or not isinstance(found.get("observations"), dict):
        return found
    return {**found, "observations": Observations(found["observations"])}
