"""Mapping of fields: both vocabularies, precedence of targets, and one error for all that is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.rows.fields import FIELDS, field_of, names_of
from valor_gpu.evaluation.rows.mapping import resolve_mapping

DATA = ["question", "context", "answer", "ground_truth"]
ROW = {"question": "q", "context": "c", "answer": "a", "ground_truth": "g"}
QA = {
    "gpt_groundedness": {"answer", "context"},
    "gpt_relevance": {"question", "answer", "context"},
    "f1_score": {"answer", "ground_truth"},
}


def problems(*args: Any, **kwargs: Any) -> list[str]:
    """The lines of the one error."""
    with pytest.raises(
        InputError, match=r"must give every field that is needed, by names that exist, but:\n"
    ) as caught:
        resolve_mapping(*args, **kwargs)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


# ------------------------------------------------------------------------------------------ the samples of the guides


def test_the_sample_without_a_flow_maps_groundtruth_with_a_warning() -> None:
    """S4 maps y_test to ``groundtruth`` though its data has ``ground_truth`` (azure-ai-generative ignores it)."""
    sample = {"questions": "question", "contexts": "context", "y_pred": "answer", "y_test": "groundtruth"}
    mapping = resolve_mapping(sample, DATA, None, QA, "qa")
    assert mapping.values(ROW) == ROW
    assert mapping.warnings == (
        "data_mapping: there is no column 'groundtruth', so 'y_test' is read from 'ground_truth'",
    )
    assert resolve_mapping({"y_test": "ground_truth"}, DATA).warnings == ()
    assert resolve_mapping({"y_test": "groundtruth"}, ["groundtruth"]).warnings == ()


def test_the_sample_with_a_flow_takes_answers_from_it() -> None:
    """S4's sample with a target has no y_pred: the output ``answer``, else the only text."""
    sample = {"questions": "question", "contexts": "context", "y_test": "groundtruth"}
    columns = ["question", "context", "ground_truth"]
    inputs = {name: ROW[name] for name in columns}
    mapping = resolve_mapping(sample, columns, (), QA, "qa")
    assert mapping.values(inputs, {"answer": "T", "other": "x"}) == {**inputs, "answer": "T"}
    assert mapping.values(inputs, {"reply": "T", "score": 3})["answer"] == "T"
    assert mapping.values(inputs, {"reply": "T", "note": "x"})["answer"] is None
    assert mapping.values(inputs, None)["answer"] is None
    mapping.check_outputs({"reply": "T", "score": 3})
    with pytest.raises(InputError, match=r"'answer' must be an output named 'answer', or the only text, or mapped\n"):
        mapping.check_outputs({"reply": "T", "note": "x"})


@pytest.mark.parametrize(
    ("outputs", "source"),
    [
        (["answer", "context"], "${target.answer}"),
        (["response", "context"], "${target.response}"),
        (["reply"], "${target.reply}"),
        (["reply", "note"], "${target}"),
    ],
)
def test_answers_of_targets_that_declare_their_outputs(outputs: list[str], source: str) -> None:
    assert resolve_mapping(None, DATA, outputs, {"m": {"answer"}}).to_dict()["answer"] == source


def test_the_sample_of_a_conversation_maps_y_pred_to_messages() -> None:
    needed = {"gpt_groundedness": {"messages"}}
    for task_type in ("chat", None):
        mapping = resolve_mapping({"y_pred": "messages"}, ["messages"], None, needed, task_type)
        assert mapping.to_dict() == {"messages": "${data.messages}"}
    assert resolve_mapping({"y_pred": "turns"}, ["turns"], None, needed, "chat").to_dict() == {
        "messages": "${data.turns}"
    }
    assert resolve_mapping({"y_pred": "messages"}, ["messages"], task_type="qa").to_dict() == {
        "answer": "${data.messages}",
        "messages": "${data.messages}",
    }
    target = resolve_mapping(None, ["question"], (), needed, "chat")
    assert target.to_dict() == {"messages": "${target.messages}", "question": "question"}
    with pytest.raises(
        InputError, match=r"'messages' is \$\{target.messages\}, which it does not return\n.*: 'answer'"
    ):
        target.check_outputs({"answer": "x"})


