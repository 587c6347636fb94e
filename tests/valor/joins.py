"""The rules of valor_core and of Valor's server as joins of rows, in plain loops."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, NamedTuple

from valor_gpu.valor import GroundTruth, Label, Prediction

THRESHOLDS = [number / 100 for number in range(5, 100, 5)]


class Row(NamedTuple):
    """One label of an annotation; ``place`` is its place in the annotation."""

    id: int
    datum: str
    key: str
    value: str
    score: float
    place: int


Pair = tuple[Row, Row | None]


def rows_of(items: list[Any], label_map: dict[Label, Label]) -> list[Row]:
    """Labels of all annotations, mapped."""
    found: list[Row] = []
    for item in items:
        for annotation in item.annotations:
            for place, label in enumerate(annotation.labels):
                target = label_map.get(Label(label.key, label.value), label)
                score = 0.0 if label.score is None else label.score
                found.append(Row(len(found), item.datum.uid, target.key, target.value, score, place))
    return found


def core(groundtruths: list[GroundTruth], predictions: list[Prediction], label_map: dict[Label, Label]) -> Any:
    """Metrics of valor_core in the shape of ``cases.shaped``; datums have one annotation of predictions."""
    truths, listed = rows_of(groundtruths, label_map), rows_of(predictions, label_map)
    joint: list[Pair] = []
    for truth in truths:
        own = [row for row in listed if (row.datum, row.key) == (truth.datum, truth.key)]
        joint.extend((truth, row) for row in own)
        if not own:
            joint.append((truth, None))
    shown: dict[str, Any] = defaultdict(dict)
    _core_hard(truths, listed, shown)
    _core_areas(joint, shown)
    _core_curves(joint, shown)
    return shown


def _core_hard(truths: list[Row], listed: list[Row], shown: dict[str, Any]) -> None:
    best: dict[tuple[str, str], Row] = {}
    for row in listed:
        place = (row.datum, row.key)
        if place not in best or (-row.score, str(row.place)) < (-best[place].score, str(best[place].place)):
            best[place] = row
    pairs: list[tuple[str, str | None, str | None]] = []  # key, ground truth, prediction
    for truth in truths:
        winner = best.get((truth.datum, truth.key))
        pairs.append((truth.key, truth.value, winner.value if winner else None))
    true_places = {(truth.datum, truth.key) for truth in truths}
    pairs.extend((row.key, None, row.value) for place, row in best.items() if place not in true_places)
    known = {(key, value) for key, *values in pairs for value in values}
    pairs.extend((row.key, None, row.value) for row in listed if (row.key, row.value) not in known)
    for key, value in {(key, value) for key, *values in pairs for value in values if value is not None}:
        tp = sum(pair == (key, value, value) for pair in pairs)
        found = sum(pair[::2] == (key, value) for pair in pairs)
        true = sum(pair[:2] == (key, value) for pair in pairs)
        precision, recall = (tp / found if found else 0.0), (tp / true if true else 0.0)
        f1 = 2 * precision * recall / (precision + recall) if tp else 0.0
        untrue = (key, None, value) in pairs
        for name, number in (("Precision", precision), ("Recall", recall), ("F1", f1)):
            shown[name][f"{key}:{value}"] = -1.0 if untrue else number
    for key in {truth.key for truth in truths}:
        of_key = [pair for pair in pairs if pair[0] == key and pair[1] is not None]
        shown["Accuracy"][key] = sum(true == found for _, true, found in of_key) / len(of_key)
        cells: dict[tuple[Any, Any], int] = defaultdict(int)
        for _, true, found_value in of_key:
            if found_value is not None:
                cells[true, found_value] += 1
        shown["ConfusionMatrix"][key] = sorted([*cell, count] for cell, count in cells.items())


def area(scores: list[tuple[float, bool]], positives: int, negatives: int) -> float:
    """Trapezoids from the first point on; equal scores are one point."""
    points = []
    for score in sorted({score for score, _ in scores}, reverse=True):
        passing = [match for other, match in scores if other >= score]
        points.append((passing.count(False) / negatives, passing.count(True) / positives))
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))


def _core_areas(joint: list[Pair], shown: dict[str, Any]) -> None:
    if all(row is None for _, row in joint):
        shown["ROCAUC"] = dict.fromkeys({truth.key for truth, _ in joint}, 0.0)
        return
    by_label: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for truth, row in joint:
        if row is not None:
            by_label[row.key, row.value].append((row.score, row.value == truth.value))
    areas = defaultdict(list)
    for (key, _), scores in by_label.items():
        positives = sum(match for _, match in scores)
        whole = positives in (0, len(scores))
        areas[key].append(1.0 if whole else area(scores, positives, len(scores) - positives))
    shown["ROCAUC"] = {key: sum(values) / len(values) for key, values in areas.items()}


def _core_curves(joint: list[Pair], shown: dict[str, Any]) -> None:
    total = len({truth.datum for truth, _ in joint})
    matches = [(truth, row) for truth, row in joint if row is not None and row.value == truth.value]
    any_true = any(row.score >= THRESHOLDS[0] for _, row in matches)
    labels = {(truth.key, truth.value) for truth, _ in joint} | {(r.key, r.value) for _, r in joint if r is not None}
    for key, value in labels:
        columns: dict[str, list[float]] = defaultdict(list)
        for threshold in THRESHOLDS:
            passing = [(truth, row) for truth, row in joint if row is not None and row.score >= threshold]
            tp = len({row.id for truth, row in passing if row.value == truth.value == value and row.key == key})
            fp = len({row.id for truth, row in passing if row.value == value != truth.value and row.key == key})
            hit = {truth.id for truth, row in passing if row.value == truth.value}
            missed = {t.id for t, _ in joint if (t.key, t.value) == (key, value) and t.id not in hit and any_true}
            confused = {truth.id for truth, row in passing if row.value != truth.value} & missed
            fn = len(missed)
            tn = total - tp - fp - fn
            columns["thresholds"].append(threshold)
            for name, number in (("tp", tp), ("fp", fp), ("fn", fn), ("tn", tn)):
                columns[name].append(number)
            columns["fn/misclassifications"].append(len(confused))
            columns["accuracy"].append((tp + tn) / total)
            columns["precision"].append(tp / (tp + fp) if tp + fp else -1)
            columns["recall"].append(tp / (tp + fn) if tp + fn else -1)
            columns["f1_score"].append(2 * tp / (2 * tp + fp + fn) if tp else -1)
        shown["PrecisionRecallCurve"].setdefault(key, {})[value] = dict(columns)


def server_curve(truths: list[Row], listed: list[Row], value: str, threshold: float) -> tuple[set[str], ...]:
    """Datums that are true positives, false positives and false negatives of a label; one key, all datums predicted."""
    joined = [(truth, row) for truth in truths for row in listed if row.datum == truth.datum]
    passing = [(truth, row) for truth, row in joined if row.value == value and row.score >= threshold]
    tp = {truth.datum for truth, _ in passing if truth.value == value}
    fp = {truth.datum for truth, _ in passing if truth.value != value}
    fn = {truth.datum for truth in truths if truth.value == value} - tp
    return tp, fp, fn
