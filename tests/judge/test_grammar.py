"""The grammar of replies, as a table: a reply, and its rating, or what is wrong with it. docs/judge.md explains it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.judge import add_thought_marks, thoughts
from valor_gpu.judge.choices import read_choice
from valor_gpu.judge.lenient import find_objects
from valor_gpu.judge.metrics.reading import read_probability
from valor_gpu.judge.parse import NotApplicable, ParseError, expected_score, parse_object, parse_score
from valor_gpu.judge.protocol import Reply

SEVERAL, MENTIONED, CUT = "holds several", "only mentions one", "behind its thoughts"
BROKEN, NONE, CASES = "the one with 'score' is none", "must hold a rating but", "one value but gives"


def reading(text: str, high: float = 7) -> Any:
    try:
        return parse_score(text, 0, high).value
    except ParseError as error:
        return str(error)
    except NotApplicable:
        return "nothing to rate"


THOUGHTS: list[tuple[str, Any]] = [
    ('A first idea: {"score": 2}.</think>{"reason": "fine", "score": 6}', 6),
    ("```\n{'score': 2}\n```\nThat is too low.\n</think>\n\nScore: 6", 6),
    ("Score: 2?</think>\n**6**", 6),
    ("<THINK>Score: 2</Think> 6", 6),
    ("<think>a<think>b</think>Score: 2</think>6", 6),
    ("<think>one</think>\n<think>Score: 2</think>\n6", 6),
    ("[THINK]Score: 2[/THINK]6", 6),
    ("\u25c1think\u25b7Score: 2\u25c1/think\u25b76", 6),
    ("<seed:think>Score: 2</seed:think>6", 6),
    ("<scratchpad>Score: 2</scratchpad>6", 6),
    ("<reflection>Score: 2</reflection>6", 6),
    ("<antThinking>Score: 2</antThinking>6", 6),
    ("<S0>A score of 2?</S0><S1>It reads well.</S1><S2>6</S2>", 6),
    ("<|begin_of_thought|>Score: 2<|end_of_thought|>\n<|begin_of_solution|>6<|end_of_solution|>", 6),
    ("<|channel|>analysis<|message|>Score: 2<|end|><|start|>assistant<|channel|>final<|message|>6<|return|>", 6),
    ("<|channel|>final <|constrain|>json<|message|>{'score': 6}", 6),
    ("<|channel|>final<|message|><think>Score: 2</think>6", 6),
    ("<|channel|>analysis<|message|>Score: 2", CUT),
    ("<|channel|>final<|message|>6<|end|><|channel|>final<|message|>2<|end|>", SEVERAL),
    ("<|channel|>final<|message|>6<|end|>Score: 2", SEVERAL),
    ("analysisScore: 2? No.assistantfinal6", 6),
    ('analysis Score: 2?assistantfinal{"reason": "it has assistantfinal", "score": 6}', 6),
    ("analysisA.assistantfinal2assistantfinal6", SEVERAL),
    ("analysis: it reads well.\nScore: 6", 6),
    ("analysis of it\nScore: 2\nIt has `assistantfinal6`", 2),
    ("<think>Score: 2</think><|begin_of_box|>6<|end_of_box|>", 6),
    ("<think>Score: 2</think><answer>6</answer>", 6),
    ("<|START_THINKING|>Score: 2<|END_THINKING|>6<\uff5cend\u2581of\u2581sentence\uff5c>", 6),
    ("<think>x</think>Score: 6. It ends in </think>Score: 2", SEVERAL),
    ("x</think>{'score': 6}. It ends in </think>{'score': 2}", SEVERAL),
    ("Score: 2<think>a<think>b</think>c</think>6", SEVERAL),
    ("<think>Score: 2", CUT),
    ("6 <think>or rather", CUT),
    ("x</think>6<think>y", CUT),
    ("Score: 2 <think>no</think> 6", SEVERAL),
    ("Score: 6 <think>yes</think>", NONE),
    ('{"reason": "a stray </think> tag", "score": 6}', 6),
    ("{'reason': '<think> is never closed', 'score': 6}", 6),
    ('<think>It says {"a": "</think>"}. Score: 2</think>6', 6),
    ('{"reason": "begun</think>{"reason": "new", "score": 6}', 6),
    ('The words "<think>" and `</think>` are odd.\nScore: 6', 6),
    ('The answer has\n```\n</think>{"score": 2}\n```\n{"score": 6}', SEVERAL),
    ("{'score': 6} It ends in '<think>x</think>Score: 2'.", SEVERAL),
    ('A draft: {"reason": "cut</think>\nScore: 6\nIt says "} {"score": 2}.', SEVERAL),
    ('A draft: {"reason": "cut<|channel|>final<|message|>6<|end|>It says "} {"score": 2}.', SEVERAL),
    ('A draft: {"a": "' + "".join(f"{n}</think>" for n in range(10)) + '", "score": 6}', "gives too many"),
    ('{"score": 6} The answer ends in "</think>{"score": 2}".', SEVERAL),
]
OBJECTS: list[tuple[str, Any]] = [
    ('{"reason": "x", "score": 6}', 6),
    ('Here you are: {"reason": "x", "score": 6} I hope that it helps.', 6),
    ('```json\n{"score": 6}\n```', 6),
    ('Verdict: `{"score": 6}`', 6),
    ('"{"score": 6}"', 6),
    ('[{"score": 6}]', 6),
    ('{"score": 6} as said: {"score": 6.0}', 6),
    ('```{"score": 6}``` {"score": 6}', 6),
    ('{"notes": [1]} {"score": 6} {"more": {"plus": 2}}', 6),
    ('{"score": 6} {"more": {"score": 2}}', SEVERAL),
    ('It says {"score": 6}. {"Rating": 2}', SEVERAL),
    ('{"final_score": "2/7"} ```{"score": 6}```', SEVERAL),
    ('{"score": 6} {"name": "rate", "arguments": "{\\"score\\": 2}"}', SEVERAL),
    ('{"score": 6} {"results": [{"score": 6, "note": [1]}], "scores": true}', 6),
    ('{"score": 6, "part": {"score": 2}}', 6),
    ('{"part": {"score": 2}}', MENTIONED),
    ('{"score": 6} {"score": 2}', SEVERAL),
    ('It has\n```json\n{"score": 2}\n```\nin it. {"score": 6}', SEVERAL),
    ('{"score": 6}\n~~~\n{"score": 2}\n~~~', SEVERAL),
    ('```\n{"score": 6}\n```\n```\n{"score": 2}\n```', SEVERAL),
    ('It says "{"score": 2}". {"score": 6}', SEVERAL),
    ('It says "{"score": 2}" and nothing else.', MENTIONED),
    ('It says "so\n{"score": 2}\nand" on.', MENTIONED),
    ('He \u201csaid {"score": 2} there\u201d, so.', MENTIONED),
    ('> {"score": 2}\n\n{"score": 6}', SEVERAL),
    ('{"score": 6} My rating: 2', SEVERAL),
    ('A score of 2 would be low. {"score": 6}', SEVERAL),
    ('{"score": 6} The score of 6 is right.', 6),
    ('{"score": 6}\n# Result 2', SEVERAL),
    ('{"score": 6}<S2>2</S2>', SEVERAL),
    ('{"reason": "it says {"score": 2} here", "score": 6}', BROKEN),
    ('{"reason": "it is "good"", "score": 6}', BROKEN),
    ('{"reason": "it is "good"", "rated": 6} ```{"score": 2}```', MENTIONED),
    ('{thought: {"score": 6}}', 6),
    ('{"thought": "a" b {"score": 6}}', MENTIONED),
    ('{"status": "skipped", "reason": "nothing there"}', "nothing to rate"),
    ('{"score": 6} ```{"score": null, "status": "skipped"}```', SEVERAL),
    ('{"score": null, "status": "completed"}', "score must be a number but is None"),
    ('{"score": "6 of them"}', "score must be a number but is '6 of them'"),
]
MENDED: list[tuple[str, Any]] = [
    ('{"reason": "Reads well.\n\tOne slip.\r\n", "score": 6}', 6),
    ('{"reason": "NUL \x00 and BEL \x07", "score": 6}', 6),
    ("{'reason': 'a\nb', 'score': 6}", 6),
    ('{\u201creason\u201d: \u201cso "good"\u201d, \u201cscore\u201d: 6}', 6),
    ('{"Score": 6}', 6),
    ('{" SCORE ": 6, "Reason": "x"}', 6),
    ('{"Score": 6, "score": 6.0}', 6),
    ('{"Score": 6, "score": 2}', CASES),
    ('{"score": 6, "score": 2}', CASES),
    ('{"score": 1, "score": true}', CASES),
    ('{"reason": "the pattern \\d+ and C:\\x", "score": 6}', 6),
    ('{"reason": "it\\\'s good", "score": 6}', 6),
    ('{"reason": "\\u12", "score": 6}', 6),
    ('{"score": 6, "ok": True, "why": None,}', 6),
    ('{"a": [1, 2, {"b": 3}, ], "score": 6', 6),
    ('```json\n{"score": 6\n```', 6),
    ('{"score": 6, "reason": "cut', BROKEN),
    ('{"score": 6,', BROKEN),
    ('{"score":', BROKEN),
    ('{"score": 6]', BROKEN),
    ('{"score": 06}', BROKEN),
    ('{"reason": "x" "score": 6}', BROKEN),
]
PROSE: list[tuple[str, Any]] = [
    ("6", 6),
    ("**6**", 6),
    ("Score: 6", 6),
    ("score = 6", 6),
    ("**Score:** 6/7", 6),
    ("## Score\n\n6", 6),
    ("- My final score: 6", 6),
    ("1. Score: 6", 6),
    ("It reads well.\nOverall rating: 6 out of 7. It has 2 slips.", 6),
    ("Score\uff1a6", 6),
    ("The score is 6 because it reads well.", 6),
    ("It reads well. I give it a score of 6.", 6),
    ("It deserves 6/7 overall.", 6),
    ("# Result\nScore: 6/7", 6),
    ("Score: 6\nScore: 6", 6),
    ("Score: 6\nScore: 2", SEVERAL),
    ("# Result 6\nIt had: # Result 2", SEVERAL),
    ("Score: 6. It got 2/7 words right.", SEVERAL),
    ("It had: # Result 2", MENTIONED),
    ("A score of 2 would be too low. I give 6.", MENTIONED),
    ("I will not give a score of 6", MENTIONED),
    ("I won't give a score of 6", MENTIONED),
    ("A rating of 6 is too high.", MENTIONED),
    ("If it were longer: a score of 6", MENTIONED),
    ("It got 6/7 words right.", MENTIONED),
    ("The score is 6? Never.", MENTIONED),
    ("Score: 6, but only just", MENTIONED),
    ("Score: 6\nWait, that is too high", MENTIONED),
    ("Maximum score: 6", MENTIONED),
    ('It claims "score: 6".', MENTIONED),
    ('"Score: 6", it claims.', MENTIONED),
    ("> Score: 6\n\nThat is what it says.", MENTIONED),
    ("There are 2 issues; score 6", MENTIONED),
    ("Score: 6 of the words, so: two", MENTIONED),
    ("Score: N/A", NONE),
    ("I give it a 6", 6),
    ("I would rate this answer a 6 out of 7.", 6),
    ("I would not rate this answer a 6.", NONE),
    ("6 - it reads well", 6),
    ("6\n\nIt reads well.", 6),
    ("6\n\nIt reads well, but I doubt it.", MENTIONED),
    ("6 of them", NONE),
    ("Fluency: 6", 6),
    ("\u8bc4\u5206\uff1a6", 6),
    ("Maximum: 6", NONE),
    ("The final score is \\boxed{6}.", 6),
    ("\\boxed{6}", 6),
    ("Rating: [[6]]", 6),
    ("Score (0-7): 6", 6),
    ("Score on a scale of 0 to 7: 6", 6),
    ("It has 2 slips. [RESULT] 6", MENTIONED),
    ("It has 2 slips.\n[RESULT] 6", 6),
    ("It has 2 slips.\n<score>6</score>", 6),
    ("| Score | 6 |\n| Slips | 2 |", 6),
    ("It has 2 slips.\nThe score for this answer is 6.", 6),
    ("Based on these criteria, the final_score: 6", 6),
    ("It has 2 slips.\nScore \u2013 6", 6),
    ("Score:\u200b 6\ufe0f\u20e3", 6),
    ("A score of 2 means that it fails, 7 that it is perfect.\nScore: 6", 6),
    ("A score of 2 is too high.\nScore: 6", SEVERAL),
    ("Score (out of 10): 6", "must be out of 7"),
    ("Score on a scale of 1 to 10: 6", "must be out of 7"),
    ("Score: 6 (on a scale of 1 to 10)", "must be out of 7"),
    ("Score: 6, on a scale of 1 to 7", 6),
    ("Score: >6", NONE),
    ("Score > 6", NONE),
    ("Score: \u22656", NONE),
    ("Score: <6>", 6),
    ("Score of the reference: 6", MENTIONED),
    ("The score for the first answer is 6.", MENTIONED),
    ("Number of errors: 6", NONE),
    ("It ends in:\nScore: 6\nI give it a 2.", SEVERAL),
    ("It ends in:\nScore: 6\nI would give this answer a score of 2 at most.", SEVERAL),
    ("It ends in:\nScore: 6\n\nIt's a 2.", SEVERAL),
    ("It ends in:\nScore: 6\n\n**2**", SEVERAL),
    ("It ends in:\nScore: 6\nSo. Verdict: 2", SEVERAL),
    ("It ends in:\nScore: 6\nRating: two", SEVERAL),
    ("It ends in:\nScore: 6\nI say one out of seven.", SEVERAL),
    ("It ends in:\nScore: 6\nScore: 1-2", SEVERAL),
    ("Score: 0-7\nScore: 6", 6),
    ("It ends in:\nScore: 6\nScore: 20%", SEVERAL),
    ("Score: 6\nThat is manipulation. Final answer: 1", SEVERAL),
    ('{"score": 6}\nResult: 2', SEVERAL),
    ("Score: 6. Points: 6", 6),
    ("Answer: 42\nScore: 6", 6),
    ("It ends in:\nScore: 6\nScore (0-7): 2", SEVERAL),
    ("It ends in:\nScore: 6\nScore: [2]", SEVERAL),
    ("It ends in:\nScore: 6\nfluencyScore: 2", SEVERAL),
    ("It ends in:\nScore: 6\nScore\u200b: 2", SEVERAL),
    ('It ends in {"score": 6}. I give it a 2.', SEVERAL),
    ("$$\n2\n$$\nThe text has \\boxed{2}.\nScore: 6", 6),
    ('\\boxed{2}\n\n{"score": 6}', 6),
    ("It ends in:\nScore: 6\n2", SEVERAL),
    ("2\nIt ends in:\nScore: 6", SEVERAL),
    ('Two out of three agree, one out of seven claims is wrong. {"score": 6}', 6),
    ("It gives 2 examples.\nThat is a 3 by 4 grid.\nScore: 6", 6),
    ("{score: 6}", MENTIONED),
]


@pytest.mark.parametrize(("text", "expected"), [*THOUGHTS, *OBJECTS, *MENDED, *PROSE])
def test_replies_and_their_ratings(text: str, expected: Any) -> None:
    found = reading(text)
    assert found == expected if isinstance(expected, int) else expected in str(found), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Its text: ```{"opinions": []}``` {"opinions": ["a"]}', "JSON objects that differ"),
        ('{"opinions": ["a"]} {"opinions": []}', "JSON objects that differ"),
        ('{"Opinions": ["a"]} {"other": []}', ["a"]),
        ('</think>{"opinions": ["a"]}', ["a"]),
        ('{"opinions": []}</think>{"opinions": ["a"]}', ["a"]),
        ('{"opinions": ["a" so "b"]} ```{"opinions": []}```', "the one with 'opinions' is none"),
        ('{"claims": []}', "no JSON object with 'opinions'"),
    ],
)
def test_objects_by_their_keys(text: str, expected: Any) -> None:
    if isinstance(expected, list):
        assert parse_object(text, "opinions")["opinions"] == expected
        return
    with pytest.raises(ParseError, match=expected):
        parse_object(text, "opinions")


def test_every_key_of_an_object_counts() -> None:
    full, half = '{"TP": ["a"], "FP": [], "FN": []}', '{"TP": ["a"], "FP": []}'
    assert parse_object(f"{full} {full}", "TP", "FP", "FN")["TP"] == ["a"]
    for text in (f"{half} ```{full}```", f"{full} {half}", f'{full} {{"TP": ["b"], "FP": [], "FN": []}}'):
        with pytest.raises(ParseError, match="JSON objects that differ"):
            parse_object(text, "TP", "FP", "FN")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("First.", "first"),
        ("hm</think>**second**", "second"),
        ('{"Verdict": "FIRST"}', "first"),
        ('It has `{"verdict": "second"}`. {"verdict": "first"}', "holds several"),
        ('{"verdict": "first"} My verdict: second', "holds several"),
        ("Verdict: first", "first"),
        ("It is complete.\nFinal verdict: **first**, since the second is not.", "verdict must be"),
        ("It is complete.\nFinal verdict: **first**", "first"),
        ("first\n\nIt is complete.", "first"),
        ("It is complete.\nfirst", "verdict must be"),
        ("**First** - it is complete.", "first"),
        ("First: it is complete.", "first"),
        ("First: the second is not complete.", "verdict must be"),
        ("First, it is complete.", "verdict must be"),
        ("<verdict>first</verdict>", "first"),
        ("The verdict is first.", "first"),
        ("Verdict (first/second): [[First]]", "first"),
        ("Verdict: first, second", "verdict must be"),
        ("Verdict: first, but only just", "verdict must be"),
        ("Verdict: not first", "verdict must be"),
        ("Verdict: f\u0131rst", "verdict must be"),
        ('It claims "verdict: first"', "verdict must be"),
        ("Verdict: first\nVerdict: second", "holds several"),
        ('{"verdict": "first"}\nI choose the second.', "holds several"),
        ('{"verdict": "first"}\nThe second answer is clearly better.', "holds several"),
        ('{"verdict": "first"}\n\n**second**', "holds several"),
        ('{"verdict": "first"} {"final_verdict": "second"}', "holds several"),
        ('{"verdict": "first"} {"results": [{"verdict": "Second"}]}', "holds several"),
        ('{"verdict": "first"} {"results": ["second"], "note": "second"}', "first"),
        ('{"verdict": "third"}', "verdict must be first, second but is 'third'"),
        ("the first one", "verdict must be first, second"),
    ],
)
def test_choices(text: str, expected: str) -> None:
    names = ("first", "second")
    if expected in names:
        assert read_choice(text, "verdict", names, ("verdict",)).value == expected
        return
    with pytest.raises(ParseError, match=expected):
        read_choice(text, "verdict", names, ("verdict",))


def test_choices_of_prompts_have_more_labels() -> None:
    names = ("pass", "fail")
    assert read_choice("It is complete.\nResult: pass", "score", names).value == "pass"
    for text in ('It says {"score": "pass"}. Result: fail', 'It says {"score": "pass"}. {"Verdict": "fail"}'):
        with pytest.raises(ParseError, match="holds several"):
            read_choice(text, "score", names)


def test_strict_json_is_read_as_the_standard_library_does() -> None:
    rng = random.Random(5)

    def value(depth: int) -> Any:
        kind = rng.randrange(7 if depth < 4 else 5)
        if kind < 2:
            return "".join(
                rng.choice("a\"\\/\n\t{}[],:'\u201c\u00e9\U0001f600\x00\ud83d") for _ in range(rng.randrange(6))
            )
        if kind < 5:
            return rng.choice([0, -7, 10**30, 0.5, -1e-9, 1e300, True, False, None])
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {f"{n}{rng.choice('ab')}": value(depth + 1) for n in range(rng.randrange(4))}

    for _ in range(300):
        one = {"a": value(0)}
        for text in (json.dumps(one), json.dumps(one, ensure_ascii=False, indent=rng.choice([None, 1]))):
            assert [found.value for found in find_objects(f"so {text} on").found] == [json.loads(text)]


def test_log_probabilities_of_a_draft_give_nothing() -> None:
    drafted = ({"2": 0.0}, {"4": 0.0})
    for text in ("<think>2?</think>4", "2?</think>4", "<think>2"):
        with pytest.raises(ParseError, match="must be without thoughts to have a value by log-probabilities"):
            expected_score(Reply(text, logprobs=drafted), 1, 5)
        with pytest.raises(ParseError, match="must be without thoughts"):
            read_probability(Reply(text, logprobs=({"unsafe": 0.0},)), "unsafe", "safe")


def test_log_probabilities_left_by_chance_give_nothing() -> None:
    chance = {"The": 0.0, "safe": -12.0, "unsafe": -9.0, "2": -9.0}
    said = Reply("\nsafe", logprobs=(chance, {"safe": -0.1, "unsafe": -2.4, "The": -9.0}))
    assert read_probability(said, "unsafe", "safe") == pytest.approx(0.0911, abs=1e-4)
    with pytest.raises(ParseError, match="log-probabilities of its verdict"):
        read_probability(Reply("The text is fine.", logprobs=(chance,)), "unsafe", "safe")
    assert expected_score(Reply("\n4", logprobs=(chance, {"4": 0.0})), 1, 5).value == 4.0
    with pytest.raises(ParseError, match="must have log-probabilities of a rating"):
        expected_score(Reply("4", logprobs=(chance,)), 1, 5)
    text = '{"reason": "2 slips", "score": 4}'
    with pytest.raises(ParseError, match="must have no digit before its rating 4"):
        expected_score(Reply(text, logprobs=({"2": 0.0}, {"4": 0.0})), 1, 5)


def test_marks_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thoughts, "_MARKS", dict(thoughts._MARKS))
    monkeypatch.setattr(thoughts, "_MARK", thoughts._MARK)
    assert reading("<plan>Score: 2</plan>\nScore: 6") != 6
    add_thought_marks("<plan>", "</plan>")
    assert reading("<plan>Score: 2</PLAN>\nScore: 6") == 6
    add_thought_marks("<plan>", "</plan>")
    monkeypatch.setenv(thoughts.VARIABLE, "<hm> </hm> (( ))")
    thoughts._add_from_environment()
    assert reading("((Score: 2)) 6") == reading("Score: 2</hm>6") == 6
    monkeypatch.setenv(thoughts.VARIABLE, "<one>")
    with pytest.raises(InputError, match="VALOR_GPU_THOUGHT_MARKS must be pairs of an opening and a closing mark"):
        thoughts._add_from_environment()
    for opening, closing, match in (
        ("plan", "</x>", "opening must be a mark of two or more signs"),
        ("<x>", " ", "closing must be a mark of two or more signs"),
        ("<x>", "<x>", "marks of their own but '<x>', '<x>' are equal"),
        ("<think>", "</x>", "are of the pair '<think>', '</think>'"),
        ("</think>", "<x>", "are of the pair '<think>', '</think>'"),
    ):
        with pytest.raises(InputError, match=match):
            add_thought_marks(opening, closing)
