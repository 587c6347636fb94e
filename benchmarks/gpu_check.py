"""``python -m benchmarks.gpu_check``: is valor_gpu right on this GPU, does ``update`` ever wait, how fast is it?

Parity of every op with its reference and with the CPU kernel, the metric with the CPU, synchronisation, timings, and
compute-sanitizer where it exists. Without a CUDA device it says so, runs nothing and exits 0. Every check is recorded;
a failure is printed at once and again at the end, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import gpu_classification, machine
from benchmarks.checks import Checks, Disagreement, Unavailable
from benchmarks.gpu_classification import Load, time_classification
from benchmarks.gpu_parity import as_lists, check_metric, check_ops, check_waiting, on, run_metric
from benchmarks.gpu_timing import (
    COPY_BYTES,
    Timing,
    Work,
    profile,
    time_metric,
    time_ops,
    time_phases,
    time_torchmetrics,
)
from testing.datasets import CASES, ROOT, make
from testing.scenes import random_scene
from valor_gpu import native
from valor_gpu.ops import backends

PACKAGES = ("valor_gpu", "torch", "triton", "numpy", "torchmetrics", "torchvision", "pycocotools", "faster-coco-eval")
FOUND = 86  # exit code that compute-sanitizer gives when it found something
_SANITIZER_SECONDS = 240
_PEER_IMAGES = 64  # torchmetrics in plain torch takes tens of milliseconds per image


def sanitize(tool: str) -> None:
    """A small case under one tool of compute-sanitizer.

    Raises:
        Unavailable: no compute-sanitizer, or it does not work on this device.
        Disagreement: it found something.
    """
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "compute-sanitizer"
    program = shutil.which("compute-sanitizer") or (str(home) if home.exists() else None)
    if program is None:
        raise Unavailable("compute-sanitizer is not in PATH nor in CUDA_HOME/bin")
    command = [program, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all"]
    command += [sys.executable, "-m", "benchmarks.gpu_check", "--small-case"]
    plain_memory = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # so that every tensor has bounds of its own
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **plain_memory}, timeout=_SANITIZER_SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"compute-sanitizer took more than {_SANITIZER_SECONDS} s") from None
    judge_sanitizer(done.returncode, done.stdout)


def judge_sanitizer(code: int, output: str) -> None:
    """Raise unless a run of compute-sanitizer found nothing; see :func:`sanitize`."""
    tail = "\n".join(output.strip().splitlines()[-12:])
    if code == 0:
        return
    if code != FOUND and re.search("not supported|Unable to|Failed to initialize", output):
        raise Unavailable(f"compute-sanitizer does not work here: {tail}")
    raise Disagreement(f"exit code {code}: {tail}")


def small_case(device: torch.device) -> int:
    """Each op on small examples and the metric on one scene: what runs under compute-sanitizer."""
    checks = Checks()
    check_ops(checks, device, quick=True)
    scene = random_scene(np.random.default_rng(1), images=16)
    checks.run("metric", lambda: run_metric([on(device, as_lists(scene, 1))], device))
    return 1 if checks.failed else 0


def collect(
    device: torch.device, quick: bool, works: Sequence[Work], copy_size: int = COPY_BYTES, load: Load | None = None
) -> dict[str, Any]:
    """All checks and timings on ``device``.

    Args:
        device: a CUDA device, or the CPU, on which everything but the CUDA calls runs too.
        quick: fewer and smaller examples.
        works: datasets to time; the first also gives phases, kernels, ops and torchmetrics.
        copy_size: bytes of the copy that measures the bandwidth.
        load: scores to time classification on, None for none.
    """
    checks = Checks()
    timings: list[Timing] = []
    phases: list[Timing] = []
    launches: list[Timing] = []
    ops: list[Timing] = []
    if device.type == "cuda":
        for tool in ("memcheck", "racecheck"):
            checks.run(f"compute-sanitizer {tool}", partial(sanitize, tool))
    check_ops(checks, device, quick)
    check_metric(checks, device, 2 if quick else 8)
    check_waiting(checks, device)
    gpu_classification.check_waiting(checks, device)
    for work in works:
        timings += time_metric(checks, work, device)
    if works:
        phases = time_phases(checks, works[0], device)
        launches = checks.run(f"{works[0].name}: kernels", partial(profile, works[0], device)) or []
        ops = time_ops(checks, works[0].scene, device, works[0].repeats, copy_size)
        peer = partial(time_torchmetrics, works[0], device, _PEER_IMAGES)
        timings += checks.run("torchmetrics on the same device", peer) or []
    classified = [] if load is None else time_classification(checks, load, device, copy_size)
    served = {op.name: {"kind": op.cuda.kind, "reason": op.cuda.reason} for op in backends()}
    return {
        "kernels": served, "checks": checks.records, "timings": timings, "phases": phases,
        "launches": launches, "ops": ops, "classification": classified,
    }  # fmt: skip


def usual_works(quick: bool) -> list[Work]:
    """val2017 scale, and unless ``quick`` Objects365 scale."""
    val2017, objects365 = CASES["val2017"], CASES["objects365"]
    if quick:
        return [Work("val2017, 500 images", make(val2017, 500), batches_target=None, repeats=5)]
    return [
        Work("val2017 scale", make(val2017), whole_target=1e-3, batches_target=40e-3),
        Work("Objects365 scale", make(objects365), whole_target=3e-3),
    ]


def device_facts(device: torch.device) -> dict[str, Any]:
    """Name, driver and size of a CUDA device."""
    about = torch.cuda.get_device_properties(device)
    driver = machine.run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "name": about.name,
        "driver": driver.splitlines()[0] if driver else "unknown",
        "capability": f"{about.major}.{about.minor}",
        "memory_gb": round(about.total_memory / 2**30, 1),
        "processors": about.multi_processor_count,
        "torch_cuda": torch.version.cuda,
    }


def store(result: dict[str, Any], folder: Path) -> Path:
    """Write ``gpu_<device>_<date>.json`` and return where."""
    name = re.sub(r"[^a-z0-9]+", "-", result["device"]["name"].lower()).strip("-")
    path = folder / f"gpu_{name}_{result['date'][:10]}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """Check and store; see the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer and smaller examples, 500 images, 50,000 rows of scores"
    )
    parser.add_argument("--results", type=Path, default=machine.RESULTS, help="folder of the record")
    parser.add_argument("--commit", help="of this checkout, where git cannot tell")
    parser.add_argument("--small-case", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("gpu_check: torch finds no CUDA device, so nothing was checked and nothing was run")
        return 0
    device = torch.device("cuda", torch.cuda.current_device())
    if arguments.small_case:
        return small_case(device)
    about = machine.describe(PACKAGES, arguments.commit)
    head = {"kind": "gpu", **about, "quick": arguments.quick, "device": device_facts(device)}
    head["library"] = native.reason("valor_cuda")
    load = Load(rows=50_000, repeats=5) if arguments.quick else Load()
    result = {**head, **collect(device, arguments.quick, usual_works(arguments.quick), load=load)}
    path = store(result, arguments.results)
    failed = [check["name"] for check in result["checks"] if check["outcome"] == "fail"]
    timed = [*result["timings"], *result["classification"]]
    missed = [row["work"] for row in timed if row.get("met") is False]
    print(f"record: {path}")
    print(f"{len(result['checks']) - len(failed)} of {len(result['checks'])} checks did not fail")
    for text in (*(f"failed: {name}" for name in failed), *(f"over its target: {name}" for name in missed)):
        print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
