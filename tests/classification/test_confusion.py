"""Confusion matrices and what is made of them: equal to torchmetrics and scikit-learn; examples of each cell."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor
from torchmetrics import MetricCollection

from valor_gpu import plans
from valor_gpu.classification import confusion_base
from valor_gpu.classification.accuracy import Accuracy
from valor_gpu.classification.confusion import CohenKappa, ConfusionMatrix, MatthewsCorrCoef
from valor_gpu.classification.confusion_base import PairMetric
from valor_gpu.errors import InputError
from valor_gpu.reduce.confusion_plot import plot_confusion

mpl.use("Agg")

C = 4
Batch = tuple[Tensor, Tensor]


def multiclass(seed: int, rows: int = 50) -> Batch:
    """Class 3 is never true."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(rows, C, generator=generator)
    return scores, torch.randint(C - 1, (rows,), generator=generator)


def elements(seed: int, *shape: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator), torch.randint(2, shape, generator=generator)


def fed(metric: Any, *batch: Any) -> Any:
    metric.update(*batch)
    return metric


@pytest.mark.parametrize("normalize", [None, "none", "true", "pred", "all"])
@pytest.mark.parametrize("ignore_index", [None, 1, -1])
@pytest.mark.filterwarnings("ignore:.*NaN values found")
def test_matrix_equals_torchmetrics(normalize: str | None, ignore_index: int | None) -> None:
    choices = dict(normalize=normalize, ignore_index=ignore_index)
    preds, target = multiclass(0)
    labels = elements(1, 30, 3)
    single = elements(2, 6, 5)
    if ignore_index == -1:
        for of in (target, labels[1], single[1]):
            of.view(-1)[::7] = -1
    pairs = [
        (ConfusionMatrix(C, **choices), tm.MulticlassConfusionMatrix(C, **choices), (preds, target)),
        (ConfusionMatrix(C, **choices), tm.MulticlassConfusionMatrix(C, **choices), (preds.argmax(1), target)),
        (ConfusionMatrix(num_labels=3, **choices), tm.MultilabelConfusionMatrix(3, **choices), labels),
        (ConfusionMatrix(**choices), tm.BinaryConfusionMatrix(**choices), single),
        (ConfusionMatrix(**choices), tm.BinaryConfusionMatrix(**choices), ((single[0] > 0.5).int(), single[1])),
    ]
    for metric, theirs, batch in pairs:
        if theirs.__class__ is tm.MultilabelConfusionMatrix and ignore_index == 1:
            batch = ((batch[0] > 0.5).int(), batch[1])
        found, expected = fed(metric, *batch).compute(), fed(theirs, *batch).compute()
        assert found.dtype == (torch.int64 if normalize in (None, "none") else torch.float32)
        torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
@pytest.mark.parametrize("weighted", [False, True])
def test_matrix_equals_scikit_learn(normalize: str | None, weighted: bool) -> None:
    preds, target = multiclass(3)
    weight = torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) if weighted else None
    result = fed(ConfusionMatrix(C, normalize=normalize), preds, target, weight).result()
    labels = list(range(C))
    expected = sk.confusion_matrix(target, preds.argmax(1), labels=labels, normalize=normalize, sample_weight=weight)
    found = result.values["confusion_matrix"]
    np.testing.assert_allclose(np.nan_to_num(found), expected, rtol=0, atol=1e-13)
    assert np.isnan(found).any() == (normalize == "true") == ("confusion_matrix" in result.reasons)


