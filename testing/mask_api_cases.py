"""Calls of a mask API in the style of pycocotools on masks, polygons and boxes made from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

SEEDS = 12
_COUNT = 5


def values_of(api: Any, seed: int) -> dict[str, Any]:
    """What the functions of a module give, as JSON holds it.

    Args:
        api: with ``encode``, ``decode``, ``area``, ``toBbox``, ``iou``, ``merge`` and ``frPyObjects``.
        seed: of the shapes.
    """
    rng = np.random.default_rng([seed, 31])
    height, width = (int(side) for side in rng.integers(6, 40, 2))
    corners = rng.integers(0, [height - 2, width - 2], (_COUNT, 2))
    masks = np.zeros((height, width, _COUNT), np.uint8, order="F")
    for n, (top, left) in enumerate(corners):
        masks[top : top + height // 2 + 2, left : left + width // 2 + 2, n] = 1
    masks[rng.random(masks.shape) < 0.1] ^= 1
    rles = api.encode(masks)
    polygons = [rng.uniform(0, [width, height], (4, 2)).ravel().round(2).tolist() for _ in range(_COUNT)]
    boxes = np.concatenate([corners[:, ::-1], rng.uniform(1, 9, (_COUNT, 2)).round(2)], 1).tolist()
    found = {
        "masks": rles,
        "polygons": api.frPyObjects(polygons, height, width),
        "boxes": api.frPyObjects(boxes, height, width),
    }
    crowd = rng.integers(0, 2, _COUNT).tolist()
    return {
        "decoded": bool((api.decode(rles) == masks).all()),
        "union": _counts([api.merge(rles)]),
        "intersection": _counts([api.merge(rles[:2], intersect=True)]),
        "iou of boxes": np.asarray(api.iou(np.array(boxes), np.array(boxes), crowd)).tolist(),
        **{f"counts of {kind}": _counts(each) for kind, each in found.items()},
        **{f"area of {kind}": np.asarray(api.area(each)).tolist() for kind, each in found.items()},
        **{f"box of {kind}": np.asarray(api.toBbox(each)).tolist() for kind, each in found.items()},
        **{f"iou of masks and {kind}": np.asarray(api.iou(rles, each, crowd)).tolist() for kind, each in found.items()},
    }


def _counts(rles: list[dict[str, Any]]) -> list[str]:
    return [rle["counts"].decode() for rle in rles]
