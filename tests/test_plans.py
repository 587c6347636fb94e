"""Plans of small updates: when they run, that a refused batch changes nothing, and that copies have none of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torchmetrics
from torch import Tensor

from tests.contract import condition
from valor_gpu import native, plans
from valor_gpu.attributes import Settable
from valor_gpu.classification import ROCAUC, Accuracy, ConfusionMatrix, F1Score, Precision, Recall
from valor_gpu.errors import InputError, SyncError
from valor_gpu.metric import Metric

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason="plans are native")

SCORES = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]])
TARGET = torch.tensor([0, 2])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[plans.Step]]:
    """What plans gave while the test ran."""
    taken: list[plans.Step] = []
    commit = plans.commit
    monkeypatch.setattr(plans, "commit", lambda state, step: (taken.append(step), commit(state, step)))
    yield taken


def tensors(metric: Metric[Any]) -> dict[str, Any]:
    return {name: list(now) if isinstance(now, list) else now for name, now in metric.metric_state.items()}


def test_arguments_by_name_and_position(steps: list[plans.Step]) -> None:
    metric = Accuracy(num_classes=3)
    metric.update(SCORES, TARGET)
    metric.update(target=TARGET, preds=SCORES)
    metric.update(SCORES, target=TARGET)
    metric.update(SCORES, TARGET, None)
    metric.update(SCORES, TARGET, sample_weight=None)
    assert (len(steps), metric._update_count) == (5, 5)
    assert metric.counts.sum(1).tolist() == [5.0, 10.0, 10.0, 30.0]


class Wrapped(Tensor):
    pass


def _stacked(function: Callable[[Tensor], Tensor]) -> Tensor:
    return torch.func.vmap(function)(SCORES[None])


REFUSED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "subclass": lambda: (SCORES.as_subclass(Wrapped), TARGET),
    "not contiguous": lambda: (SCORES.T.contiguous().T, TARGET),
    "negated": lambda: (torch.complex(SCORES, -SCORES).conj().imag, TARGET),
    "weights": lambda: (SCORES, TARGET, torch.ones(2)),
    "further dimensions": lambda: (SCORES[:, :, None], TARGET[:, None]),
    "floating target": lambda: (SCORES, TARGET.float()),
    "no rows": lambda: (SCORES[:0], TARGET[:0]),
    "many rows": lambda: (SCORES.repeat(plans.MAX_ELEMENTS, 1), TARGET.repeat(plans.MAX_ELEMENTS)),
    "zeros without memory": lambda: (torch._efficientzerotensor(2, 3), TARGET),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_arguments_take_the_checked_path(name: str, steps: list[plans.Step]) -> None:
    metric, checked = Accuracy(num_classes=3), Accuracy(num_classes=3)
    metric.update(SCORES, TARGET)
    assert len(steps) == 1
    metric.update(*REFUSED[name]())
    assert len(steps) == 1
    with plans.checked_only():
        checked.update(SCORES, TARGET)
        checked.update(*REFUSED[name]())
    assert torch.equal(metric.counts, checked.counts)
    assert torch.equal(metric.seen, checked.seen)


def test_transforms_of_functions_take_the_checked_path(steps: list[plans.Step]) -> None:
    metric = Accuracy(num_classes=3)

    def update(scores: Tensor) -> Tensor:
        with pytest.raises(RuntimeError, match=r"vmap|data_ptr|storage|data pointer"):
            metric.update(scores, TARGET)
        return scores

    _stacked(update)
    assert not steps
    assert metric._update_count == 0


def test_modes_take_the_checked_path(steps: list[plans.Step]) -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    metric = Accuracy(num_classes=3)
    for mode in (Functions, Dispatched):
        with mode():
            metric.update(SCORES, TARGET)
    assert not steps
    assert metric._update_count == 2


WRONG: dict[str, tuple[Any, Any, str]] = {
    "target": (SCORES, torch.tensor([0, 3]), r"target\[1\] must be a class index from 0 to 2"),
    "score": (torch.tensor([[0.5, 0.25, 0.25], [0.5, float("nan"), 0.25]]), TARGET, r"preds\[1, 1\] must not be NaN"),
    "label": (torch.tensor([0, -1]), TARGET, r"preds\[1\] must be a class index from 0 to 2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_refused_batch_changes_nothing(name: str) -> None:
    preds, target, message = WRONG[name]
    metric = Accuracy(num_classes=3)
    metric.update(SCORES, TARGET)
    before, count, value = tensors(metric), metric._update_count, metric.compute()
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert all(now is before[name] for name, now in tensors(metric).items())
    assert (metric._update_count, metric._computed) == (count, value)


def test_states_are_never_changed_in_place(steps: list[plans.Step]) -> None:
    metric = Accuracy(num_classes=3)
    default = metric._defaults["counts"]
    metric.update(SCORES, TARGET)
    first = metric.counts
    metric.update(SCORES, TARGET)
    assert len(steps) == 2
    assert first.sum().item() == 11.0
    assert not bool(default.any())  # type: ignore[union-attr]


def test_a_synchronised_metric_is_refused(steps: list[plans.Step]) -> None:
    metric = Accuracy(num_classes=3)
    metric._is_synced = True
    with pytest.raises(SyncError, match="update needs the state of this rank"):
        metric.update(SCORES, TARGET)
    assert not steps


def test_copies_have_plans_of_their_own(steps: list[plans.Step]) -> None:
    metric = Accuracy(num_classes=3)
    metric.update(SCORES, TARGET)
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        other.update(SCORES, TARGET)
        assert (other._update_count, metric._update_count) == (2, 1)
        assert other.seen.tolist() == [4, 0, 0, 0]
    assert metric.seen.tolist() == [2, 0, 0, 0]
    assert len(steps) == 4


def test_reset_load_and_moves(steps: list[plans.Step]) -> None:
    metric = Accuracy(num_classes=3)
    metric.update(SCORES, TARGET)
    data = metric.to_bytes()
    metric.reset()
    metric.update(SCORES, TARGET)
    metric.from_bytes(data)
    metric.to("cpu").update(SCORES, TARGET)
    assert (metric.seen.tolist(), metric._update_count, len(steps)) == ([4, 0, 0, 0], 2, 3)
    assert not any(name for name in metric.__dict__ if "plan" in name)


def test_a_replaced_state_is_looked_at(steps: list[plans.Step]) -> None:
    metric = Accuracy(num_classes=3)
    metric.update(SCORES, TARGET)
    metric.counts = torch.ones(3, 4, dtype=torch.float64).T
    metric.update(SCORES, TARGET)
    metric.counts = torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="must match the size"):
        metric.update(SCORES, TARGET)
    assert len(steps) == 1


def test_a_changed_choice_makes_new_plans() -> None:
    metric, checked = Accuracy(num_classes=3), Accuracy(num_classes=3)
    for each, switched in ((metric, False), (checked, True)):
        each.update(SCORES, TARGET)
        each.top_k = 3
        if switched:
            with plans.checked_only():
                each.update(SCORES, TARGET)
        else:
            each.update(SCORES, TARGET)
    assert metric.counts.tolist() == checked.counts.tolist()
    assert metric.counts[0].sum().item() == 3.0


def test_a_choice_that_was_another_for_a_while_leaves_no_plan() -> None:
    """Plans are not made for a choice while those of the choice before are kept, whatever the checked path takes."""
    metric, expected = Accuracy(num_classes=3), Accuracy(num_classes=3)
    metric.update(SCORES, TARGET)
    metric.top_k = 2
    metric.update(SCORES.repeat(2, 1).T.contiguous().T, TARGET.repeat(2))
    metric.top_k = 1
    metric.reset()
    for each in (metric, expected):
        each.update(SCORES.repeat(2, 1), TARGET.repeat(2))
    assert torch.equal(metric.counts, expected.counts)


def test_a_subclass_with_an_update_of_its_own_has_no_plans(steps: list[plans.Step]) -> None:
    class Doubled(Accuracy):
        def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
            super().update(preds, target)
            super().update(preds, target)

    class Named(Accuracy):
        pass

    class Told(Accuracy):
        def _add(self, batch: Any, error: Tensor | None = None) -> None:
            super()._add(batch, error)

    for kind, seen, taken in ((Doubled, 4, 0), (Told, 2, 0), (Named, 2, 1)):
        steps.clear()
        metric = kind(num_classes=3)
        metric.update(SCORES, TARGET)
        assert (int(metric.seen[0]), len(steps)) == (seen, taken)


def test_many_forms_do_not_fill_the_memory() -> None:
    made: list[plans.Form] = []
    planner = plans.pair_planner({"a": 1, "b": 2}, ("a", "b"), lambda form: made.append(form))  # type: ignore[func-returns-value]
    for _ in range(2):
        for rows in range(1, plans._MAX_FORMS + 2):
            assert planner({"error": torch.tensor(0)}, (torch.zeros(rows), torch.zeros(rows)), {}) is None
    assert len(made) > plans._MAX_FORMS + 1


def test_an_interrupt_between_rows_takes_them_back() -> None:
    class Interrupting(list[Tensor]):
        def append(self, item: Tensor) -> None:
            super().append(item)
            raise KeyboardInterrupt

    state = {"_update_count": 3, "a": [], "b": Interrupting(), "c": 1}
    step = plans.Step({}, [("a", TARGET), ("b", TARGET)])
    with pytest.raises(KeyboardInterrupt):
        plans.commit(state, step)
    assert (state["a"], state["b"], state["_update_count"]) == ([], [], 3)


def test_a_collection_reads_once(steps: list[plans.Step]) -> None:
    kinds = (Accuracy, F1Score, Precision, Recall)
    together = torchmetrics.MetricCollection([kind(num_classes=3) for kind in kinds])
    together.update(SCORES, TARGET)
    steps.clear()
    for _ in range(3):
        together.update(SCORES, TARGET)
    assert len(steps) == 3
    values = together.compute()
    alone = {kind.__name__: kind(num_classes=3) for kind in kinds}
    for metric in alone.values():
        for _ in range(4):
            metric.update(SCORES, TARGET)
        assert values[type(metric).__name__] == metric.compute()


@pytest.mark.parametrize("exact", [False, True])
def test_forward_adds_the_batch_and_gives_its_value(exact: bool, steps: list[plans.Step]) -> None:
    metric, checked = (ROCAUC() if exact else Accuracy(num_classes=3) for _ in range(2))
    batch = (SCORES[0], torch.tensor([1, 0, 0])) if exact else (SCORES, TARGET)
    for _ in range(3):
        value = metric(*batch)
        with plans.checked_only():
            assert torch.equal(checked(*batch), value)
        assert metric._forward_cache is value
    assert len(steps) == 3
    assert metric._computed is None
    assert metric._update_count == checked._update_count == 3
    assert torch.equal(metric.compute(), checked.compute())
    for name, tensor in metric.state().tensors().items():
        assert torch.equal(tensor, getattr(checked.state(), name))


def test_a_forward_whose_compute_raises_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = ROCAUC()
    metric.update(SCORES[0], torch.tensor([1, 0, 0]))
    before, value = tensors(metric), metric.compute()

    def broken(self: Any) -> Tensor:
        raise ArithmeticError("no value")

    monkeypatch.setattr(ROCAUC, "compute", broken)
    with pytest.raises(ArithmeticError, match="no value"):
        metric(SCORES[0], torch.tensor([1, 0, 0]))
    after = tensors(metric)
    assert all(len(rows) == len(after[name]) for name, rows in before.items() if isinstance(rows, list))
    assert (metric._update_count, metric._computed) == (1, value)


def test_a_value_is_no_view_of_the_state() -> None:
    metric = ConfusionMatrix(num_classes=3)
    metric.update(SCORES, TARGET)
    metric.compute().zero_()
    assert metric.matrix.sum().item() == 2.0
    metric(SCORES, TARGET).zero_()
    assert metric.matrix.sum().item() == 4.0


def test_forward_of_a_collection_counts_once() -> None:
    """Its members hold the same lists, and each of them has a forward."""
    together = torchmetrics.MetricCollection({"a": ROCAUC(), "b": ROCAUC()})
    for _ in range(3):
        together.update(SCORES[0], torch.tensor([1, 0, 0]))
        together(SCORES[0], torch.tensor([1, 0, 0]))
        assert together.compute()["a"] == 1.0
    assert [len(metric.state().scores) for metric in together.values()] == [18, 18]


@pytest.mark.parametrize("arrival", [False, True])
def test_an_interrupt_of_a_checked_forward_finds_the_state_before_or_after(
    arrival: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = ROCAUC() if arrival else Accuracy()
    preds, target = SCORES[:, 0].contiguous(), torch.tensor([0, 1])
    metric(preds, target)
    before, done = condition(metric), metric.clone()
    done(preds, target)
    stopped = 0
    for calls in range(40):
        left = iter(range(calls))

        def interrupt(self: Any, name: str, value: Any, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            object.__setattr__(self, name, value)

        with monkeypatch.context() as patch, plans.checked_only():
            patch.setattr(Settable, "__setattr__", interrupt)
            try:
                metric(preds, target)
            except KeyboardInterrupt:
                stopped += 1
                now = condition(metric)
                assert now in (before, condition(done))
                if now != before:
                    break
            else:
                break
    assert 2 < stopped < 40
