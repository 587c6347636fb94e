"""Updates of texts by plans, and single pairs of texts, leave the states of the checked path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contents import content
from tests.contract import METRICS, condition, squad_batch, unchanged
from valor_gpu import text
from valor_gpu.errors import InputError
from valor_gpu.plans import checked_only
from valor_gpu.text.overlap import edit_counts

_CASES = [case for case in METRICS if case.name in text.__all__ and case.name != "SQuAD"]
_PARTS = ("cat", "sat", " ", "  ", "\n", "\u2003", "é", "\U0001f600", "a", "B", ".", "\ud800")


def _texts(rng: np.random.Generator, rows: int) -> list[str]:
    return ["".join(rng.choice(_PARTS, rng.integers(12)).tolist()) for _ in range(rows)]


@pytest.mark.filterwarnings("ignore:ROUGE counts the letters a to z:UserWarning")
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_plans_leave_the_state_of_the_checked_path(case: Any) -> None:
    rng = np.random.default_rng(5)
    metric, checked = case.make(), case.make()
    for rows in (1, 1, 1, 3, 0, 1):
        preds, target = _texts(rng, rows), _texts(rng, rows)
        several = [(each, "a cat") if i else each for i, each in enumerate(target)]
        for references in (target, several):
            metric.update(preds, references)
            with checked_only():
                checked.update(preds, target=references)
            assert condition(metric) == condition(checked)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_a_bad_row_changes_nothing(case: Any) -> None:
    metric = case.make()
    metric.update(["a cat"], ["a dog"])
    for preds, target in ((["a"], ["b", "c"]), (["a"], [None]), ([3], ["a"]), ("a", 3), (["a"], [[]]), (None, ["a"])):
        with unchanged(metric), pytest.raises(InputError, match="must"):
            metric.update(preds, target)
    assert content(metric.compute()) == content(case.make()(["a cat"], ["a dog"]))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_a_text_alone_is_a_row(case: Any) -> None:
    rows: list[tuple[Any, Any, Any]] = [
        ("a cat", "a dog", "a dog"),
        ("a cat", ["a dog", "a Cat"], ["a dog", "a Cat"]),
        ("a cat", [["a dog"]], ["a dog"]),
        (["a cat"], "a dog", "a dog"),
    ]
    for preds, target, references in rows:
        metric, listed = case.make(), case.make()
        for _ in range(3):
            metric.update(preds, target)
            listed.update(["a cat"], [references])
        with checked_only():
            metric.update(preds, target=target)
        listed.update(["a cat"], [references])
        assert condition(metric) == condition(listed)


def test_plans_of_squad_leave_the_state_of_the_checked_path() -> None:
    rng, metric, checked = np.random.default_rng(7), text.SQuAD(), text.SQuAD()
    for rows in (1, 3, 0, 1):
        preds, target = squad_batch(_texts(rng, rows), _texts(rng, rows))
        metric.update(preds[1:], target)
        with checked_only():
            checked.update(preds[1:], target)
        assert condition(metric) == condition(checked)


@pytest.mark.parametrize("name", ["MatchErrorRate", "WordInfoLost", "WordInfoPreserved", "EditDistance"])
def test_a_single_pair_counts_as_with_a_copy_of_its_reference(name: str) -> None:
    rng = np.random.default_rng(8)
    for _ in range(100):
        preds, target = _texts(rng, 1), _texts(rng, 1)
        alone, copied = getattr(text, name)(), getattr(text, name)()
        alone.update(preds, target)
        copied.update(preds, [[*target, *target]])
        assert condition(alone) == condition(copied)


@pytest.mark.parametrize("name", ["WordErrorRate", "CharErrorRate"])
def test_a_single_pair_is_counted_as_in_a_batch(name: str) -> None:
    rng, kind = np.random.default_rng(6), getattr(text, name)
    for _ in range(200):
        preds, target = _texts(rng, 1), _texts(rng, 1)
        metric = kind()
        metric.update(preds, target)
        counts = edit_counts(preds, target, kind.tokenizer)
        assert metric.counts.tolist() == [int(counts.edits[0]), int(counts.reference_lengths[0])]
