"""The benchmark of evaluation runs: valor_gpu and azure-ai-evaluation on the same rows, each in a process of its own.

azure-ai-evaluation runs in the environment that :mod:`benchmarks.azure_environment` makes. Both processes are cut off
from any network. Seconds are those after the imports; a row's values must agree before a time is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import azure_environment, machine
from benchmarks.baselines import OURS
from benchmarks.interleave import spread
from testing.datasets import ROOT

AZURE = azure_environment.PACKAGE
_TOLERANCE, _QUICK_ROWS, _WORDS = 1e-12, 40, 30
_WORKERS = {
    OURS: lambda data: [sys.executable, "-m", "benchmarks.evaluation_worker"],
    AZURE: lambda data: [str(azure_environment.make(data)), str(ROOT / "benchmarks" / "azure_worker.py")],
}

F1, ROUGE, BOTH, RUN = "F1", "ROUGE-L", "F1 and ROUGE-L", "evaluate() with storage"
ASK, LIMIT = "judge of 100 ms, 32 requests at once", "no overhead"
_DELAY, _AT_ONCE = 0.1, 32
_METRICS = {F1: ["f1_score"], ROUGE: ["rougeL"], BOTH: ["f1_score", "rougeL"], RUN: ["f1_score", "rougeL"]}


@dataclass(frozen=True)
class Case:
    """Rows to score, and by what.

    Attributes:
        rows: how many.
        works: keys of what is computed.
        beyond_ascii: a word in ten has a letter beyond ASCII.
    """

    rows: int
    works: tuple[str, ...]
    beyond_ascii: bool = False

    def title(self, rows: int) -> str:
        """How so many rows of it are called in a table."""
        return f"{rows:,} rows of {_WORDS} words" + (", some with accents" if self.beyond_ascii else "")


CASES = {
    "20k": Case(20_000, (F1, ROUGE, BOTH, RUN)),
    "20k-accents": Case(20_000, (F1, ROUGE), beyond_ascii=True),
    "1k": Case(1_000, (RUN,)),
    "10": Case(10, (RUN,)),
    "requests": Case(3_200, (ASK,)),
}


def texts(case: Case, rows: int, seed: int) -> Iterator[dict[str, str]]:
    """Responses and ground truths of words whose frequencies fall like 1 / rank; six words in ten agree."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["the", "a", "an", *("".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(3000))]
    if case.beyond_ascii:
        words = [word + "é" if i % 10 == 0 else word for i, word in enumerate(words)]
    weights = [1 / (i + 1) for i in range(len(words))]
    for _ in range(rows):
        meant = rng.choices(words, weights, k=_WORDS)
        said = [word if rng.random() < 0.6 else rng.choice(words) for word in meant]
        yield {"response": _sentence(said), "ground_truth": _sentence(meant)}


def _sentence(words: list[str]) -> str:
    half = len(words) // 2
    return f"{' '.join(words[:half]).capitalize()}, {' '.join(words[half:])}."


def run_once(tool: str, task: dict[str, Any], folder: Path, data: Path) -> dict[str, Any]:
    """One process: what it printed and how long it lived, or ``failed`` with the reason."""
    output = Path(tempfile.mkdtemp(dir=folder)) / "result"
    path = folder / "task.json"
    path.write_text(json.dumps({**task, "output": str(output)}))
    command = [*_WORKERS[tool](data), str(path)]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        return {"failed": f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}"}
    return {**json.loads(done.stdout.splitlines()[-1]), "process_seconds": seconds, "load": os.getloadavg()[0]}


