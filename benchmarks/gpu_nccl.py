"""NCCL in a GPU check: metrics that synchronise over it give what one process on the CPU gives.

``python -m benchmarks.gpu_nccl RANK PROCESSES BACKEND FILE`` is one of the processes; they meet at FILE.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.checks import Disagreement, Unavailable
from benchmarks.gpu_parity import as_lists, on, run_metric
from testing.datasets import ROOT
from testing.parity import differences
from testing.scenes import random_scene
from valor_gpu.classification import ConfusionMatrix
from valor_gpu.detection import MeanAveragePrecision

SECONDS = 100
_BATCHES, _CLASSES = 5, 4


def check_processes(device: torch.device, processes: int) -> None:
    """Starts so many processes, each on a device of its own; on the CPU with gloo.

    Raises:
        Unavailable: torch has no NCCL.
        Disagreement: a process failed, or its numbers are not those of the CPU.
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    if backend == "nccl" and not dist.is_nccl_available():
        raise Unavailable("torch was built without NCCL")
    with tempfile.TemporaryDirectory() as folder:
        head = [sys.executable, "-m", "benchmarks.gpu_nccl"]
        started = [
            subprocess.Popen(
                [*head, str(rank), str(processes), backend, str(Path(folder, "meeting"))], cwd=ROOT,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )
            for rank in range(processes)
        ]  # fmt: skip
        try:
            said = [process.communicate(timeout=SECONDS)[0] for process in started]
        except subprocess.TimeoutExpired:
            raise Disagreement(f"{processes} processes took more than {SECONDS} s") from None
        finally:
            for process in started:
                process.kill()
                process.wait()
    for rank, (process, text) in enumerate(zip(started, said)):
        if process.returncode:
            raise Disagreement(f"process {rank} ended with {process.returncode}: {text[-2000:].strip()}")


def _work(rank: int, processes: int, backend: str, meeting: str) -> None:
    """Every rank updates with some of the batches; the last rank of several with none."""
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=processes)
    batches = [as_lists(random_scene(np.random.default_rng(b), images=3 + b), b) for b in range(_BATCHES)]
    busy = max(processes - 1, 1)
    mine = [on(device, batch) for b, batch in enumerate(batches) if b % busy == rank]
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
    _work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
