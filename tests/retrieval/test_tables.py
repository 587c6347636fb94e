"""Tables of queries have the numbers of ir-measures, and measures the names of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.checkout import ROOT
from valor_gpu.errors import InputError
from valor_gpu.retrieval import query_table
from valor_gpu.retrieval.measures import parse_measure, parse_measures

STORED: dict[str, Any] = json.loads((ROOT / "tests/data/ir_measures.json").read_text())
"""Judgements, a run and scores of each query by ir-measures; gdeval, for gains 2^g - 1, has five digits."""


def stored_rows() -> tuple[Any, ...]:
    qrels, run = STORED["qrels"], STORED["run"]
    rows = [(query, doc) for query in qrels for doc in {**run[query], **qrels[query]}]
    indexes = np.array([int(query) for query, _ in rows])
    preds = np.array([run[query].get(doc, np.nan) for query, doc in rows])
    target = np.array([qrels[query].get(doc, -1) for query, doc in rows])
    return indexes, preds, target, np.array([doc in run[query] for query, doc in rows])


@pytest.mark.parametrize("name", STORED["scores"])
def test_scores_are_those_of_ir_measures(name: str) -> None:
    indexes, preds, target, retrieved = stored_rows()
    table = query_table(indexes, preds, target, [name], retrieved=retrieved)
    expected = [STORED["scores"][name][str(query)] for query in table.queries]
    absolute = 1e-5 if "exp" in name or "ERR" in name else 1e-15
    (scores,) = table.columns.values()
    assert np.nan_to_num(scores).tolist() == pytest.approx(expected, rel=1e-14, abs=absolute)


def test_rows_may_come_in_any_order_and_dtype() -> None:
    indexes, preds, target, retrieved = stored_rows()
    names = [*STORED["scores"], "Holes@5", "FallOut@3", "AUC"]
    expected = query_table(indexes, preds, target, names, retrieved=retrieved)
    order = np.random.default_rng(1).permutation(len(indexes))
    narrow = indexes.astype(np.int32)[order], preds[order], target.astype(np.int8)[order]
    found = query_table(narrow[0], narrow[1], narrow[2], names, retrieved=retrieved[order])
    np.testing.assert_array_equal(found.queries, expected.queries)
    for name, column in expected.columns.items():
        np.testing.assert_array_equal(found.columns[name], column)


def test_equal_scores_rank_by_row_and_share_no_gains() -> None:
    table = query_table(np.zeros(2, int), np.full(2, 0.5), np.array([0, 1]), ["nDCG", "RR"])
    assert table.columns["nDCG"].tolist() == pytest.approx([1 / np.log2(3)])
    assert table.columns["RR"].tolist() == [0.5]


def test_scores_below_0_are_found_and_what_does_not_exist_is_nan() -> None:
    table = query_table(np.array([0, 1]), np.array([-5.0, -9.0]), np.array([1, 0]), ["AP", "R@1", "Judged@1"])
    assert table.columns["AP"][0] == 1 and np.isnan(table.columns["R@1"][1]) and table.columns["Judged@1"][1] == 1


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("MAP", "AP"), ("MRR@10", "RR@10"), ("Precision(rel=2)@5", "P(rel=2)@5"), ("P(rel=1)@5", "P@5"),
        ("NDCG@10", "nDCG@10"), ("HitRate@3", "Success@3"), ("RBP", "RBP(p=0.8)"), (" Recall@5 ", "R@5"),
        ("nDCG(dcg='log2')@5", "nDCG@5"), ('nDCG(dcg="exp-log2")', "nDCG(dcg='exp-log2')"),
        ("RBP(p=0.5, rel=2)@9", "RBP(rel=2,p=0.5)@9"), ("ERR(max_rel=4)@20", "ERR(max_rel=4)@20"),
    ],
)  # fmt: skip
def test_two_spellings_of_a_measure_have_one_name(given: str, name: str) -> None:
    assert parse_measure(given).name == name == parse_measure(name).name
    assert vars(parse_measure(given)) == vars(parse_measure(name))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nDGC@10", "measure must be one of P, R, AP, .* but got 'nDGC@10'; did you mean 'nDCG'"),
        ("nDCG@", "measure must look like nDCG@10, AP or"),
        ("P", "measure 'P' must have a cutoff, such as P@10"),
        ("AP@0", "measure 'AP@0' must have a cutoff of at least 1"),
        ("Rprec@5", "measure 'Rprec@5' must have no cutoff"),
        ("P(p=2)@5", "must have arguments of P, which takes rel, but has 'p=2'"),
        ("Judged(rel=1)@5", "must have arguments of Judged, which takes no arguments, but has 'rel=1'"),
        ("RBP(p=0.5,p=0.6)", "takes rel and p, but has 'p=0.6'"),
        ("RBP(p=1)", "p of RBP must be a number above 0 and below 1 but got '1'"),
        ("RBP(p=x)", "p of RBP must be a number above 0 and below 1 but got 'x'"),
        ("AP(rel=0)", "rel of AP must be a whole number of at least 1 but got '0'"),
        ("nDCG(dcg='sqrt')", "dcg of nDCG must be log2 or exp-log2 but got 'sqrt'"),
    ],
)
def test_wrong_measures_are_refused(given: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_measures(["AP", given])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(preds=np.array([np.nan, 0.5])), r"preds\[0\] must not be NaN"),
        (dict(preds=np.array([0.5])), r"indexes must have shape \[1\]|preds must have"),
        (dict(indexes=np.array([0.0, 1.0])), "indexes must have dtype int32 or int64 but got float64"),
        (dict(retrieved=np.array([1, 0])), r"retrieved must be bool of shape \[2\] like preds but is int64"),
        (dict(preds=np.array([-np.inf, 0.5]), retrieved=np.array([True, False])), "preds must be above -inf where"),
        (dict(target=np.array([0.5, 1.0]), measures=["ERR"]), "target must have whole grades from 0 to 1, its max_rel"),
        (dict(target=np.array([0.5, 1.0]), measures=["nDCG(dcg='exp-log2')"]), "whole grades from 0 to 1023 for nDCG"),
    ],
)
def test_wrong_arrays_are_refused(changed: dict[str, Any], message: str) -> None:
    given = dict(indexes=np.array([0, 1]), preds=np.array([0.5, 0.25]), target=np.array([0, 1]), measures=["AP"])
    with pytest.raises(InputError, match=message):
        query_table(**{**given, **changed})
