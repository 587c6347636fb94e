"""Wrappers of torchmetrics around our metrics and around torchmetrics' own: the same numbers, or a fault mended."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics
import torchmetrics.classification as peer
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.wrappers import (
    BinaryTargetTransformer,
    BootStrapper,
    ClasswiseWrapper,
    LambdaInputTransformer,
    MetricTracker,
    MinMaxMetric,
    MultioutputWrapper,
    Running,
)

from tests.contents import content
from tests.contract import METRICS, place
from tests.ddp import run_ranks
from valor_gpu import classification, text
from valor_gpu.classification import BinaryAccuracy, MulticlassAccuracy, MulticlassAUROC, MulticlassRecall
from valor_gpu.compat.torchmetrics.wrapped import _rule_of
from valor_gpu.detection import DetectionF1, IntersectionOverUnion, MeanAveragePrecision, OpenImagesAveragePrecision
from valor_gpu.errors import InputError, SyncError
from valor_gpu.regression import CriticalSuccessIndex, JensenShannonDivergence, R2Score

PAIRS = [
    (name, choices)
    for name in ("MulticlassAccuracy", "MulticlassF1Score", "MulticlassAUROC", "MulticlassJaccardIndex")
    for choices in ({"num_classes": 3}, {"num_classes": 3, "average": "none"})
]
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "ClasswiseWrapper": lambda metric: ClasswiseWrapper(metric, labels=["a", "b", "c"]),
    "MinMaxMetric": MinMaxMetric,
    "Running": lambda metric: Running(metric, window=2),
    "BootStrapper": lambda metric: BootStrapper(metric, 4, quantile=0.5, raw=True),
    "MultioutputWrapper": lambda metric: MultioutputWrapper(metric, 2, output_dim=0),
    "LambdaInputTransformer": lambda metric: LambdaInputTransformer(metric, transform_target=lambda t: (t + 1) % 3),
}


def batch(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.cat((torch.arange(3), torch.randint(3, (17,), generator=generator)))
    return torch.rand(20, 3, generator=generator).softmax(1), target


def outputs(seed: int) -> tuple[Tensor, Tensor]:
    return tuple(torch.stack(pair) for pair in zip(batch(seed), batch(seed + 10)))  # type: ignore[return-value]


def numbers(wrapper: Any) -> Any:
    """Values of three epochs: ``forward`` of each batch, the value after it, and after ``reset``."""
    torch.manual_seed(0)
    give = outputs if isinstance(wrapper, MultioutputWrapper) else batch
    found = []
    for index in range(3):
        if index < 2:
            wrapper.update(*give(index))
        else:
            found.append(wrapper(*give(index)))
        found.append(wrapper.compute())
    wrapper.reset()
    wrapper.update(*give(4))
    return [*found, wrapper.compute()]


def expect_close(found: Any, expected: Any) -> None:
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(found, Tensor):
        torch.testing.assert_close(found.float(), expected.float(), rtol=1e-6, atol=1e-6)
        return
    for pair in zip(found, expected, strict=True):
        expect_close(*pair)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(("name", "choices"), PAIRS, ids=lambda part: part if isinstance(part, str) else len(part))
def test_the_numbers_are_those_of_torchmetrics(name: str, choices: dict[str, Any], wrapper: str) -> None:
    fits = {"ClasswiseWrapper": "average" in choices, "MinMaxMetric": "average" not in choices}
    kept = name == "MulticlassAUROC" and wrapper == "Running"  # torchmetrics' own fails: No samples to concatenate
    if fits.get(wrapper, True) and not kept:
        ours, theirs = (WRAPPERS[wrapper](getattr(home, name)(**choices)) for home in (classification, peer))
        expect_close(numbers(ours), numbers(theirs))


def test_binary_targets_are_those_of_torchmetrics() -> None:
    scores, target = torch.tensor([0.9, 0.2, 0.7, 0.4]), torch.tensor([3, 0, 2, 1])
    ours, theirs = (BinaryTargetTransformer(home.BinaryAccuracy(), threshold=1) for home in (classification, peer))
    assert ours(scores, target) == theirs(scores, target) == ours.compute() == 1


def test_a_class_without_samples_is_nan_under_its_name() -> None:
    wrapped = ClasswiseWrapper(classification.ROCAUC(num_classes=3, average="none"), labels=["cat", "dog", "fox"])
    wrapped.update(torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1]]), torch.tensor([0, 1]))
    found = wrapped.compute()
    assert list(found) == ["rocauc_cat", "rocauc_dog", "rocauc_fox"]
    assert [float(found["rocauc_cat"]), float(found["rocauc_dog"])] == [1, 1] and found["rocauc_fox"].isnan()


# -------------------------------------------------------------------------------------- faults of wrappers, mended here


def test_metrics_of_one_state_in_a_collection_of_wrappers_are_computed_again() -> None:
    """torchmetrics keeps the first value of all but one of them."""
    names = ("Recall", "Precision", "F1Score")
    choices = {"num_classes": 3, "average": "none"}
    collection = MetricCollection({n: ClasswiseWrapper(getattr(classification, n)(**choices)) for n in names})
    alone = {n: getattr(classification, n)(**choices) for n in names}
    for index in range(3):
        collection.update(*batch(index))
        found = collection.compute()
        assert len(collection.compute_groups) == 1
        for name, metric in alone.items():
            metric.update(*batch(index))
            assert [float(found[f"{name.lower()}_{c}"]) for c in range(3)] == metric.compute().tolist()
    collection.reset()
    collection(*batch(3))
    for name, metric in alone.items():
        assert content(list(collection[name].compute().values())) == content(list(metric(*batch(3))))
    collection.reset()
    with pytest.warns(UserWarning, match="was called before the ``update`` method"):
        collection.compute()


@pytest.mark.parametrize("wrapper", [ClasswiseWrapper, Running])
def test_a_dtype_that_a_wrapper_gives_to_data_is_an_error(wrapper: Any) -> None:
    metric = MulticlassAUROC(num_classes=3, average=None)
    model = torch.nn.ModuleDict({"metric": wrapper(metric)})
    model.to(torch.float16)  # before the first update: there is nothing to change
    model["metric"].update(*batch(0))
    alone = MulticlassAUROC(num_classes=3, average=None)
    alone.update(*batch(0))
    found = model["metric"].compute()
    assert content(list(found.values() if isinstance(found, dict) else found)) == content(list(alone.compute()))
    model.half()
    assert content(model["metric"].compute()) == content(found)
    model.to("cpu")
    assert content(model["metric"].compute()) == content(found)
    model.to(torch.float16)
    with pytest.raises(InputError, match=f"state field scores must be .* but {wrapper.__name__} has made it torch.fl"):
        model["metric"].compute()


def test_labels_of_another_length_are_an_error() -> None:
    wrapped = ClasswiseWrapper(MulticlassRecall(3, average="none"), labels=["a", "b"])
    wrapped.update(*batch(0))
    with pytest.raises(InputError, match="labels must have 3 names, one per class, but has 2"):
        wrapped.compute()
    with pytest.raises(InputError, match="labels must have 3 names, one per class, but has 2"):
        wrapped(*batch(0))
    with pytest.raises(InputError, match="labels must have 3 names, one per class, but has 4"):
        MetricCollection({"a": ClasswiseWrapper(MulticlassRecall(3, average="none"), list("abcd"))})(*batch(0))


def test_labels_fit_outputs_that_data_make_known() -> None:
    preds, target = torch.rand((2, 6, 3), generator=torch.Generator().manual_seed(0))
    wrapped = ClasswiseWrapper(R2Score(multioutput="raw_values"), labels=["a", "b", "c"])
    theirs = ClasswiseWrapper(torchmetrics.R2Score(multioutput="raw_values"), labels=["a", "b", "c"])
    for call in (lambda metric: metric(preds, target), lambda metric: metric.compute()):
        found, expected = call(wrapped), call(theirs)
        assert list(found) == list(expected)
        torch.testing.assert_close(found, expected)
    few = ClasswiseWrapper(R2Score(multioutput="raw_values"), labels=["a", "b"])
    with pytest.raises(InputError, match="labels must have 3 names, one per class, but has 2"):
        few(preds, target)
    few.update(preds, target)
    with pytest.raises(InputError, match="labels must have 3 names, one per class, but has 2"):
        few.compute()


def test_labels_that_name_two_classes_alike_are_an_error() -> None:
    wrapped = ClasswiseWrapper(MulticlassRecall(3, average="none"), labels=["a", "b", "a"])
    wrapped.update(*batch(0))
    for call in (wrapped.compute, lambda: wrapped(*batch(0))):
        with pytest.raises(InputError, match="labels must name each class differently but has 'a' twice"):
            call()


@pytest.mark.parametrize("make", [MeanAveragePrecision, OpenImagesAveragePrecision, DetectionF1, IntersectionOverUnion])
@pytest.mark.parametrize("part", [lambda metric: metric, lambda metric: metric["any"], lambda metric: Running(metric)])
def test_classes_that_data_bring_have_no_place_in_a_list_of_names(make: Any, part: Callable[[Any], Any]) -> None:
    """``map_per_class`` of a data set without class 0 would stand under the names of other classes."""
    with pytest.raises(InputError, match=f"{make.__name__}, whose numbers per class are those .* use result"):
        ClasswiseWrapper(part(make()), labels=["a", "b", "c"])


@pytest.mark.parametrize("wrapper", [BootStrapper, MultioutputWrapper])
@pytest.mark.parametrize("other", [Tensor.tolist, Tensor.numpy])
def test_data_that_a_wrapper_would_pass_on_whole_are_an_error(wrapper: Any, other: Callable[[Tensor], Any]) -> None:
    options = {"sampling_strategy": "multinomial"} if wrapper is BootStrapper else {"remove_nans": False}
    wrapped = wrapper(MulticlassAccuracy(num_classes=3), 3, **options)
    if wrapper is MultioutputWrapper:
        wrapped.squeeze_outputs = False
    preds, target = batch(0)
    kind = type(other(target)).__name__
    with pytest.raises(
        InputError, match=f"{wrapper.__name__} needs tensors but target is a {kind}, .* convert it to a"
    ):
        wrapped.update(preds, other(target))
    with pytest.raises(InputError, match=f"needs tensors but sample_weight is a {kind}"):
        wrapped.update(preds[:3], target[:3], sample_weight=other(torch.ones(3)))


def test_transformers_may_make_lists_of_what_a_wrapper_picks() -> None:
    class Words(LambdaInputTransformer):
        def __init__(self, metric: Any) -> None:
            super().__init__(metric, words, words)

    boot = BootStrapper(Words(text.WordErrorRate()), 4, raw=True)
    torch.manual_seed(0)
    boot.update(torch.arange(8), torch.arange(8) % 4)
    assert boot.compute()["raw"].shape == (4,)


def words(ids: Tensor) -> list[str]:
    return [str(number) for number in ids.tolist()]


@pytest.mark.parametrize("kind", ["detector", "labels"])
def test_best_of_a_collection_with_several_numbers_needs_one_direction(kind: str) -> None:
    images = METRICS_BY_NAME["MeanAveragePrecision-plain"]
    labels = ClasswiseWrapper(classification.Recall(num_labels=3, average="none"))
    member, give = (images.make(), images.batch) if kind == "detector" else (labels, labels_batch)
    for maximize in (None, True):
        tracker = MetricTracker(MetricCollection([member]), maximize=maximize)
        for epoch in range(2):
            tracker.increment()
            tracker.update(*place(give(epoch), torch.device("cpu")))
        if maximize is None:
            with pytest.raises(InputError, match=r"best_metric needs one maximize .*collection, maximize=True"):
                tracker.best_metric()
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers per class have no best epoch
            best = tracker.best_metric()
        for name, values in tracker.compute_all().items():
            assert best[name] == (float(values.max()) if values.ndim == 1 else None)


METRICS_BY_NAME = {case.name: case for case in METRICS}


def labels_batch(seed: int) -> tuple[Tensor, Tensor]:
    scores, target = batch(seed)
    return scores, torch.nn.functional.one_hot(target, 3)


def test_one_number_of_a_detector_is_tracked_and_bounded() -> None:
    case = METRICS_BY_NAME["MeanAveragePrecision-plain"]
    tracker = MetricTracker(case.make()["map"], maximize=True)
    extremes = MinMaxMetric(case.make()["map"])
    values, totals = [], []
    total = case.make()
    for epoch in range(3):
        tracker.increment()
        tracker.update(*case.batch(epoch))
        extremes.update(*case.batch(epoch))
        values.append(float(case.make()(*case.batch(epoch))["map"]))
        total.update(*case.batch(epoch))
        totals.append(float(total.compute()["map"]))
        assert float(extremes.compute()["max"]) == max(totals)
    assert tracker.best_metric(return_step=True) == (max(values), values.index(max(values)))


def test_a_wrapper_cannot_hide_what_another_one_cannot_take() -> None:
    with pytest.raises(InputError, match="BootStrapper cannot wrap MeanAveragePrecision, whose update takes lists"):
        BootStrapper(MeanAveragePrecision()["map"], 3)
    with pytest.raises(InputError, match="MultioutputWrapper cannot wrap WordErrorRate"):
        MultioutputWrapper(LambdaInputTransformer and text.WordErrorRate() + 1, 2)


def test_a_value_per_sample_names_the_argument_that_gives_one_number() -> None:
    for metric, need in (
        (MulticlassRecall(3, multidim_average="samplewise"), "multidim_average='global'"),
        (CriticalSuccessIndex(0.5, keep_sequence_dim=0), "keep_sequence_dim=None"),
        (JensenShannonDivergence(reduction="none"), "reduction='mean'"),
    ):
        with pytest.raises(InputError, match=f"compute returns a value per sample: choose {need}"):
            BootStrapper(metric, 3)


def test_other_modules_are_left_alone() -> None:
    assert _rule_of(torch.nn.Linear) is None and _rule_of(MetricCollection) is None
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), BinaryAccuracy())
    model.extra = None
    assert BootStrapper(torchmetrics.text.WordErrorRate(), 2).num_bootstraps == 2


def test_a_metric_that_fails_without_data_is_taken() -> None:
    class NeedsData(MulticlassRecall):
        def compute(self) -> Tensor:
            raise RuntimeError("no data")

    assert isinstance(ClasswiseWrapper(NeedsData(3)), ClasswiseWrapper)
    assert isinstance(MinMaxMetric(NeedsData(3)), MinMaxMetric)


# ---------------------------------------------------------------------------------------------------- several processes


def _wrapped_numbers(rank: int, world: int) -> Any:
    """Values of wrappers on every rank, each of which updates with its own batch twice."""
    makers: dict[str, Any] = {
        "classwise": ClasswiseWrapper(MulticlassRecall(3, average="none")),
        "minmax": MinMaxMetric(MulticlassRecall(3)),
        "running": Running(MulticlassAUROC(3), window=1),
        "boot": BootStrapper(MulticlassRecall(3), 2, mean=False, std=False, raw=True),
        "sum": MulticlassRecall(3) + 1,
        "map": METRICS_BY_NAME["MeanAveragePrecision-plain"].make()["map"],
    }
    tracker = MetricTracker(MulticlassRecall(3))
    found = {}
    for index in (rank, rank + world):
        tracker.increment()
        tracker.update(*batch(index))
        for name, wrapper in makers.items():
            torch.manual_seed(index)
            wrapper.update(
                *(METRICS_BY_NAME["MeanAveragePrecision-plain"].batch(index) if name == "map" else batch(index))
            )
            found[name] = content(wrapper.compute())
    return {**found, "tracker": tracker.best_metric(return_step=True)}


def test_wrappers_give_the_numbers_of_all_ranks(tmp_path: Path) -> None:
    first, *others = run_ranks(_wrapped_numbers, tmp_path)
    assert all(found == first for found in others)
    recall, recalls = MulticlassRecall(3, average="none"), [MulticlassRecall(3), MulticlassRecall(3)]
    auroc, mean_ap = MulticlassAUROC(3), METRICS_BY_NAME["MeanAveragePrecision-plain"].make()
    boots = [MulticlassRecall(3), MulticlassRecall(3)]
    for index in range(6):
        recall.update(*batch(index))
        recalls[index // 3].update(*batch(index))
        mean_ap.update(*METRICS_BY_NAME["MeanAveragePrecision-plain"].batch(index))
        if index > 2:
            auroc.update(*batch(index))
        torch.manual_seed(index)
        for metric in boots:
            rows = torch.arange(20).repeat_interleave(torch.poisson(torch.ones(20)).long())
            metric.update(*(tensor[rows] for tensor in batch(index)))
    mean = recall.compute().mean()
    both = [float(metric.compute()) for metric in recalls]
    assert first["classwise"] == content({f"multiclassrecall_{c}": number for c, number in enumerate(recall.compute())})
    assert float(np.frombuffer(first["sum"][4], np.float32)[0]) == pytest.approx(float(mean) + 1)
    assert first["running"] == content(auroc.compute())
    assert first["map"] == content(mean_ap.compute()["map"])
    assert first["tracker"] == (max(both), both.index(max(both)))
    assert first["boot"]["raw"][2] == (2,)
    assert first["minmax"]["raw"][1:3] == ("float32", ())


def _wrong_labels(rank: int, world: int) -> list[str]:
    """What is raised where only the first rank has had data, and so finds two labels for three outputs."""
    said, numbers = [], (torch.rand(9, 3), torch.rand(9, 3))
    for labels, steps in ((["a", "b"], False), (["a", "b", "b"], False), (["a", "b"], True), (["a", "b", "c"], False)):
        metric = R2Score(multioutput="raw_values", dist_sync_on_step=steps)
        wrapped = ClasswiseWrapper(metric, labels=labels)
        if rank == 0:
            wrapped.update(*numbers)
        try:
            said.append(" ".join(wrapped(*numbers) if steps else wrapped.compute()))
        except (InputError, SyncError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def test_no_rank_waits_for_one_that_has_wrong_labels(tmp_path: Path) -> None:
    first, *others = run_ranks(_wrong_labels, tmp_path, limit=60)  # less than a rank waits in a collective
    few = "labels must have 3 names, one per class, but has 2"
    wrong = [few, "labels must name each class differently but has", few]
    assert [said.startswith(f"InputError: {text}") for said, text in zip(first, wrong)] == [True] * 3
    for other in others:
        assert all(
            re.match(f"(SyncError: .*rank 0 failed with )?InputError: {text}", s) for s, text in zip(other, wrong)
        )
        assert other[3] == first[3] == "r2score_a r2score_b r2score_c"


# ------------------------------------------------------------------------------------------------------------ Lightning


def model_of(lightning: Any) -> Any:
    """A model that logs metrics in wrappers: numbers by ``log``, dicts by ``log_dict``."""

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.running = Running(MulticlassRecall(3), window=2)
            self.shifted = LambdaInputTransformer(MulticlassRecall(3), transform_target=lambda t: (t + 1) % 3)
            self.sum = MulticlassRecall(3) + MulticlassAccuracy(3)
            self.extremes = MinMaxMetric(MulticlassRecall(3))
            self.classes = ClasswiseWrapper(MulticlassRecall(3, average="none"), labels=["a", "b", "c"])

        def validation_step(self, index: Tensor, _: int) -> None:
            for name in ("running", "shifted", "sum"):
                getattr(self, name).update(*batch(int(index)))
                self.log(name, getattr(self, name), on_step=False, on_epoch=True)
            self.extremes.update(*batch(int(index)))
            self.classes.update(*batch(int(index)))

        def on_validation_epoch_end(self) -> None:
            self.log_dict(self.extremes.compute())
            self.log_dict(self.classes.compute())
            self.classes.reset()

    return Model()


def test_lightning_logs_metrics_in_wrappers(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, default_root_dir=tmp_path
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's own, about workers
        loader = torch.utils.data.DataLoader(torch.arange(3), batch_size=1)  # type: ignore[arg-type]
        [logged] = trainer.validate(model_of(lightning), loader, verbose=False)
    recall, late, shifted = MulticlassRecall(3), MulticlassRecall(3), MulticlassRecall(3)
    classes, accuracy = MulticlassRecall(3, average="none"), MulticlassAccuracy(3)
    for index in range(3):
        preds, target = batch(index)
        for metric in (recall, classes, accuracy, *((late,) if index else ())):
            metric.update(preds, target)
        shifted.update(preds, (target + 1) % 3)
    expected = {
        "running": late.compute(), "shifted": shifted.compute(), "sum": recall.compute() + accuracy.compute(),
        **dict.fromkeys(("raw", "min", "max"), recall.compute()),
        **dict(zip(("multiclassrecall_a", "multiclassrecall_b", "multiclassrecall_c"), classes.compute())),
    }  # fmt: skip
    assert logged == {name: pytest.approx(float(number)) for name, number in expected.items()}
