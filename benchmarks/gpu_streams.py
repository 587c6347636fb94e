"""Streams in a GPU check: CUDA graphs capture what is enqueued, and metrics work beside another stream."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from benchmarks.checks import Checks, Disagreement, Unavailable, wait
from benchmarks.gpu_parity import as_lists, on, run_metric
from testing.parity import differences
from testing.scenes import random_scene
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops._accumulate_run import Enqueued, Guess, Records, Words, enqueue
from valor_gpu.ops.accumulate_types import AccumulateChoices, Pick, RecordShape

_SHAPE = RecordShape(10, 4, 3)  # of the metric with its defaults
CHOICES = AccumulateChoices(
    _SHAPE,
    np.linspace(0, 1, 101),
    (Pick("precision", 0, -1, range(10)), Pick("recall", 2, 0, range(10))),
    ties=("given", "lowest"),
)
BUSY_CYCLES = 50_000_000
"""For which another stream keeps the device busy: some 25 ms."""


def check_streams(checks: Checks, device: torch.device) -> None:
    """Accumulation from a captured graph, and a metric on a stream of its own."""
    checks.run("accumulation captured in a CUDA graph", partial(_check_capture, device))
    checks.run("update and compute on a side stream", partial(_check_side_stream, device))


def _records(device: torch.device) -> Records:
    metric = MeanAveragePrecision(box_format="xywh").to(device)
    metric.update(*on(device, as_lists(random_scene(np.random.default_rng(3), images=40), 0)))
    state = metric.state()
    return Records(state.detections.clone(), state.ground_truths.clone(), state.images.clone())


def _numbers(run: Enqueued) -> dict[str, torch.Tensor]:
    """All that a run gives, without what it leaves unset: the error code that it was not given, labels that are not."""
    labels = int(run.head[Words._fields.index("labels")])
    head = run.head[1 : len(Words._fields) + run.means + labels]
    return {"head": head, "positives": run.positives, "offsets": run.offsets, **run.curves._asdict()}


def _check_capture(device: torch.device) -> None:
    """Replays give what a run gives, for the captured content of the tables and for another."""
    if device.type != "cuda":
        raise Unavailable("graphs are captured on a CUDA device only")
    records, guess = _records(device), Guess.of(63)
    enqueue(records, CHOICES, guess, True)  # copies the constant tables
    wait(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = enqueue(records, CHOICES, guess, True)
    for content in ("captured", "changed"):
        if content == "changed":
            records.detections[:, 8] += 1  # the lowest byte of the label
            records.images[:, 0] = records.images[:, 0].flip(0)
        graph.replay()
        wait(device)
        if text := differences(_numbers(captured), _numbers(enqueue(records, CHOICES, guess, True))):
            raise Disagreement(f"{content} tables: {text}")


def _check_side_stream(device: torch.device) -> None:
    """The numbers are those of the CPU although the default stream is busy: nothing runs, or is freed, there."""
    if device.type != "cuda":
        raise Unavailable("streams are those of a CUDA device")
    batches = [as_lists(random_scene(np.random.default_rng(n), images=n), n) for n in (1, 17, 40)]
    expected = run_metric(batches, torch.device("cpu"))
    side = torch.cuda.Stream(device)
    torch.cuda._sleep(BUSY_CYCLES)
    with torch.cuda.stream(side):
        got = run_metric([on(device, sides) for sides in batches], device)
    wait(device)
    if text := differences(got, expected):
        raise Disagreement(text)
