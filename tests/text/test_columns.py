"""Texts as arrays and as columns of tables have the numbers of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.contents import content
from tests.contract import METRICS
from valor_gpu import functional, text
from valor_gpu.errors import InputError, InputTypeError

PREDS, TARGET = ["the cat sat", "a dog", "ein Café"], ["the cat sat down", "a dog", "das Cafe"]
NESTED = [["the cat", "a cat sat"], ["dogs", "dog"], ["Café", "ein Café"]]


def columns() -> dict[str, Callable[[Any], Any]]:
    """Kind of a column to what makes it of a list."""
    found: dict[str, Callable[[Any], Any]] = {
        "array": np.array,
        "objects": lambda texts: np.array([*texts, None], dtype=object)[:-1],
        "tuple": tuple,
    }
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found["series"] = lambda texts: pandas.Series(texts, index=range(7, 7 + len(texts)))
    found["index"] = pandas.Index
    found["arrow"] = arrow.array
    found["chunks"] = lambda texts: arrow.chunked_array([texts[:1], texts[1:]])
    return found


class Listed:
    """A column of a library that is not installed, as polars': no sequence, but it lists its texts."""

    def __init__(self, texts: list[Any]) -> None:
        self._texts = texts

    def to_list(self) -> list[Any]:
        return self._texts


KINDS = ("array", "objects", "tuple", "series", "index", "arrow", "chunks", "listed")


def made(kind: str, texts: list[Any]) -> Any:
    return Listed(texts) if kind == "listed" else columns()[kind](texts)


@pytest.mark.parametrize("kind", KINDS)
def test_classes(kind: str) -> None:
    for case in METRICS:
        if case.name not in text.__all__ or case.name == "SQuAD":
            continue
        metric, expected = case.make(), case.make()
        for target in (TARGET, NESTED):
            metric.update(made(kind, PREDS), target if kind in ("index",) and target is NESTED else made(kind, target))
            expected.update(PREDS, target)
        assert content(metric.compute()) == content(expected.compute()), case.name


@pytest.mark.parametrize("kind", KINDS)
def test_functions(kind: str) -> None:
    preds, target = made(kind, PREDS), made(kind, TARGET)
    for name in ("bleu_score", "char_error_rate", "chrf_score", "edit_distance", "match_error_rate", "rouge_score",
                 "sacre_bleu_score", "translation_edit_rate", "word_error_rate", "word_information_lost"):  # fmt: skip
        function = getattr(functional, name)
        assert content(function(preds, target)) == content(function(PREDS, TARGET)), name
    assert text.exact_match(preds, target).tolist() == text.exact_match(PREDS, TARGET).tolist()
    assert (
        text.token_f1(preds, [made(kind, row) for row in NESTED]).f1.tolist()
        == text.token_f1(PREDS, NESTED).f1.tolist()
    )
    assert text.corpus_bleu(preds, target).value == text.corpus_bleu(PREDS, TARGET).value


def test_values_that_are_no_text_are_named() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(InputTypeError, match=r"predictions\[1\] must be str but got float"):
        text.exact_match(pandas.Series(["a", float("nan")], dtype=object), ["a", "b"])
    with pytest.raises(InputError, match="predictions must be a sequence with one entry per row but got ndarray"):
        text.exact_match(np.zeros(2), ["a", "b"])
    with pytest.raises(InputError, match="references must be a sequence with one entry per row but got DataFrame"):
        text.exact_match(["a"], pandas.DataFrame({"a": ["a"]}))
    for given, kind in (
        (np.zeros(2), "ndarray of float64"),
        (pandas.DataFrame({"a": ["a"]}), "DataFrame: give one of"),
    ):
        with pytest.raises(InputError, match=f"predictions must be a sequence with one entry per row but got {kind}"):
            text.corpus_bleu(given, ["a", "b"])
    with pytest.raises(InputError, match="must be"):
        text.WordErrorRate().update(torch.zeros(1), ["a"])


def test_a_text_alone_with_its_references_in_a_list_of_lists() -> None:
    for target in (["x y", "a b"], [["x y", "a b"]]):
        assert functional.rouge_score("a b", target)["rouge1_fmeasure"] == 1
        assert text.ROUGEScore()("a b", target)["rougeL_fmeasure"] == 1
    assert functional.rouge_score("a b", "a b")["rouge2_fmeasure"] == 1
