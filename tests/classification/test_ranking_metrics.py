"""ROC AUC and average precision: scikit-learn and torchmetrics are the authorities."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as peers
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor
from torchmetrics import MetricCollection

from valor_gpu.classification.curves import ROC
from valor_gpu.classification.ranking_metrics import AUROC, ROCAUC, AveragePrecision, RankingMetric, mROCAUC
from valor_gpu.classification.score_metric import ScoreMetric, ScoreRecords
from valor_gpu.classification.softmax_errors import check_ranked
from valor_gpu.classification.threshold_counts import ThresholdCounts
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NAN_SCORE, NO_ERROR, WEIGHT

METRICS = [(ROCAUC, roc_auc_score), (AveragePrecision, average_precision_score)]
Score = Callable[..., float]


def random_batch(seed: int, rows: int = 60, columns: int = 4, levels: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    """Tied scores ``[N, C]`` that sum to 1 in no row, class indices ``[N]``, and 0 and 1 ``[N, C]``."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(levels + 1, (rows, columns), generator=generator) / levels
    classes = torch.randint(columns, (rows,), generator=generator)
    return scores, classes, torch.randint(2, (rows, columns), generator=generator)


def updated(metric: Any, *batches: tuple[Tensor, ...]) -> Any:
    for batch in batches:
        metric.update(*batch)
    return metric


def exactly(metric: RankingMetric, *batch: Tensor) -> Any:
    """The number or numbers of ``result``, float64."""
    values = updated(metric, batch).result().values
    name = type(metric).__name__
    return values[name] if name in values else values["per_class"]


def by_class(score: Score, hot: NDArray[Any], scores: NDArray[Any], weight: Any = None) -> NDArray[np.float64]:
    columns = range(scores.shape[1])
    return np.array([score(hot[:, c], scores[:, c], sample_weight=weight) for c in columns])


def close(found: Any, expected: Any) -> bool:
    return bool(np.allclose(found, expected, rtol=0, atol=1e-12, equal_nan=True))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(("metric", "score"), METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(metric: Any, score: Score, dtype: torch.dtype, kind: str, weighted: bool) -> None:
    for seed in range(3):
        scores, classes, hot = random_batch(seed)
        scores = scores.to(dtype)
        weight = (torch.rand(len(scores), generator=torch.Generator().manual_seed(seed)),) if weighted else ()
        weights = weight[0].double().numpy() if weighted else None
        if kind == "binary":
            scores, hot = scores[:, 0], hot[:, 0]
            expected = score(hot.numpy(), scores.double().numpy(), sample_weight=weights)
            assert close(exactly(metric(), scores, hot, *weight), expected)
            continue
        choices = {"num_classes": 4} if kind == "multiclass" else {"num_labels": 4}
        target = classes if kind == "multiclass" else hot
        hot = torch.nn.functional.one_hot(classes, 4) if kind == "multiclass" else hot
        each = by_class(score, hot.numpy(), scores.double().numpy(), weights)
        support = (hot if weights is None else hot * weight[0].double()[:, None]).sum(0).numpy()
        repeated = None if weights is None else weights.repeat(4)
        expected = {
            "none": each, "macro": each.mean(), "weighted": np.average(each, weights=support),
            "micro": score(hot.numpy().ravel(), scores.double().numpy().ravel(), sample_weight=repeated),
        }  # fmt: skip
        for average, value in expected.items():
            assert close(exactly(metric(average=average, **choices), scores, target, *weight), value), average


@pytest.mark.parametrize(("metric", "score"), METRICS)
def test_ignored_samples_are_left_out(metric: Any, score: Score) -> None:
    scores, classes, hot = random_batch(5)
    kept = classes != 2
    found = exactly(metric(num_classes=4, average="none", ignore_index=2), scores, classes)
    rest = torch.nn.functional.one_hot(classes[kept], 4).numpy()
    expected = [score(rest[:, c], scores[kept, c].numpy()) if c != 2 else np.nan for c in range(4)]
    assert close(found, expected)
    found = exactly(metric(num_classes=4, average="micro", ignore_index=2), scores, classes)
    assert close(found, score(rest.ravel(), scores[kept].numpy().ravel()))
    holes = torch.where(torch.rand(hot.shape, generator=torch.Generator().manual_seed(1)) < 0.25, -100, hot)
    scores = torch.where(holes == -100, torch.nan, scores)
    found = exactly(metric(num_labels=4, average="none", ignore_index=-100, activation="none"), scores, holes)
    columns = [(holes[:, c] != -100).numpy() for c in range(4)]
    expected = [score(hot[at, c].numpy(), scores[at, c].numpy()) for c, at in enumerate(columns)]
    assert close(found, expected)
    shown = updated(metric(num_labels=4, average="micro", ignore_index=-100), (scores.nan_to_num(), holes)).result()
    assert close(shown.values[metric.__name__], score(hot[holes >= 0].numpy(), scores[holes >= 0].numpy()))
    assert shown.counts == {"samples": 60, "ignored": int((holes < 0).sum())}


@pytest.mark.parametrize("metric", [ROCAUC, AveragePrecision])
@pytest.mark.parametrize("thresholds", [None, 7, [0.0, 0.1, 0.45, 0.9]])
def test_equals_torchmetrics(metric: Any, thresholds: Any) -> None:
    """Where every class has positives and negatives, and no score is 1: torchmetrics has no point (0, 0) there."""
    name = "AUROC" if metric is ROCAUC else "AveragePrecision"
    scores, classes, hot = random_batch(3)
    scores = scores * 0.875
    for kind, target, choices in (
        ("Binary", hot[:, 0], {}),
        ("Multiclass", classes, {"num_classes": 4}),
        ("Multilabel", hot, {"num_labels": 4}),
    ):
        averages = {"Binary": [None], "Multiclass": ["macro", "weighted", "none"]}
        preds = scores[:, 0] if kind == "Binary" else scores
        for average in averages.get(kind, ["macro", "micro", "weighted", "none"]):
            words = dict(choices, thresholds=thresholds, **({} if kind == "Binary" else {"average": average}))
            peer = getattr(peers, f"{kind}{name}")(**words)
            found, expected = (updated(m, (preds, target)).compute() for m in (metric(**words), peer))
            torch.testing.assert_close(found, expected, rtol=0, atol=2e-7)


DIAGONAL = torch.full((4, 5), 0.05)
DIAGONAL[range(4), range(4)] = 0.75
LABELS = (
    torch.tensor([[0.75, 0.05, 0.35], [0.45, 0.75, 0.05], [0.05, 0.55, 0.75], [0.05, 0.65, 0.05]]),
    torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 1], [1, 1, 1]]),
)
FOUR = (torch.tensor([0.0, 0.5, 0.7, 0.8]), torch.tensor([0, 1, 1, 0]))
nan = float("nan")


