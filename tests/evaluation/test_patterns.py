"""Regular expressions of users are not compiled where their repeats would fill memory."""

from __future__ import annotations

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import evaluator
from valor_gpu.evaluation.evaluators.patterns import check_repeats

pytest.importorskip("regex")


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000000}",
        "(?:ab){99999999}",
        "(?:(?:(?:a{1000}){1000}){1000}){10}",
        "[ab]{1000000}",
        "[]a]{1000000}",
        r"\d{1000000,}",
        "a{99999999999999}",
        "((a|b){400}|x){400}",
        "a{400}{400}",
    ],
)
def test_repeats_that_would_fill_memory_are_refused(pattern: str) -> None:
    with pytest.raises(InputError, match="at most 100,000 signs with its repeats written out"):
        evaluator("regex", pattern=pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"\d{4}-\d{2}-\d{2}", r"[A-Z]{2}\d{2}(?:[A-Z0-9]{4}){3,}", "a{0,99999}", r"\{1000000\}", "[{1000000}]", "x{"],
)
def test_ordinary_expressions_are_compiled(pattern: str) -> None:
    check_repeats(pattern)
    assert evaluator("regex", pattern=pattern)


def test_long_expressions_are_refused_and_read_once() -> None:
    with pytest.raises(InputError, match="at most 100,000 signs but has 100,001"):
        check_repeats("a" * 100_001)
    check_repeats("[" * 100_000)
    check_repeats("[" + "\\\\" * 49_999 + "\\")


def test_deep_groups_are_said() -> None:
    with pytest.raises(InputError, match="must be a regular expression"):
        evaluator("regex", pattern="(?:" * 5000 + "a" + ")" * 5000)
