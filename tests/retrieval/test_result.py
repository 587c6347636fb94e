"""Results of retrieval: counts, reasons, intervals, pairs of models, the table of queries, and pictures."""

from __future__ import annotations

import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu import retrieval
from valor_gpu.errors import InputError
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.retrieval.curve_plot import draw_points
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.units import pair_units


def filled(kind: Any, seed: int = 0, queries: int = 60, bonus: float = 0.0, **choices: Any) -> Any:
    """A metric of seeded queries of ten documents, of which the relevant ones score higher by ``bonus``."""
    rng, chance = random.Random(7), random.Random(seed)
    target = [int(rng.random() < 0.3) for _ in range(10 * queries)]
    preds = [1 + chance.random() + bonus * relevant for relevant in target]
    metric = kind(**choices)
    metric.update(preds, target, [10 * (place // 10) for place in range(10 * queries)])
    return metric


def test_queries_without_relevant_documents_are_counted_and_the_choice_is_told() -> None:
    metric = retrieval.RetrievalMRR(empty_target_action="skip")
    metric.update([0.5, 0.25, 0.75], [1, 0, 0], [3, 3, 9])
    result = metric.result()
    assert result.values["RetrievalMRR"] == 1.0
    assert result.counts["queries"] == 2 and result.counts["queries_without_relevant"] == 1
    assert result.signature["empty_target_action"] == "skip"
    assert result.reasons == {"RetrievalMRR_stderr": "fewer than two queries"}
    table = result.per_query()
    assert isinstance(table, ColumnTable) and table["query"].tolist() == [3, 9]
    assert table["relevant"].tolist() == [1, 0] and math.isnan(table["RetrievalMRR"][1])


@pytest.mark.parametrize("name", ["RetrievalMAP", "RetrievalRecallAtFixedPrecision"])
def test_a_number_that_does_not_exist_has_a_reason(name: str) -> None:
    metric = getattr(retrieval, name)(empty_target_action="skip")
    metric.update([], [], [])
    assert metric.result().reasons[name] == "no document was added"
    metric.update([0.5], [0], [0])
    result = metric.result()
    assert math.isnan(result.values[name]) and "every query was skipped" in result.reasons[name]
    value = metric.compute()
    assert float(value if name == "RetrievalMAP" else value[0]) == 0.0


def test_a_function_of_scores_gives_the_number() -> None:
    metric = filled(retrieval.RetrievalMRR, aggregation=lambda values, dim: values.quantile(0.9, dim=dim))
    scores = metric.result().per_query()["RetrievalMRR"]
    assert float(metric.compute()) == pytest.approx(np.quantile(scores, 0.9), rel=1e-6)
    assert metric.result().values["RetrievalMRR"] == float(metric.compute())
    assert metric.result().signature["aggregation"] == "function"


def test_a_function_that_gives_several_numbers_has_no_result() -> None:
    metric = filled(retrieval.RetrievalMRR, aggregation=lambda values, dim: values)
    assert metric.compute().shape == (60,)
    with pytest.raises(InputError, match="aggregation must give one number for a result but gave shape"):
        metric.result()


@pytest.mark.parametrize("aggregation", ["mean", "median", lambda values, dim: values.mean(dim=dim)])
def test_intervals_are_of_queries_drawn_anew(aggregation: Any) -> None:
    metric = filled(retrieval.RetrievalMAP, queries=200, aggregation=aggregation)
    result = metric.result(intervals=400)
    interval, choices = result.intervals["RetrievalMAP"], result.intervals.choices
    assert (choices["unit"], choices["units"]) == ("queries", 200)
    assert interval.low < result.values["RetrievalMAP"] < interval.high
    if aggregation != "median":
        scores = result.per_query()["RetrievalMAP"]
        assert interval.standard_error == pytest.approx(scores.std() / math.sqrt(200), rel=0.1)


@pytest.mark.parametrize(
    ("name", "aggregation"),
    [
        ("RetrievalHoles", "mean"),
        ("RetrievalMRR", lambda values, dim: values.sum(dim=dim)),
        ("RetrievalRecallAtFixedPrecision", lambda values, dim: 1.9 * values.mean(dim=dim)),
    ],
)
def test_intervals_of_numbers_above_1_are_not_cut_at_1(name: str, aggregation: Any) -> None:
    metric = getattr(retrieval, name)(aggregation=aggregation, **({"min_precision": 1.0} if "Fixed" in name else {}))
    chance = torch.Generator().manual_seed(3)
    target = torch.randint(-1 if name == "RetrievalHoles" else 0, 2, (100, 10), generator=chance)
    queries = torch.arange(100)[:, None].expand(100, 10)
    metric.update(torch.rand(100, 10, generator=chance) + 0.3 * target, target, queries)
    result = metric.result(intervals=200)
    assert 1 < result.intervals[name].low < result.values[name] < result.intervals[name].high


def test_the_largest_score_has_no_interval() -> None:
    interval = filled(retrieval.RetrievalMAP, aggregation="max").result(intervals=20).intervals["RetrievalMAP"]
    assert "no honest interval" in interval.reason


def test_recall_at_a_precision_has_an_interval_and_points_have_none() -> None:
    result = filled(retrieval.RetrievalRecallAtFixedPrecision, bonus=0.2, min_precision=0.4).result(intervals=100)
    interval = result.intervals["RetrievalRecallAtFixedPrecision"]
    assert 0 <= interval.low < result.values["RetrievalRecallAtFixedPrecision"] <= interval.high <= 1
    assert set(result.intervals) == {"RetrievalRecallAtFixedPrecision", "k"} and result.intervals["k"].reason
    assert not filled(retrieval.RetrievalPrecisionRecallCurve).result(intervals=20).intervals


@pytest.mark.parametrize("kind", [retrieval.RetrievalMAP, retrieval.RetrievalRecallAtFixedPrecision])
def test_clusters_of_queries_are_drawn_together(kind: Any) -> None:
    result, listed = filled(kind, bonus=0.2).result(), [query // 5 for query in range(60)]
    ways: list[Any] = [{10 * query: query // 5 for query in range(60)}, listed]
    found = [result.with_intervals(Bootstrap(50, clusters=way)).intervals for way in ways]
    assert found[0].choices["clusters"] == 12 and dict(found[0]) == dict(found[1])
    for wrong, message in ((listed[1:], "each of the 60 queries but has 59"), ({0: 1}, "has none for query 10")):
        with pytest.raises(InputError, match=message):
            result.with_intervals(Bootstrap(50, clusters=wrong))


def test_two_models_are_paired_by_their_queries() -> None:
    kind = retrieval.RetrievalMAP
    states = [vars(filled(kind, seed, bonus=0.1 * seed).result())["_state"]() for seed in (1, 2)]
    units = [state.identities() for state in states]
    assert units[0].unit == "queries" and sorted(units[0].ids or ()) == list(range(0, 600, 10))
    pairing = pair_units(*units)
    assert (pairing.drawn, pairing.unit, pairing.doubt) == (60, "queries", "")
    assert states[0].shared(states[1]).left_out == {} and states[0].swapping(states[1]) is not None
    median = vars(filled(kind, aggregation="median").result())["_state"]()
    assert median.swapping(median) is None
    fewer = vars(filled(kind, queries=59).result())["_state"]().identities()
    with pytest.raises(InputError, match="same queries but 1 of 60 are missing from the second, such as 590"):
        pair_units(units[0], fewer)


def test_queries_that_one_model_skips_are_left_out_for_both() -> None:
    sides = []
    for target in ([1, 0, 1, 1], [1, 0, 1, 0]):
        metric = retrieval.RetrievalMRR(empty_target_action="skip")
        metric.update([0.5, 0.9, 0.3, 0.2], target, [0, 0, 1, 2])
        sides.append(vars(metric.result())["_state"]())
    shared = sides[0].shared(sides[1])
    assert shared.left_out == {"RetrievalMRR": 1} and shared.values == {"RetrievalMRR": 0.75}
    assert shared.state.units == 2


def test_a_pickle_and_a_file_have_the_numbers_without_the_queries() -> None:
    result = filled(retrieval.RetrievalMAP).result()
    again = pickle.loads(pickle.dumps(result))
    assert again.values == result.values
    with pytest.raises(InputError, match=r"per_query\(\) needs a result with the score of every query"):
        filled(retrieval.RetrievalPrecisionRecallCurve).result().per_query()


def test_curves_are_drawn_with_their_k() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    metric = filled(retrieval.RetrievalPrecisionRecallCurve, max_k=5)
    figure, axes = metric.plot()
    result = metric.result()
    line = axes.lines[0]
    np.testing.assert_array_equal(line.get_ydata(), result.values["precision"])
    assert [text.get_text() for text in axes.texts[:5]] == ["1", "2", "3", "4", "5"]
    assert "60 queries" in axes.texts[-1].get_text() + axes.get_title(loc="left") + str(axes.texts)
    again, other = metric.plot(metric.compute(), ax=plt.subplots()[1])
    assert again is not figure and len(other.lines) == 1
    draw_points(plt.subplots()[1], np.zeros(0), np.zeros(0))
    assert filled(retrieval.RetrievalRecallAtFixedPrecision).plot()[1] is not None
    plt.close("all")


def test_values_of_compute_are_float32_on_the_device_of_the_state() -> None:
    value = filled(retrieval.RetrievalNormalizedDCG).compute()
    assert value.dtype == torch.float32 and value.shape == ()
