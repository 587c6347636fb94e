"""The summary of a run: every number that is shown of it, computed from its store. No torch, no pandas.

Example:
    >>> import tempfile
    >>> from valor_gpu.store import Store, StoredRow, StoredScore
    >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
    ...     run = store.create_run("capitals", {})
    ...     added = run.add_rows([StoredRow(n, str(n), {"question": "?"}) for n in (1, 2)])
    ...     added = run.add_scores([StoredScore(n, "f1_score", 0, n / 2) for n in (1, 2)])
    ...     run_summary(run)["metrics"]
    {'mean_f1_score': 0.75}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from valor_gpu.evaluation.evaluators.base import EVALUATORS, evaluator
from valor_gpu.evaluation.results.jailbreak import jailbreak_summary
from valor_gpu.evaluation.results.metric_summary import (
    CONFIDENCE,
    Pool,
    clustered_rate,
    interval,
    metric_summary,
    number,
    pooled_summary,
)
from valor_gpu.evaluation.results.parts import with_parts
from valor_gpu.evaluation.results.row_table import RowTable, SliceColumn, read_row_table
from valor_gpu.evaluation.results.row_values import Ints, RowValues, read_counts, read_row_values, within
from valor_gpu.evaluation.results.spending import ReplacedSpending, read_spending, spending_summary
from valor_gpu.evaluation.results.thresholds import Threshold, read_thresholds
from valor_gpu.store.columns import Columns
from valor_gpu.store.replaced import replaced_usage
from valor_gpu.store.runs import Run

NO_LEVELS = ("text", "corpus", "check", "retrieval", "quality")
"""Kinds of evaluators whose scores have no names of levels."""


def run_summary(
    run: Run,
    *,
    thresholds: Mapping[str, float | str] | None = None,
    seconds: float | None = None,
    stopped: str | None = None,
) -> dict[str, Any]:
    """Computes what the stored scores of a run amount to, whatever its state; nothing is judged.

    ``mean_<metric>`` is over the rows with a value, of the mean over a row's repeats. Rows that answer one question
    (``epochs``) are a cluster: standard errors and intervals know that they are alike. Pooled metrics have one number
    of all rows, without ``mean_``.

    Args:
        run: of a store.
        thresholds: instead of those of the run: evaluator to a number or a level, see
            :func:`~valor_gpu.evaluation.results.thresholds.read_thresholds`.
        seconds: that the run took; by default what its finished summary says.
        stopped: why it stopped early; likewise.

    Returns:
        Strict JSON.

        - ``metrics``: flat name to number, None where there is none: ``mean_<metric>``, ``<metric>`` of pooled ones,
          ``<metric>_pass_rate`` where there is a threshold, ``<metric>_defect_rate`` of severities, and ``pass_rate``,
          the fraction of rows that pass all thresholds, where the run or the call names any;
          ``jailbreak_defect_rate`` where the run has severities and a baseline.
        - ``evaluators``: name to what :func:`~valor_gpu.evaluation.results.metric_summary.metric_summary` says, and
          ``kind``, ``summary_name``, ``higher_is_better``, ``value`` of pooled metrics, ``n_not_judged`` (answered rows
          without any score), ``usage`` and ``seconds`` (added up over scores).
        - ``passed``: rows that pass all thresholds, with ``rate`` and ``interval``; None without thresholds.
        - ``jailbreak``: see :func:`~valor_gpu.evaluation.results.jailbreak.jailbreak_summary`.
        - ``rows``: ``n``, ``ok`` and ``failed`` by status; ``n_questions`` where each was answered several times.
        - ``slices``: column to ``{"slices": [{"value", "n", "passed", "evaluators"}], "reason"}``.
        - ``usage`` of tokens, ``cost``, ``costs`` (of ``judge`` and ``target``), with the failed attempts that were
          replaced, of which ``replaced`` has ``n``, ``attempts``, ``usage``, ``cost`` and ``costs``.
        - ``latency`` of the calls of ``judge`` and ``target`` that were answered, in seconds: ``n``, ``p50``, ``p95``
          and ``max``, see :class:`~valor_gpu.evaluation.results.latency.Latency`; None where no times are kept. Replies
          that were known already are no calls.
        - ``seconds``, ``stopped``, ``tracking`` (where MLflow has the run, or None), ``confidence`` of the intervals.

    Raises:
        InputError: thresholds for what is no evaluator of the run.
    """
    columns = Columns(run)
    infos = evaluator_infos(run, columns)
    given = run.config.get("thresholds") if thresholds is None else thresholds
    limits = read_thresholds(given, infos)
    table = read_row_table(columns, run.config)
    found = [_Evaluated.read(columns, info, limits.get(info["name"])) for info in infos]
    spent = read_spending(columns)
    whole = {each.name: each.summary(table, None) for each in found}
    for each in found:
        whole[each.name] |= each.whole_run(columns, table)
        if each.name in spent:
            whole[each.name] |= {"usage": spent[each.name].tokens(), "seconds": spent[each.name].seconds}
    passed = _passed(found, table, None)
    jailbreak = jailbreak_summary(run, [each.name for each in found if each.info["kind"] == "safety"])
    last = run.finished_summary or {}
    return {
        "metrics": _flat(whole, passed if given else None, jailbreak),
        "evaluators": whole,
        "passed": passed,
        "jailbreak": jailbreak,
        "rows": table.counts(),
        "slices": {name: _slices(column, found, table) for name, column in table.slices.items()},
        **spending_summary(spent, table.target, ReplacedSpending(replaced_usage(run)), run.config),
        "seconds": last.get("seconds") if seconds is None else seconds,
        "stopped": last.get("stopped") if stopped is None else stopped,
        "tracking": last.get("tracking"),
        "confidence": CONFIDENCE,
    }


def evaluator_infos(run: Run, columns: Columns | None = None) -> list[dict[str, Any]]:
    """What is known of the evaluators of a run: those of its configuration, then others that it has scores of.

    An evaluator that returns several numbers is replaced by its metrics, see
    :func:`~valor_gpu.evaluation.results.parts.with_parts`.

    Returns:
        For each ``name``, ``kind``, ``summary_name``, ``higher_is_better``, ``pooled``, ``low``, ``high``,
        ``parameters`` and what else the configuration says.
    """
    configured = [_info(each) for each in run.config.get("evaluators") or ()]
    stored = (columns or Columns(run)).evaluators()
    found = with_parts(configured, stored, run.config.get("thresholds") or ())
    known = {each["name"] for each in (*configured, *found)}
    return [*map(dict, found), *(_info({"name": name}) for name in stored if name not in known)]


def _info(given: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluator's facts; what the configuration lacks is taken from the table of evaluators."""
    name = given["name"]
    known = EVALUATORS.get(name)
    pooled = known is not None and known.kind == "corpus"
    defaults: dict[str, Any] = {
        "kind": known.kind if known else "custom",
        "higher_is_better": known.higher_is_better if known else None,
        "low": known.low if known else None,
        "high": known.high if known else None,
        "parameters": {},
        "pooled": pooled,
        "summary_name": name if pooled else f"mean_{name}",
    }
    return {**defaults, **given}


