"""Writes the areas that shapely finds: ``python -m tests.ops.rotated_golden``."""

from __future__ import annotations

import gzip
import json

import torch

from testing.examples_rotated import corners
from tests.ops import test_rotated as cases

if __name__ == "__main__":
    torch.manual_seed(0)
    first, second = cases.difficult_rows(0)
    quads = cases.convex_rows(12, 0), cases.convex_rows(12, 1)
    found = [
        (first[::2], second[::5], cases.shapely_areas(corners(first[::2]), corners(second[::5]))),
        (*quads, cases.shapely_areas(*quads)),
    ]
    rows = [{"first": a.tolist(), "second": b.tolist(), "shared": c.tolist()} for a, b, c in found]
    cases.GOLDEN.write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))
