"""Extended edit distance: edits of characters where a jump between words has a price of its own. No torch."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice, check_number
from valor_gpu.text.match_counts import row_addresses, texts_by_pair
from valor_gpu.text.tokens import TokenizedRows, first_best, texts_of

Floats = NDArray[np.float64]
LANGUAGES = ("en", "ja")

_BLANK = ord(" ")
_SIGNS = re.compile("[.!?,]")
_NUMBER = re.compile(r"(\d) ([.,]) (\d)")
_TITLE = re.compile("(Dr|Jr|Prof|Rev|Gen|Mr|Mt|Mrs|Ms) .")
_ABBREVIATIONS = (("e . g .", "e.g."), ("i . e .", "i.e."), ("U . S .", "U.S."))


@arguments_of(texts_of)
def extended_edit_distances(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    language: str = "en",
    alpha: float = 2.0,
    rho: float = 0.3,
    deletion: float = 0.2,
    insertion: float = 1.0,
) -> Floats:
    """Computes the extended edit distance of every row, float64 ``[rows]`` in [0, 1]; of several references the least.

    The cheapest way through the characters of the prediction that reads the reference once from left to right: a pair
    of different characters costs 1, a character of the reference without a pair ``insertion``, a character of the
    prediction without a pair ``deletion``, and after a blank of the reference a jump to any place costs ``alpha``. The
    least cost after each character of the reference is a visit to its place. With v visits to a place, places have
    ``v - 1`` too many, or 1 where v is 0; their sum times ``rho`` is the coverage c. The distance is
    ``min(1, (cost + c) / (length of the reference + c))``; where that divides by 0, 1 if there is a cost, else 0.

    Source: P. Stanchev, W. Wang and H. Ney, "EED: extended edit distance measure for machine translation" (2019).

    Args:
        language: rules that prepare texts. ``en`` sets ``. ! ? ,`` apart but for numbers, titles and abbreviations,
            makes white space one blank, and puts a blank at both ends. ``ja`` normalises to NFKC.
        alpha: price of a jump, at least 0.
        rho: price of a visit too many or too few, at least 0.
        deletion: price of a character of the prediction that has no pair, at least 0.
        insertion: price of a character of the reference that has no pair, at least 0.

    Raises:
        InputError: rows that are no texts; an argument that is out of range.

    Example:
        >>> extended_edit_distances(["this is the prediction"], ["this is the reference"]).round(4)
        array([0.3835])
    """
    check_prices(language, alpha, rho, deletion, insertion)
    texts, firsts = texts_of(predictions, references)
    rows = _characters([_PREPARED[language](text.rstrip()) for text in texts], firsts)
    distances = _distances(rows, np.array((alpha, rho, deletion, insertion), np.float64))
    return distances[first_best(-distances, rows.reference_counts)]


def check_prices(language: str, alpha: float, rho: float, deletion: float, insertion: float) -> None:
    """Raises :class:`InputError` for an argument of :func:`extended_edit_distances` that is out of range."""
    check_choice("language", language, LANGUAGES)
    for name, price in (("alpha", alpha), ("rho", rho), ("deletion", deletion), ("insertion", insertion)):
        check_number(name, price, 0, 1e6)


def _english(text: str) -> str:
    text = " ".join(re.split(r"\s+", _SIGNS.sub(r" \g<0>", text)))
    text = _TITLE.sub(r"\1.", _NUMBER.sub(r"\1\2\3", text))
    for apart, together in _ABBREVIATIONS:
        text = text.replace(apart, together)
    return f" {text} "


def _japanese(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


_PREPARED = {"en": _english, "ja": _japanese}


def _characters(texts: list[str], firsts: NDArray[np.int64]) -> TokenizedRows:
    """Texts as code points."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return TokenizedRows(points, np.cumsum(lengths) - lengths, lengths, np.ascontiguousarray(firsts, np.int64))


def _distances(rows: TokenizedRows, prices: Floats) -> Floats:
    """float64 ``[references]``: of the prediction and each reference."""
    if not native.usable("valor_cpu"):
        return np.array(list(_plain_distances(rows, *prices.tolist())), np.float64)
    out = np.zeros(int(rows.reference_counts.sum()))
    native.function("valor_cpu", "valor_text_extended_edits_cpu")(
        *row_addresses(rows), prices.ctypes.data, out.ctypes.data, native.threads()
    )  # fmt: skip
    return out


def _plain_distances(
    rows: TokenizedRows, alpha: float, rho: float, deletion: float, insertion: float
) -> Iterator[float]:
    """The definition, pair by pair."""
    for prediction, reference in texts_by_pair(rows):
        characters = prediction.tolist()
        costs = [0.0] + [1.0] * len(characters)
        visits = [-1] * len(costs)
        for character in reference.tolist():
            costs = _read(costs, characters, character, deletion, insertion)
            nearest = costs.index(min(costs))
            visits[nearest] += 1
            if character == _BLANK:
                costs = [min(cost, alpha + costs[nearest]) for cost in costs]
        coverage = rho * sum(each if each >= 0 else 1 for each in visits)
        cost, most = costs[-1] + coverage, len(reference) + coverage
        yield min(1.0, cost / most) if most else float(cost > 0)


def _read(costs: list[float], characters: list[int], character: int, deletion: float, insertion: float) -> list[float]:
    """Costs of all places after one more character of the reference."""
    found = [costs[0] + 1.0]
    for place, own in enumerate(characters):
        pair = costs[place] + (own != character)
        found.append(min(found[-1] + deletion, pair, costs[place + 1] + insertion))
    return found
