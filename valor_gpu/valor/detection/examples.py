"""Examples of DetailedPrecisionRecallCurve: which annotation of which datum, with its coordinates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.inputs.mask_outlines import outlines_of
from valor_gpu.valor.classification.curves import THRESHOLDS
from valor_gpu.valor.detection.numbers import KindTable
from valor_gpu.valor.detection.rules import DetectionRequest
from valor_gpu.valor.detection.scene import DETECTIONS, GROUND_TRUTHS, DetectionScene
from valor_gpu.valor.detection.shapes import Shapes

_OUTCOMES = ("tp", "fp", "fn")


@dataclass(frozen=True)
class Examples:
    """The value of the curve, label by label.

    Attributes:
        scene: the data.
        request: how many examples of each kind, and what they hold.
    """

    scene: DetectionScene
    request: DetectionRequest
    _shown: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict)

    def curve(self, kinds: Mapping[str, KindTable], label: int) -> dict[float, dict[str, Any]]:
        """Counts and examples of a label at each score.

        Args:
            kinds: of all labels, by outcome and name.
            label: whose they are.
        """
        found = {}
        for step, threshold in enumerate(THRESHOLDS.tolist()):
            groups: dict[str, Any] = {outcome: {"total": 0, "observations": {}} for outcome in _OUTCOMES}
            for name, kind in kinds.items():
                outcome, _, short = name.partition("/")
                side, number = GROUND_TRUTHS if outcome == "fn" else DETECTIONS, kind.counts[label][step]
                examples = [self._example(side, row) for row in kind.rows[label][step] if row >= 0]
                groups[outcome]["total"] += number
                groups[outcome]["observations"][short] = {"count": number, "examples": examples}
            found[threshold] = groups
        return found

    def _example(self, side: int, row: int) -> tuple[Any, ...]:
        if (side, row) not in self._shown:
            self._shown[side, row] = self._make(side, row)
        return self._shown[side, row]

    def _make(self, side: int, row: int) -> tuple[Any, ...]:
        uid, shapes, annotation = self.scene.uid(side, row), self.scene.shapes(side), self.scene.annotation(side, row)
        kind = self.request.rules.examples
        geometry = outline(shapes, annotation, envelope=kind == "envelope")
        if kind == "datum":
            return uid, str(geometry["coordinates"])
        return self.scene.dataset, uid, json.dumps(geometry, separators=(",", ":"))


def outline(shapes: Shapes, annotation: int, envelope: bool = False) -> dict[str, Any]:
    """The GeoJSON object of an annotation: of its raster, else of its polygon, else of its box.

    Args:
        shapes: of all annotations of a side.
        annotation: place of one of them.
        envelope: the upright box around it instead.
    """
    polygons = polygons_of(shapes, annotation)
    if envelope and polygons:
        points = np.concatenate([np.array(ring) for rings in polygons for ring in rings])
        (x0, y0), (x1, y1) = points.min(0).tolist(), points.max(0).tolist()
        polygons = [[[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]]]
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def polygons_of(shapes: Shapes, annotation: int) -> list[list[list[list[float]]]]:
    """The polygons of an annotation, each a list of rings: of its raster, else of its polygon, else of its box.

    Args:
        shapes: of all annotations of a side.
        annotation: place of one of them.
    """
    place = _place(shapes.masked, annotation)
    if place is not None:
        return outlines_of(shapes.masks.take([place])).listed(0)
    place = _place(shapes.drawn, annotation)
    if place is not None:
        return shapes.outlines.listed(place)
    place = _place(shapes.turned, annotation)
    if place is not None:
        ring = shapes.corners[place].reshape(4, 2).tolist()
        return [[[*ring, ring[0]]]]
    x0, y0, x1, y1 = shapes.boxes[annotation].tolist()
    return [[[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]]]


def _place(annotations: NDArray[np.int64], annotation: int) -> int | None:
    """Where an annotation is among some of them, which ascend."""
    place = int(np.searchsorted(annotations, annotation))
    return place if place < len(annotations) and annotations[place] == annotation else None
