"""Perplexity of language models, from their logits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from valor_gpu.checks import check_int, check_number
from valor_gpu.default_device import device_free
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import raise_error, raise_or_defer
from valor_gpu.ops.token_losses.op import describe_token, sum_token_losses, total_loss
from valor_gpu.ops.token_losses.reference import FRACTION_UNIT, LEAST_IMPOSSIBLE
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, summed
from valor_gpu.stats.resample import refusing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap

_MOST_TOKENS = 2**33  # with as many, no sum leaves int64
_SUMS_ALONE = (
    "intervals and comparisons need a number of every text but Perplexity keeps sums of tokens: take the cross entropy"
    " of each text and compare them by valor_gpu.stats.compare_paired"
)


@dataclass(frozen=True)
class TokenSums(State):
    """Sums over tokens, whole numbers: no split or order of the tokens changes a bit.

    Attributes:
        sums: int64 ``[4]``, see :class:`valor_gpu.ops.token_losses.op.TokenLosses`.
        seen: int64 ``[]``, tokens with the ignored ones.
    """

    sums: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless the sums are possible for so many tokens."""
        check_elements("seen", self.seen, (self.seen >= 0) & (self.seen <= _MOST_TOKENS), "be from 0 to 2^33")
        tokens = self.sums[0].clamp(0, _MOST_TOKENS)
        limits = torch.stack((self.seen, tokens * int(LEAST_IMPOSSIBLE), tokens * int(FRACTION_UNIT), tokens))
        possible = (self.sums >= 0) & (self.sums <= limits)
        check_elements("sums", self.sums, possible, "be what so many tokens can have")


class Perplexity(Metric[TokenSums]):
    """Computes the perplexity of a language model: exp of the mean of ``-log p`` of the right tokens.

    The logits are read once and nothing of their size is written: softmax, choice of the right token and logarithm are
    one step, in float32 whatever the dtype (float64 for float64). So a token that is a million times less likely than
    float32 can tell counts what it must; only a token of probability 0 (a logit of -inf, or 2^30 nats below the
    others) makes the perplexity inf, and :meth:`result` says how many there are.

    Source: Jelinek et al., "Perplexity: a measure of the difficulty of speech recognition tasks" (1977).

    Args:
        ignore_index: tokens with this target are left out, such as padding; their logits are not looked at.

    Raises:
        InputError: ``ignore_index`` is no int, or does not fit in int64.

    Example:
        >>> metric = Perplexity(ignore_index=-100)
        >>> metric.update(torch.tensor([[[0.0, 0.0], [1.0, 1.0], [3.0, 5.0]]]), torch.tensor([[0, 1, -100]]))
        >>> metric.compute()
        tensor(2.0000, dtype=torch.float64)
    """

    higher_is_better = False
    plot_lower_bound = 1.0
    ignore_index: int | None

    def __init__(self, ignore_index: int | None = None, **kwargs: Unpack[MetricOptions]) -> None:
        _check_ignore_index(ignore_index)
        self.__dict__["ignore_index"] = ignore_index
        empty = TokenSums(torch.zeros(4, dtype=torch.int64), torch.zeros((), dtype=torch.int64))
        super().__init__(empty, {"ignore_index": ignore_index}, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Adds the tokens of a batch.

        Args:
            preds: logits or log-probabilities ``[B, T, V]`` (or any ``[..., V]``) of any floating dtype. Slices such as
                ``logits[:, :-1]`` are read where they lie.
            target: the right tokens ``[B, T]``, any integer dtype, from 0 to V - 1.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN, inf, a target that is no token) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        preds, target = as_values("preds", preds), as_values("target", target)
        sums, error = sum_token_losses(preds, target, ignore_index=self.ignore_index)
        deferred = raise_or_defer(error, partial(describe_token, shape=target.shape))
        self._add(TokenSums(sums, torch.full_like(error, target.numel())), deferred)

    def compute(self) -> Tensor:
        """Returns the perplexity, float64 ``[]``: from 1 to inf, NaN without a token."""
        return _as_tensor(self.state().sums)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the perplexity, and the cross entropy behind it in nats a token, with counts of tokens.

        Args:
            intervals: refused, since sums of tokens do not say how much texts differ.

        Raises:
            InputError: ``intervals`` is given.
        """
        with self.synced_state() as state:
            sums, seen = state.sums.tolist(), int(state.seen)
        entropy, perplexity = _numbers(sums)
        values = {"perplexity": perplexity, "cross_entropy": entropy}
        reasons = {}
        if not sums[0]:
            reasons = dict.fromkeys(values, "no token was counted")
        elif sums[3]:
            reasons = dict.fromkeys(values, f"tokens of probability 0: {sums[3]}")
        elif math.isinf(perplexity):
            reasons = {"perplexity": "it is larger than float64 can hold"}
        counts = {"tokens": sums[0], "ignored": seen - sums[0], "impossible": sums[3]}
        signature = Signature({"metric": "Perplexity", "ignore_index": self.ignore_index})
        result = Result(values, signature, counts, reasons, state=refusing(_SUMS_ALONE))
        return result if intervals is None else result.with_intervals(intervals)

    def _describe_error(self, code: int) -> str:
        return f"{describe_token(code)} (the tokens of its batch in one row)"


@device_free
@torch.no_grad()
def perplexity_of(preds: Any, target: Any, ignore_index: int | None = None) -> Tensor:
    """Returns what :class:`Perplexity` computes of one batch, without a metric, whose making may outlast the kernel.

    Args:
        preds: logits ``[..., V]``, a floating tensor, numpy array or list.
        target: the right tokens ``[...]``, integers likewise.
        ignore_index: tokens with this target are left out.

    Returns:
        float64 ``[]`` on the device of ``preds``, of this process alone.

    Raises:
        InputError: as the class does, with the position of a bad value on every device.
    """
    _check_ignore_index(ignore_index)
    preds, target = as_values("preds", preds), as_values("target", target)
    sums, error = sum_token_losses(preds, target, ignore_index=ignore_index)
    raise_error(error, partial(describe_token, shape=target.shape))
    return _as_tensor(sums)


def _check_ignore_index(ignore_index: int | None) -> None:
    if ignore_index is not None:
        check_int("ignore_index", ignore_index, -(2**63))
        check_number("ignore_index", ignore_index, -(2**63), 2**63 - 1)


def _as_tensor(sums: Tensor) -> Tensor:
    return torch.full((), _numbers(sums.tolist())[1], dtype=torch.float64, device=sums.device)


def _numbers(sums: list[int]) -> tuple[float, float]:
    """Cross entropy and perplexity."""
    if not sums[0]:
        return math.nan, math.nan
    entropy = total_loss(sums) / sums[0]
    try:
        return entropy, math.exp(entropy)
    except OverflowError:
        return entropy, math.inf
