"""Metrics of every task within functions that ``torch.compile`` compiles with breaks: the numbers of eager calls.

One graph for ``update`` of classification is tested in tests/classification/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contents import content
from tests.test_forks import METRICS, batch
from valor_gpu import functional

SIZES = (2, 3, 4, 5, 6, 7, 2, 4)
MOST_GRAPHS = 3
"""Of one function: for one size of a batch, for two, and for a decision that the first batch leaves open."""

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch's compiler, where it breaks a graph


class Graphs:
    """A backend that counts the graphs that it is given, and runs them as they are."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        self.count += 1
        return graph.forward  # type: ignore[no-any-return]


@pytest.fixture
def graphs() -> Iterator[Graphs]:
    torch.compiler.reset()
    yield Graphs()
    torch.compiler.reset()


@pytest.mark.parametrize("way", ["update", pytest.param("forward", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", METRICS)
def test_numbers_of_a_compiled_function_are_those_of_eager_calls(name: str, way: str, graphs: Graphs) -> None:
    metric, eager = METRICS[name](), METRICS[name]()

    def step(preds: Any, target: Any) -> Any:
        if way == "forward":
            return metric(preds, target)
        metric.update(preds, target)
        return None

    compiled = torch.compile(step, backend=graphs)
    for seed, size in enumerate(SIZES):
        rows = batch(name, seed, size)
        value = compiled(*rows)
        expected = eager(*rows)
        assert way == "update" or content(value) == content(expected)
    assert content(metric.compute()) == content(eager.compute())
    assert metric.update_count == len(SIZES) and graphs.count <= MOST_GRAPHS


def test_a_function_beside_a_model(graphs: Graphs) -> None:
    def step(scores: Tensor, target: Tensor) -> Tensor:
        return functional.accuracy(scores * 1.0, target, task="multiclass", num_classes=4) + 1

    compiled = torch.compile(step, backend=graphs)
    for seed, size in enumerate(SIZES):
        rows = batch("Accuracy", seed, size)
        assert torch.equal(compiled(*rows), step(*rows))
    assert 0 < graphs.count <= MOST_GRAPHS
