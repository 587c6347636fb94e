"""Metrics of a corpus: counts of rows are added up before anything is divided, so that there is no mean. No torch.

Example:
    >>> from valor_gpu.evaluation.evaluators.base import evaluator
    >>> wer = evaluator("word_error_rate")
    >>> rows = wer.score_rows([{"answer": "a b", "ground_truth": "a b c d"}, {"answer": "x", "ground_truth": "x"}])
    >>> [row.details["counts"] for row in rows], wer.summary_name
    ([[2, 4], [0, 1]], 'word_error_rate')
    >>> wer.pool([2, 5]).value
    0.4
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import UNDEFINED, Outcome, number_outcome
from valor_gpu.evaluation.evaluators.texts import TextEvaluator, TextRows
from valor_gpu.text.bleu import BleuCounts, corpus_value, counts_of, tokenize_13a
from valor_gpu.text.overlap import edit_counts
from valor_gpu.text.tokens import word_rows

_ORDER = 4


class CorpusEvaluator(TextEvaluator):
    """Base of pooled metrics: a row has its own value, and its counts under ``details["counts"]``.

    Attributes:
        places: how many counts a row has.
    """

    pooled = True
    places: int

    def check_counts(self, counts: Sequence[int]) -> None:
        """Raises unless ``counts`` are as many sums as the metric has, none negative."""
        if len(counts) != self.places or min(counts) < 0:
            raise InputError(f"counts must be {self.places} sums of at least 0 for {self.name} but got {list(counts)}")


class CorpusBleu(CorpusEvaluator):
    """BLEU of a corpus as sacreBLEU computes it (tokens 13a, exponential smoothing), in [0, 1].

    The counts are matches and n-grams of 1 to 4 words, then the words of the answers and of the nearest ground truths.
    """

    places = 2 * _ORDER + 2

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives a row's own BLEU, by the same smoothing, and its counts."""
        counts = counts_of(word_rows(map(tokenize_13a, texts.texts), texts.rows), _ORDER)
        lengths = np.stack((counts.prediction_lengths, counts.reference_lengths), axis=1)
        table = np.concatenate((counts.matches, counts.totals, lengths), axis=1)
        return [self.pool(row)._replace(details={"counts": row}) for row in table.tolist()]

    def pool(self, counts: Sequence[int]) -> Outcome:
        """BLEU of sums of counts."""
        self.check_counts(counts)
        sums = np.array(counts, np.int64)[None]
        parts = BleuCounts(sums[:, :_ORDER], sums[:, _ORDER : 2 * _ORDER], sums[:, -2], sums[:, -1])
        return number_outcome(corpus_value(parts)[0])


class WordErrorRate(CorpusEvaluator):
    """Words inserted, deleted and replaced, divided by the words of the ground truths; it may exceed 1.

    The counts are edits and words of the nearest ground truth.
    """

    places = 2

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives a row's own rate and its counts."""
        counts = edit_counts(texts.predictions, texts.references)
        rows = np.stack((counts.edits, counts.reference_lengths), axis=1).tolist()
        return [self.pool(row)._replace(details={"counts": row}) for row in rows]

    def pool(self, counts: Sequence[int]) -> Outcome:
        """The rate of sums of counts; none where words stand against no ground truth."""
        self.check_counts(counts)
        edits, words = counts
        if words:
            return number_outcome(edits / words)
        return Outcome(None, UNDEFINED, "the ground truths have no word") if edits else Outcome(0.0)


_CLASSES: dict[str, type[CorpusEvaluator]] = {"corpus_bleu": CorpusBleu, "word_error_rate": WordErrorRate}


def make(name: str) -> CorpusEvaluator:
    """The evaluator of that name."""
    return _CLASSES[name](name)
