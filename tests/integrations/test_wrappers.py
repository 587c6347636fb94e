"""Every metric in the wrappers of torchmetrics: the numbers of a plain loop, or one line that says what to use."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.wrappers import (
    BootStrapper,
    ClasswiseWrapper,
    LambdaInputTransformer,
    MetricTracker,
    MinMaxMetric,
    MultioutputWrapper,
    MultitaskWrapper,
    Running,
)
from torchmetrics.wrappers.bootstrapping import _bootstrap_sampler

from tests.contents import content
from tests.contract import CPU, METRICS, Batch, Case, place, updated
from valor_gpu.errors import InputError

every_case = pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
NO_VALUES = frozenset(("DetectionExamples", "BinaryFairness", "BinaryFairness-kept"))
"""Metrics whose values have another shape, or other names, for other data, so that a tracker cannot stack them."""
UNKNOWN_CLASSES = frozenset(("MeanIoU of unknown classes",))
"""Metrics that learn their classes from data: a wrapper cannot know how many values they return."""
UNKNOWN_OUTPUTS = frozenset(("R2Score-outputs",))
"""Metrics that learn their outputs from data; of a single output they return a number that ``MinMaxMetric`` takes."""
PER_SAMPLE = re.compile(r".*-samplewise|CriticalSuccessIndex-steps|JensenShannonDivergence")
"""Cases with a value per sample or step, so that more data have more values."""
KEEPS_NANS = frozenset(("SpearmanCorrCoef", "KendallRankCorrCoef"))
"""Cases whose states hold NaN: a collection finds no two of them equal, and updates each."""


BY_NAME = {case.name: case for case in METRICS}


@functools.lru_cache(maxsize=64)
def value_of(name: str, indices: Sequence[int]) -> Any:
    case = BY_NAME[name]
    return updated(case.make(), [case.batch(i) for i in indices]).compute()


def value(case: Case, *indices: int) -> Any:
    """What a new metric returns for these batches."""
    return value_of(case.name, indices)


def given(case: Case, index: int) -> Batch:
    """A copy of a batch."""
    batch: Batch = place(case.batch(index), CPU)
    return batch


def takes_tensors(case: Case) -> bool:
    return isinstance(case.batch(0)[0], Tensor)


@every_case
def test_running_gives_the_value_of_its_window(case: Case) -> None:
    running = Running(case.make(), window=2)
    for index in range(4):
        if index % 2:
            assert content(running(*given(case, index))) == content(value(case, index))
        else:
            running.update(*given(case, index))
        assert content(running.compute()) == content(value(case, *range(max(0, index - 1), index + 1)))
    for made in (running.clone(), copy.deepcopy(running), pickle.loads(pickle.dumps(running))):
        made.update(*given(case, 0))
        assert content(made.compute()) == content(value(case, 3, 0))
    assert content(running.compute()) == content(value(case, 2, 3))
    running.reset()
    running.update(*given(case, 1))
    assert content(running.compute()) == content(value(case, 1))


@every_case
def test_running_keeps_its_state_in_a_checkpoint(case: Case) -> None:
    running, loaded = Running(case.make(), window=2), Running(case.make(), window=2)
    running.persistent(True)
    loaded.persistent(True)
    for index in range(3):
        running.update(*given(case, index))
    model = torch.nn.ModuleDict({"metric": loaded})
    model.load_state_dict(torch.nn.ModuleDict({"metric": running}).state_dict())
    with pytest.warns(UserWarning, match="was called before the ``update`` method"):  # torchmetrics saves no count
        found = loaded.compute()
    if case.order_free:  # nor which of the batches came first
        assert content(found) == content(value(case, 1, 2))


@every_case
def test_a_tracker_keeps_the_value_of_every_epoch(case: Case) -> None:
    metric = case.make()
    tracker = MetricTracker(metric, maximize=True if metric.higher_is_better is None else None)
    for epoch in range(3):
        tracker.increment()
        tracker.update(*given(case, epoch))
        assert content(tracker(*given(case, 3))) == content(value(case, 3))
        assert content(tracker.compute()) == content(value(case, epoch, 3))
    values = [value(case, epoch, 3) for epoch in range(3)]
    assert tracker.n_steps == 3
    check_tracked(case, tracker, values)
    tracker.reset_all()
    assert [each.update_count for each in tracker][1:] == [0, 0, 0]


def check_tracked(case: Case, tracker: MetricTracker, values: Sequence[Any]) -> None:
    if case.name in NO_VALUES:
        return
    if isinstance(values[0], dict):
        if any(isinstance(part, dict) for part in values[0].values()):
            return  # as of an extended summary, which torchmetrics returns as a list
        assert content(tracker.compute_all()) == {
            name: content(torch.stack([each[name] for each in values])) for name in values[0]
        }
        with pytest.raises(InputError, match=r"best_metric needs a single number but .* MetricTracker\(metric\['"):
            tracker.best_metric()
    elif isinstance(values[0], Tensor):
        assert content(tracker.compute_all()) == content(torch.stack(values))
        if not values[0].ndim:
            numbers = list(map(float, values))
            best = (max if tracker.maximize else min)(numbers)
            assert tracker.best_metric(return_step=True) == (best, numbers.index(best))


@every_case
def test_minmax_gives_the_extremes_of_a_single_number(case: Case) -> None:
    if not (isinstance(value(case, 0), Tensor) and value(case, 0).numel() == 1):
        if case.name not in UNKNOWN_CLASSES | UNKNOWN_OUTPUTS:
            with pytest.raises(
                InputError, match=r"MinMaxMetric cannot wrap \w+, whose compute returns .*(metric\[|result\(\))"
            ):
                MinMaxMetric(case.make())
        return
    wrapped, seen = MinMaxMetric(case.make()), []
    for index in range(3):
        wrapped.update(*given(case, index))
        found = wrapped.compute()
        seen.append(value(case, *range(index + 1)))
        assert content(found["raw"]) == content(seen[-1])
        assert (float(found["min"]), float(found["max"])) == (min(map(float, seen)), max(map(float, seen)))
    assert content(pickle.loads(pickle.dumps(wrapped)).compute()["raw"]) == content(seen[-1])
    wrapped.reset()
    wrapped.update(*given(case, 1))
    assert content(wrapped.compute()["raw"]) == content(value(case, 1))


@every_case
def test_classwise_names_every_value_of_a_vector(case: Case) -> None:
    vector = value(case, 0)
    if not (isinstance(vector, Tensor) and vector.ndim):
        need = r"ClasswiseWrapper cannot wrap \w+, whose (compute returns a|numbers per class are) .*use result\(\)"
        with pytest.raises(InputError, match=need):
            ClasswiseWrapper(case.make())
        return
    if case.name in UNKNOWN_CLASSES or PER_SAMPLE.fullmatch(case.name):
        return
    labels = [f"class {index}" for index in range(len(vector))]
    wrapped = ClasswiseWrapper(case.make(), labels=labels, prefix="is ")
    for index in range(2):
        wrapped.update(*given(case, index))
        expected = dict(zip((f"is {label}" for label in labels), value(case, *range(index + 1))))
        assert content(wrapped.compute()) == content(expected)
    assert content(list(wrapped(*given(case, 2)).values())) == content(list(value(case, 2)))
    for made in (wrapped.clone(), pickle.loads(pickle.dumps(wrapped))):
        assert content(list(made.compute().values())) == content(list(value(case, 0, 1, 2)))
    wrapped.reset()
    wrapped.update(*given(case, 1))
    assert content(list(wrapped.compute().values())) == content(list(value(case, 1)))


@every_case
def test_bootstrapper_resamples_tensors_and_rejects_lists(case: Case) -> None:
    if not takes_tensors(case):
        with pytest.raises(
            InputError, match=r"BootStrapper cannot wrap \w+, whose update takes lists .*intervals=1000"
        ):
            BootStrapper(case.make(), 3)
        return
    found = value(case, 0)
    if not isinstance(found, Tensor) or PER_SAMPLE.fullmatch(case.name):
        with pytest.raises(InputError, match=r"BootStrapper cannot wrap \w+, whose compute returns a "):
            BootStrapper(case.make(), 3)
        return
    if case.name in UNKNOWN_CLASSES:
        return
    boot = BootStrapper(case.make(), 3, mean=False, std=False, raw=True, sampling_strategy="multinomial")
    torch.manual_seed(3)
    for index in range(2):
        boot.update(*given(case, index))
    copies = [case.make() for _ in range(3)]
    torch.manual_seed(3)
    for index in range(2):
        for metric in copies:
            rows = _bootstrap_sampler(len(case.batch(index)[0]), "multinomial")
            metric.update(*(tensor[rows] for tensor in given(case, index)))
    assert content(boot.compute()["raw"]) == content(torch.stack([metric.compute() for metric in copies]))


@every_case
def test_multioutput_rejects_lists_and_values_that_do_not_stack(case: Case) -> None:
    if not takes_tensors(case):
        with pytest.raises(InputError, match=r"MultioutputWrapper cannot wrap \w+, .* lists .*use MultitaskWrapper"):
            MultioutputWrapper(case.make(), 2, remove_nans=False, squeeze_outputs=False)
    elif not isinstance(value(case, 0), Tensor):
        with pytest.raises(
            InputError, match=r"MultioutputWrapper cannot wrap \w+, whose compute returns a \w+ instead"
        ):
            MultioutputWrapper(case.make(), 2)
    else:
        MultioutputWrapper(case.make(), 2)


@every_case
def test_wrappers_that_pass_everything_on(case: Case) -> None:
    if len(case.batch(0)) != 2:
        return  # MultitaskWrapper passes predictions and targets on alone: see the test of names for the others
    tasks = MultitaskWrapper(
        {"a": case.make(), "b": MetricCollection({"x": case.make(), "y": case.other()}, prefix="in_")}, postfix="_task"
    )
    lambdas = LambdaInputTransformer(case.make(), transform_pred=lambda preds: preds)
    nested = MetricCollection({"outer": MetricCollection({"inner": case.make()}, prefix="p_"), "own": case.make()})
    for index in range(2):
        preds, target = given(case, index)
        tasks.update({"a": preds, "b": preds}, {"a": target, "b": target})
        lambdas.update(preds, target)
        nested.update(preds, target)
    both, found = content(value(case, 0, 1)), content(tasks.compute())
    assert found["a_task"] == both and set(found) == {"a_task", "b_task"}
    if not isinstance(both, dict):  # whose names a collection gives prefixes
        assert found["b_task"]["in_x"] == both
    assert content(lambdas.compute()) == both
    assert [content(metric.compute()) for metric in nested.values()] == [both, both]
    assert len(nested.compute_groups) == (2 if case.name in KEEPS_NANS else 1)
    preds, target = given(case, 2)
    assert content(tasks({"a": preds, "b": preds}, {"a": target, "b": target})["a_task"]) == content(value(case, 2))
    assert content(lambdas(preds, target)) == content(value(case, 2))
    for wrapper in (tasks, lambdas, nested):
        wrapper.reset()
    assert [metric.update_count for metric in (*tasks.values(), lambdas.wrapped_metric, *nested.values())] == [0] * 6


@every_case
def test_wrappers_pass_every_argument_on_by_its_name(case: Case) -> None:
    """Indexes of queries and groups too, which stand after predictions and targets."""
    names = list(inspect.signature(case.make().update).parameters)

    def named(index: int) -> dict[str, Any]:
        return dict(zip(names, given(case, index), strict=False))

    tracker = MetricTracker(case.make(), maximize=True)
    tracker.increment()
    lambdas = LambdaInputTransformer(case.make(), transform_pred=lambda preds: preds)
    nested = MetricCollection({"outer": MetricCollection({"inner": case.make()}, prefix="p_"), "own": case.make()})
    running = Running(case.make(), window=2)
    for index in range(2):
        for wrapper in (tracker, nested, running):
            wrapper.update(**named(index))
        first, *others = given(case, index)
        lambdas.update(first, **dict(zip(names[1:], others)))
    both = content(value(case, 0, 1))
    assert [content(each.compute()) for each in (tracker, lambdas, running)] == [both] * 3
    assert [content(metric.compute()) for metric in nested.values()] == [both, both]
    assert content(running(**named(2))) == content(value(case, 2))
    collection = MetricCollection({"own": case.make()})
    collection(**named(2), unknown=None)  # a collection gives each member the arguments that it has
    assert content(collection["own"].compute()) == content(value(case, 2))
    if len(given(case, 0)) == 3:
        tasks = MultitaskWrapper({"a": case.make()})
        with pytest.raises(TypeError, match=f"missing 1 required positional argument: '{names[2]}'"):
            tasks.update(*({"a": each} for each in given(case, 0)[:2]))


@every_case
def test_arithmetic_of_metrics(case: Case) -> None:
    first, metric = value(case, 0), case.make()
    key: Any = next(iter(first)) if isinstance(first, dict) else 0
    in_parts = isinstance(first, (dict, tuple)) or first.ndim > 0
    expected = first[key] if in_parts else first
    part = metric[key] if in_parts else metric + 0
    part.update(*given(case, 0))
    assert content(part.compute()) == content(expected)
    if isinstance(expected, Tensor) and expected.is_floating_point():
        assert content(abs(2 * part - 1).compute()) == content(abs(2 * expected - 1))
        assert content((part + metric[key] if in_parts else part + metric).compute()) == content(expected + expected)
    if case.name in NO_VALUES:  # whose names hold the groups of the lowest and the highest rate
        return
    assert content(part(*given(case, 1))) == content(value(case, 1)[key] if in_parts else value(case, 1))
    part.reset()
    assert metric.update_count == 0