@pytest.mark.parametrize(
    ("metric", "batch", "expected"),
    [
        (ROCAUC(), FOUR, 0.5),
        (ROCAUC(thresholds=5), FOUR, 0.5),
        (ROCAUC(num_classes=5, average=None), (DIAGONAL, torch.tensor([0, 1, 3, 2])), [1.0, 1.0, 0.3333, 0.3333, nan]),
        (ROCAUC(num_labels=3), LABELS, 0.6528),
        (ROCAUC(num_labels=3, average=None), LABELS, [0.6250, 0.5000, 0.8333]),
        (ROCAUC(num_labels=3, thresholds=5), LABELS, 0.6528),
        (AveragePrecision(), FOUR, 0.5833),
        (AveragePrecision(thresholds=5), FOUR, 0.6667),
        (AveragePrecision(num_classes=5), (DIAGONAL, torch.tensor([0, 1, 3, 2])), 0.6250),
        (AveragePrecision(num_labels=3), LABELS, 0.75),
        (AveragePrecision(num_labels=3, average=None), LABELS, [0.7500, 0.5833, 0.9167]),
        (AveragePrecision(num_labels=3, thresholds=5), LABELS, 0.7778),
        (AveragePrecision(num_labels=3, thresholds=5, average=None), LABELS, [0.7500, 0.6667, 0.9167]),
    ],
)
def test_documented_examples_of_torchmetrics(metric: RankingMetric, batch: Any, expected: Any) -> None:
    torch.testing.assert_close(
        updated(metric, batch).compute(), torch.tensor(expected), rtol=0, atol=5e-5, equal_nan=True
    )