@dataclass(frozen=True)
class _Evaluated:
    """An evaluator with all that its scores say.

    Attributes:
        info: of the evaluator.
        values: of the rows.
        threshold: or None.
        counts: rows and counts of a pooled evaluator, and what makes a number of them.
    """

    info: Mapping[str, Any]
    values: RowValues
    threshold: Threshold | None
    counts: tuple[Ints, Ints, Pool] | None

    @classmethod
    def read(cls, columns: Columns, info: Mapping[str, Any], threshold: Threshold | None) -> _Evaluated:
        counts = None
        if info["pooled"]:
            counts = (*read_counts(columns, info["name"]), pool_of(info))
        return cls(info, read_row_values(columns, info["name"]), threshold, counts)

    @property
    def name(self) -> str:
        return str(self.info["name"])

    def summary(self, table: RowTable, numbers: Ints | None) -> dict[str, Any]:
        """The numbers of some rows; None for all of them."""
        values = self.values if numbers is None else self.values.chosen(numbers)
        found = metric_summary(self.info, values, table.clusters(values.rows), self.threshold)
        if self.counts is not None:
            rows, counts, pool = self.counts
            kept = np.ones(len(rows), bool) if numbers is None else within(rows, numbers)
            pooled = pooled_summary(self.info, pool, counts[kept], table.clusters(rows[kept]), errors=numbers is None)
            found |= {**pooled, "reasons": {**found["reasons"], **pooled["reasons"]}}
        return found

    def whole_run(self, columns: Columns, table: RowTable) -> dict[str, Any]:
        """What is said of all rows alone."""
        judged = self.values.judged
        found = {
            name: self.info[name] for name in ("kind", "summary_name", "higher_is_better", "low", "high", "pooled")
        }
        found["n_not_judged"] = int(np.count_nonzero(~within(table.answered, judged)))
        if self.info["kind"] != "safety" and self.info["kind"] not in NO_LEVELS:
            found["levels"] = columns.levels(self.name)
        return found


def pool_of(info: Mapping[str, Any]) -> Pool:
    """What makes the number of a corpus out of sums of counts."""
    found: Pool = evaluator(info["name"], **info["parameters"]).pool
    return found


def _passed(found: Sequence[_Evaluated], table: RowTable, numbers: Ints | None) -> dict[str, Any] | None:
    """Rows that pass every threshold. One that fails any has failed; else one that lacks a score is undecided."""
    limited = [(each, each.threshold) for each in found if each.threshold is not None]
    if not limited:
        return None
    rows = table.answered if numbers is None else table.answered[within(table.answered, numbers)]
    n_passed, failed = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
    for each, threshold in limited:
        inside = within(each.values.rows, rows)
        places = np.searchsorted(rows, each.values.rows[inside])
        passes = threshold.passes(each.values.values[inside])
        n_passed[places] += passes
        failed[places] |= ~passes
    decided = failed | (n_passed == len(limited))
    rate = clustered_rate(~failed[decided], table.clusters(rows[decided]))
    return {
        "n": rate.n,
        "n_passed": rate.successes,
        "n_undecided": len(rows) - rate.n,
        "rate": number(rate.rate),
        "interval": interval(rate.low, rate.high),
    }


def _slices(column: SliceColumn, found: Sequence[_Evaluated], table: RowTable) -> dict[str, Any]:
    slices = [
        {
            "value": value,
            "n": len(numbers),
            "passed": _passed(found, table, numbers),
            "evaluators": {each.name: each.summary(table, numbers) for each in found},
        }
        for value, numbers in column.rows(table.numbers)
    ]
    return {"slices": slices, "reason": column.reason}


def _flat(
    evaluators: Mapping[str, Mapping[str, Any]], passed: Mapping[str, Any] | None, jailbreak: Mapping[str, Any] | None
) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, each in evaluators.items():
        found[each["summary_name"]] = each["value"] if each["pooled"] else each["mean"]
        for rate in ("pass_rate", "defect_rate"):
            if rate in each:
                found[f"{name}_{rate}"] = each[rate]
    if jailbreak is not None:
        found["jailbreak_defect_rate"] = jailbreak["rate"]
    return found if passed is None else {**found, "pass_rate": passed["rate"]}
