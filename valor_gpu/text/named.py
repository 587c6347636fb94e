"""Metrics of texts by torchmetrics' names, with its arguments and one number each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.text.chrf import check_chrf_choices
from valor_gpu.text.corpus_base import CorpusMetric, ScoredCorpus
from valor_gpu.text.metric_base import number_as_tensor
from valor_gpu.text.metrics import ROUGE, BleuOfCorpus, ChrfOfCorpus
from valor_gpu.text.mteval import corpus_tokenizer
from valor_gpu.text.rouge import TYPES, Normalizer
from valor_gpu.text.tokens import MOST_WORDS, check_size

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CorpusOptions, MetricOptions


def _check_bleu(n_gram: int, smooth: bool, tokenize: str) -> None:
    """Raises :class:`InputError` for an argument that :class:`BleuOfCorpus` knows by another name."""
    check_size("n_gram", n_gram, MOST_WORDS)
    check_type("smooth", smooth, bool)
    corpus_tokenizer(tokenize, "tokenize")


class SacreBLEUScore(BleuOfCorpus, CorpusMetric):
    """Computes BLEU of a corpus with a tokenizer of sacreBLEU, in [0, 1]; see :class:`valor_gpu.text.BLEU`.

    As in torchmetrics, nothing is smoothed by default, so that a corpus without a match of ``n_gram`` words has 0. The
    package sacreBLEU smooths such counts ("exp"), also by default: ``BLEU(smoothing="exp")`` gives its number.

    Source: M. Post, "A call for clarity in reporting BLEU scores" (2018).

    Args:
        n_gram: N, the longest n-gram that counts, at least 1.
        smooth: add 1 to all counts from n = 2 on.
        tokenize: ``13a``, ``intl``, ``zh``, ``char`` or ``none``. Those that need a model (``ja-mecab``, ``flores101``,
            ``flores200``, ...) are an error, since no model is downloaded: split the texts and give ``none``.

    Example:
        >>> metric = SacreBLEUScore()
        >>> metric.update(["the cat sat on the mat."], [["the cat sat on a mat."]])
        >>> round(float(metric.compute()), 4)
        0.4889
    """

    def __init__(
        self,
        n_gram: int = 4,
        smooth: bool = False,
        tokenize: str = "13a",
        lowercase: bool = False,
        weights: Sequence[float] | None = None,
        **kwargs: Unpack[CorpusOptions],
    ) -> None:
        _check_bleu(n_gram, smooth, tokenize)
        smoothing = "add-k" if smooth else "none"
        super().__init__(tokenize, smoothing, lowercase=lowercase, max_ngram=n_gram, weights=weights, **kwargs)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns BLEU of the corpus, float64 ``[]``; NaN without a row."""
        return number_as_tensor(self._numbers(self.state())[0]["bleu"], self.error.device)


class BLEUScore(SacreBLEUScore):
    """Computes BLEU of a corpus of words at white space, in [0, 1]; see :class:`valor_gpu.text.BLEU`.

    Source: Papineni et al., "BLEU: a method for automatic evaluation of machine translation" (2002).

    Example:
        >>> metric = BLEUScore()
        >>> metric.update(["the cat is on the mat"], [["there is a cat on the mat", "a cat is on the mat"]])
        >>> round(float(metric.compute()), 4)
        0.7598
    """

    def __init__(
        self,
        n_gram: int = 4,
        smooth: bool = False,
        weights: Sequence[float] | None = None,
        **kwargs: Unpack[CorpusOptions],
    ) -> None:
        super().__init__(n_gram, smooth, "none", weights=weights, **kwargs)


class CHRFScore(ChrfOfCorpus, ScoredCorpus):
    """Computes chrF++ of a corpus, in [0, 1]; see :class:`valor_gpu.text.CHRF`.

    Source: M. Popović, "chrF++: words helping character n-grams" (2017).

    Args:
        n_char_order: the longest character n-gram.
        n_word_order: the longest word n-gram, 0 for none.

    Example:
        >>> metric = CHRFScore()
        >>> metric.update(["the cat is on the mat"], [["there is a cat on the mat", "a cat is on the mat"]])
        >>> round(float(metric.compute()), 3)
        0.865
    """

    def __init__(
        self,
        n_char_order: int = 6,
        n_word_order: int = 2,
        beta: float = 2.0,
        lowercase: bool = False,
        whitespace: bool = False,
        return_sentence_level_score: bool = False,
        **kwargs: Unpack[CorpusOptions],
    ) -> None:
        kept = {"return_sentence_level_score": return_sentence_level_score}
        check_chrf_choices(n_char_order, n_word_order, beta, "n_")
        super().__init__(n_char_order, n_word_order, beta, lowercase, whitespace, **kept, **kwargs)


class ROUGEScore(ROUGE):
    """Computes mean ROUGE of rows; see :class:`valor_gpu.text.ROUGE`.

    Source: C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries" (2004).

    Args:
        rouge_keys: one kind or several: ``rouge1`` to ``rouge9``, ``rougeL`` and ``rougeLsum``.

    Example:
        >>> metric = ROUGEScore(rouge_keys="rouge1")
        >>> metric.update("My name is John", "Is your name John")
        >>> metric.compute()["rouge1_fmeasure"]
        tensor(0.7500, dtype=torch.float64)
    """

    def __init__(
        self,
        use_stemmer: bool = False,
        normalizer: Normalizer | None = None,
        tokenizer: str | Callable[[str], Sequence[str]] | None = None,
        accumulate: str = "best",
        rouge_keys: str | Sequence[str] = TYPES,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        kinds = [rouge_keys] if isinstance(rouge_keys, str) else rouge_keys
        super().__init__(kinds, use_stemmer, accumulate, normalizer, tokenizer, **kwargs)