@pytest.mark.parametrize("plan", [{}, {"thresholds": 200}, {"bins": 16}])
def test_numbers_that_do_not_exist(plan: dict[str, Any]) -> None:
    scores = torch.tensor([0.2, 0.7, 0.9])
    none, every = torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64)
    for metric, target, value in (
        (ROCAUC, none, nan), (ROCAUC, every, nan), (AveragePrecision, none, nan), (AveragePrecision, every, 1.0)
    ):  # fmt: skip
        found = updated(metric(**plan), (scores, target))
        assert found.compute().isnan().item() == np.isnan(value)
        result = found.result()
        assert (result.reason(metric.__name__) is not None) == np.isnan(value)
        assert result.values[metric.__name__] == value or np.isnan(value)
    metric = updated(ROCAUC(num_classes=3, average="none", **plan), (torch.eye(3)[[0, 1, 1]], torch.tensor([0, 1, 0])))
    assert metric.compute().isnan().tolist() == [False, False, True]
    assert updated(ROCAUC(num_classes=3, **plan), (torch.eye(3)[[0, 1, 1]], torch.tensor([0, 1, 0]))).compute() == 0.75
    assert metric.result().reason("per_class") == "classes with no positives or no negatives have none"


def test_ties_are_half(device: torch.device) -> None:
    for dtype in (torch.float32, torch.float64):
        same = torch.full((10,), 0.25, dtype=dtype, device=device)
        target = torch.tensor([0, 1] * 5, device=device)
        assert updated(ROCAUC().to(device), (same, target)).compute() == 0.5
        assert updated(AveragePrecision().to(device), (same, target)).compute() == 0.5


@pytest.mark.parametrize("plan", [{}, {"thresholds": 50}, {"bins": 4}])
@pytest.mark.parametrize("metric", [ROCAUC, AveragePrecision])
def test_order_and_split_change_no_bit(metric: Any, plan: dict[str, Any]) -> None:
    scores, classes, _ = random_batch(1, rows=200, levels=40)
    make = lambda: metric(num_classes=4, average="none", activation="none", **plan)  # noqa: E731
    expected = exactly(make(), scores, classes).tobytes()
    for seed in range(4):
        order = torch.randperm(200, generator=torch.Generator().manual_seed(seed))
        cuts = [0, 3, 3, 90, 199, 200]
        parts = [(scores[order[a:b]], classes[order[a:b]]) for a, b in pairwise(cuts)]
        assert updated(make(), *parts).result().values["per_class"].tobytes() == expected


@pytest.mark.parametrize(("metric", "score"), METRICS)
@pytest.mark.parametrize("plan", [{"bins": 2}, {"bins": 16}, {"thresholds": 10}])
def test_bounds_hold_the_exact_number(metric: Any, score: Score, plan: dict[str, Any]) -> None:
    widths = []
    for seed in range(20):
        rng = np.random.default_rng([seed, 3])
        logits = rng.normal(size=300) * 4 - rng.choice([0, 6])
        target = (rng.random(300) < 1 / (1 + np.exp(-logits - 1))).astype(int)
        scores = 1 / (1 + np.exp(-logits))
        made = metric(score_dtype=torch.float64, **plan)
        values = updated(made, (torch.from_numpy(scores), torch.from_numpy(target))).result().values
        exact = score(target, scores)
        assert values["lowest"] - 1e-12 <= exact <= values["highest"] + 1e-12
        assert values["lowest"] <= values[metric.__name__] <= values["highest"]
        widths.append(values["highest"] - values["lowest"])
    assert 0 < max(widths) < (0.02 if plan == {"bins": 16} else 1)


def test_bins_tell_small_scores_apart() -> None:
    """1,000 classes: nearly all scores lie below the second of 200 even thresholds."""
    rng = np.random.default_rng(0)
    scores = 10.0 ** -rng.uniform(3, 7, 2000)
    target = (rng.random(2000) < scores**0.2).astype(int)
    exact = roc_auc_score(target, scores.astype(np.float32))
    batch = torch.from_numpy(scores), torch.from_numpy(target)
    even, floats = (float(exactly(ROCAUC(**plan), *batch)) for plan in ({"thresholds": 200}, {"bins": 16}))
    assert abs(floats - exact) < 1e-3 < abs(even - exact)


@pytest.mark.parametrize("metric", [ROCAUC, AveragePrecision])
def test_logits(metric: Any) -> None:
    generator = torch.Generator().manual_seed(2)
    logits, classes = torch.randn(80, 3, generator=generator) * 4, torch.randint(3, (80,), generator=generator)
    soft = logits.softmax(1)
    expected = exactly(metric(num_classes=3, activation="none"), soft, classes)
    for choices in ({}, {"activation": "softmax"}):
        assert exactly(metric(num_classes=3, **choices), logits, classes) == expected
        split = [(logits[:7], classes[:7]), (logits[7:], classes[7:])]
        assert updated(metric(num_classes=3, **choices), *split).result().values[metric.__name__] == expected
    assert exactly(metric(num_classes=3, activation="none"), logits, classes) != expected
    truth = (classes == 0).long()
    wide = logits[:, 0] * 20  # their float32 sigmoid is 1 for many
    assert exactly(metric(), wide, truth) == exactly(metric(activation="none"), wide, truth)
    binned = exactly(metric(thresholds=20), logits[:, 0], truth)
    assert binned == exactly(metric(thresholds=20, activation="none"), logits[:, 0].sigmoid(), truth)


