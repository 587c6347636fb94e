"""Managers take data a part at a time and evaluate at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.compat.valor.detection.manager import ValorDetectionManager
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.compat.valor.evaluation import Evaluation
from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.compat.valor.request import DEFAULT_METRICS, make_request
from valor_gpu.compat.valor.schemas import GroundTruth, Label, Prediction
from valor_gpu.compat.valor.text_manager import ValorTextGenerationStreamingManager
from valor_gpu.errors import InputError
from valor_gpu.valor.classification.rules import Request
from valor_gpu.valor.columns import Columns, join_columns
from valor_gpu.valor.filters import Filter
from valor_gpu.valor.frames import Frame

__all__ = ["ValorClassificationManager", "ValorDetectionManager", "ValorTextGenerationStreamingManager"]


@dataclass
class ValorClassificationManager:
    """Classifications, added a part at a time; what is kept of a part are its integer columns.

    Args:
        datum_uids: uids that were added.
        label_map: labels that count as another.
        metrics_to_return: as :func:`~valor_gpu.valor.classification.evaluate_classification` takes them.
        pr_curve_max_examples: datums shown for each kind of observation in DetailedPrecisionRecallCurve.
        unique_groundtruth_labels: label key to values that were added.
        unique_prediction_labels: (key, value) of labels that were added.
        unique_annotation_ids: numbers of the annotations that were added.
        compat: None, or the release whose rules apply.

    Choices are fixed once the manager is made: setting one raises AttributeError.

    Raises:
        InputError: as :func:`~valor_gpu.valor.classification.evaluate_classification`.

    Example:
        >>> from valor_gpu.valor import Annotation, Datum
        >>> manager = ValorClassificationManager(metrics_to_return=[MetricType.Accuracy])
        >>> for uid, value in (("a", "cat"), ("b", "dog")):
        ...     truth = GroundTruth(Datum(uid), [Annotation(labels=[Label("animal", value)])])
        ...     found = Prediction(Datum(uid), [Annotation(labels=[Label("animal", "cat", 1.0)])])
        ...     manager.add_data([truth], [found])
        >>> manager.evaluate().metrics
        [{'parameters': {'label_key': 'animal'}, 'value': 0.5, 'type': 'Accuracy'}]
    """

    datum_uids: set[str] = field(default_factory=set)
    label_map: Mapping[Label, Label] = field(default_factory=dict)
    metrics_to_return: Sequence[MetricType | str] = field(default_factory=lambda: list(DEFAULT_METRICS))
    pr_curve_max_examples: int = 1
    unique_groundtruth_labels: dict[str, set[str]] = field(default_factory=dict)
    unique_prediction_labels: set[tuple[str, str]] = field(default_factory=set)
    unique_annotation_ids: set[int] = field(default_factory=set)
    compat: str | None = None
    _locked = False

    def __post_init__(self) -> None:
        self._request: Request = make_request(
            self.label_map, self.metrics_to_return, self.pr_curve_max_examples, self.compat
        )
        self._parts: list[Columns] = []
        self._locked = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._locked:
            raise AttributeError(f"{name} is fixed when the manager is made; make another manager")
        super().__setattr__(name, value)

    def add_data(self, groundtruths: Iterable[GroundTruth] | Frame, predictions: Iterable[Prediction] | Frame) -> None:
        """Adds some datums with all their ground truths and predictions.

        Args:
            groundtruths: of these datums; objects or a frame.
            predictions: of these datums; objects or a frame.

        Raises:
            InputError: a datum that was added before, or data that cannot be evaluated; nothing is added then.
        """
        from valor_gpu.valor.classification.key_numbers import prepare  # managers of text need none of it

        part = read_columns(groundtruths, predictions)
        known = self.datum_uids.intersection(part.uids)
        if known:
            raise InputError(f"add_data must be called once with each datum but got {min(known)!r} again")
        prepared = prepare(part, self._request)
        for label in {prepared.labels[place] for place in set(prepared.groundtruths.label.tolist())}:
            self.unique_groundtruth_labels.setdefault(label[0], set()).add(label[1])
        places = set(prepared.predictions.label.tolist())
        self.unique_prediction_labels.update(prepared.labels[place] for place in places)
        first = len(self.unique_annotation_ids)
        self._keep(prepared, range(first, first + part.annotations))

    def _keep(self, part: Columns, annotations: range) -> None:
        """Adds a part and its uids, or neither: a repeated call after an interrupt must not count datums twice."""
        kept = len(self._parts)
        try:
            self.unique_annotation_ids.update(annotations)
            self.datum_uids.update(part.uids)
            self._parts.append(part)
        except BaseException:
            del self._parts[kept:]
            self.datum_uids.difference_update(part.uids)
            self.unique_annotation_ids.difference_update(annotations)
            raise

    def evaluate(self, filters: Filter | Mapping[str, Any] | None = None) -> Evaluation:
        """The metrics of everything that was added.

        Args:
            filters: keep only some datums, ground truths or predictions; the data is not read again.

        Raises:
            InputError: nothing was added.
        """
        from valor_gpu.compat.valor.classification.evaluate import evaluate_prepared

        if not self._parts:
            raise InputError("evaluate needs data but add_data was not called")
        if len(self._parts) > 1:
            self._parts[:] = [join_columns(self._parts)]
        return evaluate_prepared(self._parts[0], self._request, filters)
