"""Metrics in forked processes and in workers of DataLoaders: right numbers, no hang, states that merge."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from valor_gpu import classification, detection, segmentation
from valor_gpu.inputs import npy_headers
from valor_gpu.inputs.label_map_files import LabelMapReader
from valor_gpu.metric import Metric

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


def boxes(rng: torch.Generator, count: int) -> torch.Tensor:
    corners = torch.rand(count, 4, generator=rng) * 100
    corners[:, 2:] += corners[:, :2]
    return corners


def batch(name: str, seed: int, size: int) -> tuple[Any, Any]:
    """Predictions and targets, large ones enough for the threads of the library and of torch."""
    rng = torch.Generator().manual_seed(seed)
    if name == "MeanAveragePrecision":
        labels = [torch.randint(3, (30,), generator=rng) for _ in range(size)]
        preds = [dict(boxes=boxes(rng, 30), scores=torch.rand(30, generator=rng), labels=each) for each in labels]
        return preds, [dict(boxes=boxes(rng, 30), labels=each) for each in labels]
    if name == "MeanIoU":
        return torch.randint(4, (size, 64, 64), generator=rng), torch.randint(4, (size, 64, 64), generator=rng)
    return torch.rand(500 * size, 4, generator=rng), torch.randint(4, (500 * size,), generator=rng)


METRICS = {
    "Accuracy": lambda: classification.Accuracy(num_classes=4),
    "ROCAUC": lambda: classification.ROCAUC(num_classes=4),
    "MeanIoU": lambda: segmentation.MeanIoU(num_classes=4, input_format="index"),
    "MeanAveragePrecision": lambda: detection.MeanAveragePrecision(),
}


def value_of(metric: Metric[Any]) -> list[float]:
    """The number of a metric, or those that mAP gives."""
    found = metric.compute()
    numbers = [found[name] for name in ("map", "map_50", "mar_100")] if isinstance(found, dict) else [found]
    return [float(number) for number in numbers]


def updated(name: str, seeds: range, size: int) -> Metric[Any]:
    metric: Metric[Any] = METRICS[name]()
    for seed in seeds:
        metric.update(*batch(name, seed, size))
    return metric


FORKS = """
import json, os, torch
from tests.test_forks import METRICS, batch, updated, value_of
kept = {name: updated(name, range(2), 40) for name in METRICS}
before = {name: value_of(metric) for name, metric in kept.items()}

def after(seed):
    found = {}
    for name, metric in kept.items():
        found[name] = [value_of(metric), value_of(updated(name, range(2), 40))]
        metric.update(*batch(name, seed, 40))
        found[name].append(value_of(metric))
    return found

read, write = os.pipe()
if os.fork() == 0:
    torch.set_num_threads(1)  # torch waits for threads that the child does not have
    os.write(write, json.dumps(after(2)).encode())
    os._exit(0)
os.close(write)
mine = after(2)
with open(read) as stream:
    theirs = json.loads(stream.read())
assert theirs == mine, (theirs, mine)
assert all(each[:2] == [before[name]] * 2 for name, each in mine.items()), (before, mine)
print("the same")
"""


@pytest.mark.parametrize(
    "start", ["", pytest.param("import faulthandler; faulthandler.enable()\n", marks=pytest.mark.slow)]
)
def test_a_forked_process_computes_what_its_parent_does(start: str) -> None:
    """Both go on with metrics that have used the threads of the library and of torch before."""
    command = [sys.executable, "-W", "ignore", "-c", start + FORKS]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert run.stdout == "the same\n", run.stderr


def test_a_process_that_was_forked_while_a_header_was_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(2, dtype=np.uint8))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with npy_headers.lock():
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        child = os.fork()
        if child == 0:
            import signal

            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)  # ends a child that waits for a thread it does not have
            os._exit(int(LabelMapReader().read(str(tmp_path / "a.npy")).sum()))
    finally:
        done.set()
        thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


class Scores(Dataset[Any]):
    """Items that a worker makes with a metric of its own: its value, its state and itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metric = updated(name, range(1), 2)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> Any:
        metric = updated(self.name, range(place, place + 1), 2)
        self.metric.update(*batch(self.name, place, 2))
        return value_of(metric), metric.to_bytes(), metric, metric.result().to_dict(), torch.get_num_threads()


def first(items: list[Any]) -> Any:
    return items[0]


@pytest.mark.parametrize(
    ("method", "persistent"),
    [
        ("fork", True),
        *(pytest.param(each, each == "spawn", marks=pytest.mark.slow) for each in ("forkserver", "spawn")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_workers_of_a_loader_compute_and_hand_over(method: str, persistent: bool) -> None:
    name = "MeanAveragePrecision" if method == "forkserver" else "ROCAUC"
    data = Scores(name)
    before = value_of(data.metric)
    loader = DataLoader(
        data, batch_size=1, num_workers=2, multiprocessing_context=method, persistent_workers=persistent,
        collate_fn=first, timeout=300,
    )  # fmt: skip
    for _ in range(2):
        by_state, by_object = METRICS[name](), METRICS[name]()
        for place, (value, state, metric, document, threads) in enumerate(loader):
            own = updated(name, range(place, place + 1), 2)
            assert value == value_of(own) == value_of(metric) and document == own.result().to_dict()
            assert state == own.to_bytes() and threads == 1
            by_state.merge_state(METRICS[name]().from_bytes(state))
            by_object.merge_state(metric)
        assert value_of(by_state) == value_of(by_object) == value_of(updated(name, range(4), 2))
    assert value_of(data.metric) == before
