"""label_counts: labels and row counts, against the reference and against what the rows were made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from testing.scenes import COCO_AREAS, random_scene
from valor_gpu.ops._library import reference
from valor_gpu.ops.accumulate.op import label_counts
from valor_gpu.ops.assign.match_batch import MatchRule
from valor_gpu.ops.assign.op import assign


def _tables(
    labels: list[int], padding: list[bool], ground_truths: list[tuple[int, int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Detection rows of one setting, and ground-truth rows of one area range with these bits."""
    rows = torch.zeros((len(labels), 15), dtype=torch.uint8)
    rows[:, 8:12] = torch.tensor(labels, dtype=torch.int32).view(torch.uint8).reshape(-1, 4)
    rows[torch.tensor(padding, dtype=torch.bool), 12] = 255
    true = torch.zeros((len(ground_truths), 5), dtype=torch.uint8)
    true[:, :4] = torch.tensor([t[0] for t in ground_truths], dtype=torch.int32).view(torch.uint8).reshape(-1, 4)
    true[:, 4] = torch.tensor([t[1] for t in ground_truths], dtype=torch.uint8)
    return rows, true


CASES = {
    "empty": ([], [], []),
    "padding_is_left_out": ([7, 8, 7], [False, True, False], [(9, 0b000), (3, 0b010), (7, 0b111)]),
    "labels_of_any_size": ([-(2**31), 2**31 - 1, 65535, 65536, -1, 0], [False] * 6, [(-1, 0b010), (5, 0b110)]),
    "many_labels": (list(range(-3000, 6000)), [False] * 9000, [(70_000 + i, 0b011) for i in range(50)]),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_equals_reference(name: str) -> None:
    rows, true = _tables(*CASES[name])
    ours, theirs = label_counts(rows, true, 1), reference("label_counts")(rows, true, 1)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs))


def test_what_is_counted() -> None:
    rows, true = _tables(*CASES["padding_is_left_out"])
    labels, totals = label_counts(rows, true, 1)
    assert labels.tolist() == [3, 7] and totals.tolist() == [2, 2, 1]


def test_matched_scene() -> None:
    scene = random_scene(np.random.default_rng(2), images=40)
    matched = assign(scene.batch(), MatchRule.make([0.5], COCO_AREAS, [2]))
    labels, totals = label_counts(matched.detections, matched.ground_truths, len(COCO_AREAS))
    assert labels.tolist() == torch.unique(torch.cat([*scene.labels, *scene.gt_labels])).tolist()
    crowds = int(torch.cat(scene.crowds).sum())
    assert totals.tolist() == [sum(map(len, scene.labels)), sum(map(len, scene.gt_labels)), crowds]


def test_opcheck() -> None:
    torch.library.opcheck(torch.ops.valor_gpu.label_counts.default, (*_tables(*CASES["padding_is_left_out"]), 1))
