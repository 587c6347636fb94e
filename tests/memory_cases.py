"""Updates that take tens of megabytes, planned and measured in children of a process that has run none before.

``python -m tests.memory_cases`` writes, as JSON, for every case the peak of the resident memory of one update, and the
plans of a fresh process and of the same one grown. Linux alone; glibc is to have fixed thresholds (:data:`THRESHOLDS`).
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from valor_gpu.classification import ROCAUC, Accuracy, CalibrationError, ConfusionMatrix
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.distributed import exchange
from valor_gpu.metric import Metric
from valor_gpu.segmentation import HausdorffDistance
from valor_gpu.text import BERTScore, BLEUScore

Batch = tuple[Any, ...]
THRESHOLDS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Environment in which glibc gives freed blocks back, which it would keep, and count as resident, by and by."""
UNTOUCHED = {"HausdorffDistance", "BLEUScore"}
"""Cases that fill their blocks in part: lists that grew by half, texts of fewer words than they could have."""

WARM = 0.05
"""Share of a batch in the update before: what is loaded at first, as pages of libraries, is not of the update."""


def scores(share: float, rows: int, classes: int) -> Batch:
    n = int(share * rows)
    return torch.rand(n, classes), torch.randint(classes, (n,))


def boxes(share: float, images: int, side: int = 0) -> Batch:
    """Boxes, 100 of each image; with ``side`` also 20 square masks of it."""
    n, count = int(share * images), 20 if side else 100
    corners, sizes = torch.rand(n, count, 2) * 400, torch.rand(n, count, 2) * 100 + 1
    xyxy, labels = torch.cat((corners, corners + sizes), 2), torch.randint(5, (n, count))
    rows = [dict(boxes=xyxy[i], labels=labels[i], scores=torch.rand(count)) for i in range(n)]
    if side:
        rows = [dict(row, masks=torch.rand(count, side, side) < 0.5) for row in rows]
    return rows, rows


def maps(share: float, images: int) -> Batch:
    n = int(share * images)
    return torch.randint(19, (n, 512, 512)), torch.randint(19, (n, 512, 512))


def texts(share: float, rows: int) -> Batch:
    made = [" ".join(f"word{(7 * i + j * j) % 500}" for j in range(30)) for i in range(int(share * rows))]
    return made, [[text] for text in reversed(made)]


def tokens(share: float, rows: int) -> Batch:
    sides = [[torch.rand(32, 64) for _ in range(int(share * rows))] for _ in range(2)]
    return sides[0], [[side] for side in sides[1]]


CASES: dict[str, tuple[Callable[[], Metric[Any]], Callable[[float], Batch]]] = {
    "ROCAUC": (lambda: ROCAUC(num_classes=20), lambda share: scores(share, 500_000, 20)),
    "Accuracy": (lambda: Accuracy(num_classes=3), lambda share: scores(share, 4_000_000, 3)),
    "ConfusionMatrix": (lambda: ConfusionMatrix(num_classes=3), lambda share: scores(share, 4_000_000, 3)),
    "CalibrationError": (lambda: CalibrationError(num_classes=20), lambda share: scores(share, 600_000, 20)),
    "boxes": (MeanAveragePrecision, lambda share: boxes(share, 3000)),
    "masks": (lambda: MeanAveragePrecision(iou_type="segm"), lambda share: boxes(share, 200, 256)),
    "HausdorffDistance": (lambda: HausdorffDistance(19, input_format="index"), lambda share: maps(share, 6)),
    "BLEUScore": (BLEUScore, lambda share: texts(share, 15_000)),
    "BERTScore": (BERTScore, lambda share: tokens(share, 1000)),
}


SYNCHRONISATIONS = ("2x2", "1x5")


def kilobytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def gained(work: Callable[[], object]) -> int:
    """How far ``work`` lifts the resident memory, in bytes."""
    gc.collect()
    gc.disable()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS")
    kept = work()
    most = kilobytes("VmHWM")
    del kept
    return 1024 * (most - before)


def measured(name: str) -> dict[str, int]:
    make, batch = CASES[name]
    make().update(*batch(WARM))
    metric, whole = make(), batch(1.0)
    return {"measured": gained(lambda: metric.update(*whole))}


def synchronised(name: str) -> dict[str, int]:
    """What a synchronisation takes: ``name`` says how many updates and ranks, as ``2x5``."""
    updates, ranks = map(int, name.split("x"))
    metric, batch = ROCAUC(num_classes=20), scores(1.0, 200_000, 20)
    plan = metric.memory_plan(*batch, updates=updates, ranks=ranks)
    for _ in range(updates):
        metric.update(*batch)

    def gather(tensor: torch.Tensor) -> list[torch.Tensor]:
        return list(tensor.expand(ranks, *tensor.shape).clone().unbind(0))

    make = functools.partial(metric._tensors, metric._schema)
    return {
        "planned": plan.sync,
        "measured": gained(functools.partial(exchange, make, metric._identity, gather, torch.device("cpu"))),
    }


def planned(name: str) -> dict[str, int]:
    """The plan of a fresh process, and of one whose heap has kept many blocks, free ones beside used ones."""
    make, batch = CASES[name]
    whole = batch(1.0)
    found = {"fresh": make().memory_plan(*whole).update}
    kept = [torch.ones(size) for size in (100, 25_000, 250_000) for _ in range(100)]
    kept = kept[::2]
    return {**found, "grown": make().memory_plan(*whole).update}


def in_child(work: Callable[[str], dict[str, int]], name: str) -> dict[str, int]:
    """What ``work`` gives in a fork of this process."""
    out, into = os.pipe()
    if (child := os.fork()) == 0:
        os.write(into, json.dumps(work(name)).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


if __name__ == "__main__":
    found = {name: {**in_child(measured, name), **in_child(planned, name)} for name in CASES}
    print(json.dumps(found | {name: in_child(synchronised, name) for name in SYNCHRONISATIONS}))
