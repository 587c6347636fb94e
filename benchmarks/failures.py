"""The benchmark of runs whose judge fails for some prompts: how much longer all others take, and the run.

A judge on loopback answers after 50 ms, and with HTTP 500 to 2% of the prompts, always the same ones. The opponent is
the same run without failures, in turn, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.interleave import spread
from testing.datasets import ROOT

METRICS = ("gpt_coherence", "gpt_fluency", "violence", "sexual", "self_harm")
SHARE, DELAY = 0.02, 0.05
NONE, SOME = "no failures", "2% of the prompts always fail"


@dataclass(frozen=True)
class Case:
    """Rows, and by how many metrics each is judged."""

    rows: int
    metrics: int


CASES = {"500x5": Case(500, 5), "100x2": Case(100, 2)}


def ask(rows: int, metrics: int, share: float, store: Path) -> dict[str, Any]:
    """Seconds of a run, and until all scores had come that can be had."""
    import openai  # noqa: F401  # not counted

    from valor_gpu import evaluate
    from valor_gpu.judge import Progress

    ends: list[float] = []

    def note(progress: Progress) -> None:
        ends.extend([time.perf_counter() - start] * (progress.done - len(ends)))

    command = [sys.executable, "-m", "benchmarks.loopback", str(DELAY), str(share)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        try:
            assert server.stdout is not None
            judge = {"base_url": f"http://127.0.0.1:{int(server.stdout.readline())}/v1", "model": "stub"}
            data = [{"question": f"number {i}?", "answer": f"answer {i} in some words"} for i in range(rows)]
            start = time.perf_counter()
            result = evaluate(
                data=data, task_type="qa", metrics_list=METRICS[:metrics], model_config=judge, store=store,
                progress=note,
            )  # fmt: skip
            seconds = time.perf_counter() - start
        finally:
            server.kill()
    failed = sum(any(row[name] is None for name in METRICS[:metrics]) for row in result.rows)
    statuses = {row.get(f"{name}_status", "ok") for row in result.rows for name in METRICS[:metrics]}
    return {"seconds": seconds, "others": ends[rows - failed - 1], "failed": failed, "statuses": sorted(statuses)}


def measure(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The row without failures, and that with them."""
    case = CASES[name]
    rows = 40 if arguments.quick else case.rows
    past: dict[str, list[dict[str, Any]]] = {NONE: [], SOME: []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(arguments.repeats):
            for which in (NONE, SOME) if turn % 2 == 0 else (SOME, NONE):
                given = (rows, case.metrics, SHARE if which == SOME else 0.0, f"{folder}/{which}{turn}.sqlite")
                command = [sys.executable, "-W", "ignore", "-m", "benchmarks.failures", json.dumps(given)]
                done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
                past[which].append(json.loads(done.stdout))
                print(f"  {name} {which}: {past[which][-1]}", file=sys.stderr, flush=True)
    return [_row(name, which, rows * case.metrics, runs) for which, runs in past.items()]


def _row(name: str, which: str, scores: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    expected = [["ok"]] if which == NONE else [["ok", "server_error"], ["ok"]]
    right = all(run["statuses"] in expected for run in runs)
    numbers = {key: spread([run[key] for run in runs]) for key in ("seconds", "others")}
    head = {"case": name, "path": which, "scores": scores, "tool": OURS, "package": OURS}
    return {**head, "status": "ok" if right else "differs", "failed": runs[0]["failed"], **numbers}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    names = list(CASES) if arguments.case == "all" else [arguments.case]
    found = [row for name in names for row in measure(name, arguments)]
    choices = {name: getattr(arguments, name) for name in ("quick", "repeats")}
    return {"kind": "failures", **machine.describe((OURS, "openai")), **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """One Markdown table, and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    lines = [f"| scores | {NONE} | {SOME}: all others | the run |", "| --- | --- | --- | --- |"]
    for none, some in zip(rows[::2], rows[1::2]):
        base, others, end = none["seconds"]["median"], some["others"]["median"], some["seconds"]["median"]
        times = f"{others:.1f} s ({others / base:.2f}x) | {end:.1f} s ({end / base:.2f}x)"
        lines.append(f"| {none['scores']:,} | {base:.1f} s | {times} |")
    return "\n\n".join(["\n".join(lines), *map(_conditions, results)])


def _conditions(result: dict[str, Any]) -> str:
    return (
        f"Medians of {result['repeats']} processes, in turn. A judge on loopback answers after {DELAY * 1000:.0f} ms,"
        f" 8 requests at once, and to {SHARE:.0%} of the prompts always with HTTP 500."
        f" {result['machine']['processor']}, {result['machine']['cpus']} CPUs, Python {result['machine']['python']}."
        f" Commit {result['commit'][:10]}, {result['date'][:10]}."
    )


if __name__ == "__main__":
    rows, metrics, share, store = json.loads(sys.argv[1])
    print(json.dumps(ask(rows, metrics, share, Path(store))))
