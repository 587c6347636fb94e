"""``python -m benchmarks.report``: the README's ratio tables, from the newest files of benchmarks/results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import texts
from benchmarks.classification import WORKS
from benchmarks.machine import RESULTS
from testing.datasets import ROOT

BEGIN, END = "<!-- ratios:begin -->", "<!-- ratios:end -->"
CLASSIFICATION = "<!-- classification:begin -->", "<!-- classification:end -->"
TEXT = "<!-- text:begin -->", "<!-- text:end -->"
_WORK = {"files": "JSON files to AP", "tensors": "Tensors in batches of 16 images to AP"}
_CASES = {"val2017": "COCO val2017 scale", "objects365": "Objects365 scale", "lvis": "LVIS scale"}

Row = dict[str, Any]


def stored(kind: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The results of full runs of ``kind``, oldest first; quick ones do not count."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted((r for r in found if r["kind"] == kind and not r["quick"]), key=lambda r: str(r["date"]))


def newest_of_each_case(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results, oldest first, with only the rows of the cases that no later one has."""
    latest = {row["case"]: i for i, result in enumerate(results) for row in result["rows"]}
    cut = [{**r, "rows": [row for row in r["rows"] if latest[row["case"]] == i]} for i, r in enumerate(results)]
    return [result for result in cut if result["rows"]]


def detection_text(results: list[dict[str, Any]]) -> str:
    """One Markdown table a path (engines by cases), and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    tables = [_path_table(rows, path) for path in _WORK]
    return "\n\n".join([*filter(None, tables), *map(_conditions, results)])


def _path_table(rows: list[Row], path: str) -> str:
    mine = [row for row in rows if row["path"] == path]
    cases = [case for case in _CASES if any(row["case"] == case for row in mine)]
    tools = list(dict.fromkeys(row["tool"] for row in mine))
    if not mine:
        return ""
    images = {row["case"]: row["images"] for row in mine}
    heads = [f"{_CASES[case]}, {images[case]:,} images" for case in cases]
    lines = [f"| {_WORK[path]} | {' | '.join(heads)} |", "| --- |" + " --- |" * len(cases)]
    for tool in tools:
        cells = [_cell([row for row in mine if row["tool"] == tool and row["case"] == case], mine) for case in cases]
        lines.append(f"| {tool} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: list[Row], rows: list[Row]) -> str:
    """Median seconds and MB with their ratios to ours, or why there are none."""
    if not found:
        return ""
    row = found[0]
    if row["status"] != "ok":
        return str(row["status"])
    ours = next((r for r in rows if r["tool"] == "valor_gpu" and r["case"] == row["case"] and r["status"] == "ok"), row)
    seconds = f"{_figures(row['seconds']['median'])} s"
    memory = "" if row["peak_mb"] is None else f", {row['peak_mb']['median']:.0f} MB"
    if row is ours:
        return f"**{seconds}**{memory}"
    times = f" ({row['seconds']['median'] / ours['seconds']['median']:.1f}x)"
    if memory and ours["peak_mb"]:
        memory += f" ({row['peak_mb']['median'] / ours['peak_mb']['median']:.1f}x)"
    return seconds + times + memory


def _figures(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.3g}"


def _conditions(result: dict[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    names = ", ".join(f"{name} {version}" for name, version in versions.items() if version and name != "valor_gpu")
    return (
        f"{_sizes(result)}: medians of {result['repeats']} runs ({result['slow_repeats']} of the slow engines), each in"
        f" a fresh process, engines interleaved, {result['threads']} threads, {machine['processor']}, Python"
        f" {machine['python']}; seconds and memory (peak above the resident size) count from after the imports."
        f" {_PARITY[result['kind']]} {names}. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )


_PARITY = {
    "detection": "Every engine's numbers were held against those of pycocotools first, in the large cases on a small"
    " version of the scene.",
    "classification": "Every engine's numbers were held against those of scikit-learn first, those at thresholds"
    " against counts by numpy. Scores are float32, ours and torchmetrics' (without its checks of values) in batches of"
    " 1,024 rows; not run: takes minutes there.",
}


def _sizes(result: dict[str, Any]) -> str:
    if result["kind"] == "classification":
        return "; ".join(dict.fromkeys(f"{row['rows']:,} x {row['classes']:,}" for row in result["rows"]))
    return ", ".join(name for case, name in _CASES.items() if any(row["case"] == case for row in result["rows"]))


def classification_text(results: list[dict[str, Any]]) -> str:
    """One Markdown table a size (works by engines), largest first, and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    sizes = sorted({(row["rows"], row["classes"]) for row in rows}, reverse=True)
    tables = [_size_table([row for row in rows if (row["rows"], row["classes"]) == size]) for size in sizes]
    return "\n\n".join([*tables, *map(_conditions, results)])


