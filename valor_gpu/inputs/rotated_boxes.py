"""Detections and ground truths with rotated boxes as users hold them, to one :class:`MatchBatch`."""

from __future__ import annotations

from typing import Any

import torch

from valor_gpu.inputs.box_columns import BoxLayout
from valor_gpu.inputs.boxes import read_batch
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.rotated.cpu import CORNERS, DEGREES, columns_of

_OWN = {8: {"xyxyxyxy": CORNERS}, 5: {"cxcywhr": DEGREES}}


def rotated_batch(preds: Any, target: Any, code: int) -> MatchBatch:
    """Reads a batch as :func:`valor_gpu.inputs.boxes.detection_batch` does, with boxes of 5 or 8 numbers.

    A tv_tensor in format ``CXCYWHR`` is read in degrees and counterclockwise, whatever plain tensors are in. Rows of
    padding are left out on the CPU.

    Args:
        preds: the detections.
        target: the ground truths.
        code: the quad format of plain tensors, see :func:`valor_gpu.ops.rotated.op.checked_format`.

    Raises:
        InputError: naming the image and key, what is needed and what came.
    """
    width = columns_of(code)
    return read_batch(preds, target, BoxLayout(width, code, _OWN[width])).without_gaps(torch.from_numpy)
