"""``LVISEval``, the evaluator of lvis-api, over the one matcher. torch is imported for a CUDA device alone."""

from __future__ import annotations

import copy
import datetime
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.checks import check_choice
from valor_gpu.coco.ids import sorted_ids
from valor_gpu.coco.params import CONVENTIONS
from valor_gpu.coco.protocols import FREQUENCIES, PROTOCOLS
from valor_gpu.coco.saving import SavesState
from valor_gpu.coco.summarize import federated_means, federated_text
from valor_gpu.compat.lvis.lvis import LVIS, LVISResults
from valor_gpu.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from valor_gpu.coco.federated_evaluation import FederatedEvaluation
    from valor_gpu.coco.lvis_records import FederatedRecords
    from valor_gpu.coco.outcomes import MatchedRows
    from valor_gpu.result import Result
    from valor_gpu.state_file import StateFile
    from valor_gpu.stats.intervals import Bootstrap

IOU_TYPES = ("bbox", "segm")

_EVALUATED = ("img_ids", "cat_ids", "iou_thrs", "area_rng", "use_cats")
"""Parameters that must not change after ``evaluate``."""

_LOGGER = logging.getLogger("valor_gpu.coco.lvis_eval")  # the name that programs configure
_PROTOCOL = PROTOCOLS["lvis"]


class LVISParams:
    """What :class:`LVISEval` evaluates, as ``lvis.eval.Params``.

    Args:
        iou_type: ``bbox`` or ``segm``.

    Attributes:
        img_ids: image ids; evaluation sorts them and drops repeats.
        cat_ids: category ids, in the order of the results.
        iou_thrs: float64 ``[T]``, default .5, .55, ..., .95.
        rec_thrs: float64 ``[R]``, default 0, .01, ..., 1.
        max_dets: the limit of detections in an image that summaries name; :class:`LVISResults` applies its own.
        area_rng: A pairs [low, high] of square pixels, both ends included.
        area_rng_lbl: the A names of the ranges.
        use_cats: 0 takes all categories as one.
        img_count_lbl: frequency groups: rare, common, frequent.
        iou_type: as given.

    Example:
        >>> p = LVISParams("bbox")
        >>> p.max_dets, p.area_rng_lbl, p.img_count_lbl
        (300, ['all', 'small', 'medium', 'large'], ['r', 'c', 'f'])
    """

    def __init__(self, iou_type: str) -> None:
        self.img_ids: Any = []
        self.cat_ids: Any = []
        self.iou_thrs: Any = _PROTOCOL.threshold_grid()
        self.rec_thrs: Any = _PROTOCOL.recall_grid()
        self.max_dets: int = _PROTOCOL.limits[0]
        self.area_rng: Any = _PROTOCOL.area_ranges()
        self.area_rng_lbl: Any = _PROTOCOL.area_names()
        self.use_cats: int = 1
        self.img_count_lbl: Any = list(FREQUENCIES)
        self.iou_type = iou_type


