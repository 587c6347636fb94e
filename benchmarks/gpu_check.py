"""``python -m benchmarks.gpu_check``: is valor_gpu right on this GPU, does ``update`` ever wait, how fast is it?

One command on a machine with its own torch and nvcc, without a network: it builds the libraries for the GPU, then
runs the sections parity, waiting, graphs, timing, classification, masks, nccl and, unless ``--quick``, sanitizer. The
record is written ahead of each check and after it, so that a kill loses nothing. A check that ends its process, or
breaks the device's context, fails, and the others go on in a new process. Without a CUDA device it says so, runs
nothing and exits 0. The exit code is 1 if a check failed or the libraries cannot be built.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu_build, machine
from benchmarks.gpu_record import record_path, store, summarise
from benchmarks.gpu_works import usual_works
from testing.datasets import ROOT

PACKAGES = ("valor_gpu", "torch", "triton", "numpy", "torchmetrics", "torchvision", "pycocotools", "faster-coco-eval")
SECTIONS = ("parity", "waiting", "graphs", "timing", "classification", "masks", "nccl", "sanitizer")
MOST_PROCESSES = 12
"""So many processes are started for one record; each but the last was ended by a check."""
SECONDS = {True: 170.0, False: 520.0}
"""By ``--quick``: no check begins later than this after the start."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__.split("\n")[0])
    add = made.add_argument
    add("--quick", action="store_true", help="fewer and smaller examples, 500 images, 50,000 rows of scores")
    add("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=f"sections to run: {', '.join(SECTIONS)}")
    add("--seconds", type=float, help="no check begins later than this after the start; 170 if --quick, else 520")
    add("--results", type=Path, default=machine.RESULTS, help="folder of the record")
    add("--commit", help="of this checkout, where git cannot tell")
    add("--small-case", action="store_true", help=argparse.SUPPRESS)
    add("--record", type=Path, help=argparse.SUPPRESS)  # of a process that this one has started
    add("--ended", type=json.loads, default={}, help=argparse.SUPPRESS)
    add("--deadline", type=float, help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Build, check, store; see the module."""
    arguments = parser().parse_args(argv)
    if not torch.cuda.is_available():
        print("gpu_check: torch finds no CUDA device, so nothing was checked and nothing was run")
        return 0
    if arguments.small_case or arguments.record:
        return _inner(arguments)
    start = time.time()
    usual = [name for name in SECTIONS if name != "sanitizer" or not arguments.quick]
    names = [name for name in SECTIONS if name in (arguments.only or usual)]
    head = {"kind": "gpu", **machine.describe(PACKAGES, arguments.commit), "quick": arguments.quick}
    head |= {"device": device_facts(), "asked": names, "sections": {}, "running": None}
    path = record_path(head, arguments.results)
    try:
        head["build"] = gpu_build.build(torch.cuda.get_device_capability())
    except gpu_build.BuildError as error:
        store({**head, "build": f"failed: {error}"}, path)
        print(f"{error}\nfailed: build\nrecord: {path}", flush=True)
        return 1
    print(head["build"], flush=True)
    store(head, path)
    deadline = start + (arguments.seconds or SECONDS[arguments.quick])
    result = supervise(path, names, lambda ended, rest: _start(arguments, path, deadline, ended, rest))
    result["total_seconds"] = round(time.time() - start, 1)
    store(result, path)
    print(f"record: {path}")
    return summarise(result)


def supervise(
    path: Path, names: Sequence[str], start: Callable[[dict[str, str], Sequence[str]], int]
) -> dict[str, Any]:
    """Runs processes until one has gone through all sections, or none can; returns the record.

    A section whose check ended the process begins again, without that check.

    Args:
        path: of the record, which processes write.
        names: of the sections.
        start: runs sections in a process: gets how each check ended one before, and names of sections; returns its exit
            code.
    """
    ended: dict[str, str] = {}
    rest = list(names)
    for _ in range(MOST_PROCESSES):
        code = start(ended, rest)
        record: dict[str, Any] = json.loads(path.read_text())
        running = record["running"]
        if running is None and code == 0:
            return record
        section, check = (running["section"], running["check"]) if running else (rest[0], None)
        how = _how(code, record, section, check)
        if check is None or check in ended:  # it would end again
            record.setdefault("sections", {}).setdefault(section, {"checks": []})
            record["sections"][section]["checks"].append(
                {"name": f"process of section {section}", "outcome": "fail", "detail": how, "seconds": 0.0}
            )
            rest = rest[rest.index(section) + 1 :]
        else:
            ended[check] = how
            rest = rest[rest.index(section) :]
        record["running"] = None
        store(record, path)
        if not rest:
            return record
    record["stopped"] = f"after {MOST_PROCESSES} processes, ahead of section {rest[0]}"
    return record


def _how(code: int, record: dict[str, Any], section: str, check: str | None) -> str:
    """Why a process ended, with what the check had said if it came to that."""
    signals = {item.value: item.name for item in signal.Signals}
    text = f"ended the process: {signals.get(-code, 'signal') if code < 0 else f'exit code {code}'}"
    checks = record.get("sections", {}).get(section, {}).get("checks", [])
    said = [item["detail"] for item in checks if item["name"] == check and item["outcome"] == "fail"]
    return "\n".join((text, *said))


def _start(
    arguments: argparse.Namespace, path: Path, deadline: float, ended: dict[str, str], names: Sequence[str]
) -> int:
    command = [sys.executable, "-u", "-m", "benchmarks.gpu_check", "--record", str(path), "--deadline", str(deadline)]
    command += ["--ended", json.dumps(ended), *(["--quick"] if arguments.quick else []), "--only", *names]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _inner(arguments: argparse.Namespace) -> int:
    """A process that runs sections into the record, or the small case of compute-sanitizer."""
    from benchmarks import gpu_sanitizer, gpu_sections  # these load the libraries, which had to be built first
    from benchmarks.gpu_classification import Load
    from valor_gpu.ops import backends

    device = torch.device("cuda", torch.cuda.current_device())
    if arguments.small_case:
        return gpu_sanitizer.small_case(device)
    path: Path = arguments.record
    record: dict[str, Any] = json.loads(path.read_text())
    record["kernels"] = {op.name: {"kind": op.cuda.kind, "reason": op.cuda.reason} for op in backends()}
    load = Load(rows=50_000, repeats=5) if arguments.quick else Load()
    setup = gpu_sections.Setup(
        device, arguments.quick, lambda: usual_works(arguments.quick), load, deadline=arguments.deadline,
        ended=arguments.ended, watched=True,
    )  # fmt: skip
    gpu_sections.run_sections(arguments.only, setup, record, lambda now: store(now, path))
    return 0


def device_facts() -> dict[str, Any]:
    """Name, driver and size of the CUDA device."""
    about = torch.cuda.get_device_properties(torch.cuda.current_device())
    driver = machine.run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "name": about.name,
        "devices": torch.cuda.device_count(),
        "driver": driver.splitlines()[0] if driver else "unknown",
        "capability": f"{about.major}.{about.minor}",
        "memory_gb": round(about.total_memory / 2**30, 1),
        "processors": about.multi_processor_count,
        "torch_cuda": torch.version.cuda,
    }


if __name__ == "__main__":
    sys.exit(main())
