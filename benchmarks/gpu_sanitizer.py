"""compute-sanitizer in a GPU check: every op and the metric on small examples, and one program that broke.

Only kernels with ``valor`` in their names are looked at: those of C++ lie in that namespace, those of Triton begin so.
A kernel that serves nothing where the CUDA library is, such as Triton's of ``count_logits``, runs beside the one that
does.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import gpu_parity, gpu_process
from benchmarks.checks import Checks, Disagreement, OutOfTime, Unavailable
from testing.parity import differences
from testing.registry import ROWS, call, place
from testing.scenes import random_scene

TOOLS = ("memcheck", "racecheck")
HALVES = ("1/2", "2/2")
"""Of the ops: a tool looks at either in a program of its own, so that one that takes too long leaves the other."""
FOUND = 86
"""Exit code that compute-sanitizer gives when it found something."""
DIAGNOSIS_SECONDS = 60.0
_EXAMPLES = 3  # of each op
_FIRST_PORT, _PORTS = 49152, 64  # by default compute-sanitizer takes 10 from there
_CLEAN = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # so that every tensor has bounds of its own
_REFUSED = "not supported|Unable to|Failed to initialize|Internal Sanitizer Error|Target application terminated before"
_REPORT = re.compile(r"^========= +(Invalid|Misaligned|Program hit|Race|(Error|Warning): Race|Barrier|Uninitialized)\b")
_ENDED = "the small case has ended"
"""Said by the small case: compute-sanitizer gives 0 also for a program that ended ahead of its first call of CUDA."""
_NOTHING = "ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards"


def check_sanitizers(checks: Checks, left: Callable[[], float], logs: Path | None) -> None:
    """Each half of the ops under each tool, all at once: most of the time goes into importing torch under a tool.

    Args:
        checks: gets the outcomes.
        left: seconds before the deadline.
        logs: start of the paths of the tools' output, None: it is not kept.
    """
    works = {f"compute-sanitizer {tool}, ops {half}": (tool, half) for half in HALVES for tool in TOOLS}
    wanted = {name: work for name, work in works.items() if checks.wants(name)}
    seconds = left()
    with ThreadPoolExecutor(len(works)) as pool:
        begun = {name: pool.submit(sanitize, *work, seconds, logs) for name, work in wanted.items()}
        for name in works:
            checks.run(name, lambda name=name: begun[name].result(), seconds + 2 * gpu_process.PATIENCE)


def sanitize(tool: str, half: str, seconds: float, logs: Path | None = None) -> None:
    """Runs the small case under a tool of compute-sanitizer.

    Args:
        tool: of ``TOOLS``.
        half: of ``HALVES``.
        seconds: after which it is stopped.
        logs: see :func:`check_sanitizers`.

    Raises:
        Unavailable: no compute-sanitizer, or it does not work on this device.
        OutOfTime: it was stopped.
        Disagreement: it found something.
    """
    program = find()
    if program is None:
        raise Unavailable("compute-sanitizer is not in PATH nor in CUDA_HOME/bin")
    number = TOOLS.index(tool) + len(TOOLS) * HALVES.index(half)
    command = [*_tool(program, tool, number), sys.executable, "-m", "benchmarks.gpu_check", "--small-case", half]
    ended = gpu_process.run(command, seconds, _log(logs, f"{tool}-{half[0]}"), _CLEAN)
    if ended.code is None:
        raise OutOfTime(f"compute-sanitizer was stopped after {seconds:.0f} s")
    judge(ended.code, ended.output)


def find() -> str | None:
    """Returns the path of compute-sanitizer, None where it is not installed."""
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "compute-sanitizer"
    return shutil.which("compute-sanitizer") or (str(home) if home.exists() else None)


def _tool(program: str, tool: str, number: int) -> list[str]:
    """The start of a command; those that run at once have other numbers, so that their ports differ."""
    command = [program, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all"]
    command += ["--kernel-name", "kns=valor"]
    command += ["--port", str(_FIRST_PORT + number * _PORTS), "--max-connections", str(_PORTS)]
    if tool == "memcheck":
        command += ["--report-api-errors", "no"]  # torch probes the driver, and errs on purpose
    return command


def _log(logs: Path | None, name: str) -> Path | None:
    return None if logs is None else logs.with_name(f"{logs.name}.{name}.log")


def judge(code: int, output: str) -> None:
    """Raises unless the small case came to its end and the tool found nothing; see :func:`sanitize`."""
    if report := first_report(output):
        raise Disagreement(report)
    if code == 0 and _ENDED in output and re.search(_NOTHING, output):
        return
    tail = "\n".join(output.strip().splitlines()[-12:])
    if code != FOUND and re.search(_REFUSED, output):
        raise Unavailable(f"compute-sanitizer does not work here: {tail}")
    raise Disagreement(f"exit code {code}: {tail}")


def first_report(output: str) -> str:
    """Returns the first report of compute-sanitizer: kernel, address, thread; empty where it has none."""
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if _REPORT.match(line)), None)
    if start is None:
        return ""
    end = next((i for i, line in enumerate(lines[start + 1 :], start + 1) if line.strip() == "========="), len(lines))
    return "\n".join(line.removeprefix("=========").strip() for line in lines[start:end][:12])


def diagnose(
    command: Sequence[str], seconds: float, logs: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Runs a program that broke the device once more under memcheck, each kernel waiting for the one before.

    Args:
        command: of the program.
        seconds: after which it is stopped.
        logs: see :func:`check_sanitizers`.
        environment: more variables of the program.

    Returns:
        The first report of memcheck: kernel, address and thread; the end of the output where it has none.
    """
    program = find()
    variables = {**_CLEAN, "CUDA_LAUNCH_BLOCKING": "1", **(environment or {})}
    tried = [*_tool(program, "memcheck", len(TOOLS) * len(HALVES)), *command] if program else list(command)
    ended = gpu_process.run(tried, seconds, _log(logs, "diagnosis"), variables)
    how = f"stopped after {seconds:.0f} s" if ended.code is None else gpu_process.ending(ended.code)
    by = "under memcheck" if program else "without memcheck: compute-sanitizer is not installed"
    report = first_report(ended.output) or gpu_process.last_words(ended.output)
    return f"rerun alone {by}, {how}: {report}"


