"""Definition in plain torch of the op in :mod:`valor_gpu.ops.token_losses.op`.

The loss of a row is ``-log(softmax(logits)[target])``, as ``(a - x) + log(sum exp(logits - a))`` where x is the logit
of the target. The anchor a is x itself; where the sum is not below a limit, or NaN, it is the largest logit of the row.
Exponentials and sums are float32, of float64 logits float64; the rest is float64. Each step below is one rounding, in
the order of csrc/core/token_losses.h, so that kernels have the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import NAN_SCORE, TARGET, first_error
from valor_gpu.ops.targets.op import read_target

TOKENS, WHOLE, FRACTION, IMPOSSIBLE = range(4)
"""Places of the sums over tokens."""

FRACTION_UNIT, LEAST_IMPOSSIBLE = 2.0**28, 2.0**30

_LANES = 128  # kSumLanes in csrc/core/token_losses.h
_LOG2_HIGH, _LOG2_LOW = float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")
_SPLIT = 2.0**27 + 1
_ROOT_2 = float.fromhex("0x1.6a09e667f3bcdp0")


class _Exp(NamedTuple):
    """How exp is computed in one dtype: 2^k 2^f, with a whole k and f from -1/2 to 1/2."""

    dtype: torch.dtype
    integers: torch.dtype
    shift: int
    magic: float
    log2_e: float
    lowest: float
    highest: float  # k at most
    limit: float
    terms: tuple[float, ...]  # of 2^f, the highest power first, without the constant 1


def _floats(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


_FLOAT32 = _Exp(
    torch.float32, torch.int32, 23, 1.5 * 2**23 + 127, float.fromhex("0x1.715476p0"), -87.0, 127.0, 2.0**120,
    _floats("0x1.41fbbcp-13 0x1.5f3e52p-10 0x1.3b2d4cp-7 0x1.c6aee8p-5 0x1.ebfbdcp-3 0x1.62e430p-1"),
)  # fmt: skip
_FLOAT64 = _Exp(
    torch.float64, torch.int64, 52, 1.5 * 2**52 + 1023, float.fromhex("0x1.71547652b82fep0"), -600.0, 1000.0, 2.0**800,
    _floats(
        "0x1.63b2d7971923fp-20 0x1.00c0e4e15189cp-16 0x1.4308c7183d6a2p-13 0x1.5d877598350dep-10"
        " 0x1.3b2ab70ad2565p-7 0x1.c6b08da70cce3p-5 0x1.ebfbdff82a734p-3 0x1.62e42fef9cc69p-1"
    ),
)  # fmt: skip


def sum_token_losses(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.token_losses.op.sum_token_losses`."""
    classes = preds.shape[-1]
    labels = read_target(target.reshape(-1), classes, ignore_index)
    bad_logits = torch.zeros((target.numel(), classes), dtype=torch.bool, device=target.device)
    losses, bad_logits[labels.kept] = _losses(preds.reshape(-1, classes)[labels.kept], labels.values[labels.kept])
    losses = losses[~bad_logits[labels.kept].any(1)]
    possible = losses < LEAST_IMPOSSIBLE
    whole = losses[possible].floor()
    fractions = ((losses[possible] - whole) * FRACTION_UNIT + 0.5).long()
    sums = [torch.ones_like(losses).long().sum(), whole.long().sum(), fractions.sum(), (~possible).sum()]
    return torch.stack(sums), first_error([(labels.bad, TARGET), (bad_logits, NAN_SCORE)])


