"""docs/coverage.md and its picture, from the newest stored table of benchmarks/coverage.py."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS
from testing.datasets import ROOT
from valor_gpu.stats import methods
from valor_gpu.stats.intervals import TARGETS

PAGE = ROOT / "docs" / "coverage.md"
PICTURE = ROOT / "docs" / "images" / "coverage.png"
LEAST, MOST = 0.93, 0.97
"""What a 95% interval is to hold: the bar."""
FEWEST = 500
"""A cell with fewer intervals shows too little to count."""
Row = dict[str, Any]
FAMILIES = {
    "detection": "Detection: mAP and mAR",
    "detection_class": "Detection: AP of a class, by how many images hold a ground truth of it",
    "ratio": "Accuracy and F1",
    "ratio_class": "F1 of a class, by how many rows are of it",
    "curve": "AUROC and AP of exact scores",
    "pixels": "mIoU",
    "panoptic": "Panoptic quality",
    "corpus": "BLEU of a corpus",
    "rows": "Means of rows",
}

_HEAD = """<!-- Made from benchmarks/results: run python -m benchmarks.coverage report. -->

# How often intervals hold

A 95% interval is honest if it holds in 95% of data sets that which it is about. Data sets are drawn from populations
whose numbers are known, and of each every method makes an interval. There are two targets: `expected`, the mean of the
number over data sets of this size, which a gate or another run on as much data is to be compared with; and
`population`, the number of all data that could be drawn. They differ for numbers that few data bias, as mAP.

The default of a family and a target is the method whose intervals are the shortest of those that hold in {least:.0%} to
{most:.0%} of data sets of every size and every number of the family, up to one standard error of a cell; more often
only where no other does. Of methods within {equal:.0%} of the shortest it is one that takes no further replicates and
is never far from 95%. Cells with fewer than {fewest} intervals do not count. Where no method holds for few units, only
sizes from the least on count: below it, an interval of the population is refused, and one of the expected number holds
less often, as the tables show. Differences are those of two models on the same units, under the same weights; a default
is not carried over to them. An accuracy without clusters has the interval of Wilson instead: `wilson` in the tables.