class LVISEval(SavesState):
    """Federated average precision and recall, a drop-in for ``lvis.LVISEval``, equal to it to the last bit.

    An image counts only for the categories that it was searched for (:mod:`valor_gpu.coco.federated`), crowds do not
    exist, and at most 300 detections of an image are taken over all categories.

    Args:
        lvis_gt: ground truths, or the path of their file.
        lvis_dt: detections, the path of their file, or a list of result objects.
        iou_type: ``segm`` or ``bbox``.
        device: where to match and accumulate, for example ``cuda``; default: the CPU.
        convention: ``strict`` gives the numbers of lvis-api to the last bit; ``corrected`` mends what it shares with
            pycocotools: ids that are 0 or repeat, missing areas, areas on a bound, NaN scores.

    Attributes:
        params: an :class:`LVISParams`, to be changed before ``evaluate``.
        eval_imgs: for each category, area range and image a dict of matches, or None; made when first looked at.
        eval: ``params``, ``counts`` [T, R, K, A], ``date``, ``precision [T, R, K, A]``, ``recall [T, K, A]``, both
            float64 with -1 where nothing counts, and ``dt_pointers``, made when looked at.
        freq_groups: for each frequency the positions of its categories in ``params.cat_ids``.
        results: AP, AP50, AP75, APs, APm, APl, APr, APc, APf, AR@300, ARs@300, ARm@300 and ARl@300; -1 where nothing
            counts.

    Example:
        >>> import json, tempfile
        >>> box = {"image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9]}
        >>> dataset = {
        ...     "images": [{"id": 7, "neg_category_ids": [2], "not_exhaustive_category_ids": []}],
        ...     "annotations": [{"id": 1, "area": 81, **box}],
        ...     "categories": [{"id": n, "frequency": "r"} for n in (1, 2, 3)],
        ... }
        >>> found = [{"score": 0.9, **box}, {"score": 0.8, **box, "category_id": 3}]
        >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        ...     json.dump(dataset, file)
        ...     file.flush()
        ...     e = LVISEval(file.name, found, "bbox")
        >>> e.run()
        >>> round(float(e.get_results()["APr"]), 3)  # nobody looked for category 3
        1.0
    """

    def __init__(
        self,
        lvis_gt: LVIS | str | os.PathLike[str],
        lvis_dt: LVISResults | str | os.PathLike[str] | list[Any],
        iou_type: str = "segm",
        device: Any = None,
        convention: str = "strict",
    ) -> None:
        check_choice("convention", convention, CONVENTIONS)
        check_choice("iou_type", iou_type, IOU_TYPES)
        if not isinstance(lvis_gt, (LVIS, str, os.PathLike)):
            raise InputTypeError(f"lvis_gt must be an LVIS object or a path but got {lvis_gt!r:.60}")
        self.logger = _LOGGER
        self.device = device
        self.convention = convention
        self._warns = True
        self.lvis_gt = lvis_gt if isinstance(lvis_gt, LVIS) else LVIS(lvis_gt)
        self.lvis_dt = lvis_dt if isinstance(lvis_dt, LVISResults) else LVISResults(self.lvis_gt, lvis_dt)
        self.params: Any = LVISParams(iou_type)
        self.params.img_ids = sorted(self.lvis_gt.get_img_ids())
        self.params.cat_ids = sorted(self.lvis_gt.get_cat_ids())
        self.eval: dict[str, Any] = {}
        self.results: OrderedDict[str, Any] = OrderedDict()
        self.freq_groups: list[list[int]] = []
        self._records: FederatedRecords | None = None
        self._eval_imgs: Any = []

    @property
    def eval_imgs(self) -> Any:
        """One entry for each category, area range and image."""
        if self._eval_imgs is None:
            assert self._records is not None
            self._eval_imgs = self._records.eval_imgs()
        return self._eval_imgs

    def evaluate(self) -> None:
        """Matches every image.

        Raises:
            InputError: an annotation lacks a key or has a value that cannot be evaluated (it is named), a category has
                no frequency, or an image no list of negative categories.
        """
        from valor_gpu.coco.doubtful_ids import count_ids_of_dataset, warn_of_ids
        from valor_gpu.coco.engine import engine_on
        from valor_gpu.coco.lvis_records import evaluate_federated

        p = self.params
        p.img_ids = sorted_ids("img_ids", p.img_ids)
        self.freq_groups = self._groups_of_frequency()
        sides, strict = (self.lvis_gt.columns, self.lvis_dt.columns), self.convention == "strict"
        self._records = evaluate_federated(*sides, copy.deepcopy(p), engine_on(self.device), strict)
        self._eval_imgs = None
        if self._warns:
            warn_of_ids(count_ids_of_dataset(sides[0], sides[1].annotations.id), strict, 2)

    def _groups_of_frequency(self) -> list[list[int]]:
        data = self.lvis_gt.columns
        rows = {category["id"]: row for row, category in enumerate(data.categories)}
        groups: dict[Any, list[int]] = {label: [] for label in self.params.img_count_lbl}
        for place, number in enumerate(self.params.cat_ids):
            if number not in rows:
                raise InputError(f"params.cat_ids must be ids of categories but got {number}")
            frequency = data.categories[rows[number]].get("frequency")
            if frequency not in list(groups):  # a dict cannot be asked for a list
                raise InputError(
                    f"{data.where}: categories[{rows[number]}].frequency must be one of"
                    f" {', '.join(map(repr, groups))} but got {frequency!r:.60}"
                )
            groups[frequency].append(place)
        return list(groups.values())

    def accumulate(self) -> None:
        """Turns the results of all images into the arrays of ``eval``.

        Raises:
            InputError: nothing was evaluated, or parameters other than ``rec_thrs`` are not those of ``evaluate``.
        """
        if self._records is None:
            raise InputError("accumulate() needs evaluate(), which has not been run")
        self._check_evaluated(self._records.params)
        precision, recall = self._records.arrays(self.params.rec_thrs)
        self.eval = {
            "params": self.params,
            "counts": list(precision.shape),
            "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            "precision": precision,
            "recall": recall,
            "dt_pointers": _Pointers(self._records),
        }

    def _check_evaluated(self, evaluated: LVISParams) -> None:
        for name in _EVALUATED:
            now, then = getattr(self.params, name), getattr(evaluated, name)
            if not np.array_equal(now, then):
                raise InputError(f"params.{name} must be {then!r:.60}, as evaluate() had it, but is {now!r:.60}")

    def summarize(self) -> None:
        """Computes ``results``.

        Raises:
            InputError: nothing was accumulated, parameters are not those of ``evaluate``, or there are more names of
                area ranges than ranges.
            InputTypeError: ``params.max_dets`` is no integer.
        """
        if not self.eval or self._records is None:
            raise InputError("Please run accumulate() first")
        self._check_evaluated(self._records.params)
        self._check_names()
        self.results.update(federated_means(self.params, self.eval, self.freq_groups))

    def _check_names(self) -> None:
        """Raises unless summaries can name their limit and find their area ranges."""
        limit, names, ranges = self.params.max_dets, self.params.area_rng_lbl, len(self.params.area_rng)
        if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)):
            raise InputTypeError(f"params.max_dets must be int but got {limit!r:.60}")
        if len(names) > ranges:
            raise InputError(
                f"params.area_rng_lbl must have at most one name for each of the {ranges} ranges of params.area_rng but"
                f" is {names!r:.60}"
            )

    def run(self) -> None:
        """Evaluates, accumulates and summarizes."""
        self.evaluate()
        self.accumulate()
        self.summarize()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the numbers by the names of :meth:`COCOeval.result`, and ``map_rare`` and so on; after ``run()``.

        Args:
            intervals: also of each number: replicates of the images, or a :class:`valor_gpu.stats.Bootstrap`.

        Raises:
            InputError: nothing was summarized.
        """
        from valor_gpu.coco.lvis_result import lvis_result

        found = lvis_result(self._finished())
        return found if intervals is None else found.with_intervals(intervals)

    def print_results(self) -> None:
        """Prints ``results``, one line each."""
        thresholds, limit = self.params.iou_thrs, self.params.max_dets
        by_name = {line.name.format(limit=limit): line for line in _PROTOCOL.lines}
        for name, value in self.results.items():
            print(federated_text(by_name[name], thresholds, limit, value))

    def get_results(self) -> Any:
        """The numbers by name."""
        if not self.results:
            self.logger.warning("results is empty. Call run().")
        return self.results

    def _finished(self) -> FederatedEvaluation:
        """What the evaluation found, as data; users go on with parameters of their own."""
        from valor_gpu.coco.federated_evaluation import FederatedEvaluation

        if not self.results or self._records is None:
            raise InputError("result needs run(), or evaluate(), accumulate() and summarize()")
        arrays = {name: self.eval[name] for name in ("precision", "recall")}
        columns, limit, dropped = self.lvis_dt.columns, self.lvis_dt.max_dets, self.lvis_dt.dropped
        return FederatedEvaluation(
            self.lvis_gt.columns, columns, limit, dropped, copy.copy(self.params), self._records, self.freq_groups,
            arrays, dict(self.results),
        )  # fmt: skip

    def _state_file(self, result: Result) -> StateFile:
        from valor_gpu.coco.saved_state import LVIS_KIND, evaluation_state

        return evaluation_state(LVIS_KIND, *self._finished().chosen_and_groups(), result)

    def _matched_rows(self) -> MatchedRows | None:
        return None if self._records is None else self._records._matched_rows()


class _Pointers(Mapping[int, Any]):
    """``dt_pointers``: category position to area position to detection ids, true and false positives ``[T, N]``."""

    def __init__(self, records: FederatedRecords) -> None:
        self._records = records
        self._known: dict[int, Any] = {}

    def __getitem__(self, category: int) -> Any:
        if not 0 <= category < len(self):
            raise KeyError(category)
        if category not in self._known:
            self._known[category] = self._records.pointers(category)
        return self._known[category]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return self._records.categories