def sum_token_losses_fake(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``sum_token_losses``."""
    return target.new_empty(4, dtype=torch.int64), target.new_empty((), dtype=torch.int64)


def _losses(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """float64 ``[N]`` losses, and which logits are bad: NaN, inf, or the first of a row of -inf."""
    rule = _FLOAT64 if rows.dtype == torch.float64 else _FLOAT32
    logits = rows.gather(1, target[:, None])[:, 0]
    sums = _sum_exps(rows, logits, rule)
    far = ~(sums < rule.limit)
    highest = rows[far].amax(1) if bool(far.any()) else logits[far]
    bad = torch.zeros_like(rows, dtype=torch.bool)
    bad[far] = ~(rows[far] < torch.inf)
    bad[far, 0] |= highest == -torch.inf
    anchors = logits.clone()
    anchors[far] = highest
    good = far & ~bad.any(1)
    sums[good] = _sum_exps(rows[good], anchors[good], rule)
    sums[far & ~good] = 1.0
    return (anchors.double() - logits.double()) + _log(sums), bad


def _sum_exps(rows: Tensor, anchors: Tensor, rule: _Exp) -> Tensor:
    """float64 ``[N]``: sums of ``exp(rows - anchors)``, in 128 lanes, of which the upper half joins the lower."""
    lanes = torch.zeros((len(rows), _LANES), dtype=rule.dtype, device=rows.device)
    for columns in rows.split(_LANES, 1):
        shifts = columns.to(rule.dtype) - anchors[:, None].to(rule.dtype)
        lanes[:, : columns.shape[1]] = _add_exp(shifts, lanes[:, : columns.shape[1]], rule)
    sums = lanes.double()
    while (half := sums.shape[1] // 2) > 0:
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]


def _add_exp(shifts: Tensor, sums: Tensor, rule: _Exp) -> Tensor:
    """``sums + exp(shifts)``; of shifts that are too large, or NaN, something that is not below the limit."""
    shifts = torch.where(shifts < rule.lowest, rule.lowest, shifts)

    def constant(value: float) -> Tensor:
        return shifts.new_tensor(value)

    shifted = _fused(shifts, constant(rule.log2_e), constant(rule.magic))
    shifted = torch.where(shifted > rule.magic + rule.highest, rule.magic + rule.highest, shifted)
    fraction = _fused(shifts, constant(rule.log2_e), -(shifted - rule.magic))
    power = constant(rule.terms[0])
    for term in (*rule.terms[1:], 1.0):
        power = _fused(power, fraction, constant(term))
    exponent = shifted.view(rule.integers) & ((1 << (8 if rule.dtype == torch.float32 else 11)) - 1)
    return _fused(power, (exponent << rule.shift).view(rule.dtype), sums)


def _fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` with one rounding: Boldo and Melquiond, Emulation of FMA and correctly rounded sums (2008)."""
    if a.dtype == torch.float32:
        return _odd_sum(a.double() * b.double(), c.double()).float()  # the product is exact
    high, low = _product(a, b)
    addend, rest = _sum(c, low)
    total, lost = _sum(high, addend)
    return total + _odd_sum(rest, lost)


def _odd_sum(a: Tensor, b: Tensor) -> Tensor:
    """float64 ``a + b``, of its two neighbours the odd one if it is not exact: another rounding then does no harm."""
    total, lost = _sum(a, b)
    even = (total.view(torch.int64) & 1) == 0
    toward = torch.where(lost > 0, torch.inf, -torch.inf).to(total)
    return torch.where(even & (lost != 0) & total.isfinite(), total.nextafter(toward), total)


def _sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """float64 ``a + b``, and by how much the exact sum is more."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """float64 ``a * b``, and by how much the exact product is more (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = ((high, x - high) for x in (a, b) for high in [x * _SPLIT - (x * _SPLIT - x)])
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _log(x: Tensor) -> Tensor:
    """The logarithm of float64 numbers that are at least 1."""
    bits = x.view(torch.int64)
    m = ((bits & ((1 << 52) - 1)) | (1023 << 52)).view(torch.float64)
    large = m > _ROOT_2
    k = ((bits >> 52) - 1023 + large).double()
    m = torch.where(large, m * 0.5, m)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    total = torch.full_like(z, 1 / 21)
    for n in range(9, 0, -1):
        total = total * z + 1 / (2 * n + 1)
    twice = s + s
    return k * _LOG2_HIGH + (twice + (twice * z * total + k * _LOG2_LOW))