def test_multilabel_matrix_equals_scikit_learn() -> None:
    preds, target = elements(5, 40, 3)
    weight = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = fed(ConfusionMatrix(num_labels=3, threshold=0.3), preds, target, weight).compute()
    expected = sk.multilabel_confusion_matrix(target, preds > 0.3, sample_weight=weight)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("weights", [None, "none", "linear", "quadratic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_kappa_equals_peers(weights: str | None, weighted: bool) -> None:
    preds, target = multiclass(1)
    weight = torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) if weighted else None
    metric = fed(CohenKappa(C, weights=weights), preds, target, weight)
    kind = None if weights == "none" else weights
    expected = sk.cohen_kappa_score(target, preds.argmax(1), weights=kind, sample_weight=weight)
    assert metric.result().values["CohenKappa"] == pytest.approx(expected, abs=1e-12)
    if not weighted:
        theirs = fed(tm.MulticlassCohenKappa(C, weights=weights), preds, target).compute()
        torch.testing.assert_close(metric.compute(), theirs, rtol=0, atol=2e-6)
    binary = elements(2, 40)
    theirs = fed(tm.BinaryCohenKappa(weights=weights), *binary).compute()
    torch.testing.assert_close(fed(CohenKappa(weights=weights), *binary).compute(), theirs, rtol=0, atol=2e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_matthews_equals_peers(weighted: bool) -> None:
    preds, target = multiclass(1)
    weight = torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) if weighted else None
    metric = fed(MatthewsCorrCoef(C), preds, target, weight)
    expected = sk.matthews_corrcoef(target, preds.argmax(1), sample_weight=weight)
    assert metric.result().values["MatthewsCorrCoef"] == pytest.approx(expected, abs=1e-12)
    if weighted:
        return
    for ours, theirs, batch in (
        (MatthewsCorrCoef(C), tm.MulticlassMatthewsCorrCoef(C), (preds, target)),
        (MatthewsCorrCoef(), tm.BinaryMatthewsCorrCoef(), elements(3, 40)),
        (MatthewsCorrCoef(num_labels=3), tm.MultilabelMatthewsCorrCoef(3), elements(4, 40, 3)),
    ):
        torch.testing.assert_close(
            fed(ours, *batch).compute(), fed(theirs, *batch).compute().float(), atol=2e-6, rtol=0
        )


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize(("preds", "target"), [([1, 1, 1], [1, 1, 1]), ([1, 1, 1], [0, 1, 0]), ([0, 1, 0], [1, 1, 1])])
def test_matthews_of_one_class_does_not_exist(preds: list[int], target: list[int]) -> None:
    weight = torch.tensor([0.1, 0.2, 0.3])
    metric = fed(MatthewsCorrCoef(), torch.tensor(preds), torch.tensor(target), weight)
    assert float(metric.compute()) == sk.matthews_corrcoef(target, preds) == 0
    result = metric.result()
    assert math.isnan(result.values["MatthewsCorrCoef"])
    assert result.reason("MatthewsCorrCoef") == "fewer than two classes are true, or predicted"


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_of_one_class_does_not_exist(weights: str | None) -> None:
    ones = torch.tensor([1, 1, 1])
    metric = fed(CohenKappa(weights=weights), ones, ones)
    assert math.isnan(float(metric.compute()))
    assert metric.result().reason("CohenKappa") == "chance alone agrees on every sample"
    assert float(fed(CohenKappa(weights=weights), ones, torch.tensor([0, 1, 1])).compute()) == 0
    assert CohenKappa(weights=weights).result().reason("CohenKappa")


# ----------------------------------------------------------------------------------------------------------- examples


def expected_examples(cells: list[tuple[int, ...]], names: list[int], most: int) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for cell, name in zip(cells, names):
        if len(found.setdefault(cell, [])) < most:
            found[cell].append(name)
    return dict(sorted(found.items()))


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("size", [1, 7, 200])
@pytest.mark.parametrize("ids", [False, True])
def test_examples_are_the_first_of_each_cell(most: int, size: int, ids: bool) -> None:
    preds, target = multiclass(0, rows=900)
    target[::5] = -1
    names = torch.randperm(900, generator=torch.Generator().manual_seed(1)) - 400
    metric = ConfusionMatrix(C, ignore_index=-1, max_examples=most)
    for rows in torch.arange(900).split(size):
        metric.update(preds[rows], target[rows], None, names[rows] if ids else None)
    kept = [i for i in range(900) if target[i] >= 0]
    cells = [(int(target[i]), int(preds[i].argmax())) for i in kept]
    expected = expected_examples(cells, names[kept].tolist() if ids else kept, most)
    assert metric.examples() == expected
    table = metric.result().values["examples"]
    assert [(*cell, name) for cell, of in expected.items() for name in of] == [tuple(row) for row in table.tolist()]


def test_memory_of_examples_is_bounded() -> None:
    metric = ConfusionMatrix(C, max_examples=2)
    for seed in range(200):
        metric.update(*multiclass(seed, rows=100))
        assert sum(map(len, metric.picked)) <= 4 * C * C * 2 + 1024 + 64 * 33


def test_a_cell_with_few_samples_among_many() -> None:
    preds = torch.ones(40, dtype=torch.long)
    preds[0] = 0
    metric = fed(ConfusionMatrix(max_examples=3), preds, torch.zeros(40, dtype=torch.long))
    assert metric.examples() == {(0, 0): [0], (0, 1): [1, 2, 3]}


def test_examples_of_elements_and_of_pixels() -> None:
    preds, target = elements(0, 9, 2)
    target[3, 1] = -1
    metric = fed(ConfusionMatrix(num_labels=2, ignore_index=-1, max_examples=2), preds, target)
    kept = [(i, j) for i in range(9) for j in range(2) if target[i, j] >= 0]
    cells = [(j, int(target[i, j]), int(preds[i, j] > 0.5)) for i, j in kept]
    assert metric.examples() == expected_examples(cells, [i for i, _ in kept], 2)
    image = torch.tensor([[[[0.9, 0.2]]], [[[0.1, 0.8]]]])
    binary = fed(ConfusionMatrix(max_examples=1), image, torch.tensor([[[[1, 1]]], [[[0, 0]]]]))
    assert binary.examples() == {(0, 0): [1], (0, 1): [1], (1, 0): [0], (1, 1): [0]}


def test_names_go_on_after_forward_and_merge() -> None:
    one, two = torch.tensor([1]), torch.tensor([1, 0])
    metric, shard = ConfusionMatrix(max_examples=9), ConfusionMatrix(max_examples=9)
    metric(one, one)
    metric.update(one, one, None, torch.tensor([77]))
    metric(one, one)
    shard.update(two, torch.tensor([1, 1]))
    shard.update(one, one)
    metric.merge_state(shard)
    assert metric.examples() == {(1, 0): [4], (1, 1): [0, 77, 2, 3, 5]}


def test_examples_in_many_small_updates_are_thinned_without_a_change() -> None:
    metric = ConfusionMatrix(max_examples=1)
    preds, target = elements(0, 3000)
    for i in range(3000):
        metric.update(preds[i : i + 1], target[i : i + 1])
    assert sum(map(len, metric.picked)) < 1100
    cells = [(int(t), int(p > 0.5)) for p, t in zip(preds, target)]
    assert metric.examples() == expected_examples(cells, list(range(3000)), 1)


# ---------------------------------------------------------------------------------------------------------- behaviour


@pytest.mark.parametrize("planned", [True, False])
def test_one_update_serves_a_collection(planned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return original(*args, **kwargs)

    module, name = (plans, "commit") if planned else (confusion_base, "confuse_scores")
    original = getattr(module, name)
    monkeypatch.setattr(module, name, counted)
    monkeypatch.setattr(plans._Switch, "on", planned)
    collection = MetricCollection(ConfusionMatrix(C), MatthewsCorrCoef(C), CohenKappa(C, weights="linear"))
    for seed in range(3):
        collection.update(*multiclass(seed))
    assert len(collection.compute_groups) == 1 and len(calls) == 3 + 2
    apart = MatthewsCorrCoef(C)
    for seed in range(3):
        apart.update(*multiclass(seed))
    assert torch.equal(collection["MatthewsCorrCoef"].compute(), apart.compute())


def test_nan_is_reported_unless_its_row_is_ignored() -> None:
    preds, target = multiclass(0, rows=5)
    preds[3, 2] = math.nan
    with pytest.raises(InputError, match=r"preds\[3, 2\] must not be NaN"):
        ConfusionMatrix(C).update(preds, target)
    target[3] = -1
    assert float(fed(ConfusionMatrix(C, ignore_index=-1), preds, target).compute().sum()) == 4


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((torch.rand(2, C), torch.tensor([0, C])), r"target\[1\] must be a class index from 0 to 3"),
        ((torch.tensor([0, -1]), torch.tensor([0, 1])), r"preds\[1\] must be a class index from 0 to 3"),
        (
            (torch.tensor([0]), torch.tensor([0]), None, 1),
            "sample_ids must be Tensor or ndarray or list or tuple but got int",
        ),
        ((torch.tensor([0]), torch.tensor([0]), None, torch.tensor([1, 2])), r"sample_ids must have shape \[1\]"),
        ((torch.tensor([0]), torch.tensor([0]), None, torch.tensor([0.5])), "sample_ids must have dtype"),
    ],
)
def test_bad_batches_change_nothing(batch: Any, message: str) -> None:
    metric = ConfusionMatrix(C, max_examples=2)
    with pytest.raises(InputError, match=message):
        metric.update(*batch)
    assert not metric.matrix.any() and metric.picked == [] and not metric.seen.any()


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        (ConfusionMatrix, dict(normalize="rows"), "normalize must be one of 'none', 'true', 'pred', 'all', None"),
        (ConfusionMatrix, dict(max_examples=-1), "max_examples must be an int of at least 0 but got -1"),
        (ConfusionMatrix, dict(num_classes=3, threshold=0.2), "threshold must be left out in the multiclass task"),
        (CohenKappa, dict(weights="cubic"), "weights must be one of 'none', None, 'linear', 'quadratic' but got"),
        (CohenKappa, dict(num_labels=3), "num_labels must be left out: Cohen's kappa takes one label per sample"),
    ],
)
def test_arguments_out_of_range(kind: type[PairMetric], choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**choices)


