"""State files of evaluations: their records and what accumulation took of them. No torch import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco import federated_evaluation
from valor_gpu.coco.engine import NumpyEngine, engine_on
from valor_gpu.coco.evaluation import Accumulated
from valor_gpu.coco.match_layout import EvaluationRecords
from valor_gpu.coco.resampled_evaluation import Chosen, check_ascending, chosen_and_groups, plain_ids, resampled_of
from valor_gpu.coco.selection import Selection
from valor_gpu.coco.state_analysis import StateAnalysis, numbers_of_state
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.types import CURVE_ARRAYS, Pick, RecordShape
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.reduce.matched_tables import on_host
from valor_gpu.reduce.resampled_detection import ResampledDetection
from valor_gpu.result import Result
from valor_gpu.state_file import StateFile, distinct_ids, document_of, replaced, state_bytes

KIND, LVIS_KIND = "coco", "lvis"
"""Kinds of the state files of evaluations."""

Groups = Mapping[str, Any]


def evaluation_state(kind: str, chosen: Chosen, groups: Groups, result: Result) -> StateFile:
    """Returns what a state file holds of an evaluation.

    Args:
        kind: ``KIND`` or ``LVIS_KIND``.
        chosen: what accumulation took.
        groups: of images (CrowdPose) or categories (LVIS), by name.
        result: of the evaluation.

    Raises:
        InputError: the categories do not ascend.
    """
    records, selection = chosen.records, chosen.selection
    check_ascending(selection.categories)
    choices = {
        "shape": list(records.shape),
        "classes": records.classes,
        "doubts": dict(records.doubts),
        "categories": list(map(int, selection.categories)),
        "areas": list(map(int, selection.areas)),
        "images": None if selection.images is None else list(map(int, selection.images)),
        "selected_limits": list(map(int, selection.limits)),
        "evaluated": list(map(int, selection.evaluated)),
        "limits": list(map(int, chosen.limits)),
        "thresholds": chosen.thresholds,
        "picks": {name: [p.array, p.area, p.limit, list(map(int, p.thresholds))] for name, p in chosen.picks.items()},
        "names": list(chosen.names),
        "category_ids": list(chosen.category_ids),
        "ids": plain_ids(chosen.ids),
        "strict": chosen.strict,
        "groups": {name: np.asarray(group).astype(np.int64).tolist() for name, group in (groups or {}).items()},
    }
    arrays = {
        "detections": on_host(records.detections),
        "ground_truths": on_host(records.ground_truths),
        "image_positions": records.image_positions,
        "lengths": records.lengths,
        "recalls": chosen.recalls,
    }
    if records.gt_hashes is not None:
        arrays["gt_hashes"] = records.gt_hashes()
    return StateFile(kind, choices, arrays, document_of(result))


def state_content(found: Accumulated, result: Result) -> bytes:
    """Returns the content of the state file of a COCO evaluation; empty if accumulation followed ``evalImgs``."""
    try:
        return state_bytes(evaluation_state(KIND, *chosen_and_groups(found), result))
    except InputError:  # the numbers are kept without it, and a comparison says that they have none
        return b""


def result_of(file: StateFile) -> Result:
    """Computes the numbers of an evaluation again, as far as its records give them.

    Raises:
        InputError: the file holds other arrays or choices than an evaluation writes.
    """
    try:
        chosen, groups = _chosen(file), file.choices["groups"]
        _check(chosen)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"the state file of an evaluation must hold its records but has {what}") from None
    resampled = _resampled(file.kind, groups)
    signature = file.result().signature
    analysis = StateAnalysis(chosen, resampled, signature)
    state = resampled(chosen)
    return replaced(file.result(state, analysis), numbers_of_state(state))


def _resampled(kind: str, groups: Groups) -> Callable[[Chosen], ResampledDetection]:
    """Returns what makes the images of records, to be drawn anew."""
    if kind == LVIS_KIND:
        return partial(federated_evaluation.resampled_of, groups=groups)
    return partial(resampled_of, groups={name: np.array(group, bool) for name, group in groups.items()})


def _chosen(file: StateFile) -> Chosen:
    choices, arrays = file.choices, file.arrays
    selection = Selection(
        _integers(choices["categories"]),
        _integers(choices["areas"]),
        None if choices["images"] is None else _integers(choices["images"]),
        _integers(choices["selected_limits"]),
        (int(choices["evaluated"][0]), int(choices["evaluated"][1])),
    )
    picks = {
        name: Pick(array, int(area), int(limit), _integers(thresholds))
        for name, (array, area, limit, thresholds) in choices["picks"].items()
    }
    return Chosen(
        _records(choices, arrays),
        selection,
        _integers(choices["limits"]),
        arrays["recalls"],
        int(choices["thresholds"]),
        picks,
        list(map(str, choices["names"])),
        distinct_ids(choices["ids"]),
        bool(choices["strict"]),
        distinct_ids(choices.get("category_ids", [])),
    )


def _records(choices: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> EvaluationRecords:
    engine = engine_on()
    shape = RecordShape(*map(int, choices["shape"]))
    rows: list[Any] = [arrays[name] for name in ("detections", "ground_truths")]
    shape.check_tables(rows[0], rows[1], np.zeros((0, len(IMAGE_COLUMNS)), np.int64))
    if not isinstance(engine, NumpyEngine):
        import torch

        rows = [torch.from_numpy(table) for table in rows]
    return EvaluationRecords(
        engine,
        rows[0],
        rows[1],
        arrays["image_positions"],
        arrays["lengths"],
        int(choices["classes"]),
        shape,
        choices["doubts"],
        partial(arrays.__getitem__, "gt_hashes") if "gt_hashes" in arrays else None,
    )


_MOST_LIMITS = 254  # a byte of each record holds the first limit that counts it, 255 none


def _integers(values: Sequence[Any]) -> list[int]:
    return [int(value) for value in values]


def _check(chosen: Chosen) -> None:
    """Raises ValueError for what kernels would index out of their tables by."""
    records, shape, selection = chosen.records, chosen.records.shape, chosen.selection
    detections, ground_truths = on_host(records.detections), on_host(records.ground_truths)
    lengths, places, images = records.lengths, records.image_positions, len(records.image_positions)
    rows = len(detections), len(ground_truths)
    good = {
        "shape": min(shape) > 0 and shape.limits <= _MOST_LIMITS,
        "lengths": lengths.dtype == np.int64
        and lengths.ndim == 2
        and lengths.min(initial=0) >= 0
        and lengths.sum(1).tolist() == list(rows),
        "image_positions": places.dtype == np.int64
        and lengths.shape == (2, images)
        and np.array_equal(np.sort(places), np.arange(images)),
        "ids": len(chosen.ids) == images,
        "names": not chosen.names or len(chosen.names) >= len(selection.categories),
        "category_ids": not chosen.category_ids or len(chosen.category_ids) == len(chosen.names),
        "gt_hashes": records.gt_hashes is None or _are_hashes(records.gt_hashes(), images),
        "detections": _labels_within(detections, 8, records.classes) and _buckets_within(detections, shape.limits),
        "ground_truths": _labels_within(ground_truths, 0, records.classes),
        "categories": _within(selection.categories, records.classes),
        "areas": _within(selection.areas, shape.areas),
        "images": _within(selection.images or [], images),
        "limits": _within(chosen.limits, shape.limits),
        "recalls": chosen.recalls.dtype == np.float64 and chosen.recalls.ndim == 1,
        "picks": all(p.array in CURVE_ARRAYS and min(p.area, *p.thresholds, 0) >= 0 for p in chosen.picks.values()),
    }
    wrong = next((name for name, fits in good.items() if not fits), None)
    if wrong is not None:
        raise ValueError(f"{wrong} that no evaluation has")


def _are_hashes(hashes: NDArray[Any], images: int) -> bool:
    return hashes.shape == (images,) and hashes.dtype == np.int64


def _within(values: Sequence[int], size: int) -> bool:
    return all(0 <= value < size for value in values)


def _labels_within(rows: NDArray[np.uint8], start: int, classes: int) -> bool:
    labels = np.ascontiguousarray(rows[:, start : start + 4]).view("<i4")
    return bool(labels.min(initial=0) >= 0 and labels.max(initial=0) < max(classes, 1))


def _buckets_within(rows: NDArray[np.uint8], limits: int) -> bool:
    """Whether no detection is beyond a limit that is not there."""
    return bool(rows[:, 12].max(initial=0) <= limits)
