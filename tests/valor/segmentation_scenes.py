"""Recorded and made segmentations, and a plain reference of their metrics, pixel by pixel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.valor import Annotation, Datum, Evaluation, GroundTruth, Label, Prediction, Raster

Mask = NDArray[np.bool_]
Scene = dict[str, tuple[list[tuple[str, str, Mask]], list[tuple[str, str, Mask]]]]
"""uid to (key, value, mask) of ground truths and of predictions."""


def annotation(key: str, value: str, mask: Mask, **fields: Any) -> Annotation:
    return Annotation(labels=[Label(key, value)], raster=Raster(mask), **fields)


def objects(scene: Scene) -> tuple[list[GroundTruth], list[Prediction]]:
    truths = [GroundTruth(Datum(uid), [annotation(*one) for one in sides[0]]) for uid, sides in scene.items()]
    found = [Prediction(Datum(uid), [annotation(*one) for one in sides[1]]) for uid, sides in scene.items()]
    return truths, found


def decoded(bitmask: dict[str, Any]) -> Mask:
    """The mask of runs, row by row, the first of zeros."""
    runs = bitmask["rle_row_major"]
    pixels = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    mask: Mask = pixels.reshape(bitmask["shape"])
    return mask


def recorded(case: dict[str, Any]) -> tuple[list[GroundTruth], list[Prediction]]:
    """The datums of a case; those of valor-lite's tests have one label and metadata."""
    sides: tuple[list[GroundTruth], list[Prediction]] = ([], [])
    for datum in case["data"]:
        for side, kind, name in zip(sides, (GroundTruth, Prediction), ("groundtruths", "predictions")):
            masks = [
                annotation("class", value, decoded(one["bitmask"]), metadata=one.get("metadata"))
                for one in datum[name]
                for value in (one.get("labels") or [one["label"]])
            ]
            side.append(kind(Datum(datum["uid"]), masks))  # type: ignore[arg-type]
    return sides


def random_scene(rng: np.random.Generator, disjoint: bool = False, keys: int = 2, values: int = 4) -> Scene:
    """Datums of several sizes; labels on one side only, several masks of a label, overlaps, empty masks and sides."""
    scene: Scene = {}
    for place in range(int(rng.integers(1, 6))):
        shape = tuple(int(n) for n in rng.integers(1, 14, 2))
        sides: list[list[tuple[str, str, Mask]]] = []
        for _ in range(2):
            side = []
            for key in range(keys):
                map_ = rng.integers(0, values + 3, shape)
                for value in range(values):
                    if rng.random() < 0.7:
                        noise = rng.random(shape) < (0 if disjoint else 0.2)
                        side.append((f"k{key}", f"v{value}", (map_ == value) | noise))
            if side and not disjoint and rng.random() < 0.5:
                key, value, _ = side[int(rng.integers(len(side)))]
                side.append((key, value, rng.random(shape) < 0.3))
            sides.append([] if rng.random() < 0.1 else side)
        scene[f"image {place}"] = (sides[0], sides[1])
    if not any(one for side in scene.values() for one in side):
        scene["image 0"] = ([("k0", "v0", np.ones((2, 2), np.bool_))], [])
    return scene


def sets_of(masks: list[tuple[str, str, Mask]], key: str, exclusive: bool, size: int) -> list[frozenset[str]]:
    """Labels of each pixel."""
    found: list[list[str]] = [[] for _ in range(size)]
    for other, value, mask in masks:
        for pixel in np.flatnonzero(mask.reshape(-1)) if other == key else ():
            if not exclusive or not found[pixel]:
                found[pixel].append(value)
    return [frozenset(labels) for labels in found]


def reference(scene: Scene, exclusive: bool = False) -> dict[str, Any]:
    """Metrics by type and place, from sets of labels of each pixel."""
    shown: dict[str, Any] = {}
    every = [one for sides in scene.values() for side in sides for one in side]
    for key in dict.fromkeys(key for key, _, _ in every):
        values = list(dict.fromkeys(value for other, value, _ in every if other == key))
        pixels: list[tuple[frozenset[str], frozenset[str]]] = []
        for true, found in scene.values():
            masks = [mask for other, _, mask in (*true, *found) if other == key]
            if masks:
                sides = (sets_of(side, key, exclusive, masks[0].size) for side in (true, found))
                pixels += zip(*sides)
        n = {a: {b: sum(a in t and b in p for t, p in pixels) for b in values} for a in values}
        true_n = {a: sum(a in t for t, _ in pixels) for a in values}
        found_n = {a: sum(a in p for _, p in pixels) for a in values}
        chosen = [a for a in values if exclusive or true_n[a]]
        parts = {
            "IOU": {a: (n[a][a], true_n[a] + found_n[a] - n[a][a]) for a in chosen},
            "Precision": {a: (n[a][a], found_n[a]) for a in chosen},
            "Recall": {a: (n[a][a], true_n[a]) for a in chosen},
            "F1": {a: (2 * n[a][a], true_n[a] + found_n[a]) for a in chosen},
        }
        for name, ratios in parts.items():
            for a, (part, whole) in ratios.items():
                shown[f"{name}/{key}/{a}"] = part / whole if whole else 0.0
        ious = [shown[f"IOU/{key}/{a}"] for a in chosen]
        shown[f"mIOU/{key}"] = math.fsum(ious) / len(ious) if ious else None
        shown[f"Accuracy/{key}"] = sum(t == p for t, p in pixels) / len(pixels) if pixels else None
        rows = values if exclusive else [a for a in values if true_n[a] or found_n[a]]
        unions = {(a, b): true_n[a] + found_n[b] - n[a][b] for a in rows for b in rows}
        shown[f"ConfusionMatrix/{key}"] = {
            "confusion_matrix": {a: {b: {"iou": n[a][b] / (unions[a, b] or 1)} for b in rows} for a in rows},
            "unmatched_predictions": {
                b: {"ratio": sum(b in p and not t for t, p in pixels) / (found_n[b] or 1)} for b in rows
            },
            "unmatched_ground_truths": {
                a: {"ratio": sum(a in t and not p for t, p in pixels) / (true_n[a] or 1)} for a in rows
            },
        }
    return shown


def shaped(evaluation: Evaluation) -> dict[str, Any]:
    """Metrics by type and place, of both forms of dicts."""
    found = {}
    for metric in evaluation.metrics:
        parameters, label = metric.get("parameters", {}), metric.get("label", {})
        key, value = parameters.get("label_key", label.get("key")), parameters.get("label", label.get("value"))
        found["/".join([metric["type"], key, *([value] if value else [])])] = metric["value"]
    return found


def without_empty(matrix: dict[str, Any], shown: set[str]) -> dict[str, Any]:
    """A confusion matrix without the labels that have no pixel."""
    rows = {a: {b: cell for b, cell in row.items() if b in shown} for a, row in matrix["confusion_matrix"].items()}
    sides = {name: {a: one for a, one in matrix[name].items() if a in shown} for name in matrix}
    return {**sides, "confusion_matrix": {a: row for a, row in rows.items() if a in shown}}
