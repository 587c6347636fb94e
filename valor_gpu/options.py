"""Keywords that constructors share, so that editors and type checkers know each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from numpy.typing import ArrayLike
    from torch import Tensor


class MetricOptions(TypedDict, total=False):
    """Keywords of :class:`valor_gpu.metric.Metric`: those of ``torchmetrics.Metric``."""

    compute_on_cpu: bool
    compute_with_cache: bool
    dist_sync_fn: Callable[..., Any] | None
    dist_sync_on_step: bool
    distributed_available_fn: Callable[..., Any]
    process_group: Any
    sync_on_compute: bool


class CorpusOptions(MetricOptions, total=False):
    """Keywords of every metric whose counts are summed over rows: ``keep_rows`` keeps those of each, for intervals."""

    keep_rows: bool


class TaskOptions(MetricOptions, total=False):
    """Keywords of every metric of classification; values are always checked, whatever ``validate_args`` is."""

    validate_args: bool


class NamedOptions(MetricOptions, total=False):
    """Keywords that every class of one task takes beside the arguments of torchmetrics' class of the same name.

    They are arguments of the class that it is made of, where that has them.
    """

    activation: str
    score_dtype: torch.dtype
    separate_ones: bool
    keep_rows: bool


class RatioOptions(TaskOptions, total=False):
    """Keywords that metrics of class counts share beside ``average`` and ``zero_division``; see ``Accuracy``."""

    top_k: int
    threshold: float
    ignore_index: int | None
    activation: str
    multidim_average: str
    keep_rows: bool


class PairOptions(TaskOptions, total=False):
    """Keywords that metrics of a confusion matrix share; see ``MatthewsCorrCoef``."""

    threshold: float
    ignore_index: int | None
    activation: str
    max_examples: int


class RankingOptions(TaskOptions, total=False):
    """Keywords that metrics of ranked scores share beside ``average`` and ``thresholds``; see ``AveragePrecision``."""

    bins: int | None
    ignore_index: int | None
    activation: str
    score_dtype: torch.dtype


class AreaOptions(RankingOptions, total=False):
    """Keywords of ``ROCAUC`` beside ``average``."""

    thresholds: int | ArrayLike | Tensor | None
    max_fpr: float | None


class CurveOptions(TaskOptions, total=False):
    """Keywords that metrics of one point of a curve share; see ``PrecisionAtFixedRecall``."""

    thresholds: int | ArrayLike | Tensor | None
    ignore_index: int | None
    activation: str
    score_dtype: torch.dtype


class RegionOptions(MetricOptions, total=False):
    """Keywords that metrics of regions share; see ``mIOU``."""

    aggregation_level: str
    ignore_index: int | None
    include_background: bool
    input_format: str
    keep_images: bool
    zero_division: float


class RetrievalOptions(MetricOptions, total=False):
    """Keywords of every metric of retrieval beside the arguments of torchmetrics; see ``QueryMetric``."""

    unjudged_index: int | None
    relevance_level: float | None


class ScoredAboveOptions(RetrievalOptions, total=False):
    """Keywords of metrics of retrieval that find no document of too low a score; see ``ScoredAboveMetric``."""

    score_above: float | None
