"""The benchmark from the shell: wall time of a fresh process from COCO files to the twelve numbers, imports included.

Beside it stands the time in the process without imports, which :mod:`benchmarks.detection` measures and verifies. An
engine gets a number from the shell only if that agreed, and if what its process printed are the reference's numbers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.detection import PACKAGES, compare
from benchmarks.interleave import Plan, spread
from benchmarks.verify import REFERENCE, STATS
from testing import datasets, formats
from testing.datasets import ROOT
from testing.formats import Files

SCRIPT = "valor_gpu in a script"
_SLOW = ("faster-coco-eval", REFERENCE)
_QUICK_IMAGES = 50
_UNSET = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPROFILEIMPORTTIME")  # what an installed command lacks

_PROGRAM = """\
import sys
from {coco} import COCO
from {evaluator} import {name} as Evaluator
ground_truth = COCO(sys.argv[1])
run = Evaluator(ground_truth, ground_truth.loadRes(sys.argv[2]), "bbox")
run.evaluate()
run.accumulate()
run.summarize()
print(*(f"{{float(number):.3f}}" for number in run.stats[:12]))
"""


class Size(NamedTuple):
    """A dataset: its case, and how many images."""

    case: str
    images: int


CASES = {"100": Size("val2017", 100), "5k": Size("val2017", 5_000), "60k": Size("objects365", 60_000)}

_SCRIPTS = {
    SCRIPT: ("valor_gpu.coco", "valor_gpu.coco", "COCOeval"),
    "ultrafast-pycocotools": ("ultrafast_pycocotools", "ultrafast_pycocotools", "COCOeval"),
    "hotcoco": ("hotcoco", "hotcoco", "COCOeval"),
    "faster-coco-eval": ("faster_coco_eval", "faster_coco_eval", "COCOeval_faster"),
    REFERENCE: ("pycocotools.coco", "pycocotools.cocoeval", "COCOeval"),
}
TOOLS = (OURS, *_SCRIPTS)
"""``valor_gpu`` is the command ``valor-gpu detect``, the others are scripts with the classes of pycocotools."""


def command(tool: str, files: Files) -> list[str]:
    """What the shell runs."""
    if tool == OURS:
        return [sys.executable, "-m", "valor_gpu", "detect", "--gt", str(files.gt), "--dt", str(files.dt)]
    coco, evaluator, name = _SCRIPTS[tool]
    program = _PROGRAM.format(coco=coco, evaluator=evaluator, name=name)
    return [sys.executable, "-c", program, str(files.gt), str(files.dt)]


def printed_numbers(text: str) -> list[str]:
    """The twelve numbers with three digits, from the lines of a summary or from the last line of a script."""
    lines = text.strip().splitlines() or [""]
    last = lines[-1].split()
    summary = re.findall(r"maxDets=.* = (-?\d+\.\d{3})$", text, re.MULTILINE)
    return last if len(last) == len(STATS) and re.fullmatch(r"(-?\d\.\d{3}\s*)+", lines[-1]) else summary


def run_once(tool: str, files: Files, threads: int) -> dict[str, Any]:
    """One process: its ``seconds`` and the ``numbers`` it printed, or ``failed`` with the reason."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET} | limits
    start = time.perf_counter()
    done = subprocess.run(command(tool, files), cwd=ROOT, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        return {"failed": f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}"}
    return {"seconds": seconds, "numbers": printed_numbers(done.stdout), "load": os.getloadavg()[0]}


def interleaved(tools: Sequence[str], files: Files, plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """All runs, round-robin, after one of each that is not counted and leaves files and bytecode in the cache."""
    runs: dict[str, list[dict[str, Any]]] = {tool: [] for tool in tools}
    for turn in range(plan.repeats + 1):
        for tool in tools if turn % 2 == 0 else reversed(tools):
            slow = tool in _SLOW
            past = runs[tool]
            if (slow and turn >= plan.slow_repeats) or (past and "failed" in past[-1]):
                continue
            got = run_once(tool, files, plan.threads)
            if turn or slow or "failed" in got:
                past.append(got)
            print(f"  shell {tool}: {got.get('seconds', got.get('failed'))}", file=sys.stderr, flush=True)
    return runs


def rows(warm: dict[str, dict[str, Any]], runs: dict[str, list[dict[str, Any]]], head: dict[str, Any]) -> list[Any]:
    """One row per tool.

    Args:
        warm: rows of :func:`benchmarks.detection.compare` by tool.
        runs: what :func:`interleaved` gave.
        head: what all rows begin with.
    """
    peers = [tool for tool in reversed(_SCRIPTS) if tool != SCRIPT and runs.get(tool)]
    expected = next((runs[tool][0]["numbers"] for tool in peers if "numbers" in runs[tool][0]), None)
    out = []
    for tool in TOOLS:
        inside = warm.get(_inside(tool), {"status": "missing"})
        row = {**head, "path": "shell", "tool": tool, "package": inside.get("package", OURS)}
        past = runs.get(tool, [])
        failed = next((run["failed"] for run in past if "failed" in run), None)
        if inside["status"] != "ok":
            row |= {"status": inside["status"], "reason": inside.get("reason", "")}
        elif failed is not None:
            row |= {"status": "failed", "reason": failed}
        elif not past or expected is None:
            row |= {"status": "not run" if not past else "unverified"}
        elif any(run["numbers"] != expected for run in past):
            row |= {"status": "mismatch", "reason": f"prints other numbers than {expected}"}
        else:
            seconds = {"seconds": spread([run["seconds"] for run in past]), "without_imports": inside["seconds"]}
            row |= {"status": "ok", **seconds, "parity": inside["parity"], "peak_mb": None}
            row["load"] = [run["load"] for run in past]
        out.append(row)
    return out


def _inside(tool: str) -> str:
    """The engine behind a tool."""
    return OURS if tool == SCRIPT else tool


def measure(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all tools at one size."""
    size = CASES[name]
    images = min(_QUICK_IMAGES, size.images) if arguments.quick else size.images
    case, big = datasets.CASES[size.case], size.case != "val2017" and not arguments.quick
    plan = Plan(
        case, images, arguments.data, arguments.threads, arguments.repeats, arguments.slow_repeats, big,
        arguments.seed,
    )  # fmt: skip
    print(f"shell {name}: {images} images", file=sys.stderr, flush=True)
    files = formats.cached(case, images, arguments.seed, arguments.data)
    warm = {row["tool"]: row for row in compare("files", plan)}
    able = [tool for tool in TOOLS if warm.get(_inside(tool), {}).get("status") == "ok"]
    return rows(warm, interleaved(able, files, plan), {"case": name, "images": images})


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All sizes asked for, as the JSON that is stored."""
    names = list(CASES) if arguments.case == "all" else [arguments.case]
    found = [row for name in names for row in measure(name, arguments)]
    choices = {"quick": arguments.quick, "threads": arguments.threads, "repeats": arguments.repeats}
    about = machine.describe(PACKAGES)
    return {"kind": "shell", **about, **choices, "slow_repeats": arguments.slow_repeats, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """One Markdown table, tools by sizes, and how the numbers were measured."""
    found = [row for result in results for row in result["rows"]]
    cases = {row["case"]: row["images"] for row in sorted(found, key=lambda row: int(row["images"]))}
    lines = [f"| COCO files to AP, from the shell | {' | '.join(f'{size:,} images' for size in cases.values())} |"]
    lines.append("| --- |" + " --- |" * len(cases))
    for tool in TOOLS:
        mine = {row["case"]: row for row in found if row["tool"] == tool}
        cells = [_cell(mine.get(case), [row for row in found if row["case"] == case]) for case in cases]
        lines.append(f"| {'`valor-gpu detect`' if tool == OURS else tool} | {' | '.join(cells)} |")
    return "\n\n".join(["\n".join(lines), *map(_conditions, results)])


def _cell(row: dict[str, Any] | None, rows: Sequence[dict[str, Any]]) -> str:
    if row is None or row["status"] != "ok":
        return "" if row is None else str(row["status"])
    ours = next((r for r in rows if r["tool"] == OURS and r["status"] == "ok"), row)
    seconds, inside = row["seconds"]["median"], row["without_imports"]["median"]
    text = f"{_figures(seconds)} s" if row is not ours else f"**{_figures(seconds)} s**"
    times = "" if row is ours else f" ({seconds / ours['seconds']['median']:.1f}x)"
    return f"{text}{times}; {_figures(inside)} s"


def _figures(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.3g}"


def _conditions(result: dict[str, Any]) -> str:
    about, versions = result["machine"], result["versions"]
    names = ", ".join(f"{k} {v}" for k, v in versions.items() if v and k in {r["package"] for r in result["rows"]})
    return (
        "First the wall time of a fresh process, Python's start and all imports included, then the time in the process"
        " after the imports: medians of"
        f" {result['repeats']} runs ({result['slow_repeats']} of the slow engines), engines interleaved, files in the"
        f" system's cache, {result['threads']} threads, {about['processor']}, Python {about['python']}. The other"
        " engines, and the second row, are scripts with the classes of pycocotools; all print the same twelve numbers."
        f" {names}, numpy {versions['numpy']}. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
