"""Processes in a GPU check: metrics that synchronise, over NCCL or gloo, give what one process on the CPU gives.

``python -m benchmarks.gpu_nccl RANK PROCESSES BACKEND DEVICE FILE`` is one of the processes; they meet at FILE.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks import gpu_process
from benchmarks.checks import Checks, Disagreement, OutOfTime, Unavailable
from benchmarks.gpu_parity import as_lists, on, run_metric
from testing.parity import differences
from testing.scenes import random_scene
from valor_gpu.classification import ConfusionMatrix
from valor_gpu.detection import MeanAveragePrecision

SECONDS = 100.0
"""Processes that take longer hang."""
_BATCHES, _CLASSES = 5, 4


def check_nccl(checks: Checks, device: torch.device, left: Callable[[], float]) -> None:
    """Metrics of two processes synchronise; where there is one GPU, one over NCCL, and two that share it over gloo.

    Args:
        checks: records the outcomes.
        device: a CUDA device, or the CPU.
        left: seconds to the deadline.
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    cases = {"metrics of 2 processes, synchronised": (backend, 2)}
    if device.type == "cuda" and torch.cuda.device_count() == 1:  # NCCL takes no two ranks of one device
        cases = {
            "metrics of 1 process, synchronised": (backend, 1),
            "metrics of 2 processes on one device, over gloo": ("gloo", 2),
        }

    def check(backend: str, processes: int) -> None:
        check_processes(device, processes, backend, min(SECONDS, left()))

    for name, case in cases.items():
        checks.run(name, partial(check, *case), SECONDS + gpu_process.PATIENCE)


def check_processes(device: torch.device, processes: int, backend: str, seconds: float = SECONDS) -> None:
    """Starts so many processes, each on a device of its own with NCCL, all on ``device`` with gloo.

    Args:
        device: a CUDA device, or the CPU.
        processes: how many.
        backend: ``nccl`` or ``gloo``.
        seconds: after which they are stopped.

    Raises:
        Unavailable: torch was built without the backend.
        OutOfTime: they were stopped before a hang was proven.
        Disagreement: a process failed or hangs, or its numbers are not those of the CPU.
    """
    if not dist.is_backend_available(backend):
        raise Unavailable(f"torch was built without {backend}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        head, meeting = [sys.executable, "-m", "benchmarks.gpu_nccl"], str(Path(folder, "meeting"))
        place = f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu"
        places = [f"cuda:{rank}" if backend == "nccl" else place for rank in range(processes)]
        commands = [[*head, str(rank), str(processes), backend, place, meeting] for rank, place in enumerate(places)]
        ended = list(pool.map(lambda command: gpu_process.run(command, seconds), commands))
    for rank, (code, text) in enumerate(ended):
        if code is None:
            kind = OutOfTime if seconds < SECONDS else Disagreement
            raise kind(f"process {rank} took more than {seconds:.0f} s: {text[-2000:].strip()}")
        if code:
            raise Disagreement(f"process {rank} ended with {code}: {text[-2000:].strip()}")


def _work(rank: int, processes: int, backend: str, device: torch.device, meeting: str) -> None:
    """Every rank has some of the batches of detections; of the labels, the last rank of several has none."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=processes)
    batches = [as_lists(random_scene(np.random.default_rng(b), images=3 + b), b) for b in range(_BATCHES)]
    busy = max(processes - 1, 1)
    mine = [on(device, batch) for b, batch in enumerate(batches) if b % processes == rank]
    metric = MeanAveragePrecision(box_format="xywh").to(device)
    matrix, expected = ConfusionMatrix(num_classes=_CLASSES).to(device), torch.zeros(_CLASSES, _CLASSES)
    for batch in mine:
        metric.update(*batch)
    labels = torch.arange(40).reshape(_BATCHES, -1) * 7 % 11 % _CLASSES
    for b, row in enumerate(labels):
        expected.index_put_((row.flip(0), row), torch.ones(len(row)), accumulate=True)
        if b % busy == rank:
            matrix.update(row.to(device), row.flip(0).to(device))
    got: dict[str, Any] = {name: value for name, value in sorted(metric.compute().items()) if name != "ious"}
    found = matrix.compute().cpu().double()
    dist.barrier()
    dist.destroy_process_group()
    wanted = run_metric(batches, torch.device("cpu"))["values"]
    if text := differences({name: value.cpu() for name, value in got.items()}, wanted):
        raise Disagreement(f"rank {rank}: {text}")
    if not torch.equal(found, expected.double()):
        raise Disagreement(f"rank {rank}: {found.tolist()} is not {expected.tolist()}")


if __name__ == "__main__":
    gpu_process.die_with_parent()
    _work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], torch.device(sys.argv[4]), sys.argv[5])
