"""The engines of Valor's detection metrics: how each gets from boxes to numbers. See :mod:`benchmarks.baselines`.

All compute AP, AR, precision, recall, F1, counts and confusion matrices of every label at 10 IoU and 3 score
thresholds. Making the objects, frames and tensors is not timed.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines import BATCH, OURS, Clock, Finish, Prepare, Run, Tool
from benchmarks.valor_cases import Boxes, Scene, load
from benchmarks.verify import Outcome

IOUS = [round(0.5 + 0.05 * i, 2) for i in range(10)]
SCORES = [0.25, 0.5, 0.75]
NUMBERS = (
    *("mAPAveragedOverIOUs", "mAP", "mAR", "mARAveragedOverScores", "AP", "APAveragedOverIOUs", "AR"),
    *("ARAveragedOverScores", "Precision", "Recall", "F1"),
)
COUNTS = ("Counts", "ConfusionMatrix")
AGREED = ("Counts", "ARAveragedOverScores", "mARAveragedOverScores", "Precision", "Recall", "F1")
"""What valor-lite defines as our metrics of tensors do; they order equal scores, and pair labels, differently."""
FRAMES = "valor_gpu, from frames"
Item = Mapping[str, Any]


def _rows(boxes: Boxes, images: int) -> list[list[tuple[int, list[float], float | None]]]:
    """Label, corners and score of each row, by image."""
    out: list[list[tuple[int, list[float], float | None]]] = [[] for _ in range(images)]
    scores = boxes.score.tolist() or itertools.repeat(None)
    for image, label, box, score in zip(boxes.image.tolist(), boxes.label.tolist(), boxes.box.tolist(), scores):
        out[image].append((label, box, score))
    return out


def read(metrics: Iterable[Item], names: Collection[str] = (*NUMBERS, *COUNTS)) -> Outcome:
    """Of metrics in valor-lite's dicts the numbers of ``names`` by name and place, and a digest of what is counted."""
    numbers: dict[tuple[int, str], float] = {}
    counts: dict[str, Any] = {}
    for metric in (one for one in metrics if one["type"] in names):
        parameters = {k: v for k, v in sorted(metric["parameters"].items()) if k != "label_key"}
        place = json.dumps(parameters)
        if metric["type"] in NUMBERS:
            numbers[NUMBERS.index(metric["type"]), place] = float(metric["value"])
        else:
            counts[metric["type"] + place] = _without_zeros(metric["value"])
    text = json.dumps(counts, sort_keys=True)
    return Outcome([numbers[key] for key in sorted(numbers)], hashlib.sha256(text.encode()).hexdigest()[:16])


def _without_zeros(value: Any) -> Any:
    """Zeros are left out: whether the labels of an empty row are listed differs."""
    if not isinstance(value, Mapping):
        return int(value)
    kept = {str(key): _without_zeros(part) for key, part in value.items()}
    return {key: part for key, part in kept.items() if part}


# --------------------------------------------------------------------------------------------------------- valor-lite


def _start_lite(names: Collection[str]) -> Prepare:
    """``names`` are those that are compared; all are computed."""
    lite = importlib.import_module("valor_lite.object_detection")

    def boxes(rows: list[tuple[int, list[float], float | None]], prefix: str) -> list[Any]:
        return [
            lite.BoundingBox(f"{prefix}{i}", box[0], box[2], box[1], box[3], [str(label)],
                             [] if score is None else [score])
            for i, (label, box, score) in enumerate(rows)
        ]  # fmt: skip

    def prepare(path: Path) -> Run:
        scene = load(path)
        sides = zip(_rows(scene.true, scene.images), _rows(scene.found, scene.images))
        detections = [
            lite.Detection(uid=str(i), groundtruths=boxes(true, f"g{i}."), predictions=boxes(found, f"p{i}."))
            for i, (true, found) in enumerate(sides)
        ]
        return lambda clock: _run_lite(lite.Loader.in_memory(), detections, names, clock)

    return prepare


def _run_lite(loader: Any, detections: list[Any], names: Collection[str], clock: Clock) -> Finish:
    with clock.phase("add"):
        loader.add_bounding_boxes(detections)
    with clock.phase("finalize"):
        evaluator = loader.finalize()
    with clock.phase("metrics"):
        metrics = evaluator.compute_precision_recall(IOUS, SCORES)
    with clock.phase("confusion matrix"):
        matrices = evaluator.compute_confusion_matrix(IOUS, SCORES)
    return lambda: read((vars(metric) for group in (*metrics.values(), matrices) for metric in group), names)


# --------------------------------------------------------------------------------------------------------------- ours


def _start_ours(sides: Callable[[Any, Scene], tuple[Any, Any]]) -> Callable[[], Prepare]:
    """``start`` of our evaluation; ``sides`` makes its two first arguments."""

    def start() -> Prepare:
        valor = importlib.import_module("valor_gpu.valor")
        importlib.import_module("valor_gpu.compat.valor.detection.keys")  # imports torch, which is not counted

        def prepare(path: Path) -> Run:
            truths, found = sides(valor, load(path))

            def run(clock: Clock) -> Finish:
                with clock.phase("evaluate"):
                    evaluation = valor.evaluate_detection(
                        truths, found, metrics_to_return=[*NUMBERS, *COUNTS], iou_thresholds_to_compute=IOUS,
                        score_thresholds=SCORES, compat="valor-lite",
                    )  # fmt: skip
                return lambda: read(evaluation.metrics)

            return run

        return prepare

    return start


