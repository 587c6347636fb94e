"""``update`` of metrics of classification as part of a compiled program: one graph, the state of an eager update."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contents import content
from valor_gpu import classification
from valor_gpu.errors import InputError

_FIVE = {"num_classes": 5}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Accuracy", {}),
    ("Accuracy", _FIVE),
    ("Precision", {**_FIVE, "top_k": 2, "ignore_index": 0}),
    ("F1Score", {"num_labels": 5, "threshold": 0.25}),
    ("JaccardIndex", {"activation": "none"}),
    ("ConfusionMatrix", _FIVE),
    ("ConfusionMatrix", {"num_classes": 300}),
    ("ConfusionMatrix", {"num_labels": 5, "max_examples": 2}),
    ("CalibrationError", _FIVE),
    ("CalibrationError", {"ignore_index": 0}),
    ("ROCAUC", _FIVE),
    ("AveragePrecision", {"num_labels": 5, "thresholds": 20, "ignore_index": 0}),
    ("PrecisionRecallCurve", {"thresholds": [0.25, 0.5]}),
    ("ROCAUC", {"bins": 4}),
    ("ThresholdCounts", {**_FIVE, "hardmax": True}),
    ("StatScores", _FIVE),
    ("EER", _FIVE),
    ("MultilabelRankingLoss", {"num_labels": 5, "ignore_index": 0}),
    ("ExactMatch", _FIVE),
    ("ExactMatch", {"num_labels": 5, "ignore_index": 0}),
]
OTHERS = ["ConfusionMatrix", "ROCAUC"]
UPDATES = 11
"""More than torch compiles again before it gives up."""


# The first batch holds probabilities and the others logits, so that both decisions of "auto" are compiled.
pytestmark = pytest.mark.filterwarnings("ignore:.* took .* batches for logits:UserWarning")


@pytest.fixture(autouse=True)
def _no_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(metric: Any, backend: str = "eager") -> Any:
    def step(*batch: Tensor) -> None:
        metric.update(*batch)

    return torch.compile(step, fullgraph=True, backend=backend)


def batch(choices: dict[str, Any], seed: int, rows: int = 8, weighted: bool = False) -> tuple[Tensor, ...]:
    """Logits and targets; the first batch has scores in [0, 1] alone, so that ``auto`` decides otherwise."""
    generator = torch.Generator().manual_seed(seed)
    classes, several = choices.get("num_classes"), choices.get("num_classes", choices.get("num_labels"))
    shape = (rows, several) if several else (rows,)
    scores = (torch.rand if seed == 0 else torch.randn)(shape, generator=generator)
    target = torch.randint(classes or 2, (rows,) if classes else shape, generator=generator)
    return (scores, target, torch.rand(rows, generator=generator)) if weighted else (scores, target)


def check_like_eager(name: str, choices: dict[str, Any], backend: str, updates: int, weighted: bool = False) -> None:
    """Compiled and eager updates alternate on one metric, and leave the value of eager updates alone."""
    kind = getattr(classification, name)
    metric, eager = kind(**choices), kind(**choices)
    step = compiled(metric, backend)
    for i in range(updates):
        rows = batch(choices, i, 8 if i % 3 else 6, weighted)
        step(*rows)
        eager.update(*rows)
    assert metric.update_count == updates
    assert content(metric.compute()) == content(eager.compute())
    for each in (metric, eager):
        each.update(*batch(choices, 99, 8, weighted))
    assert metric.update_count == updates + 1
    assert content(metric.compute()) == content(eager.compute())
    again = kind(**choices).from_bytes(metric.to_bytes())
    assert content(again.compute()) == content(eager.compute())
    assert again.update_count == updates + 1


def _cases() -> Iterator[Any]:
    """Yields the cases; those after the first of a kind of states and of plans are marked slow."""
    seen: set[object] = set()
    for name, choices in CASES:
        metric = getattr(classification, name)(**choices)
        kind = type(metric.state()), type(metric)._planner
        yield pytest.param(name, choices, marks=[pytest.mark.slow] if kind in seen else [])
        seen.add(kind)


@pytest.mark.parametrize(("name", "choices"), list(_cases()))
def test_compiled_updates_leave_the_state_of_eager_ones(name: str, choices: dict[str, Any]) -> None:
    check_like_eager(name, choices, "eager", UPDATES)


@pytest.mark.parametrize("name", ["Accuracy", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_weights_and_the_lowering_of_autograd(name: str) -> None:
    check_like_eager(name, _FIVE, "aot_eager", 3, weighted=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own
def test_inductor_gives_the_numbers_of_eager() -> None:
    check_like_eager("Accuracy", _FIVE, "inductor", 3)
    check_like_eager("F1Score", {}, "inductor", 2)


@pytest.mark.parametrize(
    ("name", "choices"),
    [("Accuracy", _FIVE), pytest.param("ROCAUC", {}, marks=pytest.mark.slow), ("ConfusionMatrix", _FIVE)],
)
def test_a_bad_value_raises_in_compute(name: str, choices: dict[str, Any]) -> None:
    metric, rows = getattr(classification, name)(**choices), batch(choices, 1)
    step = compiled(metric)
    step(*rows)
    bad = rows[0].clone()
    bad.reshape(8, -1)[3, 0] = math.nan
    step(bad, rows[1])
    with pytest.raises(InputError, match=r"preds\[3.* must not be NaN \(the row is counted within its batch\)"):
        metric.compute()
    metric.reset()
    assert metric.update_count == 0
    step(*rows)
    assert metric.update_count == 1
    assert content(metric.compute()) == content(getattr(classification, name)(**choices)(*rows))


def test_a_wrong_shape_raises_while_compiling() -> None:
    metric = classification.Accuracy(5)
    step = torch.compile(metric.update, backend="eager")
    with pytest.raises(InputError, match=r"preds must be scores \[N, 5, \.\.\.\]"):
        step(torch.rand(8, 4), torch.zeros(8, dtype=torch.long))
    assert metric.update_count == 0


def test_merge_copy_and_checkpoint_count_compiled_updates() -> None:
    metric, rows = classification.Accuracy(5), batch(_FIVE, 1)
    metric.persistent(True)
    step = compiled(metric)
    step(*rows)
    step(*rows)
    other = classification.Accuracy(5)
    other.merge_state(metric.clone())
    assert other.update_count == 2
    other.persistent(True)
    other.load_state_dict(metric.state_dict())
    assert other.update_count == 2
    step(*rows)
    value = metric(*rows)
    assert metric.update_count == 4
    assert content(value) == content(metric.compute())
