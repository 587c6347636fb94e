"""Metrics of texts by Azure's definitions, and Valor's under names of their own. No torch.

All metrics of a portion share one list of texts and one split of each kind: SQuAD's words for F1, runs of letters and
digits for ROUGE, Azure's tokens for BLEU, GLEU and METEOR.

Example:
    >>> from valor_gpu.evaluation.evaluators.base import evaluator
    >>> evaluator("bleu").score_rows([{"answer": "Paris.", "ground_truth": "Paris"}])
    [Outcome(value=0.06754436142034705)]
"""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.azure_tokens import azure_tokenizer
from valor_gpu.evaluation.evaluators.base import UNDEFINED, Outcome, number_outcome
from valor_gpu.evaluation.evaluators.texts import TextEvaluator, TextRows
from valor_gpu.text.bleu import bleu_of, counts_of, gleu_of, smoothed_bleu_of
from valor_gpu.text.match_counts import common_lengths, ngram_matches
from valor_gpu.text.meteor import meteor_of, wordnet_reader
from valor_gpu.text.overlap import shared_words
from valor_gpu.text.rouge import scores_of, summary_common
from valor_gpu.text.tokens import TOKENIZERS, TokenizedRows, drop_articles, word_rows

Path_ = str | os.PathLike[str]
_NO_WORD = "0 as in Azure: without a, an, the and punctuation no word is left of a text; exact_match compares it"
_WEIGHTS = (0.25, 0.25, 0.25, 0.25)
_NO_SIGNS, _NO_DIGITS = str.maketrans("", "", string.punctuation), str.maketrans("", "", string.digits)
_CHANGES: dict[str, Callable[[str], str]] = {
    "ignore_case": str.lower,
    "ignore_punctuation": lambda text: text.translate(_NO_SIGNS),
    "ignore_numbers": lambda text: text.translate(_NO_DIGITS),
    "ignore_articles": drop_articles,
    "ignore_white_space": lambda text: " ".join(text.split()),
}


class F1Score(TextEvaluator):
    """F1 of shared words, each counted as often as both texts have it; 0 where nothing is shared, as in Azure.

    Words are those of :func:`valor_gpu.text.plain_answer`. The best ground truth counts.
    """

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives F1, and precision and recall as details; a reason where a text that is not empty keeps no word."""
        found = _with_parts(*shared_words(texts.words("plain"), empty=0.0))
        for row in texts.unread("plain"):
            found[row] = found[row]._replace(reason=_NO_WORD)
        return found


class Rouge(TextEvaluator):
    """F-measure of ROUGE as the package rouge_score computes it, without stems; the best ground truth counts.

    A row whose texts the tokenizer cannot read is ``undefined``, see :func:`valor_gpu.text.tokens.unread_rows`.

    Args:
        name: of the evaluator.
        tokenizer: how texts become words, a name of :data:`valor_gpu.text.tokens.TOKENIZERS`.

    Raises:
        InputError: there is no such tokenizer.
    """

    code = "2"

    def __init__(self, name: str, tokenizer: str = "alphanumeric") -> None:
        check_choice("tokenizer", tokenizer, tuple(TOKENIZERS))
        super().__init__(name, **({} if tokenizer == "alphanumeric" else {"tokenizer": tokenizer}))
        self._tokenizer = tokenizer

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives the F-measure, and precision and recall as details."""
        kind, words = self.name.rpartition("rouge")[2], texts.words(self._tokenizer)
        if kind.isdigit():
            n = int(kind)
            scores = scores_of(words, ngram_matches(words, n).matches[:, n - 1], n)
        elif kind == "L":
            scores = scores_of(words, common_lengths(words), 1)
        else:
            scores = scores_of(*summary_common(texts.texts, words, self._tokenizer), 1)
        found = _with_parts(*scores)
        for row in texts.unread(self._tokenizer):
            found[row] = Outcome(None, UNDEFINED, self._reason())
        return found

    def _reason(self) -> str:
        if self._tokenizer != "alphanumeric":
            return f"tokenizer {self._tokenizer!r} finds no word in a text that is not empty"
        return (
            "words of a-z and 0-9 show nothing or too little of a text;"
            f' give metric_params={{"{self.name}": {{"tokenizer": "unicode"}}}} (--param {self.name}.tokenizer=unicode)'
        )


class ExactMatch(TextEvaluator):
    """1 where the answer equals a ground truth, else 0; as they stand, unless options leave something out.

    Options apply in the order of the table. With case, punctuation, articles and white space ignored, texts are equal
    where :func:`valor_gpu.text.plain_answer` makes them so.
    """

    def __init__(self, name: str, **options: bool) -> None:
        for option, value in options.items():
            check_type(option, value, bool)
        super().__init__(name, **options)

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Compares what the options leave of the texts."""
        plain = texts.texts
        for option, change in _CHANGES.items():
            if self.parameters.get(option):
                plain = [change(text) for text in plain]
        return [Outcome(float(plain[a] in plain[a + 1 : b])) for a, b in pairwise(texts.rows.tolist())]


class _AzureWords(TextEvaluator):
    """Base of the metrics over Azure's tokens.

    Args:
        name: of the evaluator.
        punkt: see :func:`azure_tokenizer`.
        parameters: of the metric.
    """

    def __init__(self, name: str, punkt: Path_ | None = None, **parameters: Any) -> None:
        super().__init__(name, **({} if punkt is None else {"punkt": str(punkt)}), **parameters)
        self._key, self._tokenizer = ("azure", str(punkt)), azure_tokenizer(punkt)

    def lists(self, texts: TextRows) -> list[list[str]]:
        """Tokens of every text."""
        return texts.share(("lists", self._key), lambda: [self._tokenizer(text) for text in texts.texts])

    def words(self, texts: TextRows) -> TokenizedRows:
        """The same as ids."""
        return texts.share(("words", self._key), lambda: word_rows(self.lists(texts), texts.rows))


class Bleu(_AzureWords):
    """BLEU-4 of a sentence by smoothing method 4 of Chen and Cherry (2014), as NLTK computes it."""

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives BLEU against all ground truths of a row."""
        return _values(smoothed_bleu_of(counts_of(self.words(texts), len(_WEIGHTS)), _WEIGHTS))


