"""BERTScore: texts compared by the embeddings of their tokens, from any local encoder or as given."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_number, check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import as_values
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.ops.greedy_cosines.op import describe_vector, greedy_cosines
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, joined, summed
from valor_gpu.stats.row_samples import RowSample
from valor_gpu.text.metric_base import as_rows
from valor_gpu.text.tokens import texts_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap

Encoder = Callable[[list[str]], Sequence[Any]]
NAMES = ("precision", "recall", "f1")
_ERRORS = tuple(f"{name}_stderr" for name in NAMES)


class IdfWeights(NamedTuple):
    """Weights of tokens by how few texts have them: log((N + 1) / (n + 1)), n of N texts.

    Attributes:
        weights: token to weight.
        unseen: weight of every other token, log(N + 1).

    Example:
        >>> IdfWeights.of([[1, 2], [1, 3, 3]]).weights[2]
        0.4054651081081644
    """

    weights: Mapping[int, float]
    unseen: float

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> IdfWeights:
        """Weights from texts as token numbers, usually all references."""
        counts: dict[int, int] = {}
        for text in texts:
            for token in set(map(int, text)):
                counts[token] = counts.get(token, 0) + 1
        size = len(texts) + 1
        return cls({token: math.log(size / (count + 1)) for token, count in counts.items()}, math.log(size))

    def digest(self) -> str:
        """What tells these weights from others in the configuration of a metric."""
        rows = [[token, weight] for token, weight in sorted(self.weights.items())]
        return hashlib.sha256(json.dumps([self.unseen, rows]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class TokenScores(State):
    """Scores of every row.

    Attributes:
        scores: float64 ``[N, 3]``: precision, recall and F1.
        without_tokens: int64 ``[]``, rows without a reference that has tokens, or whose prediction has none.
    """

    scores: Tensor = joined()
    without_tokens: Tensor = summed()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("scores",)

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless every score is finite, and no more rows are empty than there are."""
        check_elements("scores", self.scores, self.scores.isfinite(), "be finite")
        rows = self.without_tokens
        check_elements("without_tokens", rows, (rows >= 0) & (rows <= len(self.scores)), "be from 0 to all rows")


