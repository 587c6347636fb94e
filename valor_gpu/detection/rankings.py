"""Images of Valor's metrics that count, and the ranking of their detections."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from valor_gpu.detection.overlap_copies import images_that_count
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.ops.overlaps.op import Overlaps, Ranked

_T = TypeVar("_T")


class Evaluated(NamedTuple):
    """Images that count: of several with one id, one.

    Attributes:
        overlaps: their rows and pairs.
        names: int64 ``[I]``, how results call them: by their ids where all images have one, else by their place in
            order of arrival, from 0.
        repeated: how many images do not count.
        derived: what was computed from them.
    """

    overlaps: Overlaps
    names: Tensor
    repeated: int
    derived: dict[Any, Any]


class Ranking(NamedTuple):
    """What metrics of ranked detections start from.

    Attributes:
        images: the images.
        ranked: what each detection found.
        classes: int64 ``[C]`` ascending, all labels of detections and ground truths.
        derived: what was computed from it.
    """

    images: Evaluated
    ranked: Ranked
    classes: Tensor
    derived: dict[Any, Any]

    @property
    def overlaps(self) -> Overlaps:
        """The rows and pairs."""
        return self.images.overlaps


def once(derived: dict[Any, Any], key: Hashable, make: Callable[[], _T]) -> _T:
    """What ``make`` gives, made once for a key.

    Args:
        derived: what was made of some data.
        key: all that the result depends on beside these.
        make: computes it; nobody may write into it.
    """
    if key not in derived:
        derived[key] = make()
    found: _T = derived[key]
    return found


def evaluated(state: OverlapRecords) -> Evaluated:
    """The images of a state that count; an image that comes again, as a distributed sampler pads, counts once."""
    if "images" in state.derived:
        known: Evaluated = state.derived["images"]
        return known
    overlaps, (named, ids), kept = state.overlaps(), state.images[:, :2].unbind(1), images_that_count(state)
    repeated = len(kept) - int(kept.sum())
    names = ids if bool(named.all()) else torch.arange(len(ids), device=ids.device)
    found = Evaluated(overlaps.take(datums=kept) if repeated else overlaps, names[kept], repeated, {})
    if not repeated:  # each metric warns of copies
        state.derived["images"] = found
    return found


def classes_of(overlaps: Overlaps) -> Tensor:
    """int64 ``[C]`` ascending: all labels of detections and ground truths."""
    labels: Tensor = torch.cat((overlaps.labels, overlaps.gt_labels)).unique()
    return labels