def test_further_dimensions_are_samples() -> None:
    scores, classes, _ = random_batch(4)
    deep = scores.reshape(4, 3, 5, 4).movedim(-1, 1)
    assert exactly(ROCAUC(num_classes=4), deep, classes.reshape(4, 3, 5)) == exactly(
        ROCAUC(num_classes=4), scores, classes
    )


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_an_infinite_logit_is_rejected_by_name(average: str) -> None:
    bad = (torch.tensor([[1.0, 2.0], [0.0, torch.inf]]), torch.tensor([0, 1]))
    with pytest.raises(InputError, match=r"preds\[1, 0\] must not be NaN, and preds\[1\] must have a finite largest"):
        ROCAUC(num_classes=2, average=average, thresholds=5).update(*bad)
    metric = ROCAUC(num_classes=2, average=average)
    metric.update(*bad)
    with pytest.raises(InputError, match=r"preds\[1\] must have a finite largest score where its softmax is taken"):
        metric.compute()


def test_records_are_small() -> None:
    """5 bytes per sample in the binary task, 4 C + 1 in the multiclass one while classes fit in a byte."""

    def bytes_of(metric: ScoreMetric, *batch: Tensor) -> int:
        state = updated(metric, batch).state()
        assert isinstance(state, ScoreRecords)
        return sum(tensor.nbytes for name, tensor in state.tensors().items() if name != "score_types")

    scores, classes, hot = random_batch(0)
    assert bytes_of(ROCAUC(), scores[:, 0].double(), hot[:, 0]) == 60 * 5
    assert bytes_of(ROCAUC(score_dtype=torch.float16), scores[:, 0], hot[:, 0]) == 60 * 3
    assert bytes_of(ROCAUC(num_classes=4), scores, classes) == 60 * (4 * 4 + 1)
    for ignore_index, dtype in ((255, torch.uint8), (-100, torch.int8), (1000, torch.int16), (2**40, torch.int64)):
        metric = ROCAUC(num_classes=4, ignore_index=ignore_index)
        metric.update(scores, torch.where(classes == 0, ignore_index, classes))
        assert metric.state().target.dtype == dtype
        assert metric.result().counts["ignored"] == int((classes == 0).sum())


def test_a_collection_keeps_the_scores_once() -> None:
    collection = MetricCollection(
        {"auc": ROCAUC(num_classes=4), "each": ROCAUC(num_classes=4, average="none"), "roc": ROC(num_classes=4),
         "ap": AveragePrecision(num_classes=4), "other": AveragePrecision(num_classes=4, score_dtype=torch.float64)}
    )  # fmt: skip
    scores, classes, _ = random_batch(2)
    collection.update(scores, classes)
    assert sorted(map(sorted, collection.compute_groups.values())) == [["ap", "auc", "each", "roc"], ["other"]]
    collection.update(scores, classes)
    values = collection.compute()
    kept = {name: metric.scores[0] for name, metric in collection.items(copy_state=False)}
    assert kept["ap"] is kept["roc"] is kept["each"] is kept["auc"] is not kept["other"]
    assert values["auc"] == updated(ROCAUC(num_classes=4), (scores, classes)).compute()


def test_names() -> None:
    assert issubclass(AUROC, ROCAUC) and AUROC.__name__ == "AUROC"
    scores, classes, _ = random_batch(2)
    mean = updated(mROCAUC(num_classes=4), (scores, classes))
    assert mean.compute() == updated(ROCAUC(num_classes=4), (scores, classes)).compute()
    assert list(mean.result().values) == ["mROCAUC", "per_class", "positives", "negatives"]


def test_weights_come_always_or_never() -> None:
    scores, _, hot = random_batch(0)
    batch, weight = (scores[:, 0], hot[:, 0]), torch.ones(60)
    match = "sample_weight must be given to every update or to none"
    metric = updated(ROCAUC(), batch)
    with pytest.raises(InputError, match=match):
        metric.update(*batch, weight)
    metric.merge_state(updated(ROCAUC(), (*batch, weight)))
    with pytest.raises(InputError, match=match):
        metric.compute()
    binned = updated(ROCAUC(thresholds=9), batch, (*batch, weight))
    assert binned.compute() == updated(ROCAUC(thresholds=9), batch).compute()


