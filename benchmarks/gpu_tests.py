"""Tests with the mark ``gpu`` in a GPU check: pytest over several processes, and a check for each test that failed."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu_process, gpu_sanitizer
from benchmarks.checks import Checks, Disagreement, OutOfTime, Unavailable
from benchmarks.gpu_test_log import LOG, SCRATCH

TESTS = (
    "tests/test_contract.py",
    "tests/ops",
    "tests/coco/test_engine.py",
    "tests/coco/test_evaluator.py",
    "tests/coco/test_keypoints.py",
    "tests/coco/test_masks.py",
    "tests/coco/test_rotated.py",
    "tests/detection/test_mean_ap_errors.py",
    "tests/classification/test_cuda_plans.py",
    "tests/classification/test_ranking_metrics.py",
    "tests/classification/test_updates_cuda.py",
    "tests/segmentation/test_cuda_plans.py",
    "tests/segmentation/test_one_channel.py",
    "tests/benchmarks/test_gpu_streams.py",
    "tests/test_distributed.py",
    "tests/test_metric.py",
    "tests/test_state.py",
)
"""Paths of the tests with the mark ``gpu``, without those whose examples the section parity runs."""
MARK = "gpu"
PROCESSES = 8
"""Each holds a context of CUDA, about half a gigabyte of the device."""
CHECK = "tests with the mark gpu"
_NOTHING_LEFT = 5
"""Exit code of pytest where no test was collected, or all had passed before."""
DIAGNOSED, LEAST_DIAGNOSIS = 3, 15.0
"""So many tests that ended their process are run again under memcheck, if there are so many seconds for it."""
_ALONE = (sys.executable, "-m", "pytest", "-q", "-m", MARK, "-o", "filterwarnings=default")


@dataclass
class Outcomes:
    """Outcomes of tests by the log of :mod:`benchmarks.gpu_test_log`.

    Attributes:
        left: names of the tests that were to be run.
        passed: names of the tests that passed.
        failed: name to message, of those that failed.
        crashed: likewise, of those that ended their process.
        skipped: name to reason.
        begun: names of the tests that began.
    """

    left: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    crashed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    @staticmethod
    def read(path: Path, start: int = 0) -> Outcomes:
        """Returns the outcomes in a file from byte ``start`` on; lines that a kill has cut are left out."""
        found = Outcomes()
        lines = path.read_bytes()[start:].split(b"\n") if path.exists() else []
        for entry in filter(None, map(_entry, lines)):
            found.left = entry.get("left", found.left)
            if "begun" in entry:
                found._begin(entry["begun"])
            if "test" in entry:
                found._end(entry["test"], entry["outcome"], entry["detail"])
        return found

    def _begin(self, name: str) -> None:
        """Forgets the outcome of an earlier run."""
        self.begun.add(name)
        self.passed.discard(name)
        for outcomes in (self.failed, self.crashed, self.skipped):
            outcomes.pop(name, None)

    def _end(self, name: str, outcome: str, detail: str) -> None:
        if outcome == "passed":
            self.passed.add(name)
        elif name not in self.failed:  # a test that lost the device crashes after it has failed
            self.passed.discard(name)
            getattr(self, outcome)[name] = detail

    @property
    def unfinished(self) -> set[str]:
        """Names of the tests that began and left no outcome."""
        return self.begun - self.passed - {*self.failed, *self.crashed, *self.skipped}


def _entry(line: bytes) -> dict[str, Any]:
    try:
        entry: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return entry


def check_tests(
    checks: Checks, device: torch.device, left: Callable[[], float], logs: Path | None, reserve: float = 0.0
) -> None:
    """Runs the tests that need a CUDA device; each that failed becomes a check of its own.

    Args:
        checks: gets the outcomes.
        device: a CUDA device; on another one nothing is run.
        left: seconds before the deadline.
        logs: start of the paths of pytest's output and of the log of outcomes, from which a later call goes on.
        reserve: seconds before the deadline that the tests leave to others.
    """
    found = Outcomes()
    seconds = left() - reserve
    checks.run(CHECK, partial(_run, found, device, seconds, logs), seconds + 2 * gpu_process.PATIENCE)
    failed = {**found.crashed, **found.failed}
    records = {name: checks.fail(f"test {name}", text) for name, text in failed.items()}
    for name in list(found.crashed)[:DIAGNOSED]:
        room = min(left() - reserve, gpu_sanitizer.DIAGNOSIS_SECONDS)
        if room > LEAST_DIAGNOSIS:
            records[name]["diagnosis"] = gpu_sanitizer.diagnose([*_ALONE, name], room, logs)
            checks.save()


def _run(found: Outcomes, device: torch.device, seconds: float, logs: Path | None) -> None:
    if device.type != "cuda":
        raise Unavailable("the tests of the CPU are run by make test")
    if importlib.util.find_spec("pytest") is None:
        raise Unavailable("pytest is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        outcomes, problem = run_tests(TESTS, seconds, logs or Path(scratch, "gpu"))
    vars(found).update(vars(outcomes))
    counts = f"passed {len(found.passed):,}, failed {len(found.failed):,}, crashed {len(found.crashed):,}"
    if found.failed or found.crashed:
        raise Disagreement(f"{counts}; {problem or ''}".strip("; "))
    if problem:
        raise type(problem)(f"{counts}; {problem}")
    if not found.passed:
        raise Disagreement(f"no test passed: {counts}")
    if found.skipped:
        reasons = Counter(found.skipped.values()).most_common()
        raise Unavailable(f"{counts}; skipped {'; '.join(f'{count:,}: {reason}' for reason, count in reasons)}")


def run_tests(
    paths: Sequence[str], seconds: float, logs: Path, options: Sequence[str] = ()
) -> tuple[Outcomes, Exception | None]:
    """Runs tests with the mark ``gpu``; warnings of a torch that they were not written for are no errors.

    Args:
        paths: of the tests.
        seconds: after which pytest is killed.
        logs: start of the paths of pytest's output, which is kept as it comes, and of the log of outcomes. Tests that
            passed by that log are not run again.
        options: of pytest, beside the usual ones.

    Returns:
        Outcomes of this run, with the tests of earlier runs among ``passed``; and why it is not complete: OutOfTime, or
        Disagreement where pytest itself failed or collected no test.
    """
    log = logs.with_name(f"{logs.name}.tests.jsonl")
    earlier = Outcomes.read(log).passed
    start = log.stat().st_size if log.exists() else 0
    output = logs.with_name(f"{logs.name}.pytest.log")
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "passed").write_text("".join(f"{name}\n" for name in sorted(earlier)))
        variables = {LOG: str(log), SCRATCH: scratch, "PYTEST_XDIST_WORKER": ""}
        ended = gpu_process.run(_command(paths, options), seconds, output, variables)
    found = Outcomes.read(log, start)
    found.passed |= earlier
    if ended.code is None:
        return found, OutOfTime(f"pytest was stopped after {seconds:.0f} s: {output}")
    text = f"pytest ended with exit code {ended.code}: {ended.output[-3000:].strip()}"
    for name in found.unfinished:
        found.crashed[name] = text
    if ended.code not in (0, 1) and not (ended.code == _NOTHING_LEFT and earlier) and not found.crashed:
        return found, Disagreement(text)
    if missed := set(found.left) - found.begun:  # pytest-xdist gives up after many crashes
        return found, OutOfTime(f"pytest left {len(missed):,} tests out: {output}")
    return found, None


def _command(paths: Sequence[str], options: Sequence[str]) -> list[str]:
    several = importlib.util.find_spec("xdist") is not None
    spread = (
        ["-n", str(min(PROCESSES, os.cpu_count() or 1)), "--dist", "worksteal", "--max-worker-restart=1000"]
        if several
        else []
    )
    return [
        sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-m", MARK, "-o", "filterwarnings=default",
        "--tb=short", "--durations=5",
        "--continue-on-collection-errors", "-p", "benchmarks.gpu_test_log", *spread, *options, *paths,
    ]  # fmt: skip
