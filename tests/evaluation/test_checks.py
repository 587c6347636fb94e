"""Checks without a model."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.evaluation.evaluators.base import Outcome, evaluator


def one(name: str, row: dict[str, Any] | str, **parameters: Any) -> Outcome:
    """The outcome of a row, or of an answer."""
    rows = [{"answer": row} if isinstance(row, str) else row]
    found: list[Outcome] = evaluator(name, **parameters).score_rows(rows)
    return found[0]


def test_contains() -> None:
    assert one("contains", "in Paris", texts="Paris") == Outcome(1.0)
    assert one("contains", "in paris", texts="Paris") == Outcome(0.0, reason="the answer lacks 'Paris'")
    assert one("contains", "in paris", texts="PARIS", ignore_case=True).value == 1
    assert one("contains", "a b", texts=["a", "z"]).value == 1
    assert one("contains", "a b", texts=["a", "z"], mode="all") == Outcome(0.0, reason="the answer lacks 'z'")


def test_contains_the_ground_truth() -> None:
    assert one("contains", {"answer": "in Paris", "ground_truth": "Paris"}).value == 1
    assert one("contains", {"answer": "in Paris", "ground_truth": ["Rome", "Paris"]}).value == 1
    assert one("contains", "in Paris") == Outcome(None, "missing_field", "missing ground_truth")
    assert one("contains", {"answer": "it is 42", "ground_truth": [7, 42]}).value == 1
    assert one("contains", {"answer": 421, "ground_truth": 42}).value == 1
    wrong = one("contains", {"answer": "a", "ground_truth": ["a", 1.5]})
    assert wrong == Outcome(
        None, "invalid_field", "ground_truth[1] must be text but is float: write its digits as a text"
    )
    assert one("contains", {"answer": "a", "ground_truth": 1.5}).reason.startswith(
        "ground_truth must be text but is float"
    )


def test_regex() -> None:
    pytest.importorskip("regex")
    assert one("regex", "call 0123", pattern=r"\d+").value == 1
    assert one("regex", "call 0123", pattern=r"\d+", full=True).value == 0
    assert one("regex", "ABC", pattern="abc", ignore_case=True).value == 1
    assert one("regex", "", pattern="^$").value == 1


def test_an_expression_without_end_costs_its_row_alone_its_time() -> None:
    pytest.importorskip("regex")
    check = evaluator("regex", pattern=r"(a|b|ab)*c\b(?=z)|^(\w+\s?)*$", timeout=0.05)
    bad, good = check.score_rows([{"answer": "ab" * 40 + " a" * 40 + "!"}, {"answer": "two words"}])
    assert bad == Outcome(None, "timeout", "the expression needed more than 0.05 s")
    assert good.value == 1


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}, "s": {"type": "string", "pattern": "^a+$"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("answer", "value", "reason"),
    [
        ('{"n": 3}', 1.0, ""),
        ('{"n": 3, "s": "aa"}', 1.0, ""),
        ('{"n": -1}', 0.0, "['n']: -1 is less than the minimum of 0"),
        ("{}", 0.0, 'the answer: "n" is a required property'),
        ("no json", 0.0, "the answer is no JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"n": NaN}', 0.0, "the answer is no JSON: NaN is no number of JSON"),
        ('{"n": 1, "s": "b"}', 0.0, '[\'s\']: "b" does not match "^a+$"'),
    ],
)
def test_json_schema(answer: str, value: float, reason: str) -> None:
    pytest.importorskip("jsonschema_rs")
    assert one("json_schema", answer, schema=SCHEMA) == Outcome(value, reason=reason)


def test_json_without_a_schema() -> None:
    assert one("json_schema", "[1, 2]").value == 1
    assert one("json_schema", "[1, 2").value == 0
    assert one("json_schema", "[" * 200_000) == Outcome(0.0, reason="the answer is nested too deeply to be read")
    assert one("json_schema", "9" * 100_000).value == 0  # Python reads no numbers of that length


def test_schemas_fetch_nothing_and_their_patterns_take_linear_time() -> None:
    pytest.importorskip("jsonschema_rs")
    with pytest.raises(InputError, match=r"schema must be a JSON schema but is none: .*outside the schema"):
        evaluator("json_schema", schema={"$ref": "http://127.0.0.1:9/schema.json"})
    with pytest.raises(InputError, match=r"schema must be a JSON schema but is none: .*file:.*outside the schema"):
        evaluator("json_schema", schema={"$ref": "file:///etc/passwd"})
    with pytest.raises(InputError, match="schema must be a JSON schema but is none"):
        evaluator("json_schema", schema={"type": "objekt"})
    assert one("json_schema", '"' + "a" * 5000 + '!"', schema={"pattern": "^(a+)+$"}).value == 0


def test_length() -> None:
    assert one("length", "a bé").value == 4
    assert one("length", "a bé", unit="words").value == 2
    assert one("length", "abc", least=4) == Outcome(0.0, reason="3 characters are below 4", details={"characters": 3})
    assert one("length", "abc", least=3, most=3) == Outcome(1.0, details={"characters": 3})
    assert one("length", {"answer": []}) == Outcome(None, "invalid_field", "answer must be text but is list")
    assert one("length", {"answer": 789}) == Outcome(3.0)


def test_latency_and_cost() -> None:
    assert one("latency", {"seconds": 1.5}).value == 1.5
    assert one("latency", {"seconds": 1.5}, most=1) == Outcome(
        0.0, reason="1.5 seconds are above 1", details={"seconds": 1.5}
    )
    assert one("cost", {"cost": 0}, most=0.5) == Outcome(1.0, details={"cost": 0})
    assert one("cost", {}) == Outcome(None, "missing_field", "missing cost")
    for bad in (-1, float("nan"), "1", True):
        assert one("latency", {"seconds": bad}).status == "invalid_field"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("contains", {"texts": []}, "texts must be a text or a list of at least one text but got"),
        ("contains", {"texts": "a", "mode": "none"}, "mode must be one of 'any', 'all' but got 'none'"),
        ("regex", {}, "pattern must be str but got NoneType"),
        ("regex", {"pattern": "("}, r"pattern must be a regular expression but '\(' is none"),
        ("regex", {"pattern": "a", "timeout": 0}, r"timeout must be in \[0.001, 3600.0\] but got 0"),
        ("json_schema", {"schema": "{}"}, "schema must be a mapping or None but got str"),
        ("length", {"unit": "lines"}, "unit must be one of 'characters', 'words' but got 'lines'"),
        ("length", {"least": 3, "most": 2}, "least must not be above most=2 but is 3"),
        ("cost", {"least": 3}, r"evaluator 'cost' must get parameters of \['most'\] but got 'least'"),
    ],
)
def test_parameters_that_cannot_be(name: str, parameters: dict[str, Any], message: str) -> None:
    if name == "regex":
        pytest.importorskip("regex")
    with pytest.raises(InputError, match=message):
        evaluator(name, **parameters)


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [("regex", "regex", {"pattern": "a"}), ("jsonschema_rs", "json_schema", {"schema": {}})],
)
def test_a_missing_extra_is_named(
    module: str, name: str, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'valor_gpu\[eval\]'"):
        evaluator(name, **parameters)


def test_wrong_types_are_type_errors() -> None:
    with pytest.raises(InputTypeError, match="ignore_case must be bool but got int"):
        evaluator("contains", texts="a", ignore_case=1)


def test_json_that_no_validator_reads_costs_its_row_alone() -> None:
    pytest.importorskip("jsonschema_rs")
    made = evaluator("json_schema", schema={"type": "string"})
    answers = ['"a"', '"\\ud800"', "[" * 300 + "]" * 300, "1"]
    found = made.score_rows([{"answer": answer} for answer in answers])
    assert [outcome.value for outcome in found] == [1.0, None, None, 0.0]
    assert [outcome.status for outcome in found[1:3]] == ["invalid_field"] * 2