@pytest.mark.parametrize("plan", [{}, {"thresholds": 5}])
def test_what_a_result_was_counted_on(plan: dict[str, Any]) -> None:
    scores, classes, _ = random_batch(8)
    truth = torch.bincount(classes, minlength=4)
    result = updated(ROCAUC(num_classes=4, **plan), (scores, classes)).result()
    assert result.values["positives"].tolist() == truth.tolist()
    assert result.values["negatives"].tolist() == (60 - truth).tolist()
    weights = torch.full((60,), 0.5)
    pooled = updated(ROCAUC(num_classes=4, average="micro", **plan), (scores, classes, weights)).result()
    assert (pooled.values["positives"], pooled.values["negatives"]) == (30.0, 90.0)


def test_whole_weights_repeat_samples() -> None:
    scores, _, hot = random_batch(6)
    times = torch.arange(60) % 3
    for metric in (ROCAUC, AveragePrecision):
        for plan in ({}, {"bins": 8}):
            expected = exactly(
                metric(**plan), scores[:, 0].repeat_interleave(times), hot[:, 0].repeat_interleave(times)
            )
            assert close(exactly(metric(**plan), scores[:, 0], hot[:, 0], times), expected)


def test_samples_without_weight_loosen_no_bound() -> None:
    scores, _, hot = random_batch(6)
    weight = torch.arange(60) % 3 * 0.5
    kept = weight > 0
    every, rest = (scores[:, 0], hot[:, 0], weight), (scores[kept, 0], hot[kept, 0], weight[kept])
    found, expected = (updated(AveragePrecision(thresholds=4), batch).result().values for batch in (every, rest))
    assert (found["lowest"], found["highest"]) == (expected["lowest"], expected["highest"])


def test_bad_values_are_named() -> None:
    scores, classes, hot = random_batch(0)
    for plan in ({}, {"thresholds": 5}):
        with pytest.raises(InputError, match=r"preds\[3, 1\] must not be NaN"):
            bad = scores.clone()
            bad[3, 1] = nan
            ROCAUC(num_classes=4, activation="none", **plan).update(bad, classes)
        with pytest.raises(InputError, match=r"target\[2\] must be a class index from 0 to 3"):
            ROCAUC(num_classes=4, **plan).update(scores, torch.where(torch.arange(60) == 2, 4, classes))
        with pytest.raises(InputError, match=r"target\[2\] must be 0 or 1"):
            ROCAUC(**plan).update(scores[:, 0], torch.where(torch.arange(60) == 2, 7, hot[:, 0]))
        with pytest.raises(InputError, match=r"sample_weight\[0\] must be from 0 to 1e60"):
            ROCAUC(**plan).update(scores[:, 0], hot[:, 0], torch.full((60,), -1.0))
        with pytest.raises(
            InputError, match=r"preds must be scores of a floating dtype but got labels of torch\.int64"
        ):
            ROCAUC(**plan).update(hot[:, 1], hot[:, 0])


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ({"average": "samples"}, "average must be one of"),
        (
            {"thresholds": 1},
            r"thresholds must be an int of at least 2 \(and at most 2\^24\), or ascending .* but got 1",
        ),
        ({"thresholds": 2**24 + 1}, "thresholds must be an int of at least 2 .* but got 16777217"),
        ({"thresholds": 2**21, "score_dtype": torch.float16}, "ascend in float16 but got 2,097,152, from 0 to 1$"),
        ({"thresholds": []}, "thresholds must be finite and ascend in float32"),
        ({"thresholds": [0.5, 0.25]}, "thresholds must be finite and ascend in float32"),
        ({"thresholds": [0.5, 0.5 + 1e-12]}, "thresholds must be finite and ascend in float32"),
        ({"thresholds": [0.5, nan]}, "thresholds must be finite and ascend in float32"),
        ({"thresholds": [[0.5]]}, "thresholds must be finite and ascend in float32"),
        ({"thresholds": 5, "bins": 4}, "thresholds and bins exclude each other"),
        ({"score_dtype": torch.int32}, "score_dtype must be one of"),
        ({"num_classes": 3, "num_labels": 3}, "num_classes and num_labels exclude each other"),
    ],
)
def test_arguments_out_of_range(choices: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        ROCAUC(**choices)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "metric",
    [
        ROCAUC(num_classes=4), ROCAUC(num_classes=4, ignore_index=1), ROCAUC(num_classes=4, bins=4),
        ThresholdCounts(num_classes=4, hardmax=True),
    ],
    ids=["exact", "ignoring", "bins", "hardmax"],
)  # fmt: skip
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_waits_for_the_device(metric: ScoreMetric, weighted: bool) -> None:
    scores, classes, _ = random_batch(1)
    batch = (scores, classes, torch.rand(60)) if weighted else (scores, classes)
    metric = metric.clone().cuda()
    moved = [part.cuda() for part in batch]
    for mode in ("default", "error"):  # the first call may load the library
        torch.cuda.set_sync_debug_mode(mode)
        try:
            metric.update(*moved)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    expected = metric.clone().cpu()
    expected.reset()
    updated(expected, batch, batch)
    torch.testing.assert_close(metric.cpu().compute(), expected.compute(), rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, lambda x: torch.tensor(x, dtype=torch.bfloat16)])
