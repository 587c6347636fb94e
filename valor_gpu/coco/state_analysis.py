"""What the result of a state file answers about its images: numbers of slices, from records alone. No torch import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.base import Analysis
from valor_gpu.coco.resampled_evaluation import Chosen
from valor_gpu.reduce.coco_summary import absent_reasons
from valor_gpu.reduce.resampled_detection import ResampledDetection
from valor_gpu.result import Result, Signature
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import LOST_CLASSES


class StateAnalysis(Analysis):
    """Answers about the images of an evaluation whose records alone are there.

    Args:
        chosen: the records, and what accumulation took of them.
        resampled: returns the images of such records, to be drawn anew.
        signature: of the result.
    """

    image_ids: Sequence[Any]

    def __init__(self, chosen: Chosen, resampled: Callable[[Chosen], ResampledDetection], signature: Signature) -> None:
        self._chosen, self._resampled, self._signature = chosen, resampled, signature
        self.metric, self.image_ids = str(signature.get("metric", "")), chosen.keys
        self.images = len(self.image_ids)

    def result_of(self, images: NDArray[np.int64]) -> Result:
        """Computes the means, and the numbers of classes, of some images; see :class:`Analysis`."""
        selection = self._chosen.selection
        taken = range(self.images) if selection.images is None else selection.images
        part = replace(selection, images=[taken[place] for place in images.tolist()])
        state = self._resampled(replace(self._chosen, selection=part))
        values: dict[str, Any] = {}
        for whole, number in numbers_of_state(state).items():
            name, _, key = whole.partition("/")
            if key:
                values.setdefault(name, {})[key] = number
            else:
                values[name] = number
        return Result(values, self._signature, {"images": len(images)}, absent_reasons(values), state=state)


def numbers_of_state(state: ResampledDetection) -> dict[str, float]:
    """Computes the numbers of every image once: the jackknife that leaves out a share which no image is in."""
    found = state.replicates(Draws(state.units, 1, first=1, kind="delete", groups=1))
    return {name: float(values[0]) for name, values in found.items() if not name.endswith(LOST_CLASSES)}
