"""The memory that a metric says it takes, held against what is allocated."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import memory_cases
from tests.contract import METRICS, Case
from valor_gpu import memory
from valor_gpu.classification import ROCAUC, Accuracy
from valor_gpu.detection import BinnedMeanAveragePrecision, MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.memory import MemoryPlan
from valor_gpu.metric import Metric
from valor_gpu.segmentation import HausdorffDistance
from valor_gpu.text import BLEUScore

MB = 1_000_000
CPU = torch.device("cpu")
ROOT = Path(__file__).parents[1]
linux = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")


@pytest.fixture(scope="module", autouse=True)
def _what_other_tests_made_is_no_garbage() -> None:
    """Each plan collects garbage, and would look through all that they have imported."""
    gc.collect()
    gc.freeze()


def held(metric: Metric[Any]) -> int:
    """Bytes of the tensors of a metric, and of what it keeps beside them."""
    states = metric.metric_state.values()
    return metric._bytes_beside() + sum(
        part.nbytes for now in states for part in (now if isinstance(now, list) else [now])
    )


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_the_state_is_as_large_as_planned(case: Case) -> None:
    metric, batch = case.make(), case.batch(1)
    before = held(metric)
    plan = metric.memory_plan(*batch, updates=3)
    assert held(metric) == before and metric.update_count == 0
    for _ in range(3):
        metric.update(*batch)
    assert held(metric) == plan.state


def peak_of(work: Callable[[], Any]) -> int:
    kept = []
    found = memory.peak(CPU, lambda: None, lambda _: kept.append(work()))
    assert kept
    return found


def test_an_update_takes_the_tensors_that_it_makes() -> None:
    scores, target = torch.rand(200_000, 20), torch.randint(20, (200_000,))
    plan = ROCAUC(num_classes=20).memory_plan(scores, target)
    assert plan.per_update <= plan.update <= plan.per_update + MB
    assert Accuracy(num_classes=20).memory_plan(scores, target).update <= 2 * MB


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, int]]:
    """What tests/memory_cases.py finds, in processes of its own."""
    environment = {**os.environ, **memory_cases.THRESHOLDS}
    command = [sys.executable, "-m", "tests.memory_cases"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return dict(json.loads(run.stdout))


@pytest.mark.slow
@linux
@pytest.mark.parametrize("name", memory_cases.CASES)
def test_a_plan_is_near_what_a_fresh_process_gains(cases: dict[str, dict[str, int]], name: str) -> None:
    measured, fresh = cases[name]["measured"], cases[name]["fresh"]
    assert measured >= 10 * MB
    assert 0.9 * measured <= fresh <= (1.25 if name in memory_cases.UNTOUCHED else 1.1) * measured


@pytest.mark.slow
@linux
@pytest.mark.parametrize("name", memory_cases.CASES)
def test_a_grown_process_plans_as_a_fresh_one(cases: dict[str, dict[str, int]], name: str) -> None:
    assert cases[name]["grown"] == pytest.approx(cases[name]["fresh"], rel=0.002)


def repeats_differ_little(batch: tuple[Any, ...]) -> None:
    """30 plans of 4 MB: Python's objects, also of other threads, and when helpers join make some kilobytes."""
    plans = [ROCAUC(num_classes=20).memory_plan(*batch).update for _ in range(30)]
    least = 50_000 * (20 * 4 + 1)  # the scores, and a target of one byte
    assert least <= min(plans) and max(plans) <= 1.02 * least, plans


def test_memory_that_the_c_library_kept_changes_no_plan() -> None:
    """A block freed to a heap with a high threshold stays resident: 64 rows of 1 MB are taken and given back first."""
    batch = torch.rand(50_000, 20), torch.randint(20, (50_000,))
    kept = [torch.ones(250_000) for _ in range(64)]
    del kept
    repeats_differ_little(batch)


@pytest.mark.slow
def test_other_threads_change_no_plan() -> None:
    """They take tensors and native workspaces of megabytes, and give them back."""
    batch = torch.rand(50_000, 20), torch.randint(20, (50_000,))
    images = torch.randint(5, (2, 512, 512))
    done = threading.Event()

    def disturb() -> None:
        while not done.is_set():
            torch.ones(1_000_000).cumsum(0)
            HausdorffDistance(5, input_format="index").update(images, images)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        repeats_differ_little(batch)
    finally:
        done.set()
        thread.join()


@pytest.mark.smoke
def test_workspaces_of_native_code_are_counted() -> None:
    maps = torch.arange(2 * 64 * 64).reshape(2, 64, 64) % 5
    metric = HausdorffDistance(5, input_format="index")
    found: list[int] = []
    with memory._native_peak(found):
        metric.update(maps, maps)
    assert 2 * 64 * 64 * 8 <= found[0] <= metric.memory_plan(maps, maps).update


