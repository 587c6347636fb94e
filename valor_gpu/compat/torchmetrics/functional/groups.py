"""Rates of groups of one batch, and how far they are apart. See the class of each for its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.argument_docs import arguments_of
from valor_gpu.classification.group_fairness import BinaryFairness, BinaryGroupStatRates, groups_in
from valor_gpu.compat.torchmetrics.functional.names import GROUPS
from valor_gpu.compat.torchmetrics.functional.once import alone
from valor_gpu.default_device import device_free
from valor_gpu.graphs import outside_graphs
from valor_gpu.inputs.values import as_values

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

__all__ = list(GROUPS)


def binary_groups_stat_rates(
    preds: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    groups: ArrayLike | Tensor,
    num_groups: int,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> dict[str, Tensor]:
    """Returns the fractions of true and false positives and negatives of each group, float32 ``[4]`` by name.

    See :class:`valor_gpu.classification.BinaryGroupStatRates`.

    Args:
        preds: probabilities or logits, or decisions 0 and 1 of an integer dtype, ``[N, ...]``.
        target: 0 and 1 in the shape of ``preds``.
        groups: integer group of each element in the shape of ``preds``, or ``[N]`` of each row.
        num_groups: G, at least 2; groups are from 0 to G - 1.
        threshold: scores above it are positive.
        ignore_index: elements with this target are left out.
        validate_args: has no effect: values are always checked.

    Raises:
        InputError: an argument or a value is out of range.

    Example:
        >>> binary_groups_stat_rates([0.9, 0.2, 0.8], [1, 0, 0], [0, 0, 1], 2)
        {'group_0': tensor([0.5000, 0.0000, 0.5000, 0.0000]), 'group_1': tensor([0., 1., 0., 0.])}
    """
    value: dict[str, Tensor] = _value(
        BinaryGroupStatRates, num_groups, (preds, target, groups), (threshold, ignore_index, validate_args)
    )
    return value


@arguments_of(binary_groups_stat_rates)
def binary_fairness(
    preds: ArrayLike | Tensor,
    target: ArrayLike | Tensor | None,
    groups: ArrayLike | Tensor,
    task: str = "all",
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> dict[str, Tensor]:
    """Returns the lowest rate of groups divided by the highest, float32 ``[]`` by criterion and groups.

    See :class:`valor_gpu.classification.BinaryFairness`.

    Args:
        target: 0 and 1 in the shape of ``preds``; not read for demographic parity.
        task: ``demographic_parity``, ``equal_opportunity`` or ``all``.

    Raises:
        InputError: an argument or a value is out of range.

    Example:
        >>> binary_fairness([0.9, 0.2, 0.8], [1, 1, 1], [0, 0, 1])
        {'DP_0_1': tensor(0.5000), 'EO_0_1': tensor(0.5000)}
    """
    choices = (task, threshold, ignore_index, validate_args)
    value: dict[str, Tensor] = _value(BinaryFairness, None, (preds, target, groups), choices)
    return value


@arguments_of(binary_groups_stat_rates)
def demographic_parity(
    preds: ArrayLike | Tensor,
    groups: ArrayLike | Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> dict[str, Tensor]:
    """Returns the lowest fraction of positive decisions of groups divided by the highest; see ``binary_fairness``.

    Args:
        ignore_index: has no effect: no target is read.

    Example:
        >>> demographic_parity([0.9, 0.2, 0.8], [0, 0, 1])
        {'DP_0_1': tensor(0.5000)}
    """
    choices = ("demographic_parity", threshold, ignore_index, validate_args)
    value: dict[str, Tensor] = _value(BinaryFairness, None, (preds, None, groups), choices)
    return value


@arguments_of(binary_groups_stat_rates)
def equal_opportunity(
    preds: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    groups: ArrayLike | Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> dict[str, Tensor]:
    """Returns the lowest true positive rate of groups divided by the highest; see ``binary_fairness``.

    Example:
        >>> equal_opportunity([0.9, 0.2, 0.8], [1, 1, 1], [0, 0, 1])
        {'EO_0_1': tensor(0.5000)}
    """
    choices = ("equal_opportunity", threshold, ignore_index, validate_args)
    value: dict[str, Tensor] = _value(BinaryFairness, None, (preds, target, groups), choices)
    return value


@outside_graphs  # torch.compile cannot trace the constructor of a metric
@device_free
def _value(kind: Any, num_groups: int | None, batch: tuple[Any, Any, Any], choices: tuple[Any, ...]) -> Any:
    """``compute`` after one ``update``; without a number of groups there are as many as the largest says."""
    preds, target, groups = batch
    preds, groups = as_values("preds", preds), as_values("groups", groups)
    if num_groups is None:
        num_groups = groups_in(groups)
    metric = alone(kind(num_groups, *choices)).to(preds.device)
    metric.update(preds, target, groups)
    return metric.compute()