def test_examples_must_be_asked_for() -> None:
    with pytest.raises(InputError, match="max_examples must be above 0 for examples but is 0"):
        ConfusionMatrix().examples()


def test_result_and_plot() -> None:
    metric = fed(ConfusionMatrix(C, ignore_index=0), *multiclass(0))
    result = metric.result()
    samples, ignored = result.counts["samples"], result.counts["ignored"]
    assert samples == 50 and result.values["confusion_matrix"].sum() == samples - ignored
    axes = result.plot()
    written = [text.get_text() for text in axes.texts if text.get_text().strip().isdecimal()]
    assert axes.get_ylabel() == "true class" and len(written) == np.count_nonzero(result.values["confusion_matrix"])
    assert plot_confusion(
        fed(ConfusionMatrix(C, normalize="true"), *multiclass(0)).result(), names=["a", "b", "c", "dd"]
    )
    labels = fed(ConfusionMatrix(num_labels=3), *elements(0, 9, 3)).result()
    drawn = [float(text.get_text()) for text in labels.plot(label=2).texts if text.get_text().isdecimal()]
    assert drawn == [number for number in labels.values["confusion_matrix"][2].ravel().tolist() if number]
    many = fed(ConfusionMatrix(26), torch.arange(26), torch.arange(26)).result()
    shown = many.plot(ax=axes.figure.add_subplot()).texts
    assert [text.get_text() for text in shown] == ["26 samples, 26 classes\n"]
    mpl.pyplot.close("all")


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_that_are_small_beside_the_matrix_are_counted_later(weighted: bool) -> None:
    generator = torch.Generator().manual_seed(4)
    metric = ConfusionMatrix(num_classes=300, ignore_index=7)
    preds, target = (torch.randint(300, (200, 256), generator=generator) for _ in range(2))
    weights = torch.rand((200, 256), generator=generator, dtype=torch.float64) if weighted else None
    for i in range(200):
        metric.update(preds[i], target[i], None if weights is None else weights[i])
    assert 0 < len(metric.pending) < 200 and metric.matrix.sum() > 0
    kept = target.reshape(-1) != 7
    cells = (target * 300 + preds).reshape(-1)[kept]
    expected = torch.bincount(cells, None if weights is None else weights.reshape(-1)[kept], 300**2).reshape(300, 300)
    assert torch.allclose(metric.compute().double(), expected.double(), rtol=1e-12, atol=0)
    again = ConfusionMatrix(num_classes=300, ignore_index=7).from_bytes(metric.to_bytes())
    again.merge_state(metric)
    assert torch.allclose(again.compute().double(), 2 * expected.double(), rtol=1e-12, atol=0)
    with pytest.raises(InputError, match="target"):
        metric.update(preds[0], target[0] + 300)


