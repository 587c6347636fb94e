"""Finds where the numbers of COCOeval leave those of pycocotools: the first stage, and the first cell of it.

    python tools/first_difference.py ground_truths.json results.json [bbox|segm|keypoints]

A subclass that overrides ``evaluateImg`` runs the plain Python of ``valor_gpu/coco/one_cell.py`` in place of the
kernels: where it agrees with pycocotools, the fault lies in the rows, flags or kernels, else in the parameters.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import numpy as np
from pycocotools import coco, cocoeval

from valor_gpu.coco import COCO, COCOeval


class ByCell(COCOeval):
    """Evaluates cell by cell, without kernels."""

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> Any:
        """See :class:`COCOeval`; that it is here is what counts."""
        return super().evaluateImg(imgId, catId, aRng, maxDet)


def finished(dataset: Any, evaluator: Any, files: tuple[str, str], kind: str) -> Any:
    """Returns an evaluator after ``summarize``."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = dataset(files[0])
        e = evaluator(truth, truth.loadRes(files[1]), kind)
        for step in (e.evaluate, e.accumulate, e.summarize):
            step()
    return e


def differences(theirs: Any, ours: Any) -> list[str]:
    """Returns a line for each stage that differs, in the order in which they run."""
    lines = []
    pairs = [pair for pair, values in theirs.ious.items() if not np.array_equal(values, ours.ious[pair])]
    if pairs:
        lines.append(f"ious: {len(pairs)} cells, first (image, category) {pairs[0]}")
    for mine, cell in zip(ours.evalImgs, theirs.evalImgs):
        wrong = [name for name in cell or () if mine is None or not np.array_equal(cell[name], mine[name])]
        if wrong:
            place = f"image {cell['image_id']}, category {cell['category_id']}, area range {cell['aRng']}"
            lines.append(f"evalImgs: first {place}: {', '.join(wrong)}")
            break
    arrays = [
        name for name in ("precision", "recall", "scores") if not np.array_equal(theirs.eval[name], ours.eval[name])
    ]
    lines += [f"eval: {', '.join(arrays)}"] if arrays else []
    numbers = np.flatnonzero(theirs.stats != ours.stats).tolist()
    return lines + ([f"stats: lines {numbers}"] if numbers else [])


def main(ground_truths: str, results: str, kind: str = "bbox") -> None:
    """Prints the stages that differ, of the kernels and of single cells."""
    files = ground_truths, results
    theirs = finished(coco.COCO, cocoeval.COCOeval, files, kind)
    for name, evaluator in (("kernels", COCOeval), ("cell by cell", ByCell)):
        found = differences(theirs, finished(COCO, evaluator, files, kind))
        print(f"{name}: {'; '.join(found) or 'equal to pycocotools to the last bit'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
