"""Recorded cases of Valor's releases: reading them, and our evaluations in their shape."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

from valor_gpu.valor import Annotation, Datum, Evaluation, GroundTruth, Label, Prediction, evaluate_classification
from valor_gpu.valor.enums import MetricType

DATA = Path(__file__).parent.parent / "data" / "valor"
CURVES = ("PrecisionRecallCurve", "DetailedPrecisionRecallCurve")
ALL = [*MetricType.classification()]


def read(name: str) -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
    return contents


def objects(case: dict[str, Any]) -> tuple[list[GroundTruth], list[Prediction]]:
    truths, found = [], []
    for datum in case["data"]:
        truths.append(GroundTruth(Datum(datum["uid"]), [_annotation(a) for a in datum["groundtruths"]]))
        found.append(Prediction(Datum(datum["uid"]), [_annotation(a) for a in datum["predictions"]]))
    return truths, found


def _annotation(annotation: dict[str, Any]) -> Annotation:
    scores = annotation.get("scores") or [None] * len(annotation["labels"])
    return Annotation(labels=[Label(x["key"], x["value"], s) for x, s in zip(annotation["labels"], scores)])


def evaluate(case: dict[str, Any], compat: str | None, **choices: Any) -> Evaluation:
    params = case.get("params", {})
    choices = {
        "label_map": params.get("label_map"),
        "metrics_to_return": params.get("metrics_to_return", None if "params" in case else ALL),
        "pr_curve_max_examples": params.get("pr_curve_max_examples", 1),
        **choices,
    }
    return evaluate_classification(*objects(case), compat=compat, **choices)


def shaped(evaluation: Evaluation) -> dict[str, Any]:
    """Metrics as the cases of valor_api and valor_core hold them."""
    found: dict[str, Any] = {}
    for metric in evaluation.metrics:
        kind = metric["type"]
        place = ":".join(metric["label"].values()) if "label" in metric else metric["parameters"]["label_key"]
        value = metric["value"]
        found.setdefault(kind, {})[place] = arrays(value, kind) if kind in CURVES else value
    matrices = evaluation.confusion_matrices or []
    for matrix in matrices:
        cells = [[e["groundtruth"], e["prediction"], e["count"]] for e in matrix["entries"]]
        found.setdefault("ConfusionMatrix", {})[matrix["label_key"]] = sorted(cells)
    return found


def arrays(value: dict[str, Any], kind: str) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for label, steps in value.items():
        columns: dict[str, list[Any]] = {"thresholds": list(steps)}
        for step in steps.values():
            for name, number in step.items():
                if kind == "PrecisionRecallCurve":
                    columns.setdefault(name, []).append(number)
                    continue
                columns.setdefault(name, []).append(number["total"])
                for observation, counted in number["observations"].items():
                    columns.setdefault(f"{name}/{observation}", []).append(counted["count"])
        shown[label] = columns
    return shown


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Places where two nested values differ by more than 1e-9; None and NaN are equal."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = [f"{place}/{key}" for key in ours.keys() ^ theirs.keys()]
        return found + [
            d for key in ours.keys() & theirs.keys() for d in differences(ours[key], theirs[key], f"{place}/{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [place] if any(differences(a, b) for a, b in zip(ours, theirs)) else []
    numbers = [math.nan if x is None else x for x in (ours, theirs)]
    if all(isinstance(x, (int, float)) for x in numbers):
        same = all(math.isnan(x) for x in numbers) or abs(numbers[0] - numbers[1]) <= 1e-9
        return [] if same else [place or "value"]
    return [] if ours == theirs else [place or "value"]


def shaped_lite(evaluations: dict[str, Evaluation]) -> dict[str, Any]:
    """Metrics with and without hardmax as the cases of valor-lite hold them."""
    found: dict[str, Any] = {}
    for name, evaluation in evaluations.items():
        block: dict[str, Any] = {"ConfusionMatrix": []}
        for metric in evaluation.metrics:
            kind, value, parameters = metric["type"], metric["value"], dict(metric["parameters"])
            parameters.pop("label_key")
            cut = f"score>={parameters.get('score_threshold')}"
            if kind == "ROCAUC":
                found.setdefault(kind, {})[parameters["label"]] = value
            elif kind == "mROCAUC":
                found[kind] = value
            elif kind == "ConfusionMatrix":
                block[kind].append({**parameters, **value})
            elif kind == "Accuracy":
                block.setdefault(kind, {})[cut] = value
            else:
                block.setdefault(kind, {}).setdefault(parameters["label"], {})[cut] = value
        found[name] = block
    return found


def lite_objects(dataset: list[dict[str, Any]]) -> tuple[list[GroundTruth], list[Prediction]]:
    """The datums of a case of valor-lite, with their place as metadata ``datum_id``."""
    truths, found = [], []
    for place, datum in enumerate(d for part in dataset for d in part["datums"]):
        named = Datum(datum["uid"], metadata={"datum_id": place})
        truths.append(GroundTruth(named, [Annotation(labels=[Label("k", datum["groundtruth"])])]))
        labels = [Label("k", value, score) for value, score in zip(datum["predictions"], datum["scores"])]
        found.append(Prediction(named, [Annotation(labels=labels)]))
    return truths, found
