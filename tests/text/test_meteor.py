"""METEOR against its definition, word by word in plain Python, with a WordNet of a few synonym sets."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fuzz import seeds
from valor_gpu import text

SETS = (("car", "auto", "motorcar"), ("fast", "quick"), ("big", "large"), ("home", "house"), ("auto", "self"))
TEXT = "The the cat cats car auto motorcar fast quick big large home house running runs run auto self a"
Matches = list[tuple[int, int]]


class FewWords:
    """WordNet as far as METEOR reads it."""

    def synsets(self, word: str) -> list[Any]:
        """The sets that hold a word."""
        return [
            SimpleNamespace(lemmas=lambda names=names: [SimpleNamespace(name=lambda n=n: n) for n in names])
            for names in SETS
            if word in names
        ]


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    pytest.importorskip("nltk.translate.meteor_score", reason="nltk is not installed")
    monkeypatch.setattr("valor_gpu.text.meteor.wordnet_reader", lambda folder: FewWords())
    return lambda *args, **numbers: text.meteor_scores(*args, wordnet="unused", **numbers).tolist()


def matches_of(here: Sequence[str], there: Sequence[str]) -> Matches:
    """Positions of equal words, then of stems, then of stems that share a set; from the end, with the last free one."""
    from nltk.stem import PorterStemmer

    stem = PorterStemmer().stem
    left, right = ([word.lower() for word in side] for side in (here, there))
    stems = [[stem(word) for word in side] for side in (left, right)]

    def synonyms(i: int, j: int) -> bool:
        word, other = stems[0][i], stems[1][j]
        return word == other or any(word in names and other in names for names in SETS)

    found: Matches = []
    for agree in (lambda i, j: left[i] == right[j], lambda i, j: stems[0][i] == stems[1][j], synonyms):
        for i in reversed(range(len(left))):
            taken = [j for _, j in found]
            free = [j for j in range(len(right)) if j not in taken and agree(i, j)]
            if free and i not in [k for k, _ in found]:
                found.append((i, free[-1]))
    return sorted(found)


def meteor(prediction: str, reference: str, alpha: float, beta: float, gamma: float) -> float:
    here, there = prediction.split(), reference.split()
    matches = matches_of(here, there)
    if not matches:
        return 0.0
    precision, recall = len(matches) / len(here), len(matches) / len(there)
    chunks = 1 + sum(after != (i + 1, j + 1) for (i, j), after in pairwise(matches))
    mean = precision * recall / (alpha * precision + (1 - alpha) * recall)
    return mean * (1 - gamma * (chunks / len(matches)) ** beta)


@pytest.mark.parametrize("numbers", [(0.9, 3.0, 0.5), (0.5, 1.0, 0.2), (0.85, 0.2, 0.6)])
@pytest.mark.parametrize("seed", seeds(2))
def test_equals_the_definition(scores: Callable[..., list[float]], seed: int, numbers: tuple[float, ...]) -> None:
    chosen = random.Random(seed)
    rows = [[" ".join(chosen.choices(TEXT.split(), k=chosen.randint(0, 9))) for _ in range(3)] for _ in range(60)]
    expected = [max(meteor(row[0], other, *numbers) for other in row[1:]) for row in rows]
    got = scores([row[0] for row in rows], [row[1:] for row in rows], **dict(zip(("alpha", "beta", "gamma"), numbers)))
    assert got == pytest.approx(expected, rel=1e-14)
    assert 0 < min(filter(None, expected)) < max(expected) <= 1 and 0.0 in expected


def test_by_hand(scores: Callable[..., list[float]]) -> None:
    # Two matches in one chunk of three and of two words: precision 2/3, recall 1.
    mean = (2 / 3) / (0.9 * 2 / 3 + 0.1)
    assert scores(["the car runs"], ["the auto"]) == pytest.approx([mean * (1 - 0.5 / 8)])
    assert scores(["the cats"], ["cat the"]) == [0.5]  # two chunks of two matches


def test_synonyms_are_looked_up_by_their_stems(scores: Callable[..., list[float]]) -> None:
    """As in NLTK: `large` has become `larg`, `house` `hous`, and neither is in WordNet."""
    assert scores(["car", "fast"], ["auto", "quick"]) == [0.5, 0.5]
    assert scores(["big", "large", "home"], ["large", "big", "house"]) == [0.0, 0.0, 0.0]
