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
from valor_gpu.text.bleu import BleuCounts, corpus_value, counts_of
from valor_gpu.text.chrf import ChrfCounts, chrf_counts, chrf_value
from valor_gpu.text.mteval import tokenize_13a
from valor_gpu.text.overlap import edit_counts
from valor_gpu.text.tokens import word_rows

_ORDER = 4  # words
_CHARACTERS = 6


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


class ErrorRate(CorpusEvaluator):
    """Base of rates of edits: what is inserted, deleted and replaced, by the length of the ground truths; may exceed 1.

    The counts are edits and length of the nearest ground truth.

    Attributes:
        tokenizer: of :func:`valor_gpu.text.edit_counts`.
        unit: what it gives, for messages.
    """

    places = 2
    tokenizer: str
    unit: str

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives a row's own rate and its counts."""
        counts = edit_counts(texts.predictions, texts.references, self.tokenizer)
        rows = np.stack((counts.edits, counts.reference_lengths), axis=1).tolist()
        return [self.pool(row)._replace(details={"counts": row}) for row in rows]

    def pool(self, counts: Sequence[int]) -> Outcome:
        """The rate of sums of counts; none where something stands against nothing."""
        self.check_counts(counts)
        edits, length = counts
        if length:
            return number_outcome(edits / length)
        return Outcome(None, UNDEFINED, f"the ground truths have no {self.unit}") if edits else Outcome(0.0)


class WordErrorRate(ErrorRate):
    """Edits of words at white space."""

    tokenizer, unit = "whitespace", "word"


class CharErrorRate(ErrorRate):
    """Edits of characters, white space among them."""

    tokenizer, unit = "characters", "character"


class CorpusChrf(CorpusEvaluator):
    """chrF of a corpus as sacreBLEU computes it (characters without white space, n-grams of 1 to 6), in [0, 1].

    The counts are n-grams of the answers, of their best ground truths, and of both.
    """

    places = 3 * _CHARACTERS

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives a row's own chrF and its counts."""
        table = np.concatenate(chrf_counts(texts.predictions, texts.references), axis=1)
        return [self.pool(row)._replace(details={"counts": row}) for row in table.tolist()]

    def pool(self, counts: Sequence[int]) -> Outcome:
        """The chrF of sums of counts."""
        self.check_counts(counts)
        return number_outcome(float(chrf_value(ChrfCounts(*np.array(counts, np.int64).reshape(3, 1, -1)))[0]))


_CLASSES: dict[str, type[CorpusEvaluator]] = {
    "corpus_bleu": CorpusBleu,
    "corpus_chrf": CorpusChrf,
    "word_error_rate": WordErrorRate,
    "char_error_rate": CharErrorRate,
}


def make(name: str) -> CorpusEvaluator:
    """The evaluator of that name."""
    return _CLASSES[name](name)
