"""METEOR by NLTK, with the WordNet that the caller names. No torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.text.tokens import texts_of


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
    WordNet.

    Source: Banerjee and Lavie, "METEOR: an automatic metric for MT evaluation with improved correlation with human
    judgments" (2005).

    Args:
        predictions: one text per row.
        references: for each row one text or several.
        wordnet: folder of a WordNet 3 database (``data.noun``, ``index.noun``, ``lexnames`` and the others). Nothing is
            downloaded.
        alpha: weight of precision against recall.
        beta: exponent of the fragmentation.
        gamma: weight of the fragmentation.

    Raises:
        InputError: rows that are no texts, or no WordNet in that folder.
        MissingExtraError: NLTK is not installed.
    """
    texts, rows = texts_of(predictions, references)
    reader = _reader(Path(wordnet))
    from nltk.translate.meteor_score import meteor_score

    words, ends = [text.split() for text in texts], rows.tolist()
    scores = [
        meteor_score(words[a + 1 : b], words[a], wordnet=reader, alpha=alpha, beta=beta, gamma=gamma)
        for a, b in pairwise(ends)
    ]
    return np.array(scores, np.float64)


def _reader(folder: Path) -> Any:
    needed = [f"{kind}.{part}" for kind in ("data", "index") for part in ("noun", "verb", "adj", "adv")] + ["lexnames"]
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise InputError(f"wordnet must be a folder with a WordNet database but {folder} lacks {missing[0]}")
    try:
        from nltk.corpus.reader import WordNetCorpusReader
    except ImportError:
        raise MissingExtraError("nltk", "text", "METEOR") from None
    return WordNetCorpusReader(str(folder), None)
