"""``compute_metrics`` of Hugging Face's ``Trainer``, also with ``batch_eval_metrics=True``; imports nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_int
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.integrations.metric_group import MetricGroup, Metrics, scalars
from valor_gpu.result import Result

Inputs = Callable[[Any, Any], tuple[Any, Any]]
_SEVERAL = "several processes need preprocess_logits_for_metrics= and eval_use_gather_object=True"
_GATHERED = "give the Trainer batch_eval_metrics=True, or eval_do_concat_batches=False"


def logits_and_labels(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """The first output of a model and its labels, as classification takes them.

    Args:
        predictions: tensor or array, or a tuple which begins with one: logits ``[N, K]``, ``[N, T, K]`` of tokens, or
            anything else that the metric takes.
        labels: tensor or array ``[N]`` or ``[N, T]``.

    Returns:
        Logits and labels; classes that come last, as of tokens, make rows ``[N * T, K]`` and ``[N * T]``. Padding is
        -100, for ``ignore_index=-100`` of a metric.

    Example:
        >>> logits, labels = logits_and_labels((torch.zeros(2, 5, 3), None), torch.zeros(2, 5, dtype=torch.int64))
        >>> logits.shape, labels.shape
        (torch.Size([10, 3]), torch.Size([10]))
    """
    first = torch.as_tensor(predictions[0] if isinstance(predictions, (tuple, list)) else predictions)
    target = torch.as_tensor(labels)
    if target.ndim > 1 and first.shape[:-1] == target.shape:
        return first.reshape(-1, first.shape[-1]), target.reshape(-1)
    return first, target


class TrainerMetrics:
    """``compute_metrics`` of a ``Trainer``: every number of one metric or of several.

    With ``TrainingArguments(batch_eval_metrics=True)`` metrics are updated batch by batch where the logits are, and
    nothing of an epoch is kept but their states; without it, once with everything. ``Trainer`` gathers the batches of
    all processes, so that metrics are set not to synchronise themselves (``sync_on_compute=False``).

    Args:
        metrics: a metric, or several by name: numbers are then called ``name``, or ``name_number`` where a metric has
            several. ``Trainer`` puts ``eval_`` before them: ``metric_for_best_model="accuracy"``.
        inputs: makes of predictions and labels of an ``EvalPrediction`` what ``update`` takes; default
            :func:`logits_and_labels`; for boxes :class:`DetrInputs`.

    Attributes:
        results: the :class:`~valor_gpu.result.Result` of each metric in the last evaluation; a single one's name is
            ``""``.

    Raises:
        InputTypeError: ``metrics`` are not metrics of this library.

    Example:
        >>> from types import SimpleNamespace
        >>> from valor_gpu.classification import Accuracy
        >>> compute_metrics = TrainerMetrics({"accuracy": Accuracy(num_classes=3)})
        >>> # trainer = Trainer(..., compute_metrics=compute_metrics); it then calls
        >>> batch = SimpleNamespace(predictions=torch.eye(3)[[0, 1, 1, 2]], label_ids=torch.tensor([0, 1, 2, 2]))
        >>> compute_metrics(batch)
        {'accuracy': 0.75}
    """

    def __init__(self, metrics: Metrics, inputs: Inputs | None = None) -> None:
        self._group = MetricGroup(metrics)
        self._inputs = logits_and_labels if inputs is None else inputs
        self._running = False
        self.results: dict[str, Result] = {}
        for metric in self._group.parts().values():
            metric.sync_on_compute = False

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Updates the metrics.

        Args:
            eval_prediction: an ``EvalPrediction``: of a batch, of everything, or (``eval_do_concat_batches=False``)
                lists of the predictions and labels of each batch.
            compute_result: whether this is the last batch, as ``Trainer`` says.

        Returns:
            The numbers after the last batch, else an empty dict.
        """
        predictions, labels = eval_prediction.predictions, eval_prediction.label_ids
        try:
            for batch in zip(predictions, labels) if _in_batches(predictions, labels) else [(predictions, labels)]:
                self._update(*self._inputs(*batch))
            if not compute_result:
                return {}
            self.results = self._group.results()
        except BaseException:  # the next evaluation must not begin with batches of this one
            self._running = False
            raise
        self._running = False
        return scalars(self.results, "_")

    def _update(self, preds: Any, target: Any) -> None:
        if not self._running:
            self._group.start(_device(preds))
            self._running = True
        self._group.metrics.update(preds, target)


