"""Section of the report about score thresholds. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from valor_gpu.pages import numbers
from valor_gpu.pages.markup import Column, folded_table, joined, name_of, section, tag, warning
from valor_gpu.pages.texts import Html
from valor_gpu.report.detection_sections import bar, between_of
from valor_gpu.report.titles import words_of
from valor_gpu.result_data import ResultData

THRESHOLD = "score_threshold"
_MOST_CLASSES = 20


def common_threshold(found: ResultData) -> float:
    """Returns the threshold of all classes together; NaN where none serves the purpose."""
    return float(found.values[THRESHOLD])


def point_numbers(found: ResultData) -> list[str]:
    """Returns the names of the numbers that every class has: threshold, precision, recall, F, perhaps cost."""
    return [name for name in found.values if isinstance(found.values.get(f"{name}_per_class"), Mapping)]


def purpose_of(found: ResultData) -> str:
    """Returns what the thresholds are to serve, in words."""
    signature = found.signature
    for name in ("precision", "recall"):
        if name in signature:
            return f"{name} of at least {signature[name]:g}"
    if "cost" in signature:
        return "least cost"
    return f"best F{signature.get('beta', 1.0):g}"


def point_section(found: ResultData) -> Html:
    """The threshold of all classes together, and that of each class."""
    names = point_numbers(found)
    note = f"{purpose_of(found)} at IoU {found.signature['iou_threshold']:g}; a threshold keeps scores from it on"
    if math.isnan(common_threshold(found)):
        whole = warning(f"No threshold of all classes together: {found.reason(THRESHOLD)}.")
    else:
        figures = [_figure(found, name) for name in names]
        whole = tag("div", *figures, class_="figs narrow")
    flattered = found.signature.get("split") is None and not found.intervals
    said = (
        "Thresholds are chosen on the data that the numbers are of, which flatters them a little." if flattered else ""
    )
    parts = [whole, *([tag("p", said, class_="small dim")] if said else []), *_classes(found, names)]
    return section("points", "Score thresholds", *parts, note=note)


def _figure(found: ResultData, name: str) -> Html:
    words, value, between = words_of(name), float(found.values[name]), between_of(found, name)
    shown = (tag("span", numbers.number(value, 3), class_="big"), tag("span", between, class_="small dim"))
    parts = [tag("h3", words, class_="name"), tag("p", "all classes together", class_="small faint")]
    parts.append(tag("p", *shown, class_="spread"))
    if 0 <= value <= 1:
        parts.append(bar(value, found.intervals.get(name), f"{words} {value:.3f} {between}".rstrip(), 190))
    return tag("figure", *parts)


def _classes(found: ResultData, names: Sequence[str]) -> list[Html]:
    """Those of classes, the worst F first, and why others have none."""
    columns = {name: found.values[f"{name}_per_class"] for name in names}
    order = next((name for name in names if name.startswith("f")), names[0])
    known = [of for of, value in columns[THRESHOLD].items() if not math.isnan(value)]
    known.sort(key=lambda of: (columns[order][of], of))
    heads = [Column("class"), *(Column(words_of(name), True) for name in names)]
    rows = [
        [name_of(of), *(_cell(found, f"{name}_per_class/{of}", columns[name][of]) for name in names)] for of in known
    ]
    parts = [folded_table(heads, rows, "Score thresholds of classes", _MOST_CLASSES, "classes", "even")]
    absent: dict[str, list[Html]] = {}
    for of, value in columns[THRESHOLD].items():
        if math.isnan(value):
            reason, _, detail = (found.reason(f"{THRESHOLD}_per_class/{of}") or "no reason known").partition(": ")
            absent.setdefault(reason, []).append(joined([name_of(of), f" ({detail})"]) if detail else name_of(of))
    return parts + [_absent(reason, names) for reason, names in absent.items()]


def _cell(found: ResultData, name: str, value: float) -> Html:
    between = between_of(found, name)
    return joined([numbers.number(value, 3), *([tag("span", between, class_="under")] if between else [])])


def _absent(reason: str, names: Sequence[Html]) -> Html:
    have = "class has" if len(names) == 1 else "classes have"
    listed = tag("p", joined(names, ", "), class_="small dim inside")
    return tag("details", tag("summary", f"{len(names):,} {have} no threshold: {reason}"), listed)
