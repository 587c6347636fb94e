"""Random annotations of detections, as objects and as frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction
from valor_gpu.valor.columns import Columns, read_columns
from valor_gpu.valor.enums import TaskType

Frame = dict[str, Any]


def read(groundtruths: Any, predictions: Any) -> Columns:
    return read_columns(groundtruths, predictions, TaskType.OBJECT_DETECTION)


def box_frames(seed: int, datums: int = 6, rows: int = 60) -> tuple[Frame, Frame]:
    """Upright boxes with corners on a grid of halves; datums come in no order."""
    rng = np.random.default_rng(seed)
    frames = []
    for scored in (False, True):
        corner, size = rng.integers(0, 20, (rows, 2)) / 2, rng.integers(1, 16, (rows, 2)) / 2
        frame = {
            "datum_uid": [f"datum {i}" for i in rng.integers(0, datums, rows)],
            "label_key": rng.choice(["shape", "colour"], rows).tolist(),
            "label_value": rng.choice(["a", "b", "c"], rows).tolist(),
            **dict(zip(("xmin", "ymin", "xmax", "ymax"), np.concatenate([corner, corner + size], 1).T)),
        }
        frames.append({**frame, "score": rng.integers(0, 20, rows) / 20} if scored else frame)
    return frames[0], frames[1]


def as_objects(frame: Frame) -> list[Any]:
    """The annotations of a frame of boxes, a datum for each row."""
    kind = Prediction if "score" in frame else GroundTruth
    scores = frame.get("score", [None] * len(frame["datum_uid"]))
    extrema = zip(*(frame[name] for name in ("xmin", "xmax", "ymin", "ymax")))
    made = []
    for uid, key, value, score, box in zip(
        *(frame[c] for c in ("datum_uid", "label_key", "label_value")), scores, extrema
    ):
        label = Label(key, value, score if score is None else float(score))
        numbers = [float(number) for number in box]
        annotation = Annotation(labels=[label], bounding_box=Box.from_extrema(*numbers), is_instance=True)
        made.append(kind(Datum(uid), [annotation]))
    return made