def _in_batches(predictions: Any, labels: Any) -> bool:
    """Whether both are lists of batches; a dict for each image is a batch."""
    return isinstance(predictions, list) and not (len(labels) and isinstance(labels[0], Mapping))


def _device(values: Any) -> torch.device | str:
    """Where the first tensor is."""
    if isinstance(values, Tensor):
        return values.device
    rows = values.values() if isinstance(values, Mapping) else values if isinstance(values, (list, tuple)) else ()
    return next((_device(each) for each in rows if isinstance(each, (Tensor, Mapping, list, tuple))), "cpu")


@dataclass(frozen=True)
class DetrInputs:
    """What ``MeanAveragePrecision(box_format="xywh")`` takes, of DETR, RT-DETR and their relatives in Transformers.

    A model's outputs are logits ``[B, Q, K]`` and ``pred_boxes [B, Q, 4]``: centre, width and height, as fractions of
    the image. Labels are those of an image processor: a dict per image with ``class_labels [G]``, ``boxes [G, 4]``,
    ``orig_size [2]`` (height, width) and ``image_id``. Boxes become x, y, width, height in float64 pixels of the
    original image.

    Args:
        activation: ``sigmoid`` where each pair of query and class is a detection, as in RT-DETR, Deformable and
            Conditional DETR; ``softmax`` where the last class is "no object", as in DETR, Table Transformer, YOLOS.
        top: most detections of an image; 100 is COCO's limit. No score is too low, since average precision ranks.
        targets: exact ground truths by image id, as of :func:`valor_gpu.detection.coco_targets`, whose labels are the
            model's. Without them crowds are missing, which processors leave out, and areas (``map_small``) are those
            of boxes.

    Raises:
        InputError: ``activation`` or ``top`` is out of range; when called: outputs or labels are not such.

    Example:
        >>> logits = torch.tensor([[[4.0, 0.0], [0.0, 3.0]]])
        >>> boxes = torch.tensor([[[0.5, 0.5, 0.25, 0.5], [0.2, 0.3, 0.1, 0.1]]])
        >>> labels = [{"class_labels": torch.tensor([0]), "boxes": boxes[0, :1], "orig_size": torch.tensor([480, 640]),
        ...            "image_id": torch.tensor([139])}]
        >>> preds, target = DetrInputs(activation="softmax")((logits, boxes), labels)
        >>> preds[0]["labels"].tolist(), target[0]["boxes"].tolist(), target[0]["image_id"]
        ([0, 0], [[240.0, 120.0, 160.0, 240.0]], 139)
    """

    activation: str = "sigmoid"
    top: int = 100
    targets: Mapping[int, Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        check_choice("activation", self.activation, ("sigmoid", "softmax"))
        check_int("top", self.top, 1)

    def __call__(
        self, predictions: Any, labels: Sequence[Mapping[str, Any]]
    ) -> tuple[list[dict[str, Tensor]], list[dict[str, Any]]]:
        """Detections and ground truths of a batch; ``predictions`` may be what :meth:`preprocess` gave."""
        ready = isinstance(predictions, list) and all(isinstance(each, Mapping) for each in predictions)
        preds = predictions if ready else self._detected(predictions, labels)
        _check_labels(labels, len(preds))
        device = preds[0]["boxes"].device if preds else "cpu"
        return preds, [self._target(label, _scale(label).to(device)) for label in labels]

    def preprocess(self, predictions: Any, labels: Sequence[Mapping[str, Any]]) -> list[dict[str, Tensor]]:
        """Detections of each image on the host, for ``Trainer(preprocess_logits_for_metrics=inputs.preprocess)``.

        Several processes need it, with ``eval_use_gather_object=True``: ``Trainer`` gathers lists of objects image by
        image, but takes tuples of tensors apart.
        """
        return [{name: rows.cpu() for name, rows in each.items()} for each in self._detected(predictions, labels)]

    def _detected(self, predictions: Any, labels: Sequence[Mapping[str, Any]]) -> list[dict[str, Tensor]]:
        logits, boxes = _outputs(predictions)
        _check_labels(labels, len(logits))
        scales = torch.stack([_scale(label).to(boxes) for label in labels])
        return self.detections(logits, _corner_boxes(boxes, scales[:, None]))

    def detections(self, logits: Tensor, boxes: Tensor) -> list[dict[str, Tensor]]:
        """The best ``top`` of each image.

        Args:
            logits: ``[B, Q, K]``.
            boxes: ``[B, Q, 4]``, in any unit and format.

        Returns:
            ``boxes``, ``scores`` and ``labels`` of each image.
        """
        classes = logits.shape[-1]
        if self.activation == "softmax":
            scores, kinds = logits.float().softmax(-1)[..., :-1].max(-1)
            scores, queries = scores.topk(min(self.top, scores.shape[1]))
            kinds = kinds.gather(1, queries)
        else:
            scores, cells = logits.float().sigmoid().flatten(1).topk(min(self.top, logits[0].numel()))
            queries, kinds = cells // classes, cells % classes
        boxes = boxes.gather(1, queries[..., None].expand(-1, -1, 4))
        return [{"boxes": b, "scores": s, "labels": k} for b, s, k in zip(boxes, scores, kinds)]

    def _target(self, label: Mapping[str, Any], scale: Tensor) -> dict[str, Any]:
        key = int(label["image_id"])
        if self.targets is None:
            kinds = torch.as_tensor(label["class_labels"]).to(scale.device, torch.int64)
            return {"boxes": _corner_boxes(torch.as_tensor(label["boxes"]), scale), "labels": kinds, "image_id": key}
        if key not in self.targets:
            raise InputError(f"targets must have every image_id of the labels but lacks {key}")
        exact = self.targets[key]
        return {name: value.to(scale.device) if isinstance(value, Tensor) else value for name, value in exact.items()}


def _check_labels(labels: Sequence[Mapping[str, Any]], images: int) -> None:
    if len(labels) != images or not all(isinstance(label, Mapping) for label in labels):
        got = f"{len(labels)} items of type {type(labels[0]).__name__}" if len(labels) else "none"
        raise InputError(f"labels must be {images} dicts, one for each image, but got {got}; {_GATHERED}")


def _scale(label: Mapping[str, Any]) -> Tensor:
    """Width, height, width, height of the image in float64."""
    return torch.as_tensor(label["orig_size"]).double().flip(0).repeat(2)


def _corner_boxes(boxes: Tensor, scale: Tensor) -> Tensor:
    """Centres and sizes in fractions to x, y, width, height in pixels."""
    centre, size = (boxes.to(scale) * scale).split(2, dim=-1)
    return torch.cat([centre - size / 2, size], -1)


def _outputs(predictions: Any) -> tuple[Tensor, Tensor]:
    """Logits and boxes, the first two arrays of what a model gives: a dict of losses may come before."""
    if not isinstance(predictions, tuple):
        need = "predictions must be a tuple with logits and pred_boxes"
        raise InputTypeError(f"{need} but got {type(predictions).__name__}; {_SEVERAL}")
    arrays = [torch.as_tensor(each) for each in predictions if hasattr(each, "shape")][:2]
    shapes = [tuple(each.shape) for each in arrays]
    if len(arrays) != 2 or any(len(s) != 3 for s in shapes) or shapes[0][:2] != shapes[1][:2] or shapes[1][2] != 4:
        raise InputError(f"predictions must begin with logits [B, Q, K] and pred_boxes [B, Q, 4] but got {shapes}")
    return arrays[0], arrays[1].double()
