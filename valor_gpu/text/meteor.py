"""METEOR by NLTK, with the WordNet that the caller names. No torch."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.argument_docs import arguments_of
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.text.tokens import Ints, texts_of

PARTS = ("noun", "verb", "adj", "adv")


@arguments_of(texts_of)
def meteor_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    wordnet: str | os.PathLike[str],
    alpha: float = 0.9,
    beta: float = 3.0,
    gamma: float = 0.5,
) -> NDArray[np.float64]:
    """Computes METEOR of every row in [0, 1], float64 ``[rows]``, as NLTK does; the best reference counts.

    Words are cut at white space and compared in lower case: equal, then by Porter stem, then by a common synonym set of
    WordNet. As in NLTK the third step looks up the stems that the second has made: ``big`` and ``large`` do not match,
    as ``larg`` is no word. A word is matched with the last one that is free, from the end of the prediction on.

    Source: Banerjee and Lavie, "METEOR: an automatic metric for MT evaluation with improved correlation with human
    judgments" (2005).

    Args:
        wordnet: folder of a WordNet 3 database (``data.noun``, ``index.noun``, ``lexnames`` and the others). Nothing is
            downloaded.
        alpha: weight of recall in the harmonic mean of both, from 0 to 1; that of precision is 1 - alpha.
        beta: exponent of the fragmentation.
        gamma: weight of the fragmentation.

    Raises:
        InputError: rows that are no texts, or no WordNet in that folder.
        MissingExtraError: NLTK is not installed.
    """
    texts, rows = texts_of(predictions, references)
    return meteor_of([text.split() for text in texts], rows, wordnet_reader(Path(wordnet)), alpha, beta, gamma)


@arguments_of(meteor_scores)
def meteor_of(
    words: Sequence[Sequence[str]], rows: Ints, reader: Any, alpha: float, beta: float, gamma: float
) -> NDArray[np.float64]:
    """METEOR of rows of words; see :func:`meteor_scores`.

    Args:
        words: of all texts, one after another.
        rows: int64 ``[rows + 1]`` where each row begins; its first text is the prediction.
        reader: WordNet, as :func:`wordnet_reader` opens it.
    """
    from nltk.translate.meteor_score import meteor_score

    scores = [
        meteor_score(words[a + 1 : b], words[a], wordnet=reader, alpha=alpha, beta=beta, gamma=gamma)
        for a, b in pairwise(rows.tolist())
    ]
    return np.array(scores, np.float64)


def wordnet_reader(folder: Path) -> Any:
    """NLTK's reader of the WordNet database in a folder."""
    needed = [f"{kind}.{part}" for kind in ("data", "index") for part in PARTS]
    needed += [*(f"{part}.exc" for part in PARTS), "lexnames"]
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise InputError(f"wordnet must be a folder with a WordNet database but {folder} lacks {missing[0]}")
    try:
        import nltk.data
        from nltk.corpus.reader import WordNetCorpusReader
    except ImportError:
        raise MissingExtraError("nltk", "text", "METEOR") from None
    if str(folder.resolve()) not in nltk.data.path:  # NLTK reads files below the folders of this list alone
        nltk.data.path.append(str(folder.resolve()))

    opened: list[Any] = []

    class Reader(WordNetCorpusReader):  # type: ignore[misc]
        """WordNet without NLTK's map to another version, which it would look for among its own downloads."""

        def map_wn(self, version: str = "wordnet") -> None:
            """No map."""

        def open(self, file: str) -> Any:
            """A file of the database, which is closed with the reader at the latest: NLTK leaves some open."""
            opened.append(super().open(file))
            return opened[-1]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The multilingual functions", UserWarning)  # METEOR uses none of them
        reader = Reader(str(folder), None)
    weakref.finalize(reader, _close, opened)
    return reader


def _close(files: list[Any]) -> None:
    for file in files:
        file.close()