def small_case(device: torch.device, half: str) -> int:
    """Runs the first examples of half of the ops by all their kernels, with the second half the metric on one scene."""
    checks, place = Checks(), HALVES.index(half)
    for name, row in islice(ROWS.items(), place, None, len(HALVES)):
        checks.run(f"op {name}", partial(_call, row, device))
        for kind, kernel in row.others if _runs_others(device) else ():
            checks.run(f"op {name} by {kind}", partial(_call_other, row, kernel, device))
    if place:
        sides = gpu_parity.as_lists(random_scene(np.random.default_rng(1), images=17, most=9), 1)
        checks.run("metric", lambda: gpu_parity.run_metric([gpu_parity.on(device, sides)], device))
    print(f"{_ENDED}: {len(checks.records)} calls on {device}", flush=True)
    return 1 if checks.failed else 0


def _call(row: gpu_parity.Row, device: torch.device) -> None:
    for example in islice(row.examples(True), _EXAMPLES):
        if text := gpu_parity.disagreement(row, example, device):
            raise Disagreement(f"{example.name}: {text}")


def _runs_others(device: torch.device) -> bool:
    """Whether Triton can run there: on a GPU, or in its interpreter, which tests choose."""
    return device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"


def _call_other(row: gpu_parity.Row, kernel: Callable[..., Any], device: torch.device) -> None:
    for example in islice(row.examples(True), _EXAMPLES):
        expected = row.defined(call(row.op)(*example.arguments))
        if text := differences(row.defined(kernel(*place(row, example, device))), expected):
            raise Disagreement(f"{example.name}: {text}")
