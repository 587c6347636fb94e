"""``python -m benchmarks.gpu_check``: is valor_gpu right on this GPU, does ``update`` ever wait, how fast is it?

Parity of every op with its reference and with the CPU kernel, the metric with the CPU, synchronisation, streams and
graphs, timings and budgets, and with ``--only sanitizer`` compute-sanitizer where it exists. Without a CUDA device it
says so, runs nothing and exits 0; without the CUDA library it says how to build it and exits 1. Every check is recorded
as soon as it is made; a failure is printed at once and again at the end, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import gpu_classification, machine
from benchmarks.checks import Checks, Disagreement, Unavailable
from benchmarks.gpu_budgets import time_budgets
from benchmarks.gpu_classification import Load, time_classification
from benchmarks.gpu_parity import as_lists, check_metric, check_ops, check_waiting, on, run_metric
from benchmarks.gpu_streams import check_streams
from benchmarks.gpu_timing import (
    COPY_BYTES,
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
SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
GROUPS = ("ops", "metric", "waiting", "streams", "budgets", "timing", "scale", "classification", "sanitizer")
USUAL = GROUPS[:-1]
"""Groups of checks that run unless ``--only`` names others: a sanitizer takes minutes."""
BUILD = "VALOR_GPU_ARCHS=90 python3 setup.py -q build_ext --inplace"
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
    command += ["--kernel-regex", "kns=valor", "--require-cuda-init", "no"]
    command += (
        ["--report-api-errors", "no"] if tool == "memcheck" else []
    )  # torch probes the driver, and errs on purpose
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
    device: torch.device,
    quick: bool,
    works: Callable[[], Sequence[Work]],
    copy_size: int = COPY_BYTES,
    load: Load | None = None,
    only: Collection[str] = USUAL,
    save: Callable[[dict[str, Any]], object] = lambda _: None,
) -> dict[str, Any]:
    """Checks and timings on ``device``.

    Args:
        device: a CUDA device, or the CPU, on which everything but the CUDA calls runs too.
        quick: fewer and smaller examples.
        works: makes the datasets to time; the first also gives phases, kernels, ops and torchmetrics.
        copy_size: bytes of the copy that measures the bandwidth.
        load: scores to time classification on, None for none.
        only: groups of checks, of :data:`GROUPS`.
        save: called with all results so far after every check.
    """
    served = {op.name: {"kind": op.cuda.kind, "reason": op.cuda.reason} for op in backends()}
    result: dict[str, Any] = {"kernels": served, "groups": sorted(only), "checks": []}
    result |= {name: [] for name in ("timings", "budgets", "phases", "launches", "ops", "classification")}
    checks = Checks(after=lambda: save(result))
    result["checks"] = checks.records
    if "ops" in only:
        check_ops(checks, device, quick)
    if "metric" in only:
        check_metric(checks, device, 2 if quick else 8)
    if "waiting" in only:
        check_waiting(checks, device)
        gpu_classification.check_waiting(checks, device)
    if "streams" in only:
        check_streams(checks, device)
    if {"budgets", "timing", "scale"} & set(only):
        _time(checks, result, device, works(), copy_size, only)
    if load is not None and "classification" in only:
        result["classification"] += time_classification(checks, load, device, copy_size)
    for tool in SANITIZER_TOOLS if "sanitizer" in only else ():
        checks.run(f"compute-sanitizer {tool}", partial(sanitize, tool))
    save(result)
    return result


def _time(
    checks: Checks, result: dict[str, Any], device: torch.device, works: Sequence[Work], copy_size: int,
    only: Collection[str],
) -> None:  # fmt: skip
    """Adds to ``result`` what detection takes."""
    for work in works:
        if "budgets" in only:
            result["budgets"] += time_budgets(checks, work, device)
        if "timing" in only:
            result["timings"] += time_metric(checks, work, device)
    for work in works[:1]:
        if "timing" in only:
            result["phases"] += time_phases(checks, work, device)
            result["launches"] += checks.run(f"{work.name}: kernels", partial(profile, work, device)) or []
            peer = partial(time_torchmetrics, work, device, _PEER_IMAGES)
            result["timings"] += checks.run("torchmetrics on the same device", peer) or []
        if "scale" in only:
            result["ops"] += time_ops(checks, work.scene, device, work.repeats, copy_size)


def usual_works(quick: bool) -> list[Work]:
    """val2017 scale, and unless ``quick`` Objects365 scale."""
    val2017, objects365 = CASES["val2017"], CASES["objects365"]
    if quick:
        return [Work("val2017, 500 images", make(val2017, 500), batches_target=None, repeats=5)]
    return [
        Work(
            "val2017 scale",
            make(val2017),
            whole_target=1e-3,
            batches_target=40e-3,
            compute_device_target=0.35e-3,
            compute_host_target=0.15e-3,
        ),
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


def record_path(head: dict[str, Any], folder: Path) -> Path:
    """Where the record is written: ``gpu_<device>_<date>.json`` in an existing folder."""
    name = re.sub(r"[^a-z0-9]+", "-", head["device"]["name"].lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"gpu_{name}_{head['date'][:10]}.json"


def store(result: dict[str, Any], path: Path) -> None:
    """Writes the record whole, or leaves the one before: a kill may come at any time."""
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(result, indent=1) + "\n")
    scratch.replace(path)


def _store_with(head: dict[str, Any], path: Path, found: dict[str, Any]) -> None:
    store({**head, **found}, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Check and store; see the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer and smaller examples, 500 images, 50,000 rows of scores"
    )
    parser.add_argument("--results", type=Path, default=machine.RESULTS, help="folder of the record")
    parser.add_argument("--commit", help="of this checkout, where git cannot tell")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=GROUPS,
        default=USUAL,
        metavar="GROUP",
        help=f"groups of checks: {', '.join(GROUPS)}",
    )
    parser.add_argument("--small-case", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("gpu_check: torch finds no CUDA device, so nothing was checked and nothing was run")
        return 0
    if not native.available("valor_cuda"):
        print(f"gpu_check: {native.explanation('valor_cuda')}. Build it, then run again: {BUILD}")
        return 1
    device = torch.device("cuda", torch.cuda.current_device())
    if arguments.small_case:
        return small_case(device)
    about = machine.describe(PACKAGES, arguments.commit)
    head = {"kind": "gpu", **about, "quick": arguments.quick, "device": device_facts(device)}
    head["library"] = native.reason("valor_cuda")
    path = record_path(head, arguments.results)
    load = Load(rows=50_000, repeats=5) if arguments.quick else Load()
    save = partial(_store_with, head, path)
    works = partial(usual_works, arguments.quick)
    result = collect(device, arguments.quick, works, load=load, only=arguments.only, save=save)
    print(f"record: {path}")
    return summarise(result)


def summarise(result: dict[str, Any]) -> int:
    """Prints what failed and what took longer than it may; returns the exit code."""
    failed = [check["name"] for check in result["checks"] if check["outcome"] == "fail"]
    timed = [*result["timings"], *result["budgets"], *result["classification"]]
    missed = [row["work"] for row in timed if row.get("met") is False]
    print(f"{len(result['checks']) - len(failed)} of {len(result['checks'])} checks did not fail")
    for text in (*(f"failed: {name}" for name in failed), *(f"over its target: {name}" for name in missed)):
        print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
