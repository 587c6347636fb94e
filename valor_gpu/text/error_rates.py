"""Metrics of edits: error rates of words and characters, information lost, edit distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.result import Result
from valor_gpu.state import check_elements
from valor_gpu.text.corpus_base import CorpusNumber, ScoredCorpus
from valor_gpu.text.edit_rate import WORD_UNITS, TerCounts, ter_counts, ter_scores, ter_value, ter_values
from valor_gpu.text.extended_edits import check_prices, extended_edit_distances
from valor_gpu.text.match_counts import edit_distance_of_words
from valor_gpu.text.metric_base import OneMean, References, RowScores, Texts, number_as_tensor
from valor_gpu.text.overlap import nearest_references, weighted_distances
from valor_gpu.text.tokens import TOKENIZERS, texts_of, tokenize_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CorpusOptions, MetricOptions

_SHORT = 1000  # characters


def _one_pair(preds: Texts, target: References) -> bool:
    """Whether a batch is two short texts, which take longer to arrange as a table than to compare."""
    if not (type(preds) is type(target) is list and len(preds) == len(target) == 1):
        return False
    prediction, reference = preds[0], target[0]
    return type(prediction) is str and type(reference) is str and len(prediction) + len(reference) <= _SHORT


class _EditMetric(CorpusNumber):
    """Base of the numbers of edits and lengths of all rows.

    A row with several references counts by the nearest of them, the one that needs the fewest edits.

    Args:
        lowercase: compare in lower case.
    """

    higher_is_better = False
    tokenizer = "whitespace"
    size = 4
    name: str

    def __init__(self, lowercase: bool = False, **kwargs: Unpack[CorpusOptions]) -> None:
        self.lowercase = lowercase
        super().__init__(self.size, {"lowercase": lowercase}, **kwargs)

    def _counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        if not self.lowercase and _one_pair(preds, target):
            first, second = map(TOKENIZERS[self.tokenizer], (preds[0], str(target[0])))
            sizes = len(second), len(first), max(len(first), len(second))
            return np.array((edit_distance_of_words(first, second), *sizes)[: self.size])
        return super()._counts(preds, target)

    def _row_counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        rows = tokenize_rows(*texts_of(preds, target, self.lowercase), self.tokenizer)
        edits, reference = nearest_references(rows)
        predicted = rows.prediction_lengths
        counts = edits, reference, predicted, np.maximum(predicted, reference)
        return np.stack(counts[: self.size], 1)


class _ErrorRate(_EditMetric):
    """Base of the error rates: edits of all rows over the length of all references."""

    plot_upper_bound = None
    size = 2

    def _values(self, counts: list[int]) -> dict[str, float]:
        edits, length = counts
        return {self.name: edits / length if length else math.nan if edits else 0.0}


class WordErrorRate(_ErrorRate):
    """Computes the word error rate of a corpus: edits over words; see :func:`valor_gpu.text.edit_counts`.

    Example:
        >>> metric = WordErrorRate()
        >>> metric.update(["the cat sat"], ["the cat sat down"])
        >>> metric.compute()
        tensor(0.2500, dtype=torch.float64)
    """

    name = "wer"


class CharErrorRate(_ErrorRate):
    """Computes the character error rate of a corpus: edits over characters; see :func:`valor_gpu.text.edit_counts`.

    Example:
        >>> metric = CharErrorRate()
        >>> metric.update(["kitten"], ["sitting"])
        >>> round(float(metric.compute()), 4)
        0.4286
    """

    tokenizer, name = "characters", "cer"


class MatchErrorRate(_EditMetric):
    """Computes the match error rate of a corpus: edits of all rows over the words of the longer text of each row.

    In [0, 1]; NaN where no text has a word. The divisor is that of torchmetrics. It is below the number of aligned
    words, by which Morris et al. and jiwer divide, where a row needs insertions and deletions both.

    Source: Morris, Maier and Green, "From WER and RIL to MER and WIL" (2004).

    Example:
        >>> metric = MatchErrorRate()
        >>> metric.update(["this is the prediction", "there is an other sample"],
        ...               ["this is the reference", "there is another one"])
        >>> round(float(metric.compute()), 4)
        0.4444
    """

    name = "mer"
    _state_rule = ((0, 3), (1, 3), (2, 3))

    def _values(self, counts: list[int]) -> dict[str, float]:
        edits, _, _, longer = counts
        return {self.name: edits / longer if longer else math.nan}


class WordInfoPreserved(_EditMetric):
    """Computes the word information preserved of a corpus: ``H / R * H / P``, of R reference and P predicted words.

    H, the words that agree, are the words of the longer text of each row without its edits. In [0, 1]; NaN where the
    references or the predictions have no word. H is that of torchmetrics; it is below the number of equal aligned
    words, which Morris et al. and jiwer take, where a row needs insertions and deletions both.

    Source: Morris, Maier and Green, "From WER and RIL to MER and WIL" (2004).

    Example:
        >>> metric = WordInfoPreserved()
        >>> metric.update(["this is the prediction", "there is an other sample"],
        ...               ["this is the reference", "there is another one"])
        >>> round(float(metric.compute()), 4)
        0.3472
    """

    higher_is_better = True
    name = "wip"
    _state_rule = ((0, 3), (1, 3), (2, 3))

    def _values(self, counts: list[int]) -> dict[str, float]:
        edits, reference, predicted, longer = counts
        hits = longer - edits
        return {self.name: hits / reference * (hits / predicted) if reference and predicted else math.nan}


class WordInfoLost(WordInfoPreserved):
    """Computes the word information lost of a corpus: 1 without the information that is preserved.

    In [0, 1]; NaN where the references or the predictions have no word; see :class:`valor_gpu.text.WordInfoPreserved`.

    Source: Morris, Maier and Green, "From WER and RIL to MER and WIL" (2004).

    Example:
        >>> metric = WordInfoLost()
        >>> metric.update(["this is the prediction", "there is an other sample"],
        ...               ["this is the reference", "there is another one"])
        >>> round(float(metric.compute()), 4)
        0.6528
    """

    higher_is_better = False
    name = "wil"

    def _values(self, counts: list[int]) -> dict[str, float]:
        return {self.name: 1 - super()._values(counts)[self.name]}


@dataclass(frozen=True)
class RowDistances(RowScores):
    """Distances of every row.

    Attributes:
        scores: float64 ``[N, 1]``, whole numbers.
    """

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless every distance is a whole number of at least 0."""
        whole = (self.scores >= 0) & (self.scores <= 2**53) & (self.scores == self.scores.round())
        check_elements("scores", self.scores, whole, "be whole numbers from 0 to 2^53")


