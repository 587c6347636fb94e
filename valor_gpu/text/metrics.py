"""Stateful text metrics: thin objects over the functions of this package, for loops, ranks and collections."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.metric import Metric
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, joined, summed
from valor_gpu.text.bleu import SMOOTHING, BleuCounts, bleu_counts, corpus_value, gleu_scores, tokenize_13a
from valor_gpu.text.chrf import ChrfCounts, chrf_counts, chrf_value
from valor_gpu.text.overlap import EditCounts, edit_counts, exact_match, plain_answer, token_f1
from valor_gpu.text.rouge import TYPES, rouge_scores, rouge_size

Texts = Sequence[str]
References = Sequence[str | Sequence[str]]
_NO_ROWS = "no row was added"


@dataclass(frozen=True)
class RowScores(State):
    """``scores``: float64 ``[N, M]``, M scores of every row."""

    scores: Tensor = joined()


@dataclass(frozen=True)
class CorpusCounts(State):
    """``counts``: int64 ``[M]`` sums over rows; ``rows``: int64 ``[]``."""

    counts: Tensor = summed()
    rows: Tensor = summed()


class RowMetric(Metric[RowScores]):
    """Means of scores of rows; a subclass says which, by ``names`` and :meth:`_scores`.

    The mean is taken over sorted scores, so that no split, order or number of ranks changes a bit.
    """

    higher_is_better = True
    names: tuple[str, ...]

    def __init__(self, config: Mapping[str, Any], **kwargs: Any) -> None:
        self._choices = dict(config)
        super().__init__(RowScores(torch.zeros((0, len(self.names)), dtype=torch.float64)), self._choices, **kwargs)

    @abstractmethod
    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        """float64 ``[N, M]``."""

    def update(self, preds: Texts, target: References) -> None:
        """Score rows and keep their scores.

        Args:
            preds: a text a row.
            target: for each row one text or several.

        Raises:
            InputError: rows that are no texts.
        """
        scores = torch.from_numpy(self._scores(preds, target).reshape(-1, len(self.names)))
        self._add(RowScores(scores.to(self.error.device, non_blocking=True)))

    def compute(self) -> dict[str, Tensor]:
        """Mean of every score, float64, by name; NaN without a row."""
        means, _ = self._moments(self.state())
        return {name: torch.tensor(mean, dtype=torch.float64, device=self.error.device)
                for name, mean in zip(self.names, means)}  # fmt: skip

    def _moments(self, state: RowScores) -> tuple[list[float], list[float]]:
        """Mean and standard error of every score."""
        scores = np.sort(state.scores.cpu().numpy(), axis=0)
        rows, none = len(scores), np.full(len(self.names), np.nan)
        means = scores.mean(0) if rows else none
        errors = scores.std(0, ddof=1) / np.sqrt(rows) if rows > 1 else none
        return means.tolist(), errors.tolist()

    def result(self) -> Result:
        """Means with their standard errors (``<name>_stderr``, NaN of fewer than two rows) and the number of rows."""
        with self.synced_state() as state:
            (means, errors), rows = self._moments(state), len(state.scores)
        values = dict(zip(self.names, means))
        values |= {f"{name}_stderr": error for name, error in zip(self.names, errors)}
        reasons = dict.fromkeys((f"{name}_stderr" for name in self.names), "fewer than two rows") if rows < 2 else {}
        reasons |= dict.fromkeys(self.names, _NO_ROWS) if not rows else {}
        return Result(values, Signature({"metric": type(self).__name__, **self._choices}), {"rows": rows}, reasons)


class CorpusMetric(Metric[CorpusCounts]):
    """A number of a corpus from whole-number sums; a subclass says which, by :meth:`_counts` and :meth:`_values`."""

    def __init__(self, size: int, config: Mapping[str, Any], **kwargs: Any) -> None:
        self._choices = dict(config)
        empty = CorpusCounts(torch.zeros(size, dtype=torch.int64), torch.zeros((), dtype=torch.int64))
        super().__init__(empty, self._choices, **kwargs)

    @abstractmethod
    def _counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        """int64 ``[M]`` of a batch."""

    @abstractmethod
    def _values(self, counts: NDArray[np.int64]) -> dict[str, float]:
        """The numbers of a corpus of at least one row."""

    def update(self, preds: Texts, target: References) -> None:
        """Count rows and add their counts.

        Args:
            preds: a text a row.
            target: for each row one text or several.

        Raises:
            InputError: rows that are no texts.
        """
        counts = torch.from_numpy(np.ascontiguousarray(self._counts(preds, target), np.int64))
        batch = (counts, torch.tensor(len(preds)))
        self._add(CorpusCounts(*(tensor.to(self.error.device, non_blocking=True) for tensor in batch)))

    def _numbers(self, state: CorpusCounts) -> tuple[dict[str, float], int]:
        counts, rows = state.counts.cpu().numpy(), int(state.rows)
        values = self._values(counts)
        return (values if rows else dict.fromkeys(values, float("nan"))), rows

    def compute(self) -> dict[str, Tensor]:
        """float64 by name; NaN without a row."""
        values, _ = self._numbers(self.state())
        return {name: torch.tensor(value, dtype=torch.float64, device=self.error.device)
                for name, value in values.items()}  # fmt: skip

    def result(self) -> Result:
        """The numbers with what they were made of."""
        with self.synced_state() as state:
            values, rows = self._numbers(state)
        reasons = {name: "its divisor is 0" if rows else _NO_ROWS for name, value in values.items() if value != value}
        return Result(values, Signature({"metric": type(self).__name__, **self._choices}), {"rows": rows}, reasons)


class ROUGE(RowMetric):
    """Mean ROUGE of rows; see :func:`valor_gpu.text.rouge_scores`.

    Args:
        rouge_types: of ``rouge1`` to ``rouge9``, ``rougeL``, ``rougeLsum``.
        use_stemmer: compare Porter stems.

    Example:
        >>> metric = ROUGE(["rouge1"])
        >>> metric.update(["the cat sat"], ["the cat sat on the mat"])
        >>> metric.compute()["rouge1_recall"]
        tensor(0.5000, dtype=torch.float64)
    """

    def __init__(self, rouge_types: Sequence[str] = TYPES, use_stemmer: bool = False, **kwargs: Any) -> None:
        for kind in rouge_types:
            rouge_size(kind)
        self.rouge_types, self.use_stemmer = tuple(rouge_types), use_stemmer
        fields = ("fmeasure", "precision", "recall")
        self.names = tuple(f"{kind}_{field}" for kind in rouge_types for field in fields)
        super().__init__({"rouge_types": list(rouge_types), "use_stemmer": use_stemmer}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        scores = rouge_scores(preds, target, self.rouge_types, self.use_stemmer)
        columns = [column for s in scores.values() for column in (s.fmeasure, s.precision, s.recall)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(preds), 0))


class GLEU(RowMetric):
    """Mean Google-BLEU of rows; see :func:`valor_gpu.text.gleu_scores`.

    Example:
        >>> metric = GLEU()
        >>> metric.update(["the cat sat"], ["the cat sat down"])
        >>> metric.compute()["gleu"]
        tensor(0.6000, dtype=torch.float64)
    """

    names = ("gleu",)

    def __init__(self, tokenizer: str = "whitespace", max_ngram: int = 4, **kwargs: Any) -> None:
        self.tokenizer, self.max_ngram = tokenizer, max_ngram
        super().__init__({"tokenizer": tokenizer, "max_ngram": max_ngram}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        return gleu_scores(preds, target, self.tokenizer, self.max_ngram)


class TokenF1(RowMetric):
    """Mean precision, recall and F1 of shared words; see :func:`valor_gpu.text.token_f1`.

    Args:
        normalize: compare plain answers, see :func:`valor_gpu.text.plain_answer`.

    Example:
        >>> metric = TokenF1()
        >>> metric.update(["the red cat"], ["a cat"])
        >>> metric.compute()["recall"]
        tensor(1., dtype=torch.float64)
    """

    names = ("f1", "precision", "recall")

    def __init__(self, normalize: bool = True, **kwargs: Any) -> None:
        self.normalize = plain_answer if normalize else None
        super().__init__({"normalize": normalize}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        scores = token_f1(preds, target, self.normalize)
        return np.stack((scores.f1, scores.precision, scores.recall), axis=1)


class ExactMatch(RowMetric):
    """Share of rows that equal a reference; see :func:`valor_gpu.text.exact_match`.

    Args:
        normalize: compare plain answers, see :func:`valor_gpu.text.plain_answer`.

    Example:
        >>> metric = ExactMatch()
        >>> metric.update(["The cat.", "dog"], ["cat", "cat"])
        >>> metric.compute()["exact_match"]
        tensor(0.5000, dtype=torch.float64)
    """

    names = ("exact_match",)

    def __init__(self, normalize: bool = True, **kwargs: Any) -> None:
        self.normalize = plain_answer if normalize else None
        super().__init__({"normalize": normalize}, **kwargs)

    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        return exact_match(preds, target, self.normalize)


class BLEU(CorpusMetric):
    """BLEU of a corpus; see :func:`valor_gpu.text.corpus_bleu`.

    Example:
        >>> metric = BLEU()
        >>> metric.update(["the cat sat on the mat"], ["the cat sat on a mat"])
        >>> round(float(metric.compute()["bleu"]), 4)
        0.5373
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
        **kwargs: Any,
    ) -> None:
        check_choice("smoothing", smoothing, SMOOTHING)
        self.tokenizer, self.lowercase, self.max_ngram = tokenizer, lowercase, max_ngram
        self.choices = (smoothing, smoothing_value, effective_order)
        config = {"tokenizer": tokenizer, "lowercase": lowercase, "max_ngram": max_ngram, "smoothing": smoothing}
        config |= {"smoothing_value": smoothing_value, "effective_order": effective_order}
        super().__init__(2 * max_ngram + 2, config, **kwargs)

    def _counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        split: Any = tokenize_13a if self.tokenizer == "13a" else self.tokenizer
        counts = bleu_counts(preds, target, self.max_ngram, split, self.lowercase)
        lengths = [counts.prediction_lengths.sum(), counts.reference_lengths.sum()]
        return np.concatenate((counts.matches.sum(0), counts.totals.sum(0), lengths))

    def _values(self, counts: NDArray[np.int64]) -> dict[str, float]:
        parts = np.split(counts, [self.max_ngram, 2 * self.max_ngram])
        whole = BleuCounts(parts[0][None], parts[1][None], parts[2][:1], parts[2][1:])
        value, precisions, penalty = corpus_value(whole, *self.choices)
        by_size = {f"precision_{n}": precision for n, precision in enumerate(precisions, 1)}
        return {"bleu": value, **by_size, "brevity_penalty": penalty}