def test_plot_draws_the_matrix() -> None:
    metric = ConfusionMatrix(num_classes=2)
    metric.update(torch.tensor([0, 1]), torch.tensor([1, 1]))
    figure, axes = metric.plot()
    assert figure is axes.figure and axes.get_ylabel() == "true class"
    mpl.pyplot.close(figure)
    with pytest.raises(InputError, match="val must be left out: plot draws what the ConfusionMatrix holds"):
        metric.plot(metric.compute())


@pytest.mark.parametrize("ignore_index", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_maps_count_as_their_pixels_do(ignore_index: int | None, weighted: bool) -> None:
    rng = torch.Generator().manual_seed(3)
    maps, target = torch.rand(3, C, 4, 5, generator=rng), torch.randint(0, C, (3, 4, 5), generator=rng)
    weight = torch.rand(3, 4, 5, generator=rng) if weighted else None
    rows = maps.movedim(1, -1).reshape(-1, C), target.flatten(), None if weight is None else weight.flatten()
    for make in (ConfusionMatrix, Accuracy):
        first, second = make(C, ignore_index=ignore_index), make(C, ignore_index=ignore_index)
        first.update(maps, target, weight)
        second.update(*rows)
        assert torch.equal(first.compute(), second.compute())
        maps_with_nan = maps.clone()
        maps_with_nan[1, 2, 0, 3] = torch.nan
        target[1, 0, 3] = 0
        with pytest.raises(InputError, match=r"preds\[23, 2\] must not be NaN"):
            first.update(maps_with_nan, target, weight)