def test_thresholds_of_any_kind(kind: Callable[[list[float]], Any]) -> None:
    scores, _, hot = random_batch(0)
    given, even = ROCAUC(thresholds=kind([0.0, 0.25, 0.5, 0.75, 1.0])), ROCAUC(thresholds=5)
    assert updated(given, (scores[:, 0], hot[:, 0])).compute() == updated(even, (scores[:, 0], hot[:, 0])).compute()


def test_peers_score_absent_classes_0() -> None:
    """Where we differ on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = updated(peers.MulticlassAUROC(5, average=None), (DIAGONAL, torch.tensor([0, 1, 3, 2]))).compute()
    assert peer[4] == 0


@pytest.mark.parametrize("metric", [ROCAUC, AveragePrecision])
def test_float64_scores_are_not_rounded_in_silence(metric: Any) -> None:
    near = torch.tensor([0.3, 0.3 + 1e-12, 0.5, 0.5], dtype=torch.float64)
    target = torch.tensor([0, 1, 1, 0])
    exact = updated(metric(score_dtype=torch.float64), (near, target))
    assert close(exact.result().values[metric.__name__], dict(METRICS)[metric](target.numpy(), near.numpy()))
    for choice in ({}, {"score_dtype": torch.float16}):
        with pytest.raises(InputError, match=r"score_dtype must be torch.float64 for preds of float64"):
            metric(**choice).update(near, target)
    updated(metric(), (near.float().double(), target))
    updated(metric(ignore_index=1), (torch.where(target == 1, near, 0.5), target))
    updated(metric(thresholds=5), (near, target))
    with pytest.raises(InputError, match=r"preds\[1\] must not be NaN"):
        metric().update(torch.where(near == 0.5, near, torch.nan).flip(0)[1:], target[1:])


@pytest.mark.parametrize("metric", [ROCAUC, AveragePrecision])
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_weights_of_ignored_rows_are_not_looked_at(metric: Any, average: str) -> None:
    scores, classes, hot = random_batch(8)
    for choices, target in (({}, hot[:, 0]), ({"num_classes": 4}, classes), ({"num_labels": 4}, hot)):
        preds = scores if choices else scores[:, 0]
        for bad in (torch.nan, -1.0, torch.inf):
            weight, holes = torch.ones(len(scores)), target.clone()
            weight[3], holes[3] = bad, -1
            found = exactly(metric(average=average, ignore_index=-1, **choices), preds, holes, weight)
            rest = torch.arange(len(scores)) != 3
            assert close(found, exactly(metric(average=average, **choices), preds[rest], target[rest], weight[rest]))


def test_only_a_nan_is_reported_as_one_of_softmax() -> None:
    check_ranked(torch.tensor(NO_ERROR))
    with pytest.raises(
        InputError, match=r"^preds\[2\] must have a finite largest score where its softmax is taken \("
    ) as e:
        check_ranked(torch.tensor(7 << 36 | NAN_SCORE), 3)
    assert "NaN" not in str(e.value)
    with pytest.raises(InputError, match=r"^sample_weight\[0\] must be from 0 to 1e60"):
        check_ranked(torch.tensor(WEIGHT))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_float64_scores_are_rejected_by_compute_on_cuda() -> None:
    metric = ROCAUC().cuda()
    metric.update(torch.tensor([0.1, 0.3]).double().cuda() + 1e-12, torch.tensor([0, 1]).cuda())
    with pytest.raises(InputError, match=r"score_dtype must be torch.float64 for preds of float64"):
        metric.compute()
