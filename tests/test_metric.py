"""The shell beyond the contract: what it refuses, torchmetrics' wrappers, Lightning, memory."""

from __future__ import annotations

import gc
import logging
import warnings
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.utilities.exceptions import TorchMetricsUserError
from torchmetrics.wrappers import MetricTracker, MinMaxMetric, Running

from tests.contents import content
from tests.contract import Passes, PassRate, _pass_batch, condition, unchanged, updated
from valor_gpu.errors import InputError, MissingExtraError, SyncError
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.state import State, joined, summed


@dataclass(frozen=True)
class Total(State):
    total: Tensor = summed()  # int64 []
    rows: Tensor = joined()  # int64 [N]


class Sum(Metric[Total]):
    """Adds up integers; negative ones are an error that only ``compute`` raises."""

    update_family = "Sum"

    def __init__(self, config: Any = (), **kwargs: Any) -> None:
        super().__init__(Total(torch.tensor(0), torch.zeros(0, dtype=torch.int64)), config, **kwargs)

    def update(self, values: Tensor) -> None:
        offender = torch.where(values < 0, torch.arange(len(values)), NO_ERROR).amin()
        self._add(Total(values.sum(), values.clone()), offender)

    def compute(self) -> Tensor:
        return self.state().total

    def _describe_error(self, code: int) -> str:
        return f"values must be at least 0 but number {code} is not"


class Mean(Sum):
    def compute(self) -> Tensor:
        state = self.state()
        return state.total / len(state.rows)


def two_ranks(tensor: Tensor, group: Any = None) -> list[Tensor]:
    return [tensor, tensor]


distributed = partial(Sum, dist_sync_fn=two_ranks, distributed_available_fn=lambda: True)


def test_the_sticky_error_is_the_least_and_raised_by_compute_until_reset() -> None:
    metric = Sum()
    metric.update(torch.tensor([1, 2, -1]))
    metric.update(torch.tensor([1, -2]))
    metric.update(torch.tensor([1]))
    assert metric.update_count == 3
    for _ in range(2):
        with unchanged(metric), pytest.raises(InputError, match="values must be at least 0 but number 1 is not"):
            metric.compute()
    shard = updated(Sum(), [(torch.tensor([5]),)])
    shard.merge_state(metric.to_bytes())
    with pytest.raises(InputError, match="number 1 is not"):
        shard.compute()
    metric.reset()
    assert metric(torch.tensor([3])) == 3
    with unchanged(metric), pytest.raises(InputError, match="number 0 is not"):
        metric(torch.tensor([-3]))
    assert metric.compute() == 3


def test_the_message_of_an_unnamed_error() -> None:
    metric = PassRate()
    metric.error = torch.tensor(7)
    metric._update_count = 1
    with pytest.raises(InputError, match="an update failed with code 7"):
        metric.compute()


def test_the_batch_must_fit_the_empty_state() -> None:
    metric = updated(Sum(), [(torch.tensor([1]),)])
    with (
        unchanged(metric),
        pytest.raises(InputError, match=r"state field rows must be int64 \[N\] but got torch.int32"),
    ):
        metric._add(Total(torch.tensor(1), torch.zeros(1, dtype=torch.int32)))
    with (
        unchanged(metric),
        pytest.raises(InputError, match=r"must be on cpu like the metric but are on meta: move one"),
    ):
        metric._add(Total(torch.tensor(1), torch.zeros(1, dtype=torch.int64, device="meta")))


