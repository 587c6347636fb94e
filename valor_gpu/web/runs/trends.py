"""A metric over runs: which of them stand in one line, and what each number rests on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.evaluation.evaluators.base import EVALUATORS
from valor_gpu.web.book import Entry


@dataclass(frozen=True)
class Measured:
    """The number of a metric in a run.

    Attributes:
        entry: the run.
        value: the number.
        interval: its ends; None where none was kept.
        why_none: why there is no interval, where that is known.
        n: rows or images that it rests on; None where that is not known.
        confidence: of the interval.
        series: place of its series among those of the trend.
        before: the run of the same series before it; None for the first one.
        is_partial: whether the run stopped before its end, so that it has no part in a line.
    """

    entry: Entry
    value: float
    interval: tuple[float, float] | None
    why_none: str
    n: int | None
    confidence: float
    series: int
    before: Measured | None
    is_partial: bool


@dataclass(frozen=True)
class Series:
    """Runs whose numbers can be compared.

    Attributes:
        letter: A for the first.
        causes: what differs from the series before it, in words; empty for the first.
        other: letter of that series.
        n: runs.
    """

    letter: str
    causes: tuple[str, ...]
    other: str
    n: int


def trend_of(entries: Iterable[Entry], metric: str) -> tuple[list[Measured], list[Series]]:
    """Returns the numbers of a metric in the order of the runs, and their series.

    Runs are of one series where data, task, versions of the evaluators, judge, embeddings, thresholds of rates, and
    signature and settings of saved results are equal. Runs without a number are left out.

    Args:
        entries: runs in their order.
        metric: name as the list of runs has it.
    """
    found: list[Measured] = []
    bases: list[tuple[dict[str, str], tuple[str, ...], str]] = []
    places: dict[str, int] = {}
    last: dict[int, Measured] = {}
    for entry in entries:
        value = entry.metrics.get(metric)
        if value is None:
            continue
        basis = basis_of(entry, metric)
        key = json.dumps(basis, sort_keys=True)
        if key not in places:
            near = found[-1].series if found else 0
            causes = tuple(differences(basis, bases[near][0])) if bases else ()
            places[key] = len(bases)
            bases.append((basis, causes, letter_of(near) if bases else ""))
        series = places[key]
        measured = _measured(entry, metric, float(value), series, last.get(series))
        found.append(measured)
        if not measured.is_partial:
            last[series] = measured
    counts = [0] * len(bases)
    for each in found:
        counts[each.series] += 1
    lines = [Series(letter_of(k), causes, other, counts[k]) for k, (_, causes, other) in enumerate(bases)]
    return found, lines


def letter_of(place: int) -> str:
    """Returns A for 0, Z for 25, AA for 26.

    Example:
        >>> letter_of(0), letter_of(25), letter_of(26), letter_of(27)
        ('A', 'Z', 'AA', 'AB')
    """
    text = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        text = chr(65 + rest) + text
    return text


def basis_of(entry: Entry, metric: str) -> dict[str, str]:
    """Returns what a number of a run rests on: words to JSON. Equal ones can be compared."""
    config = entry.config
    data = config.get("data") or {}
    found: dict[str, Any] = {"data": data.get("hash") or ["named", entry.data]}
    if entry.kind == "vision":
        signature = config.get("signature") or {}
        found["signature"] = {name: value for name, value in signature.items() if name != "version"}
        found |= {"kind of result": config.get("kind"), "settings": config.get("settings") or {}}
    else:
        found |= _of_answers(entry, metric)
    return {name: json.dumps(value, sort_keys=True) for name, value in found.items()}


def _of_answers(entry: Entry, metric: str) -> dict[str, Any]:
    config = entry.config
    infos = _evaluators_of(entry, metric)
    found: dict[str, Any] = {"number of rows that were read": config.get("limit"), "task": config.get("task_type")}
    found["evaluator version"] = {each["name"]: each.get("version") for each in infos}
    if any(each.get("needs_judge") for each in infos):
        found["judge"] = config.get("judge")
    known = [EVALUATORS[each["name"]] for each in infos if each["name"] in EVALUATORS]
    if any("embed" in each.needs for each in known):
        found["embeddings"] = config.get("embedding")
    if metric.endswith("_rate"):
        summaries = entry.summary.get("evaluators") or {}
        found["threshold"] = {each["name"]: summaries.get(each["name"], {}).get("threshold") for each in infos}
    if metric == "jailbreak_defect_rate":
        found["baseline"] = config.get("baseline")
    return found


def _evaluators_of(entry: Entry, metric: str) -> list[Mapping[str, Any]]:
    """The evaluators of whose scores a metric is made."""
    infos = list(entry.config.get("evaluators") or ())
    if metric == "pass_rate":
        limited = entry.config.get("thresholds") or {}
        return [each for each in infos if each["name"] in limited or each.get("kind") == "safety"]
    if metric == "jailbreak_defect_rate":
        return [each for each in infos if each.get("kind") == "safety"]
    return [each for each in infos if _is_of(each, metric)]


def _is_of(info: Mapping[str, Any], metric: str) -> bool:
    name, summary_name = info["name"], info.get("summary_name") or info["name"]
    rates = (f"{name}_pass_rate", f"{name}_defect_rate")
    return metric in (summary_name, *rates) or metric.startswith(f"{summary_name}.")


def differences(basis: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Returns the words of what differs between two bases."""
    return [f"other {name}" for name in {**other, **basis} if basis.get(name) != other.get(name)]