class EditDistance(OneMean):
    """Computes the Levenshtein distance of texts in characters: of the nearest reference where a row has several.

    Source: V. Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals" (1966).

    Args:
        substitution_cost: cost of replacing a character, a whole number of at least 0; insertions and deletions cost 1.
        reduction: ``mean`` over rows, float64 ``[]`` (NaN without a row); ``sum``, int64 ``[]``; ``none`` or None for
            the distance of every row, int64 ``[N]``.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = EditDistance()
        >>> metric.update(["rain", "lnaguaeg"], ["shine", "language"])
        >>> metric.compute()
        tensor(3.5000, dtype=torch.float64)
    """

    higher_is_better = False
    plot_upper_bound = None
    names = ("edit_distance",)
    _rows_kind = RowDistances

    def __init__(
        self, substitution_cost: int = 1, reduction: str | None = "mean", **kwargs: Unpack[MetricOptions]
    ) -> None:
        if isinstance(substitution_cost, bool) or not isinstance(substitution_cost, int) or substitution_cost < 0:
            raise InputError(f"substitution_cost must be a whole number of at least 0 but got {substitution_cost!r}")
        reduction = "none" if reduction is None else reduction
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        self.substitution_cost, self.reduction = substitution_cost, reduction
        super().__init__({"substitution_cost": substitution_cost, "reduction": reduction}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        if self.substitution_cost == 1 and _one_pair(preds, target):
            return np.array([edit_distance_of_words(preds[0], str(target[0]))], np.float64)
        return weighted_distances(preds, target, self.substitution_cost).astype(np.float64)

    def _reduced(self, scores: Tensor) -> Tensor:
        distances = scores[:, 0].long()
        return distances.sum() if self.reduction == "sum" else distances

    def compute(self) -> Tensor:
        """Returns the distance, of the dtype and shape that ``reduction`` says."""
        return super().compute() if self.reduction == "mean" else self._reduced(self.state().scores)

    def _result_of(self, scores: Tensor) -> Result:
        if self.reduction == "mean":
            return super()._result_of(scores)
        value = self._reduced(scores).cpu().numpy()
        number = int(value) if self.reduction == "sum" else value
        return Result({self.names[0]: number}, self._signature(), {"rows": len(scores)}, {})


@arguments_of(ter_scores)
class TranslationEditRate(ScoredCorpus):
    """Computes the translation edit rate of a corpus, as sacreBLEU; see :func:`valor_gpu.text.ter_scores`.

    Edits of all rows over the sum of the mean lengths of their references, which is exact for up to 16 references per
    row and else rounded to 1/720720 of a word. sacreBLEU's score is 100 times as much.

    Source: Snover et al., "A study of translation edit rate with targeted human annotation" (2006).

    Example:
        >>> metric = TranslationEditRate()
        >>> metric.update(["on the mat the cat sat"], [["the cat sat on the mat", "a cat sat on a mat"]])
        >>> round(float(metric.compute()), 4)
        0.1667
    """

    higher_is_better = False
    plot_upper_bound = None

    def __init__(
        self,
        normalize: bool = False,
        no_punctuation: bool = False,
        lowercase: bool = True,
        asian_support: bool = False,
        return_sentence_level_score: bool = False,
        **kwargs: Unpack[CorpusOptions],
    ) -> None:
        self.choices = (normalize, no_punctuation, lowercase, asian_support)
        names = ("normalize", "no_punctuation", "lowercase", "asian_support")
        for name, value in zip(names, self.choices):
            check_type(name, value, bool)
        super().__init__(2, dict(zip(names, self.choices)), return_sentence_level_score, **kwargs)

    def _row_counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        return np.stack(ter_counts(preds, target, *self.choices), axis=1)

    def _row_scores(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return ter_values(TerCounts(*counts.T))

    def _values(self, counts: list[int]) -> dict[str, float]:
        edits, length = counts
        return {"ter": ter_value(edits, length / WORD_UNITS)}


@arguments_of(extended_edit_distances)
class ExtendedEditDistance(OneMean):
    """Computes the mean extended edit distance of rows; see :func:`valor_gpu.text.extended_edit_distances`.

    Source: P. Stanchev, W. Wang and H. Ney, "EED: extended edit distance measure for machine translation" (2019).

    Args:
        return_sentence_level_score: compute a tuple: the mean, and the distance of every row.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = ExtendedEditDistance()
        >>> metric.update(["this is the prediction", "here is an other sample"],
        ...               ["this is the reference", "here is another one"])
        >>> round(float(metric.compute()), 4)
        0.3078
    """

    higher_is_better = False
    names = ("eed",)

    def __init__(
        self,
        language: str = "en",
        return_sentence_level_score: bool = False,
        alpha: float = 2.0,
        rho: float = 0.3,
        deletion: float = 0.2,
        insertion: float = 1.0,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_prices(language, alpha, rho, deletion, insertion)
        check_type("return_sentence_level_score", return_sentence_level_score, bool)
        self.language, self.return_sentence_level_score = language, return_sentence_level_score
        self.alpha, self.rho, self.deletion, self.insertion = map(float, (alpha, rho, deletion, insertion))
        names = ("language", "alpha", "rho", "deletion", "insertion")
        super().__init__({name: getattr(self, name) for name in names}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        prices = (self.alpha, self.rho, self.deletion, self.insertion)
        return extended_edit_distances(preds, target, self.language, *prices)

    @gives_own_memory
    def compute(self) -> Tensor | tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns the mean, float64 ``[]``; NaN without a row.

        With ``return_sentence_level_score`` a tuple of it and those of rows, float64 ``[N]``, of one row ``[]``.
        """
        scores = self.state().scores
        mean = number_as_tensor(self._means(scores)[0], self.error.device)
        return (mean, scores[:, 0].clone()) if self.return_sentence_level_score else mean
