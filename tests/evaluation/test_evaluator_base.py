"""Base of evaluators: missing fields, sharing, names, versions and the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators import base
from valor_gpu.evaluation.evaluators.base import EVALUATORS, Evaluator, EvaluatorInfo, Outcome, Portion

FIELDS = {"question", "answer", "baseline_answer", "context", "ground_truth", "messages", "seconds", "cost"}
FIELDS |= {"retrieved_documents", "retrieval_ground_truth"}


class Answered(Evaluator):
    """The length of the answer, by a split that is shared."""

    def __init__(self, name: str = "answered", made: list[int] | None = None) -> None:
        super().__init__(EvaluatorInfo(name, "text", "m:f", frozenset({"answer"}), 0.0, None, "length"), {})
        self.made = [] if made is None else made

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Words of each answer."""

        def split() -> list[list[str]]:
            self.made.append(1)
            return [portion.rows[i]["answer"].split() for i in complete]

        return [base.number_outcome(len(words)) for words in portion.share("words", split)]


def test_rows_without_a_field_do_not_reach_the_code_and_leave_the_others_alone() -> None:
    rows: list[dict[str, Any]] = [{"answer": "a b"}, {"answer": None}, {}, {"answer": ""}]
    assert Answered().score_rows(rows) == [
        Outcome(2.0),
        Outcome(None, "missing_field", "missing answer"),
        Outcome(None, "missing_field", "missing answer"),
        Outcome(0.0),
    ]
    assert Answered().score_rows([]) == []


def test_a_portion_is_split_once_for_all_evaluators() -> None:
    made: list[int] = []
    found = base.score_portion([Answered("a", made), Answered("b", made)], [{"answer": "x y z"}])
    assert found == {"a": [Outcome(3.0)], "b": [Outcome(3.0)]}
    assert made == [1]


def test_a_row_on_which_an_evaluator_raises_costs_no_other_row() -> None:
    found = base.score_portion([Answered("good")], [{"answer": "a b"}, {"answer": 3}, {}, {"answer": "a"}])
    assert [outcome.value for outcome in found["good"]] == [2.0, None, None, 1.0]
    assert found["good"][1].reason == "AttributeError: 'int' object has no attribute 'split'"
    assert [outcome.status for outcome in found["good"]] == ["ok", "evaluator_error", "missing_field", "ok"]


def test_numbers_that_are_none_have_a_reason() -> None:
    assert base.number_outcome(float("nan")) == Outcome(None, "undefined", "the evaluator's value is nan")
    assert base.number_outcome(float("inf")).value is None


def test_names_of_summaries_and_pooling() -> None:
    each = Answered()
    assert each.summary_name == "mean_answered"
    with pytest.raises(InputError, match="evaluator 'answered' has a mean over rows and pools no counts"):
        each.pool([1])


def test_versions_depend_on_name_and_code_alone() -> None:
    assert Answered().version == Answered().version
    assert Answered("other").version != Answered().version
    changed = type("Changed", (Answered,), {"code": "2"})()
    assert changed.version != Answered().version


def test_an_unknown_name_gets_its_neighbours() -> None:
    with pytest.raises(
        InputError, match="evaluator must be the name of one but got 'f1_scor'; did you mean 'f1_score'"
    ):
        base.evaluator("f1_scor")
    with pytest.raises(InputError, match="evaluator must be str but got int"):
        base.evaluator(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"evaluator 'f1_score' must get parameters of \[\] but got 'ignore'"):
        base.evaluator("f1_score", ignore=1)


@pytest.mark.parametrize("info", EVALUATORS.values(), ids=EVALUATORS)
def test_the_table_is_well_formed(info: EvaluatorInfo) -> None:
    assert info.requires and info.requires <= FIELDS
    assert info.high is None or info.low < info.high
    assert info.summary and not info.summary.endswith(".")
    assert info.tasks <= {"qa", "chat"} and info.needs <= {"judge", "embed", "wordnet"}


def test_the_table_imports_neither_torch_nor_pandas() -> None:
    code = (
        "import sys, valor_gpu.evaluation.evaluators.base;"
        "print([m for m in ('torch', 'pandas', 'nltk', 'openai') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


class Returns(Answered):
    """What it is given, for whatever rows."""

    def __init__(self, returned: Any) -> None:
        super().__init__()
        self.returned = returned

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Not one for each row."""
        found: list[Outcome] = self.returned
        return found


@pytest.mark.parametrize(
    ("returned", "words"),
    [([], "list"), (None, "NoneType"), ([Outcome(1.0)] * 2, "2 of Outcome"), ([1.0], "1 of float")],
)
def test_outcomes_that_are_not_one_for_each_row_are_errors_and_not_lost(returned: Any, words: str) -> None:
    rows: list[dict[str, Any]] = [{"answer": "a"}, {}]
    missing, wrong = base.score_portion([Returns(returned)], rows)["answered"][::-1]
    assert missing.status == "missing_field"
    assert (wrong.value, wrong.status) == (None, "evaluator_error")
    assert wrong.reason.endswith(f"must return an Outcome for each of 1 rows but returned {words}")
