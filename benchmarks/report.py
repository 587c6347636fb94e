"""``python -m benchmarks.report``: the README's ratio table, from the newest files of benchmarks/results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS
from benchmarks.scenes import ROOT

BEGIN, END = "<!-- ratios:begin -->", "<!-- ratios:end -->"
_WORK = {"files": "JSON files to AP", "tensors": "Tensors in batches of 16 images to AP"}
_CASES = {"val2017": "COCO val2017 scale", "objects365": "Objects365 scale", "lvis": "LVIS scale"}

Row = dict[str, Any]


def newest(kind: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """The stored result of ``kind`` with the latest date; quick ones do not count."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    wanted = [result for result in found if result["kind"] == kind and not result["quick"]]
    return max(wanted, key=lambda result: str(result["date"]), default=None)


def detection_text(result: dict[str, Any]) -> str:
    """One Markdown table a path (engines by cases), and how it was measured."""
    parts = [_path_table(result["rows"], path) for path in _WORK]
    return "\n\n".join([*filter(None, parts), _conditions(result)])


def _path_table(rows: list[Row], path: str) -> str:
    mine = [row for row in rows if row["path"] == path]
    cases = list(dict.fromkeys(row["case"] for row in mine))
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
        f"Medians of {result['repeats']} runs ({result['slow_repeats']} of the slow engines), each in a fresh process,"
        f" engines in turns, {result['threads']} threads, {machine['processor']}, Python {machine['python']}; memory is"
        f" the peak above the resident size after imports. {names}."
        f" Commit {result['commit'][:10]}, {result['date'][:10]}."
        " Every engine's numbers were held against pycocotools' first."
    )


def gpu_text(result: dict[str, Any]) -> str:
    """The timings of a GPU check as one Markdown table."""
    lines = ["| On a GPU | time |", "| --- | --- |"]
    lines += [f"| {row['work']} | {_milliseconds(row['seconds'])} |" for row in result["timings"] if row.get("seconds")]
    checks = result["checks"]
    good = sum(check["outcome"] == "pass" for check in checks)
    about = (
        f"{result['device']['name']}, driver {result['device']['driver']}, torch {result['versions']['torch']};"
        f" {good} of {len(checks)} checks passed. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
    return "\n".join(lines) + "\n\n" + about


def _milliseconds(seconds: dict[str, Any]) -> str:
    return f"{1e3 * seconds['median']:.3g} ms"


def put(readme: str, text: str) -> str:
    """``readme`` with ``text`` between the two markers."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        raise ValueError(f"the file must hold {BEGIN} and then {END}, once each")
    head, tail = readme.split(BEGIN)[0], readme.split(END)[1]
    return f"{head}{BEGIN}\n{text}\n{END}{tail}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write, or with ``--print`` show, the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the stored results")
    parser.add_argument("--print", action="store_true", help="print the tables, write nothing")
    arguments = parser.parse_args(argv)
    detection, gpu = (newest(kind, arguments.results) for kind in ("detection", "gpu"))
    if detection is None:
        print(f"no result of a full run in {arguments.results}: python -m benchmarks.run detection", file=sys.stderr)
        return 1
    text = "\n\n".join([detection_text(detection), *([gpu_text(gpu)] if gpu else [])])
    if arguments.print:
        print(text)
        return 0
    arguments.readme.write_text(put(arguments.readme.read_text(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