# -------------------------------------------------------------------------------------------------------- vocabularies


@pytest.mark.parametrize("reference", ["x", "${data.x}", "${data$x}", " ${data.x} ", "${ data.x }"])
@pytest.mark.parametrize("key", ["answer", "y_pred", "response", "prediction", "predictions", "Response"])
def test_references_to_columns(key: str, reference: str) -> None:
    mapping = resolve_mapping({key: reference}, ["x", "answer"])
    assert mapping.to_dict() == {"answer": "${data.x}"}
    assert mapping.values({"x": 1, "answer": 2}) == {"answer": 1}


@pytest.mark.parametrize("reference", ["x", "${target.x}", "${target$x}", "${run.outputs.x}", "${run.outputs$x}"])
@pytest.mark.parametrize("outputs", [(), ["x", "y"]])
def test_references_to_outputs(reference: str, outputs: list[str]) -> None:
    mapping = resolve_mapping({"answer": reference}, ["x"], outputs)
    assert mapping.to_dict()["answer"] == "${target.x}"
    assert mapping.values({"x": "data"}, {"x": "target"})["answer"] == "target"
    with pytest.raises(InputError, match=r"'answer' is \$\{target.x\}, which it does not return"):
        mapping.check_outputs({"y": 1})


def test_names_of_columns_may_have_dots_and_dollars() -> None:
    columns = ["a.b", "a$b", "run.outputs.x"]
    given = {"question": "${data.a.b}", "context": "${data$a$b}", "answer": "run.outputs.x"}
    assert resolve_mapping(given, columns).to_dict() == {
        "question": "${data.a.b}",
        "context": "${data.a$b}",
        "answer": "${data.run.outputs.x}",
    }


@pytest.mark.parametrize(("field", "alias"), [(field, name) for field, names in FIELDS.items() for name in names])
def test_aliases_are_keys_and_columns(field: str, alias: str) -> None:
    assert field_of(alias) == field_of(alias.upper().replace("_", " ")) == field
    assert resolve_mapping({alias: "x"}, ["x"]).to_dict() == {field: "${data.x}"}
    assert resolve_mapping(None, [alias]).to_dict() == {field: f"${{data.{alias}}}"}


def test_a_canonical_name_has_precedence_over_aliases() -> None:
    assert names_of("answer", ["response", "answer"]) == ["answer"]
    assert resolve_mapping(None, ["response", "answer"]).to_dict() == {"answer": "${data.answer}"}


def test_two_aliases_are_an_error_where_the_field_is_needed() -> None:
    columns = ["response", "prediction", "ground_truth"]
    assert "answer" not in resolve_mapping(None, columns).sources
    assert problems(None, columns, required={"f1_score": {"answer", "ground_truth"}}) == [
        "'answer' is needed by f1_score, and 'response', 'prediction' may all be it: map one of them"
    ]


# ---------------------------------------------------------------------------------------------- targets beside columns


def test_a_target_has_precedence_over_a_column() -> None:
    mapping = resolve_mapping({"contexts": "context"}, DATA, ["answer", "context"])
    assert mapping.to_dict() == {
        "context": "${target.context}",
        "answer": "${target.answer}",
        "question": "${data.question}",
        "ground_truth": "${data.ground_truth}",
    }
    open_one = resolve_mapping({"contexts": "context"}, DATA, ())
    assert open_one.to_dict()["context"] == "context"
    assert open_one.values(ROW, {"answer": "T", "context": "of the target"})["context"] == "of the target"
    assert open_one.values(ROW, {"answer": "T"})["context"] == "c"


def test_answers_of_the_data_are_never_taken_for_those_of_a_target() -> None:
    for given in (None, {"y_pred": "answer"}):
        mapping = resolve_mapping(given, DATA, ())
        assert mapping.values(ROW, {"score": 1})["answer"] is None
        assert mapping.values(ROW, None)["answer"] is None
    said = resolve_mapping({"answer": "${data.answer}"}, DATA, ())
    assert said.values(ROW, {"answer": "T"})["answer"] == "a"
    assert said.warnings == ("data_mapping: answers are read from ${data.answer}, not from the target",)


