"""Examples of DetailedPrecisionRecallCurve: which annotation of which datum, with its coordinates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.valor.classification.curves import THRESHOLDS
from valor_gpu.valor.detection.numbers import KindTable
from valor_gpu.valor.detection.rules import DetectionRequest
from valor_gpu.valor.detection.scene import DETECTIONS, GROUND_TRUTHS, DetectionScene
from valor_gpu.valor.detection.shapes import outline

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
