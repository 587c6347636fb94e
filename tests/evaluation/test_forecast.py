"""Requests are counted by the rules that metrics score by."""

from __future__ import annotations

from valor_gpu.evaluation.engine.forecast import RowCounts, count_rows, forecast
from valor_gpu.evaluation.engine.metrics import resolve_evaluators
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.evaluation.rows.mapping import resolve_mapping


def test_blank_texts_are_missing_for_judged_metrics_alone() -> None:
    answers = ["Four.", "", " \u200b", None, float("nan")]
    source = open_data([{"question": "2 + 2?", "answer": answer, "ground_truth": "4"} for answer in answers])
    mapping = resolve_mapping(None, source.columns)
    counts = RowCounts.from_dict(count_rows(source, mapping, None).to_dict(5))
    found = forecast(counts, mapping, resolve_evaluators(["gpt_coherence", "exact_match"]), 1, 1, has_target=False)
    assert found.judge == {"gpt_coherence": 1}
    assert found.missing["gpt_coherence"] == 4
    assert found.missing["exact_match"] < 4, "an empty answer is an answer for metrics that compute"
