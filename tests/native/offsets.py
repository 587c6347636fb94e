"""Every CUDA kernel in the simulator, on tensors that begin at odd places of their memory, beside the CPU kernel.

A process of its own, ``python -m tests.native.offsets SEED ...``, since ops look for the CUDA library where they are
registered. ``VALOR_SIM_SEED`` takes the seeds by turns.
"""

from __future__ import annotations

import collections
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from tests.native import sim
from valor_gpu import native
from valor_gpu.errors import NativeError

if __name__ == "__main__":  # not where doctest imports this file
    _load = native._load
    native._load = lambda name: (sim.simulated(), "simulated") if name == "valor_cuda" else _load(name)

from testing.offsets import moved_all
from testing.parity import differences
from testing.registry import ROWS, Example, Row, call, find

MOST_ELEMENTS = 6000
"""Of an example: larger ones take seconds in the simulator."""


def cases(seeds: list[str]) -> Iterator[tuple[str, Row, Example, tuple[Any, ...]]]:
    """Seed, row, example and its arguments at odd places, of each op with a CUDA kernel; seeds by turns."""
    turns, numbers = itertools.cycle(seeds), itertools.count()
    for row in ROWS.values():
        for example in row.examples(True) if kernel_of(row) else ():
            leaves = [leaf for leaf in pytree.tree_leaves(example.arguments) if isinstance(leaf, Tensor)]
            if sum(leaf.numel() for leaf in leaves) <= MOST_ELEMENTS:
                yield next(turns), row, example, moved_all(example.arguments, next(numbers))


def kernel_of(row: Row) -> Callable[..., Any] | None:
    """The CUDA kernel of an op."""
    return find(row.op).cuda.kernel


def disagreement(row: Row, example: Example, arguments: tuple[Any, ...]) -> str:
    """How the CUDA kernel differs from the CPU kernel; empty when it does not."""
    kernel, outputs = kernel_of(row), []
    assert kernel is not None
    try:
        for run in (kernel, call(row.op)):
            result = row.defined(run(*arguments))
            outputs.append(result if example.output is None else result[example.output])
    except NativeError as error:
        return f"{error}: {sim.simulated().valor_sim_error().decode()}"
    return differences(*outputs)


def main(seeds: list[str]) -> int:
    """Prints what differs, and how many cases of how many ops there were; 1 if any differs."""
    ops: collections.Counter[str] = collections.Counter()
    wrong = []
    for seed, row, example, arguments in cases(seeds):
        os.environ["VALOR_SIM_SEED"] = seed
        ops[row.op] += 1
        if text := disagreement(row, example, arguments):
            wrong.append(f"{row.op}, {example.name}, seed {seed}: {text}")
    print(*wrong[:20], f"{ops.total()} cases of {len(ops)} ops, {len(wrong)} wrong", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
