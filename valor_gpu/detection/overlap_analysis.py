"""What results of Valor's detection metrics answer about their errors, by Valor's own rule of matching."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.analysis.detection import DetectionAnalysis
from valor_gpu.analysis.rows import Matching, Pairs, Rows
from valor_gpu.argument_docs import documented
from valor_gpu.checks import check_number
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import leaves, single_numbers
from valor_gpu.exports.texts import is_array, is_scalar
from valor_gpu.ops.overlaps.op import Overlaps, Ranked, rank_overlaps
from valor_gpu.reduce.overlap_counts import true_positives

if TYPE_CHECKING:
    from valor_gpu.detection.overlap_metric import OverlapMetric
    from valor_gpu.result import Result
    from valor_gpu.result_data import ResultData

Ints = NDArray[np.int64]
_RECALLS = np.linspace(0.0, 1.0, 101)
_CONFUSIONS = ("confusion_matrix", "unmatched_predictions", "unmatched_ground_truths")


@documented
class OverlapAnalysis(DetectionAnalysis):
    """Answers from detections, ground truths and the pairs that overlap, matched as Valor's metrics match them.

    A detection looks at the ground truth of its label with the largest IoU. The first of positive score that reaches
    the threshold is its true positive, every other detection is a false positive: what AP at that threshold is made of.
    Nothing is a crowd, and no limit leaves detections out.

    Args:
        overlaps: rows and pairs of the images that count.
        image_ids: of the images, in order.
        classes: label, as overlaps have it, to the name of the class, in the order of the answers.
        matching: ``valor`` or ``doc``, see :func:`valor_gpu.ops.overlaps.op.rank_overlaps`.
        result_of: returns the result of some of the images, int64 positions; None: not defined.
        positive_only: detections of no positive score are left out, and no false positives.
        objects: see ``boxes`` of :class:`valor_gpu.analysis.rows.Rows`.
    """

    def __init__(
        self,
        overlaps: Overlaps,
        image_ids: Sequence[Any],
        classes: Mapping[int, str],
        matching: str,
        choices: Mapping[str, Any],
        result_of: Callable[[Ints], Result] | None = None,
        positive_only: bool = False,
        objects: Callable[[str, Ints], Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        self._positive_only, self._objects = positive_only, objects
        self._overlaps, self._classes, self._rule, self._result_of = overlaps, classes, matching, result_of
        self.choices, self.metric, self.recall_thresholds = choices, str(choices["metric"]), _RECALLS
        self.image_ids, self.images = image_ids, len(image_ids)

    def make_rows(self) -> Rows:
        """See :class:`DetectionAnalysis`."""
        found = self._overlaps
        labels, gt_labels = (self._places(column) for column in (found.labels, found.gt_labels))
        scores = _array(found.scores)
        kept = scores > 0 if self._positive_only else np.ones(len(labels), np.bool_)
        return Rows(
            self.image_ids or [], list(self._classes.values()), _array(found.sizes), scores, labels, kept,
            np.zeros(len(labels), np.bool_), gt_labels, np.zeros(len(gt_labels), np.uint8), boxes=self._objects,
        )  # fmt: skip

    def _places(self, labels: torch.Tensor) -> Ints:
        """int64 ``[N]``: positions of labels among the classes."""
        known = np.array(list(self._classes), np.int64)
        order = known.argsort()
        return order[np.searchsorted(known[order], _array(labels))] if len(labels) else np.zeros(0, np.int64)

    def make_pairs(self) -> Pairs:
        """See :class:`DetectionAnalysis`: every pair that overlaps."""
        found = self._overlaps
        return Pairs(0.0, _array(found.counts), _array(found.ground_truths), _array(found.ious))

    @cached_property
    def _ranked(self) -> Ranked:
        return rank_overlaps(self._overlaps, self._rule)

    def matching(self, iou: float = 0.5) -> Matching:
        """Returns the outcomes at one IoU threshold by Valor's rule.

        Raises:
            InputError: ``iou`` is not above 0 and at most 1.
        """
        check_number("iou", iou, 0, 1)
        if not iou:
            raise InputError(f"iou must be above 0 and at most 1 but got {iou}")
        if iou not in self._matchings:
            rows, ranked = self.rows, self._ranked
            threshold = torch.tensor(iou, dtype=torch.float64, device=ranked.ious.device)
            hits = _array(true_positives(ranked, self._overlaps.scores, threshold))
            partners = np.where(hits, _array(ranked.best), -1)
            found = np.zeros(len(rows.gt_labels), np.bool_)
            found[partners[hits]] = True
            ious = np.where(hits, _array(ranked.ious), np.nan)
            self._matchings[iou] = Matching(rows, iou, hits, rows.kept & ~hits, partners, ious, found)
        return self._matchings[iou]

    def result_of(self, images: Ints) -> ResultData:
        """See :class:`valor_gpu.analysis.base.Analysis`."""
        return super().result_of(images) if self._result_of is None else self._result_of(images)

    def numbers_of(self, groups: Sequence[Ints]) -> Sequence[Mapping[str, float]]:
        """Computes the numbers of groups; those of arrays by class and thresholds, as ``f1/cat/iou 0.5/score 0.5``.

        Raises:
            InputError: the metric has no numbers.
        """
        values = [self.result_of(group).values for group in groups]
        if any("classes" not in each and all(map(is_array, each.values())) for each in values):
            raise self._without_slices()
        return [named_numbers(each) for each in values]


def named_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of a result of Valor's rules by name, without samples of curves and lists of examples.

    Args:
        values: of the result. An array is ``[C, I, S]``, ``[C, S]`` or ``[C]`` of classes, IoU and score thresholds, of
            a confusion matrix ``[I, S, C, C]`` or ``[I, S, C]``.

    Example:
        >>> import numpy as np
        >>> named_numbers({"tp": np.ones((1, 1)), "classes": np.array([7]), "score_thresholds": np.array([0.5])})
        {'tp/7/score 0.5': 1.0}
    """
    found = single_numbers(values)
    if "classes" not in values:
        return found
    axes = {
        "classes": [str(label) for label in values["classes"].tolist()],
        **{
            name: [f"{name.partition('_')[0]} {threshold:g}" for threshold in values[name].tolist()]
            for name in ("iou_thresholds", "score_thresholds")
            if name in values
        },
    }
    thresholds = [name for name in axes if name != "classes"]
    for name, array in leaves(values):
        if name in axes or name.endswith("/examples") or is_scalar(array):
            continue
        order = ["classes", *thresholds] if array.ndim > 1 else ["classes"]
        if name in _CONFUSIONS:
            order = [*thresholds, *["classes"] * (array.ndim - len(thresholds))]
        for parts, number in zip(product(*(axes[axis] for axis in order)), array.reshape(-1).tolist(), strict=True):
            found["/".join((name, *parts))] = float(number)
    return found


