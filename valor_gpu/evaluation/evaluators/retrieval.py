"""Metrics of a retrieval step: the documents that a row retrieved beside those that are known to be relevant. No torch.

Names without a prefix are Azure's. A row has ``retrieved_documents``, a list of objects with ``document_id`` and
``relevance_score`` or of ids in the order of their ranks, and ``retrieval_ground_truth``, a list of objects with
``document_id`` and ``query_relevance_label`` or of the ids of relevant documents. Either may be a text with that JSON.

Example:
    >>> from valor_gpu.evaluation.evaluators.base import evaluator
    >>> row = {"retrieved_documents": ["a", "x", "b"], "retrieval_ground_truth": ["a", "b", "c"]}
    >>> [evaluator(name).score_rows([row])[0].value for name in ("hit_rate", "reciprocal_rank", "holes")]
    [1.0, 1.0, 1.0]
"""

from __future__ import annotations

import json
import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from valor_gpu.checks import check_choice, check_int
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import (
    INVALID_FIELD,
    UNDEFINED,
    Evaluator,
    Outcome,
    Portion,
    evaluator_info,
)

RETRIEVED, GROUND_TRUTH = "retrieved_documents", "retrieval_ground_truth"
_IDS = ("document_id", "doc_id", "id")
_SCORES = ("relevance_score", "score")
_LABELS = ("query_relevance_label", "relevance", "label")
_TOP = 3  # documents of Azure's metrics of the first ranks
_DISCOUNT = 0.6  # of XDCG, from one rank to the next
_FULL_LABEL = 25.0  # points of XDCG for a label of 1: 100 for the largest label of five, 4
_LARGEST_LABEL = 1000  # beyond it 2^label is no float
_NONE_RELEVANT = "no document of the ground truth is relevant"
_AS_AZURE = f"0 as in Azure: {_NONE_RELEVANT}"


class Documents(NamedTuple):
    """The documents of a row.

    Attributes:
        labels: of the retrieved documents, the best rank first; None where a document has none.
        known: all labels of the ground truth, in its order.
        missed: those of documents that were not retrieved.
    """

    labels: list[int | None]
    known: list[int]
    missed: list[int]

    @property
    def filled(self) -> list[int]:
        """Labels of the retrieved documents, 0 where a document has none."""
        return [label or 0 for label in self.labels]


def read_documents(row: Mapping[str, Any]) -> Documents:
    """Returns the documents of a row.

    Args:
        row: with both fields.

    Raises:
        InputError: a field is no list of documents, an id comes twice, or a score or label is none.
    """
    known = _labels(_listed(GROUND_TRUTH, row[GROUND_TRUTH]))
    if not known:
        raise InputError(f"{GROUND_TRUTH} must have at least one document but is empty")
    ranked = _ranked(_listed(RETRIEVED, row[RETRIEVED]))
    there = set(ranked)
    missed = [label for document, label in known.items() if document not in there]
    return Documents([known.get(document) for document in ranked], list(known.values()), missed)


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise InputError(f"{name} must be a list of documents but is a text without JSON: {given!r:.60}") from None
    if isinstance(given, Mapping):
        return [{_IDS[0]: document, _LABELS[0]: number, _SCORES[0]: number} for document, number in given.items()]
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{name} must be a list of documents but is {type(given).__name__}")
    return list(given)


