"""A manager of detections: data a part at a time, evaluated at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.valor.detection.evaluate import evaluate_detection, evaluate_scene, read_scene
from valor_gpu.compat.valor.detection.request import DEFAULT_METRICS, make_detection_request
from valor_gpu.compat.valor.detection.slices import DetectionEvaluation
from valor_gpu.compat.valor.enums import AnnotationType, MetricType
from valor_gpu.compat.valor.schemas import GroundTruth, Label, Prediction
from valor_gpu.errors import InputError
from valor_gpu.valor.detection.rules import IOU_THRESHOLDS, DetectionRequest
from valor_gpu.valor.filters import Filter

if TYPE_CHECKING:
    import torch

    from valor_gpu.valor.detection.scene import DetectionScene
    from valor_gpu.valor.frames import Frame

_SHARED = (
    "label_map", "metrics_to_return", "convert_annotations_to_type", "iou_thresholds_to_compute",
    "iou_thresholds_to_return", "recall_score_threshold", "pr_curve_iou_threshold", "pr_curve_max_examples",
    "compat", "score_thresholds", "matching", "duplicates", "limit", "offset",
)  # fmt: skip


@arguments_of(evaluate_detection)
@dataclass
class ValorDetectionManager:
    """Detections, added a part at a time; pairs are found as a part comes, and metrics at the end.

    Choices are fixed once the manager is made: setting one raises AttributeError.

    Args:
        datum_uids: uids that were added.
        convert_annotations_to_type: the geometry to compare; default: the most detailed one that both sides have, which
            must be the same in every part.
        unique_groundtruth_labels: (key, value) of labels that were added, to the numbers of their annotations.
        unique_prediction_labels: (key, value) of labels that were added.
        unique_annotation_ids: numbers of the annotations that were added.

    Raises:
        InputError: as :func:`~valor_gpu.valor.detection.evaluate_detection`.

    Example:
        >>> from valor_gpu.valor import Annotation, Box, Datum
        >>> manager = ValorDetectionManager(metrics_to_return=[MetricType.mAP], iou_thresholds_to_return=[0.5])
        >>> box = Box.from_extrema(xmin=0, xmax=10, ymin=0, ymax=10)
        >>> truth = Annotation(labels=[Label("class", "cat")], bounding_box=box, is_instance=True)
        >>> found = Annotation(labels=[Label("class", "cat", 0.9)], bounding_box=box, is_instance=True)
        >>> for uid, annotations in (("a", [found]), ("b", [])):
        ...     manager.add_data([GroundTruth(Datum(uid), [truth])], [Prediction(Datum(uid), annotations)])
        >>> manager.evaluate().metrics
        [{'parameters': {'label_key': 'class', 'iou': 0.5}, 'value': 0.504950495049505, 'type': 'mAP'}]
    """

    datum_uids: set[str] = field(default_factory=set)
    label_map: Mapping[Label, Label] = field(default_factory=dict)
    convert_annotations_to_type: AnnotationType | str | None = None
    metrics_to_return: Sequence[MetricType | str] = field(default_factory=lambda: list(DEFAULT_METRICS))
    iou_thresholds_to_compute: list[float] = field(default_factory=lambda: list(IOU_THRESHOLDS))
    iou_thresholds_to_return: Sequence[float] | None = None
    recall_score_threshold: float = 0.0
    pr_curve_iou_threshold: float = 0.5
    pr_curve_max_examples: int = 1
    unique_groundtruth_labels: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    unique_prediction_labels: set[tuple[str, str]] = field(default_factory=set)
    unique_annotation_ids: set[int] = field(default_factory=set)
    compat: str | None = None
    score_thresholds: Sequence[float] | None = None
    matching: str = "valor"
    duplicates: bool = False
    limit: int | None = None
    offset: int = 0
    device: torch.device | str | None = None
    _locked = False

    def __post_init__(self) -> None:
        choices: dict[str, Any] = {name: getattr(self, name) for name in _SHARED}
        self._request: DetectionRequest = make_detection_request(**choices)
        self.iou_thresholds_to_return = list(self._request.shown_ious)
        self.score_thresholds = list(self._request.scores)
        self._parts: list[DetectionScene] = []
        self._details: set[tuple[int, int]] = set()  # of all parts, each once: a run may have a part for every datum
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
            InputError: a datum that was added before, data that cannot be evaluated, or geometries of another kind than
                before; nothing is added then.
        """
        from valor_gpu.valor.detection.data import check_details, detail_of  # loads torch

        part = read_scene(groundtruths, predictions, self._request, self.device)
        columns = part.columns
        known = self.datum_uids.intersection(columns.uids)
        if known:
            raise InputError(f"add_data must be called once with each datum but got {min(known)!r} again")
        detail = detail_of(part)
        if self.convert_annotations_to_type is None:
            check_details([*self._details, detail])
        first = len(self.unique_annotation_ids)
        truths = columns.groundtruths
        for label, annotation in zip(truths.label.tolist(), truths.annotation.tolist()):
            self.unique_groundtruth_labels.setdefault(columns.labels[label], set()).add(first + annotation)
        self.unique_prediction_labels.update(columns.labels_of(columns.predictions))
        self._keep(part, detail, range(first, first + columns.annotations))

    def _keep(self, part: DetectionScene, detail: tuple[int, int], annotations: range) -> None:
        """Adds a part and its uids, or neither: a repeated call after an interrupt must not count datums twice."""
        kept, new_detail = len(self._parts), detail not in self._details
        try:
            self._details.add(detail)
            self.unique_annotation_ids.update(annotations)
            self.datum_uids.update(part.columns.uids)
            self._parts.append(part)
        except BaseException:
            del self._parts[kept:]
            self.datum_uids.difference_update(part.columns.uids)
            self.unique_annotation_ids.difference_update(annotations)
            if new_detail:
                self._details.discard(detail)
            raise

    def evaluate(self, filters: Filter | Mapping[str, Any] | None = None) -> DetectionEvaluation:
        """The metrics of everything that was added.

        Args:
            filters: keep only some datums, ground truths or predictions; the data is not read again.

        Raises:
            InputError: nothing was added.
        """
        from valor_gpu.valor.detection.data import join_scenes

        if not self._parts:
            raise InputError("evaluate needs data but add_data was not called")
        if len(self._parts) > 1:
            self._parts[:] = [join_scenes(self._parts)]
        return evaluate_scene(self._parts[0], self._request, filters)