class BERTScore(Metric[TokenScores]):
    """Computes precision, recall and F1 of texts whose tokens are matched by the cosine of their embeddings.

    The precision of a row is the mean over the tokens of the prediction of the largest cosine with a token of the
    reference, the recall likewise the other way round, F1 their harmonic mean (0 where that does not exist). Of several
    references the best counts, for each of the three. A row whose prediction has no token, or no reference of which has
    one, has 0 before rescaling, as in bert-score, and is counted as ``empty``; a text whose tokens all weigh 0 has 0.

    Cosines are computed in float32, whatever the dtype of the embeddings, and averaged in float64: scores of embeddings
    of a thousand numbers are right to 1e-6. Nothing is downloaded. ``update`` on CUDA synchronises with the device
    once.

    Source: Zhang et al., "BERTScore: evaluating text generation with BERT" (2020).

    Args:
        encoder: a function from a list of texts to, for each, the embeddings ``[tokens, size]``, or a tuple of token
            numbers ``[tokens]`` and embeddings; it should leave out special tokens, such as
            :meth:`valor_gpu.text.LocalEncoder.tokens`. It is called once an update, with every distinct text once.
            None: ``update`` takes such embeddings in place of texts.
        idf: weights of tokens; needs token numbers. None: every token weighs the same.
        baseline: precision, recall and F1 of unrelated texts, all below 1: a score s becomes (s - b) / (1 - b).

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = BERTScore()
        >>> metric.update([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0]]], [[[3.0, 0.0]], [[0.0, 1.0]]])
        >>> {name: value.tolist() for name, value in metric.compute().items()}
        {'precision': [0.5, 0.0], 'recall': [1.0, 0.0], 'f1': [0.6666666666666666, 0.0]}
    """

    higher_is_better = True
    _takes_lists = True
    encoder: Encoder | None
    idf: IdfWeights | None
    baseline: list[float] | None

    def __init__(
        self,
        encoder: Encoder | None = None,
        idf: IdfWeights | None = None,
        baseline: Sequence[float] | None = None,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        if encoder is not None and not callable(encoder):
            raise InputError(f"encoder must be a function of texts or None but got {type(encoder).__name__}")
        if idf is not None:
            check_type("idf", idf, IdfWeights)
        given = None if baseline is None else [*baseline]
        if given is not None and len(given) != 3:
            raise InputError(f"baseline must be precision, recall and F1 but has {len(given)} numbers")
        for name, value in zip(NAMES, given or ()):
            check_number(f"baseline ({name})", value, -1, 1 - 1e-6)
        given = None if given is None else [float(value) for value in given]
        self.__dict__.update(encoder=encoder, idf=idf, baseline=given)
        empty = TokenScores(torch.zeros((0, 3), dtype=torch.float64), torch.zeros((), dtype=torch.int64))
        super().__init__(empty, {"idf": None if idf is None else idf.digest(), "baseline": given}, **kwargs)

    def update(self, preds: Sequence[Any], target: Sequence[Any]) -> None:
        """Scores rows and keeps their scores.

        Args:
            preds: one text per row, or a text alone; without an encoder embeddings ``[tokens, size]``, or a tuple of
                token numbers and embeddings.
            target: for each row the same, or a list of several (of embeddings a list of tensors, arrays or tuples).

        Raises:
            InputError: rows that are no texts or embeddings, or embeddings of several sizes or without direction.
        """
        scores, empty = self._scored(*as_rows(preds, target))
        self._add(TokenScores(torch.from_numpy(scores).to(self.error.device), torch.full_like(self.error, empty)))

    def _scored(self, preds: Any, target: Any) -> tuple[NDArray[np.float64], int]:
        predicted, references, counts = self._encoded(preds, target)
        if not len(counts):
            return np.zeros((0, 3)), 0
        repeated = [predicted[row] for row in np.repeat(np.arange(len(counts)), counts).tolist()]
        best = np.maximum.reduceat(_pair_scores(repeated, references), np.cumsum(counts) - counts)
        none = best[:, 0] == -np.inf
        best[none] = 0.0
        if self.baseline is not None:
            best = (best - self.baseline) / (1 - np.array(self.baseline))
        return best, int(none.sum())

    def _encoded(self, preds: Any, target: Any) -> tuple[list[_Tokens], list[_Tokens], NDArray[np.int64]]:
        """Tokens of predictions and of references one after another, and how many references each row has."""
        if self.encoder is None:
            rows = [_several(row) for row in target]
            if len(rows) != len(preds):
                raise InputError(f"target must have one row for each of the {len(preds)} of preds but has {len(rows)}")
            for row, several in enumerate(rows):
                if not several:
                    raise InputError(f"target[{row}] must have at least one reference")
            predicted = [_tokens(f"preds[{row}]", item, self.idf) for row, item in enumerate(preds)]
            true = [_tokens(f"target[{row}]", item, self.idf) for row, several in enumerate(rows) for item in several]
            return predicted, true, np.array([len(row) for row in rows], np.int64)
        texts, firsts = texts_of(preds, target)
        distinct = list(dict.fromkeys(texts))
        items: Sequence[Any] = self.encoder(distinct) if distinct else []
        if len(items) != len(distinct):
            raise InputError(f"encoder must give one item for each of {len(distinct)} texts but gave {len(items)}")
        known = {text: _tokens(f"encoder({text[:40]!r})", item, self.idf) for text, item in zip(distinct, items)}
        first = np.zeros(len(texts), bool)
        first[firsts[:-1]] = True
        sides = ([known[text] for text, mine in zip(texts, first) if mine == side] for side in (True, False))
        return next(sides), next(sides), np.diff(firsts) - 1

    def compute(self) -> dict[str, Tensor]:
        """Returns ``precision``, ``recall`` and ``f1`` of every row, float64 ``[N]``; of one row ``[]``."""
        return dict(zip(NAMES, self.state().scores.unbind(1)))

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns means over rows with their standard errors, and counts of rows and of empty ones.

        Args:
            intervals: replicates of a bootstrap of rows, or its choices: every mean gets an interval.
        """
        with self.synced_state() as state:
            found, empty = state.scores.cpu().numpy(), int(state.without_tokens)
        table, rows = np.sort(found, axis=0), len(found)
        means = table.mean(0) if rows else np.full(3, np.nan)
        errors = table.std(0, ddof=1) / math.sqrt(rows) if rows > 1 else np.full(3, np.nan)
        values = dict(zip((*NAMES, *_ERRORS), [*means.tolist(), *errors.tolist()]))
        reasons = dict.fromkeys(_ERRORS, "fewer than two rows") if rows < 2 else {}
        reasons |= dict.fromkeys(NAMES, "no row was added") if not rows else {}
        signature = Signature({"metric": "BERTScore", **self._identity.config})
        result = Result(
            values,
            signature,
            {"rows": rows, "empty": empty},
            reasons,
            state=lambda: RowSample(dict(zip(NAMES, found.T))),
        )
        return result if intervals is None else result.with_intervals(intervals)


class _Tokens(NamedTuple):
    """Tokens of a text: embeddings ``[T, size]``, and their weights, None where all weigh the same."""

    vectors: Tensor
    weights: NDArray[np.float64] | None


def _several(row: Any) -> list[Any]:
    """The references of a row: a list of tensors, arrays or tuples has several."""
    listed = isinstance(row, list) and (not row or isinstance(row[0], (Tensor, np.ndarray, tuple)))
    return row if listed else [row]


def _tokens(name: str, item: Any, idf: IdfWeights | None) -> _Tokens:
    pair = isinstance(item, tuple) and len(item) == 2
    numbers, vectors = item if pair else (None, item)
    if isinstance(vectors, str):
        raise InputError(
            f"{name} must be embeddings [tokens, size], since no encoder of texts is given, but got a text"
        )
    vectors = as_values(name, vectors)
    if vectors.ndim == 1 and not len(vectors):
        vectors = vectors[:, None]  # a list without tokens
    if vectors.ndim != 2 or not (vectors.is_floating_point() or not len(vectors)):
        raise InputError(f"{name} must be floating [tokens, size] but got {vectors.dtype} {list(vectors.shape)}")
    if idf is None:
        return _Tokens(vectors, None)
    if numbers is None:
        raise InputError(f"{name} must be a tuple of token numbers and embeddings, since idf is given")
    found = [int(number) for number in (numbers.tolist() if hasattr(numbers, "tolist") else numbers)]
    if len(found) != len(vectors):
        raise InputError(f"{name} must have a number for each of its {len(vectors)} tokens but has {len(found)}")
    return _Tokens(vectors, np.array([idf.weights.get(number, idf.unseen) for number in found], np.float64))


def _pair_scores(predicted: Sequence[_Tokens], true: Sequence[_Tokens]) -> NDArray[np.float64]:
    """float64 ``[pairs, 3]``, -inf where a text has no token."""
    sizes = np.array([[len(text.vectors) for text in side] for side in (predicted, true)])
    kept = np.flatnonzero((sizes > 0).all(0))
    scores = np.full((len(predicted), 3), -np.inf)
    if not len(kept):
        return scores
    sides = [[side[i] for i in kept.tolist()] for side in (predicted, true)]
    kinds = {(text.vectors.shape[1], str(text.vectors.device)) for side in sides for text in side}
    if len(kinds) > 1:
        raise InputError(f"preds and target must have embeddings of one size on one device but have {sorted(kinds)}")
    offsets = np.concatenate((np.zeros((2, 1), np.int64), sizes[:, kept].cumsum(1)), 1)
    vectors = [torch.cat([text.vectors for text in side]) for side in sides]
    found = greedy_cosines(vectors[0], vectors[1], torch.from_numpy(offsets))
    raise_error(found.error, describe_vector)
    for column, (best, side) in enumerate(zip(found[:2], sides)):
        values = best.double().cpu().numpy()
        given = [text.weights for text in side if text.weights is not None]
        weights = np.concatenate(given) if given else np.ones_like(values)
        totals = np.add.reduceat(weights, offsets[column, :-1])
        sums = np.add.reduceat(values * weights, offsets[column, :-1])
        scores[kept, column] = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
    precision, recall = scores[kept, 0], scores[kept, 1]
    total = precision + recall
    scores[kept, 2] = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total != 0)
    return scores
