"""One measurement in a process of its own: ``python -m benchmarks.worker REQUEST``, a :class:`Request` as JSON."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import (
    baselines,
    classification_baselines,
    mask_baselines,
    mask_cases,
    scores,
    segmentation_cases,
    segmentation_objects,
    valor_baselines,
    valor_cases,
)
from benchmarks.baselines import Clock, Tool
from testing import datasets, formats

SUITES: dict[str, tuple[Mapping[str, Sequence[Tool]], Callable[[str, int, int, Path], Any]]] = {
    "detection": (baselines.TOOLS, lambda case, *rest: formats.cached(datasets.CASES[case], *rest)),
    "classification": (classification_baselines.TOOLS, lambda case, *rest: scores.cached(scores.CASES[case], *rest)),
    "masks": (mask_baselines.TOOLS, mask_cases.cached),
    "segmentation": (segmentation_objects.TOOLS, segmentation_cases.cached),
    "valor_detection": (valor_baselines.TOOLS, valor_cases.cached),
}
"""Engines of every benchmark, and what makes their data, from case, size, seed and folder."""


def measure(tool: Tool, files: Any) -> dict[str, Any]:
    """Import, prepare, run and read one engine.

    Returns:
        ``seconds`` of the run and of its ``phases``, ``cpu_seconds`` of all threads, ``peak_mb`` above the resident
        memory at the start of the run (null where the system does not report it), ``resident_mb`` at that start,
        ``import_seconds``, and the ``outcome``; or ``missing``, why the engine could not be imported.
    """
    start = time.perf_counter()
    try:
        prepare = tool.start()
    except ImportError as error:  # torchmetrics raises a ModuleNotFoundError of its own for a missing backend
        return {"missing": str(error).splitlines()[0]}
    imported = time.perf_counter() - start
    run = prepare(files)
    resident = _settle()
    clock, cpu = Clock(), time.process_time()
    start = time.perf_counter()
    finish = run(clock)
    seconds = time.perf_counter() - start
    cpu = time.process_time() - cpu
    peak = _status_mb("VmHWM")
    return {
        "seconds": seconds,
        "phases": clock.phases,
        "cpu_seconds": cpu,
        "peak_mb": None if resident is None or peak is None else peak - resident,
        "resident_mb": resident,
        "import_seconds": imported,
        "outcome": finish()._asdict(),
    }


def _settle() -> float | None:
    """Free what preparation left, reset the peak, and return the resident size in MB (None: unknown)."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # peak := resident size, man 5 proc
    except OSError:
        return None
    return _status_mb("VmRSS")


def _status_mb(name: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


class Request(NamedTuple):
    """What to measure, and the file that the JSON goes to.

    Attributes:
        suite: key of :data:`SUITES`.
        path: the way from data to numbers, key of its engines.
        tool: name of the engine.
        case: name of the case, generated at ``size`` from ``seed`` under ``folder``.
        threads: CPUs that the process may use.
    """

    suite: str
    path: str
    tool: str
    case: str
    size: int
    seed: int
    folder: str
    threads: int
    output: str


def main(text: str) -> None:
    """Measure and write the JSON that the parent reads."""
    request = Request(**json.loads(text))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: request.threads])
    tools, cached = SUITES[request.suite]
    tool = next(tool for tool in tools[request.path] if tool.name == request.tool)
    files = cached(request.case, request.size, request.seed, Path(request.folder))
    warnings.simplefilter("ignore")  # those of other engines
    with contextlib.redirect_stdout(io.StringIO()):
        measured = measure(tool, files)
    Path(request.output).write_text(json.dumps({**measured, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main(sys.argv[1])
