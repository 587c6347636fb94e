"""The IoU of quadrilaterals by lanes of a warp, where polygons have more corners than lanes have room for."""

from __future__ import annotations

import ctypes

import numpy as np
import torch

from tests.native.test_simulator import call, seed
from valor_gpu import native
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.rotated import op as rotated

__all__ = ["seed"]  # a fixture

PAIRS = 150


def test_polygons_with_more_corners_than_usual_follow_one_after_another(seed: str) -> None:
    """Room for 5 corners takes the place of that for 9, which no known pair exceeds: most of these have up to 8."""
    rng = np.random.default_rng(7)
    columns = [
        rng.uniform(0, 6, (2, PAIRS, 2)),
        rng.uniform(2, 9, (2, PAIRS, 2)),
        rng.choice([0, 15, 70], (2, PAIRS, 1)),
    ]
    boxes = torch.from_numpy(np.concatenate(columns, 2))
    crowd, code, error = (
        torch.arange(PAIRS) % 5 == 0,
        rotated.format_code("cxcywha", "degrees", "counterclockwise"),
        torch.tensor(NO_ERROR),
    )
    expected = torch.ops.valor_gpu.rotated_iou(boxes[0], boxes[1], crowd, code)[0].diagonal()
    load = native.function("valor_cpu", "valor_load_quads_cpu")
    sides = rotated._loaded(boxes[0], boxes[1], code, error, lambda words, rows: load(words, error.data_ptr(), 1))
    out = np.zeros(PAIRS)
    assert call("probe_lane_iou", *(ctypes.c_void_p(side.rows.data_ptr()) for side in sides), out, PAIRS) == (0, "")
    assert int((expected > 0).sum()) > 100 and out.tolist() == expected.tolist()