def test_inputs_of_keys_are_what_columns_give_without_the_answer() -> None:
    mapping = resolve_mapping({"tone": "t"}, [*DATA, "t"], required={"mine": {"tone"}})
    assert mapping.key_values({**ROW, "t": 1}) == {"question": "q", "context": "c", "ground_truth": "g"}
    for outputs in ((), ["answer", "context"]):
        assert resolve_mapping({"tone": "t"}, [*DATA, "t"], outputs, ["tone"]).key_values(ROW) == mapping.key_values(
            ROW
        )
    assert resolve_mapping(None, ["question"], ["answer", "context"]).key_values(ROW) == {"question": "q"}


# ---------------------------------------------------------------------------------------- fields of the user's own


def test_names_that_evaluators_of_the_user_require() -> None:
    required = {"mine": {"tone", "response"}}
    mapping = resolve_mapping({"y_pred": "a"}, ["a", "tone", "response"], None, required)
    assert mapping.values({"a": 1, "tone": 2, "response": 3}) == {"answer": 1, "tone": 2, "response": 1}
    unmapped = resolve_mapping(None, ["tone", "response", "answer"], None, required)
    assert unmapped.values({"answer": 1, "tone": 2, "response": 3}) == {"answer": 1, "tone": 2, "response": 3}
    assert resolve_mapping({"tone": "a"}, ["a", "answer"], None, required).values({"a": 1, "answer": 2}) == {
        "tone": 1,
        "answer": 2,
        "response": 2,
    }
    target = resolve_mapping(None, ["tone", "response"], ("answer", "tone"), required)
    assert target.values({"tone": 1, "response": 2}, {"answer": 3, "tone": 4}) == {
        "answer": 3,
        "response": 3,
        "tone": 4,
    }


# --------------------------------------------------------------------------------------------------------------- errors


def test_everything_wrong_is_one_error() -> None:
    given = {
        "qestions": "question",
        "contexts": "contxt",
        "y_pred": "${data.anser}",
        "y_test": "${inputs.ground_truth}",
        "messages": "${data.question} and ${data.context}",
        "query": 3,
        "tone": "${target.tone}",
    }
    assert problems(given, DATA, None, {"mine": {"tone"}, "f1_score": {"answer"}}) == [
        "'qestions' is no field; did you mean 'questions' or 'question' or 'conversations'?; fields: question,"
        " answer, context, ground_truth, messages",
        "'contexts' is 'contxt', which is no column; did you mean 'context'?; columns: 'question', 'context', 'answer',"
        " 'ground_truth'",
        "'y_pred' is 'anser', which is no column; did you mean 'answer'?; columns: 'question', 'context', 'answer',"
        " 'ground_truth'",
        "'y_test' must refer to ${data.x}, ${target.x} or ${run.outputs.x} but is '${inputs.ground_truth}'",
        "'messages' must be one reference such as ${data.x} but is '${data.question} and ${data.context}'",
        "'query' must be the name of a column but is int",
        "'tone' is ${target.tone}, but there is no target",
    ]


def test_a_required_field_that_nothing_gives() -> None:
    """Ground truth unmapped though F1 is asked for: azure-ai-evaluation gives no error and no metric."""
    assert problems(None, ["question", "answer", "ground_trth"], None, {"f1_score": {"answer", "ground_truth"}}) == [
        "'ground_truth' is needed by f1_score but nothing gives it; did you mean 'ground_trth'?;"
        " columns: 'question', 'answer', 'ground_trth'"
    ]
    assert problems(None, ["question"], None, QA)[0].startswith(
        "'answer' is needed by gpt_groundedness, gpt_relevance, f1"
    )
    assert problems(None, ["answer"], None, ["question"]) == [
        "'question' is needed but nothing gives it; columns: 'answer'"
    ]
    assert problems(None, ["question"], (), {"m": {"context"}})[0].endswith(
        "; map it to ${target.context} if the target returns it"
    )
    found = resolve_mapping(None, ["question", "answer"])
    assert found.missing(QA) == {"context": ["gpt_groundedness", "gpt_relevance"], "ground_truth": ["f1_score"]}