def test_the_constructor_refuses_what_cannot_work() -> None:
    @dataclass(frozen=True)
    class Shadow(State):
        compute: Tensor = summed()

    @dataclass(frozen=True)
    class Error(State):
        error: Tensor = summed()

    class Plain(Metric[Any]):
        def update(self) -> None: ...
        def compute(self) -> None: ...

    with pytest.raises(InputError, match="state field compute must have another name: every metric has that attribute"):
        Plain(Shadow(torch.tensor(0)))
    with pytest.raises(InputError, match="state field error must have another name"):
        Plain(Error(torch.tensor(0)))
    with pytest.raises(InputError, match="empty must hold no data but its field total does"):
        Plain(Total(torch.tensor(1), torch.zeros(0, dtype=torch.int64)))
    with pytest.raises(InputError, match="empty must hold no data but its field rows does"):
        Plain(Total(torch.tensor(0), torch.zeros(1, dtype=torch.int64)))
    with pytest.raises(InputError, match="empty of Plain must be a State but got int; a class that uses add_state"):
        Plain(0)  # type: ignore[type-var]
    with pytest.raises(InputError, match="config must hold numbers, strings, lists and dicts but got set"):
        Sum({"a": {1}})


def test_classes_of_one_update_family_share_it_in_a_collection() -> None:
    class Separate(Sum):
        update_family = None

    collection = MetricCollection({"mean": Mean(), "separate": Separate(), "sum": Sum(), "sum3": Sum([3])})
    collection.update(torch.tensor([2, 4]))
    assert sorted(map(sorted, collection.compute_groups.values())) == [["mean", "sum"], ["separate"], ["sum3"]]
    collection.update(torch.tensor([6]))
    assert {name: float(value) for name, value in collection.compute().items()} == {
        "mean": 4,
        "separate": 12,
        "sum": 12,
        "sum3": 12,
    }
    collection["mean"].merge_state(collection["sum"])
    assert collection["mean"].compute() == 4


def test_a_class_that_replaces_update_leaves_its_family() -> None:
    class Positive(Sum):
        def update(self, values: Tensor) -> None:
            super().update(values[values > 0])

    collection = MetricCollection({"positive": Positive(), "sum": Sum()})
    for values in ([2, 4], [0, 6]):  # the states are alike after the first
        collection.update(torch.tensor(values))
    assert [len(metric.state().rows) for metric in collection.values()] == [3, 4]
    with pytest.raises(SyncError, match="Positive"):
        Positive().merge_state(Sum())


def test_result_by_default_is_the_value_with_the_configuration() -> None:
    result = updated(Sum({"base": 10}), [(torch.tensor([4]),)]).result()
    assert result.scalars() == {"Sum": 4.0}
    assert str(result.signature).startswith("metric:Sum|base:10|version:")


def test_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    matplotlib.use("Agg")
    metric = updated(Sum(), [(torch.tensor([4]),)])
    figure, _ = metric.plot()
    assert figure is not None
    matplotlib.pyplot.close(figure)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"Metric.plot needs matplotlib: pip install 'valor_gpu\[plot\]'"):
        metric.plot()


def test_two_mocked_ranks_and_a_failed_synchronisation() -> None:
    metric = updated(distributed(), [(torch.tensor([4]),)])
    assert metric.compute() == 8
    metric.update(torch.tensor([1]))

    def broken(tensor: Tensor, group: Any = None) -> list[Tensor]:
        raise ConnectionError("network down")

    metric.dist_sync_fn = broken
    with unchanged(metric), pytest.raises(ConnectionError, match="network down"):
        metric.compute()
    assert metric._cache is None
    metric.dist_sync_fn = two_ranks
    assert metric.compute() == 10


def test_what_was_gathered_is_freed() -> None:
    """By an update, a reset, a move and where nothing may be cached."""
    for free in (
        lambda m: m.update(torch.tensor([1])),
        lambda m: m.reset(),
        lambda m: m.to("cpu"),
        lambda m: m.merge_state(Sum()),
        lambda m: m.from_bytes(Sum().to_bytes()),
    ):
        metric = updated(distributed(), [(torch.tensor([4]),)])
        metric.compute()
        gathered = weakref.ref(metric._merged.tensors["rows"])
        assert gathered() is not None
        free(metric)
        gc.collect()
        assert gathered() is None
    metric = updated(distributed(compute_with_cache=False), [(torch.tensor([4]),)])
    assert metric.compute() == 8
    assert metric._merged is None


