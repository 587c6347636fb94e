"""Replies and counts that evaluation packages were recorded with: what we make of them, and where the rule differs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.judge.metrics.scripted import Script, assistant, outcome, outcomes, rating, user
from valor_gpu.evaluation.judged import (
    LEVELS,
    defect_rate,
    judged_metric,
    mean_of_scored,
    severity_level,
)
from valor_gpu.judge import NotApplicable, ParseError, run_judge
from valor_gpu.judge.metrics.reading import SEVERITY_KEYS, read_rating

FOLDER = Path(__file__).parents[2] / "data/azure"
REPLIES = json.loads((FOLDER / "judge_parse.json").read_text())["cases"]
SAFETY = json.loads((FOLDER / "safety_parse.json").read_text())
AGGREGATION = json.loads((FOLDER / "aggregation.json").read_text())["cases"]
NONE, SKIPPED = "NaN", "skipped"

REPLY_RULES: dict[str, dict[str, Any]] = {
    "a fraction is no rating unless it is to be rounded": {
        "j004": NONE, "j047": NONE, "j062": NONE, "j079": NONE,
    },
    "a number is read whole, with its sign, and must be on the scale": {
        "j013": NONE, "j014": NONE, "j017": NONE, "j018": NONE, "j019": NONE, "j045": NONE, "j046": NONE, "j048": NONE,
        "j049": NONE,
    },
    "a digit somewhere in the prose is no rating": {
        "j031": NONE, "j032": NONE, "j044": NONE, "j050": NONE, "j077": NONE,
    },
    "a tag, or a label or result heading that begins a line, says what the rating is": {
        "j005": 5, "j008": 3, "j041": 4, "j043": 5, "j051": 4, "j055": 2, "j073": 5, "j074": 3, "j076": 2,
        "j080": 4, "j081": 3, "j082": 4, "j084": 2,
    },
    "a text that is one number is a rating, in marks and in any script, too": {
        "j000": 4, "j001": 4, "j003": 4, "j010": 4, "j011": 4, "j012": 4, "j025": 5, "j028": 3,
    },
    "an object is read where it stands, also in single quotes, in prose or cut short": {
        "j058": 4, "j059": 4, "j069": 4, "j070": 4, "j071": 2,
    },
    "two ratings that differ are none": {"j053": NONE, "j078": NONE},
    "true is no number": {"j064": NONE},
    "what the judge skipped is told from what cannot be read": {"j060": SKIPPED},
}  # fmt: skip
SEVERITY_RULES: dict[str, dict[str, Any]] = {
    "a text in place of a number is read if it is one, and is none otherwise": {"h02": 5, "h09": NONE, "h25": NONE},
    "an object must hold the severity itself": {"h04": NONE},
    "valid is no severity": {"h05": NONE},
    "a severity outside 0 to 7 is none": {"h10": NONE, "h11": NONE},
    "0 alone is a severity": {"h13": 0},
    "a fraction is no severity unless it is to be rounded": {"h16": NONE},
    "a digit somewhere in the prose is no severity": {"h17": NONE, "h18": NONE},
    "one number in brackets is a number": {"h24": 3},
}
LEVEL_RULES = {"levels end where the next begins, so that a mean has one": {1.5: "Very low", 3.5: "Low", 5.5: "Medium"}}
VALIDATION_RULES = {"an answer of signs alone is one, and may do harm": {"valid_emoji_answer"}}


def merged(rules: dict[str, dict[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for rule in rules.values():
        assert not set(found) & set(rule)
        found.update(rule)
    return found


def rated(text: Any, *more: Any, round_fractions: bool = False) -> Any:
    try:
        return read_rating(text, *more, round_fractions=round_fractions).value
    except ParseError:
        return NONE
    except NotApplicable:
        return SKIPPED


@pytest.mark.parametrize("parser", ["first_digit", "s_tags", "current_coherence", "current_similarity"])
def test_recorded_replies(parser: str) -> None:
    ours = merged(REPLY_RULES)
    for case in REPLIES:
        theirs = case["expected"][parser]
        theirs = theirs.get("score", NONE) if isinstance(theirs, dict) else theirs
        found = rated(case["llm_output"], 1, 5)
        if theirs is None:  # the package has no score; whether it was skipped is not in its score
            assert found in (NONE, SKIPPED)
        elif found != theirs:
            assert found == ours[case["id"]], case


def test_no_rule_lists_a_reply_on_which_all_agree() -> None:
    by_id = {case["id"]: case for case in REPLIES}
    for name, value in merged(REPLY_RULES).items():
        expected = by_id[name]["expected"]
        parsers = [expected[parser] for parser in ("first_digit", "s_tags", "current_coherence", "current_similarity")]
        assert any((one.get("score", NONE) if isinstance(one, dict) else one) != value for one in parsers), name
        assert rated(by_id[name]["llm_output"], 1, 5) == value


def test_fractions_are_rounded_when_asked() -> None:
    assert rated('{"score": 4.5}', 1, 5, round_fractions=True) == 5
    assert rated('{"score": 4.4}', 1, 5, round_fractions=True) == 4
    assert rated("5.4", 1, 5, round_fractions=True) == NONE
    assert rated("{'label': 2.5}", 0, 7, SEVERITY_KEYS, round_fractions=True) == 3


def test_recorded_annotations() -> None:
    ours = merged(SEVERITY_RULES)
    differing = set()
    for case in SAFETY["parse"]:
        theirs = case["expected"]
        values = [theirs[one].get("violence_score", NONE) for one in ("promptflow_evals", "azure_ai_evaluation")]
        values.append(theirs["azure_ai_generative_1.0.0b11"][0]["violence"])
        found = rated(case["raw"], 0, 7, SEVERITY_KEYS)
        if any(value != found for value in values):
            differing.add(case["id"])
            assert found == ours[case["id"]], case
        elif found != NONE and "{" in case["raw"]:
            assert (
                read_rating(case["raw"], 0, 7, SEVERITY_KEYS).reason == theirs["azure_ai_evaluation"]["violence_reason"]
            )
    assert differing == set(ours)


def test_recorded_levels() -> None:
    ours = merged(LEVEL_RULES)
    for case in SAFETY["severity_levels"]:
        score, theirs = case["score"], case["expected"]["azure_ai_evaluation"]
        if score is None or score == NONE or not 0 <= score <= 7:
            assert theirs == NONE  # such a score never gets as far: see test_severity.py
        else:
            assert severity_level(score) == ours.get(score, theirs)
            assert (score in ours) == (severity_level(score) != theirs)


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in AGGREGATION if case["kind"] == kind]


@pytest.mark.parametrize("case", of_kind("run_mean"))
def test_recorded_means(case: dict[str, Any]) -> None:
    theirs = case["expected"]["promptflow_evals"]["c.gpt_coherence"]
    if case["id"] == "run_mean_negative":  # a rating outside the scale is none; azure-ai-generative drops it as well
        row = {"question": "Why?", "answer": "So."}
        run = run_judge([row] * 3, [judged_metric("gpt_coherence")], Script("-1", "4", "-1", "5"), seed=1)
        assert run.scores("gpt_coherence")[0] == 4  # the repair of "-1"
        return
    mean, count = mean_of_scored(math.nan if row == NONE else row for row in case["rows"])
    assert math.isnan(mean) if theirs == NONE else mean == pytest.approx(theirs, rel=1e-12)
    assert count == sum(row != NONE for row in case["rows"])


@pytest.mark.parametrize("case", of_kind("defect_rate"))
def test_recorded_defect_rates(case: dict[str, Any]) -> None:
    # Ours is not rounded, and scores are numbers: texts of numbers are read before there is a score.
    scores = [math.nan if one in (NONE, None) else float(one) for one in case["severity_scores"]]
    for name, least in LEVELS.items():
        theirs = case["expected"].get(f"azure_ai_generative_1.0.0b11/threshold={least:g}")
        if theirs is not None:
            found = defect_rate(scores, name).rate
            rate = theirs["violence_defect_rate"]
            assert math.isnan(found) if rate == NONE else round(found, 2) == rate
    default = case["expected"]["promptflow_evals"]["safety.violence_defect_rate"]
    found = defect_rate(scores).rate
    assert math.isnan(found) if default == NONE else round(found, 2) == default


def conversation(count: int) -> dict[str, Any]:
    return {"messages": [one for n in range(count) for one in (user(f"q{n}"), assistant(f"a{n}", f"c{n}"))]}


@pytest.mark.parametrize("case", of_kind("conversation_mean"))
def test_recorded_conversations(case: dict[str, Any]) -> None:
    scores = [turn.get("gpt_groundedness", NONE) for turn in case["turns"]]
    replies = ["no idea" if score == NONE else rating(int(score)) for score in scores]
    found = outcome(judged_metric("gpt_groundedness", task="chat"), conversation(len(scores)), *replies)
    assert found.value == pytest.approx(case["expected"]["promptflow_evals"]["gpt_groundedness"], rel=1e-12)
    assert found.details is not None
    assert [turn["score"] for turn in found.details["turns"]] == [None if one == NONE else one for one in scores]
    assert found.details["n_scored"] == sum(score != NONE for score in scores)
    assert (found.value == case["expected"]["azure_ai_evaluation"]["gpt_groundedness"]) == (
        case["id"] != "conv_with_nan"  # a turn without a score is left out; there it makes the whole NaN
    )


@pytest.mark.parametrize("case", of_kind("conversation_safety"))
def test_recorded_severities_of_conversations(case: dict[str, Any]) -> None:
    turns = [(turn["violence_score"], turn["violence_reason"]) for turn in case["turns"]]
    replies = ["no idea" if score == NONE else rating(score, reason) for score, reason in turns]
    found = outcome(judged_metric("violence", task="chat"), conversation(len(turns)), *replies)
    theirs = case["expected"]["promptflow_evals"]
    assert found.value == theirs["violence_score"]
    assert found.level == (theirs["violence"] if theirs["violence"] != NONE else "Low")  # the mean 3.5: LEVEL_RULES
    shown = found.details["turns"] if found.details else []
    assert [turn.get("level", NONE) for turn in shown] == theirs["evaluation_per_turn"]["violence"]["severity"]
    assert [turn["reason"] for turn, (score, _) in zip(shown, turns) if score != NONE] == [
        reason for score, reason in turns if score != NONE
    ]


@pytest.mark.parametrize("case", of_kind("row_input_validation"))
def test_recorded_rows_that_are_not_asked_about(case: dict[str, Any]) -> None:
    expected = case["expected"]["azure_ai_generative_1.0.0b11"]
    names = {
        name: judged_metric("violence" if name == "safety_metrics" else name) for name in expected if name != "f1_score"
    }
    asked = {}
    for name, metric in names.items():
        judge = Script(rating(1))
        (found,) = outcomes(metric, [case["row"]], judge)
        assert (found.status == "ok") == bool(judge.asked) and found.status in ("ok", "missing_field")
        asked[name] = bool(judge.asked)
    if any(case["id"] in ids for ids in VALIDATION_RULES.values()):
        assert all(asked.values()) and not any(expected.values())
    else:
        assert asked == {name: expected[name] for name in asked}


def test_every_recorded_kind_is_looked_at() -> None:
    here = {"run_mean", "defect_rate", "conversation_mean", "conversation_safety", "row_input_validation"}
    # Pass rates are those of thresholds, not of metrics: a row without a score neither passes nor fails.
    assert {case["kind"] for case in AGGREGATION} == here | {"pass_rate_row"}
