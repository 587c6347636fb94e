"""Comparisons of two runs whose rows come in clusters, such as questions about one document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hand_made_runs import make_rows, make_run, make_scores
from valor_gpu.cli import main
from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.comparison import compare_group, compare_runs
from valor_gpu.stats import compare_paired
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.runs import Run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def run_of(store: Store, values: Sequence[Any], documents: Sequence[Any], **more: Any) -> Run:
    rows = make_rows(len(values), document=documents)
    return make_run(store, ["f1_score"], rows, make_scores("f1_score", values), **more)


DOCUMENTS = np.repeat(["a", "b", "c", "d", "e", "f"], [1, 2, 3, 4, 5, 6]).tolist()


def test_rows_of_a_document_are_drawn_and_swapped_together(store: Store) -> None:
    rng = np.random.default_rng(0)
    old = rng.random(21)
    new = old + np.repeat(rng.normal(0.2, 0.2, 6), [1, 2, 3, 4, 5, 6])
    runs = run_of(store, new, DOCUMENTS), run_of(store, old, DOCUMENTS)
    found = compare_runs(*runs, cluster_column="document", resamples=500, seed=3)
    metric, expected = found.metrics["f1_score"], compare_paired(old, new, clusters=DOCUMENTS, resamples=500, seed=3)
    assert (metric.interval, metric.p_value) == ([expected.low, expected.high], expected.p_value)
    assert (metric.n, metric.n_clusters, metric.exact, found.cluster_column) == (21, 6, True, "document")
    alone = compare_runs(*runs, resamples=500, seed=3)
    assert alone.metrics["f1_score"].p_value != metric.p_value
    assert (alone.metrics["f1_score"].n_clusters, alone.cluster_column) == (21, None)
    assert "rows of one document are drawn, and swapped, as a whole" in str(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["cluster_column"] == "document"
    (grouped,) = compare_group(runs, cluster_column="document", resamples=500, seed=3)
    assert grouped.metrics["f1_score"].p_value == metric.p_value


def test_shared_rows_alone_have_clusters_and_epochs_have_that_of_their_row(store: Store) -> None:
    def rows(keys: str, epochs: int) -> list[StoredRow]:
        return [
            StoredRow(epochs * place + epoch, key + (f"@{epoch}" if epoch > 1 else ""), {"document": key.upper()[0]})
            for place, key in enumerate(keys)
            for epoch in range(1, epochs + 1)
        ]

    first = make_run(
        store, ["f1_score"], rows("xabcd", 2), make_scores("f1_score", [9, 9, 1, 0, 1, 1, 0, 0, 1, 0]), epochs=2
    )
    second = make_run(store, ["f1_score"], rows("dcba", 1), make_scores("f1_score", [0, 1, 0, 0]))
    found = compare_runs(first, second, cluster_column="document").metrics["f1_score"]
    expected = compare_paired([0, 0, 1, 0], [0.5, 1, 0, 0.5], clusters=[*"abcd"])
    assert (found.p_value, found.difference) == (expected.p_value, expected.difference)


def test_counts_of_a_corpus_are_swapped_by_document(store: Store) -> None:
    rng = np.random.default_rng(1)

    def corpus(errors: float) -> Run:
        counts = [[int(rng.binomial(9, errors)), 9] for _ in range(21)]
        scores = [
            StoredScore(n, "word_error_rate", 0, a / b, details={"counts": [a, b]})
            for n, (a, b) in enumerate(counts, 1)
        ]
        return make_run(store, ["word_error_rate"], make_rows(21, document=DOCUMENTS), scores)

    found = compare_runs(corpus(0.3), corpus(0.6), cluster_column="document").metrics["word_error_rate"]
    assert (found.n_clusters, found.exact) == (6, True)
    assert found.p_value is not None and found.p_value * 64 == round(found.p_value * 64)


def test_a_row_without_a_cluster_is_named(store: Store) -> None:
    runs = run_of(store, [1, 0, 1], ["a", None, "b"]), run_of(store, [0, 0, 1], ["a", "a", "b"])
    with pytest.raises(InputError, match=r"every row of run .* has a value in, but row 'k2' has none in 'document'"):
        compare_runs(*runs, cluster_column="document")
    with pytest.raises(InputError, match="has none in 'documents'; did you mean 'document'"):
        compare_runs(runs[1], runs[0], cluster_column="documents")


def test_the_command_takes_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        for name, values in (("old", [0, 0, 0, 1, 0, 0]), ("new", [1, 1, 1, 1, 0, 1])):
            run_of(store, values, ["a", "a", "a", "b", "b", "c"], name=name)
    command = ["eval", "compare", "new", "old", "--store", str(tmp_path / "store.sqlite"), "--json", "-"]
    for more, clusters, p_value in (([], 6, 0.125), (["--cluster-column", "document"], 3, 0.5)):
        assert main([*command, *more]) == 0
        metric = json.loads(capsys.readouterr().out)["comparison"]["metrics"]["f1_score"]
        assert (metric["n_clusters"], metric["p_value"]) == (clusters, p_value)
