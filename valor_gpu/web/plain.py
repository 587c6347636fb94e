"""Configurations and summaries as pages read them: any JSON can be in a store, and one odd run must not cost a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_text, value))


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _of_mapping(test: Test) -> Test:
    return lambda value: _mapping(value) and all(each is None or test(each) for each in value.values())


def _ends(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_number, value))


def _interval_choices(value: Any) -> bool:
    tests: Mapping[str, Test] = {
        **dict.fromkeys(("replicates", "units", "clusters"), _count),
        **dict.fromkeys(("target", "method", "unit"), _text),
        "confidence": _number,
        "wilson": _texts,
    }
    return _mapping(value) and not _unfit(value, tests)


_EVALUATOR: Mapping[str, Test] = {
    "name": _text,
    "kind": _text,
    "summary_name": _text,
    "source": _text,
    "low": _number,
    "high": _number,
    "higher_is_better": _flag,
    "pooled": _flag,
    "parameters": _mapping,
}
_DATA: Mapping[str, Test] = {"source": _text, "hash": _text, "rows": _count, "columns": _texts}


def _prices(value: Any) -> bool:
    if not _mapping(value) or not _text(value.get("currency", "")):
        return False
    own = {name: each for name, each in value.items() if name != "currency"}
    is_known = _of_mapping(_number)(own) and {"prompt", "completion"} <= set(own) <= {"prompt", "completion", "cached"}
    return is_known and own["prompt"] is not None and own["completion"] is not None


def _evaluator(value: Any) -> bool:
    return _mapping(value) and _text(value.get("name")) and not _unfit(value, _EVALUATOR)


_CONFIG: Mapping[str, Test] = {
    "kind": _text,
    "task_type": _text,
    "evaluators": lambda value: isinstance(value, (list, tuple)) and all(map(_evaluator, value)),
    "data": lambda value: _mapping(value) and not _unfit(value, _DATA),
    "data_mapping": _of_mapping(_text),
    "thresholds": _of_mapping(lambda each: _text(each) or _number(each)),
    "notes": lambda value: isinstance(value, (list, tuple)),
    "epochs": lambda value: _count(value) and value > 0,
    "repeats": _count,
    "images": _of_mapping(_text),
    "prices": _prices,
    "saved_by": _text,
    **dict.fromkeys(("target", "judge", "settings", "signature", "parameters"), _mapping),
}
_SUMMARY: Mapping[str, Test] = {
    "metrics": _of_mapping(_number),
    "evaluators": lambda value: (
        _mapping(value)
        and all(_mapping(each) and _of_mapping(_count)(each.get("n_failed") or {}) for each in value.values())
    ),
    "rows": lambda value: _mapping(value) and (value.get("n") is None or _count(value["n"])),
    "counts": _of_mapping(_number),
    "classes": _of_mapping(_of_mapping(_number)),
    "intervals": _of_mapping(_ends),
    "class_intervals": _of_mapping(_of_mapping(_ends)),
    "interval_reasons": _of_mapping(_text),
    "interval_choices": _interval_choices,
    "curves": lambda value: isinstance(value, (list, tuple)) and all(map(_mapping, value)),
    "cost": _number,
    "seconds": _number,
    "stopped": _text,
}


def _unfit(value: Mapping[str, Any], tests: Mapping[str, Test]) -> list[str]:
    """Names of the parts that are there and are something else."""
    return [name for name, test in tests.items() if value.get(name) is not None and not test(value[name])]


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the parts that are not as :func:`valor_gpu.evaluate` writes them; a note names them.

    Example:
        >>> plain_config({"data": "rows.csv", "epochs": 2})  # doctest: +NORMALIZE_WHITESPACE
        {'epochs': 2,
         'notes': ['Not as evaluate() writes it, and not shown: data of the configuration.']}
    """
    odd = _unfit(config, _CONFIG)
    if not odd:
        return dict(config)
    kept = {name: value for name, value in config.items() if name not in odd}
    note = f"Not as evaluate() writes it, and not shown: {', '.join(odd)} of the configuration."
    return {**kept, "notes": [*(kept.get("notes") or ()), note]}


def plain_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary without the parts that are not as runs are finished with.

    Example:
        >>> plain_summary({"metrics": {"mean_f1_score": "high"}, "cost": 1.5})
        {'cost': 1.5}
    """
    odd = _unfit(summary, _SUMMARY)
    return {name: value for name, value in summary.items() if name not in odd}
