"""Random annotations of detections, as objects and as frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, MultiPolygon, Polygon, Prediction, Raster
from valor_gpu.valor.columns import Columns
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


SIZE = (12, 14)
"""Height and width of the images of :func:`mixed_objects`."""


def _ring(points: Any) -> list[tuple[float, float]]:
    listed = [(float(x), float(y)) for x, y in points]
    return [*listed, listed[0]]


def geometry(kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """The fields of an annotation of a kind, on a grid of thirds so that centres of pixels lie on no edge."""
    corner, (width, height) = rng.integers(-3, 27, 2) / 3 + 0.1, rng.integers(4, 20, 2) / 3
    x, y = corner.tolist()
    if kind == "upright":
        return {"bounding_box": Box.from_extrema(x, x + width, y, y + height)}
    if kind == "turned":
        angle = rng.uniform(0.1, 1.4)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        points = np.array([[0, 0], [width, 0], [width, height], [0, height]]) @ turn + corner
        return {"bounding_box": Box([_ring(points)])}
    if kind == "raster":
        mask = np.zeros(SIZE, np.bool_)
        first = rng.integers(0, 9, 2)
        mask[first[0] : first[0] + rng.integers(3, 8), first[1] : first[1] + rng.integers(3, 8)] = True
        return {"raster": Raster(mask & (rng.random(SIZE) < 0.8))}
    outer = _ring([(x, y), (x + width, y), (x + width, y + height), (x + width / 3, y + height / 2), (x, y + height)])
    hole = _ring([(x + width / 2, y + height / 5), (x + width * 0.8, y + height / 5), (x + width / 2, y + height / 3)])
    if kind == "polygon":
        return {"polygon": Polygon([outer, hole])}
    assert kind == "multipolygon"
    shifted = [(a + width / 2, b + 1 / 3) for a, b in outer]
    return {"polygon": MultiPolygon([[outer, hole], [shifted]])}


def mixed_objects(
    seed: int, kinds: tuple[str, ...], gt_kinds: tuple[str, ...], datums: int = 3, rows: int = 8
) -> tuple[list[GroundTruth], list[Prediction]]:
    """Annotations of these kinds of geometry; some have two labels."""
    rng = np.random.default_rng(seed)
    sides: list[list[Any]] = [[], []]
    for datum in range(datums):
        for side, kind, choices in ((0, GroundTruth, gt_kinds), (1, Prediction, kinds)):
            annotations = []
            for _ in range(rows):
                labels = [Label(str(rng.choice(["k", "l"])), "v", rng.random() if side else None)]
                if rng.random() < 0.2:
                    labels.append(Label("k", "w", rng.random() if side else None))
                fields = geometry(str(rng.choice(choices)), rng)
                annotations.append(Annotation(labels=labels, is_instance=True, **fields))
            sides[side].append(kind(Datum(f"datum {datum}"), annotations))
    return sides[0], sides[1]
