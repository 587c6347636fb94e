"""Streams in a GPU check: CUDA graphs capture what is enqueued, and metrics work beside another stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from benchmarks.checks import Checks, Disagreement, Unavailable, wait
from benchmarks.gpu_parity import Form, as_lists, as_packed, on, run_metric
from testing.parity import differences
from testing.scenes import random_scene
from valor_gpu.classification import Accuracy
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops._accumulate_run import Enqueued, Guess, Records, Words, enqueue
from valor_gpu.ops.accumulate_types import AccumulateChoices, Pick, RecordShape
from valor_gpu.replays import add_replay

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
    """Accumulation and updates from captured graphs, and a metric on a stream of its own."""
    checks.run("accumulation captured in a CUDA graph", partial(_check_capture, device))
    for name, form in (("lists", as_lists), ("padded", as_packed)):
        checks.run(f"updates captured in a CUDA graph, {name}", partial(check_replays, device, form))
    checks.run("updates of Accuracy captured in a CUDA graph", partial(_check_counts, device))
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


def check_replays(device: torch.device, form: Form, images: int = 20) -> None:
    """Three batches of equal shapes, through one graph and by updates, leave the same state and give the same numbers.

    Args:
        device: a CUDA device.
        form: of the batches; the graph reads counts and ids where they lie.
        images: of each batch.
    """
    scene = random_scene(np.random.default_rng(1), images=images, most=9)
    batches = []
    for number in range(3):
        changed = replace(scene, scores=[(scores * (7 + number)) % 1 for scores in scene.scores])
        batches.append(on(device, form(changed, number)))
    total, eager = _replayed(device, partial(MeanAveragePrecision, box_format="xywh"), batches)
    for name in ("detections", "ground_truths", "images"):
        if text := differences(torch.cat(getattr(total, name)), torch.cat(getattr(eager, name))):
            raise Disagreement(f"{name}: {text}")
    if text := differences(*(dict(sorted(metric.compute().items())) for metric in (total, eager))):
        raise Disagreement(text)


def _check_counts(device: torch.device) -> None:
    labels = torch.arange(300, device=device).reshape(3, 100)
    batches = [(row * 7 % 11 % 5, row % 5) for row in labels]
    total, eager = _replayed(device, partial(Accuracy, num_classes=5), batches)
    if text := differences(total.compute(), eager.compute()):
        raise Disagreement(text)


def _replayed(device: torch.device, make: Callable[[], Any], batches: Sequence[Any]) -> tuple[Any, Any]:
    """The metric to which a graph's replays were added, and the one that was updated."""
    if device.type != "cuda":
        raise Unavailable("graphs are captured on a CUDA device only")
    step, total, eager = (make().to(device) for _ in range(3))
    static = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, batches[0])
    step.update(*static)  # loads kernels and copies constant tables
    step.reset()
    wait(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.update(*static)
    for batch in batches:
        for to, new in zip(pytree.tree_leaves(static), pytree.tree_leaves(batch), strict=True):
            to.copy_(new)
        graph.replay()
        add_replay(total, step)
        eager.update(*batch)
    wait(device)
    return total, eager


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