def _labels(given: Sequence[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place, each in enumerate(given):
        name = f"{GROUND_TRUTH}[{place}]"
        document, label = _id(name, each), _value(name, each, _LABELS) if isinstance(each, Mapping) else 1
        if isinstance(label, float) and label.is_integer():
            label = int(label)  # what a data frame makes of whole numbers beside a gap
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label <= _LARGEST_LABEL:
            raise InputError(f"{name} must have a whole number from 0 to {_LARGEST_LABEL} as label but has {label!r}")
        if document in found:
            raise InputError(f"{name} must be another document but {document!r} came before")
        found[document] = label
    return found


def _ranked(given: Sequence[Any]) -> list[str]:
    """Ids of documents by descending score, equal scores in their order; ids without scores in their order."""
    ids: dict[str, float] = {}
    for place, each in enumerate(given):
        name = f"{RETRIEVED}[{place}]"
        document, score = _id(name, each), _value(name, each, _SCORES) if isinstance(each, Mapping) else None
        if isinstance(each, Mapping) and not _is_finite(score):
            raise InputError(f"{name} must have a finite number as score but has {score!r}")
        if document in ids:
            raise InputError(f"{name} must be another document but {document!r} came before")
        ids[document] = 0.0 if score is None else float(score)
    return sorted(ids, key=lambda document: -ids[document])


def _is_finite(value: Any) -> bool:
    """Whether it is a number that float64 holds; comparison with an integer of any size is exact."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _id(name: str, each: Any) -> str:
    document = _value(name, each, _IDS) if isinstance(each, Mapping) else each
    if isinstance(document, bool) or not isinstance(document, (str, int)):
        raise InputError(f"{name} must have a text or a whole number as id but has {document!r:.60}")
    return str(document)


def _value(name: str, each: Mapping[str, Any], keys: Sequence[str]) -> Any:
    key = next((key for key in keys if key in each), None)
    if key is None:
        raise InputError(f"{name} must have {keys[0]!r} but has {', '.join(map(str, each)) or 'nothing'}")
    return each[key]


class RetrievalEvaluator(Evaluator):
    """Base of metrics of a retrieval step; a subclass implements :meth:`score_documents`.

    Args:
        name: of the evaluator.
        parameters: what its numbers depend on; None is left out.
    """

    def __init__(self, name: str, **parameters: Any) -> None:
        super().__init__(evaluator_info(name), {key: value for key, value in parameters.items() if value is not None})

    @abstractmethod
    def score_documents(self, rows: Sequence[Documents]) -> list[Outcome]:
        """Scores rows that could be read, at least one."""

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Scores rows that have both fields; one that cannot be read has the status ``invalid_field``."""
        read = portion.share(("documents", RETRIEVED), lambda: [_read(portion.rows[place]) for place in complete])
        rows = [each for each in read if isinstance(each, Documents)]
        scored = iter(self.score_documents(rows) if rows else [])
        return [next(scored) if isinstance(each, Documents) else each for each in read]


def _read(row: Mapping[str, Any]) -> Documents | Outcome:
    try:
        return read_documents(row)
    except InputError as error:
        return Outcome(None, INVALID_FIELD, str(error))


class Ranked(RetrievalEvaluator):
    """A measure of the first k documents: nDCG, reciprocal rank, recall, precision or hit rate.

    Args:
        name: of the evaluator.
        k: how many documents from the top count; None: all that were retrieved, of ``ndcg`` Azure's 3.
        rel: the least label of a relevant document.
        gain: of ``ndcg``: ``exponential``, ``2^label - 1``, as Azure, or ``linear``, the label, as trec_eval.

    Raises:
        InputError: a number below 1, or another gain.
    """

    def __init__(self, name: str, k: int | None = None, rel: int = 1, gain: str = "exponential") -> None:
        check_choice("gain", gain, ("exponential", "linear"))
        if k is not None:
            check_int("k", k, 1)
        check_int("rel", rel, 1)
        graded = name == "ndcg"
        super().__init__(name, k=k, rel=None if graded else rel, gain=gain if graded else None)
        k = _TOP if graded and k is None else k
        end = "" if k is None else f"@{k}"
        if graded:
            self._measure = f"nDCG(dcg='{'exp-log2' if gain == 'exponential' else 'log2'}'){end}"
        else:
            self._measure = f"{_MEASURES[name]}(rel={rel}){end or _EVERY * (name != 'reciprocal_rank')}"
        self._rel, self._k = rel, k

    def score_documents(self, rows: Sequence[Documents]) -> list[Outcome]:
        """Gives the measure of each row; 0, with its reason, where nothing is relevant, no recall."""
        from valor_gpu.retrieval.measures import parse_measure
        from valor_gpu.retrieval.tables import query_table

        lengths = [len(row.labels) + len(row.missed) for row in rows]
        target = [-1 if label is None else label for row in rows for label in (*row.labels, *row.missed)]
        there = [is_there for row in rows for is_there in (True,) * len(row.labels) + (False,) * len(row.missed)]
        indexes = np.repeat(np.arange(len(rows)), lengths)
        preds = -np.arange(len(target), dtype=np.float64)
        table = query_table(indexes, preds, np.array(target), [self._measure], retrieved=np.array(there, bool))
        values = table.columns[parse_measure(self._measure).name].tolist()
        return [self._outcome(row, value) for row, value in zip(rows, values)]

    def _outcome(self, row: Documents, value: float) -> Outcome:
        if max(row.known) < self._rel:
            if self.name == "retrieval_recall":
                return Outcome(None, UNDEFINED, _NONE_RELEVANT)
            return Outcome(0.0, reason=_AS_AZURE if self.name == "ndcg" else _NONE_RELEVANT)
        if not row.labels:
            return Outcome(0.0, reason="no document was retrieved")
        if self._k is None and self.name == "retrieval_precision":
            value = sum(label >= self._rel for label in row.filled) / len(row.labels)
        return Outcome(value)


_MEASURES = {"reciprocal_rank": "RR", "retrieval_recall": "R", "retrieval_precision": "P", "hit_rate": "Success"}
_EVERY = f"@{2**31 - 1}"
"""A cutoff beyond every list."""


class Labelled(RetrievalEvaluator):
    """A number that labels and counts of a row give without a measure of ranks.

    Args:
        name: of the evaluator.
        number: of a row; NaN where it has none.
        labels: the least and the largest label; None: any.
    """

    def __init__(self, name: str, number: Callable[[Documents], float], labels: tuple[int, int] | None = None) -> None:
        low, high = labels or (None, None)
        super().__init__(name, ground_truth_label_min=low, ground_truth_label_max=high)
        self._number, self._labels = number, labels

    def score_documents(self, rows: Sequence[Documents]) -> list[Outcome]:
        """Gives the number of each row."""
        return [self._outcome(row) for row in rows]

    def _outcome(self, row: Documents) -> Outcome:
        if self._labels is not None:
            low, high = self._labels
            wrong = next((label for label in row.known if not low <= label <= high), None)
            if wrong is not None:
                need = f"labels from ground_truth_label_min={low} to ground_truth_label_max={high}"
                return Outcome(None, INVALID_FIELD, f"{GROUND_TRUTH} must have {need} but has {wrong}")
        value = float(self._number(row))
        return Outcome(None, UNDEFINED, _NONE_RELEVANT) if math.isnan(value) else Outcome(value)


def _xdcg(row: Documents) -> float:
    weights = [_DISCOUNT**place for place in range(_TOP)]
    return sum(_FULL_LABEL * label * weight for label, weight in zip(row.filled, weights)) / sum(weights)


def _fidelity(least: int, row: Documents) -> float:
    known = _weight(row.known, least)
    if known:
        return _weight(row.filled, least) / known
    return math.nan if any(row.filled) else 0.0


def _weight(labels: Sequence[int], least: int) -> float:
    """Documents weighted by ``2^(label + 1) - 1``, those that are irrelevant left out."""
    return math.fsum(2.0 ** (label + 1) - 1 for label in labels if label > least)


_NUMBERS: dict[str, Callable[[Documents], float]] = {
    "top1_relevance": lambda row: max(row.filled[:1], default=0),
    "top3_max_relevance": lambda row: max(row.filled[:_TOP], default=0),
    "holes": lambda row: row.labels.count(None),
    "holes_ratio": lambda row: row.labels.count(None) / len(row.labels) if row.labels else 0.0,
    "total_retrieved_documents": lambda row: len(row.labels),
    "total_ground_truth_documents": lambda row: len(row.known),
}


def make(name: str, **parameters: Any) -> RetrievalEvaluator:
    """The evaluator of that name."""
    if name in _NUMBERS:
        return Labelled(name, _NUMBERS[name])
    return _of_range(name, **parameters) if name in ("xdcg", "fidelity") else Ranked(name, **parameters)


def _of_range(name: str, ground_truth_label_min: int = 0, ground_truth_label_max: int = 4) -> RetrievalEvaluator:
    """XDCG or fidelity, which depend on the range of the labels."""
    check_int("ground_truth_label_min", ground_truth_label_min)
    check_int("ground_truth_label_max", ground_truth_label_max, ground_truth_label_min + 1)
    labels = ground_truth_label_min, ground_truth_label_max
    if name == "fidelity":
        return Labelled(name, partial(_fidelity, ground_truth_label_min), labels)
    made = Labelled(name, _xdcg, labels)
    made.high = _FULL_LABEL * ground_truth_label_max
    return made