def test_pickle_leaves_out_what_was_gathered() -> None:
    metric = updated(distributed(), [(torch.tensor([4]),)])
    metric.compute()
    assert metric.clone()._merged is None
    assert metric.clone().compute() == 8


def test_forward_and_sync_copy_no_rows() -> None:
    metric = updated(distributed(), [(torch.arange(5),), (torch.arange(7),)])
    rows = [tensor.data_ptr() for tensor in metric.rows]
    metric(torch.arange(3))
    metric.compute()
    metric.sync(two_ranks)
    metric.unsync()
    assert [tensor.data_ptr() for tensor in metric.rows[:2]] == rows


def test_members_of_a_collection_do_not_disturb_one_another() -> None:
    collection = MetricCollection({"a": Sum(), "b": Sum()})
    for number in range(4):
        (collection.update if number % 2 else collection)(torch.tensor([number]))
        assert [len(m.state().rows) for m in collection.values(copy_state=False)] == [number + 1] * 2
    collection["a"].reset()
    with pytest.warns(UserWarning, match="before the ``update``"):
        assert {name: int(value) for name, value in collection.compute().items()} == {"a": 0, "b": 6}


def test_rows_move_to_the_cpu(device: torch.device) -> None:
    metric = updated(PassRate(compute_on_cpu=True), [_pass_batch(0)], device)
    metric(*(tensor.to(device) for tensor in _pass_batch(1)))
    assert all(
        tensor.device.type == "cpu" for tensor in (*metric.pairs, *metric.passed, *metric.state().tensors().values())
    )
    metric.to(device)
    metric.update(*(tensor.to(device) for tensor in _pass_batch(2)))
    metric.compute_on_cpu = False
    assert metric.state().pairs.device == device
    assert len(metric.state().pairs) == 15


def test_moving_to_another_device_in_the_middle(device: torch.device) -> None:
    metric = updated(PassRate(), [_pass_batch(0)])
    model = torch.nn.ModuleDict({"metric": metric}).to(device)
    model["metric"].update(*(tensor.to(device) for tensor in _pass_batch(1)))
    model.to("cpu")
    metric.update(*_pass_batch(2))
    assert content(metric.compute()) == content(updated(PassRate(), [_pass_batch(i) for i in range(3)]).compute())


def test_synced_metrics_refuse_a_second_sync_as_torchmetrics_does() -> None:
    metric = updated(distributed(), [(torch.tensor([4]),)])
    with metric.sync_context(two_ranks):
        assert metric.state().total == 8
        with pytest.raises(TorchMetricsUserError, match="has already been synced"):
            metric.compute()
        with pytest.raises(SyncError, match=r"update needs the state of this rank .* call unsync\(\)"):
            metric.update(torch.tensor([1]))
    assert metric.compute() == 8


def test_running_window_tracker_and_minmax() -> None:
    running = Running(Sum(), window=2)
    for number in (1, 2, 3):
        running.update(torch.tensor([number]))
    assert running.compute() == 5
    running(torch.tensor([4]))
    assert running.compute() == 7

    tracker = MetricTracker(Mean(), maximize=True)
    for epoch in range(3):
        tracker.increment()
        tracker.update(torch.tensor([epoch, 5 if epoch == 1 else 0]))
    assert tracker.compute_all().tolist() == [0, 3, 1]
    assert tracker.best_metric(return_step=True) == (3, 1)

    minmax = MinMaxMetric(Sum())
    assert [float(minmax(torch.tensor([number]))["max"]) for number in (2, 5, 3)] == [2, 5, 5]


def test_arguments_by_keyword_are_filtered_in_a_collection() -> None:
    collection = MetricCollection({"rate": PassRate()})
    scores, labels = _pass_batch(0)
    collection.update(scores=scores, labels=labels, masks=None)
    assert content(collection["rate"].compute()) == content(updated(PassRate(), [_pass_batch(0)]).compute())


