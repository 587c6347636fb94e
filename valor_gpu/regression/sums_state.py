"""States of metrics of exact sums: of a known number of outputs, and of as many as the first batch has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.ops.moments.kinds import INFINITE, NANS, NEGATIVE_INFINITE, ROWS, WIDE, Kind
from valor_gpu.ops.moments.op import Moments, moments
from valor_gpu.reduce.exact_sums import centred, exact, unit
from valor_gpu.reduce.regression import Sums
from valor_gpu.state import State, check_elements, check_rows, joined, least, summed

_MOST_ROWS, _MOST_LIMB = 2**53, 2**62
NARROW_VALUES, WIDE_VALUES = 1, 0
"""What ``narrowest`` holds after numbers of at most 32 bits alone, and once float64 came."""
_TARGETS = 2  # the place of the sum of targets in Kind.VARIANCE
_CPU = torch.device("cpu")
_WIDTHS = {wide: torch.tensor(wide, dtype=torch.int8) for wide in (WIDE_VALUES, NARROW_VALUES)}


def width_of(preds: torch.dtype, target: torch.dtype, device: torch.device = _CPU) -> Tensor:
    """Returns ``narrowest`` of a batch of such numbers, int8 ``[]``; nobody may change that of the CPU."""
    wide = WIDE_VALUES if torch.float64 in (preds, target) else NARROW_VALUES
    if device.type == "cpu":
        return _WIDTHS[wide]
    return torch.full((), wide, dtype=torch.int8, device=device)  # filled there, so that the host does not wait


class Rule(NamedTuple):
    """What a state has to know of its metric.

    Attributes:
        kind: of the sums.
        parameter: of the kind.
        keep_rows: whether the state keeps predictions and targets.
    """

    kind: Kind
    parameter: float
    keep_rows: bool


class Output(NamedTuple):
    """Sums of one output, and the rows that are in none.

    Attributes:
        sums: over the finite rows.
        rows: how many came.
        nan: rows whose term is NaN.
        infinite: rows whose term is infinite.
        negative: those among them whose term is minus infinite.
    """

    sums: Sums
    rows: int
    nan: int
    infinite: int
    negative: int


@dataclass(frozen=True)
class ExactSums(State):
    """Exact sums over all rows; see :class:`valor_gpu.ops.moments.op.Moments`.

    Attributes:
        sums: int64 ``[D, K, limbs]``.
        counts: int64 ``[D, 4]``.
        lowest: float64 ``[D]``, the least target.
        highest: float64 ``[D]``, the largest target with the other sign.
        narrowest: int8 ``[]``: ``WIDE_VALUES`` once float64 came, ``NARROW_VALUES`` after other numbers alone.
        preds: float64 ``[N, D]``, predictions of every row where rows are kept, else no rows.
        target: float64 ``[N, D]``, likewise.
    """

    sums: Tensor = summed()
    counts: Tensor = summed()
    lowest: Tensor = least()
    highest: Tensor = least()
    narrowest: Tensor = least()
    preds: Tensor = joined()
    target: Tensor = joined()
    row_fields: ClassVar[tuple[str, ...]] = ("preds", "target")
    truth_fields: ClassVar[tuple[str, ...]] = ("target",)

    @classmethod
    def nothing(cls, columns: int, sums: int, limbs: int) -> ExactSums:
        """Returns the state without data of so many outputs and sums."""
        ends = [torch.full((columns,), math.inf, dtype=torch.float64) for _ in range(2)]
        rows = [torch.zeros((0, columns), dtype=torch.float64) for _ in range(2)]
        counts = torch.zeros((columns, 4), dtype=torch.int64)
        table = torch.zeros((columns, sums, limbs), dtype=torch.int64)
        return cls(table, counts, ends[0], ends[1], torch.tensor(127, dtype=torch.int8), rows[0], rows[1])

    @classmethod
    def of_batch(cls, found: Moments, width: Tensor, preds: Tensor, target: Tensor) -> ExactSums:
        """Returns the state of one batch.

        Args:
            found: its sums.
            width: its ``narrowest``.
            preds: rows to keep ``[N, D]``.
            target: likewise.
        """
        return cls(found.sums, found.counts, found.lowest, -found.highest, width, preds, target)

    def rows(self) -> tuple[Tensor, Tensor]:
        """Returns the kept predictions and targets, ``[N, D]``."""
        return self.preds, self.target

    def outputs(self) -> list[Output]:
        """Returns the sums of each output as whole numbers."""
        return outputs_of(self.sums, self.counts, self.lowest, self.highest)

    def check(self, rule: Rule) -> None:
        """Raises :class:`InputError` unless the sums are possible for so many rows, and those of the rows if kept."""
        _check_table(self.sums, self.counts)
        check_elements("narrowest", self.narrowest, (self.narrowest >= 0) & (self.narrowest <= 127), "be a mark")
        rows = self.counts[:, ROWS]
        check_elements("counts", rows, rows == rows[0], "have the same rows in every output")
        outputs = self.outputs()
        _check_outputs(outputs, rule.kind)
        _check_ends(self, outputs, rule.kind)
        kept = int(rows[0]) if rule.keep_rows else 0
        for name, values in zip(("preds", "target"), self.rows()):
            check_rows(name, values, kept, "counts" if rule.keep_rows else "keep_rows=False")
        if rule.keep_rows:
            found = moments(*self.rows(), rule.kind, rule.parameter, limbs=self.sums.shape[-1])
            if exact(found.sums) != exact(self.sums) or not torch.equal(found.counts, self.counts):
                raise InputError("state field sums must be the sums of its rows but has others")
            for name, ends in (("lowest", found.lowest), ("highest", -found.highest)):
                check_elements(name, getattr(self, name), getattr(self, name) == ends, "be that of the rows")


@dataclass(frozen=True)
class InferredSums(State):
    """Exact sums of as many outputs as the first batch has: a block of D rows for each batch, or for some together.

    Attributes:
        outputs_seen: int64 ``[R]``: 0 to D - 1, again and again.
        sums: int64 ``[R, K, limbs]``.
        counts: int64 ``[R, 4]``.
        narrowest: see :class:`ExactSums`.
        preds: float64 ``[N D]``, row after row, where rows are kept.
        target: float64 ``[N D]``, likewise.
    """

    outputs_seen: Tensor = joined()
    sums: Tensor = joined()
    counts: Tensor = joined()
    narrowest: Tensor = least()
    preds: Tensor = joined()
    target: Tensor = joined()
    row_fields: ClassVar[tuple[str, ...]] = ("preds", "target")
    truth_fields: ClassVar[tuple[str, ...]] = ("target",)

    @classmethod
    def nothing(cls, sums: int) -> InferredSums:
        """Returns the state without data."""
        rows = [torch.zeros(0, dtype=torch.float64) for _ in range(2)]
        table = torch.zeros((0, sums, WIDE), dtype=torch.int64)
        blocks = torch.zeros(0, dtype=torch.int64), table, torch.zeros((0, 4), dtype=torch.int64)
        return cls(*blocks, torch.tensor(127, dtype=torch.int8), *rows)

    @property
    def columns(self) -> int:
        """D, 1 without data; waits for a device."""
        return int(self.outputs_seen.max()) + 1 if len(self.outputs_seen) else 1

    def rows(self) -> tuple[Tensor, Tensor]:
        """Returns the kept predictions and targets, ``[N, D]``."""
        columns = self.columns
        return self.preds.view(-1, columns), self.target.view(-1, columns)

    def folded(self) -> InferredSums:
        """Returns the state with one block of outputs.

        Raises:
            InputError: batches had other numbers of outputs.
        """
        if not len(self.outputs_seen):
            return self
        columns = self.columns
        places = torch.arange(len(self.outputs_seen), device=self.outputs_seen.device) % columns
        if len(places) % columns or not torch.equal(places, self.outputs_seen):
            raise InputError(
                f"all batches must have the same number of outputs but one had {columns} and another fewer"
            )
        table = self.sums.view(-1, columns, *self.sums.shape[1:]).sum(0)
        counts = self.counts.view(-1, columns, 4).sum(0)
        return type(self)(places[:columns], table, counts, self.narrowest, self.preds, self.target)

    def outputs(self) -> list[Output]:
        """Returns the sums of each output as whole numbers; those of no rows before a batch came."""
        whole = self.folded()
        numbers, scale, each = exact(whole.sums), unit(whole.sums), whole.sums.shape[1]
        if not len(whole.counts):
            return [_output([0] * each, [0, 0, 0, 0], scale)]
        return [
            _output(numbers[place * each : (place + 1) * each], counts, scale)
            for place, counts in enumerate(whole.counts.tolist())
        ]

    def check(self, rule: Rule) -> None:
        """Raises :class:`InputError` unless the sums are possible for so many rows, and those of the rows if kept."""
        blocks = len(self.outputs_seen)
        need = self.outputs_seen
        check_elements("outputs_seen", need, (need >= 0) & (need < max(blocks, 1)), "be from 0 to outputs - 1")
        for name in ("sums", "counts"):
            check_rows(name, getattr(self, name), blocks, "outputs_seen")
        whole = self.folded()
        _check_table(self.sums, self.counts)
        _check_outputs(self.outputs(), rule.kind)
        kept = int(whole.counts[:, ROWS].sum()) if rule.keep_rows else 0
        for name in ("preds", "target"):
            check_rows(name, getattr(self, name), kept, "counts" if rule.keep_rows else "keep_rows=False")
        if rule.keep_rows and blocks:
            found = moments(*self.rows(), rule.kind, rule.parameter)
            if exact(found.sums) != exact(whole.sums) or not torch.equal(found.counts, whole.counts):
                raise InputError("state field sums must be the sums of its rows but has others")


def outputs_of(sums: Tensor, counts: Tensor, lowest: Tensor, highest: Tensor) -> list[Output]:
    """Returns the sums of each output as whole numbers.

    Args:
        sums: of :class:`ExactSums`.
        counts: likewise.
        lowest: likewise.
        highest: likewise, with the other sign.
    """
    numbers, scale, each = exact(sums), unit(sums), sums.shape[1]
    rows = enumerate(zip(counts.tolist(), lowest.tolist(), highest.tolist()))
    return [
        _output(numbers[place * each : (place + 1) * each], counted, scale, low, -high)
        for place, (counted, low, high) in rows
    ]


def _output(numbers: list[int], counts: list[int], scale: int, low: float = math.nan, high: float = math.nan) -> Output:
    rows, nan = counts[ROWS], counts[NANS]
    negative = counts[NEGATIVE_INFINITE]
    infinite = counts[INFINITE] + negative
    return Output(Sums(rows - nan - infinite, scale, numbers, low, high), rows, nan, infinite, negative)


def _check_table(sums: Tensor, counts: Tensor) -> None:
    check_elements("sums", sums, (sums > -_MOST_LIMB) & (sums < _MOST_LIMB), "be between -2^62 and 2^62")
    check_elements("counts", counts, (counts >= 0) & (counts <= _MOST_ROWS), "be from 0 to 2^53")
    rows = counts[:, ROWS]
    check_elements("counts", rows, rows >= counts[:, NANS:].sum(1), "be at least the rows that are in no sum")


@dataclass(frozen=True)
class KeptSums(ExactSums):
    """Exact sums with the rows that they are of; see :class:`ExactSums`."""

    hashed: ClassVar[str | None] = "rows"


@dataclass(frozen=True)
class KeptInferredSums(InferredSums):
    """Sums of inferred outputs with the rows that they are of; see :class:`InferredSums`."""

    hashed: ClassVar[str | None] = "rows"


def _check_ends(state: ExactSums, outputs: list[Output], kind: Kind) -> None:
    """Raises unless the least and the largest target are such as the sums of targets can have."""
    kept = torch.tensor([o.sums.rows > 0 and kind == Kind.VARIANCE for o in outputs], device=state.lowest.device)
    for name, ends in (("lowest", state.lowest), ("highest", state.highest)):
        good = torch.where(kept, ends.isfinite(), ends == math.inf)
        check_elements(name, ends, good, "be finite where targets are summed, else infinite")
    for place, (o, *_) in enumerate(outputs):
        if kind == Kind.VARIANCE and o.rows:
            low, high = (Fraction(end) * (o.rows * o.unit) for end in (o.lowest, o.highest))
            cut = o.rows * math.isqrt(o.unit)  # numbers are cut to multiples of the root of a unit
            if not low - cut <= o.sums[_TARGETS] <= high + cut:
                raise InputError(f"state field sums[{place}] must have a mean target from lowest to highest")


def _check_outputs(outputs: list[Output], kind: Kind) -> None:
    """Raises unless squares and sums fit each other."""
    for place, (o, *_) in enumerate(outputs):
        if not o.rows and any(o.sums):
            raise InputError(f"state field sums[{place}] must be 0 without rows")
        squares = {Kind.VARIANCE: ((0, 1), (2, 3)), Kind.PRODUCTS: ((0, 2), (1, 3))}.get(kind, ())
        if any(centred(o.sums[two], o.sums[one], o.sums[one], o.rows, o.unit) < 0 for one, two in squares):
            raise InputError(f"state field sums[{place}] must have squares of so large numbers")
        if kind not in (Kind.VARIANCE, Kind.PRODUCTS, Kind.TWEEDIE) and min(o.sums) < 0:
            raise InputError(f"state field sums[{place}] must be at least 0")
