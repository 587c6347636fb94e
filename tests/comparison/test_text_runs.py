"""Stored evaluations of texts as models of a comparison: the numbers of compare_runs, by the names of the summary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hand_made_runs import evaluator_config, make_rows, make_run, make_scores
from valor_gpu.comparison import ComparisonResult
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.results.comparison import compare_group, compare_runs
from valor_gpu.stats import adjust_holm, compare
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.runs import Run
from valor_gpu.text import TokenF1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


DOCUMENTS = [f"d{row // 4}" for row in range(40)]


def run_of(store: Store, seed: int, gain: float, failed: Sequence[int] = (), **more: Any) -> Run:
    rng = np.random.default_rng(seed)
    f1: list[Any] = (rng.random(40) + gain).tolist()
    for row in failed:
        f1[row] = "timeout"
    counts = [[int(rng.binomial(9, 0.5 - gain)), 9] for _ in range(40)]
    scores = [
        *make_scores("f1_score", f1),
        *(
            StoredScore(n, "word_error_rate", 0, a / b, details={"counts": [a, b]})
            for n, (a, b) in enumerate(counts, 1)
        ),
    ]
    rows = make_rows(40, document=DOCUMENTS)
    evaluators = more.pop("evaluators", ["f1_score", "word_error_rate"])
    return make_run(store, evaluators, rows, scores, **more)


@pytest.mark.parametrize("column", [None, "document"])
def test_the_numbers_are_those_of_the_comparison_of_runs(store: Store, column: str | None) -> None:
    old, new = run_of(store, 1, 0, [3]), run_of(store, 2, 0.1, [5, 3])
    found = compare(EvaluationResult(store, old), new, clusters=column, replicates=400, seed=5, confidence=0.9)
    wanted = compare_runs(new, old, cluster_column=column, resamples=400, seed=5, confidence=0.9)
    assert isinstance(found, ComparisonResult)
    assert found.provenance == {
        "first": EvaluationResult(store, old).provenance,
        "second": EvaluationResult(store, new).provenance,
    }
    assert list(found.values["difference"]) == ["mean_f1_score", "word_error_rate"]
    for each in wanted.metrics.values():
        name = each.summary_name
        numbers = {column: found.values[column][name] for column in found.values}
        interval = found.intervals[f"difference/{name}"]
        assert numbers["first"] == each.baseline and numbers["second"] == each.run
        assert numbers["difference"] == each.difference
        assert numbers["p"] == numbers["p_permutation"] == each.p_value
        assert numbers["p_adjusted"] == each.p_adjusted
        assert [interval.low, interval.high] == each.interval
        assert numbers["detectable"] == pytest.approx((1.645 + 0.842) * interval.standard_error, rel=1e-3)
    assert found.counts["left_out_of_mean_f1_score"] == 2
    assert found.counts["rows"] == 40
    assert found.counts.get("clusters") == (10 if column else None)
    assert found.gate_numbers()["delta_mean_f1_score"] == wanted.metrics["f1_score"].difference
    tests = found.signature["tests"]
    exact = "exact " if column else ""  # 10 documents have 1,024 assignments of signs, more than 400 swaps
    assert tests["mean_f1_score"].startswith(f"{exact}sign flip: for each unit it does not matter")
    assert tests["word_error_rate"].startswith("swap: ")
    assert found.signature["adjust"] == "holm"
    notes = found.signature["notes"]
    assert "p_adjusted is over the metrics, by holm; p is of a metric alone" in notes
    assert ("p of 10 clusters is of all flips, the smallest 0.002" in notes) == (column is not None)


def test_permutations_are_as_many_as_replicates_or_none(store: Store) -> None:
    old, new = run_of(store, 1, 0), run_of(store, 2, 0.1)
    assert compare(old, new, replicates=300, permutations=7).signature["permutations"] == 300
    none = compare(old, new, replicates=300, permutations=0)
    assert none.signature["permutations"] == 0
    assert all(map(math.isnan, none.values["p_permutation"].values()))
    assert not any(map(math.isnan, none.values["p"].values()))


def test_three_runs_share_one_adjustment(store: Store) -> None:
    runs = [run_of(store, seed, gain) for seed, gain in enumerate((0, 0.05, 0.1))]
    found = compare(dict(zip("abc", runs)), baseline="a", replicates=300)
    assert list(found) == ["b vs a", "c vs a"]
    wanted = compare_group(runs, resamples=300)
    for result, each in zip(found.values(), wanted):
        assert result.values["p_adjusted"] == {m.summary_name: m.p_adjusted for m in each.metrics.values()}
    several = compare(*runs, replicates=100, adjust="benjamini_hochberg")
    assert list(several) == ["second vs first", "third vs first", "third vs second"]
    p_values = [p for result in several.values() for p in result.values["p"].values()]
    adjusted = [p for result in several.values() for p in result.values["p_adjusted"].values()]
    assert all(one <= two for one, two in zip(p_values, adjusted)) and adjusted != adjust_holm(p_values)


def test_rows_and_metrics_of_one_run_alone_are_noted(store: Store) -> None:
    def run(keys: str, names: Sequence[str]) -> Run:
        rows = [StoredRow(number, key, {}) for number, key in enumerate(keys, 1)]
        scores = [score for name in names for score in make_scores(name, [number / 10 for number in range(len(keys))])]
        return make_run(store, names, rows, scores)

    found = compare(run("abcdx", ["f1_score", "rouge1"]), run("dcbayz", ["f1_score"]), replicates=50)
    assert found.counts == {"rows": 4}
    notes = found.signature["notes"]
    assert "1 row of the first run alone is left out" in notes
    assert "2 rows of the second run alone are left out" in notes
    assert "of the first run alone: rouge1" in notes


def test_a_number_that_does_not_exist_has_its_reason(store: Store) -> None:
    sides = [
        make_run(store, ["f1_score"], make_rows(2), make_scores("f1_score", [value, "timeout"])) for value in (0, 1)
    ]
    found = compare(*sides, replicates=50)
    assert found.values["difference"]["mean_f1_score"] == 1 and math.isnan(found.values["p"]["mean_f1_score"])
    reason = "it takes two rows with both numbers but there is 1"
    assert found.reason("p/mean_f1_score") == reason
    assert found.intervals["difference/mean_f1_score"].reason == reason


def test_what_cannot_be_compared_is_an_error(store: Store) -> None:
    run, other = run_of(store, 1, 0), run_of(store, 2, 0)
    changed = run_of(store, 3, 0, evaluators=[evaluator_config("f1_score", version="2"), "word_error_rate"])
    with pytest.raises(InputError, match="of f1_score scores are not comparable: the versions of the evaluator differ"):
        compare(run, changed)
    none = make_run(store, ["rouge1"], make_rows(2), make_scores("rouge1", [0, 1]))
    with pytest.raises(InputError, match="runs must share a metric to be compared but have rouge1 and f1_score, word"):
        compare(run, none)
    with pytest.raises(InputTypeError, match=r"second must be a run of texts, as another model is, .* but is TokenF1"):
        compare(run, TokenF1())
    with pytest.raises(InputTypeError, match=r"clusters must be the name of a column .* but is list"):
        compare(run, other, clusters=DOCUMENTS)
    with pytest.raises(InputError, match="by must be None where runs of texts are compared"):
        compare(run, other, by="document")
