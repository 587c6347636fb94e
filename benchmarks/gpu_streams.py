"""Streams in a GPU check: CUDA graphs capture what is enqueued, and metrics work beside another stream."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TextIO

import numpy as np
import torch
from torch.utils import _pytree as pytree

from benchmarks import gpu_process
from benchmarks.checks import Checks, Disagreement, Unavailable, wait
from benchmarks.gpu_parity import Form, Sides, as_lists, as_packed, on, run_metric
from benchmarks.gpu_waiting import metrics
from testing.parity import differences
from testing.scenes import random_scene
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.run import Enqueued, Guess, Records, Words, enqueue
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, RecordShape
from valor_gpu.replays import add_replay

_SHAPE = RecordShape(10, 4, 3)  # of the metric with its defaults
CHOICES = AccumulateChoices(
    _SHAPE,
    np.linspace(0, 1, 101),
    (Pick("precision", 0, -1, range(10)), Pick("recall", 2, 0, range(10))),
    ties=("given", "lowest"),
)
FORK_SECONDS = 45.0
"""After which a process that was forked off is killed, so that the check fails before it counts as hanging itself."""
BUSY_CYCLES = 50_000_000
"""For which another stream keeps the device busy: some 25 ms."""
CAPTURED = (
    "Accuracy", "BrierScore", "NegativeLogLikelihood", "HingeLoss", "BinaryFairness", "MeanSquaredError",
    "R2Score, multioutput raw_values", "KLDivergence", "RetrievalMAP",
)  # fmt: skip
"""Metrics of :func:`benchmarks.gpu_waiting.metrics` whose updates a graph captures, one of each kind of state."""
_PIECE, _PIECES = 512, 4096
"""Bytes of the smallest piece of memory that torch gives, and how many of them fill what is free."""


def check_streams(checks: Checks, device: torch.device) -> None:
    """Accumulation and updates from captured graphs, and a metric on a stream of its own."""
    checks.run("accumulation captured in a CUDA graph", partial(_check_capture, device))
    for name, form in (("lists", as_lists), ("padded", as_packed)):
        checks.run(f"updates captured in a CUDA graph, {name}", partial(check_replays, device, form))
    for name in CAPTURED:
        checks.run(f"updates of {name} captured in a CUDA graph", partial(_check_rows, name, device))
    checks.run("update and compute on a side stream", partial(_check_side_stream, device))
    if device.type == "cuda" and torch.cuda.device_count() > 1:
        checks.run("a device that is not the current one", partial(_check_other_device, device))
    checks.run("a process that was forked", partial(check_fork, device), FORK_SECONDS + gpu_process.PATIENCE)


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


def _check_rows(name: str, device: torch.device) -> None:
    waiting = metrics()[name]
    batches = [on(device, waiting.batch(number)) for number in range(3)]
    total, eager = _replayed(device, waiting.make, batches)
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
    _overwrite_freed_memory(device)
    for batch in batches:
        for to, new in zip(pytree.tree_leaves(static), pytree.tree_leaves(batch), strict=True):
            to.copy_(new)
        graph.replay()
        add_replay(total, step)
        eager.update(*batch)
    wait(device)
    return total, eager


def _overwrite_freed_memory(device: torch.device) -> None:
    """Fills small pieces of the memory that torch holds free: a replay that reads one gives other numbers."""
    pieces = [torch.full((_PIECE,), 0x5A, dtype=torch.uint8, device=device) for _ in range(_PIECES)]
    wait(device)
    del pieces


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


def _check_other_device(device: torch.device) -> None:
    """Kernels run where the tensors are."""
    batches = [as_lists(random_scene(np.random.default_rng(n), images=n), n) for n in (1, 17)]
    other = torch.device("cuda", (device.index or 0) + 1)
    got = run_metric([on(other, sides) for sides in batches], other)
    if text := differences(got, run_metric(batches, torch.device("cpu"))):
        raise Disagreement(text)
    metric = MeanAveragePrecision(box_format="xywh").to(device)
    try:
        metric.update(*on(other, batches[0]))
    except InputError as error:
        if str(device) in str(error) and str(other) in str(error):
            return
        raise
    raise Disagreement(f"a metric on {device} took tensors of {other}")


def check_fork(device: torch.device) -> None:
    """In a process that was forked off, metrics of the CPU go on, and those of a GPU raise torch's error.

    CUDA does not outlive a fork; the threads of our CPU kernels do not either, but are started anew.
    """
    if not hasattr(os, "fork"):
        raise Unavailable("processes are not forked here")
    batch = as_lists(random_scene(np.random.default_rng(2), images=200), 2)
    expected = run_metric([batch], torch.device("cpu"))
    there = on(device, batch)
    with tempfile.TemporaryFile("w+") as said:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons advise against what is tried here
            child = os.fork()
        if child == 0:
            _forked(device, batch, expected, there, said)
        status = _end_of(child)
        said.seek(0)
        if status is None:
            raise Disagreement(f"the process took more than {FORK_SECONDS:.0f} s: {said.read()}")
        if status:
            raise Disagreement(f"the process ended with status {status}: {said.read()}")


def _end_of(child: int) -> int | None:
    """The status of a process; None where it hangs and is killed."""
    give_up = time.monotonic() + FORK_SECONDS
    while time.monotonic() < give_up:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _forked(device: torch.device, batch: Sides, expected: dict[str, Any], there: Sides, said: TextIO) -> None:
    """The process of :func:`check_fork`, which ends here: 0 if all is as it must be."""
    wrong = "it raised"
    torch.set_num_threads(1)  # as DataLoader's workers do: OpenMP's threads do not outlive a fork
    try:
        wrong = differences(run_metric([batch], torch.device("cpu")), expected)
        if device.type == "cuda":
            wrong = wrong or "a GPU was used"
            MeanAveragePrecision(box_format="xywh").to(device).update(*there)
    except RuntimeError as error:
        wrong = "" if wrong == "a GPU was used" and "fork" in str(error) else f"{wrong}: {error}"
    finally:
        said.write(wrong)
        said.flush()
        os._exit(1 if wrong else 0)
