"""Draws annotations into the current matplotlib axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, MissingExtraError

Object = dict[str, Any]
MaskOf = Callable[[Object], NDArray[np.uint8]]
_CROWD_COLOR = (0.008, 0.651, 0.396)


def draw_annotations(
    annotations: Sequence[Object], draw_bbox: bool, mask_of: MaskOf, category_of: Callable[[int], Object]
) -> None:
    """Draws polygons, masks, keypoints and, if asked for, boxes; prints captions.

    Args:
        annotations: annotation objects; the first one decides whether they are drawn or printed.
        draw_bbox: draw the boxes too.
        mask_of: gives the mask of an annotation, uint8 ``[height, width]``.
        category_of: gives the category object with an id; its skeleton is drawn.

    Raises:
        InputError: the first annotation has none of these.
        MissingExtraError: matplotlib is not installed.
    """
    if len(annotations) == 0:
        return
    if "segmentation" in annotations[0] or "keypoints" in annotations[0]:
        _draw_instances(annotations, draw_bbox, mask_of, category_of)
    elif "caption" in annotations[0]:
        for annotation in annotations:
            print(annotation["caption"])
    else:
        raise InputError("annotations to show must have segmentation, keypoints or caption")


def _draw_instances(
    annotations: Sequence[Object], draw_bbox: bool, mask_of: MaskOf, category_of: Callable[[int], Object]
) -> None:
    try:
        from matplotlib import pyplot
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Polygon
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "COCO.showAnns") from None
    axes = pyplot.gca()
    axes.set_autoscale_on(False)
    polygons, colors = [], []
    for annotation in annotations:
        color = np.random.random(3) * 0.6 + 0.4
        for corners in _outlines(annotation, draw_bbox):
            polygons.append(Polygon(corners))
            colors.append(color)
        if isinstance(annotation.get("segmentation"), dict):
            axes.imshow(_tinted_mask(mask_of(annotation), bool(annotation["iscrowd"])))
        if isinstance(annotation.get("keypoints"), list):
            _draw_keypoints(axes, annotation["keypoints"], category_of(annotation["category_id"]), color)
    axes.add_collection(PatchCollection(polygons, facecolor=colors, linewidths=0, alpha=0.4))
    axes.add_collection(PatchCollection(polygons, facecolor="none", edgecolors=colors, linewidths=2))


def _outlines(annotation: dict[str, Any], draw_bbox: bool) -> list[NDArray[np.float64]]:
    """Corners ``[C, 2]`` of each polygon, and of the box."""
    segmentation = annotation.get("segmentation")
    polygons = segmentation if isinstance(segmentation, list) else []
    outlines = [np.asarray(polygon, np.float64).reshape(-1, 2) for polygon in polygons]
    if draw_bbox:
        x, y, width, height = annotation["bbox"]
        outlines.append(np.array([[x, y], [x, y + height], [x + width, y + height], [x + width, y]], np.float64))
    return outlines


def _tinted_mask(bits: NDArray[np.uint8], crowd: bool) -> NDArray[np.float64]:
    """A picture ``[height, width, 4]``: one color, half transparent where the mask is set."""
    color = _CROWD_COLOR if crowd else tuple(np.random.random(3))
    return np.dstack([np.broadcast_to(np.array(color), (*bits.shape, 3)), bits * 0.5])


def _draw_keypoints(axes: Any, keypoints: list[float], category: dict[str, Any], color: NDArray[np.float64]) -> None:
    """Limbs between visible joints, and the joints: black edges where they are labelled but hidden."""
    x, y, visible = (np.asarray(keypoints[part::3]) for part in range(3))
    for limb in np.asarray(category["skeleton"]) - 1:  # the skeleton counts joints from 1
        if (visible[limb] > 0).all():
            axes.plot(x[limb], y[limb], linewidth=3, color=color)
    for shown, edge in ((visible > 0, "k"), (visible > 1, color)):
        axes.plot(x[shown], y[shown], "o", markersize=8, markerfacecolor=color, markeredgecolor=edge, markeredgewidth=2)
