"""Scores of the Stanford Question Answering Dataset, of answers by the id of their question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.plans import Planner
from valor_gpu.result import Result
from valor_gpu.stats.row_samples import RowSample
from valor_gpu.text.metric_base import NamedMeans
from valor_gpu.text.overlap import same_words, shared_words
from valor_gpu.text.tokens import tokenize_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

Record = Mapping[str, Any]


def _records(name: str, value: Any, keys: tuple[str, str]) -> Sequence[Record]:
    """One record or several as a sequence, after a look at their keys."""
    records = [value] if isinstance(value, Mapping) else value
    if isinstance(records, str) or not isinstance(records, Sequence):
        raise InputError(f"{name} must be a dict or a sequence of dicts but got {type(value).__name__}")
    for i, record in enumerate(records):
        if not isinstance(record, Mapping) or not set(keys) <= set(record):
            got = sorted(map(str, record)) if isinstance(record, Mapping) else type(record).__name__
            raise InputError(f"{name}[{i}] must be a dict with {keys[0]!r} and {keys[1]!r} but got {got}")
    return records


def _answers(i: int, record: Record) -> Sequence[str]:
    answers = record["answers"]
    if not isinstance(answers, Mapping) or "text" not in answers:
        raise InputError(f"target[{i}]['answers'] must be a dict with 'text' but got {answers!r}")
    texts: Sequence[str] = answers["text"]
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not texts:
        raise InputError(f"target[{i}]['answers']['text'] must be a list of at least one text but got {texts!r}")
    for k, text in enumerate(texts):
        check_type(f"target[{i}]['answers']['text'][{k}]", text, str)
    return texts


def _by_id(preds: Any, asked: Sequence[Record]) -> dict[Any, str]:
    """Predicted texts by the id of their question; the last one of an id counts."""
    found = {}
    for i, record in enumerate(_records("preds", preds, ("prediction_text", "id"))):
        check_type(f"preds[{i}]['prediction_text']", record["prediction_text"], str)
        found[record["id"]] = record["prediction_text"]
    if strange := found.keys() - {record["id"] for record in asked}:
        first = next(key for key in found if key in strange)
        raise InputError(f"preds must answer questions of target but {first!r} is none of its ids")
    return found


class SQuAD(NamedMeans):
    """Computes exact match and F1 of answers to questions, from 0 to 100, as SQuAD 1.1.

    Texts are compared in lower case without ASCII punctuation, articles and superfluous white space; the best of the
    answers of a question counts, for each of the two numbers. A question without a prediction scores 0 and is counted
    as ``unanswered`` in the result. Of several predictions with one id in a call the last one counts.

    Source: Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text" (2016).

    Args:
        normalize: compare plain answers as above; else texts as they are, split at white space.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.

    Example:
        >>> metric = SQuAD()
        >>> metric.update([{"prediction_text": "in 1976", "id": "a"}],
        ...               [{"answers": {"answer_start": [97], "text": ["1976"]}, "id": "a"}])
        >>> {name: round(float(value), 2) for name, value in metric.compute().items()}
        {'exact_match': 0.0, 'f1': 66.67}
    """

    plot_upper_bound = 100.0
    names = ("exact_match", "f1", "unanswered")

    def __init__(self, normalize: bool = True, **kwargs: Unpack[MetricOptions]) -> None:
        self.normalize = normalize
        super().__init__({"normalize": normalize}, **kwargs)

    def update(self, preds: Record | Sequence[Record], target: Record | Sequence[Record]) -> None:  # type: ignore[override]
        """Scores questions and keeps their scores.

        Args:
            preds: one dict or several with ``prediction_text`` and the ``id`` of a question of ``target``.
            target: one dict or several, each with ``id`` and ``answers``, a dict whose ``text`` lists right answers.

        Raises:
            InputError: a key is missing, an answer is not text, a question has no answer, or a prediction has an id
                that is not in ``target``.
        """
        super().update(preds, target)  # type: ignore[arg-type]

    def _planner(self) -> Planner:
        return super()._planner()  # ``update`` is that of the base with other types

    def _rows(self, preds: Any, target: Any) -> Tensor:
        return torch.from_numpy(self._scores(preds, target))  # a text alone is no row

    def _scores(self, preds: Any, target: Any) -> NDArray[np.float64]:
        asked = _records("target", target, ("answers", "id"))
        answers = [_answers(i, record) for i, record in enumerate(asked)]
        found = _by_id(preds, asked)
        scores = np.zeros((len(asked), 3))
        answered = [i for i, record in enumerate(asked) if record["id"] in found]
        scores[:, 2] = 1
        scores[answered, 2] = 0
        pairs = [(found[asked[i]["id"]], *answers[i]) for i in answered]
        texts, firsts = [*chain.from_iterable(pairs)], np.cumsum([0, *map(len, pairs)], dtype=np.int64)
        words = tokenize_rows(texts, firsts, "plain" if self.normalize else "whitespace")
        scores[answered, 0] = same_words(words) if self.normalize else [float(said in true) for said, *true in pairs]
        scores[answered, 1] = shared_words(words).f1
        return scores

    def _sample(self, scores: Tensor) -> RowSample:
        ranges = dict.fromkeys(self.names, (0.0, 100.0))
        return RowSample(dict(zip(self.names, scores.cpu().numpy().T)), scale=100, ranges=ranges)

    def _means(self, scores: Tensor) -> list[float]:
        return [100 * mean for mean in super()._means(scores)]

    def _errors(self, scores: Tensor) -> list[float]:
        return [100 * error for error in super()._errors(scores)]

    @gives_own_memory
    def compute(self) -> dict[str, Tensor]:
        """Returns ``exact_match`` and ``f1``, float64 ``[]`` from 0 to 100; NaN without a question."""
        return {name: value for name, value in super().compute().items() if name != "unanswered"}

    def _result_of(self, scores: Tensor) -> Result:
        whole = super()._result_of(scores)
        values, reasons = (
            {name: part for name, part in each.items() if not name.startswith("unanswered")}
            for each in (whole.values, whole.reasons)
        )
        counts = {"rows": len(scores), "unanswered": int(scores[:, 2].sum())}
        return Result(values, whole.signature, counts, reasons, state=lambda: self._sample(scores))
