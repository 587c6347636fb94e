"""What ``accumulate`` took of a COCO evaluation: its parameters and its rows. No torch."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.evaluation import Accumulated, Evaluation
from valor_gpu.coco.layout import Layout, select_rows
from valor_gpu.coco.selection import Selection, select
from valor_gpu.errors import InputError

_BEYOND = (
    "result needs what accumulate() took to lie within what evaluate() matched but params have more area ranges,"
    " images or categories, and pycocotools' convention takes them by position: give fewer, or ask for"
    ' convention="corrected"'
)
_NOTHING = "result needs an area range and a limit of detections but accumulate() took none of those of evaluate()"


@frozen
class Part:
    """What the filled places of ``COCOeval.eval`` are of.

    Attributes:
        selection: positions among what was evaluated.
        params: those of the evaluation, with the categories, images, area ranges and limits that were taken, and the
            recall samples of ``accumulate``. Position n of an array is of value n of its parameter.
        accumulated: the parameters of ``accumulate``.
    """

    selection: Selection
    params: Any
    accumulated: Any

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """T, K, A and M: how many places of the arrays are filled; -1 stands in what pycocotools leaves behind them."""
        p = self.params
        return len(p.iouThrs), len(self.selection.categories), len(p.areaRng), len(p.maxDets)

    def precision(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the filled places of precision, ``[T, R, K, A, M]`` or the last limit alone."""
        thresholds, classes, areas, limits = self.sizes
        return values[:thresholds, :, :classes, :areas, :limits]

    def recall(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the filled places of recall, ``[T, K, A, M]``."""
        thresholds, classes, areas, limits = self.sizes
        return values[:thresholds, :classes, :areas, :limits]


def part_of(found: Accumulated) -> Part:
    """Returns what ``accumulate`` took of an evaluation.

    Raises:
        InputError: no area range or limit, or (strict) a position beyond what was evaluated.
    """
    arrays, evaluated = found.arrays, found.evaluation.params
    given = arrays.accumulated if isinstance(arrays, EvalDict) else None
    given = copy.deepcopy(arrays["params"]) if given is None else given
    chosen = select(given, evaluated, found.evaluation.strict)
    if not chosen.inside(len(evaluated.catIds) if evaluated.useCats else 1, *chosen.evaluated):
        raise InputError(_BEYOND)
    if not (chosen.areas and chosen.limits):
        raise InputError(_NOTHING)
    params = copy.copy(evaluated)
    if evaluated.useCats:
        params.catIds = [evaluated.catIds[k] for k in chosen.categories]
    if chosen.images is not None:
        params.imgIds = [evaluated.imgIds[i] for i in chosen.images]
    params.areaRng = [evaluated.areaRng[a] for a in chosen.areas]
    params.areaRngLbl = _area_names(given, evaluated, chosen.areas)
    params.maxDets, params.recThrs = list(chosen.limits), given.recThrs
    return Part(chosen, params, given)


def _area_names(given: Any, evaluated: Any, areas: Sequence[int]) -> list[str]:
    """Those of ``given`` where it has the ranges that were taken, else those of the evaluation."""
    ranges = [tuple(evaluated.areaRng[a]) for a in areas]
    if ranges == [tuple(pair) for pair in given.areaRng]:
        return list(given.areaRngLbl)
    known = {tuple(pair): name for pair, name in zip(given.areaRng, given.areaRngLbl)}
    known.update({tuple(pair): name for pair, name in zip(evaluated.areaRng, evaluated.areaRngLbl)})
    return [known[pair] for pair in itertools.takewhile(known.__contains__, ranges)]


def new_labels(categories: Sequence[int], classes: int) -> NDArray[np.int32] | None:
    """Returns the label of each label among some categories, int32 ``[K]``, -1 outside them; None: all stay.

    Args:
        categories: positions, each once.
        classes: K.
    """
    if list(categories) == list(range(classes)):
        return None
    labels = np.full(classes, -1, np.int32)
    labels[list(categories)] = np.arange(len(categories), dtype=np.int32)
    return labels


def rows_of_part(evaluation: Evaluation, part: Part) -> tuple[Layout, NDArray[np.int64] | None]:
    """Returns the rows that were taken, and the places of the detections among all; None: all of them.

    Labels are positions among the categories that were taken, each once.
    """
    layout, records, chosen = evaluation.layout, evaluation.records, part.selection
    labels = new_labels(list(dict.fromkeys(chosen.categories)), records.classes)
    if chosen.images is None and labels is None:
        return layout, None
    if chosen.images is None:
        images, order = np.arange(len(layout.images)), layout.images
    else:
        taken = np.array(chosen.images, np.int64)
        images, order = records.image_positions[taken], taken.argsort().argsort()
    detections, places = select_rows(layout.detections, images, labels)
    return Layout(select_rows(layout.ground_truths, images, labels)[0], detections, order), places


def evaluation_of(evaluation: Evaluation, part: Part) -> Evaluation:
    """Returns an evaluation whose parameters and rows are those that were taken."""
    evaluated, chosen, params = evaluation.params, part.selection, copy.copy(part.params)
    if chosen.images is not None:
        params.imgIds = [evaluated.imgIds[i] for i in sorted(chosen.images)]
    if evaluated.useCats:
        params.catIds = [evaluated.catIds[k] for k in sorted(set(chosen.categories))]
    return replace(evaluation, evaluated=params, params=params, layout=rows_of_part(evaluation, part)[0])
