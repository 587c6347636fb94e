"""The extended edit distance is that of torchmetrics, by the native library and by the definition."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from torchmetrics.functional.text import extended_edit_distance as peer

from tests.fuzz import seeds, seeds_with_smoke
from valor_gpu import native
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.functional import extended_edit_distance
from valor_gpu.text import ExtendedEditDistance, extended_edit_distances, extended_edits

_SIGNS = "ab .,!?0\uff11カがが\t\né-x"
_PIECES = (
    "Dr .",
    "Mr x",
    "e . g .",
    "i.e.",
    "U . S .",
    "0 . 5",
    "1,5",
    "Mrs. A",
    "...",
    " ",
    "\n",
    "the cat",
    "日本 語。",
)


def texts(rng: random.Random, size: int) -> list[str]:
    return [
        "".join(rng.choice(_SIGNS) if rng.random() < 0.7 else rng.choice(_PIECES) for _ in range(rng.randint(0, 20)))
        for _ in range(size)
    ]


def rows(seed: int) -> tuple[list[str], list[list[str]], tuple[float, ...]]:
    rng = random.Random(seed)
    size = rng.randint(1, 4)
    target = [texts(rng, rng.randint(1, 3)) for _ in range(size)]
    return texts(rng, size), target, tuple(rng.choice((0.1, 0.2, 0.3, 1.0, 2.0)) for _ in range(4))


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("seed", seeds(20))
def test_torchmetrics(seed: int, language: Any) -> None:
    preds, target, prices = rows(seed)
    mean, distances = peer(preds, target, language, True, *prices)
    found_mean, found = extended_edit_distance(preds, target, language, True, *prices)
    assert found.float().tolist() == distances.tolist()
    assert float(found_mean) == pytest.approx(float(mean), rel=1e-6)


@pytest.mark.parametrize("seed", seeds_with_smoke(20, 3))
def test_the_definition_has_the_bits_of_the_library(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target, prices = rows(seed)
    for language in ("en", "ja"):
        found = extended_edit_distances(preds, target, language, *prices)
        with monkeypatch.context() as patch:
            patch.setattr(native, "usable", lambda library: False)
            plain = extended_edit_distances(preds, target, language, *prices)
        assert found.tobytes() == plain.tobytes()


def test_hand_values() -> None:
    # The blank pairs of both ends, a pair of different characters; each place is visited once.
    assert extended_edit_distances(["a"], ["b"], rho=0.0).tolist() == [1 / 3]
    assert extended_edit_distances(["a b"], ["a b"]).tolist() == [0.3 / (5 + 0.3)]
    assert extended_edit_distances(["", ""], ["", "a"], "ja", rho=0.0).tolist() == [0.0, 1.0]
    assert extended_edit_distances([""], [""], "ja").tolist() == [1.0]
    assert extended_edit_distances([], []).shape == (0,)
    assert math.isnan(ExtendedEditDistance().result().values["eed"])


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Mr. Smith", " Mr. Smith "),
        ("0 . 5", " 0.5 "),
        ("0.5", " 0 .5 "),
        ("e . g . this", " e.g. this "),
        ("U . S . A", " U.S. A "),
        ("a\t\n b ", " a b "),
    ],
)
def test_english_is_prepared(said: str, read: str) -> None:
    assert extended_edits._PREPARED["en"](said.rstrip()) == read


def test_the_least_of_several_references_counts() -> None:
    alone = [float(extended_edit_distances(["the cat"], [each])[0]) for each in ("a dog", "the cat", "cats")]
    assert extended_edit_distances(["the cat"], [["a dog", "the cat", "cats"]]).tolist() == [min(alone)] == [alone[1]]


def test_rows_and_mean() -> None:
    metric = ExtendedEditDistance(return_sentence_level_score=True)
    metric.update("the cat", "the dog")
    mean, row = metric.compute()  # type: ignore[misc]
    assert row.shape == () or row.shape == (1,)
    assert float(mean) == float(row)
    assert metric.result(intervals=20).counts == {"rows": 1}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"language": "de"}, InputError, "language must be one of"),
        ({"alpha": -1.0}, InputError, "alpha must be in"),
        ({"rho": float("nan")}, InputError, "rho must be in"),
        ({"deletion": "x"}, InputTypeError, "deletion must be a number"),
        ({"insertion": float("inf")}, InputError, "insertion must be in"),
        ({"return_sentence_level_score": 1}, InputTypeError, "return_sentence_level_score must be"),
    ],
)
def test_arguments_out_of_range(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ExtendedEditDistance(**given)