def test_plain_names_that_a_target_does_not_have() -> None:
    assert problems({"context": "contxt"}, ["q"], ["answer", "context"]) == [
        "'context' is 'contxt', which is no column; did you mean 'context'?; columns: 'q';"
        " outputs of the target: 'answer', 'context'"
    ]
    assert problems({"context": "docs"}, ["q"], ()) == [
        "'context' is 'docs', which is no column; columns: 'q'; write ${target.docs} if the target returns it"
    ]
    assert problems({"answer": "${target.anser}"}, ["q"], ["answer"]) == [
        "'answer' is 'anser', which is no output of the target; did you mean 'answer'?; outputs of the target: 'answer'"
    ]


def test_a_field_that_is_mapped_twice() -> None:
    assert problems({"question": "a", "questions": "b"}, ["a", "b"]) == [
        "'questions' is ${data.b}, but 'question' is mapped to ${data.a} too"
    ]
    assert resolve_mapping({"question": "a", "questions": "${data.a}"}, ["a"]).to_dict() == {"question": "${data.a}"}


def test_long_lists_of_columns_are_shortened_in_messages() -> None:
    assert problems({"answer": "x" * 500}, [f"c{n}" for n in range(30)])[0].endswith("'c18', 'c19', and 10 more")


def test_arguments_of_another_kind() -> None:
    with pytest.raises(InputError, match="task_type must be one of None, 'qa', 'chat' but got 'summary'"):
        resolve_mapping(None, DATA, task_type="summary")
    with pytest.raises(InputTypeError, match="data_mapping must be Mapping or NoneType but got list"):
        resolve_mapping(["question"], DATA)  # type: ignore[arg-type]
    assert problems({3: "question"}, DATA) == ["a key must be str but got int"]


# ------------------------------------------------------------- what azure-ai-generative 1.0.0b3 made of the same calls

CASES = json.loads((Path(__file__).parent.parent / "data" / "azure" / "seed_api.json").read_text())["cases"]
RECORDED = {"questions": "question", "contexts": "context", "y_pred": "answer", "y_test": "ground_truth"}
OURS = {  # where ours decides otherwise
    "qa_seed_typo_groundtruth": {"ground_truth": ["Paris", "g2"]},  # it leaves out the misspelt column without a word
    "target_as_in_seed_without_y_pred": {"answer": ["T:What is the capital of France?", "T:q2"]},  # it has no answers
    "target_returns_str": {
        "answer": ["plain What is the capital of France?", "plain q2"]
    },  # it calls a text column "0"
}


def replayed(case: Any) -> dict[str, list[Any]]:
    """The fields of the rows of a recorded call."""
    rows = case["call"]["data"]
    columns = list(rows[0])
    prefix = {"<target tgt>": "T:", "<target atgt>": "A:", "<target strtgt>": "plain ", None: ""}[
        case["call"].get("target")
    ]
    mapping = resolve_mapping(case["call"]["data_mapping"], columns, () if prefix else None, QA, "qa")
    outputs = [{"answer": prefix + row["question"]} if prefix else None for row in rows]
    found = [mapping.values(row, output) for row, output in zip(rows, outputs)]
    return {field: [row[field] for row in found] for field in found[0]}


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "error" not in case and isinstance(case["call"]["data"], list)],
    ids=lambda case: case["id"],
)
def test_recorded_calls(case: Any) -> None:
    theirs = {RECORDED[name]: values for name, values in case["backend_call"].items() if name in RECORDED}
    assert replayed(case) == {**theirs, **OURS.get(case["id"], {})}


def test_the_page_has_every_name_of_every_field() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "evaluation" / "data.md").read_text()
    for field, aliases in FIELDS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{field}` |"))
        names = re.findall(r"`(\w+)`", row)[1:]
        assert names == list(aliases)
