"""An evaluation again, from files and what the result of the first one tells of itself. No torch."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.coco.protocols import PROTOCOLS
from valor_gpu.errors import InputError
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from valor_gpu.result import Result

Path = str | os.PathLike[str]

_UNTOLD = ("imgIds", "catIds", "boundary_dilation_ratio", "use_area", "img_ids", "cat_ids")
"""Choices that no signature tells: only that they are others than the defaults is known."""


def rebuilt(told: Result, ground_truths: Path, detections: Path, device: str = "cpu") -> Result:
    """Evaluates files by the choices of a result of ``COCOeval`` or ``LVISEval``, with its intervals.

    Args:
        told: the result, from a file of ``Result.save``.
        ground_truths: COCO JSON.
        detections: JSON of results.
        device: where to match.

    Raises:
        InputError: the result is of another metric, or a choice that it does not tell is not the default; the choice is
            named.
    """
    metric = told.signature.get("metric")
    if metric not in ("COCOeval", "LVISEval"):
        raise InputError(f"verify reads results of COCOeval and LVISEval, and documents of --json, but got {metric}")
    for text in told.provenance.get("deviations", ()):
        if text.partition(" ")[0] in _UNTOLD:
            raise InputError(f"verify needs choices that the result tells but its {text}: evaluate these in Python")
    with contextlib.redirect_stdout(io.StringIO()):  # the messages of pycocotools
        made = (_coco if metric == "COCOeval" else _lvis)(told, ground_truths, detections, device)
    return made if not told.intervals.choices else _with_intervals(made, told.intervals.choices)


def _coco(told: Result, ground_truths: Path, detections: Path, device: str) -> Result:
    from valor_gpu.coco import COCO, COCOeval

    choices, truth = told.signature, COCO(ground_truths)
    kind = "keypoints_crowd" if choices.get("protocol") == "crowdpose" else choices["iou_type"]
    evaluation = COCOeval(truth, truth.loadRes(detections), kind, device=device, convention=choices["convention"])
    p = evaluation.params
    p.iouThrs, p.recThrs = _grids(told)
    p.maxDets, p.useCats = list(choices["max_detection_thresholds"]), int(choices["average"] == "macro")
    p.areaRngLbl, p.areaRng = _areas(choices["area_ranges"], kind)
    if "sigmas" in choices:
        p.kpt_oks_sigmas = np.array(choices["sigmas"])
    evaluation.evaluate()
    evaluation.accumulate()
    return evaluation.result()


def _lvis(told: Result, ground_truths: Path, detections: Path, device: str) -> Result:
    from valor_gpu.coco import LVIS, LVISEval, LVISResults

    choices, truth = told.signature, LVIS(ground_truths)
    limit = _limit(told)
    results = LVISResults(truth, os.fspath(detections), limit)
    evaluation = LVISEval(truth, results, choices["iou_type"], device, choices["convention"])
    p = evaluation.params
    p.iou_thrs, p.rec_thrs = _grids(told)
    p.max_dets, p.use_cats = choices["max_detection_thresholds"][0], int(choices["average"] == "macro")
    p.area_rng_lbl, p.area_rng = _areas(choices["area_ranges"], "lvis")
    evaluation.run()
    return evaluation.result()


def _limit(told: Result) -> int:
    """The limit of detections of an image, which the result tells where it is not LVIS's."""
    found = (text for text in told.provenance.get("deviations", ()) if text.startswith("max_dets is "))
    return int(next(found, f"max_dets is {PROTOCOLS['lvis'].limits[0]} ").split()[2])


def _grids(told: Result) -> tuple[Any, Any]:
    """Thresholds of similarity and recall as the numbers hold them, which have all digits."""
    names = ("iou_thresholds", "recall_thresholds")
    for name in names:
        if name not in told.values:
            raise InputError(f"verify needs {name} among the values of the result but they are missing")
    first, second = (np.asarray(told.values[name], np.float64) for name in names)
    return first, second


def _areas(texts: Sequence[str], protocol: str) -> tuple[list[str], list[list[float]]]:
    """Names and ends of area ranges, of which the signature shows six digits."""
    usual = {f"{name} {low:g}-{high:g}": [low, high] for name, low, high in PROTOCOLS[protocol].areas}
    names = [text.rpartition(" ")[0] for text in texts]
    return names, [usual.get(text) or _ends(text) for text in texts]


def _ends(text: str) -> list[float]:
    parts = text.rpartition(" ")[2].split("-")
    for place in range(1, len(parts)):
        with contextlib.suppress(ValueError):
            return [float("-".join(parts[:place])), float("-".join(parts[place:]))]
    raise InputError(f"area_ranges of the signature must be NAME LOW-HIGH but got {text!r}")


def _with_intervals(made: Result, choices: Mapping[str, Any]) -> Result:
    """The result with the intervals that the choices tell."""
    if "clusters" in choices:
        raise InputError("verify needs choices that the result tells but no file holds the clusters of its intervals")
    known = {name: choices[name] for name in ("replicates", "confidence", "seed", "target")}
    found = made.with_intervals(Bootstrap(**known))
    method = choices["method"]
    if found.intervals.choices["method"] != method and "," not in method:
        found = made.with_intervals(Bootstrap(**known, method=method))
    return found
