"""CPU seconds of engines that run in turn, each in a process of its own; their imports and preparation not counted."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.interleave import spread
from testing.datasets import ROOT

NUMBERS = ("seconds", "cpu", "memory_mb")


def clocked(run: Callable[[], Any]) -> dict[str, Any]:
    """Returns the CPU and wall seconds of a call, and the peak of memory above that before, in MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    number = run()
    found = {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - wall}
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {**found, "memory_mb": memory, "number": number}


def measure_in_turn(
    module: str, case: str, engines: Sequence[str], given: Sequence[Any], arguments: argparse.Namespace
) -> dict[str, list[dict[str, Any]] | str]:
    """Runs engines forwards and backwards, as often as ``arguments.repeats`` says.

    Args:
        module: run as ``python -m module JSON``; its last line is the JSON of :func:`clocked`, and more.
        case: the first argument of the process.
        engines: the second.
        given: what follows.
        arguments: of the command line.

    Returns:
        Of each engine its runs, or why it has none.
    """
    past: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
    missing: dict[str, str] = {}
    threads = {name: str(arguments.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
    for turn in range(arguments.repeats):
        for engine in [*past][:: 1 if turn % 2 == 0 else -1]:
            if engine in missing:
                continue
            command = [sys.executable, "-W", "ignore", "-m", module, json.dumps([case, engine, *given])]
            environment = {**os.environ, **threads}
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                missing[engine] = (done.stderr.strip().splitlines() or ["no message"])[-1]
                continue
            past[engine].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"  {case} {engine}: {past[engine][-1]}", file=sys.stderr, flush=True)
    return {engine: missing.get(engine) or runs or "no run" for engine, runs in past.items()}


def row_of(head: dict[str, Any], runs: list[dict[str, Any]] | str) -> dict[str, Any]:
    """Returns the stored row of an engine: medians and spreads, or why there are none."""
    if isinstance(runs, str):
        return {**head, "status": "not run", "reason": runs}
    return {**head, "status": "ok", **{key: spread([run[key] for run in runs]) for key in NUMBERS}}


def conditions(result: dict[str, Any], text: str) -> str:
    """Returns how the numbers were measured, after ``text`` on what they are of."""
    versions = result.get("versions", {})
    return (
        f"Median CPU seconds of {result['repeats']} processes, in turn, {text}"
        f" {result['machine']['processor']}, {result['machine']['cpus']} CPUs, Python {result['machine']['python']}"
        f"{''.join(f', {name} {version}' for name, version in versions.items() if version)}."
        f" Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
