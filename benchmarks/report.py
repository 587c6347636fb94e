"""``python -m benchmarks.report``: docs/benchmarks.md and the README's two tables from the newest stored results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    analysis,
    evaluation,
    failures,
    gpu_table,
    host,
    intervals,
    mask_cases,
    masks,
    offline,
    probabilities,
    regression_ranks,
    regression_sums,
    retrieval,
    segmentation,
    segmentation_cases,
    shell,
    small,
    studio,
    texts,
    valor_cases,
    valor_detection,
)
from benchmarks.classification import WORKS
from benchmarks.machine import RESULTS
from benchmarks.summary import figures, readme_block, summary
from testing.datasets import ROOT

_WORK = {"files": "JSON files to AP", "tensors": "Tensors in batches of 16 images to AP"}
_CASES = {"val2017": "COCO val2017 scale", "objects365": "Objects365 scale", "lvis": "LVIS scale"}

_HEAD = """<!-- Made by benchmarks/report.py from benchmarks/results: run python -m benchmarks.report. -->

# Benchmarks

`make bench` measures all engines interleaved in one run. An engine gets a number only after its results agreed with the
reference; `(3.1x)` means 3.1 times the seconds, or the memory, of valor_gpu. Every run and its spread is in
[benchmarks/results](../benchmarks/results). On a GPU machine, `python -m benchmarks.gpu_check` compares every CUDA
kernel with its plain PyTorch definition and measures it: [On a GPU](#on-a-gpu). Imports are counted only where a
process is timed from the shell; elsewhere importing torch, about 2 s, is not counted for any engine.
"""
_SUMMARY = """## Summary

Seconds of valor_gpu, and how many times as long the fastest other engine and the reference take; below 1x, valor_gpu is
the slower one. Engines, memory and conditions of each row are in the sections below."""
_SECTIONS = {
    "detection": "Detection",
    "masks": "Masks",
    "segmentation": "Segmentation",
    "shell": "From the shell",
    "classification": "Classification",
    "valor_detection": "Detection by Valor's definitions",
    "regression_sums": "Errors and correlations",
    "regression_ranks": "Rank correlations and forecasts",
    "text": "Texts",
    "retrieval": "Retrieval",
    "small": "Small updates",
    "host": "Host time on CUDA",
    "evaluation": "Evaluation runs",
    "failures": "Runs whose judge fails for some prompts",
    "intervals": "Intervals",
    "probabilities": "Probabilities",
    "analysis": "Error analysis",
    "offline": "Offline evaluation of shards",
    "studio": "Studio",
}

Row = dict[str, Any]


def stored(kind: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The results of full runs of ``kind``, oldest first; quick ones do not count.

    Raises:
        BrokenResult: a file in ``folder`` holds no JSON object. Records of a GPU check are read elsewhere.
    """
    paths = [path for path in sorted(folder.glob("*.json")) if not path.name.startswith("gpu_")]
    found = [gpu_table.read_result(path) for path in paths]
    return sorted((r for r in found if r["kind"] == kind and not r["quick"]), key=lambda r: str(r["date"]))


def newest_of_each_case(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results, oldest first, with only the rows of the cases that no later one has."""
    latest = {row["case"]: i for i, result in enumerate(results) for row in result["rows"]}
    cut = [{**r, "rows": [row for row in r["rows"] if latest[row["case"]] == i]} for i, r in enumerate(results)]
    return [result for result in cut if result["rows"]]


def detection_text(results: list[dict[str, Any]]) -> str:
    """One Markdown table per path (engines by cases), and how the numbers were measured."""
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
    seconds = f"{figures(row['seconds']['median'])} s"
    memory = "" if row["peak_mb"] is None else f", {row['peak_mb']['median']:.0f} MB"
    if row is ours:
        return f"**{seconds}**{memory}"
    times = f" ({row['seconds']['median'] / ours['seconds']['median']:.1f}x)"
    if memory and ours["peak_mb"]:
        memory += f" ({row['peak_mb']['median'] / ours['peak_mb']['median']:.1f}x)"
    return seconds + times + memory


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
    "valor_detection": "Every engine's counts were compared with those of valor-lite, and its numbers where both define"
    " them alike: all from objects and frames, which take its preset, but neither AP nor confusion matrix from tensors."
    " All compute every metric of every label at 10 IoU and 3 score thresholds.",
    "masks": "Every engine's numbers were compared with those of pycocotools first. Outlines are synthetic: real"
    " polygons of COCO moved into the boxes of the detection benchmark. The int64 sum reads the dense masks once and"
    " does nothing else.",
    "segmentation": "Every engine's counts, or where it gives none its numbers, were compared with those of the engine"
    " in the last row first. One image at a time, labels in the type in which they are held: uint8 where nothing else"
    " is said. torchmetrics runs without its checks of values, ours with them.",
    "detection": "Every engine's numbers were compared with those of pycocotools first, in the large cases on a small"
    " version of the dataset.",
    "classification": "Every engine's numbers were compared with those of scikit-learn first, at thresholds with"
    " counts by numpy. Scores are float32, ours and torchmetrics' (without its checks of values) in batches of"
    " 1,024 rows; not run: takes minutes there.",
}


def _sizes(result: dict[str, Any]) -> str:
    if result["kind"] == "classification":
        return "; ".join(dict.fromkeys(f"{row['rows']:,} x {row['classes']:,}" for row in result["rows"]))
    if result["kind"] == "valor_detection":
        return "Valor's metrics"
    if result["kind"] in ("masks", "segmentation"):
        return str(result["kind"]).capitalize()
    return ", ".join(name for case, name in _CASES.items() if any(row["case"] == case for row in result["rows"]))


def classification_text(results: list[dict[str, Any]]) -> str:
    """One Markdown table per size (works by engines), largest first, and how the numbers were measured."""
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


def masks_text(results: list[dict[str, Any]]) -> str:
    """One Markdown table (engines by cases), and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    cases = [case for name, case in mask_cases.CASES.items() if any(row["case"] == name for row in rows)]
    sizes = {row["case"]: row["images"] for row in rows}
    heads = [f"{masks.WORKS[case.work]}, {_CASES[case.scale]}, {sizes[case.name]:,} images" for case in cases]
    lines = [f"| | {' | '.join(heads)} |", "| --- |" + " --- |" * len(cases)]
    for tool in dict.fromkeys(row["tool"] for row in rows):
        mine = {case.name: [row for row in rows if row["case"] == case.name] for case in cases}
        cells = [_cell([row for row in some if row["tool"] == tool], some) for some in mine.values()]
        lines.append(f"| {tool} | {' | '.join(cells)} |")
    return "\n\n".join(["\n".join(lines), *map(_conditions, results)])


def segmentation_text(results: list[dict[str, Any]]) -> str:
    """One Markdown table per work (engines by cases), and how the numbers were measured."""
    return _works_text(results, segmentation.WORKS, segmentation_cases.CASES)


def valor_text(results: list[dict[str, Any]]) -> str:
    """One Markdown table per work (engines by cases), and how the numbers were measured."""
    return _works_text(results, valor_detection.WORKS, valor_cases.CASES)


def _works_text(results: list[dict[str, Any]], works: Mapping[str, str], cases: Mapping[str, Any]) -> str:
    rows = [row for result in results for row in result["rows"]]
    tables = [_work_table(title, [row for row in rows if row["path"] == work], cases) for work, title in works.items()]
    return "\n\n".join([*filter(None, tables), *map(_conditions, results)])


def _work_table(title: str, rows: list[Row], known: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    sizes = {row["case"]: row["images"] for row in rows}
    cases = [case for name, case in known.items() if name in sizes]
    lines = [
        f"| {title} | {' | '.join(case.about(sizes[case.name]) for case in cases)} |",
        "| --- |" + " --- |" * len(cases),
    ]
    for tool in dict.fromkeys(row["tool"] for row in rows):
        mine = [[row for row in rows if row["case"] == case.name] for case in cases]
        cells = [_cell([row for row in some if row["tool"] == tool], some) for some in mine]
        lines.append(f"| {tool} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ran(row: Row) -> bool:
    return bool(row["status"] != "not run")


TEXTS = {
    "detection": detection_text,
    "masks": masks_text,
    "segmentation": segmentation_text,
    "shell": shell.report,
    "classification": classification_text,
    "regression_sums": regression_sums.report,
    "regression_ranks": regression_ranks.report,
    "text": texts.report,
    "retrieval": retrieval.report,
    "small": small.report,
    "evaluation": evaluation.report,
    "failures": failures.report,
    "intervals": intervals.report,
    "probabilities": probabilities.report,
    "analysis": analysis.report,
    "offline": offline.report,
    "host": host.report,
    "studio": studio.report,
    "valor_detection": valor_text,
}
"""What shows results of each kind."""


def page(results: dict[str, list[dict[str, Any]]], gpu: dict[str, Any] | None) -> str:
    """docs/benchmarks.md; ``gpu``: the record of a GPU check, None where there is none."""
    parts = [_HEAD.strip(), _SUMMARY, summary(results)]
    for kind, title in _SECTIONS.items():
        if results.get(kind):
            parts += [f"## {title}", TEXTS[kind](results[kind])]
    return "\n\n".join([*parts, "## On a GPU", gpu_table.page_text(gpu)]) + "\n"


def put(readme: str, text: str, block: str = "benchmarks") -> str:
    """``readme`` with ``text`` between the two markers of a block."""
    begin, end = f"<!-- {block}:begin -->", f"<!-- {block}:end -->"
    if readme.count(begin) != 1 or readme.count(end) != 1 or readme.index(begin) > readme.index(end):
        raise ValueError(f"the file must hold {begin} and then {end}, once each")
    head, tail = readme.split(begin)[0], readme.split(end)[1]
    return f"{head}{begin}\n{text}\n{end}{tail}"


def filled(readme: str, results: dict[str, list[dict[str, Any]]], gpu: dict[str, Any] | None) -> str:
    """``readme`` with its two blocks."""
    return put(put(readme, readme_block(results)), gpu_table.readme_block(gpu), "gpu")


def collected(folder: Path = RESULTS) -> dict[str, list[dict[str, Any]]]:
    """Kind to the stored results that are shown, oldest first."""
    found = {kind: stored(kind, folder) for kind in _SECTIONS}
    return {
        kind: newest_of_each_case(some)
        if kind in ("detection", "masks", "segmentation", "shell", "classification", "valor_detection", "evaluation")
        else some
        for kind, some in found.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Writes, or with ``--print`` shows, the page and the two tables of the README."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the stored results")
    parser.add_argument("--print", action="store_true", help="print the page and the tables, write nothing")
    arguments = parser.parse_args(argv)
    try:
        results, gpu = collected(arguments.results), gpu_table.newest(arguments.results)
    except gpu_table.BrokenResult as error:
        print(error, file=sys.stderr)
        return 1
    if not any(results.values()):
        print(f"no result of a full run in {arguments.results}: python -m benchmarks.run detection", file=sys.stderr)
        return 1
    if arguments.print:
        print("\n".join((page(results, gpu), readme_block(results), gpu_table.readme_block(gpu))))
        return 0
    arguments.readme.write_text(filled(arguments.readme.read_text(), results, gpu))
    arguments.page.write_text(page(results, gpu))
    return 0


if __name__ == "__main__":
    sys.exit(main())
