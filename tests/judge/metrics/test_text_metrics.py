"""Judged metrics: formulas, what is asked, empty inputs, failures, several metrics in one run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.judge.metrics.scripted import ONE, ONE_NO_REPAIR, Script, texts, verdicts
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.judge import JudgeCache, ParseError, Prices, Reply, Status, Usage
from valor_gpu.judge.metrics import reading
from valor_gpu.judge.metrics.text_metrics import rank_precision, statement_f1
from valor_gpu.text.judged import (
    METRICS,
    ContextPrecision,
    TextRow,
    evaluate_texts,
    load_prompt,
)

FULL = TextRow("Why?", "Because.", ["It is so.", "Thus."], ["c1", "c2"])


def one(name: Any, judge: Script, row: TextRow = FULL, **choices: Any) -> float:
    run = evaluate_texts([row], [name], judge, limits=choices.pop("limits", ONE), **choices)
    return run.scores(name if isinstance(name, str) else name.name)[0]


def test_f1_and_rank_precision_are_those_of_their_definitions() -> None:
    for tp in range(4):
        for fp in range(4):
            for fn in range(4):
                precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
                f1 = 2 * precision * recall / (precision + recall) if tp else 0.0
                assert statement_f1(reading.Sorted(tp, fp, fn)) == pytest.approx(f1, rel=1e-15)
    assert rank_precision([False, True, False, True]) == 0.5
    assert rank_precision([False, False]) == 0.0
    assert rank_precision([True] * 3) == 1.0


def test_correctness_asks_for_statements_of_answer_and_references() -> None:
    judge = Script(
        texts("statements", "s1", "s2"),
        texts("statements", "t1"),
        '{"TP": [], "FP": ["s1", "s2"], "FN": ["t1"]}',
        texts("statements", "u1", "u2"),
        '{"TP": ["s1"], "FP": ["s2"], "FN": ["u1"]}',
    )
    assert one("AnswerCorrectness", judge) == 0.5
    asked = judge.users
    assert "~~~~ answer\nBecause.\n~~~~" in asked[0]
    assert "~~~~ answer\nIt is so.\n~~~~" in asked[1]
    assert "~~~~ answer statement 2 of 2\ns2\n~~~~" in asked[2] and "~~~~ correct statement 1 of 1\nt1" in asked[2]
    assert "Every one of the 2 statements" in asked[2]
    assert set(judge.schemas[2]["properties"]) == {"TP", "FP", "FN"}
    assert judge.schemas[0]["properties"]["statements"]["items"] == {"type": "string"}


def test_an_answer_without_statements_is_not_correct() -> None:
    judge = Script(*[texts("statements"), texts("statements", "a"), texts("statements", "b")])
    assert one("AnswerCorrectness", judge) == 0.0


@pytest.mark.parametrize(("combine", "value"), [("any", 1.0), ("max", 1.0)])
def test_precision_of_references_together_or_the_best(combine: str, value: float) -> None:
    judge = Script(verdicts("yes", "no"), verdicts("no", "yes"))
    assert one(ContextPrecision(combine=combine), judge) == value
    assert "~~~~ correct answer\nThus.\n~~~~" in judge.users[1]
    judge = Script(verdicts("no", "yes"), verdicts("no", "no"))
    assert one(ContextPrecision(combine=combine), judge) == 0.5


def test_together_and_best_differ() -> None:
    row = TextRow("q", contexts=["a", "b", "c"], references=["x", "y"])
    replies = (verdicts("no", "yes", "no"), verdicts("yes", "no", "yes"))
    assert one(ContextPrecision(combine="any"), Script(*replies), row) == 1.0
    assert one(ContextPrecision(combine="max"), Script(*replies), row) == pytest.approx(5 / 6, rel=1e-15)


def test_recall_leaves_out_references_without_statements() -> None:
    judge = Script(texts("statements"), texts("statements", "a", "b"), verdicts("yes", "no"))
    assert one("ContextRecall", judge) == 0.5


def test_idk_counts_against_relevance_and_is_no_verdict_elsewhere() -> None:
    judge = Script(texts("statements", "a", "b"), verdicts("yes", "idk"))
    assert one("AnswerRelevance", judge) == 0.5
    assert judge.schemas[1]["properties"]["verdicts"]["items"]["properties"]["verdict"]["enum"] == ["yes", "no", "idk"]
    assert list(judge.schemas[1]["properties"]["verdicts"]["items"]["properties"]) == ["analysis", "verdict"]
    assert math.isnan(one("ContextRelevance", Script(verdicts("yes", "idk")), limits=ONE_NO_REPAIR))


EMPTY = [
    ("AnswerCorrectness", TextRow("q", "r"), "references", 0.0),
    ("ContextPrecision", TextRow("q", contexts=[]), "contexts", 1.0),
    ("ContextPrecision", TextRow("q", contexts=[], references=["g"]), "contexts", 0.0),
    ("ContextPrecision", TextRow("q", contexts=["c"]), "references", 0.0),
    ("ContextRecall", TextRow(contexts=[]), "contexts", 1.0),
    ("ContextRecall", TextRow(contexts=["c"]), "references", 0.0),
    ("ContextRelevance", TextRow("q", contexts=[]), "contexts", 0.0),
    ("Faithfulness", TextRow(response="r", contexts=[]), "contexts", 0.0),
    ("Hallucination", TextRow(response="r", contexts=[]), "contexts", None),
]


@pytest.mark.parametrize(("name", "row", "what", "value"), EMPTY)
def test_empty_inputs(name: str, row: TextRow, what: str, value: float | None) -> None:
    run = evaluate_texts([row], [name], Script())
    if value is None:
        assert run.judgements[name][0][0].status is Status.NOT_APPLICABLE
        assert run.judgements[name][0][0].error == f"{name} is not defined without {what}"
    else:
        assert run.scores(name) == [value]
    with pytest.raises(InputError, match=f"{name} needs {what} but row 0 has none"):
        evaluate_texts([row], [name], Script(), raise_on_empty=True)
    with pytest.raises(InputError, match=f"{name} needs {what} but row 0 has none"):
        evaluate_texts([row], [name], Script(), compat="valor-core")


@pytest.mark.parametrize("name", METRICS)
def test_a_row_that_lacks_an_input_is_reported_before_anything_is_asked(name: str) -> None:
    judge = Script()
    lacking = METRICS[name].needs[-1]
    with pytest.raises(InputError, match=f"{name} needs .* but row 1 has none"):
        evaluate_texts([FULL, TextRow()], [name], judge)
    assert lacking in ("query", "response", "contexts")
    assert judge.asked == []


@pytest.mark.parametrize("status", [Status.CONTENT_FILTER, Status.SERVER_ERROR, Status.TIMEOUT])
@pytest.mark.parametrize("name", METRICS)
def test_a_failed_step_is_a_failed_row_and_never_a_number(name: str, status: Status) -> None:
    run = evaluate_texts([FULL], [name], Script(status), limits=ONE)
    assert math.isnan(run.scores(name)[0])
    assert run.summaries[name].n_failed == {str(status): 1}
    assert run.summaries[name].n_scored == 0
    assert (run.summaries[name].lower, run.summaries[name].upper) == (METRICS[name].low, METRICS[name].high)


@pytest.mark.parametrize("name", METRICS)
def test_an_unreadable_reply_keeps_the_reply(name: str) -> None:
    run = evaluate_texts([FULL], [name], Script("I would rather not."), limits=ONE_NO_REPAIR)
    [[judgement]] = run.judgements[name]
    assert judgement.status is Status.PARSE_ERROR
    assert judgement.reply == Reply("I would rather not.")


def test_replies_are_repaired_once_and_asked_again_as_often_as_wanted() -> None:
    assert one("Coherence", Script("well", "4")) == 4.0
    judge = Script("well", "so", "5")
    assert one("Coherence", judge, limits=replace(ONE_NO_REPAIR, reasks=2)) == 5.0
    assert judge.asked[0] == judge.asked[2]
    assert math.isnan(one("Coherence", Script("well", "so"), limits=replace(ONE_NO_REPAIR, reasks=1)))
    judge = Script(Status.CONTENT_FILTER)
    assert math.isnan(one("Coherence", judge, limits=replace(ONE, reasks=3)))
    assert len(judge.asked) == 1  # only replies that cannot be read are worth it


def test_a_preset_repairs_nothing_unless_it_is_asked_to() -> None:
    judge = Script("well")
    run = evaluate_texts([FULL], ["Coherence"], judge, compat="valor-lite")
    assert run.summaries["Coherence"].attempts == 1


async def by_task(messages: Any, schema: Any) -> Reply:
    """Says yes to everything."""
    content = messages[1]["content"]
    if "score" in schema["properties"]:
        return Reply('{"reason": "", "score": 5}', Usage(100, 10))
    if "TP" in schema["properties"]:
        return Reply('{"TP": ["s"], "FP": [], "FN": []}', Usage(100, 10))
    if "verdicts" in schema["properties"]:
        count = int(content.split("Give exactly ")[1].split()[0])
        return Reply(verdicts(*["yes"] * count), Usage(100, 10))
    return Reply(texts(next(iter(schema["properties"])), "s"), Usage(100, 10))


class Yes:
    """A judge that can be cached."""

    identity = {"kind": "test", "name": "yes"}  # noqa: RUF012
    calls = 0

    async def __call__(self, messages: Any, schema: Any) -> Reply:
        Yes.calls += 1
        return await by_task(messages, schema)


def test_all_metrics_in_one_run_with_usage_prices_clusters_and_a_cache(tmp_path: Path) -> None:
    rows = [FULL, TextRow("What?", "That.", ["This."], ["c"]), FULL]
    Yes.calls = 0
    with JudgeCache(tmp_path / "replies.sqlite") as cache:
        prices = Prices(1.0, 10.0)
        run = evaluate_texts(rows, list(METRICS), Yes(), cache=cache, prices=prices, clusters=[0, 1, 0])
        asked = Yes.calls
        again = evaluate_texts(rows, list(METRICS), Yes(), cache=cache)
    assert Yes.calls == asked
    assert again.usage == Usage() and run.usage == Usage(100 * asked, 10 * asked)
    assert run.cost == pytest.approx(asked * 2e-4, rel=1e-12)
    assert run.row_usage(2) == Usage()  # the same row as the first
    for name, metric in METRICS.items():
        assert run.scores(name) == again.scores(name) == [metric.high] * 3
        assert run.summaries[name].standard_error == 0.0
        assert run.prompts[name] == tuple(load_prompt(step).id for step in metric.steps)
    assert asked < sum(len(metric.steps) for metric in METRICS.values()) * 3


def test_a_changed_prompt_is_asked_anew(tmp_path: Path) -> None:
    cache = str(tmp_path / "replies.sqlite")
    Yes.calls = 0
    evaluate_texts([FULL], ["Coherence"], Yes(), cache=cache)
    evaluate_texts([FULL], ["Coherence"], Yes(), cache=cache)
    assert Yes.calls == 1
    run = evaluate_texts([FULL], ["Coherence"], Yes(), cache=cache, prompts={"coherence": "Rate {{text}}"})
    assert Yes.calls == 2
    assert run.prompts["Coherence"][0].startswith("coherence/own/")


def test_a_callable_gets_the_messages_and_may_be_of_any_kind() -> None:
    async def later(messages: Any) -> str:
        return "3"

    assert evaluate_texts([FULL], ["Coherence"], later).scores("Coherence") == [3.0]
    assert evaluate_texts([FULL], ["Coherence"], lambda messages: str(len(messages))).scores("Coherence") == [2.0]


def test_wrong_metrics_and_rows() -> None:
    with pytest.raises(InputError, match=r"metrics must be of AnswerCorrectness, .* but got 'Beauty'"):
        evaluate_texts([FULL], ["Beauty"], Script())
    with pytest.raises(InputError, match="metrics must differ by name but got Bias, Bias"):
        evaluate_texts([FULL], ["Bias", "Bias"], Script())
    with pytest.raises(InputTypeError, match="rows must be Iterable or AsyncIterable but got TextRow"):
        evaluate_texts(FULL, ["Bias"], Script())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rows must be TextRow but got str"):
        evaluate_texts(["a text"], ["Bias"], Script())  # type: ignore[list-item]
    with pytest.raises(InputError, match="compat must be one of"):
        evaluate_texts([FULL], ["Bias"], Script(), compat="valor")
    with pytest.raises(InputError, match=r"TextRow\.contexts must be a list of texts but got str"):
        TextRow(contexts="one")
    with pytest.raises(InputError, match=r"TextRow\.references must be str but got int"):
        TextRow(references=[1])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"TextRow\.query must be str or NoneType but got int"):
        TextRow(1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="combine must be one of 'any', 'max' but got 'or'"):
        ContextPrecision(combine="or")


def test_metrics_show_their_prompts() -> None:
    assert repr(METRICS["Coherence"]()) == f"Coherence({load_prompt('coherence').id})"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("no object", "one JSON object but has no JSON object"),
        ('{"verdicts": "yes"}', "verdicts must be a list of 2 but is str"),
        ('{"verdicts": ["yes", "yes"]}', "a verdict must be an object"),
        ('{"verdicts": [{"verdict": "yes"}, {"verdict": "perhaps"}]}', "verdict must be yes, no but is 'perhaps'"),
        ('{"verdicts": [{"verdict": "yes"}, {"analysis": "x"}]}', "verdict must be yes, no but is 'None'"),
    ],
)
def test_verdicts_that_cannot_be_read(text: str, match: str) -> None:
    with pytest.raises(ParseError, match=match):
        reading.read_verdicts(text, 2, reading.YES_NO, "tolerant")


def test_keys_of_verdicts_in_any_case() -> None:
    assert reading.read_verdicts('{"verdicts": [{"Verdict": "Yes"}]}', 1, reading.YES_NO, "tolerant") == ["yes"]
    with pytest.raises(ParseError, match="must give verdict one value but gives 'yes' and 'no'"):
        reading.read_verdicts('{"verdicts": [{"verdict": "yes", "Verdict": "no"}]}', 1, reading.YES_NO, "tolerant")


def test_sorted_statements_must_fit_the_question() -> None:
    with pytest.raises(ParseError, match="TP and FP must hold the 2 statements of the answer but hold 1"):
        reading.read_sorted('{"TP": ["a"], "FP": [], "FN": []}', 2, 1, "tolerant")
    with pytest.raises(ParseError, match="FN must hold at most the 1 correct statements but holds 2"):
        reading.read_sorted('{"TP": ["a"], "FP": [], "FN": ["b", "c"]}', 1, 1, "tolerant")
    with pytest.raises(ParseError, match="FN must be a list of texts but is None"):
        reading.read_sorted('{"TP": ["a"], "FP": []}', 1, 1, "tolerant")


@pytest.mark.parametrize(
    ("text", "ours", "core", "lite"),
    [
        ("4", 4, 4, 4),
        (" 4\n", 4, 4, 4),
        ("10", None, 1, None),
        ("Score 3", 3, None, 3),
        ("4.7", None, 4, 4),
        ("3 out of 5", 3, 3, 3),
        ("3 out of 10", None, 3, 3),
        ("-3", None, None, None),
        ("0", None, None, None),
        ('{"reason": "good", "score": 5}', 5, 5, 5),
    ],
)
def test_ratings(text: str, ours: float | None, core: float | None, lite: float | None) -> None:
    for replies, expected in (("tolerant", ours), ("core", core), ("lite", lite)):
        if expected is None:
            with pytest.raises(ParseError, match="rating"):
                reading.read_rating(text, 1, 5, replies=replies)
        else:
            assert reading.read_rating(text, 1, 5, replies=replies).value == expected


def test_verdicts_are_strict_under_lite() -> None:
    loose = json.dumps({"verdicts": [{"verdict": "Yes."}]})
    assert reading.read_verdicts(loose, 1, reading.YES_NO, "tolerant") == ["yes"]
    for replies in ("core", "lite"):
        with pytest.raises(ParseError, match="verdict"):
            reading.read_verdicts(loose, 1, reading.YES_NO, replies)


def test_nothing_here_loads_torch_or_opens_a_connection() -> None:
    code = (
        "import socket, sys\n"
        "def no(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = no; socket.getaddrinfo = no\n"
        "from valor_gpu.text.judged import *\n"
        "from valor_gpu.text.judged import evaluate_texts, TextRow\n"
        "assert evaluate_texts([TextRow(response='a')], ['Coherence'], lambda m: '2').scores('Coherence') == [2.0]\n"
        "print([name for name in ('torch', 'numpy', 'openai', 'transformers', 'pandas') if name in sys.modules])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
