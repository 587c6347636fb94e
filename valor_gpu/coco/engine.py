"""Where an evaluation is computed: over numpy arrays on the CPU, else by the torch ops on a device.

Importing this loads no torch, nor does evaluating on the CPU with the C++ library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_device
from valor_gpu.ops.accumulate.cpu import count_ground_truths, order_records, precision_recall
from valor_gpu.ops.accumulate.types import AccumulateChoices, Curves, Ordered, RecordShape
from valor_gpu.ops.assign.cpu import NUMPY, assign
from valor_gpu.ops.assign.match_batch import MatchBatch, Matched, MatchRule
from valor_gpu.ops.boxes.cpu import box_iou
from valor_gpu.provenance import host_provenance

if TYPE_CHECKING:
    from valor_gpu.ops.keypoints.cpu import Keypoints
    from valor_gpu.ops.runs.op import Runs
    from valor_gpu.reduce.matched_tables import Truths
    from valor_gpu.stats.draws import Draws


class Engine(Protocol):
    """The steps of an evaluation. Rows and orders stay where the engine keeps them, all else is numpy arrays.

    Attributes:
        masks_at_once: about how many masks to read and pair at a time.
    """

    masks_at_once: ClassVar[int]

    def assign(self, batch: MatchBatch, rule: MatchRule) -> Matched:
        """Matches a batch of numpy arrays, one for all images in each column; raises InputError for a bad value."""
        ...

    def choose(self, rows: Any, chosen: NDArray[np.bool_]) -> Any:
        """The rows that are chosen, in order."""
        ...

    def order_records(
        self, detections: Any, starts: NDArray[np.int64], lengths: NDArray[np.int64], labels: NDArray[np.int64],
        limits: int,
    ) -> Ordered:  # fmt: skip
        """The order of detection rows by class and score, see :func:`valor_gpu.ops.accumulate.cpu.order_records`."""
        ...

    def count_ground_truths(self, ground_truths: Any, labels: NDArray[np.int64], areas: int) -> NDArray[np.int64]:
        """Ground truths that count, int64 ``[K, A]``."""
        ...

    def precision_recall(
        self, detections: Any, ordered: Ordered, positives: NDArray[np.int64], recalls: NDArray[np.float64],
        shape: RecordShape, full: bool,
    ) -> Curves:  # fmt: skip
        """Precision, recall and scores, see :func:`valor_gpu.ops.accumulate.cpu.precision_recall`."""
        ...

    def run_pairs(
        self, batch: MatchBatch, masks: Runs, gt_masks: Runs, lowest: float, boundaries: tuple[Runs, Runs] | None
    ) -> MatchBatch:
        """``batch`` with the pairs of masks, see :func:`valor_gpu.ops.run_pairs.cpu.run_pairs`."""
        ...

    def keypoint_pairs(self, batch: MatchBatch, keypoints: Keypoints, lowest: float) -> MatchBatch:
        """``batch`` with the pairs of keypoints, see :func:`valor_gpu.ops.keypoints.cpu.keypoint_pairs`."""
        ...

    def box_pairs(self, batch: MatchBatch, lowest: float) -> MatchBatch:
        """``batch`` with the pairs of upright boxes, see :func:`valor_gpu.ops.box_pairs.cpu.box_pairs`."""
        ...

    def rotated_pairs(self, batch: MatchBatch, lowest: float) -> tuple[MatchBatch, int]:
        """``batch`` with the pairs of rotated boxes, and an error code; see :mod:`valor_gpu.ops.rotated.cpu`."""
        ...

    def box_iou(
        self, boxes1: NDArray[np.float64], boxes2: NDArray[np.float64], crowd: NDArray[np.bool_],
        lengths: NDArray[np.int64],
    ) -> NDArray[np.float64]:  # fmt: skip
        """IoU of xywh boxes, the pairs of each segment one after another; lengths are ``[2, S]``."""
        ...

    def resampled(
        self, detections: Any, ground_truths: Any, images: NDArray[np.int64], choices: AccumulateChoices
    ) -> tuple[Callable[[Any], tuple[Any, Any, Any]], Truths]:
        """What gives the numbers of replicates, and the ground truths that count.

        See :func:`valor_gpu.ops.resampled_means.op.resampled_records` for the arguments.
        """
        ...

    def weights(self, draws: Draws) -> Any:
        """The weights of draws, uint8 ``[U, L]``, where the engine needs them."""
        ...

    def provenance(self) -> Mapping[str, Any]:
        """Where this engine computes and by which kernels, see :attr:`valor_gpu.result.Result.provenance`."""
        ...


class NumpyEngine:
    """numpy arrays and the C++ library."""

    masks_at_once: ClassVar[int] = 4096  # 4 MB of run lengths
    assign = staticmethod(assign)
    order_records = staticmethod(order_records)
    count_ground_truths = staticmethod(count_ground_truths)
    precision_recall = staticmethod(precision_recall)

    @staticmethod
    def choose(rows: Any, chosen: NDArray[np.bool_]) -> Any:
        """See :class:`Engine`."""
        return rows[chosen]

    @staticmethod
    def run_pairs(
        batch: MatchBatch, masks: Runs, gt_masks: Runs, lowest: float, boundaries: tuple[Runs, Runs] | None
    ) -> MatchBatch:
        """See :class:`Engine`."""
        from valor_gpu.ops.run_pairs.cpu import run_pairs

        return run_pairs(batch, masks, gt_masks, lowest, boundaries=boundaries, hashed=False)

    @staticmethod
    def keypoint_pairs(batch: MatchBatch, keypoints: Keypoints, lowest: float) -> MatchBatch:
        """See :class:`Engine`."""
        from valor_gpu.ops.keypoints.cpu import keypoint_pairs

        return keypoint_pairs(batch, *keypoints, lowest, hashed=False)

    @staticmethod
    def box_pairs(batch: MatchBatch, lowest: float) -> MatchBatch:
        """See :class:`Engine`."""
        from valor_gpu.ops.box_pairs.cpu import box_pairs

        return box_pairs(batch, lowest)

    @staticmethod
    def rotated_pairs(batch: MatchBatch, lowest: float) -> tuple[MatchBatch, int]:
        """See :class:`Engine`."""
        from valor_gpu.ops.pairs.cpu import stored
        from valor_gpu.ops.rotated.cpu import run

        found = run(batch, lowest, False, NUMPY)
        return stored(batch, found), found.error

    @staticmethod
    def box_iou(
        boxes1: NDArray[np.float64], boxes2: NDArray[np.float64], crowd: NDArray[np.bool_], lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See :class:`Engine`."""
        return box_iou(boxes1, boxes2, lengths=lengths, box_format="xywh", crowd=crowd)

    @staticmethod
    def resampled(
        detections: Any, ground_truths: Any, images: NDArray[np.int64], choices: AccumulateChoices
    ) -> tuple[Callable[[Any], tuple[Any, Any, Any]], Truths]:
        """See :class:`Engine`."""
        import torch

        from valor_gpu.reduce.resampled_tables import ordered_table

        rows, gt_rows, table = map(torch.from_numpy, (detections, ground_truths, images))
        found = ordered_table(rows, gt_rows, table, choices)
        return lambda weights: found.run(torch.from_numpy(weights)), found.truths

    @staticmethod
    def weights(draws: Draws) -> Any:
        """See :class:`Engine`."""
        return draws.array()

    @staticmethod
    def provenance() -> Mapping[str, Any]:
        """See :class:`Engine`."""
        return host_provenance()


def engine_on(device: Any = None) -> Engine:
    """The engine of a device. Without the C++ library torch serves the CPU, which a warning says once.

    Args:
        device: ``cpu`` (or None), ``cuda`` or ``cuda:N``, or a ``torch.device``.

    Raises:
        InputError: there is no such device.
        MissingPackageError: a device other than the CPU, or the CPU without the C++ library, and torch is not there.
    """
    if device is not None and str(device) != "cpu":
        usable = check_device(device)
        if usable.type != "cpu":
            from valor_gpu.coco.torch_engine import TorchEngine

            return TorchEngine(usable)
    if native.usable("valor_cpu"):
        return NumpyEngine()
    device = check_device("cpu")
    from valor_gpu.coco.torch_engine import TorchEngine

    return TorchEngine(device)
