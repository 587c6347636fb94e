"""Aggregate statistics of a run: mean, failures by cause, bounds under failures, standard error, variance split."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.judge.protocol import Judgement, Usage


@dataclass(frozen=True)
class Prices:
    """Price of a million tokens, in the user's currency.

    Attributes:
        prompt: of tokens sent.
        completion: of tokens received.
        cached: of tokens sent that the server had cached; None for the price of ``prompt``.
        currency: for people, such as ``USD``; shown behind every cost.

    Example:
        >>> Prices(prompt=2.5, completion=10).cost(Usage(prompt=1_000_000, completion=100_000))
        3.5
    """

    prompt: float
    completion: float
    cached: float | None = None
    currency: str = ""

    def cost(self, usage: Usage) -> float:
        """Cost of ``usage``."""
        cached = self.prompt if self.cached is None else self.cached
        sent = (usage.prompt - usage.cached) * self.prompt + usage.cached * cached
        return (sent + usage.completion * self.completion) / 1e6

    def to_dict(self) -> dict[str, float | str | None]:
        """Returns the prices as JSON, without a currency where none is named.

        Example:
            >>> Prices(prompt=2.5, completion=10, currency="USD").to_dict()
            {'prompt': 2.5, 'completion': 10, 'cached': None, 'currency': 'USD'}
        """
        found = dict(vars(self))
        return found if self.currency else {name: value for name, value in found.items() if name != "currency"}


@dataclass(frozen=True)
class Summary:
    """Aggregate statistics of one metric in a run. A number that does not exist is NaN, with a reason.

    Attributes:
        mean: over the rows with a score; a row's score is the mean of its repeats that have one.
        standard_error: of ``mean`` as a sample of rows, or of clusters of rows.
        n: judgements: rows x repeats.
        n_scored: those with a value.
        n_failed: the others by status.
        rows_scored: rows with a score.
        lower: mean of all rows, had every failed judgement been the least possible value.
        upper: the same with the greatest.
        item_variance: between rows. It can come out slightly below 0 when rows hardly differ.
        judge_variance: between repeats of a row: the judge's own unsteadiness.
        usage: tokens spent now.
        cost: of ``usage``; None without prices.
        cached: judgements that came from the cache.
        attempts: requests.
        reasons: name of a NaN to why.
    """

    mean: float
    standard_error: float
    n: int
    n_scored: int
    n_failed: Mapping[str, int]
    rows_scored: int
    lower: float
    upper: float
    item_variance: float
    judge_variance: float
    usage: Usage
    cost: float | None
    cached: int
    attempts: int
    reasons: Mapping[str, str] = field(default_factory=dict)


def row_mean(row: Sequence[Judgement]) -> float:
    """Mean of a row's judgements that have a value, NaN when none has."""
    return _mean([float(judgement.value) for judgement in row if judgement.ok])


def _mean(values: Sequence[float]) -> float:
    """Mean of numbers, NaN when there is none. Their sum may be greater than any float."""
    if not values:
        return math.nan
    scale = _scale(values)
    return math.fsum(value / scale for value in values) / len(values) * scale


def _scale(values: Sequence[float]) -> float:
    """1, or a power of two near the greatest of numbers whose squares or sums could overflow."""
    greatest = max((abs(value) for value in values if not math.isinf(value)), default=0.0)
    return 2.0 ** (math.frexp(greatest)[1] - 1) if greatest > 1e140 else 1.0


def check_clusters(clusters: Sequence[Hashable] | None, count: int) -> list[Hashable] | None:
    """Returns ``clusters`` as a list of ids that are equal when they say the same.

    Raises:
        InputError: there are more or fewer than ``count``, or one cannot tell rows apart: NaN, or a list.

    Example:
        >>> check_clusters("aab", 3)
        ['a', 'a', 'b']
    """
    if clusters is None:
        return None
    if not hasattr(clusters, "__len__") or len(clusters) != count:
        found = f"has {len(clusters)}" if hasattr(clusters, "__len__") else f"is {type(clusters).__name__}"
        raise InputError(f"clusters must hold one id per row, {count}, but {found}")
    # Elements of a tensor are equal only to themselves; as plain numbers they are ids.
    ids: list[Hashable] = list(clusters.tolist() if hasattr(clusters, "tolist") else clusters)
    for index, one in enumerate(ids):
        if not _is_id(one):
            raise InputError(f"clusters must hold ids of rows but clusters[{index}] is {one!r}")
    return ids


def _is_id(value: Any) -> bool:
    try:
        return bool(hash(value) is not None and value == value)
    except Exception:
        return False


