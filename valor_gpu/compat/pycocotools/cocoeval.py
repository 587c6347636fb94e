"""``COCOeval``, the evaluator of pycocotools, over our kernels.

torch is imported to evaluate on a CUDA device, or where the C++ library is missing.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_choice
from valor_gpu.coco.evaluation import Accumulated, Evaluation, arrays_of, evaluate, sizes_of, sort_params
from valor_gpu.coco.geometry import geometry_of
from valor_gpu.coco.params import CONVENTIONS, Params, check_grids
from valor_gpu.coco.saving import SavesState
from valor_gpu.coco.selection import Selection, select
from valor_gpu.coco.summarize import summarize
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.coco.accumulation import Source
    from valor_gpu.coco.layout import Layout
    from valor_gpu.coco.match_layout import EvaluationRecords
    from valor_gpu.coco.outcomes import MatchedRows
    from valor_gpu.result import Result
    from valor_gpu.state_file import StateFile
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.store.saved import SavedRun


class _Unset:
    """Stands for what is made on request; a class, because it stays the same when copied or pickled."""


class COCOeval(SavesState):
    """Average precision and recall of masks, boxes or keypoints, a drop-in for ``pycocotools.cocoeval.COCOeval``.

    Args:
        cocoGt: ground truths: a :class:`valor_gpu.coco.COCO`, or any object with pycocotools' ``dataset``.
        cocoDt: detections, mostly ``cocoGt.loadRes(...)``.
        iouType: ``segm`` (masks), ``bbox``, ``boundary`` (the smaller of the IoU of masks and of their boundaries),
            ``rotated`` (rotated boxes or four corners) or ``keypoints``; ``keypoints_crowd`` is CrowdPose.
        device: where to match and accumulate, for example ``cuda``; default: the CPU.
        convention: ``strict`` gives pycocotools' numbers to the last bit; ``corrected`` mends its quirks, which
            docs/quirks.md lists.

    Attributes:
        params: a :class:`Params`, to be changed before ``evaluate``.
        evalImgs: for each category, area range and image a dict of matches, or None; made when first looked at.
        ious: (image id, category id) to float64 ``[D, G]``; made when first looked at.
        eval: ``params``, ``counts`` [T, R, K, A, M], ``date``, ``precision [T, R, K, A, M]``, ``recall [T, K, A, M]``,
            ``scores`` like precision, all float64 with -1 where nothing counts.
        stats: float64 ``[12]``, the numbers of ``summarize``; 10 of keypoints, 9 of CrowdPose, see docs/protocols.md.

    Example:
        >>> from valor_gpu.coco import COCO, COCOeval
        >>> ground_truth = COCO()
        >>> ground_truth.dataset = {
        ...     "images": [{"id": 1}],
        ...     "categories": [{"id": 1, "name": "cat"}],
        ...     "annotations": [
        ...         {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0}
        ...     ],
        ... }
        >>> with contextlib.redirect_stdout(io.StringIO()):
        ...     ground_truth.createIndex()
        ...     results = [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 8], "score": 0.9}]
        ...     detections = ground_truth.loadRes(results)
        ...     e = COCOeval(ground_truth, detections, "bbox")
        ...     e.evaluate()
        ...     e.accumulate()
        ...     e.summarize()
        >>> e.stats[:3].round(3).tolist()
        [0.8, 1.0, 1.0]
    """

    def __init__(
        self,
        cocoGt: Any = None,
        cocoDt: Any = None,
        iouType: str = "segm",
        device: Any = None,
        convention: str = "strict",
    ) -> None:
        check_choice("convention", convention, CONVENTIONS)
        if not iouType:
            print("iouType not specified. use default iouType segm")
        self.cocoGt = cocoGt
        self.cocoDt = cocoDt
        self.device = device
        self.convention = convention
        self._warns = True
        self.params: Any = Params(iouType=iouType)
        self.eval: Any = {}
        self.stats: Any = []
        self._paramsEval: Any = {}
        self._clear()
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    def _clear(self) -> None:
        """Forgets what an evaluation left; attributes that are made on request start empty."""
        self._evalImgs: Any = defaultdict(list)
        self._ious: Any = {}
        self._gt_dicts: Any = defaultdict(list)
        self._dt_dicts: Any = defaultdict(list)
        self._layout: Layout | None = None
        self._records: EvaluationRecords | None = None
        self._evaluated: Any = None

    @property
    def _strict(self) -> bool:
        return self.convention == "strict"

    @property
    def evalImgs(self) -> Any:
        """One entry for each category, area range and image; accumulation follows what is changed in it."""
        if self._evalImgs is _Unset:
            from valor_gpu.coco.cells import build_eval_imgs

            assert self._layout is not None
            self._evalImgs = build_eval_imgs(self._layout, self._evaluated, self._strict)
        return self._evalImgs

    @evalImgs.setter
    def evalImgs(self, value: Any) -> None:
        self._evalImgs = value

    @property
    def ious(self) -> Any:
        """IoU of each (image id, category id), [] where a side is empty."""
        if self._ious is _Unset:
            from valor_gpu.coco.cells import build_ious

            assert self._layout is not None
            self._ious = build_ious(self._layout, self._evaluated, self._strict)
        return self._ious

    @ious.setter
    def ious(self, value: Any) -> None:
        self._ious = value

    @property
    def _gts(self) -> Any:
        """(image id, category id) to the ground truth objects."""
        if self._gt_dicts is _Unset:
            self._gt_dicts, geometry = self._dicts_of(self.cocoGt), geometry_of(self.params, self._strict)
            for gt in itertools.chain.from_iterable(self._gt_dicts.values()):
                geometry.complete(gt)
                ignored = gt.get("iscrowd", False) or (not self._strict and gt.get("ignore", 0))
                gt["ignore"] = geometry.ignores(gt) or ignored
        return self._gt_dicts

    @_gts.setter
    def _gts(self, value: Any) -> None:
        self._gt_dicts = value

    @property
    def _dts(self) -> Any:
        """(image id, category id) to the detection objects."""
        if self._dt_dicts is _Unset:
            self._dt_dicts = self._dicts_of(self.cocoDt)
        return self._dt_dicts

    @_dts.setter
    def _dts(self, value: Any) -> None:
        self._dt_dicts = value

    def _dicts_of(self, coco: Any) -> defaultdict[tuple[Any, Any], list[Any]]:
        p = self.params if self._evaluated is None else self._evaluated
        ids = coco.getAnnIds(imgIds=p.imgIds, **({"catIds": p.catIds} if p.useCats else {}))
        cells: defaultdict[tuple[Any, Any], list[Any]] = defaultdict(list)
        geometry = geometry_of(p)
        for annotation in coco.loadAnns(ids):
            geometry.prepare(annotation, coco)
            cells[annotation["image_id"], annotation["category_id"]].append(annotation)
        return cells

    def _prepare(self) -> None:
        """Starts an evaluation: ``_gts`` and ``_dts`` are made anew when first looked at, results are forgotten."""
        self._clear()
        self.eval = {}
        self._gt_dicts = self._dt_dicts = _Unset

    def evaluate(self) -> None:
        """Matches every image; the results are in ``evalImgs`` for those who look.

        Raises:
            InputError: an annotation lacks a key or has a value that cannot be evaluated (it is named), or the device
                is not there.
        """
        start = time.time()
        print("Running per image evaluation...")
        p = self.params
        if p.useSegm is not None:
            p.iouType = "segm" if p.useSegm == 1 else "bbox"
            print(f"useSegm (deprecated) is not None. Running {p.iouType} evaluation")
        print(f"Evaluate annotation type *{p.iouType}*")
        geometry = geometry_of(p)
        sort_params(p)
        if not self._strict:
            check_grids(p)
        self._prepare()
        if self._is_overridden():
            self._evaluate_cell_by_cell(getattr(self, geometry.step))
        else:
            self._evaluate_all()
        self._paramsEval = copy.deepcopy(self.params)
        if self._warns:
            from valor_gpu.coco.doubtful_ids import count_ids, warn_of_ids, without_harmless

            counts = count_ids(self.cocoGt, self.cocoDt, self._layout)
            warn_of_ids(without_harmless(counts) if p.iouType == "keypoints_crowd" else counts, self._strict, 2)
        print(f"DONE (t={time.time() - start:0.2f}s).")

    def _is_overridden(self) -> bool:
        """Whether a subclass, or the user, replaced a step that works on single cells."""
        return any(
            name in vars(self) or getattr(type(self), name) is not function for name, function in _CELL_STEPS.items()
        )

    def _evaluate_all(self) -> None:
        from valor_gpu.coco.engine import engine_on

        found = evaluate(self.cocoGt, self.cocoDt, self.params, self.convention, engine_on(self.device))
        self._layout, self._records, self._evaluated = found.layout, found.records, found.evaluated
        self._evalImgs = self._ious = _Unset

    def _evaluate_cell_by_cell(self, similarities: Callable[[Any, Any], Any]) -> None:
        p = self.params
        categories = p.catIds if p.useCats else [-1]
        self.ious = {(i, k): similarities(i, k) for i in p.imgIds for k in categories}
        max_det = p.maxDets[-1]
        self.evalImgs = [
            self.evaluateImg(i, k, area, max_det) for k in categories for area in p.areaRng for i in p.imgIds
        ]

    def _cell(self, imgId: Any, catId: Any) -> tuple[list[Any], list[Any]]:
        """The ground truths and the detections of a cell."""
        p = self.params
        if p.useCats:
            return self._gts[imgId, catId], self._dts[imgId, catId]
        return tuple([a for k in p.catIds for a in side[imgId, k]] for side in (self._gts, self._dts))  # type: ignore[return-value]

    def computeIoU(self, imgId: Any, catId: Any) -> Any:
        """IoU float64 ``[D, G]`` of a cell, the detections by descending score up to the last limit; or []."""
        from valor_gpu.coco import one_cell

        ground_truths, detections = self._cell(imgId, catId)
        detections = one_cell.by_score(detections, self.params.maxDets[-1])
        if not ground_truths or not detections:
            return []
        return geometry_of(self.params, self._strict).ious(detections, ground_truths, (self.cocoDt, self.cocoGt))

    def computeOks(self, imgId: Any, catId: Any) -> Any:
        """As :meth:`computeIoU`, of keypoints; strict has [] where categories are not used, as in pycocotools."""
        return [] if self._strict and not self.params.useCats else COCOeval.computeIoU(self, imgId, catId)

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> dict[str, Any] | None:
        """Matches one cell in one area range, by ``ious``.

        Returns:
            image_id, category_id, aRng, maxDet, dtIds ``[D]``, gtIds ``[G]``, dtMatches and dtIgnore ``[T, D]``,
            gtMatches ``[T, G]``, dtScores ``[D]``, gtIgnore ``[G]``; None when the cell is empty.
        """
        from valor_gpu.coco import one_cell

        ground_truths, detections = self._cell(imgId, catId)
        if not ground_truths and not detections:
            return None
        # No need to make all cells for one.
        compute = getattr(self, geometry_of(self.params).step)
        ious = compute(imgId, catId) if self._ious is _Unset else self.ious[imgId, catId]
        rule = one_cell.CellRule(aRng, self.params.areaRng, self.params.iouThrs, maxDet, self._strict)
        cell = one_cell.evaluate_cell(ground_truths, detections, ious, rule)
        return {"image_id": imgId, "category_id": catId, "aRng": aRng, "maxDet": maxDet, **cell}

    def accumulate(self, p: Any = None) -> None:
        """Turns the results of all images into the arrays of ``eval``.

        Args:
            p: parameters to accumulate by, default ``params``: fewer images, categories, ranges or limits than were
                evaluated, or another recall grid.

        Raises:
            InputError: nothing was evaluated, or ``p`` does not fit what was.
        """
        print("Accumulating evaluation results...")
        start = time.time()
        if self._is_empty():
            print("Please run evaluate() first")
        if not self._paramsEval:
            raise InputError("accumulate() needs evaluate(), which has not been run")
        p = self.params if p is None else p
        counts = sizes_of(p, self._strict)
        self.eval = arrays_of(p, counts, self._source(p, counts, select(p, self._paramsEval, self._strict)))
        print(f"DONE (t={time.time() - start:0.2f}s).")

    def _is_empty(self) -> bool:
        if self._evalImgs is not _Unset:
            return len(self._evalImgs) == 0
        assert self._records is not None
        return not (self._records.classes and self._records.shape.areas and self._records.lengths.shape[1])

    def _evaluation(self) -> Evaluation | None:
        """What evaluation left, as data; None where steps on single cells are overridden."""
        if self._layout is None or self._records is None:
            return None
        cells, params = None if self._evalImgs is _Unset else self._evalImgs, (self._evaluated, self._paramsEval)
        return Evaluation(self.cocoGt, self.cocoDt, *params, self.convention, self._layout, self._records, cells)

    def _accumulated(self) -> Accumulated:
        found = self._evaluation()
        if not self.eval or found is None:
            raise InputError("result needs evaluate() and accumulate() of a COCOeval whose steps are not overridden")
        return Accumulated(found, self.eval)

    def _source(self, p: Any, counts: list[int], chosen: Selection) -> Source:
        """Curves of what ``chosen`` takes, of the records where they suffice, else of ``evalImgs``."""
        from valor_gpu.coco.accumulation import source_of_cells

        found = self._evaluation()
        if found is not None and found.holds(chosen, counts[0]):
            return found.source(p, counts, chosen)
        return source_of_cells(chosen.cells(self.evalImgs), chosen.limits, p.recThrs, counts, self._strict)

    def summarize(self) -> None:
        """Prints the numbers of the protocol, twelve for COCO's boxes and masks, and keeps them in ``stats``.

        Raises:
            InputError: nothing was accumulated, or (strict) there are fewer than three limits.
        """
        if not self.eval:
            raise InputError("Please run accumulate() first")
        groups = None
        if self.params.iouType == "keypoints_crowd":
            from valor_gpu.coco.crowdpose import group_means

            given, counts = self.eval["params"], self.eval["counts"]
            whole = select(given, self._paramsEval, self._strict)
            curves = partial(self._source, given, counts)
            groups = group_means(self.cocoGt, self._paramsEval.imgIds, whole, curves, self._strict)
        self.stats = summarize(self.params, self.eval, self._strict, groups)

    def result(self, with_values: bool = True, intervals: int | Bootstrap | None = None) -> Result:
        """The numbers by name, with counts, reasons, and a signature of the choices that made them, to log and plot.

        Args:
            with_values: False leaves the numbers out, on which most of the time goes.
            intervals: also of each number: replicates of the images, or a :class:`valor_gpu.stats.Bootstrap`.

        Raises:
            InputError: nothing was accumulated, or a subclass overrides a step that works on single cells.
        """
        from valor_gpu.coco.evaluation_result import coco_result

        result = coco_result(self._accumulated(), with_values)
        return result if intervals is None else result.with_intervals(intervals)

    def to_run(self, **options: Any) -> SavedRun:
        """Numbers, curves, confusions and images for a store; options: :func:`valor_gpu.coco.saved_run.saved_run`."""
        from valor_gpu.coco.saved_run import saved_run

        return saved_run(self._accumulated(), **options)

    def _state_file(self, result: Result) -> StateFile:
        from valor_gpu.coco.resampled_evaluation import chosen_and_groups
        from valor_gpu.coco.saved_state import KIND, evaluation_state

        return evaluation_state(KIND, *chosen_and_groups(self._accumulated()), result)

    def _matched_rows(self) -> MatchedRows | None:
        found = self._evaluation()
        return None if found is None else found._matched_rows()

    def __str__(self) -> str:
        if not self.eval:
            return repr(self)
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self.summarize()
        return text.getvalue().rstrip("\n")


_CELL_STEPS: dict[str, Callable[..., Any]] = {
    name: getattr(COCOeval, name) for name in ("_prepare", "computeIoU", "computeOks", "evaluateImg")
}