def result_of_images(metric: OverlapMetric, overlaps: Overlaps, ids: Sequence[int], images: Ints) -> Result:
    """Returns what a metric reports of some of its images.

    Args:
        metric: whose choices count; its state does not.
        overlaps: of all images that count.
        ids: of these images.
        images: ascending positions.
    """
    kept = torch.zeros(len(ids), dtype=torch.bool, device=overlaps.sizes.device)
    kept[torch.from_numpy(images).to(kept.device)] = True
    part = overlaps.take(datums=kept)
    first = part.sizes[1].cumsum(0) - part.sizes[1]
    of_rows = first.repeat_interleave(part.sizes[0], output_size=len(part.labels))
    places = part.ground_truths - of_rows.repeat_interleave(part.counts, output_size=len(part.ious))
    names = torch.tensor(list(ids), dtype=torch.int64, device=kept.device)[kept]
    state = OverlapRecords(
        part.labels, part.scores, part.counts.int(), places.int(), part.ious, part.gt_labels,
        torch.stack((torch.ones_like(names), names, *part.sizes), 1),
    )  # fmt: skip
    alone = copy.copy(metric)
    alone.reset()
    alone.sync_on_compute = False  # ranks need not ask for the same images
    alone._add(OverlapRecords(**{name: tensor.to(alone.error.device) for name, tensor in state.tensors().items()}))
    return alone.result()


def _array(tensor: torch.Tensor) -> Any:
    return tensor.cpu().numpy()
