"""Streams, lifetimes and first calls, for ``benchmarks/gpu_unseen.py``.

``python -m benchmarks.gpu_unseen_streams`` captures the first call of every op, in a process that has launched nothing.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmarks import gpu_process
from benchmarks.checks import Checks, Disagreement, Unavailable, wait
from benchmarks.gpu_parity import as_lists, as_packed, on, only_rehearsed, updated_without_wait
from testing.parity import differences
from testing.registry import ROWS, Example, Row, call, place
from testing.scenes import random_scene
from valor_gpu.classification import ROCAUC, Accuracy, MulticlassAUROC
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.ops import backends
from valor_gpu.ops._device_tables import to_device
from valor_gpu.regression import MeanSquaredError
from valor_gpu.retrieval import RetrievalMAP
from valor_gpu.segmentation import MeanIoU

_BUSY_CYCLES = 20_000_000
"""For which a stream is kept busy: some 10 ms, longer than the host takes for the updates of a check."""
_FIRST_CALL_SECONDS = 45.0
"""After which the process of the first calls is killed, so that the check fails before it counts as hanging itself."""


@dataclass(frozen=True)
class Work:
    """A metric and its batches.

    Attributes:
        make: makes the metric.
        batch: arguments of ``update`` on the CPU, by number.
    """

    make: Callable[[], Any]
    batch: Callable[[int], Any]


def _scores(seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([5, seed])
    scores = torch.from_numpy(rng.random((500 + seed, 7))).softmax(1).to(dtype)
    return scores, torch.from_numpy(rng.integers(0, 7, 500 + seed))


def _numbers(seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([8, seed])
    return torch.from_numpy(rng.random(500 + seed)), torch.from_numpy(rng.random(500 + seed))


def _documents(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    rng, count = np.random.default_rng([9, seed]), 500 + seed
    preds, target = torch.from_numpy(rng.random(count)), torch.from_numpy(rng.integers(0, 2, count))
    return preds, target, torch.from_numpy(rng.integers(0, 40, count))


def _maps(seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([6, seed])
    preds, target = (torch.from_numpy(rng.integers(0, 5, (2, 60, 70 + seed))) for _ in range(2))
    return preds, target


def _images(form: Callable[..., Any], images: int, seed: int) -> Any:
    return form(random_scene(np.random.default_rng([7, seed]), images=images), seed)


WORKS: dict[str, Work] = {
    "MeanAveragePrecision of lists": Work(
        partial(MeanAveragePrecision, box_format="xywh"), partial(_images, as_lists, 20)
    ),
    "MeanAveragePrecision of padded images": Work(
        partial(MeanAveragePrecision, box_format="xywh"), partial(_images, as_packed, 20)
    ),
    "Accuracy": Work(partial(Accuracy, num_classes=7), _scores),
    "ROCAUC at thresholds": Work(partial(ROCAUC, num_classes=7, thresholds=50), _scores),
    "exact MulticlassAUROC": Work(partial(MulticlassAUROC, num_classes=7), _scores),
    "MeanSquaredError": Work(MeanSquaredError, _numbers),
    "RetrievalMAP": Work(RetrievalMAP, _documents),
    "MeanIoU": Work(partial(MeanIoU, num_classes=5, input_format="index"), _maps),
}


def check_all(checks: Checks, device: torch.device) -> None:
    """Each metric beside a busy stream, without a wait and in threads; then first calls of ops in a capture."""
    updates = 25 if device.type == "cuda" else 4
    seconds = _FIRST_CALL_SECONDS + gpu_process.PATIENCE
    for name, work in WORKS.items():
        checks.run(f"memory reused at once: {name}", partial(check_reuse, device, work, updates))
        checks.run(f"updates without a wait: {name}", partial(check_queue, device, work, updates))
    checks.run("pinned memory reused at once", partial(check_pinned, device))
    checks.run("two threads, a stream and metrics each", partial(check_threads, device, updates))
    checks.run("first calls of ops, in a capture", partial(check_first_calls, device), seconds)


def numbers_of(metric: Any) -> Any:
    """What a metric computes, on the CPU."""
    found = metric.compute()
    if isinstance(found, dict):
        found = {name: value for name, value in sorted(found.items()) if name != "ious"}
    return pytree.tree_map_only(Tensor, Tensor.cpu, found)


def expected_of(work: Work, updates: int) -> Any:
    """What the CPU computes."""
    metric = work.make()
    for number in range(updates):
        metric.update(*work.batch(number))
    return numbers_of(metric)


@contextlib.contextmanager
def beside_a_busy_stream(device: torch.device) -> Iterator[None]:
    """A stream of its own on a GPU, whose default stream and which itself have work to do first."""
    if device.type != "cuda":
        yield
        return
    side = torch.cuda.Stream(device)
    wait(device)  # the side stream may read what was made so far
    torch.cuda._sleep(_BUSY_CYCLES)
    with torch.cuda.stream(side):
        torch.cuda._sleep(_BUSY_CYCLES)
        yield
    wait(device)


def delay_default_stream(device: torch.device) -> None:
    """What is launched on the default stream of a GPU, and not on the current one, comes too late."""
    if device.type == "cuda":
        with torch.cuda.stream(torch.cuda.default_stream(device)):
            torch.cuda._sleep(_BUSY_CYCLES)


def poison(sizes: list[int], device: torch.device) -> None:
    """Takes the memory that was freed last, and fills it with bytes that are NaN, or labels out of range."""
    taken = [torch.full((size,), 0xFF, dtype=torch.uint8, device=device) for size in sizes]
    del taken


def check_reuse(device: torch.device, work: Work, updates: int) -> None:
    """The numbers are those of the CPU although the memory of a batch is freed and overwritten after its update.

    Nothing is copied from the host meanwhile: such a copy would wait until both streams are idle.
    """
    expected = expected_of(work, updates)
    batches = [on(device, work.batch(number)) for number in range(updates)]
    metric = work.make().to(device)
    metric.update(*batches[0])  # loads kernels and copies constant tables
    metric.reset()
    with beside_a_busy_stream(device):
        for batch in batches:
            given = pytree.tree_map_only(Tensor, Tensor.clone, batch)
            sizes = [leaf.nbytes for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor)]
            delay_default_stream(device)
            metric.update(*given)
            del given
            poison(sizes, device)
        delay_default_stream(device)
        got = numbers_of(metric)
    if text := differences(got, expected):
        raise Disagreement(text)
    only_rehearsed(device, "memory that another stream reads")


def check_queue(device: torch.device, work: Work, updates: int) -> None:
    """The numbers are those of the CPU although a stream sleeps until all updates but the first are enqueued on it.

    The default stream is idle: what is launched there comes too early.
    """
    expected = expected_of(work, updates)
    batches = [on(device, work.batch(number)) for number in range(updates)]
    wait(device)  # another stream may read them then
    with torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else contextlib.nullcontext():
        got = numbers_of(updated_without_wait(lambda: work.make().to(device), batches, device))
    if text := differences(got, expected):
        raise Disagreement(text)
    only_rehearsed(device, "a wait of the host")


def check_pinned(device: torch.device) -> None:
    """Tables of the host arrive whole although each is freed before it is copied, and the next one pinned."""
    tables = [torch.full((5000,), number) for number in range(100)]
    with beside_a_busy_stream(device):
        copies = [to_device(table.clone(), device) for table in tables]
    if text := differences(copies, tables):
        raise Disagreement(text)
    only_rehearsed(device, "pinned memory")


def check_threads(device: torch.device, updates: int) -> None:
    """Two threads, each with its stream and its metrics, get the numbers of the CPU."""
    expected = {name: expected_of(work, updates) for name, work in WORKS.items()}
    wrong: list[str] = []
    together = threading.Barrier(2)

    def run() -> None:
        try:
            with beside_a_busy_stream(device):
                together.wait()
                for name, work in WORKS.items():
                    metric = work.make().to(device)
                    for number in range(updates):
                        metric.update(*on(device, work.batch(number)))
                    if text := differences(numbers_of(metric), expected[name]):
                        wrong.append(f"{name}: {text}")
        except Exception as error:  # of a thread, which nobody else would see
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise Disagreement("\n".join(wrong))


# -------------------------------------------------------------------------------------------------------- first calls


def check_first_calls(device: torch.device) -> None:
    """The first call of an op may come inside a capture on a side stream: it gives the CPU's bits, or an InputError.

    A process of its own loads kernels lazily and has an empty cache of Triton.
    """
    if device.type != "cuda":
        raise Unavailable("graphs are captured on a CUDA device only")
    with tempfile.TemporaryDirectory() as cache:
        environment = {"CUDA_MODULE_LOADING": "LAZY", "TRITON_CACHE_DIR": cache}
        command = [sys.executable, "-m", "benchmarks.gpu_unseen_streams"]
        code, said = gpu_process.run(command, _FIRST_CALL_SECONDS, environment=environment)
    if code is None:
        raise Disagreement(f"the process took more than {_FIRST_CALL_SECONDS:.0f} s: {said[-4000:].strip()}")
    if code:
        raise Disagreement(said[-4000:].strip())


def example_of(row: Row) -> Example | None:
    """The first example with data, results and no error."""
    for example in row.examples(True):
        leaves = [leaf for leaf in pytree.tree_leaves(example.arguments) if isinstance(leaf, Tensor)]
        if 30 < sum(leaf.numel() for leaf in leaves) < 200_000 and not example.native_only and example.output is None:
            return example
    return None


def captured(row: Row, example: Example, device: torch.device) -> str:
    """How the replay of a captured call differs from the CPU; empty if it does not, or the call says what to do."""
    arguments = place(row, example, device)
    wait(device)
    graph, result = torch.cuda.CUDAGraph(), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty graph, where the InputError comes first
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(device)), contextlib.suppress(InputError):
                result = call(row.op)(*arguments)
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    if result is None:
        return ""
    graph.replay()
    wait(device)
    return differences(row.defined(result), row.defined(call(row.op)(*example.arguments)))


def first_calls(device: torch.device, capture: Callable[[Row, Example, torch.device], str] = captured) -> int:
    """Prints which ops fail when they are captured, for the first time and again after a call; 1 if one does."""
    found = 0
    for op in backends():
        example = example_of(ROWS[op.name]) if op.cuda.kernel is not None else None
        if example is None:
            continue
        if text := capture(ROWS[op.name], example, device):
            call(op.name)(*place(ROWS[op.name], example, device))
            again = capture(ROWS[op.name], example, device)
            print(f"{op.name}, {example.name}, {f'always: {again}' if again else f'in its first call: {text}'}")
            found = 1
    return found


if __name__ == "__main__":
    sys.exit(first_calls(torch.device("cuda")))