def test_gradients_do_not_enter_the_state() -> None:
    metric = PassRate()
    scores = torch.rand(3, requires_grad=True)
    metric(scores, torch.tensor([0, 1, 2]))
    state = metric.state()
    metric._add(Passes(state.pairs.clone().requires_grad_(), state.passed, state.per_label, state.lowest))
    assert len(metric.state().pairs) == 6
    assert not any(tensor.requires_grad for tensor in metric.state().tensors().values())
    assert condition(metric.clone()) == condition(metric)


def lightning_model(lightning: Any) -> Any:
    """A model whose steps log metrics in the ways that Lightning knows."""

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.train_sum, self.val_sum, self.val_mean = Sum(), Sum(), Mean()
            self.per_epoch: list[int] = []

        def training_step(self, batch: Tensor, index: int) -> Tensor:
            self.train_sum(batch.long().flatten())
            self.log("train_sum", self.train_sum, on_step=True, on_epoch=True)
            return self.layer(batch).sum()

        def validation_step(self, batch: Tensor, index: int) -> None:
            self.val_sum.update(batch.long().flatten())
            self.val_mean.update(batch.long().flatten())
            self.log("val_sum", self.val_sum)

        def on_validation_epoch_end(self) -> None:
            self.log_dict(self.val_mean.result().scalars("val/"))
            self.per_epoch.append(int(self.val_mean.compute()))
            self.val_mean.reset()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    return Model()


@pytest.mark.filterwarnings("ignore")  # those of Lightning itself
def test_lightning_logs_and_resets(tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    def loader(count: int) -> Any:
        return torch.utils.data.DataLoader(torch.arange(float(count))[:, None], batch_size=2)

    model = lightning_model(lightning)
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=1,
        default_root_dir=tmp_path,
    )
    trainer.fit(model, loader(4), loader(5))
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert logged["train_sum_epoch"] == 6 and logged["train_sum_step"] == 5
    assert logged["val_sum"] == 10 and logged["val/Mean"] == 2
    assert model.per_epoch == [0, 2, 2]
    assert sorted(model.state_dict()) == ["layer.bias", "layer.weight"]


def test_a_state_of_all_ranks_is_not_written_or_merged() -> None:
    metric = distributed()
    metric.update(torch.tensor([1, 2]))
    metric.sync(two_ranks, distributed_available=lambda: True)
    with pytest.raises(SyncError, match="to_bytes needs the state of this rank"):
        metric.to_bytes()
    with pytest.raises(SyncError, match="merge_state of it needs the state of this rank"):
        Sum().merge_state(metric)
    metric.unsync()
    other = Sum()
    other.merge_state(metric)
    assert other.compute() == 3 and Sum().from_bytes(metric.to_bytes()).compute() == 3


class Torn(Sum):
    def update(self, values: Tensor) -> None:
        super().update(values)
        if len(values) > 2:
            raise InputError("values must be few")


def test_an_update_that_fails_after_it_added_leaves_nothing() -> None:
    metric = Torn()
    metric.update(torch.tensor([1]))
    with pytest.raises(InputError, match="values must be few"):
        metric.update(torch.tensor([1, 2, 3]))
    assert metric.compute() == 1 and len(metric.state().rows) == 1 and metric.update_count == 1


def test_compiled_programs_call_metrics() -> None:
    metric = Sum()

    def step(values: Tensor) -> Tensor:
        doubled = values * 2
        metric.update(doubled)
        return doubled + metric(values) + metric.compute()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch's compiler warns of is not ours
        step = torch.compile(step, backend="eager")
        assert step(torch.tensor([1, 2])).tolist() == [2 + 3 + 9, 4 + 3 + 9]
        torch.compiler.reset()
    assert metric.update_count == 2
