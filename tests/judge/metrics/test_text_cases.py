"""The judged cases of Valor's two releases, by a judge that gives the recorded replies in order."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.judge.metrics.scripted import ONE_NO_REPAIR, Script
from valor_gpu.errors import InputError
from valor_gpu.text.judged import METRICS, TextRow, evaluate_texts

CASES = json.loads((Path(__file__).parents[2] / "data" / "valor" / "text_cases.json").read_text())["cases"]
LLM = [case for case in CASES if case["kind"] == "llm"]
# What Valor raises -> what becomes of the row here; a ValueError is raised here too.
STATUS = {"InvalidLLMResponseError": "parse_error", "ZeroDivisionError": "not_applicable"}
# Nobody needs to be asked about no statements.
ONE_CALL_LESS = {"llm/answer_relevance_no_statements", "llm/context_recall_no_statements"}


def named(metric: str) -> str:
    return "".join(word.capitalize() for word in metric.split("_"))


def row_of(inputs: dict[str, Any]) -> TextRow:
    return TextRow(inputs.get("q"), inputs.get("r"), inputs.get("gt", ()), inputs.get("ctx"))


def test_there_are_cases() -> None:
    assert len(LLM) == 33
    assert {named(case["metric"]) for case in LLM} == set(METRICS) - {"Coherence"}


@pytest.mark.parametrize("release", ["core", "lite"])
@pytest.mark.parametrize("case", LLM, ids=[case["name"] for case in LLM])
def test_case_equals_the_release(case: dict[str, Any], release: str) -> None:
    judge, name, expected = Script(*case["llm_responses"]), named(case["metric"]), case["expected"][release]

    def run() -> Any:
        rows = [row_of(case["inputs"])]
        return evaluate_texts(rows, [name], judge, compat=f"valor-{release}", limits=ONE_NO_REPAIR)

    if isinstance(expected, dict) and expected["error"] == "ValueError":
        with pytest.raises(InputError, match=f"{name} needs contexts but row 0 has none"):
            run()
        assert judge.asked == []
        return
    found = run()
    [[judgement]] = found.judgements[name]
    if isinstance(expected, dict):
        assert str(judgement.status) == STATUS[expected["error"]]
        assert math.isnan(found.scores(name)[0])
        assert judgement.reply.text == case["llm_responses"][len(judge.asked) - 1]
    else:
        assert found.scores(name) == [pytest.approx(expected, rel=1e-15)]
    calls = case.get(f"llm_calls_{release}", case["llm_calls"]) - (case["name"] in ONE_CALL_LESS)
    assert len(judge.asked) == calls


# Where the numbers of this library differ from those of valor-lite.
OURS: dict[str, float | None] = {
    "llm/context_recall_no_statements": None,
    "llm/summary_coherence_decimal": None,  # 4.7 is no rating
    "llm/json_missing_closing_brace": 1.0,
    "llm/verdict_extra_key": 1.0,
}


@pytest.mark.parametrize("case", LLM, ids=[case["name"] for case in LLM])
def test_default_is_lite_but_for_what_is_listed(case: dict[str, Any]) -> None:
    judge, name, lite = Script(*case["llm_responses"]), named(case["metric"]), case["expected"]["lite"]
    [value] = evaluate_texts([row_of(case["inputs"])], [name], judge, limits=ONE_NO_REPAIR).scores(name)
    expected = OURS.get(case["name"], None if isinstance(lite, dict) else lite)
    assert math.isnan(value) if expected is None else value == pytest.approx(expected, rel=1e-15)
