"""Metrics of texts with a state, for loops, ranks and collections, over the functions of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice, check_type
from valor_gpu.text.bleu import (
    SMOOTHING,
    bleu_counts,
    check_weights,
    corpus_bleu,
    gleu_scores,
    value_of_sums,
)
from valor_gpu.text.chrf import ChrfCounts, check_chrf_choices, chrf_counts, chrf_scores, chrf_value
from valor_gpu.text.corpus_base import CorpusMetric, CorpusNumber, CorpusNumbers
from valor_gpu.text.metric_base import NamedMeans, OneMean, References, Texts
from valor_gpu.text.mteval import corpus_tokenizer
from valor_gpu.text.overlap import exact_match, token_f1
from valor_gpu.text.rouge import TYPES, Normalizer, check_rouge_choices, rouge_scores, rouge_size
from valor_gpu.text.tokens import MOST_WORDS, TOKENIZERS, Tokenizer, check_size, plain_answer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CorpusOptions, MetricOptions


@arguments_of(rouge_scores)
class ROUGE(NamedMeans):
    """Computes mean ROUGE of rows, with the numbers of rouge_score; see :func:`valor_gpu.text.rouge_scores`.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = ROUGE(["rouge1"])
        >>> metric.update(["the cat sat"], ["the cat sat on the mat"])
        >>> metric.compute()["rouge1_recall"]
        tensor(0.5000, dtype=torch.float64)
    """

    def __init__(
        self,
        rouge_types: Sequence[str] = TYPES,
        use_stemmer: bool = False,
        accumulate: str = "best",
        normalizer: Normalizer | None = None,
        tokenizer: str | Tokenizer | None = None,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        for kind in rouge_types:
            rouge_size(kind)
        check_rouge_choices(accumulate, normalizer, tokenizer)
        self.rouge_types, self.use_stemmer = tuple(rouge_types), use_stemmer
        self.accumulate, self.normalizer, self.tokenizer = accumulate, normalizer, tokenizer
        fields = ("fmeasure", "precision", "recall")
        self.names = tuple(f"{kind}_{field}" for kind in rouge_types for field in fields)
        config: dict[str, Any] = {"rouge_types": list(rouge_types), "use_stemmer": use_stemmer}
        config |= {"accumulate": accumulate} if accumulate != "best" else {}
        for name, each in (("normalizer", normalizer), ("tokenizer", tokenizer)):
            if each:
                config[name] = each if isinstance(each, str) else getattr(each, "__qualname__", type(each).__name__)
        super().__init__(config, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        choices = (self.use_stemmer, self.accumulate, self.normalizer, self.tokenizer)
        scores = rouge_scores(preds, target, self.rouge_types, *choices)
        columns = [column for s in scores.values() for column in (s.fmeasure, s.precision, s.recall)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(preds), 0))


@arguments_of(gleu_scores)
class GLEU(OneMean):
    """Computes mean Google-BLEU of rows, as NLTK's ``sentence_gleu``; see :func:`valor_gpu.text.gleu_scores`.

    Args:
        tokenizer: how texts become words: ``whitespace``, ``valor``, ``alphanumeric`` (runs of a-z and 0-9),
            ``characters``, ``nonspace`` or ``unicode`` (words of any script).

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = GLEU()
        >>> metric.update(["the cat sat"], ["the cat sat down"])
        >>> metric.compute()
        tensor(0.6000, dtype=torch.float64)
    """

    names = ("gleu",)

    def __init__(self, tokenizer: str = "whitespace", max_ngram: int = 4, **kwargs: Unpack[MetricOptions]) -> None:
        check_size("max_ngram", max_ngram, MOST_WORDS)
        self.tokenizer, self.max_ngram = tokenizer, max_ngram
        check_choice("tokenizer", tokenizer, tuple(TOKENIZERS))
        super().__init__({"tokenizer": tokenizer, "max_ngram": max_ngram}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        return gleu_scores(preds, target, self.tokenizer, self.max_ngram)


class TokenF1(NamedMeans):
    """Computes mean precision, recall and F1 of shared words; see :func:`valor_gpu.text.token_f1`.

    Args:
        normalize: compare plain answers (lower case, without punctuation and articles), see
            :func:`valor_gpu.text.plain_answer`.

    Example:
        >>> metric = TokenF1()
        >>> metric.update(["the red cat"], ["a cat"])
        >>> metric.compute()["recall"]
        tensor(1., dtype=torch.float64)
    """

    names = ("f1", "precision", "recall")

    def __init__(self, normalize: bool = True, **kwargs: Unpack[MetricOptions]) -> None:
        self.normalize = plain_answer if normalize else None
        super().__init__({"normalize": normalize}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        scores = token_f1(preds, target, self.normalize)
        return np.stack((scores.f1, scores.precision, scores.recall), axis=1)


@arguments_of(TokenF1)
class ExactMatch(OneMean):
    """Computes the fraction of rows that equal a reference; see :func:`valor_gpu.text.exact_match`.

    Example:
        >>> metric = ExactMatch()
        >>> metric.update(["The cat.", "dog"], ["cat", "cat"])
        >>> metric.compute()
        tensor(0.5000, dtype=torch.float64)
    """

    names = ("exact_match",)

    def __init__(self, normalize: bool = True, **kwargs: Unpack[MetricOptions]) -> None:
        self.normalize = plain_answer if normalize else None
        super().__init__({"normalize": normalize}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        return exact_match(preds, target, self.normalize)


@arguments_of(corpus_bleu)
class BleuOfCorpus(CorpusMetric):
    """Base of BLEU by any name.

    Args:
        tokenizer: of sacreBLEU ``13a`` (mteval-v13a, its default), ``intl`` (mteval-v14), ``zh`` (Chinese characters
            one by one), ``char`` (all characters) or ``none`` (at white space); or ``valor``, ``whitespace``,
            ``alphanumeric``, ``characters`` or ``nonspace``.

    Raises:
        InputError: an argument is out of range; the message names it.
    """

    higher_is_better = True

    def __init__(
        self,
        tokenizer: str = "13a",
        smoothing: str = "exp",
        smoothing_value: float | None = None,
        lowercase: bool = False,
        effective_order: bool = False,
        max_ngram: int = 4,
        weights: Sequence[float] | None = None,
        **kwargs: Unpack[CorpusOptions],
    ) -> None:
        check_choice("smoothing", smoothing, SMOOTHING)
        check_type("lowercase", lowercase, bool)
        check_size("max_ngram", max_ngram, MOST_WORDS)
        check_weights(weights, max_ngram)
        self._split: Any = corpus_tokenizer(tokenizer)
        self.tokenizer, self.lowercase, self.max_ngram = tokenizer, lowercase, max_ngram
        self.weights = None if weights is None else tuple(weights)
        self.choices = (smoothing, smoothing_value, effective_order, self.weights)
        config = {"tokenizer": tokenizer, "lowercase": lowercase, "max_ngram": max_ngram, "smoothing": smoothing}
        config |= {"smoothing_value": smoothing_value, "effective_order": effective_order}
        config |= {} if weights is None else {"weights": list(weights)}
        self._state_rule = [(n, n + max_ngram) for n in range(max_ngram)]
        super().__init__(2 * max_ngram + 2, config, **kwargs)

    def _row_counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        counts = bleu_counts(preds, target, self.max_ngram, self._split, self.lowercase)
        return np.column_stack((counts.matches, counts.totals, counts.prediction_lengths, counts.reference_lengths))

    def _counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        counts = bleu_counts(preds, target, self.max_ngram, self._split, self.lowercase)
        lengths = [counts.prediction_lengths.sum(), counts.reference_lengths.sum()]
        return np.concatenate((counts.matches.sum(0), counts.totals.sum(0), lengths))

    def _values(self, counts: list[int]) -> dict[str, float]:
        sizes, (*_, predicted, reference) = self.max_ngram, counts
        value, precisions, penalty = value_of_sums(
            counts[:sizes], counts[sizes : 2 * sizes], predicted, reference, *self.choices
        )
        by_size = {f"precision_{n}": precision for n, precision in enumerate(precisions, 1)}
        return {"bleu": value, **by_size, "brevity_penalty": penalty}


class BLEU(BleuOfCorpus, CorpusNumbers):
    """Computes BLEU of a corpus, in [0, 1], with the numbers of sacreBLEU; see :func:`valor_gpu.text.corpus_bleu`.

    Example:
        >>> metric = BLEU()
        >>> metric.update(["the cat sat on the mat"], ["the cat sat on a mat"])
        >>> round(float(metric.compute()["bleu"]), 4)
        0.5373
    """


@arguments_of(chrf_scores)
class ChrfOfCorpus(CorpusMetric):
    """Base of chrF by any name."""

    higher_is_better = True

    def __init__(
        self,
        char_order: int = 6,
        word_order: int = 0,
        beta: float = 2.0,
        lowercase: bool = False,
        whitespace: bool = False,
        **kwargs: Any,
    ) -> None:
        check_chrf_choices(char_order, word_order, beta)
        check_type("lowercase", lowercase, bool)
        check_type("whitespace", whitespace, bool)
        self.orders, self.beta = (char_order, word_order), beta
        self.lowercase, self.whitespace = lowercase, whitespace
        config = {"char_order": char_order, "word_order": word_order, "beta": beta, "lowercase": lowercase}
        config |= {"whitespace": True} if whitespace else {}
        orders = char_order + word_order
        self._state_rule = [(2 * orders + n, side * orders + n) for n in range(orders) for side in (0, 1)]
        super().__init__(3 * orders, config, **kwargs)

    def _row_counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        counts = chrf_counts(preds, target, *self.orders, self.beta, self.lowercase, self.whitespace)
        return np.concatenate(counts, axis=1)

    def _row_scores(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return chrf_value(ChrfCounts(*np.split(counts, 3, axis=-1)), self.beta)

    def _values(self, counts: list[int]) -> dict[str, float]:
        return {"chrf": float(self._row_scores(np.array(counts)))}


class CHRF(ChrfOfCorpus, CorpusNumber):
    """Computes chrF of a corpus, in [0, 1], with the numbers of sacreBLEU; see :func:`valor_gpu.text.chrf_scores`.

    Example:
        >>> metric = CHRF()
        >>> metric.update(["the cat sat"], ["the cat sits"])
        >>> round(float(metric.compute()), 4)
        0.6103
    """

    def __init__(
        self,
        char_order: int = 6,
        word_order: int = 0,
        beta: float = 2.0,
        lowercase: bool = False,
        whitespace: bool = False,
        **kwargs: Unpack[CorpusOptions],
    ) -> None:
        super().__init__(char_order, word_order, beta, lowercase, whitespace, **kwargs)
