"""Intervals of exact numbers of scores: each replicate is the metric on rows that stand as often as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from valor_gpu import native
from valor_gpu.classification import (
    EER,
    ROC,
    ROCAUC,
    AveragePrecision,
    BinaryEER,
    PrecisionRecallCurve,
    RecallAtFixedPrecision,
)
from valor_gpu.classification.resampled_histogram import SEPARATED
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.ops.ranks.resampled import by_copies, resampled_ranks
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Bootstrap

N, C = 240, 4
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _rows(kind: str, seed: int, ties: bool = True):
    """Scores, target and weights of N rows."""
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.random((N,) if kind == "binary" else (N, C)))
    scores = (scores * 12).round() / 12 if ties else scores
    target = torch.from_numpy(rng.integers(0, C, N) if kind == "multiclass" else rng.integers(0, 2, scores.shape))
    return scores.float(), target, torch.from_numpy(rng.random(N) * (rng.random(N) < 0.9))


def _sizes(kind: str) -> dict[str, int]:
    return {"binary": {}, "multiclass": {"num_classes": C}, "multilabel": {"num_labels": C}}[kind]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_kernel_has_the_bytes_of_the_op_on_copies(kind: str, weighted: bool, ties: bool, dtype: torch.dtype) -> None:
    scores, target, weight = _rows(kind, 1, ties)
    target[::7] = 9
    given = {"ignore_index": 9, "weight": weight if weighted else None}
    for lanes in (1, 16, 37):
        draws = Draws(N, lanes, 5).array()
        for average in (False, True):
            found, wanted = (
                serve(scores.to(dtype), target, draws, average=average, **given)
                for serve in (resampled_ranks, by_copies)
            )
            assert [part.tobytes() for part in found] == [part.tobytes() for part in wanted]


@pytest.mark.smoke
def test_rows_of_a_unit_are_drawn_together() -> None:
    scores, target, weight = _rows("binary", 2)
    draws = Draws(N // 3, 20).array()
    for each in (None, weight):
        found, wanted = (
            serve(scores[:, None], target[:, None], draws, average=True, weight=each)
            for serve in (resampled_ranks, by_copies)
        )
        assert [part.tobytes() for part in found] == [part.tobytes() for part in wanted]


@pytest.mark.smoke
def test_large_weights_of_draws_and_classes_without_positives() -> None:
    scores, target, _ = _rows("multiclass", 3)
    target[target == 2] = 1
    draws = np.random.default_rng(0).integers(0, 256, (N, 33)).astype(np.uint8)
    draws[:, 4] = 0
    for average in (False, True):
        found, wanted = (serve(scores, target, draws, average=average) for serve in (resampled_ranks, by_copies))
        assert [part.tobytes() for part in found] == [part.tobytes() for part in wanted]
        assert np.isnan(found.values[2]).all() and np.isnan(found.values[:, 4]).all()


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", [ROCAUC, AveragePrecision])
@pytest.mark.parametrize("average", ["macro", "weighted", "micro", "none"])
def test_replicates_are_the_metric_on_repeated_rows(kind: str, weighted: bool, metric, average: str) -> None:
    rows = _rows(kind, 4)
    rows[1][::5] = 7
    rows = rows if weighted else rows[:2]
    kept = {"ignore_index": 7, "average": average, **_sizes(kind)}
    made = metric(**kept)
    made.update(*rows)
    state = made._resampled(made.state())
    draws = Draws(state.units, 6, 3)
    found, weights = state.replicates(draws), draws.array()
    assert found.keys() == {n for n, _ in numbers_of(made.result().values) if not n.startswith(("positives", "negat"))}
    for lane in range(6):
        again = metric(**kept)
        copies = np.repeat(state._order, weights[:, lane])
        again.update(*(part[copies] for part in rows))
        values = dict(numbers_of(again.result().values))
        assert {name: values[name] for name in found} == {name: column[lane] for name, column in found.items()}


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        (lambda **kept: ROCAUC(max_fpr=0.3, **kept), "binary"),
        (lambda **kept: ROCAUC(max_fpr=0.3, **kept), "multilabel"),
        (lambda **kept: EER(**kept), "binary"),
        (lambda **_: BinaryEER(), "binary"),
        (lambda **kept: EER(average="macro", **kept), "multiclass"),
        (lambda **kept: RecallAtFixedPrecision(min_precision=0.7, **kept), "multilabel"),
    ],
)
def test_replicates_of_other_numbers_are_the_metric_on_repeated_rows(metric, kind: str) -> None:
    scores, target, _ = _rows(kind, 5)
    rows = scores / 2 + target / 4 if kind != "multiclass" else scores, target
    made = metric(**_sizes(kind))
    made.update(*rows)
    state = made._resampled(made.state())
    draws = Draws(N, 4)
    found, weights = state.replicates(draws), draws.array()
    for lane in range(4):
        again = metric(**_sizes(kind))
        again.update(*(part[np.repeat(state._order, weights[:, lane])] for part in rows))
        values = dict(numbers_of(again.result().values))
        assert {name: values[name] for name in found} == {name: column[lane] for name, column in found.items()}
    intervals = made.result(intervals=40).intervals
    assert set(intervals) == set(found) and all(each.low < each.high for each in intervals.values())


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_order_and_no_split_changes_a_bit(kind: str, weighted: bool) -> None:
    rows = _rows(kind, 6)[: 3 if weighted else 2]
    found = []
    for order, split in ((np.arange(N), N), (np.random.default_rng(1).permutation(N), 50), (np.arange(N)[::-1], 7)):
        metric = ROCAUC(**_sizes(kind))
        for first in range(0, N, split):
            metric.update(*(part[order[first : first + split].copy()] for part in rows))
        intervals = metric.result(intervals=60).intervals
        # The number itself adds weights in the order of updates; the replicates do not.
        errors = {name: each.standard_error for name, each in intervals.items()}
        found.append(errors if weighted else repr(intervals))
        assert np.isfinite(list(errors.values())).all()
    assert found[0] == found[1] == found[2]


def test_many_columns_are_ordered_by_their_bytes() -> None:
    rng = np.random.default_rng(0)
    scores, target = (
        torch.from_numpy(rng.random((60, 9)).round(1)).float(),
        torch.from_numpy(rng.integers(0, 2, (60, 9))),
    )
    found = []
    for order in (np.arange(60), rng.permutation(60)):
        metric = AveragePrecision(num_labels=9)
        metric.update(scores[order], target[order])
        found.append(repr(metric.result(intervals=30).intervals))
    assert found[0] == found[1]


def test_interval_is_near_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    target = rng.integers(0, 2, 200)
    scores = (rng.normal(size=200) + target).astype(np.float32)

    def area(rows: np.ndarray) -> float:
        ranks = stats.rankdata(scores[rows])
        up = target[rows] == 1
        return (ranks[up].sum() - up.sum() * (up.sum() + 1) / 2) / (up.sum() * (~up).sum())

    wanted = stats.bootstrap((np.arange(200),), area, vectorized=False, n_resamples=1500, method="percentile", rng=0)
    metric = ROCAUC()
    metric.update(torch.from_numpy(scores), torch.from_numpy(target))
    found = metric.result(intervals=Bootstrap(1500, method="percentile")).intervals["ROCAUC"]
    assert abs(found.low - wanted.confidence_interval.low) < 0.01
    assert abs(found.high - wanted.confidence_interval.high) < 0.01
    assert abs(found.standard_error - wanted.standard_error) < 0.003


def test_clusters_are_drawn_as_a_whole() -> None:
    scores, target, _ = _rows("binary", 8)
    patients = [f"p{row % 40}" for row in range(N)]
    found = []
    for order in (np.arange(N), np.random.default_rng(2).permutation(N)):
        metric = ROCAUC()
        metric.update(scores[order], target[order])
        result = metric.result(intervals=Bootstrap(50, clusters=[patients[row] for row in order]))
        found.append(repr(result.intervals))
        assert result.intervals.choices["clusters"] == 40
    assert found[0] == found[1] != repr(metric.result(intervals=50).intervals)
    by_row = dict(enumerate(patients[row] for row in order))
    assert repr(metric.result(intervals=Bootstrap(50, clusters=by_row)).intervals) == found[1]
    with pytest.raises(InputError, match="clusters must have one for each of 240 rows but has 3"):
        metric.result(intervals=Bootstrap(50, clusters=["a", "b", "c"]))
    with pytest.raises(InputError, match="lacks row 0"):
        metric.result(intervals=Bootstrap(50, clusters={1: "a"}))


def test_perfect_separation_has_no_interval() -> None:
    target = torch.arange(60) % 2
    for sign in (1, -1):
        metric = ROCAUC(activation="none")
        metric.update(sign * (target + torch.rand(60) / 2), target)
        assert metric.result(intervals=20).intervals["ROCAUC"].reason == SEPARATED


def test_few_rows_of_a_class_have_no_interval() -> None:
    metric = ROCAUC()
    metric.update(torch.rand(100), (torch.arange(100) < 5).long())
    assert "too few rows: 5 hold a truth" in metric.result(intervals=20).intervals["ROCAUC"].reason


def test_points_of_curves_have_no_interval() -> None:
    for metric in (ROC(), PrecisionRecallCurve()):
        metric.update(torch.rand(30), torch.arange(30) % 2)
        assert len(metric.result(intervals=10).intervals) == 0


def test_histograms_of_other_numbers_name_what_would_do() -> None:
    for metric in (
        EER(thresholds=10),
        RecallAtFixedPrecision(min_precision=0.5, thresholds=10),
        ROCAUC(thresholds=10, max_fpr=0.5),
    ):
        metric.update(torch.rand(60), torch.arange(60) % 2)
        if isinstance(metric, ROCAUC):
            assert np.isfinite(metric.result(intervals=10).intervals["ROCAUC"].low)
            continue
        with pytest.raises(InputError, match=f"intervals of {type(metric).__name__} need the scores: thresholds=None"):
            metric.result(intervals=10)


def test_definition_serves_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = AveragePrecision(num_classes=C)
    metric.update(*_rows("multiclass", 9)[:2])
    found = repr(metric.result(intervals=20).intervals)
    monkeypatch.setattr(native, "usable", lambda _: False)
    assert repr(metric.result(intervals=20).intervals) == found


def _of_classes() -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of three labels, of which the first has 5 positives, the second 5 negatives and the third 60 of each."""
    row, noise = torch.arange(120), torch.rand(120, 3, generator=torch.Generator().manual_seed(4))
    target = torch.stack((row < 5, row >= 5, row % 2 == 0), 1).long()
    return target * 0.2 + noise * 0.8, target