A number of a class has an interval from {units} units with a ground truth of the class on; the last table but one shows
how often intervals of fewer hold.
"""
EQUAL = 0.02
"""Widths that differ by less count as equal."""


def table(folder: Path = RESULTS) -> Row:
    """The newest stored table."""
    paths = sorted(folder.glob("coverage_*.json"))
    if not paths:
        raise SystemExit(f"no coverage_*.json in {folder}: python -m benchmarks.coverage collect")
    return dict(json.loads(paths[-1].read_text()))


def is_paired(row: Row) -> bool:
    """Whether the number is the difference of two models."""
    return bool(row["number"].endswith("difference"))


def coverage(row: Row, method: str, target: str) -> tuple[float, float]:
    """How often the interval holds the target, and the standard error of that; NaN where there is no interval."""
    found = row["methods"].get(method)
    if not found:
        return math.nan, math.nan
    share, n = found[target] / found["intervals"], found["intervals"]
    return share, math.sqrt(max(share * (1 - share), 0.25 / n) / n)


def holds(row: Row, method: str, target: str, most: float = MOST) -> bool:
    """Whether the coverage is within the bar, up to its standard error."""
    share, error = coverage(row, method, target)
    return LEAST - error <= share <= most + error


def relative_width(row: Row, method: str) -> float:
    """Mean width over that of the normal interval."""
    found = row["methods"]
    return float(found[method]["width"] / found["normal"]["width"])


def counted(rows: Iterable[Row], family: str, paired: bool) -> list[Row]:
    """Rows of a family; of classes only those with as many units as an interval takes."""
    mine = [
        row
        for row in rows
        if (row["family"], is_paired(row)) == (family, paired) and row["methods"]["normal"]["intervals"] >= FEWEST
    ]
    if not family.endswith("_class"):
        return mine
    return [row for row in mine if int(row["number"].split(", ")[1].split()[0]) >= methods.FEW_UNITS]


def chosen(rows: Iterable[Row], family: str, target: str, paired: bool) -> tuple[str, int] | None:
    """The shortest method that holds, and the size from which on it does; None: there is none."""
    mine = counted(rows, family, paired)
    sizes = sorted({row["n"] for row in mine})
    for least in sizes:
        some = [row for row in mine if row["n"] >= least]
        for most in (MOST, 1.0):
            good = [m for m in methods.METHODS if all(holds(row, m, target, most) for row in some)]
            if good:
                return _shortest(good, some, target), least
    return None


def _shortest(good: list[str], rows: list[Row], target: str) -> str:
    """The shortest method; of those about as short one without further replicates, which is never far from 95%."""
    widths = {m: math.prod(relative_width(row, m) for row in rows) ** (1 / len(rows)) for m in good}
    short = [m for m in good if widths[m] <= (1 + EQUAL) * min(widths.values())]
    simple = [m for m in short if m not in methods.DELETED and not m.startswith("half")]
    return min(simple or short, key=lambda m: max(abs(coverage(row, m, target)[0] - 0.95) for row in rows))


def nearest(rows: Iterable[Row], family: str, target: str, paired: bool) -> str:
    """The method whose lowest coverage is the highest, where none holds."""
    mine = counted(rows, family, paired)
    tried = [m for m in methods.METHODS if mine and all(m in row["methods"] for row in mine)]
    return max(tried, key=lambda m: min(coverage(row, m, target)[0] for row in mine), default="normal")


def wanted(rows: list[Row], family: str, target: str, paired: bool) -> methods.Default:
    """The default that follows from the table."""
    found = chosen(rows, family, target, paired)
    if found is None:
        return methods.Default(nearest(rows, family, target, paired), math.inf)
    return methods.Default(found[0], 0 if found[1] == min(row["n"] for row in rows) else found[1])


def choices(rows: list[Row]) -> str:
    """The two tables of defaults as they stand in valor_gpu/stats/methods.py."""
    parts = []
    for title, paired in (("DEFAULTS", False), ("DIFFERENCES", True)):
        lines = [f"{title}: Mapping[str, Mapping[str, Default]] = {{"]
        for family in methods.FAMILIES:
            some = {target: wanted(rows, family, target, paired) for target in TARGETS}
            texts = {t: f"{d.least:g}".replace("inf", "math.inf") for t, d in some.items()}
            cells = [f'"{t}": Default("{d.method}"{", " + texts[t] if d.least else ""})' for t, d in some.items()]
            lines.append(f'    "{family}": {{{", ".join(cells)}}},')
        parts.append("\n".join([*lines, "}"]))
    return "\n".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _span(rows: list[Row], method: str, target: str) -> str:
    """Lowest and highest coverage of some rows."""
    found = sorted(share for share, _ in (coverage(row, method, target) for row in rows) if not math.isnan(share))
    return " to ".join(dict.fromkeys([_percent(found[0]), _percent(found[-1])])) if found else ""


def family_table(rows: list[Row], family: str, target: str, paired: bool) -> str:
    """Methods by sizes: lowest and highest coverage of the numbers, and the width beside the normal interval."""
    mine = counted(rows, family, paired)
    sizes = sorted({row["n"] for row in mine})
    names = [m for m in dict.fromkeys(m for row in mine for m in row["methods"])]
    lines = [
        f"| method | {' | '.join(f'{n:,}' for n in sizes)} | width |",
        f"| --- |{' --- |' * len(sizes)} --- |",
    ]
    default = chosen(rows, family, target, paired)
    for name in names:
        there = [row for row in mine if name in row["methods"]]
        width = math.prod(relative_width(row, name) for row in there) ** (1 / len(there))
        mark = f"**{name}**" if default and default[0] == name else name
        cells = [_span([row for row in there if row["n"] == n], name, target) for n in sizes]
        lines.append(f"| {mark} | {' | '.join(cells)} | {width:.2f} |")
    return "\n".join(lines)


def defaults_table(rows: list[Row]) -> str:
    """What methods.py takes, with the coverage that it has."""
    lines = ["| numbers | of | target | method | from | coverage |", "| --- | --- | --- | --- | --- | --- |"]
    for family, title in FAMILIES.items():
        for paired in (False, True):
            mine = counted(rows, family, paired)
            for target in TARGETS:
                found = methods.default_of(family, target, paired)
                some = [row for row in mine if row["n"] >= found.least]
                what = "difference" if paired else "one model"
                size = f"{found.least:,}" if math.isfinite(found.least) else "never"
                lines.append(
                    f"| {title.split(',')[0]} | {what} | {target} | {found.method} | {size} |"
                    f" {_span(some, found.method, target)} |"
                )
    return "\n".join(lines)


def sizes_table(rows: list[Row]) -> str:
    """How many data sets each cell rests on, and how biased its numbers are."""
    lines = ["| population | number | units | data sets | population | expected | sd |", "|" + " --- |" * 7]
    for row in rows:
        if "known" in row and not is_paired(row):
            numbers = " | ".join(f"{row[name]:.4f}" for name in ("known", "mean", "spread"))
            lines.append(f"| {row['case']} | {row['number']} | {row['n']:,} | {row['sets']:,} | {numbers} |")
    return "\n".join(lines)


def classes_table(rows: list[Row], target: str) -> str:
    """Coverage by the number of units with a ground truth of the class, of all sizes together."""
    mine = [row for row in rows if row["family"].endswith("_class")]
    lines = [f"| number | intervals | {' | '.join(methods.METHODS)} |", "|" + " --- |" * (2 + len(methods.METHODS))]
    for number in sorted({row["number"] for row in mine}, key=_order_of_bins):
        some = [row for row in mine if row["number"] == number]
        cells = []
        for method in methods.METHODS:
            found = [row["methods"][method] for row in some if method in row["methods"]]
            total = sum(one["intervals"] for one in found)
            cells.append(_percent(sum(one[target] for one in found) / total) if total else "")
        lines.append(f"| {number} | {sum(row['sets'] for row in some):,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _order_of_bins(number: str) -> tuple[bool, str, int]:
    kind, units = number.split(", ")[:2]
    return number.endswith("difference"), kind, int(units.split()[0])


def page(result: Row) -> str:
    """docs/coverage.md."""
    rows = result["rows"]
    head = _HEAD.format(least=LEAST, most=MOST, fewest=FEWEST, equal=EQUAL, units=methods.FEW_UNITS).strip()
    parts = [head, "![Coverage by size](images/coverage.png)", "## Defaults", defaults_table(rows)]
    for family, title in FAMILIES.items():
        parts.append(f"## {title}")
        for paired in (False, True):
            for target in TARGETS:
                what = "difference of two models" if paired else "one model"
                parts += [f"**{target}, {what}**", family_table(rows, family, target, paired)]
    parts += ["## Classes with few units", classes_table(rows, "expected"), "## Populations", sizes_table(rows)]
    machine = result["machine"]
    parts.append(
        "Lowest and highest coverage of the numbers of a family, in percent; widths are relative to `normal`."
        f" Blocks of {result['block']} data sets share their weights; seeds are the numbers of the blocks."
        f" {machine['processor']}, Python {machine['python']}, numpy {result['versions']['numpy']}."
        f" Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
    return "\n\n".join(parts) + "\n"


def draw(rows: list[Row], path: Path) -> None:
    """Coverage of all methods and of the default by size, for each family."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplots(3, 3, sharex=True, sharey=True).ravel()
    for axis, (family, title) in zip(axes, FAMILIES.items()):
        axis.axhspan(100 * LEAST, 100 * MOST, color="0.9", zorder=0)
        for target, colour in zip(TARGETS, ("C0", "C1")):
            mine = counted(rows, family, False)
            default = methods.default_of(family, target).method
            for method, style, shade in (("percentile", ":", 0.6), (default, "-", 1.0)):
                sizes = sorted({row["n"] for row in mine})
                lows = [min(coverage(row, method, target)[0] for row in mine if row["n"] == n) for n in sizes]
                label = f"{target}: {method}"
                axis.plot(sizes, [100 * low for low in lows], style, color=colour, alpha=shade, label=label)
        axis.set_title(title.split(",")[0], fontsize=9)
        axis.set_xscale("log")
        axis.set_ylim(50, 100)
        axis.legend(fontsize=7, loc="lower right")
    figure.supxlabel("units")
    figure.supylabel("lowest coverage of a number of the family, %")
    figure.savefig(path, dpi=90, metadata={"Software": None})


def write(folder: Path = RESULTS) -> None:
    """Writes the page and the picture."""
    result = table(folder)
    PAGE.write_text(page(result))
    draw(result["rows"], PICTURE)
