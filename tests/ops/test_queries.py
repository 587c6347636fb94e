"""Ranked documents of queries: the definition equals plain loops and scikit-learn, kernels equal the definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing import examples_queries as made
from testing.parity import differences
from testing.registry import ROWS
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError, NativeError
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.queries import cpu, reference, types
from valor_gpu.ops.queries import cuda as _queries_cuda
from valor_gpu.ops.queries.op import query_hits, query_order, query_scores
from valor_gpu.ops.queries.types import MEASURES, STATUS_TEXTS

Run = Callable[..., Any]
NAMES = ("query_order", "query_scores", "query_hits")
SLOW_TO_SIMULATE = ("1000 documents", "many", "one document each", "long")


def wrong(run: Run, name: str, skipped: Sequence[str] = ()) -> dict[str, str]:
    """Examples whose result differs from the definition."""
    row, found = ROWS[name], {}
    for example in row.examples(True):
        if not any(text in example.name for text in skipped):
            results = [each(*example.arguments) for each in (run, getattr(reference, name))]
            found[example.name] = differences(*(row.defined(result) for result in results))
    return {example: text for example, text in found.items() if text}


@pytest.mark.smoke
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_equal_the_definition(name: str, backend: str) -> None:
    skipped = SLOW_TO_SIMULATE if backend == "simulated" else ()
    assert wrong(kernel(backend, name, getattr(_queries_cuda, name)), name, skipped) == {}


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    documents = made.documents(np.random.default_rng(5), 160, 4)
    order = kernel("simulated", "query_order", _queries_cuda.query_order)(*documents[:2])
    assert differences(order, reference.query_order(*documents[:2])) == ""
    run = kernel("simulated", "query_scores", _queries_cuda.query_scores)
    for measure in MEASURES:
        arguments = made.arguments(measure, documents, 33)
        assert differences(run(*arguments), reference.query_scores(*arguments)) == "", measure


def test_threads_change_nothing() -> None:
    documents = made.documents(np.random.default_rng(3), 70_000, 700)
    arguments = made.arguments("ndcg", documents)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            order, offsets = query_order(*documents[:2])[::2]
            scores = query_scores("ndcg", *arguments[1:5])
            found.append((order, offsets, *scores, *query_hits(order, offsets, documents[2], 5)))
    finally:
        torch.set_num_threads(before)
    assert differences(*found) == ""
    assert differences(found[0][0], reference.query_order(*documents[:2])[0]) == ""


# ------------------------------------------------------------------------------------- plain loops over one query


def ranked_grades(scores: list[float], grades: list[float]) -> list[float]:
    return [grades[row] for row in sorted(range(len(scores)), key=lambda row: -scores[row])]


def by_gains(measure: str, ranked: list[float], k: int) -> float:
    """DCG, nDCG and ERR as textbooks define them."""
    gains = [max(grade, 0.0) for grade in ranked]
    if measure != "dcg" and measure != "ndcg":
        gains = [2.0**gain - 1 for gain in gains]
    if measure == "err":
        found, reached = 0.0, 1.0
        for i, gain in enumerate(gains[:k]):
            found += reached * gain / 16 / (i + 1)
            reached *= 1 - gain / 16
        return found
    found, best = (
        sum(gain / math.log2(i + 2) for i, gain in enumerate(order[:k])) for order in (gains, sorted(gains)[::-1])
    )
    return found / best if measure.startswith("n") else found


def by_judgements(ranked: list[float], k: int) -> float:
    """Bpref as trec_eval defines it."""
    total, judged, found = sum(grade > 0 for grade in ranked), sum(grade == 0 for grade in ranked), 0.0
    for i, grade in enumerate(ranked[:k]):
        above = sum(other == 0 for other in ranked[:i])
        if grade > 0:
            found += 1 - min(above, total) / min(total, judged) if above else 1
    return found / total


def by_loop(measure: str, scores: list[float], grades: list[float], k: int) -> float:
    """Textbook definitions of what has no ties; k: documents that count."""
    ranked = ranked_grades(scores, grades)
    if measure in ("dcg", "ndcg", "dcg_exp", "ndcg_exp", "err"):
        return by_gains(measure, ranked, k)
    if measure == "bpref":
        return by_judgements(ranked, k)
    relevant = [grade > 0 for grade in ranked]
    total, head = sum(relevant), relevant[:k]
    precisions = [sum(head[: i + 1]) / (i + 1) for i in range(len(head)) if head[i]]
    values: dict[str, float] = {
        "precision": sum(head) / k,
        "recall": sum(head) / max(total, 1),
        "hit_rate": any(head),
        "success": any(head),
        "average_precision": sum(precisions) / max(len(precisions), 1),
        "trec_average_precision": sum(precisions) / max(total, 1),
        "reciprocal_rank": next((1 / (i + 1) for i, hit in enumerate(head) if hit), 0.0),
        "fall_out": (len(head) - sum(head)) / max(len(relevant) - total, 1),
        "r_precision": sum(head[:total]) / max(total, 1),
        "judged": sum(grade >= 0 for grade in ranked[:k]) / len(head),
        "holes": sum(grade < 0 for grade in ranked[:k]),
        "rbp": sum(0.2 * 0.8**i for i, hit in enumerate(head) if hit),
    }
    return float(values[measure])


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("measure", [name for name in MEASURES if name != "auroc"])
def test_scores_equal_plain_loops(measure: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    where, score, grade = made.distinct(rng, int(rng.integers(1, 120)), 6)
    order = query_order(where, score)
    for k in (1, 3, 7, 200):
        parameter = made.PARAMETERS.get(measure)
        found = query_scores(measure, order.order, order.offsets, score, grade, k, parameter)
        for query, value, status in zip(order.queries, found.scores.tolist(), found.status.tolist()):
            rows = where == query
            if status == types.OK:
                expected = by_loop(measure, score[rows].tolist(), grade[rows].tolist(), k)
                assert value == pytest.approx(expected, rel=1e-12, abs=1e-15), (measure, k)
            else:
                assert math.isnan(value)


@pytest.mark.parametrize("seed", seeds(4))
def test_ndcg_and_auroc_equal_scikit_learn_with_ties(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    where, score, grade = made.documents(rng, 150, 5)
    score, grade = score.double().clamp(-9, 9), grade.clamp(min=0)
    order = query_order(where, score)
    for k in (0, 1, 4, 29):
        linear, gain, plain = (
            query_scores(name, order.order, order.offsets, score, grade, k) for name in ("ndcg", "ndcg_exp", "dcg")
        )
        for q, query in enumerate(order.queries):
            side, truth = score[where == query].numpy()[None], grade[where == query].numpy()[None]
            given = {"k": k or None}
            if linear.status[q] == types.OK:
                assert linear.scores[q].item() == pytest.approx(metrics.ndcg_score(truth, side, **given), rel=1e-12)
                expected = metrics.ndcg_score(2.0**truth - 1, side, **given)
                assert gain.scores[q].item() == pytest.approx(expected, rel=1e-12)
            assert plain.scores[q].item() == pytest.approx(metrics.dcg_score(truth, side, **given), rel=1e-12)
    for most in (1.0, 0.3, 0.05):
        found = query_scores("auroc", order.order, order.offsets, score, grade, 0, most)
        for q, query in enumerate(order.queries):
            if found.status[q] == types.OK:
                sides = grade[where == query].numpy() > 0, score[where == query].numpy()
                expected = metrics.roc_auc_score(*sides, max_fpr=None if most == 1 else most)
                assert found.scores[q].item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("kind", made.INDEX_RANGES)
def test_order_equals_a_plain_sort(kind: str, seed: int) -> None:
    where, score, _ = made.documents(np.random.default_rng(seed), 400, 12, kind)
    found = query_order(where, score)
    keys = [(index, -value, row) for row, (index, value) in enumerate(zip(where.tolist(), score.tolist()))]
    assert found.order.tolist() == [row for *_, row in sorted(keys)]
    assert found.queries.tolist() == sorted(set(where.tolist())) and int(found.error) == NO_ERROR
    for query, begin, end in zip(found.queries, found.offsets[:-1], found.offsets[1:]):
        assert (where[found.order[begin:end]] == query).all()
    assert found.offsets[0] == 0 and found.offsets[-1] == 400


# --------------------------------------------------------------------------------------------------- made by hand


SPREADS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "even": lambda rng, n: rng.random(n),
    "two clusters": lambda rng, n: rng.integers(0, 2, n) + 1e-5 * rng.random(n),
    "few values": lambda rng, n: rng.integers(-2, 3, n) * 0.5,
    "one value": lambda rng, n: np.full(n, 0.25),
    "powers": lambda rng, n: np.ldexp(rng.choice([-1.0, 1.0], n), rng.integers(-14, 15, n)),
    "infinite": lambda rng, n: rng.choice([-np.inf, np.inf, -0.0, 0.0, 1.0, 2.0], n),
    "largest": lambda rng, n: rng.choice([-1.0, 1.0], n) * rng.random(n) * 1.7e308,
    "tiny": lambda rng, n: rng.integers(0, 900, n) * 5e-324,
}


@pytest.mark.smoke
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_scores_of_any_spread_are_sorted(dtype: str, spread: str) -> None:
    rng = np.random.default_rng(len(spread))
    sizes = [*range(1, 40), 100, 999, 1023, 1024, 1500]
    indexes = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    preds = torch.from_numpy(np.asarray(SPREADS[spread](rng, len(indexes)))).to(getattr(torch, dtype))
    for given in (indexes, indexes[torch.from_numpy(rng.permutation(len(indexes)))], indexes.int() * 1_000_003):
        assert differences(query_order(given, preds), reference.query_order(given, preds)) == ""


def score_of(measure: str, scores: Any, grades: Any, *given: Any, **more: Any) -> tuple[float, str]:
    preds, target = torch.tensor(scores, dtype=torch.float64), torch.tensor(grades)
    order = query_order(torch.zeros(len(scores), dtype=torch.int64), preds)
    found = query_scores(measure, order.order, order.offsets, preds, target, *given, **more)
    return found.scores.item(), STATUS_TEXTS[int(found.status)]


def test_a_perfect_ranking_has_an_ndcg_of_exactly_one() -> None:
    rng = np.random.default_rng(8)
    for count in range(1, 60):
        grades = sorted(rng.integers(0, 5, count).tolist(), reverse=True)
        grades[0] = 4
        for measure in ("ndcg", "ndcg_exp"):
            assert score_of(measure, list(range(count, 0, -1)), grades) == (1.0, "")
            assert score_of(measure, [-float(4 - grade) for grade in grades], grades) == (1.0, "")
            assert score_of(measure, grades, grades, 3) == (1.0, "")


def test_status_says_why_there_is_no_score() -> None:
    texts: dict[str, tuple[Any, ...]] = {
        "no relevant document": ("precision", [1.0, 2.0], [0, -1]),
        "no irrelevant document": ("fall_out", [1.0, 2.0], [1, 1]),
        "only relevant or only irrelevant documents within top_k": ("auroc", [1.0, 2.0, 0.5], [1, 1, 0], 2),
        "a grade that is not a whole number, or too large": ("err", [1.0, 2.0], [1, 5], 0, 4.0),
    }
    for text, (measure, *given) in texts.items():
        value, found = score_of(measure, *given)
        assert math.isnan(value) and found == text
    assert score_of("auroc", [1.0, 2.0], [1, 1])[1] == "no irrelevant document"
    assert score_of("ndcg_exp", [1.0, 2.0], [1, 0.5])[1] == "a grade that is not a whole number, or too large"
    assert score_of("judged", [1.0], [1], above=1.0)[1] == "no document"
    for measure in ("dcg", "err", "rbp", "holes"):
        assert score_of(measure, [1.0], [0], 0, made.PARAMETERS.get(measure)) == (0.0, "")


def test_documents_that_are_not_retrieved_lower_recall_alone() -> None:
    given = [0.9, 0.4, 0.0, -1.0], [1, 0, 1, 1]
    assert score_of("recall", *given, above=0.0)[0] == pytest.approx(1 / 3)
    assert score_of("recall", *given)[0] == 1.0
    assert score_of("precision", *given, 2, above=0.0)[0] == score_of("precision", *given, 2)[0] == 0.5
    assert score_of("average_precision", *given, above=0.0)[0] == 1.0
    assert score_of("trec_average_precision", *given, above=0.0)[0] == pytest.approx(1 / 3)
    assert score_of("precision", *given, 9)[0] == pytest.approx(3 / 9)
    assert score_of("precision", *given, 9, adaptive_k=True)[0] == 3 / 4


def test_unjudged_documents_are_not_relevant() -> None:
    scores = [0.9, 0.8, 0.7, 0.6]
    assert score_of("judged", scores, [-1, 1, -1, 0], 3)[0] == pytest.approx(1 / 3)
    assert score_of("holes", scores, [-1, 1, -1, 0], 3)[0] == 2.0
    assert score_of("precision", scores, [-1, 1, -1, 0])[0] == 0.25
    assert score_of("bpref", scores, [-1, 1, -1, 0])[0] == 1.0
    assert score_of("ndcg", scores, [-3, 1, -1, 0]) == score_of("ndcg", scores, [0, 1, 0, 0])


def test_hits() -> None:
    preds, target = torch.tensor([0.9, 0.1, 0.5, 0.7]), torch.tensor([0, 2, 1, -1])
    order = query_order(torch.tensor([5, 5, 5, 2]), preds)
    found = query_hits(order.order, order.offsets, target, 5)
    assert found.hits.tolist() == [[0] * 5, [0, 1, 2, 2, 2]] and found.relevant.tolist() == [0, 2]


# -------------------------------------------------------------------------------------------- arrays, bad arguments


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_arrays_give_what_tensors_give(dtype: str) -> None:
    where, score, grade = made.documents(np.random.default_rng(9), 300, 11)
    arrays = where.numpy(), score.numpy().astype(dtype), grade.numpy()
    tensors: list[Tensor] = [torch.from_numpy(array) for array in arrays]
    order, expected = cpu.query_order(*arrays[:2]), query_order(*tensors[:2])
    assert differences([torch.from_numpy(part) for part in order], list(expected)) == ""
    for measure in MEASURES:
        given: Any = 4, made.PARAMETERS.get(measure)
        found = cpu.query_scores(measure, order.order, order.offsets, arrays[1], arrays[2], *given, above=0.5)
        values = query_scores(measure, expected.order, expected.offsets, tensors[1], tensors[2], *given, above=0.5)
        assert differences([torch.from_numpy(part) for part in found], list(values)) == "", measure
    hits = cpu.query_hits(order.order, order.offsets, arrays[2], 7)
    expected_hits = query_hits(expected.order, expected.offsets, tensors[2], 7)
    assert differences([torch.from_numpy(part) for part in hits], list(expected_hits)) == ""


def test_without_the_library_definitions_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    where, score, grade = (tensor.numpy() for tensor in made.documents(np.random.default_rng(2), 90))
    order = cpu.query_order(where, score)
    with_library = cpu.query_scores("ndcg", order.order, order.offsets, score, grade)
    hits = cpu.query_hits(order.order, order.offsets, grade, 3)
    monkeypatch.setattr("valor_gpu.native.usable", lambda name: False)
    monkeypatch.setattr(cpu, "run_order", None)
    for found, expected in zip(cpu.query_order(where, score), order):
        assert found.tolist() == expected.tolist()
    without = cpu.query_scores("ndcg", order.order, order.offsets, score, grade)
    assert [part.tobytes() for part in without] == [part.tobytes() for part in with_library]
    assert cpu.query_hits(order.order, order.offsets, grade, 3).hits.tolist() == hits.hits.tolist()


def test_nan_scores_are_found() -> None:
    where, score = torch.tensor([3, 1, 1, 3]), torch.tensor([0.5, torch.nan, 0.1, torch.nan])
    code = int(query_order(where, score).error)
    assert types.describe_order(code) == "preds[1] must not be NaN"
    with pytest.raises(InputError, match=r"preds\[1\] must not be NaN"):
        cpu.query_order(where.numpy(), score.numpy())


def test_arguments_are_checked() -> None:
    where, preds, target = torch.tensor([0, 1]), torch.tensor([0.5, 0.25]), torch.tensor([1, 0])
    for given, message in (
        ((where, preds[:1]), r"indexes must have shape \[1\]"),
        ((where[None], preds[None]), r"preds must have shape \[N\]"),
        ((where.to(torch.int16), preds), "indexes must have dtype torch.int32 or torch.int64"),
        ((where, where), "preds must have dtype"),
    ):
        with pytest.raises(InputError, match=message):
            query_order(*given)
    order, _, offsets, _ = query_order(where, preds)
    for measure, more, message in (
        ("map", (), "measure must be one of"),
        ("precision", (-1,), "top_k must be at least 0"),
        ("precision", (0, 1.0), "parameter must be None for precision"),
        ("err", (0,), "parameter of err must be a number"),
        ("err", (0, 2.5), "parameter of err must be a whole number from 1 to 1023"),
        ("auroc", (0, 0.0), "parameter of auroc must be above 0 and at most 1"),
        ("rbp", (0, 1.0), "parameter of rbp must be above 0 and below 1"),
    ):
        with pytest.raises(InputError, match=message):
            query_scores(measure, order, offsets, preds, target, *more)
    with pytest.raises(InputError, match=r"target must have shape \[2\]"):
        query_scores("ndcg", order, offsets, preds, target[:1])
    with pytest.raises(InputError, match="offsets must have a number for each query"):
        query_scores("ndcg", order, offsets[:0], preds, target)
    with pytest.raises(InputError, match="max_k must be at least 1"):
        query_hits(order, offsets, target, 0)


@pytest.mark.smoke
def test_rows_and_offsets_that_do_not_exist_reach_no_memory() -> None:
    preds, target = torch.rand(4), torch.ones(4)
    for order, offsets in (
        ([0, 1, 2, 4], [0, 4]),
        ([0, 1, 2, -1], [0, 4]),
        ([0, 1, 2, 3], [0, 5]),
        ([0, 1, 2, 3], [-1, 4]),
        ([0, 1, 2, 3], [0, 3, 2, 4]),
    ):
        tables = torch.tensor(order), torch.tensor(offsets)
        with pytest.raises(NativeError, match="valor_query_scores_cpu failed"):
            query_scores("ndcg", *tables, preds, target)
        with pytest.raises(NativeError, match="valor_query_hits_cpu failed"):
            query_hits(*tables, target, 2)


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(name: str) -> None:
    where, score, grade = made.distinct(np.random.default_rng(8), 50, 3)
    order, offsets, *_ = made.ranked((where, score, grade))
    scored = made.arguments("dcg", (where, score, grade))
    given = {"query_order": (where, score), "query_scores": scored, "query_hits": (order, offsets, grade, 4)}[name]
    library.opcheck(getattr(torch.ops.valor_gpu, name).default, given)


def test_compiled_scores() -> None:
    documents = made.distinct(np.random.default_rng(4), 60, 4)
    order, offsets, score, grade = made.ranked(documents)

    @torch.compile(backend="eager", fullgraph=True)
    def compiled(score: Tensor, grade: Tensor) -> Tensor:
        mean: Tensor = query_scores("ndcg", order, offsets, score, grade, 5).scores.nanmean()
        return mean

    assert compiled(score, grade) == query_scores("ndcg", order, offsets, score, grade, 5).scores.nanmean()