@pytest.mark.parametrize("options", [{}, {"thresholds": 50}, {"max_fpr": 0.5}])
def test_a_class_of_few_positives_or_negatives_has_no_area(options: dict[str, float]) -> None:
    scores, target = _of_classes()
    metric = ROCAUC(num_labels=3, average="none", **options)
    metric.update(scores, target)
    found = metric.result(intervals=20).intervals
    reasons = [found[f"per_class/{label}"].reason for label in range(3)]
    assert [reason[:12] for reason in reasons] == ["too few rows", "too few rows", ""]
    for label in range(3):
        binary = ROCAUC(**options)
        binary.update(scores[:, label], target[:, label])
        assert binary.result(intervals=20).intervals["ROCAUC"].reason == reasons[label]


def test_other_numbers_of_few_rows_have_no_interval() -> None:
    scores, target = _of_classes()
    of_roc, of_precision = EER(num_labels=3), RecallAtFixedPrecision(num_labels=3, min_precision=0.01)
    for metric in (of_roc, of_precision):
        metric.update(scores, target)
    few = [found.reason.startswith("too few") for found in of_roc.result(intervals=20).intervals.values()]
    assert few == [True, True, False]
    few = [found.reason.startswith("too few") for found in of_precision.result(intervals=20).intervals.values()]
    assert few == [True, False, False]


@pytest.mark.parametrize("rows", [None, 0])
def test_no_rows_give_reasons(rows: int | None) -> None:
    for metric in (ROCAUC(), AveragePrecision(), EER(), ROCAUC(num_classes=3)):
        if rows is not None:
            metric.update(torch.zeros((0, 3) if metric.task.classes == 3 else 0), torch.zeros(0, dtype=torch.int64))
        found = metric.result(intervals=20).intervals
        assert found and {interval.reason for interval in found.values()} == {"the number does not exist"}
