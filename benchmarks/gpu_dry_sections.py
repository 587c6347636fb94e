"""``python -m benchmarks.gpu_dry_sections FILE``: all sections of a GPU check on the CPU, with small data.

FILE gets the record, which ``tools.gpu_dry_run`` reads.
"""

from __future__ import annotations

import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu_masks, gpu_sections
from benchmarks.gpu_classification import Load
from benchmarks.gpu_record import store
from benchmarks.gpu_timing import Work
from testing.datasets import CASES, make

IMAGES = 30
_LOAD = Load(rows=600, classes=20, batch=256, repeats=2, most_exact=500)
_COPY_BYTES = 1 << 16


def run(path: Path) -> None:
    """Runs the sections in this process; the record is stored as a GPU check stores it."""
    scene = make(CASES["val2017"], IMAGES)
    # The section of masks chooses its own sizes, which take minutes on a CPU.
    gpu_sections.make = lambda *_: scene  # type: ignore[assignment]
    gpu_masks.time_masks = partial(gpu_masks.time_masks, images=2)
    works = [Work(f"{IMAGES} images", scene, 60, 60, compute_device_target=60, compute_host_target=60, repeats=2)]
    setup = gpu_sections.Setup(torch.device("cpu"), True, lambda: works, _LOAD, _COPY_BYTES)
    record: dict[str, Any] = {"sections": {}}
    for name in gpu_sections.SECTIONS:
        _run_section(name, setup, record, path)
    store(record, path)


def _run_section(name: str, setup: gpu_sections.Setup, record: dict[str, Any], path: Path) -> None:
    """Runs a section; an error, which in a GPU check would end the process, becomes its only check."""
    try:
        gpu_sections.run_sections((name,), setup, record, lambda now: store(now, path))
    except Exception:
        check = {"name": f"process of section {name}", "outcome": "fail", "detail": traceback.format_exc()}
        record["sections"][name] = {"seconds": 0.0, "checks": [check]}


if __name__ == "__main__":
    run(Path(sys.argv[1]))
