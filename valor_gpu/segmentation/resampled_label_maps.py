"""Numbers of resampled images of label maps, from the counts of each image. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.reduce.regions import region_value
from valor_gpu.segmentation.label_map_images import KeptCounts
from valor_gpu.segmentation.resampled_images import ResampledImages, Weights


def resampled_label_maps(
    names: Sequence[str],
    kept: Sequence[KeptCounts],
    means: Mapping[str, tuple[str, str]],
    ratios: Sequence[str],
) -> ResampledImages:
    """Returns what intervals of :meth:`valor_gpu.segmentation.label_map_folders.Totals.result` are made of.

    Args:
        names: of the classes.
        kept: of each image.
        means: numbers of all classes, the ratio and its average.
        ratios: numbers of each class.
    """
    counts = np.array([image.counts for image in kept], np.int64).reshape(-1, 3, len(names))
    rows = [region_value(ratio, counts, average) for ratio, average in means.values()]
    tables = [counts, region_value("iou", counts, None), *rows]
    per_class = [f"{ratio}_per_class" for ratio in ratios]

    def numbers(weights: Weights, counts: Any, ious: Any, *rows: Any) -> dict[str, NDArray[np.float64]]:
        sums = weights.sums(counts)
        found = {name: region_value(ratio, sums, average) for name, (ratio, average) in means.items()}
        found |= {f"image_{name}": weights.means(values) for name, values in zip(means, rows)}
        classes = {n: region_value(r, sums, None, zero_division=math.nan) for n, r in zip(per_class, ratios)}
        for name, values in (classes | {"image_iou_per_class": weights.means(ious)}).items():
            found |= {f"{name}/{each}": values[:, place] for place, each in enumerate(names)}
        return found

    supports = [[f"{group}/{name}" for name in names] for group in (*per_class, "image_iou_per_class")]
    images = [image.name for image in kept]
    present, truths = counts[:, 2] > 0, counts[:, 2]
    return ResampledImages("pixels", images, numbers, supports, present, rows="image_", tables=tables, truths=truths)