def standard_error(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float:
    """Standard error of the mean of ``values``.

    With clusters (rows of one document, say) sums of deviations within a cluster stand for the rows; a cluster for
    each row gives the plain ``s / sqrt(n)``.

    Args:
        values: without NaN.
        clusters: one id per value; None when the values are independent.

    Returns:
        NaN for fewer than two values, or clusters.

    Source: Liang and Zeger, "Longitudinal data analysis using generalized linear models" (1986), with the factor
    G / (G - 1) of G clusters.

    Example:
        >>> standard_error([1.0, 3.0]), round(standard_error([1.0, 1.0, 3.0, 3.0], "aabb"), 6)
        (1.0, 1.0)
    """
    n = len(values)
    if n < 2:
        return math.nan
    clusters = check_clusters(clusters, n)
    scale = _scale(values)
    if scale != 1.0:
        return standard_error([value / scale for value in values], clusters) * scale
    mean = math.fsum(values) / n
    members: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, range(n) if clusters is None else clusters):
        members.setdefault(cluster, []).append(value - mean)
    count = len(members)
    if count < 2:
        return math.nan
    squares = math.fsum(math.fsum(deviations) ** 2 for deviations in members.values())
    return math.sqrt(squares * count / (count - 1)) / n


def variance_split(rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    """(variance between rows, variance between repeats of a row) by one-way random effects.

    Args:
        rows: the values of each row's repeats; their numbers may differ.

    Returns:
        NaN for what does not exist: no row with two values, or fewer than two rows.

    Source: Searle, Casella and McCulloch, "Variance Components" (1992), section 3.6, ANOVA estimators.

    Example:
        >>> variance_split([[1.0, 3.0], [5.0, 7.0]])
        (7.0, 2.0)
    """
    filled = [row for row in rows if row]
    scale = _scale([value for row in filled for value in row])
    if scale != 1.0:
        item, judge = variance_split([[value / scale for value in row] for row in filled])
        return item * scale * scale, judge * scale * scale
    n, total = len(filled), sum(map(len, filled))
    if total == n:
        return math.nan, math.nan
    means = [math.fsum(row) / len(row) for row in filled]
    within = math.fsum((value - mean) ** 2 for row, mean in zip(filled, means) for value in row) / (total - n)
    if n < 2:
        return math.nan, within
    grand = math.fsum(value for row in filled for value in row) / total
    between = math.fsum(len(row) * (mean - grand) ** 2 for row, mean in zip(filled, means)) / (n - 1)
    size = (total - math.fsum(len(row) ** 2 for row in filled) / total) / (n - 1)
    return (between - within) / size, within


def summarize(
    rows: Sequence[Sequence[Judgement]],
    low: float,
    high: float,
    clusters: Sequence[Hashable] | None = None,
    prices: Prices | None = None,
) -> Summary:
    """Summary of one metric.

    Args:
        rows: for each row the judgements of its repeats, equally many.
        low: least possible value, for the bounds.
        high: greatest possible value.
        clusters: one id per row.
        prices: of tokens.

    Raises:
        InputError: ``clusters`` does not hold one id per row.

    Example:
        >>> from valor_gpu.judge.protocol import Status
        >>> summary = summarize([[Judgement(4.0, Status.OK)], [Judgement(None, Status.TIMEOUT)]], 1, 5)
        >>> summary.mean, summary.lower, summary.upper, dict(summary.n_failed)
        (4.0, 2.5, 4.5, {'timeout': 1})
    """
    clusters = check_clusters(clusters, len(rows))
    flat = [judgement for row in rows for judgement in row]
    scored = [(at, mean) for at, row in enumerate(rows) if not math.isnan(mean := row_mean(row))]
    means = [mean for _, mean in scored]
    error = standard_error(means, None if clusters is None else [clusters[at] for at, _ in scored])
    item, judge = variance_split([[float(found.value) for found in row if found.ok] for row in rows])
    usage = sum((judgement.usage for judgement in flat), Usage())
    numbers = {
        "mean": _mean(means),
        "standard_error": error,
        "lower": _mean_with(rows, low),
        "upper": _mean_with(rows, high),
        "item_variance": item,
        "judge_variance": judge,
    }
    return Summary(
        **numbers,
        n=len(flat),
        n_scored=sum(judgement.ok for judgement in flat),
        n_failed=dict(Counter(str(judgement.status) for judgement in flat if not judgement.ok)),
        rows_scored=len(scored),
        usage=usage,
        cost=None if prices is None else prices.cost(usage),
        cached=sum(judgement.cached for judgement in flat),
        attempts=sum(judgement.attempts for judgement in flat),
        reasons={name: _why(name, len(rows), len(scored)) for name, value in numbers.items() if math.isnan(value)},
    )


def _mean_with(rows: Sequence[Sequence[Judgement]], failed: float) -> float:
    """Mean over rows with ``failed`` for every missing value."""
    return _mean([_mean([float(found.value) if found.ok else failed for found in row]) for row in rows])


def _why(name: str, rows: int, scored: int) -> str:
    if not rows:
        return "there are no rows"
    if not scored:
        return "no row has a score"
    if name in ("item_variance", "judge_variance"):
        return "it takes two rows, one of them with two scored repeats"
    return "it takes two rows, or two clusters, with a score"
