"""Rows of a table of matches as COCO annotations that a labelling tool reads. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from valor_gpu.analysis.rows import OUTCOMES, Listed
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.leaves import json_value

_ATTRIBUTES = ("outcome", "kind", "iou", "detection_id", "ground_truth_id", "ground_truth_class")
_SHAPES = ("bbox", "segmentation", "keypoints", "num_keypoints", "area")


def coco_text(listed: Listed, columns: Mapping[str, Any], metric: str, outcomes: Sequence[str]) -> str:
    """Returns the JSON of :meth:`valor_gpu.analysis.match_table.MatchTable.to_coco`.

    Args:
        listed: the rows.
        columns: of the table.
        metric: name of the metric, for messages.
        outcomes: which rows.

    Raises:
        InputError: an outcome is unknown, or the metric keeps no shapes.
    """
    if isinstance(outcomes, str) or not isinstance(outcomes, Sequence):
        raise InputTypeError(f"outcomes must be a list or tuple of texts but got {outcomes!r}")
    for outcome in outcomes:
        check_choice("outcomes", outcome, OUTCOMES)
    if listed.rows.boxes is None:
        raise InputError(
            f"to_coco needs the shapes of objects, which {metric} does not keep: ask the result of a COCOeval"
        )
    places = np.flatnonzero(np.isin(listed.outcomes, [OUTCOMES.index(outcome) for outcome in outcomes]))
    rows, chosen = listed.rows, listed.take(places)
    ids = rows.category_ids if rows.category_ids is not None else range(1, len(rows.classes) + 1)
    positions = chosen.images
    document = {
        "images": [_image(listed, position) for position in np.unique(positions).tolist()],
        "categories": [{"id": number, "name": name} for number, name in zip(ids, rows.classes)],
        "annotations": [
            {"id": number, "image_id": rows.image_ids[position], "category_id": ids[label], **annotation}
            for number, (position, label, annotation) in enumerate(
                zip(positions.tolist(), chosen.labels.tolist(), _annotations(chosen, _rows_of(columns, places))), 1
            )
        ],
    }
    return json.dumps(json_value(document), allow_nan=False) + "\n"


def _image(listed: Listed, position: int) -> dict[str, Any]:
    fields = listed.rows.image_fields
    return {**(fields(position) if fields is not None else {}), "id": listed.rows.image_ids[position]}


def _rows_of(columns: Mapping[str, Any], places: Any) -> Iterator[dict[str, Any]]:
    """The attributes of each row, without what is missing."""
    values = (columns[name][places].tolist() for name in _ATTRIBUTES)
    for row in zip(*values):
        yield {name: value for name, value in zip(_ATTRIBUTES, row) if value is not None and value == value}


def _annotations(chosen: Listed, attributes: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Shape, score and attributes of each row."""
    scores = chosen.rows.scores
    for missed, shape, detection, each in zip(
        chosen.missed.tolist(), _shapes(chosen), chosen.detections.tolist(), attributes
    ):
        kept = {name: _plain(shape[name]) for name in _SHAPES if shape.get(name) is not None}
        if "area" not in kept and len(kept.get("bbox", ())) == 4:
            kept["area"] = kept["bbox"][2] * kept["bbox"][3]
        score = {} if missed else {"score": float(scores[detection])}
        yield {**kept, "iscrowd": 0, **score, "attributes": each}


def _shapes(chosen: Listed) -> list[Mapping[str, Any]]:
    """The annotation object of each row: of the detection, or of the missed ground truth."""
    boxes, missed = chosen.rows.boxes, chosen.missed
    assert boxes is not None
    found: list[Mapping[str, Any]] = [{}] * len(missed)
    for side, own, places in (
        ("detections", ~missed, chosen.detections),
        ("ground_truths", missed, chosen.ground_truths),
    ):
        where = np.flatnonzero(own)
        for place, shape in zip(where.tolist(), boxes(side, places[where])):
            found[place] = shape
    return found


def _plain(value: Any) -> Any:
    """A shape as JSON has it: compressed runs are text."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value.decode("ascii") if isinstance(value, bytes) else value