class CHRF(CorpusMetric):
    """chrF of a corpus; see :func:`valor_gpu.text.chrf_scores`.

    Example:
        >>> metric = CHRF()
        >>> metric.update(["the cat sat"], ["the cat sits"])
        >>> round(float(metric.compute()["chrf"]), 4)
        0.6103
    """

    higher_is_better = True

    def __init__(
        self, char_order: int = 6, word_order: int = 0, beta: float = 2.0, lowercase: bool = False, **kwargs: Any
    ) -> None:
        self.orders, self.beta, self.lowercase = (char_order, word_order), beta, lowercase
        config = {"char_order": char_order, "word_order": word_order, "beta": beta, "lowercase": lowercase}
        super().__init__(3 * (char_order + word_order), config, **kwargs)

    def _counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        return np.concatenate([n.sum(0) for n in chrf_counts(preds, target, *self.orders, self.beta, self.lowercase)])

    def _values(self, counts: NDArray[np.int64]) -> dict[str, float]:
        return {"chrf": float(chrf_value(ChrfCounts(*np.split(counts, 3)), self.beta))}


class _ErrorRate(CorpusMetric):
    """Edits of all rows by the length of all references."""

    higher_is_better = False
    tokenizer: str
    name: str

    def __init__(self, lowercase: bool = False, **kwargs: Any) -> None:
        self.lowercase = lowercase
        super().__init__(2, {"lowercase": lowercase}, **kwargs)

    def _counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        return np.array([n.sum() for n in edit_counts(preds, target, self.tokenizer, self.lowercase)])

    def _values(self, counts: NDArray[np.int64]) -> dict[str, float]:
        return {self.name: float(EditCounts(*counts).rate)}


class WordErrorRate(_ErrorRate):
    """Word error rate of a corpus; see :func:`valor_gpu.text.edit_counts`.

    Args:
        lowercase: compare in lower case.

    Example:
        >>> metric = WordErrorRate()
        >>> metric.update(["the cat sat"], ["the cat sat down"])
        >>> metric.compute()["wer"]
        tensor(0.2500, dtype=torch.float64)
    """

    tokenizer, name = "whitespace", "wer"


class CharErrorRate(_ErrorRate):
    """Character error rate of a corpus; see :func:`valor_gpu.text.edit_counts`.

    Args:
        lowercase: compare in lower case.

    Example:
        >>> metric = CharErrorRate()
        >>> metric.update(["kitten"], ["sitting"])
        >>> round(float(metric.compute()["cer"]), 4)
        0.4286
    """

    tokenizer, name = "characters", "cer"