def metric_named(name: str, entries: Sequence[Entry], names: Sequence[str]) -> str:
    """Returns the metric that an address names: of the list, or of an evaluator, whose headline number it is then.

    Args:
        name: of the address.
        entries: all runs, the newest first.
        names: metrics of the list.
    """
    if name in names or not name:
        return name or (names[0] if names else "")
    for entry in entries:
        for each in entry.config.get("evaluators") or ():
            if each["name"] == name:
                rate = f"{name}_defect_rate"
                return rate if rate in entry.metrics else str(each.get("summary_name") or name)
    return name


def _measured(entry: Entry, metric: str, value: float, series: int, before: Measured | None) -> Measured:
    interval, n, why = _facts(entry.summary, metric)
    confidence = (entry.summary.get("interval_choices") or {}).get("confidence") or entry.summary.get("confidence")
    is_partial = entry.head.state != "finished"
    sure = float(confidence) if confidence is not None and _is_number(confidence) else 0.95
    return Measured(entry, value, interval, why, n, sure, series, before, is_partial)


def _facts(summary: Mapping[str, Any], metric: str) -> tuple[tuple[float, float] | None, int | None, str]:
    """Interval, count and why there is no interval, as the run was finished with."""
    if metric in ("pass_rate", "jailbreak_defect_rate"):
        part = summary.get("passed" if metric == "pass_rate" else "jailbreak") or {}
        return _ends(part.get("interval")), _count(part.get("n")), ""
    for name, each in (summary.get("evaluators") or {}).items():
        for rate in ("pass_rate", "defect_rate"):
            if metric == f"{name}_{rate}":
                return _ends(each.get(f"{rate}_interval")), _count(each.get("n")), ""
        if metric == each.get("summary_name"):
            why = "one number of all rows together" if each.get("pooled") else ""
            return _ends(each.get("interval")), _count(each.get("n")), why
    found = (summary.get("intervals") or {}).get(metric)
    why = (summary.get("interval_reasons") or {}).get(metric) or ""
    rows = summary.get("rows") or {}
    return _ends(found), _count(rows.get("n")), str(why)


def _ends(found: Any) -> tuple[float, float] | None:
    """An interval; None for what is none, since a store can hold any JSON."""
    if not isinstance(found, (list, tuple)) or len(found) != 2 or not all(map(_is_number, found)):
        return None
    return (float(found[0]), float(found[1])) if found[0] <= found[1] else None


def _count(found: Any) -> int | None:
    return found if type(found) is int and found >= 0 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