def test_a_state_that_is_freed_on_the_way_makes_room() -> None:
    def replace(state: list[torch.Tensor]) -> None:
        state.clear()
        state.append(torch.ones(MB // 4))

    assert memory.peak(CPU, lambda: [torch.ones(MB // 4)], replace) < MB // 10


def test_what_an_earlier_profiler_saw_changes_no_plan() -> None:
    """Torch keeps the sizes of blocks that were profiled: one freed later would count with the size of another."""
    batch = torch.rand(50_000, 20), torch.randint(20, (50_000,))
    before = ROCAUC(num_classes=20).memory_plan(*batch).update
    with torch.autograd.profiler.profile(profile_memory=True):
        kept = [torch.ones(size) for size in range(1, 4000)]
    del kept
    assert ROCAUC(num_classes=20).memory_plan(*batch).update == pytest.approx(before, rel=0.01)


def test_a_profiler_on_this_thread_is_an_error() -> None:
    metric, batch = Accuracy(num_classes=3), (torch.rand(2, 3), torch.tensor([0, 1]))
    with torch.autograd.profiler.profile() as profiler:
        with pytest.raises(InputError, match="profiler, but one runs on this thread"):
            metric.memory_plan(*batch)
        torch.ones(3)
    assert "aten::ones" in [event.name for event in profiler.function_events]
    assert metric.memory_plan(*batch).update > 0


def test_tracing_of_the_caller_goes_on() -> None:
    texts = [f"the cat sat on mat {i}" for i in range(2000)]
    alone = BLEUScore().memory_plan(texts, texts).update
    assert not tracemalloc.is_tracing() and alone > 100_000
    tracemalloc.start()
    try:
        assert BLEUScore().memory_plan(texts, texts).update == pytest.approx(alone, rel=0.05)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_after_an_error_nothing_counts_on() -> None:
    def fail(_: object) -> None:
        raise ValueError("on the way")

    for _ in range(2):
        with pytest.raises(ValueError, match="on the way"):
            memory.peak(CPU, lambda: None, fail)
        assert gc.isenabled() and not tracemalloc.is_tracing()
        assert peak_of(lambda: torch.ones(250_000)) == pytest.approx(MB, rel=0.01)


@pytest.mark.slow
@linux
@pytest.mark.parametrize("name", memory_cases.SYNCHRONISATIONS)
def test_a_synchronisation_takes_what_is_planned(cases: dict[str, dict[str, int]], name: str) -> None:
    measured, planned = cases[name]["measured"], cases[name]["planned"]
    assert measured >= 50 * MB
    assert measured - 4 * MB <= planned <= 1.2 * measured


def test_a_state_of_sums_is_no_larger_for_more_data_or_ranks() -> None:
    metric = BinnedMeanAveragePrecision(3, bins=2)
    boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0]])
    image = dict(boxes=boxes, labels=torch.tensor([1]))
    batch = [dict(image, scores=torch.tensor([0.5]))], [image]
    plans = [metric.memory_plan(*batch, updates=n, ranks=ranks) for n, ranks in ((1, 2), (10**9, 512))]
    assert plans[0].per_update == 0 and plans[0].state == plans[1].state == held(metric)
    assert plans[0].sync == plans[1].sync == plans[0].fixed
    assert "whatever the data" in str(plans[1]) and "synchronising 512 ranks" in str(plans[1])
    records = MeanAveragePrecision().memory_plan(*batch, updates=1000)
    assert records.per_update == 23 + 5 + 64 + 2 * 16 and records.sync == 0  # two boxes of float32
    assert MeanAveragePrecision(keep_inputs=False).memory_plan(*batch).per_update == 23 + 5 + 64


def test_bad_arguments_are_named() -> None:
    metric = Accuracy(num_classes=3)
    with pytest.raises(InputError, match="updates must be at least 1"):
        metric.memory_plan(torch.rand(2, 3), torch.tensor([0, 1]), updates=0)
    with pytest.raises(InputError, match="ranks must be at least 1"):
        metric.memory_plan(torch.rand(2, 3), torch.tensor([0, 1]), ranks=0)
    with pytest.raises(InputError, match="target"):
        metric.memory_plan(torch.rand(2, 3), torch.tensor([0, 7]))
    assert metric.update_count == 0


def test_other_devices_are_named() -> None:
    with pytest.raises(InputError, match="memory_plan needs a metric on cpu or cuda but it is on meta"):
        Accuracy(num_classes=3).to("meta").memory_plan(torch.rand(2, 3), torch.tensor([0, 1]))


def test_the_text_says_units() -> None:
    text = str(MemoryPlan(fixed=999, per_update=0, updates=2, update=10**12, ranks=1, sync=0))
    assert "999 bytes" in text and "1.0 TB" in text
