"""Numbers and report of ``valor-gpu text``. Imports no torch."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from valor_gpu.checks import near_names
from valor_gpu.digests import DataHashes, TextRows
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import EVALUATORS, Evaluator, evaluator, score_portion
from valor_gpu.evaluation.rows.fields import ANSWER, GROUND_TRUTH
from valor_gpu.exports.intervals import interval_note
from valor_gpu.exports.texts import spreadsheet_cell
from valor_gpu.provenance import host_provenance, provenance_of
from valor_gpu.report.text import number_lines, plural
from valor_gpu.result import Result, Signature

if TYPE_CHECKING:
    from valor_gpu.evaluation.evaluators.base import Outcome
    from valor_gpu.evaluation.rows._source_rows import SourceRow
    from valor_gpu.stats.row_samples import RowSample

GROUPS = {
    "rouge": ("rouge1", "rouge2", "rougeL"),
    "bleu": ("bleu", "corpus_bleu"),
    "chrf": ("corpus_chrf",),
    "wer": ("word_error_rate",),
    "cer": ("char_error_rate",),
}
"""Names beside those of metrics; ``bleu`` is the mean of sentences and the number of the corpus, each by its name."""
METRICS = tuple(
    name for name, info in EVALUATORS.items() if info.kind in ("text", "corpus") and "embed" not in info.needs
)
"""Metrics that compare texts without a model."""

_PORTION = 1000
_NO_ROW = "no row has a score"


def text_evaluators(names: Sequence[str], parameters: Mapping[str, Mapping[str, Any]]) -> list[Evaluator]:
    """The evaluators of metrics by name, groups spelled out, each once.

    Args:
        names: of :data:`METRICS` or :data:`GROUPS`.
        parameters: of metrics, by name.

    Raises:
        InputError: an unknown name or parameter, parameters of a metric that is not asked for, or one that cannot be.
    """
    wanted = dict.fromkeys(each for name in names for each in GROUPS.get(name, (name,)))
    known = tuple(dict.fromkeys((*GROUPS, *METRICS)))
    for name in wanted:
        if name not in known:
            elsewhere = ", which is for valor-gpu eval run" if name in EVALUATORS else near_names(name, known)
            raise InputError(f"--metrics must be of {', '.join(known)} but got {name!r}{elsewhere}")
    if "meteor" in wanted and "wordnet" not in parameters.get("meteor", {}):
        raise InputError("--metrics meteor needs a WordNet 3 database: give --param meteor.wordnet=FOLDER")
    given: dict[str, dict[str, Any]] = {}
    for name, values in parameters.items():
        group = GROUPS.get(name, ()) if name in names and name not in METRICS else ()
        if name not in wanted and not group:
            raise InputError(f"--param must be of a metric of --metrics but {name} is none of {', '.join(wanted)}")
        for each in group or (name,):  # what a metric is given by its own name goes before what its group is given
            given[each] = {**values, **given.get(each, {})} if group else {**given.get(each, {}), **values}
    return [evaluator(name, **given.get(name, {})) for name in wanted]


class KeptRows(NamedTuple):
    """What is kept of rows that could be read.

    Attributes:
        rows: by the name of an evaluator the score of each row, or its counts where these are pooled, None for none.
        places: of the rows among all.
        marks: hash of the references of each.
    """

    rows: dict[str, list[Any]]
    places: array[int]
    marks: array[int]


class TextScores:
    """Scores of rows as they come, and what they amount to.

    Args:
        evaluators: of different names.
        keep_rows: keep scores and counts of every row, for intervals.
    """

    def __init__(self, evaluators: Sequence[Evaluator], keep_rows: bool = False) -> None:
        self.evaluators = evaluators
        self._kept: dict[str, list[Any]] | None = {each.name: [] for each in evaluators} if keep_rows else None
        self._places, self._marks = array("q"), array("Q")  # of readable rows: their number, a hash of their references
        self.rows = 0
        self.several = 0  # rows with a list of references
        self.unreadable: list[str] = []  # why; nothing of restored rows
        self._restored_unreadable = 0
        self.failed: dict[str, Counter[str]] = {each.name: Counter() for each in evaluators}
        self.reasons: dict[str, str] = {}  # of the first row without a score
        self._values = {each.name: array("d") for each in evaluators}
        self._counts: dict[str, list[int]] = {}
        self._pooled = {each.name for each in evaluators if each.pooled}
        self._texts, self._restored = TextRows(), False

    def add_all(self, rows: Iterable[SourceRow]) -> Iterator[tuple[SourceRow, dict[str, Outcome]]]:
        """Scores all rows, in portions; yields each with the outcome of every evaluator, none for an unreadable row."""
        stream = iter(rows)
        while portion := list(islice(stream, _PORTION)):
            readable = [row.values for row in portion if not row.error]
            scored = score_portion(self.evaluators, readable)
            columns = {name: iter(outcomes) for name, outcomes in scored.items()}
            for row in portion:
                outcomes = {} if row.error else {name: next(column) for name, column in columns.items()}
                self._add(row, outcomes)
                yield row, outcomes

    def _add(self, row: SourceRow, outcomes: Mapping[str, Outcome]) -> None:
        self.rows += 1
        if row.error:
            self.unreadable.append(row.error)
            return
        self.several += isinstance(row.values[GROUND_TRUTH], list)
        self._texts.add(row.values.get(ANSWER), row.values[GROUND_TRUTH])
        if self._kept is not None:
            self._places.append(self.rows - 1)
            self._marks.append(_mark(row.values[GROUND_TRUTH]))
        for name, outcome in outcomes.items():
            if outcome.value is None:
                self.failed[name][outcome.status] += 1
                self.reasons.setdefault(name, f"row {row.number}: {outcome.reason}")
            else:
                self._values[name].append(outcome.value)
            counts = (outcome.details or {}).get("counts")
            if self._kept is not None:
                self._kept[name].append(outcome.value if name not in self._pooled else counts)
            if counts is not None:
                kept = self._counts.setdefault(name, [0] * len(counts))
                self._counts[name] = [a + b for a, b in zip(kept, counts)]

    def result(self) -> Result:
        """The numbers under their names in a summary, with counts and reasons.

        Raises:
            InputError: there was no row.
        """
        if not self.rows:
            raise InputError("predictions must have at least one row but have none")
        values: dict[str, float] = {}
        reasons: dict[str, str] = {}
        for each in self.evaluators:
            value, reason = self._number(each)
            values[each.summary_name] = math.nan if value is None else value
            if value is None:
                reasons[each.summary_name] = reason
        counts = {"rows": self.rows, "rows_with_several_references": self.several}
        counts["unreadable_rows"] = self.unreadable_rows
        state, hashes = None if self._kept is None else self._sample, self._hashes()
        served = partial(provenance_of, host_provenance, lambda: hashes, "float64")
        return Result(values, Signature(self._choices()), counts, reasons, provenance=served, state=state)

    def _hashes(self) -> DataHashes:
        """The hashes of all texts, which rows of a state file are without."""
        return DataHashes.none("the state keeps scores, not their texts") if self._restored else self._texts.hashes()

    @property
    def unreadable_rows(self) -> int:
        """How many rows could not be read."""
        return len(self.unreadable) + self._restored_unreadable

    @property
    def kept(self) -> KeptRows:
        """What is kept of the rows.

        Raises:
            InputError: nothing is.
        """
        if self._kept is None:
            raise InputError("scores of texts must be made with keep_rows=True to be saved but were made without")
        return KeptRows(self._kept, self._places, self._marks)

    def restore(self, rows: dict[str, list[Any]], places: array[int], marks: array[int], choices: Any) -> None:
        """Takes over the rows that were scored before.

        Args:
            rows: as :class:`KeptRows` has them.
            places: likewise.
            marks: likewise.
            choices: ``rows``, ``several`` and ``unreadable``, which are counts, and ``reasons``.
        """
        self._kept, self._places, self._marks, self._restored = rows, places, marks, True
        self.rows, self.several, self.reasons = choices["rows"], choices["several"], dict(choices["reasons"])
        self._restored_unreadable = choices["unreadable"]
        for name, kept in rows.items():
            there = [row for row in kept if row is not None]
            if name not in self._pooled:
                self._values[name] = array("d", there)
            elif there:
                self._counts[name] = [sum(column) for column in zip(*there)]

    def _sample(self) -> RowSample:
        """What the numbers are resampled from: a row without a score counts for the others."""
        import numpy as np

        from valor_gpu.stats.row_samples import Arrivals, Pooled, RowSample

        scores, pooled = {}, []
        for each in self.evaluators:
            kept = (self._kept or {})[each.name]
            if each.name not in self._pooled:
                scores[each.summary_name] = np.array([math.nan if row is None else row for row in kept], np.float64)
            elif each.name in self._counts:
                none = [0] * len(self._counts[each.name])
                rows = np.array([none if row is None else row for row in kept], np.int64)
                there = np.array([row is not None for row in kept], bool)
                pooled.append(Pooled(rows, partial(_pooled_number, each), there))
        tables = [(each.summary_name, each.info) for each in self.evaluators]
        ranges = {name: (info.low, math.inf if info.high is None else info.high) for name, info in tables}
        places, marks = np.array(self._places, np.int64), np.array(self._marks, np.uint64)
        return RowSample(scores, pooled, ranges=ranges, arrivals=Arrivals(places, self.rows, marks))

    def _number(self, each: Evaluator) -> tuple[float | None, str]:
        if each.pooled:
            if each.name not in self._counts:
                return None, self.reasons.get(each.name, _NO_ROW)
            pooled = each.pool(self._counts[each.name])
            return pooled.value, pooled.reason
        values = self._values[each.name]
        return (math.fsum(values) / len(values), "") if values else (None, self.reasons.get(each.name, _NO_ROW))

    def _choices(self) -> dict[str, Any]:
        given = [
            f"{each.name}.{key}={json.dumps(value)}"
            for each in self.evaluators
            for key, value in each.parameters.items()
        ]
        names = [each.name for each in self.evaluators]
        return {"metric": "text", "evaluators": names, "parameters": given or "none", "average": "rows"}


def _mark(references: Any) -> int:
    """A hash of the references of a row, the same in every process."""
    text = references if isinstance(references, str) else repr(references)
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big")


def _pooled_number(each: Evaluator, counts: list[int]) -> dict[str, float]:
    value = each.pool(counts).value
    return {each.summary_name: math.nan if value is None else value}


def summary(result: Result) -> str:
    """One line per number, or why it does not exist."""
    return number_lines(
        [
            (name, value, result.reason(name) or interval_note(name, value, result.intervals))
            for name, value in result.values.items()
        ]
    )


def count_line(scores: TextScores) -> str:
    """How many rows the numbers come from, and how many have no score."""
    text = plural(scores.rows, "row")
    text += f" ({scores.several:,} of them with several references)" if scores.several else ""
    text += f", {plural(scores.unreadable_rows, 'unreadable row')}" if scores.unreadable_rows else ""
    for name, failed in scores.failed.items():
        text += "".join(f", {plural(n, 'row')} without {name}: {status}" for status, n in failed.items())
    return text


class RowTable:
    """Writes a line of CSV for each row as it comes.

    Args:
        stream: where to.
        evaluators: the columns.
    """

    def __init__(self, stream: TextIO, evaluators: Sequence[Evaluator]) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        self._names = [each.name for each in evaluators]
        self._writer.writerow(["row", *self._names, "error"])

    def add(self, row: SourceRow, outcomes: Mapping[str, Outcome]) -> None:
        """Writes the line of a row; cells of what does not exist are empty, and ``error`` says why."""
        found = [(name, outcomes[name]) for name in self._names if name in outcomes]
        cells = ["" if name not in outcomes else _cell(outcomes[name]) for name in self._names]
        reasons = [f"{name}: {outcome.reason}" for name, outcome in found if outcome.value is None]
        self._writer.writerow(map(spreadsheet_cell, [row.number, *cells, row.error or "; ".join(reasons)]))


def _cell(outcome: Outcome) -> Any:
    return "" if outcome.value is None else outcome.value


def direct_row(prediction: str, references: Sequence[str]) -> dict[str, Any]:
    """The fields of a row whose texts are given themselves."""
    return {ANSWER: prediction, GROUND_TRUTH: references[0] if len(references) == 1 else list(references)}
