"""Numbers and report of ``valor-gpu retrieval``. Imports no torch."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.digests import DataHashes
from valor_gpu.exports.intervals import interval_note
from valor_gpu.exports.texts import spreadsheet_cell
from valor_gpu.inputs.ranked_lists import Judgements
from valor_gpu.provenance import host_provenance, provenance_of
from valor_gpu.report.run_query_sample import RunQuerySample
from valor_gpu.report.text import bounded, number_lines, plural, shown_number, table
from valor_gpu.result import Result, Signature
from valor_gpu.retrieval.measures import Measure, parse_measure
from valor_gpu.retrieval.tables import query_table
from valor_gpu.stats.means import exact_mean

if TYPE_CHECKING:
    from valor_gpu.inputs.rankings import DocumentRows

Floats = NDArray[np.float64]

QUERIES = ("qrels", "both")
"""Which queries count: all that have judgements, or those that have retrieved documents as well."""
_MAY_LACK = ("auroc", "fall_out")
"""Measures of which a query may have no number; in all others a query without one has 0, as in trec_eval."""
_NO_QUERY = "no query has a score"
_HASHES = "hashes of the input files stand in --json"


@frozen
class QueryScores:
    """Scores of the queries of a run.

    Attributes:
        name: of the run.
        queries: ids of the queries that count.
        columns: name of a measure to float64 ``[Q]``, NaN where a query has no number.
        truths: uint64 ``[Q]``, a hash of the judgements of each query; None: unknown.
        counts: of queries and documents.
    """

    name: str
    queries: tuple[str, ...]
    columns: Mapping[str, Floats]
    truths: NDArray[np.uint64] | None
    counts: Mapping[str, int]

    def of(self, places: NDArray[np.int64]) -> QueryScores:
        """Returns the scores of some queries, of which only their number is counted.

        Args:
            places: their positions, ascending.
        """
        return QueryScores(
            self.name,
            tuple(self.queries[place] for place in places.tolist()),
            {name: column[places] for name, column in self.columns.items()},
            None if self.truths is None else self.truths[places],
            {"queries": len(places)},
        )


def score_run(
    name: str,
    judgements: Judgements,
    run: DocumentRows,
    measures: Sequence[Measure],
    queries: str = "qrels",
    ties: str = "document",
    marked: bool = False,
) -> QueryScores:
    """Returns the scores of a run, query by query.

    Args:
        name: of the run.
        judgements: that it is looked up in.
        run: of :func:`valor_gpu.inputs.rankings.read_run`.
        measures: of :func:`valor_gpu.retrieval.measures.parse_measures`.
        queries: one of :data:`QUERIES`.
        ties: one of :data:`valor_gpu.inputs.ranked_lists.TIES`.
        marked: also hash the judgements, which tells whether those of another run are the same.
    """
    lists = judgements.lists(run, ties)
    names = [measure.name for measure in measures]
    found = query_table(lists.indexes, lists.preds, lists.target, names, retrieved=lists.retrieved)
    kept = lists.queries if queries == "both" else np.ones(len(judgements.queries), bool)
    columns = {}
    for measure in measures:
        column = found.columns[measure.name][kept]
        columns[measure.name] = column if measure.kind in _MAY_LACK else np.where(np.isnan(column), 0.0, column)
    counts = {
        "queries": int(kept.sum()),
        "queries_without_documents": int((kept & ~lists.queries).sum()),
        "queries_without_relevant_documents": int((kept & ~judgements.has_relevant).sum()),
        "queries_without_judgements": lists.unknown_queries,
        "documents": lists.documents,
        "judged_documents": lists.judged_documents,
    }
    ids = tuple(each for each, is_kept in zip(judgements.queries, kept.tolist()) if is_kept)
    return QueryScores(name, ids, columns, judgements.marks()[kept] if marked else None, counts)


def result_of_run(scores: QueryScores, queries: str, ties: str) -> Result:
    """Returns the means of a run over its queries, with what they came from.

    Args:
        scores: of the run.
        queries: as :func:`score_run` took it.
        ties: likewise.
    """
    values, reasons = _means(scores.columns)
    ranges = {name: _range(name) for name in scores.columns}
    sample = partial(RunQuerySample, scores.columns, scores.queries, scores.truths, ranges)
    return _result(values, reasons, scores.counts, _signature(list(scores.columns), queries, ties), sample)


def result_of_runs(runs: Sequence[QueryScores], queries: str, ties: str) -> Result:
    """Returns the means of several runs in one result, by the name of the run and then by that of the measure.

    Args:
        runs: of the same queries.
        queries: as :func:`score_run` took it.
        ties: likewise.
    """
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    columns: dict[str, Floats] = {}
    counts = {"queries": runs[0].counts["queries"], "runs": len(runs)}
    for run in runs:
        values[run.name], lacking = _means(run.columns)
        reasons |= {f"{run.name}/{name}": reason for name, reason in lacking.items()}
        columns |= {f"{run.name}/{name}": column for name, column in run.columns.items()}
        counts |= {f"{run.name}/{name}": count for name, count in run.counts.items() if name != "queries"}
    ranges = {f"{run.name}/{name}": _range(name) for run in runs for name in run.columns}
    sample = partial(RunQuerySample, columns, runs[0].queries, runs[0].truths, ranges)
    return _result(values, reasons, counts, _signature(list(runs[0].columns), queries, ties), sample)


def _range(name: str) -> tuple[float, float]:
    """The least and the largest value of a measure."""
    measure = parse_measure(name)
    if measure.kind == "holes":
        return 0.0, float(measure.cutoff)
    return 0.0, math.inf if measure.kind == "dcg" else 1.0


def _means(columns: Mapping[str, Floats]) -> tuple[dict[str, float], dict[str, str]]:
    there = {name: column[~np.isnan(column)].tolist() for name, column in columns.items()}
    values = {name: exact_mean(kept) if kept else math.nan for name, kept in there.items()}
    return values, {name: _NO_QUERY for name, kept in there.items() if not kept}


def _signature(measures: Sequence[str], queries: str, ties: str) -> Signature:
    choices = {"metric": "retrieval", "measures": sorted(measures), "queries": queries, "ties": ties}
    return Signature({**choices, "average": "queries"})


def _result(values: Any, reasons: Any, counts: Any, signature: Signature, sample: Any) -> Result:
    served = partial(provenance_of, host_provenance, lambda: DataHashes.none(_HASHES), "float64")
    return Result(values, signature, counts, reasons, provenance=served, state=sample)


def summary(result: Result) -> str:
    """One line per number of a run, or why it does not exist."""
    lines = [
        (name, value, result.reason(name) or interval_note(name, value, result.intervals))
        for name, value in result.values.items()
    ]
    return number_lines(lines)


def runs_table(runs: Sequence[QueryScores], result: Result) -> str:
    """One line per run: its numbers, its documents and how many of them are judged."""
    measures = list(runs[0].columns)
    rows = [
        [
            run.name,
            *(_cell(result, run.name, name) for name in measures),
            f"{run.counts['documents']:,}",
            judged_share(run),
        ]
        for run in runs
    ]
    return table(["run", *measures, "documents", "judged"], rows)


def _cell(result: Result, run: str, name: str) -> str:
    """A number with four digits, with three and its interval where one was asked for."""
    return bounded(result, run, name) if result.intervals else shown_number(result.values[run][name])


def judged_share(run: QueryScores) -> str:
    """How many of the documents of a run are judged, in percent."""
    documents = run.counts["documents"]
    return f"{run.counts['judged_documents'] / documents:.1%}" if documents else "none"


def count_line(run: QueryScores) -> str:
    """How many queries and documents the numbers of a run come from."""
    counts, notes = run.counts, []
    for name, text in _NOTES.items():
        notes += [f"{counts[name]:,} {text}"] if counts[name] else []
    text = _queries(counts["queries"]) + (f" ({', '.join(notes)})" if notes else "")
    text = f"{text}, {plural(counts['documents'], 'document')} ({judged_share(run)} judged)"
    unknown = counts["queries_without_judgements"]
    return f"{text}; left out: {_queries(unknown)} without judgements" if unknown else text


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


_NOTES = {
    "queries_without_documents": "without retrieved documents",
    "queries_without_relevant_documents": "without a relevant document",
}


def write_queries(stream: TextIO, runs: Sequence[QueryScores], as_json: bool) -> None:
    """Writes one line per query, of several runs one after the other.

    Args:
        stream: where to.
        runs: the scores.
        as_json: JSON lines, in which a number that does not exist is null; else CSV, in which its cell is empty.
    """
    writer = csv.writer(stream, lineterminator="\n")
    several, measures = len(runs) > 1, list(runs[0].columns)
    if not as_json:
        writer.writerow([*(["run"] if several else []), "query_id", *measures])
    for run in runs:
        for query, numbers in zip(run.queries, zip(*(column.tolist() for column in run.columns.values()))):
            found = [None if math.isnan(number) else number for number in numbers]
            head = {"run": run.name, "query_id": query} if several else {"query_id": query}
            if as_json:
                stream.write(json.dumps({**head, **dict(zip(measures, found))}, ensure_ascii=False) + "\n")
            else:
                writer.writerow(map(spreadsheet_cell, [*head.values(), *("" if n is None else n for n in found)]))
