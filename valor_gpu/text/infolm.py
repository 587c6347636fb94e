"""InfoLM: texts compared by what a masked language model expects at their places."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, check_rows, joined
from valor_gpu.stats.row_samples import RowSample
from valor_gpu.text.masked_model import MaskedModel as MaskedModel
from valor_gpu.text.masked_model import Tokens
from valor_gpu.text.metric_base import NO_ROWS, Texts, as_rows, number_as_tensor
from valor_gpu.text.tokens import texts_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap

_Measure = Callable[[Tensor, Tensor, float, float], Tensor]
_NEEDS = {
    "alpha_divergence": ("alpha",),
    "beta_divergence": ("beta",),
    "ab_divergence": ("alpha", "beta"),
    "renyi_divergence": ("alpha",),
}
"""Measures with parameters."""


def _ab(p: Tensor, q: Tensor, alpha: float, beta: float) -> Tensor:
    both = alpha + beta
    mixed = (q**alpha * p**beta).sum(-1).log() / (alpha * beta)
    return (q**both).sum(-1).log() / (beta * both) + (p**both).sum(-1).log() / (alpha * both) - mixed


MEASURES: dict[str, _Measure] = {
    "kl_divergence": lambda p, q, alpha, beta: (q * (p / q).log()).sum(-1),
    "alpha_divergence": lambda p, q, alpha, beta: (1 - (q**alpha * p ** (1 - alpha)).sum(-1)) / (alpha * (alpha - 1)),
    "beta_divergence": lambda p, q, alpha, beta: _ab(p, q, 1.0, beta),
    "ab_divergence": _ab,
    "renyi_divergence": lambda p, q, alpha, beta: (q**alpha * p ** (1 - alpha)).sum(-1).log() / (alpha - 1),
    "l1_distance": lambda p, q, alpha, beta: (q - p).abs().sum(-1),
    "l2_distance": lambda p, q, alpha, beta: ((q - p) ** 2).sum(-1).sqrt(),
    "l_infinity_distance": lambda p, q, alpha, beta: (q - p).abs().amax(-1),
    "fisher_rao_distance": lambda p, q, alpha, beta: 2 * (p * q).sqrt().sum(-1).clamp(0, 1).acos(),
}
"""Measure of the distributions of predictions p and of references q, float64 ``[N, V]``, to float64 ``[N]``."""


@dataclass(frozen=True)
class TokenRows(State):
    """Tokens of every row.

    Attributes:
        preds: int32 ``[N, longest]``, of the prediction, padded behind its end.
        target: int32 ``[N, longest]``, of the reference, likewise.
        lengths: int64 ``[N, 2]``, tokens of prediction and reference.
    """

    preds: Tensor = joined()
    target: Tensor = joined()
    lengths: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("preds", "target", "lengths")
    truth_fields: ClassVar[tuple[str, ...]] = ("target",)

    def check(self, rule: int) -> None:
        """Raises :class:`InputError` unless the tokens are of the vocabulary, whose size is ``rule``."""
        for name in ("preds", "target"):
            tokens = getattr(self, name)
            check_rows(name, tokens, len(self.lengths), "lengths")
            check_elements(name, tokens, (tokens >= 0) & (tokens < rule), f"be from 0 to {rule - 1}")
        longest = self.preds.shape[1]
        good = (self.lengths >= 0) & (self.lengths <= longest)
        check_elements("lengths", self.lengths, good, f"be from 0 to {longest}")


class InfoLM(Metric[TokenRows]):
    """Computes InfoLM, the mean divergence of what a masked language model expects at the places of two texts.

    Each token of a text is masked in turn; the mean of the model's probabilities at these places is the distribution of
    the text: p of the prediction, q of the reference. Tokens that the tokenizer puts around a text are left out. A row
    has the measure of p and q:

    - ``kl_divergence``: the sum of ``q log(p / q)``, that is, minus the divergence of Kullback and Leibler; at most 0.
    - ``alpha_divergence``: ``(1 - sum of q^alpha p^(1 - alpha)) / (alpha (alpha - 1))``.
    - ``beta_divergence``: ``ab_divergence`` with ``alpha=1``.
    - ``ab_divergence``: ``log(sum of q^(a + b)) / (b (a + b)) + log(sum of p^(a + b)) / (a (a + b)) - log(sum of q^a
      p^b) / (a b)``.
    - ``renyi_divergence``: ``log(sum of q^alpha p^(1 - alpha)) / (alpha - 1)``.
    - ``l1_distance``, ``l2_distance``, ``l_infinity_distance`` of q - p; ``fisher_rao_distance``: ``2 acos(sum of
      sqrt(p q))``.

    A row in which a text has no token of its own has 0, as in torchmetrics, and is counted as ``empty``. The model runs
    in :meth:`compute`, once for every token of every text, since weights of tokens depend on all texts.

    Source: Colombo, Clavel and Piantanida, "InfoLM: a new metric to evaluate summarization and data2text generation"
    (2022).

    Args:
        model_name_or_path: a folder with a masked language model and its tokenizer, or a
            :class:`valor_gpu.text.MaskedModel`. Nothing is downloaded.
        temperature: by which logits are divided, above 0.
        information_measure: the measure, of the list above.
        idf: weigh tokens by log((N + 1) / (n + 1)), where n of the N predictions, or references, have them.
        alpha: parameter of ``alpha_divergence`` (neither 0 nor 1), ``ab_divergence`` (not 0) and ``renyi_divergence``
            (not 1).
        beta: parameter of ``beta_divergence`` (neither 0 nor -1) and ``ab_divergence`` (neither 0 nor ``-alpha``).
        device: of the model; None leaves it where it is.
        max_length: tokens after which a text is cut; None for the limit of a :class:`valor_gpu.text.MaskedModel`.
        batch_size: number of texts that the model reads together.
        num_threads: has no effect, since no process loads texts; torchmetrics has it.
        verbose: has no effect, since no bar is shown; torchmetrics has it.
        return_sentence_level_score: compute a tuple: the mean, and the measure of every row.

    Raises:
        InputError: an argument is out of range, or the folder holds no masked language model.
        MissingExtraError: without ``transformers``.

    Example:
        >>> from tokenizers import Tokenizer, models
        >>> from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"[UNK]": 0, "[MASK]": 1, "cat": 2, "dog": 3}, unk_token="[UNK]"))
        >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", mask_token="[MASK]")
        >>> model = MaskedModel(BertForMaskedLM(BertConfig(vocab_size=4, **sizes)), tokenizer)
        >>> metric = InfoLM(model, information_measure="l1_distance", idf=False)
        >>> metric.update(["cat"], ["cat"])
        >>> metric.compute()
        tensor(0., dtype=torch.float64)
    """

    _takes_lists = True
    plot_lower_bound = None
    model: MaskedModel
    temperature: float
    information_measure: str
    idf: bool
    alpha: float | None
    beta: float | None
    return_sentence_level_score: bool

    def __init__(
        self,
        model_name_or_path: Any = "bert-base-uncased",
        temperature: float = 0.25,
        information_measure: str = "kl_divergence",
        idf: bool = True,
        alpha: float | None = None,
        beta: float | None = None,
        device: Any = None,
        max_length: int | None = None,
        batch_size: int = 64,
        num_threads: int = 0,
        verbose: bool = True,
        return_sentence_level_score: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_number("temperature", temperature, 1e-6, 1e6)
        check_choice("information_measure", information_measure, tuple(MEASURES))
        for name, flag in (("idf", idf), ("return_sentence_level_score", return_sentence_level_score)):
            check_type(name, flag, bool)
        _check_parameters(information_measure, alpha, beta)
        model = model_name_or_path
        if not isinstance(model, MaskedModel):
            model = MaskedModel(model, max_length=max_length, batch=batch_size, device=device)
        # Beside the attributes of a module: a model among them would be part of its state.
        self.__dict__.update(model=model, temperature=float(temperature), information_measure=information_measure)
        self.__dict__.update(idf=idf, alpha=alpha, beta=beta, return_sentence_level_score=return_sentence_level_score)
        self.__dict__["_state_rule"] = model.vocabulary
        tokens = torch.zeros((0, model.max_length), dtype=torch.int32)
        config = {"model": model.name, "temperature": self.temperature, "information_measure": information_measure}
        config |= {"idf": idf, "alpha": alpha, "beta": beta}
        super().__init__(TokenRows(tokens, tokens, torch.zeros((0, 2), dtype=torch.int64)), config, **kwargs)

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """Whether a higher number means that texts are more alike."""
        return self.information_measure in ("kl_divergence", "alpha_divergence")

    def update(self, preds: str | Texts, target: str | Texts) -> None:
        """Adds rows.

        Args:
            preds: one text per row, or a text alone.
            target: one text per row.

        Raises:
            InputError: a row is no text, it has several references, or the lengths differ.
        """
        texts, firsts = texts_of(*as_rows(preds, target))
        if len(texts) != 2 * (rows := len(firsts) - 1):
            raise InputError(f"target must have one text for each row but has {len(texts) - rows} for {rows} rows")
        sides = [self.model.tokens(texts[side::2]) for side in (0, 1)]
        lengths = torch.stack([side.lengths for side in sides], 1)
        device = self.error.device
        self._add(TokenRows(*(each.to(device) for each in (sides[0].ids, sides[1].ids, lengths))))

    def _scores(self, state: TokenRows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The measure of every row, and whether it exists, each ``[N]``."""
        sides = [Tokens(ids, state.lengths[:, side]) for side, ids in enumerate((state.preds, state.target))]
        p, q = (self.model.distributions(side, self._weights(side), self.temperature) for side in sides)
        found = MEASURES[self.information_measure](p, q, self.alpha or 0.0, self.beta or 0.0)
        return found.nan_to_num().numpy(), (~(p.isnan() | q.isnan()).any(1)).numpy()

    def _weights(self, tokens: Tokens) -> Tensor:
        """Weights of places, float64 ``[N, longest]``."""
        counted: Tensor = self.model.counted(tokens)
        if not self.idf:
            return counted.double()
        there = torch.zeros((len(tokens.ids), self.model.vocabulary), dtype=torch.bool, device=counted.device)
        rows, places = counted.nonzero(as_tuple=True)
        there[rows, tokens.ids[rows, places].long()] = True
        rarity = torch.log((len(there) + 1) / (there.sum(0).double() + 1))
        return rarity[tokens.ids.long()] * counted

    @gives_own_memory
    def compute(self) -> Tensor | tuple[Tensor, Tensor]:
        """Returns the mean of rows, float64 ``[]``; NaN without a row.

        With ``return_sentence_level_score`` a tuple of it and the measures of rows, float64 ``[N]``, of one row ``[]``.
        """
        scores, _ = self._scores(self.state())
        mean = number_as_tensor(_mean(scores), self.error.device)
        return (mean, torch.from_numpy(scores).to(self.error.device)) if self.return_sentence_level_score else mean

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the mean with its standard error (NaN below two rows), and counts of rows and of empty rows.

        Args:
            intervals: replicates of a bootstrap of rows, or its choices: the mean gets an interval. Weights of tokens
                stay those of all rows.
        """
        with self.synced_state() as state:
            scores, there = self._scores(state)
        rows = len(scores)
        error = float(np.sort(scores).std(ddof=1) / math.sqrt(rows)) if rows > 1 else math.nan
        reasons = {"infolm_stderr": "fewer than two rows"} if rows < 2 else {}
        reasons |= {"infolm": NO_ROWS} if not rows else {}
        counts = {"rows": rows, "empty": int((~there).sum())}
        signature = Signature({"metric": "InfoLM", **self._identity.config})
        values = {"infolm": _mean(scores), "infolm_stderr": error}
        sample = {"infolm": scores}
        result = Result(values, signature, counts, reasons, state=lambda: RowSample(sample))
        return result if intervals is None else result.with_intervals(intervals)


def _mean(scores: NDArray[np.float64]) -> float:
    """The mean of sorted scores, so that no order of rows changes a bit."""
    return float(np.sort(scores).mean()) if len(scores) else math.nan


def _check_parameters(measure: str, alpha: float | None, beta: float | None) -> None:
    """Raises :class:`InputError` where a measure lacks a parameter, or has one for which it does not exist."""
    given = {"alpha": alpha, "beta": beta}
    for name in _NEEDS.get(measure, ()):
        if given[name] is None:
            raise InputError(f"{name} must be given for information_measure={measure!r} but got None")
        check_number(name, given[name], -1e6, 1e6)
    excluded: dict[str, dict[str, tuple[float, ...]]] = {
        "alpha_divergence": {"alpha": (0, 1)},
        "beta_divergence": {"beta": (0, -1)},
        "ab_divergence": {"alpha": (0,), "beta": (0, -(alpha or 0))},
        "renyi_divergence": {"alpha": (1,)},
    }
    for name, values in excluded.get(measure, {}).items():
        if given[name] in values:
            raise InputError(
                f"{name} must not be {given[name]} for information_measure={measure!r}, which divides by 0"
            )
