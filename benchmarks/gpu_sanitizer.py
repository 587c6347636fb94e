"""compute-sanitizer in a GPU check: every op and the metric on small examples, our kernels alone looked at."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from benchmarks import gpu_parity
from benchmarks.checks import Checks, Disagreement, Unavailable
from testing.datasets import ROOT
from testing.registry import ROWS
from testing.scenes import random_scene

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND = 86
"""Exit code that compute-sanitizer gives when it found something."""
SECONDS = 120
"""One tool may take so long."""
_EXAMPLES = 3  # of each op


def sanitize(tool: str, seconds: float = SECONDS) -> None:
    """The small case under one tool of compute-sanitizer.

    Args:
        tool: of ``TOOLS``.
        seconds: after which it is given up.

    Raises:
        Unavailable: no compute-sanitizer, it does not work on this device, or it took too long.
        Disagreement: it found something.
    """
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "compute-sanitizer"
    program = shutil.which("compute-sanitizer") or (str(home) if home.exists() else None)
    if program is None:
        raise Unavailable("compute-sanitizer is not in PATH nor in CUDA_HOME/bin")
    command = [program, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all"]
    command += ["--kernel-regex", "kns=valor", "--require-cuda-init", "no"]
    if tool == "memcheck":
        command += ["--report-api-errors", "no"]  # torch probes the driver, and errs on purpose
    command += [sys.executable, "-m", "benchmarks.gpu_check", "--small-case"]
    plain_memory = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # so that every tensor has bounds of its own
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **plain_memory}, timeout=seconds,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"compute-sanitizer took more than {seconds:.0f} s") from None
    judge(done.returncode, done.stdout)


def judge(code: int, output: str) -> None:
    """Raise unless a run of compute-sanitizer found nothing; see :func:`sanitize`."""
    tail = "\n".join(output.strip().splitlines()[-12:])
    if code == 0:
        return
    if code != FOUND and re.search("not supported|Unable to|Failed to initialize", output):
        raise Unavailable(f"compute-sanitizer does not work here: {tail}")
    raise Disagreement(f"exit code {code}: {tail}")


def small_case(device: torch.device) -> int:
    """The first examples of every op, and the metric on one scene: what runs under compute-sanitizer."""
    checks = Checks()
    for name, row in ROWS.items():
        checks.run(f"op {name}", lambda row=row: _call(row, device))  # type: ignore[misc]
    sides = gpu_parity.as_lists(random_scene(np.random.default_rng(1), images=17, most=9), 1)
    checks.run("metric", lambda: gpu_parity.run_metric([gpu_parity.on(device, sides)], device))
    return 1 if checks.failed else 0


def _call(row: gpu_parity.Row, device: torch.device) -> None:
    for example in islice(row.examples(True), _EXAMPLES):
        if text := gpu_parity.disagreement(row, example, device):
            raise Disagreement(f"{example.name}: {text}")