def measure(name: str, work: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Our row and that of azure-ai-evaluation, processes in turn."""
    case = CASES[name]
    rows = min(_QUICK_ROWS, case.rows) if arguments.quick else case.rows
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = folder / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in texts(case, rows, arguments.seed)))
        task = {"work": "evaluate" if work == RUN else "evaluators", "data": str(data), "metrics": _METRICS[work]}
        runs: dict[str, list[dict[str, Any]]] = {OURS: [], AZURE: []}
        for turn in range(arguments.repeats):
            for tool in (OURS, AZURE) if turn % 2 == 0 else (AZURE, OURS):
                if turn < (arguments.slow_repeats if tool == AZURE and rows > 5_000 else arguments.repeats):
                    runs[tool].append(run_once(tool, task, folder, arguments.data))
                    took = runs[tool][-1].get("seconds", runs[tool][-1].get("failed"))
                    print(f"  {name} {work}, {tool}: {took}", file=sys.stderr, flush=True)
    expected = runs[AZURE][0].get("values")
    head = {"case": name, "path": work, "rows": rows}
    return [{**head, "tool": tool, "package": tool, **_row(past, expected)} for tool, past in runs.items()]


def measure_requests(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Our row, and what requests take that wait for nothing but the judge."""
    rows = 2 * _AT_ONCE if arguments.quick else CASES[name].rows
    task = {"work": "requests", "rows": rows, "delay": _DELAY, "at_once": _AT_ONCE, "data": ""}
    with tempfile.TemporaryDirectory() as temporary:
        past = [run_once(OURS, task, Path(temporary), arguments.data) for _ in range(arguments.repeats)]
    head = {"case": name, "path": ASK, "rows": rows}
    floor = {"status": "ok", "seconds": spread([rows / _AT_ONCE * _DELAY]), "peak_mb": None}
    ours = _row(past, {"gpt_fluency": [4.0] * rows})
    return [{**head, "tool": OURS, "package": OURS, **ours}, {**head, "tool": LIMIT, "package": OURS, **floor}]


def _row(past: list[dict[str, Any]], expected: dict[str, list[float]] | None) -> dict[str, Any]:
    failed = next((run["failed"] for run in past if "failed" in run), None)
    if failed is not None:
        return {"status": "failed", "reason": failed}
    if expected is None:
        return {"status": "unverified"}
    gap = max(_gap(run["values"], expected) for run in past)
    if gap > _TOLERANCE:
        return {"status": f"differs by {gap:.1e}"}
    numbers = ("seconds", "cpu_seconds", "process_seconds", "peak_mb")
    refused = sorted({address for run in past for address in run["refused"]})
    return {
        "status": "ok",
        **{key: spread([run[key] for run in past]) for key in numbers},
        "refused": refused,
        "load": [run["load"] for run in past],
    }


def _gap(found: dict[str, list[float]], expected: dict[str, list[float]]) -> float:
    """Largest difference of a row's value; infinite where there are other rows or none."""
    if {name: len(values) for name, values in found.items()} != {name: len(v) for name, v in expected.items()}:
        return float("inf")
    pairs = (pair for name, values in expected.items() for pair in zip(found[name], values))
    return max(
        (abs(a - b) if a is not None and a == a and b == b else float("inf") for a, b in pairs), default=float("inf")
    )


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    names = list(CASES) if arguments.case == "all" else [arguments.case]
    found = [
        row
        for name in names
        for work in CASES[name].works
        for row in (measure_requests(name, arguments) if work == ASK else measure(name, work, arguments))
    ]
    about = machine.describe((OURS, "numpy"))
    about["versions"][AZURE] = azure_environment.VERSION
    choices = {name: getattr(arguments, name) for name in ("quick", "repeats", "slow_repeats")}
    return {"kind": "evaluation", **about, **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """One Markdown table, and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    lines = [f"| | {OURS} | {AZURE} |", "| --- | --- | --- |"]
    for ours, theirs in zip(rows[::2], rows[1::2]):
        if ours["path"] == ASK:
            lines.append(f"| evaluate(), {ours['rows']:,} requests, {ASK} | {_rate(ours)} | {LIMIT}: {_rate(theirs)} |")
            continue
        title = f"{ours['path']}, {CASES[ours['case']].title(ours['rows'])}"
        lines.append(f"| {title} | {_cell(ours, ours)} | {_cell(theirs, ours)} |")
    return "\n\n".join(["\n".join(lines), *map(_conditions, results)])


def _rate(row: dict[str, Any]) -> str:
    return f"{row['rows'] / row['seconds']['median']:.0f} requests/s" if row["status"] == "ok" else str(row["status"])


def _cell(row: dict[str, Any], ours: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    seconds, memory = (
        row["seconds"]["median"],
        "no peak" if row["peak_mb"] is None else f"{row['peak_mb']['median']:.0f} MB",
    )
    process = f", process {row['process_seconds']['median']:.3g} s" if row["path"] == RUN else ""
    if row is ours:
        return f"**{seconds:.3g} s**{process}, {memory}"
    times = f" ({seconds / ours['seconds']['median']:.0f}x)" if ours["status"] == "ok" else ""
    return f"{seconds:.3g} s{times}{process}, {memory}"


def _conditions(result: dict[str, Any]) -> str:
    return (
        f"Medians of {result['repeats']} processes ({result['slow_repeats']} of {AZURE} beyond 5,000 rows), in turn,"
        " cut off from any network; seconds count from after the imports, those of a process from its start, megabytes"
        " are the peak of the process. Evaluators are called row by row there, in portions of 1,000 rows here;"
        " evaluate() reads JSON lines, scores by F1 and ROUGE-L, and stores: there a JSON file, here the store, rows,"
        f" summary and report. {AZURE} waits about a second in every evaluate()."
        f" Every row's values agree within {_TOLERANCE:.0e}."
        f" {result['machine']['processor']}, {result['machine']['cpus']} CPUs, Python {result['machine']['python']};"
        f" {AZURE} {result['versions'][AZURE]}. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
