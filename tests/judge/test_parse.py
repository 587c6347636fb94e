"""Values out of replies: the recorded judge texts with what we make of them, and tolerance and strictness by hand."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.judge.parse import (
    NotApplicable,
    ParseError,
    expected_score,
    object_schema,
    parse_object,
    parse_score,
    repair_messages,
    score_schema,
)
from valor_gpu.judge.protocol import Reply

CASES = json.loads((Path(__file__).parent.parent / "data/judge_parse.json").read_text())["cases"]


def outcome(text: Any) -> Any:
    try:
        return parse_score(text, 1, 5).value
    except ParseError:
        return "parse_error"
    except NotApplicable:
        return "not_applicable"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_judge_texts(case: dict[str, Any]) -> None:
    assert outcome(case["llm_output"]) == case["ours"]
    theirs = case["expected"]["s_tags"]["score"]
    if theirs != "NaN" and case["id"] not in {
        "j047",
        "j048",
        "j049",
        "j053",
    }:  # 4.7 -> 4, 10 -> 1, -4 -> 4, first of two
        assert outcome(case["llm_output"]) == theirs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('```json\n{"score": 4}\n```', 4.0),
        ('Here:\n```\n{"score": 4,}\n```\nDone.', 4.0),
        ('<think>maybe {"score": 1}</think>{"score": 5}', 5.0),
        ('{"score": "3/5", "reason": "a, b, }"}', 3.0),
        ('{"score": "3/7"}', "parse_error"),
        ('{"score": 3} and again {"score": 3}', 3.0),
        ('{"score": 3} or {"score": 4}', "parse_error"),
        ('{"score": NaN}', "parse_error"),
        ('{"score": Infinity}', "parse_error"),
        ('{"score": 1e999}', "parse_error"),
        ('{"score": ' + "9" * 400 + "}", "parse_error"),
        ('{"score": [4]}', "parse_error"),
        ('{"note": "the score is 4"}', "parse_error"),
        ("{" * 5000, "parse_error"),
        ("My score: 3. Score: 3/5", 3.0),
        ("Score: 3, or perhaps score: 4", "parse_error"),
        ("Score: 7/10", "parse_error"),
        ("Score: 4.5/5", "parse_error"),
        ("Score: 4 to 5", "parse_error"),
        ("Score: 4-5", "parse_error"),
        ("Score: 45", "parse_error"),
        ("Score: 4%", "parse_error"),
        ("4 out of 5", 4.0),
        ("It deserves 4/5 overall.", 4.0),
        ("On 4/5/2024 it was fine", "parse_error"),
        ("In 2023 it was fine", "parse_error"),
        ("\uff13", 3.0),
        (".4", "parse_error"),
        ("**(4).**", 4.0),
        ("Score" + " " * 16 + "4", 4.0),
        ("Score" + " " * 16_000 + "4", "parse_error"),
        ("0" * 16 + "4", "parse_error"),
        ('{"score": 4, "score": 5}', "parse_error"),
        ('{"score": 4, "score": 4}', 4.0),
        ('{"score": 5, "why": {"a": 1, "a": 2}}', "parse_error"),
        ('{"score": 4, "score": 5} So the score is {"score": 5}', "parse_error"),
        ("{'score': 4, 'ok': True, 'why': None, 'said': 'it\\'s \"good\"'}", 4.0),
        ("{'score': 4, 'why': 'never closed}", "parse_error"),
        ('{"score": 4, "why": "a \\\\"}', 4.0),
        ('{"a": {"b": 1}, "score": 4', 4.0),
        ('{"score": 4]', "parse_error"),
        ("{thought: {'x'}} then {\"score\": 4}", 4.0),
        ('{thought: {"score": 4}}', 4.0),
        ('Use { to open: {"score": 4}', 4.0),
        ("It's {\"score\": 4}, isn't it?", 4.0),
        ('{"score": ' + "[" * 101 + "]" * 101 + "}", "parse_error"),
        ("<think>hm <think>{</think>4", 4.0),
        ("<think>4", "parse_error"),
        ("</think>4", 4.0),
        ("<think>Score: 2, or", "parse_error"),
        ("Score: 4? Hm.</think>5", 5.0),
        ("Hm.</think>\n5", 5.0),
        ("Score: 1. Hm. </think>Score: 5", 5.0),
        ("<THINK>Score: 2</THINK>5", 5.0),
        ("<thinking>Score: 2</thinking>Score: 5", 5.0),
        ("**Score: 4**/10", "parse_error"),
        ("**Score: 4**/5", 4.0),
        ("Rating: 4 (out of 10)", "parse_error"),
        ("Score: 1e1", "parse_error"),
        ("Score: 4 or 5", "parse_error"),
        ("Score: 2, 4", "parse_error"),
        ("Score: 5? No, 3", "parse_error"),
        ("Score: 3 \u2192 5", "parse_error"),
        ("<S2>4</S2> <s2> 4 </s2>", 4.0),
        ("<S2>4</S2> or <S2>5</S2>", "parse_error"),
        ("<S2><S2>4</S2>", "parse_error"),
        ("<S2>4", "parse_error"),
    ],
)
def test_tolerance_and_strictness(text: str, expected: Any) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("text", "low", "high", "message"),
    [
        ("9", 0, 7, "lie in 0 to 7 but is 9"),
        ("none", 0, 7, "must hold a rating but is \u201cnone\u201d"),
        ('{"score": true}', 0, 7, "score must be a number but is True"),
        ('{"score": 2.5}', 0, 7, "whole number but is 2.5"),
        ("x" * 100, 0, 7, "xxx\\.\\.\\.\u201d"),
        (" \n", 0, 7, "must hold a rating but is empty$"),
        ("they say \u201cwell\u201d", 0, 7, 'but is \u201cthey say "well"\u201d$'),
    ],
)
def test_what_is_wrong_is_said(text: str, low: int, high: int, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_score(text, low, high)


def test_fractions_when_asked_for_and_other_keys() -> None:
    assert parse_score("4.5", 1, 5, whole=False).value == 4.5
    assert parse_score('{"severity": 0, "reason": 3}', 0, 7, key="severity") == parse_score("0", 0, 7)
    with pytest.raises(NotApplicable, match="empty context"):
        parse_score('{"score": null, "status": "skipped", "reason": "empty context"}', 1, 5)


def test_objects_survive_their_wrappings() -> None:
    rng = random.Random(3)
    for _ in range(300):
        value = {
            "verdicts": [
                {"verdict": rng.choice(["yes", "no"]), "why": rng.choice(["}", "a, ]", 'say "x"', "{", ",}"])}
            ],
            "n": rng.randrange(9),
        }
        text = json.dumps(value, indent=rng.choice([None, 2]))
        if rng.random() < 0.3:
            text = text[: text.rindex("]")] + "," * (rng.random() < 0.5) + text[text.rindex("]") :]
        wraps = ["{}", "Sure.\n{}", "```json\n{}\n```", "```\n{}\n``` Done.", "{}\n\nThat is all."]
        assert parse_object(rng.choice(wraps).replace("{}", text)) == value
    assert parse_object('{"a": [1, {"b": "x"}') == {"a": [1, {"b": "x"}]}
    with pytest.raises(ParseError, match="has no JSON object"):
        parse_object("[1, 2]")
    with pytest.raises(ParseError, match="has JSON objects that differ"):
        parse_object('{"a": 1} {"a": 2}')


def test_tags_give_the_reason() -> None:
    assert parse_score("<S0>x</S0><S1> good </S1><S2>4</S2><S1>bad</S1>", 1, 5).reason == "good"
    assert parse_score("<S1>good<S2>4</S2>", 1, 5).reason == ""


def test_messages_can_be_written_whatever_the_reply_holds() -> None:
    with pytest.raises(ParseError, match=r"but is \u201chalf \\ud83d") as caught:
        parse_score("half \ud83d", 1, 5)
    assert str(caught.value).encode()


def test_a_key_with_two_values_names_both() -> None:
    with pytest.raises(ParseError, match="must give score one value but gives 4 and 5"):
        parse_object('{"score": 4, "score": 5}')


def test_expected_score_normalises_over_the_ratings() -> None:
    reply = Reply("4", logprobs=({"\n": 0.0}, {" 4": math.log(0.3), "4": math.log(0.1), "5": math.log(0.4), "x": -1.0}))
    found = expected_score(reply, 1, 5)
    assert found.value == pytest.approx(4.5, rel=1e-12) and found.mass == pytest.approx(0.8, rel=1e-12)
    assert sum(found.probabilities.values()) == pytest.approx(1.0, rel=1e-12) and found.probabilities[1] == 0.0
    with pytest.raises(ParseError, match="must have log-probabilities"):
        expected_score(Reply("4"), 1, 5)
    with pytest.raises(InputError, match="0 <= low < high <= 9"):
        expected_score(reply, 1, 10)


def test_schemas_are_strict_and_repairs_say_what_was_wrong() -> None:
    schema = score_schema(0, 7)
    assert schema["required"] == ["reason", "score"] and schema["additionalProperties"] is False
    assert object_schema({})["properties"] == {}
    messages = repair_messages([{"role": "user", "content": "q"}], Reply("bad"), "no JSON object")
    assert messages[1] == {"role": "assistant", "content": "bad"} and "no JSON object" in messages[2]["content"]
