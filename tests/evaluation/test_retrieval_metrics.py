"""Metrics of a retrieval step: Azure's numbers, recorded; forms of columns; rows that cannot be read."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from valor_gpu import evaluate
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.base import EVALUATORS, Outcome, evaluator, score_portion

FILE = Path(__file__).parents[1] / "data/azure/document_retrieval.json.gz"
CASES = json.loads(gzip.decompress(FILE.read_bytes()))["cases"]
AZURE = {
    "ndcg": "ndcg@3",
    "xdcg": "xdcg@3",
    **{
        name: name
        for name in ("fidelity", "top1_relevance", "top3_max_relevance", "holes", "holes_ratio",
                     "total_retrieved_documents", "total_ground_truth_documents")
    },
}  # fmt: skip
NAMES = [name for name, info in EVALUATORS.items() if info.kind == "retrieval"]


def row(retrieved: Any, ground_truth: Any) -> dict[str, Any]:
    return {"retrieved_documents": retrieved, "retrieval_ground_truth": ground_truth}


def one(name: str, given: dict[str, Any], **parameters: Any) -> Outcome:
    found: list[Outcome] = evaluator(name, **parameters).score_rows([given])
    return found[0]


@pytest.mark.parametrize("name", AZURE)
def test_recorded_numbers(name: str) -> None:
    found = evaluator(name).score_rows(CASES)
    assert {outcome.status for outcome in found} == {"ok"}
    expected = [case["expected"][AZURE[name]] for case in CASES]
    assert [outcome.value for outcome in found] == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert len(set(expected)) > 3


def labels(case: dict[str, Any]) -> list[int | None]:
    """Labels by rank, by the definition."""
    known = {each["document_id"]: each["query_relevance_label"] for each in case["retrieval_ground_truth"]}
    ranked = sorted(case["retrieved_documents"], key=lambda each: -each["relevance_score"])
    return [known.get(each["document_id"]) for each in ranked]


@pytest.mark.parametrize("k", [None, 1, 4])
@pytest.mark.parametrize("rel", [1, 3])
def test_measures_of_the_first_documents(k: int | None, rel: int) -> None:
    names = ("reciprocal_rank", "retrieval_recall", "retrieval_precision", "hit_rate")
    found = score_portion([evaluator(name, k=k, rel=rel) for name in names], CASES)
    for place, case in enumerate(CASES):
        hits = [(label or 0) >= rel for label in labels(case)][:k]
        relevant = sum(each["query_relevance_label"] >= rel for each in case["retrieval_ground_truth"])
        expected = {
            "reciprocal_rank": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
            "retrieval_recall": sum(hits) / relevant if relevant else None,
            "retrieval_precision": sum(hits) / (k or len(hits)) if hits else 0.0,
            "hit_rate": float(any(hits)),
        }
        assert {name: outcomes[place].value for name, outcomes in found.items()} == expected


def test_linear_gain_is_that_of_trec_eval() -> None:
    given = row(["a", "x", "b"], {"a": 1, "b": 3, "c": 2})
    dcg, ideal = 1 + 3 / 2, 3 + 2 / math.log2(3) + 1 / 2
    assert one("ndcg", given, gain="linear", k=10).value == pytest.approx(dcg / ideal, rel=1e-15)
    assert one("ndcg", given, gain="linear", k=1).value == pytest.approx(1 / 3, rel=1e-15)


@pytest.mark.parametrize(
    ("retrieved", "ground_truth"),
    [
        (["b", "a", "7"], [{"document_id": "a", "query_relevance_label": 2}, {"document_id": 7, "label": 1}]),
        ([{"id": "a", "score": 1}, {"id": "b", "score": 2.0}, {"id": 7, "score": -1}], {"a": 2, "7": 1}),
        ('["b", "a", 7]', '{"a": 2, "7": 1.0}'),
        ({"7": -1, "b": 5, "a": 1}, [{"doc_id": "a", "relevance": 2.0}, {"doc_id": "7", "relevance": 1}]),
    ],
)
def test_forms_of_columns(retrieved: Any, ground_truth: Any) -> None:
    given = row(retrieved, ground_truth)
    assert one("holes", given).value == 1 and one("top1_relevance", given).value == 0
    assert one("top3_max_relevance", given).value == 2 and one("reciprocal_rank", given).value == 0.5


@pytest.mark.parametrize(
    ("retrieved", "ground_truth", "reason"),
    [
        (["a", "a"], ["a"], "retrieved_documents[1] must be another document but 'a' came before"),
        (["a"], ["a", "a"], "retrieval_ground_truth[1] must be another document but 'a' came before"),
        (["a"], [], "retrieval_ground_truth must have at least one document but is empty"),
        (3, ["a"], "retrieved_documents must be a list of documents but is int"),
        ("no json", ["a"], "retrieved_documents must be a list of documents but is a text without JSON: 'no json'"),
        ([1.5], ["a"], "retrieved_documents[0] must have a text or a whole number as id but has 1.5"),
        ([{"score": 1}], ["a"], "retrieved_documents[0] must have 'document_id' but has score"),
        ([{"id": "a"}], ["a"], "retrieved_documents[0] must have 'relevance_score' but has id"),
        ([{"id": "a", "score": math.nan}], ["a"], "must have a finite number as score but has nan"),
        ([{"id": "a", "score": True}], ["a"], "must have a finite number as score but has True"),
        ([{"id": "a", "score": 10**400}], ["a"], "must have a finite number as score but has 1000"),
        (["a"], {"a": -1}, "retrieval_ground_truth[0] must have a whole number from 0 to 1000 as label but has -1"),
        (["a"], {"a": 0.5}, "must have a whole number from 0 to 1000 as label but has 0.5"),
    ],
)
def test_a_bad_row_never_takes_the_others_with_it(retrieved: Any, ground_truth: Any, reason: str) -> None:
    good, bad = row(["a"], ["a"]), row(retrieved, ground_truth)
    found = score_portion([evaluator(name) for name in NAMES], [good, bad, good, {"retrieved_documents": ["a"]}])
    for outcomes in found.values():
        assert outcomes[0] == outcomes[2] and outcomes[0].value is not None
        assert outcomes[1].status == "invalid_field" and reason in outcomes[1].reason
        assert outcomes[3] == Outcome(None, "missing_field", "missing retrieval_ground_truth")


def test_labels_beyond_their_range_are_no_labels() -> None:
    given = row(["a"], {"a": 5})
    for name in ("xdcg", "fidelity"):
        found = one(name, given)
        assert found.status == "invalid_field" and "ground_truth_label_max=4 but has 5" in found.reason
        assert one(name, given, ground_truth_label_max=5).status == "ok"
    assert evaluator("xdcg", ground_truth_label_max=5).high == 125
    assert one("fidelity", row(["a"], {"a": 0}), ground_truth_label_min=1).status == "invalid_field"
    nothing = one("fidelity", row(["a"], {"a": 1}), ground_truth_label_min=1)
    assert nothing == Outcome(None, "undefined", "no document of the ground truth is relevant")


def test_fidelity_weighs_each_label_by_itself_beyond_nine() -> None:
    """azure-ai-evaluation sorts labels as texts, and gives label 10 the weight of label 2."""
    found = one("fidelity", row(["a"], {"a": 10, "b": 2}), ground_truth_label_max=10).value
    assert found == pytest.approx((2**11 - 1) / (2**11 - 1 + 2**3 - 1), rel=1e-15)


def test_nothing_retrieved_and_nothing_relevant() -> None:
    empty, irrelevant = row([], ["a"]), row(["a"], {"a": 0})
    assert one("ndcg", empty) == Outcome(0.0, reason="no document was retrieved")
    assert one("ndcg", irrelevant) == Outcome(0.0, reason="0 as in Azure: no document of the ground truth is relevant")
    assert one("retrieval_recall", irrelevant).status == "undefined"
    assert one("holes_ratio", empty).value == 0 and one("retrieval_precision", empty).value == 0


def test_parameters_are_checked() -> None:
    for name, parameters, message in (
        ("ndcg", {"k": 0}, "k must be at least 1 but got 0"),
        ("hit_rate", {"rel": 0}, "rel must be at least 1 but got 0"),
        ("ndcg", {"gain": "square"}, "gain must be one of 'exponential', 'linear' but got 'square'"),
        ("fidelity", {"ground_truth_label_min": 4}, "ground_truth_label_max must be at least 5 but got 4"),
        ("hit_rate", {"gain": "linear"}, "evaluator 'hit_rate' must get parameters of"),
    ):
        with pytest.raises(InputError, match=message):
            evaluator(name, **parameters)
    with pytest.raises(InputTypeError, match="k must be int but got float"):
        evaluator("ndcg", k=2.5)
    assert evaluator("hit_rate").version != evaluator("hit_rate", k=3).version


def test_a_run_has_thresholds_and_means(tmp_path: Path) -> None:
    rows = [row(["a"], ["a"]), row(["x"], ["a"]), row(["a", "a"], ["a"])]
    mapped = [{"docs": each["retrieved_documents"], "labels": each["retrieval_ground_truth"]} for each in rows]
    fields = {"retrieved_documents": "docs", "retrieval_ground_truth": "labels"}
    result = evaluate(data=mapped, data_mapping=fields, metrics_list=["ndcg", "holes"],
                      thresholds={"ndcg": 0.5, "holes": 0}, store=str(tmp_path / "s.sqlite"))  # fmt: skip
    assert result.metrics_summary["mean_ndcg"] == 0.5 and result.metrics_summary["holes_pass_rate"] == 0.5
    assert [each["passed"] for each in result.rows][:2] == [
        {"ndcg": True, "holes": True},
        {"ndcg": False, "holes": False},
    ]
