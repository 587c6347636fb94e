"""Scores of rows and their exact sums by the C++ library, in one read of the numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._launch import on_host
from valor_gpu.ops.moments.kinds import WIDE
from valor_gpu.plans import Field, Form, Plan, Step, native_plan

COSINE, KL, KL_OF_LOGS, JS, JS_OF_LOGS, ENSEMBLE, FAIR_ENSEMBLE, QUANTILE_LOSSES, QUANTILE_SCORE, COVERAGE = range(10)
"""RowScore in csrc/core/row_scores.h."""

_FLOATS = (torch.float32, torch.float64)
_KEPT = 1  # in place of the address of scores


@dataclass(frozen=True)
class Scoring:
    """A native score of rows, and the forms of its inputs.

    Attributes:
        kind: of the score; from ``ENSEMBLE`` on the second row is one number, the target.
        levels: of predicted quantiles.
        confidence: of predicted intervals.
        least: fewest columns of the first rows.
        columns: of the first rows; 0: any.
        flat: whether first rows of one number may come as ``[N]``.
    """

    kind: int
    levels: tuple[float, ...] = ()
    confidence: float = 0.0
    least: int = 0
    columns: int = 0
    flat: bool = False

    @property
    def scores(self) -> int:
        """How many scores a row has, K."""
        return {QUANTILE_LOSSES: len(self.levels), COVERAGE: 3}.get(self.kind, 1)


class RowSumsFound(NamedTuple):
    """Scores of a batch and their sums.

    Attributes:
        scores: float64 ``[N, K]``; None unless asked for.
        sums: int64 ``[2 K, WIDE]``, of :class:`valor_gpu.regression.row_means.RowSums`; None likewise.
        counts: int64 ``[K, 4]``; None likewise.
    """

    scores: Tensor | None
    sums: Tensor | None
    counts: Tensor | None


def native_row_sums(
    first: Tensor, second: Tensor, scoring: Scoring, keep_scores: bool, keep_sums: bool
) -> RowSumsFound | None:
    """Returns the scores of rows and their sums; None without the library, or where a number is bad.

    Args:
        first: float32 or float64 ``[N, D]``, contiguous.
        second: of the same dtype, ``[N, D]`` or ``[N]``, contiguous.
        scoring: what a score is.
        keep_scores: whether to give scores.
        keep_sums: whether to give sums and counts.
    """
    if not (first.is_cpu and on_host("valor_cpu")):
        return None
    count, levels = scoring.scores, np.array(scoring.levels)
    scores = torch.empty((len(first), count), dtype=torch.float64) if keep_scores else None
    sums, counts, bad = (torch.zeros(shape, dtype=torch.int64) for shape in ((2 * count, WIDE), (count, 4), ()))
    task = native.struct("valor_cpu", "RowScoreTask")(
        *(first.data_ptr(), second.data_ptr(), *first.shape, first.dtype == torch.float64, scoring.kind),
        *(levels.ctypes.data, scoring.confidence, WIDE if keep_sums else 0),
        *(scores.data_ptr() if scores is not None else None, sums.data_ptr(), counts.data_ptr(), bad.data_ptr()),
        torch.get_num_threads(),
    )
    native.function("valor_cpu", "valor_row_scores_cpu")(ctypes.addressof(task))
    if bad:
        return None
    return RowSumsFound(scores, *(sums, counts) if keep_sums else (None, None))


def row_scores_plan(
    form: Form, scoring: Scoring, wide: Mapping[torch.dtype, Tensor], keep_scores: bool, keep_sums: bool
) -> Plan | None:
    """The plan of scores of rows; None if the checked path has to look at the form.

    Args:
        form: what comes.
        scoring: what a score is.
        wide: the mark of a batch of a dtype.
        keep_scores: whether the state has a field ``scores``.
        keep_sums: whether it has ``sums`` and ``counts``.
    """
    call = native.update_function("valor_cpu", "valor_add_row_scores_cpu")
    count = scoring.scores
    shape = torch.Size((*form.preds_shape, 1)) if scoring.flat and len(form.preds_shape) == 1 else form.preds_shape
    other = shape if scoring.kind < ENSEMBLE else shape[:1]
    if call is None or form.preds is not form.target or form.preds not in _FLOATS or form.target_shape != other:
        return None
    if len(shape) != 2 or shape[1] < scoring.least or scoring.columns not in (0, shape[1]):
        return None
    levels = np.array(scoring.levels)  # which the plan holds
    words = bytes(
        native.struct("valor_cpu", "RowScoreTask")(
            *(None, None, *shape, form.preds == torch.float64, scoring.kind, levels.ctypes.data, scoring.confidence),
            *(WIDE if keep_sums else 0, _KEPT if keep_scores else None),
        )
    )
    fields = (Field("sums", torch.int64, (2 * count, WIDE)), Field("counts", torch.int64, (count, 4)))
    rows = {"scores": torch.empty((shape[0], count), dtype=torch.float64)} if keep_scores else {}
    own = wide[form.preds]
    return _marked(native_plan(call, words, fields if keep_sums else (), rows), own, levels)


def _marked(add: Callable[..., Step | None], own: Tensor, held: object) -> Plan:
    """A plan that also keeps the least mark of batches; it holds ``held``, whose memory the call reads."""
    seen = [own, held]  # first what the last update left, mostly the same again

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        if (step := add(base, preds, target)) is None:
            return None
        if base["wide"] is not seen[0]:
            seen[0] = torch.minimum(base["wide"], own)
        return Step({**step.tensors, "wide": seen[0]}, step.rows)

    return plan
