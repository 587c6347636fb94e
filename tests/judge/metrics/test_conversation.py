"""Conversations: what is a turn, which turns count, what is said of the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judge.metrics.scripted import Script, assistant, outcome, outcomes, rating, user
from valor_gpu.errors import InputError
from valor_gpu.evaluation.judged import judged_metric, read_conversation
from valor_gpu.judge import JudgeError, Status

CITED = {"id": "tents.md", "content": "The Firn tent is waterproof."}
THREE = [
    user("Which tent is waterproof?", context={"customer_info": "## name: Jane"}, session_state={"id": "1"}),
    assistant("The Firn tent.", CITED, session_state={"id": "1"}),
    user("What does it weigh?"),
    assistant("Two kilos.", CITED),
    user("And the stove?"),
    assistant("I do not know.", CITED),
]


def chat(name: str = "gpt_groundedness") -> Any:
    return judged_metric(name, task="chat")


def test_the_mean_over_turns_as_the_document_prints_it() -> None:
    row = {"messages": THREE}
    found = outcome(chat(), row, rating(5, "a"), rating(5, "b"), rating(1, "c"))
    assert found.value is not None and round(found.value, 10) == 3.6666666667
    assert found.details == {
        "turns": [
            {"turn": number, "score": score, "status": "ok", "reason": reason}
            for number, score, reason in ((1, 5.0, "a"), (2, 5.0, "b"), (3, 1.0, "c"))
        ],
        "n_turns": 3,
        "n_scored": 3,
        "notes": [],
    }
    assert outcome(chat("gpt_retrieval_score"), row, *map(rating, (3, 2, 1))).value == 2
    json.dumps(found.details, allow_nan=False)


def test_a_turn_without_a_score_is_left_out_and_counted() -> None:
    judge = Script(rating(4), "I would rather not.", rating(2))
    (found,) = outcomes(chat(), [{"messages": THREE}], judge)
    assert found.value == 3 and found.status == "ok" and found.details is not None
    assert (found.details["n_turns"], found.details["n_scored"]) == (3, 2)
    failed = found.details["turns"][1]
    assert failed["score"] is None and failed["status"] == "parse_error" and failed["reply"] == "I would rather not."
    assert "must hold a rating" in failed["reason"]


@pytest.mark.parametrize("status", [Status.CONTENT_FILTER, Status.BAD_REQUEST, Status.TIMEOUT, Status.SERVER_ERROR])
def test_a_turn_that_the_judge_fails_costs_that_turn(status: Status) -> None:
    found = outcome(chat(), {"messages": THREE}, rating(4), status, rating(2))
    assert found.value == 3 and found.details is not None
    assert found.details["turns"][1]["status"] == str(status)


@pytest.mark.parametrize("status", [Status.UNAUTHORIZED, Status.QUOTA])
def test_what_ends_the_run_leaves_the_row_to_be_asked_again(status: Status) -> None:
    found = outcome(chat(), {"messages": THREE}, rating(4), status)
    assert found.value is None and found.status == str(status)


def test_a_turn_that_was_never_asked_leaves_the_row_to_be_asked_again() -> None:
    asked = 0

    async def judge(messages: Any) -> str:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise JudgeError(Status.CONNECTION_ERROR, "down", max_retries=0, shared_cause="the address")
        return rating(4)

    turns = [one for n in range(8) for one in (user(f"q{n}"), assistant(f"a{n}", CITED))]
    (found,) = outcomes(chat(), [{"messages": turns}], judge)
    assert (found.value, found.status, asked) == (None, "connection_error", 6)


def test_a_row_of_which_no_turn_has_a_score_has_the_judges_status_and_all_turns() -> None:
    found = outcome(chat(), {"messages": THREE[:4]}, "no", "never")
    assert (found.value, found.status) == (None, "parse_error")
    assert found.reason.startswith("no turn has a score: the reply must hold a rating")
    assert found.details is not None and [turn["reply"] for turn in found.details["turns"]] == ["no", "never"]
    skipped = outcome(chat(), {"messages": THREE[:2]}, rating(None, "nothing there"))
    assert skipped.status == "not_applicable" and "nothing there" in skipped.reason


def test_turns_without_citations_have_no_score_where_citations_are_needed() -> None:
    bare = [user("Which tent?"), assistant("The Firn."), user("And?"), assistant("That is all.", CITED)]
    found = outcome(chat(), {"messages": bare}, rating(4))
    assert found.value == 4 and found.details is not None
    assert found.details["turns"][0]["reason"] == "missing context" and found.details["n_scored"] == 1
    judge = Script()
    for name in ("gpt_groundedness", "gpt_relevance", "gpt_retrieval_score"):
        (none,) = outcomes(chat(name), [{"messages": bare[:2]}], judge)
        assert (none.value, none.status) == (None, "missing_field")
        assert none.reason == "no turn has a score: missing context"
    assert not judge.asked
    for name in ("gpt_coherence", "gpt_fluency", "violence"):
        assert outcome(chat(name), {"messages": bare[:2]}, rating(3)).value == 3


def test_an_assistant_that_speaks_first_is_rated_for_safety() -> None:
    row = {"messages": [assistant("I know where you live.")]}
    judge = Script(rating(5))
    (found,) = outcomes(chat("violence"), [row], judge)
    assert (found.value, found.level) == (5, "Medium") and "(no question)" in judge.users[0]
    assert outcome(chat("gpt_coherence"), row).reason == "no turn has a score: missing question"


def test_history_ends_before_the_question() -> None:
    turns = read_conversation(THREE).turns
    assert [len(turn.history) for turn in turns] == [0, 2, 4]
    assert turns[2].history[-1] == ("assistant", "Two kilos.") and turns[2].question == "And the stove?"
    judge = Script(*[rating(3)] * 3)
    outcomes(chat("gpt_relevance"), [{"messages": THREE}], judge)
    assert "(no earlier messages)" in judge.users[0]
    assert "~~~~ earlier message 2 of 2\nassistant: The Firn tent.\n~~~~" in judge.users[1]
    assert "tents.md\nThe Firn tent is waterproof." in judge.users[1] and "customer_info" not in judge.users[1]


def test_questions_answers_and_messages_that_do_not_pair() -> None:
    found = read_conversation(
        [user("One."), user("Two?"), assistant("A."), assistant("B."), user("Three?"), assistant("C."), user("Bye")]
    )
    assert [(turn.question, turn.answer) for turn in found.turns] == [
        ("One.\nTwo?", "A."),
        ("One.\nTwo?", "B."),
        ("Three?", "C."),
    ]
    assert [len(turn.history) for turn in found.turns] == [0, 3, 4]
    assert found.notes == ("the last question has no answer",)


def test_other_roles_calls_of_tools_and_parts() -> None:
    found = read_conversation(
        [
            {"role": "system", "content": "Be brief."},
            user([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "u"}}, "!"]),
            assistant(None, tool_calls=[{"id": "1"}]),
            {"role": "tool", "content": "a tent"},
            {"role": "tool", "content": "a stove"},
            assistant("A tent."),
        ]
    )
    (turn,) = found.turns
    assert (turn.question, turn.answer) == ("What is this?\n!", "A tent.")
    assert found.notes == (
        "1 messages of role system left out",
        "1 messages of the assistant without content left out",
        "2 messages of role tool left out",
    )


def test_the_forms_of_a_conversation_give_the_same_turns() -> None:
    wanted = read_conversation(THREE)
    older = [
        {"user": one["content"], "assistant": other["content"], "retrieved_documents": [CITED]}
        for one, other in zip(THREE[::2], THREE[1::2])
    ]
    for form in ({"messages": THREE}, json.dumps(THREE), json.dumps({"messages": THREE}), older):
        assert read_conversation(form) == wanted


@pytest.mark.parametrize(
    ("messages", "context"),
    [
        ([user("When?"), {**assistant("At nine."), "context": "a"}], ("a",)),
        (
            [user("When?"), {**assistant("At nine."), "context": ["a", {"id": "b.md", "content": "b"}]}],
            ("a", "b.md\nb"),
        ),
        ([user("When?", context="q"), assistant("At nine.", CITED)], ("q", "tents.md\nThe Firn tent is waterproof.")),
        ([user("A", context="q"), user("B", context=["r"]), assistant("At nine.")], ("q", "r")),
        (
            {"messages": [user("When?"), {**assistant("At nine."), "context": "a"}], "context": ["w", "v"]},
            ("w", "v", "a"),
        ),
        ({"messages": [user("When?"), assistant("At nine.")], "context": {"citations": [CITED]}}, ("tents.md\n",)),
        ([user("When?"), {**assistant("At nine."), "context": {"customer": "Jane"}}], ()),
    ],
)
def test_the_context_of_a_turn_is_that_of_conversation_question_and_answer(messages: Any, context: Any) -> None:
    (turn,) = read_conversation(messages).turns
    assert len(turn.context) == len(context) and all(map(str.startswith, turn.context, context))
    (same,) = read_conversation(json.dumps(messages)).turns
    assert same == turn


def test_the_context_of_a_row_belongs_to_all_of_its_turns() -> None:
    row = {"messages": [user("A?"), assistant("a"), user("B?"), assistant("b", CITED)], "context": "The ferry."}
    judge = Script(rating(4), rating(2))
    (found,) = outcomes(chat(), [row], judge)
    assert found.value == 3 and all("The ferry." in asked for asked in judge.users)
    assert outcome(chat("gpt_fluency"), {**row, "context": {1}}, rating(3), rating(3)).value == 3
    assert outcome(chat(), {**row, "context": {1}}).reason == "context must be text or a list of texts but is set"


@pytest.mark.parametrize(
    ("asks", "answers", "tool"),
    [
        ({"role": "human"}, {"role": "ai"}, {"role": "Tool"}),
        ({"role": "User "}, {"role": "Assistant"}, {"role": "SYSTEM"}),
        ({"role": "CUSTOMER"}, {"role": "AGENT"}, {"role": "tool"}),
        ({"from": "human"}, {"from": "gpt"}, {"from": "function_call"}),
        ({"from": "user"}, {"from": "ChatGPT"}, {"from": "observation"}),
    ],
)
def test_usual_names_of_roles(asks: dict[str, str], answers: dict[str, str], tool: dict[str, str]) -> None:
    text = "value" if "from" in asks else "content"
    found = read_conversation([{**tool, text: "x"}, {**asks, text: "When?"}, {**answers, text: "At nine."}])
    assert [(turn.question, turn.answer) for turn in found.turns] == [("When?", "At nine.")]
    assert found.notes == (f"1 messages of role {next(iter(tool.values())).casefold()} left out",)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        (None, "missing messages"),
        ("not JSON", "messages must be a list or JSON but are no JSON: "),
        ("[" * 100_000, "messages must be a list or JSON but are no JSON: "),
        (str(THREE), "messages must be a list or JSON but are as Python prints them, which is how pandas writes csv"),
        (str({"messages": THREE}), "are as Python prints them"),
        ('"text"', "messages must be a list of messages but are str"),
        ({"turns": []}, "messages must be a list of messages, or have one under 'messages', but have 'turns'"),
        (["hello"], r"messages\[0\] must be an object with role and content but is str"),
        ([user("a"), {"role": "elf", "content": "b"}], r"messages\[1\].role must be user or assistant but is 'elf'"),
        ([user(None)], r"messages\[0\].content must be text but is missing"),
        ([user(True)], r"messages\[0\].content must be text but is bool"),
        ([assistant("a", [])], r"messages\[0\].context.citations\[0\] must be text but is list"),
        ([assistant("a", {"content": []})], r"messages\[0\].context.citations\[0\].content must be text but is list"),
        ([], "no turn has a score: the assistant says nothing"),
        ([user("Anyone?")], "no turn has a score: the assistant says nothing"),
    ],
)
def test_messages_that_cannot_be_read_cost_one_row(messages: Any, message: str) -> None:
    bad, good = outcomes(chat(), [{"messages": messages}, {"messages": THREE[:2]}], Script(rating(4)))
    assert (bad.value, bad.status) == (None, "missing_field") and good.value == 4
    with pytest.raises(InputError, match=message):
        raise InputError(bad.reason)
