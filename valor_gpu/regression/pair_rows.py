"""Base of the metrics of regression that keep every prediction and target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_dense, check_int, check_same_device
from valor_gpu.digests import DataHashes
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import raise_or_defer
from valor_gpu.plans import Form, Plan, Planner, Step, pair_planner
from valor_gpu.regression.whole_numbers import describe_rounding, rounding_error
from valor_gpu.row_digests import multiset_hash
from valor_gpu.state import State, array_of, check_rows, joined

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

_NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.bool)
"""Dtypes whose numbers float32 holds."""
_WIDE = (torch.float64, torch.int32, torch.int64)
NAN_POLICIES = ("propagate", "omit")
_SIDES = ("preds", "target")
_FIELDS = {torch.float32: ("preds", "target"), torch.float64: ("wide_preds", "wide_target")}


@dataclass(frozen=True)
class PairRows(State):
    """Predictions and targets, in float32 where all of a batch fit in it, else in float64.

    Attributes:
        preds: float32 ``[N, D]``.
        target: float32 ``[N, D]``.
        wide_preds: float64 ``[M, D]``, after the others.
        wide_target: float64 ``[M, D]``.
    """

    preds: Tensor = joined()
    target: Tensor = joined()
    wide_preds: Tensor = joined()
    wide_target: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"

    @classmethod
    def of(cls, preds: Tensor, target: Tensor) -> PairRows:
        """Returns the state of a batch of one dtype, float32 or float64."""
        wide = preds.dtype == torch.float64
        none = preds.new_empty((0, preds.shape[1]), dtype=torch.float32 if wide else torch.float64)
        return cls(none, none, preds, target) if wide else cls(preds, target, none, none)

    @property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """Both sides ``[N + M, D]``, of float64 where a batch was."""
        if not len(self.wide_preds):
            return self.preds, self.target
        if not len(self.preds):
            return self.wide_preds, self.wide_target
        return torch.cat((self.preds, self.wide_preds)), torch.cat((self.target, self.wide_target))

    def hashes(self) -> DataHashes:
        """Returns hashes of the data, the same for numbers of either dtype."""
        columns = {name: array_of(side.double()) for name, side in zip(_SIDES, self.pairs)}
        rows = multiset_hash("PairRows predictions", columns)
        return DataHashes("rows", multiset_hash("PairRows truths", {"target": columns["target"]}), rows)

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless both sides have as many rows."""
        check_rows("target", self.target, len(self.preds), "preds")
        check_rows("wide_target", self.wide_target, len(self.wide_preds), "wide_preds")


class PairMetric(Metric[PairRows]):
    """Base of the metrics of pairs of numbers that all are kept.

    Args:
        num_outputs: D: 1 for preds and target ``[N]`` or ``[N, 1]``, else ``[N, D]``, each column by itself.
        nan_policy: ``propagate``: a NaN makes the number of its output NaN; ``omit`` leaves its row out there.

    Raises:
        InputError: ``num_outputs`` is below 1, or another choice is none of those above.
    """

    update_family: ClassVar[str | None] = "pairs of numbers"

    def __init__(self, num_outputs: int = 1, *, nan_policy: str = "propagate", **kwargs: Unpack[MetricOptions]) -> None:
        check_int("num_outputs", num_outputs, 1)
        check_choice("nan_policy", nan_policy, NAN_POLICIES)
        self.num_outputs, self.nan_policy = num_outputs, nan_policy
        empty = PairRows.of(*2 * (torch.empty((0, num_outputs), dtype=torch.float32),))
        super().__init__(empty, {"num_outputs": num_outputs, "nan_policy": nan_policy}, **kwargs)

    def _planner(self) -> Planner:
        return pair_planner(self.__dict__, ("num_outputs", "nan_policy"), self._plan)

    def _plan(self, form: Form) -> Plan | None:
        outputs = self.num_outputs
        shape = (*form.preds_shape, 1) if len(form.preds_shape) == 1 else tuple(form.preds_shape)
        tabular = len(shape) == 2 and shape[1] == outputs
        names = _FIELDS.get(form.preds)
        if names is None or form.target != form.preds or form.target_shape != form.preds_shape or not tabular:
            return None

        of_preds, of_target = names
        flat = len(form.preds_shape) == 1

        def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step:
            return Step({}, ((of_preds, _copied(preds, flat)), (of_target, _copied(target, flat))))

        return plan

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: ``[N]``, with ``num_outputs`` D above 1 ``[N, D]``; any real dtype. Rows with NaN are kept.
            target: likewise, of the shape of ``preds``.

        Raises:
            InputError: naming the argument; an int64 beyond 2^53, on CUDA raised by ``compute`` instead.
        """
        sides = pair_of_tables(preds, target, self.num_outputs)
        error = rounding_error(sides)
        deferred = None if error is None else raise_or_defer(error, self._describe_error)
        wide = any(side.dtype in _WIDE for side in sides)
        kept = partial(Tensor.to, dtype=torch.float64 if wide else torch.float32, copy=True)
        self._add(PairRows.of(*(kept(side).contiguous() for side in sides)), deferred)

    def _describe_error(self, code: int) -> str:
        return describe_rounding(code) or f"an update failed with code {code}"


def _copied(side: Tensor, flat: bool) -> Tensor:
    """Numbers ``[N, D]``, or ``[N]`` if they are flat, as ``[N, D]`` in new memory."""
    copied = (side.detach() if side.requires_grad else side).clone()
    return copied.unsqueeze_(1) if flat else copied


def pair_of_tables(preds: Values, target: Values, outputs: int) -> tuple[Tensor, Tensor]:
    """Checks both sides and returns them as ``[N, D]``.

    Args:
        preds: predictions.
        target: targets.
        outputs: D.

    Raises:
        InputError: naming the argument.
    """
    sides = []
    for name, given in zip(_SIDES, (preds, target)):
        side = as_values(name, given)
        check_dense(name, side)
        if side.dtype not in (*_NARROW, *_WIDE):
            raise InputError(f"{name} must hold real numbers but has dtype {side.dtype}")
        table = side[:, None] if side.ndim == 1 else side
        if table.ndim != 2 or table.shape[1] != outputs:
            need = "[N]" if outputs == 1 else f"[N, {outputs}], as num_outputs says,"
            raise InputError(f"{name} must have shape {need} but got {list(side.shape)}")
        sides.append(table)
    if len(sides[0]) != len(sides[1]):
        raise InputError(f"target must have the {len(sides[0])} rows of preds but has {len(sides[1])}")
    check_same_device(_SIDES, sides)
    return sides[0], sides[1]
