"""One LVIS evaluation: federated rows matched, their arrays, and what lvis-api keeps of every cell. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.accumulation import source_of_records
from valor_gpu.coco.cells import build_eval_imgs
from valor_gpu.coco.engine import Engine, engine_on
from valor_gpu.coco.federated import FederatedRows, federated_rows
from valor_gpu.coco.geometry import Geometry, Wrong, geometry_of
from valor_gpu.coco.ground_truth_hashes import hash_federated
from valor_gpu.coco.ids import positions, sorted_unique
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.coco.match_layout import EvaluationRecords, as_ids, asked_of, completed, evaluate_records
from valor_gpu.coco.params import Params
from valor_gpu.coco.selection import Selection
from valor_gpu.inputs.coco import Annotations, Dataset
from valor_gpu.inputs.text_ids import TextIds, shown_ids
from valor_gpu.ops.assign.match_batch import MatchBatch

_NO_LIMIT = 2**31 - 1  # of a cell: the limit of an image has been applied

Array = NDArray[np.float64]


_CELL_NAMES = {
    "image_id": "image_id",
    "category_id": "category_id",
    "area_rng": "aRng",
    "dt_ids": "dtIds",
    "gt_ids": "gtIds",
    "dt_matches": "dtMatches",
    "gt_matches": "gtMatches",
    "dt_scores": "dtScores",
    "gt_ignore": "gtIgnore",
    "dt_ignore": "dtIgnore",
}


@dataclass(frozen=True, eq=False)
class FederatedRecords:
    """What an evaluation leaves.

    Attributes:
        params: of the evaluation.
        rows: what was evaluated.
        records: of the rows, classes in the order of ``known``.
        known: int64, the categories ascending; one number for all where they are pooled.
        texts: what the numbers of categories stand for, where ids are texts.
        strict: the convention.
    """

    params: Any
    rows: FederatedRows
    records: EvaluationRecords
    known: NDArray[np.int64]
    texts: TextIds | None = None
    strict: bool = True

    @property
    def categories(self) -> int:
        """K of the arrays."""
        return len(self.params.cat_ids) if self.params.use_cats else 1

    @property
    def whole(self) -> Params:
        """The parameters by the names that COCO has for them."""
        return _params_of(self.params, shown_ids(self.known, self.texts))

    def geometry(self) -> FederatedGeometry:
        """What the rows were compared by."""
        return FederatedGeometry(self.whole, self.rows, self.strict)

    def arrays(self, recalls: Any) -> tuple[Array, Array]:
        """Precision ``[T, R, K, A]`` at R ``recalls``, and recall ``[T, K, A]``."""
        p, shape = self.params, self.records.shape
        chosen = self.positions()
        selection = Selection(chosen, list(range(shape.areas)), None, [_NO_LIMIT], (shape.areas, len(p.img_ids)))
        counts = [shape.thresholds, len(recalls), len(chosen), shape.areas, 1]
        source = source_of_records(self.records, selection, [0], recalls, counts, self.strict)
        recall, precision = source.recall()
        return precision[..., 0], recall[..., 0]

    def eval_imgs(self) -> list[dict[str, Any] | None]:
        """For each category, area range and image what lvis-api keeps of the cell; None where it is empty."""
        p = self.params
        cells = build_eval_imgs(self.rows.layout, self.whole, self.strict, self.geometry())
        size = len(p.area_rng) * len(p.img_ids)
        chosen = [cell for k in self.positions() for cell in cells[k * size : (k + 1) * size]]
        return [
            None if cell is None else {ours: cell[theirs] for ours, theirs in _CELL_NAMES.items()} for cell in chosen
        ]

    def pointers(self, category: int) -> dict[int, dict[str, Any]]:
        """For each area range the detections of a category by score: ids, true and false positives ``[T, N]``."""
        cells, images = self.eval_imgs(), len(self.params.img_ids)
        out: dict[int, dict[str, Any]] = {}
        for area in range(len(self.params.area_rng)):
            start = (category * len(self.params.area_rng) + area) * images
            group = [cell for cell in cells[start : start + images] if cell is not None]
            counting = sum(int(np.count_nonzero(cell["gt_ignore"] == 0)) for cell in group)
            out[area] = _ordered(group) if counting else {}
        return out

    def positions(self) -> list[int]:
        """For each category of the arrays its place among the records."""
        return (
            positions(as_ids("cat_ids", self.params.cat_ids, self.texts), self.known).tolist()
            if self.params.use_cats
            else [0]
        )


def evaluate_federated(
    ground_truths: Dataset, detections: Dataset, params: Any, device: Any, strict: bool = True
) -> FederatedRecords:
    """Matches the rows that LVIS evaluates.

    Args:
        ground_truths: columns with image objects.
        detections: columns.
        params: :class:`valor_gpu.coco.LVISParams`, kept as they are.
        device: see :func:`valor_gpu.coco.engine.engine_on`.
        strict: the convention.
    """
    engine = engine_on(device)
    ids = {"img_ids": params.img_ids, "cat_ids": params.cat_ids}
    ground_truths, found, images, categories = asked_of(ground_truths, detections, ids, strict)
    known = sorted_unique(categories) if params.use_cats else np.zeros(1, np.int64)
    chosen = known if params.use_cats else categories
    rows = federated_rows(ground_truths, found, images, chosen, bool(params.use_cats), strict)
    of_known = found.texts.category_id if params.use_cats else None
    whole = _params_of(params, shown_ids(known, of_known))
    geometry = FederatedGeometry(whole, rows, strict)
    rows = replace(rows, layout=completed(rows.layout, geometry))
    records = evaluate_records(rows.layout, whole, strict, engine, geometry)
    records = replace(records, gt_hashes=partial(hash_federated, rows.layout.ground_truths, rows.lists))
    return FederatedRecords(params, rows, records, known, of_known, strict)


def _params_of(params: Any, known: list[Any]) -> Params:
    """The parameters by the names that COCO has for them."""
    same = Params(params.iou_type)
    same.imgIds, same.catIds, same.useCats = params.img_ids, known, params.use_cats
    same.iouThrs, same.recThrs, same.areaRng = params.iou_thrs, params.rec_thrs, params.area_rng
    same.maxDets = [_NO_LIMIT]
    return same


class FederatedGeometry(Geometry):
    """Another geometry with the flags of LVIS.

    Args:
        params: the parameters of the evaluation.
        rows: what is evaluated.
        strict: the convention.
    """

    def __init__(self, params: Params, rows: FederatedRows, strict: bool) -> None:
        super().__init__(params, strict)
        self._inner, self._rows = geometry_of(params, strict), rows
        self.gt_needs = self._inner.gt_needs  # type: ignore[misc]
        self.area_text = self._inner.area_text  # type: ignore[misc]
        self.unread = ("iscrowd",)

    def needs_of(self, detections: Annotations) -> tuple[str, ...]:
        """See :class:`Geometry`."""
        return self._inner.needs_of(detections)

    def missing_areas(self, columns: Annotations, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """See :class:`Geometry`."""
        return self._inner.missing_areas(columns, rows)

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """See :class:`Geometry`."""
        batch = self._inner.batch(layout, replace(common, flags=[self._rows.flags]), lowest, engine)
        self.doubts = self._inner.doubts
        return batch

    def wrong(self, side: Side) -> list[Wrong]:
        """See :class:`Geometry`."""
        return self._inner.wrong(side)

    def ignored(self, ground_truths: Side) -> NDArray[np.bool_]:
        """See :class:`Geometry`."""
        return ground_truths.take("ignore")


def _ordered(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """The detections of some cells by descending score."""
    order = np.argsort(-np.concatenate([cell["dt_scores"] for cell in cells]), kind="stable")
    ids = np.concatenate([cell["dt_ids"] for cell in cells])
    matched, ignored = (np.concatenate([cell[name] for cell in cells], axis=1) for name in ("dt_matches", "dt_ignore"))
    hits, counts = (matched != 0)[:, order], ~ignored[:, order]
    return {"dt_ids": ids[order], "tps": hits & counts, "fps": ~hits & counts}