def _size_table(rows: list[Row]) -> str:
    tools = [
        t for t in dict.fromkeys(row["tool"] for row in rows) if any(_ran(row) for row in rows if row["tool"] == t)
    ]
    head = f"{rows[0]['rows']:,} samples, {rows[0]['classes']:,} classes"
    lines = [f"| {head} | {' | '.join(tools)} |", "| --- |" + " --- |" * len(tools)]
    for work, text in WORKS.items():
        mine = [row for row in rows if row["path"] == work]
        cells = [_cell([row for row in mine if row["tool"] == tool], mine) for tool in tools]
        lines += [f"| {text} | {' | '.join(cells)} |"] if mine else []
    return "\n".join(lines)


def _ran(row: Row) -> bool:
    return bool(row["status"] != "not run")


TEXTS = {"detection": detection_text, "classification": classification_text, "text": texts.report}
"""What shows results of each kind."""


def gpu_text(result: dict[str, Any]) -> str:
    """The timings of a GPU check as one Markdown table."""
    lines = ["| On a GPU | time |", "| --- | --- |"]
    timed = [*result["timings"], *result.get("classification", [])]
    lines += [
        f"| {row['work']} | {_milliseconds(row['seconds'])}{_beside(row)} |" for row in timed if row.get("seconds")
    ]
    checks = result["checks"]
    good = sum(check["outcome"] == "pass" for check in checks)
    about = (
        f"{result['device']['name']}, driver {result['device']['driver']}, torch {result['versions']['torch']};"
        f" {good} of {len(checks)} checks passed. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
    return "\n".join(lines) + "\n\n" + about


def _beside(row: Row) -> str:
    """What a time is held against: the copy bandwidth, torchmetrics."""
    if "times_torchmetrics" in row:
        return f", torchmetrics {_milliseconds(row['torchmetrics'])} ({row['times_torchmetrics']:.1f}x)"
    return f", {row['share_of_copy']:.0%} of the speed of a copy" if "share_of_copy" in row else ""


def _milliseconds(seconds: dict[str, Any]) -> str:
    return f"{1e3 * seconds['median']:.3g} ms"


def put(readme: str, text: str, markers: tuple[str, str] = (BEGIN, END)) -> str:
    """``readme`` with ``text`` between the two markers."""
    begin, end = markers
    if readme.count(begin) != 1 or readme.count(end) != 1 or readme.index(begin) > readme.index(end):
        raise ValueError(f"the file must hold {begin} and then {end}, once each")
    head, tail = readme.split(begin)[0], readme.split(end)[1]
    return f"{head}{begin}\n{text}\n{end}{tail}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write, or with ``--print`` show, the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the stored results")
    parser.add_argument("--print", action="store_true", help="print the tables, write nothing")
    arguments = parser.parse_args(argv)
    detection, classification, text, gpu = (
        stored(kind, arguments.results) for kind in ("detection", "classification", "text", "gpu")
    )
    if not detection:
        print(f"no result of a full run in {arguments.results}: python -m benchmarks.run detection", file=sys.stderr)
        return 1
    tables = {(BEGIN, END): "\n\n".join([detection_text(newest_of_each_case(detection)), *map(gpu_text, gpu[-1:])])}
    if classification:
        tables[CLASSIFICATION] = classification_text(newest_of_each_case(classification))
    if text:
        tables[TEXT] = texts.report(text)
    if arguments.print:
        print("\n\n".join(tables.values()))
        return 0
    readme = arguments.readme.read_text()
    for markers, table in tables.items():
        readme = put(readme, table, markers)
    arguments.readme.write_text(readme)
    return 0


if __name__ == "__main__":
    sys.exit(main())