class Gleu(_AzureWords):
    """Google-BLEU of a sentence, as NLTK computes it; the best ground truth counts."""

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives GLEU over n-grams of 1 to 4 words."""
        return _values(gleu_of(self.words(texts)))


class Meteor(_AzureWords):
    """METEOR as NLTK computes it; the best ground truth counts. Nothing is downloaded.

    Args:
        name: of the evaluator.
        wordnet: folder of a WordNet 3 database.
        alpha: weight of precision against recall.
        beta: exponent of the fragmentation.
        gamma: weight of the fragmentation.
        punkt: see :func:`azure_tokenizer`.

    Raises:
        InputError: no WordNet is named, or none is there.
        MissingExtraError: NLTK is not installed.
    """

    def __init__(
        self,
        name: str,
        wordnet: Path_ | None = None,
        alpha: float = 0.9,
        beta: float = 3.0,
        gamma: float = 0.5,
        punkt: Path_ | None = None,
    ) -> None:
        if wordnet is None:
            raise InputError("wordnet must be the folder of a WordNet 3 database for meteor but got None")
        for key, number in (("alpha", alpha), ("beta", beta), ("gamma", gamma)):
            check_number(key, number, 0.0)
        self._reader = wordnet_reader(Path(wordnet))
        self._numbers = (alpha, beta, gamma)
        super().__init__(name, punkt, wordnet=str(wordnet), alpha=alpha, beta=beta, gamma=gamma)

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives METEOR."""
        return _values(meteor_of(self.lists(texts), texts.rows, self._reader, *self._numbers))


class AdaSimilarity(TextEvaluator):
    """Cosine of the embeddings of answer and ground truth, in [-1, 1], not rescaled; the best ground truth counts.

    Args:
        name: of the evaluator.
        embed: a function from a list of texts to their vectors; see :func:`valor_gpu.text.embedding_similarity`.

    Raises:
        InputTypeError: ``embed`` is no function.
    """

    def __init__(self, name: str, embed: Callable[[list[str]], Any] | None = None) -> None:
        if not callable(embed):
            raise InputTypeError(f"embed must be a function from texts to vectors for {name} but got {embed!r}")
        self.embed = embed
        super().__init__(name, embed=repr(embed) if hasattr(embed, "model") else getattr(embed, "__qualname__", ""))

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives the cosine; texts whose vectors are zeros have none."""
        from valor_gpu.text.embedding import embedding_similarity  # loads what asks servers, 20 ms that others need not

        failures: dict[str, Outcome] = {}
        cosines = embedding_similarity(texts.predictions, texts.references, partial(self._vectors, failures))
        outcomes = [number_outcome(value) for value in cosines.tolist()]
        for at, (answer, truths) in enumerate(zip(texts.predictions, texts.references) if failures else ()):
            asked = (answer, *([truths] if isinstance(truths, str) else truths))
            outcomes[at] = next((failures[text] for text in asked if text in failures), outcomes[at])
        return outcomes

    def _vectors(self, failures: dict[str, Outcome], texts: list[str]) -> Any:
        """The vectors of texts; zeros for those that fail, whose outcomes go into ``failures``.

        Their status is that of the request, so that a resumed run asks for them again.
        """
        from valor_gpu.judge.protocol import JudgeError, describe
        from valor_gpu.text.served_embedding import SomeFailed

        try:
            return self.embed(texts)
        except SomeFailed as error:
            failed, vectors = dict(error.failures), error.vectors
        except JudgeError as error:
            failed, vectors = dict.fromkeys(range(len(texts)), error), np.zeros((len(texts), 1))
        failures.update({texts[at]: Outcome(None, str(each.status), describe(each)) for at, each in failed.items()})
        return vectors


class ValorBleu(TextEvaluator):
    """BLEU-4 of a sentence as Valor computes it: Valor's words, no smoothing."""

    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Gives BLEU against all ground truths of a row."""
        return _values(bleu_of(counts_of(texts.words("valor"), len(_WEIGHTS)), _WEIGHTS))


def _values(values: NDArray[np.float64]) -> list[Outcome]:
    return [Outcome(value) for value in values.tolist()]


def _with_parts(precision: NDArray[Any], recall: NDArray[Any], f1: NDArray[Any]) -> list[Outcome]:
    columns: Iterable[tuple[float, float, float]] = zip(precision.tolist(), recall.tolist(), f1.tolist())
    return [Outcome(f, "ok", "", "", {"precision": p, "recall": r}) for p, r, f in columns]


_CLASSES: dict[str, type[TextEvaluator]] = {
    "f1_score": F1Score,
    "exact_match": ExactMatch,
    "bleu": Bleu,
    "gleu": Gleu,
    "meteor": Meteor,
    "ada_similarity": AdaSimilarity,
    "valor_bleu": ValorBleu,
}


def make(name: str, **parameters: Any) -> TextEvaluator:
    """The evaluator of that name; every other name is a kind of ROUGE."""
    return _CLASSES.get(name, Rouge)(name, **parameters)