def _objects(valor: Any, scene: Scene) -> tuple[list[Any], list[Any]]:
    """Ground truths and predictions as objects of our package, which have the names of valor_core's."""

    def annotations(rows: list[tuple[int, list[float], float | None]]) -> list[Any]:
        return [
            valor.Annotation(
                labels=[valor.Label("class", str(label), score)],
                bounding_box=valor.Box.from_extrema(box[0], box[2], box[1], box[3]),
                is_instance=True,
            )
            for label, box, score in rows
        ]

    datums = [valor.Datum(str(i)) for i in range(scene.images)]
    truths, found = (_rows(side, scene.images) for side in (scene.true, scene.found))
    return (
        [valor.GroundTruth(datum, annotations(rows)) for datum, rows in zip(datums, truths)],
        [valor.Prediction(datum, annotations(rows)) for datum, rows in zip(datums, found)],
    )


def _frames(valor: Any, scene: Scene) -> tuple[Any, Any]:
    """Both sides as frames of pandas with a column for each side of a box."""
    return _frame(scene.true), _frame(scene.found)


def _frame(boxes: Boxes) -> Any:
    columns: dict[str, Any] = {
        "datum_uid": boxes.image.astype(str),
        "label_key": "class",
        "label_value": boxes.label.astype(str),
        **dict(zip(("xmin", "ymin", "xmax", "ymax"), boxes.box.T)),
        **({"score": boxes.score} if len(boxes.score) else {}),
    }
    return importlib.import_module("pandas").DataFrame(columns)


def _start_tensors() -> Prepare:
    """Metrics of tensors: labels are integers, values arrays."""
    detection = importlib.import_module("valor_gpu.detection")
    torch = importlib.import_module("torch")
    collection = importlib.import_module("torchmetrics").MetricCollection
    _metrics(detection)  # imports what is only imported when it is used, which is not counted

    def prepare(path: Path) -> Run:
        scene = load(path)
        sides = [_tensors(torch, side, scene.images) for side in (scene.found, scene.true)]
        batches = [tuple(side[i : i + BATCH] for side in sides) for i in range(0, scene.images, BATCH)]

        def run(clock: Clock) -> Finish:
            metric = collection(_metrics(detection))
            with clock.phase("update"):
                for preds, target in batches:
                    metric.update(preds, target)
            with clock.phase("compute"):
                values = metric.compute()
            return lambda: read(_as_lite(values), AGREED)

        return run

    return prepare


def _tensors(torch: Any, boxes: Boxes, images: int) -> list[dict[str, Any]]:
    """The dicts of ``update``, one an image."""
    counts = np.bincount(boxes.image, minlength=images).tolist()
    parts = {"boxes": boxes.box, "labels": boxes.label, **({"scores": boxes.score} if len(boxes.score) else {})}
    split = [torch.from_numpy(array).split(counts) for array in parts.values()]
    return [dict(zip(parts, row)) for row in zip(*split)]


def _metrics(detection: Any) -> dict[str, Any]:
    ious: dict[str, Any] = {"iou_thresholds": IOUS}
    both = {**ious, "score_thresholds": SCORES}
    return {
        "AP": detection.AP(**ious),
        "mAP": detection.mAP(**ious),
        "AR": detection.AR(**both),
        "mAR": detection.mAR(include_prediction_only_labels=True, **both),
        "Counts": detection.DetectionCounts(**both),
        "Precision": detection.DetectionPrecision(**both),
        "Recall": detection.DetectionRecall(**both),
        "F1": detection.DetectionF1(**both),
        "ConfusionMatrix": detection.DetectionConfusionMatrix(**both),
    }


def _as_lite(values: Mapping[str, Any]) -> Iterator[Item]:
    """In valor-lite's dicts, where a ratio 0 / 0 is 0."""
    found = {name: np.nan_to_num(np.asarray(value)) for name, value in values.items()}  # "NAME OF THE METRIC_name"
    averaged = {"iou_thresholds": IOUS, "score_thresholds": SCORES}
    yield {"type": "mARAveragedOverScores", "value": found["mAR_mar"], "parameters": averaged}
    for row, label in enumerate(found["Counts_classes"].astype(int).tolist()):
        named = {"label": str(label)}
        yield {"type": "ARAveragedOverScores", "value": found["AR_ar"][row], "parameters": {**averaged, **named}}
        for (t, iou), (s, score) in itertools.product(enumerate(IOUS), enumerate(SCORES)):
            place = {**named, "iou_threshold": iou, "score_threshold": score}
            for name in ("Precision", "Recall", "F1"):
                yield {"type": name, "value": found[f"{name}_{name.lower()}"][row, t, s], "parameters": place}
            counts = {name: found[f"Counts_{name}"][row, t, s] for name in ("tp", "fp", "fn")}
            yield {"type": "Counts", "value": counts, "parameters": place}


_LITE = "valor-lite"

TOOLS: dict[str, tuple[Tool, ...]] = {
    "objects": (
        Tool(OURS, OURS, "float64", _start_ours(_objects)),
        Tool(FRAMES, OURS, "float64", _start_ours(_frames), floor=True),
        Tool(_LITE, _LITE, "float64", partial(_start_lite, (*NUMBERS, *COUNTS)), slow=True),
    ),
    "tensors": (
        Tool(OURS, OURS, "float64", _start_tensors),
        Tool(_LITE, _LITE, "float64", partial(_start_lite, AGREED), slow=True),
    ),
}
"""All engines by path; ours first, the reference last."""
