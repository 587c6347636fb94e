"""The rule of Open Images: the C++ kernel against the reference, over boxes and over stored pairs, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from testing.scenes import COCO_AREAS, random_scene
from tests.fuzz import seeds
from tests.ops.test_assign import assert_equals_reference
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    CHECK_SCORES,
    CROWD,
    FREE,
    GROUP,
    GROUP_OF,
    HASHED,
    IGNORED,
    UNMATCHED_IGNORED,
    WANT_MATCHES,
    MatchBatch,
    MatchRule,
    Pairs,
)
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.boxes.op import box_iou

EVERY = [[-np.inf, np.inf]]
FLAGS = (0, 0, 0, CROWD, CROWD | GROUP, CROWD | GROUP, IGNORED, CROWD | GROUP | IGNORED)
ALL = HASHED | CHECK_SCORES | WANT_MATCHES
RULES = {
    "one_setting": ([0.5], EVERY, [2**31 - 1], ALL),
    "unsorted_and_repeated": ([0.75, 0.5, 0.5, 0.3], COCO_AREAS, [1, 2, 3], ALL),
    "threshold_zero": ([0.0, 0.5], COCO_AREAS, [5], ALL),
    "threshold_one": ([1.0, 1.5], EVERY, [100], ALL),
    "many_settings": (np.linspace(0.1, 0.9, 37), COCO_AREAS, [1, 100], ALL),
    "agnostic": ([0.5, 0.25], EVERY, [100], ALL | AGNOSTIC),
    "plain": ([0.5], EVERY, [100], 0),
}


def rule(name: str) -> MatchRule:
    return MatchRule.make(*RULES[name], GROUP_OF)


def grouped_scene(seed: int, images: int = 6, most: int = 30) -> MatchBatch:
    """Boxes and scores from a few values, all flags of ground truths and of detections."""
    rng = np.random.default_rng([seed, 61])
    scene = random_scene(rng, images=images, classes=3, most=most)
    shrink = [(boxes / 40).round() * 40 for boxes in scene.boxes]
    gt_shrink = [(boxes / 40).round() * 40 for boxes in scene.gt_boxes]
    return scene.batch(
        boxes=[boxes.where(boxes > 0, 40.0) for boxes in shrink],
        gt_boxes=[boxes.where(boxes > 0, 40.0) for boxes in gt_shrink],
        scores=[(scores * 4).round() / 4 for scores in scene.scores],
        gt_flags=[torch.from_numpy(rng.choice(FLAGS, len(x))) for x in scene.gt_labels],
        flags=[
            torch.from_numpy(rng.choice([0, 0, 0, FREE, UNMATCHED_IGNORED], len(x)).astype(np.uint8))
            for x in scene.labels
        ],
    )


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", seeds(4))
def test_kernel_equals_reference(name: str, seed: int) -> None:
    assert_equals_reference(grouped_scene(seed, most=60 if seed else 25), rule(name))


def stored(batch: MatchBatch, choices: MatchRule, rooms: int = 2) -> MatchBatch:
    """The batch with its boxes as pairs; each detection has more room than it uses."""
    lowest, agnostic = min(choices.thresholds.tolist()), choices.options & AGNOSTIC
    offsets, counts, found = [0], [], []
    for boxes, gt_boxes, labels, gt_labels, flags in zip(
        batch.boxes, batch.gt_boxes, batch.labels, batch.gt_labels, batch.gt_flags
    ):
        ious = box_iou(boxes, gt_boxes, box_format="xywh", crowd=(flags & CROWD) != 0).tolist()
        for row, label in zip(ious, labels.tolist()):
            same = [g for g in range(len(row)) if agnostic or gt_labels[g] == label]
            pairs = sorted(((row[g], g) for g in same if row[g] >= lowest), reverse=True)
            found += [*pairs, *[(np.nan, -9)] * rooms]
            counts.append(len(pairs))
            offsets.append(len(found))
    table = Pairs(
        torch.tensor(offsets),
        torch.tensor(counts, dtype=torch.int32),
        torch.tensor([g for _, g in found], dtype=torch.int32),
        torch.tensor([s for s, _ in found], dtype=torch.float64),
    )
    areas, gt_areas = ([b[:, 2] * b[:, 3] for b in column] for column in (batch.boxes, batch.gt_boxes))
    hashes = ([torch.zeros(len(b), dtype=torch.int64) for b in column] for column in (batch.boxes, batch.gt_boxes))
    columns = dict(zip(("hashes", "gt_hashes"), hashes)) | {"boxes": [], "gt_boxes": []}
    return MatchBatch(**{**vars(batch), **columns, "areas": areas, "gt_own_areas": gt_areas, "pairs": table})


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", seeds(3))
def test_stored_pairs_equal_boxes(name: str, seed: int) -> None:
    batch, choices = grouped_scene(seed + 100), rule(name)
    pairs = assert_equals_reference(stored(batch, choices), choices)
    fused = assign(batch, choices)
    assert torch.equal(pairs.detections, fused.detections) and torch.equal(pairs.matches, fused.matches)
    assert torch.equal(pairs.ground_truths, fused.ground_truths)


def outcomes(
    boxes: list[list[int]], gts: list[tuple[list[int], int]], thresholds: list[float] | None = None
) -> list[str]:
    """T, F or I of detections by descending score, then the matches; one class, xyxy."""
    batch = MatchBatch(
        torch.tensor([[len(boxes)], [len(gts)]]),
        [torch.tensor(boxes, dtype=torch.float64)],
        [1 - torch.arange(len(boxes)) / 100],
        [torch.zeros(len(boxes), dtype=torch.int64)],
        gt_boxes=[torch.tensor([box for box, _ in gts], dtype=torch.float64)],
        gt_labels=[torch.zeros(len(gts), dtype=torch.int64)],
        gt_flags=[torch.tensor([flags for _, flags in gts])],
    )
    out = assign(batch, MatchRule.make(thresholds or [0.5], EVERY, [100], WANT_MATCHES, GROUP_OF))
    words = []
    for row, match in zip(out.detections.tolist(), out.matches[:, 0].tolist()):
        words.append(("I" if row[14] & 1 else "T" if row[13] & 1 else "F") + (str(match) if match >= 0 else ""))
    return words


A, B, ROUND = [0, 0, 10, 10], [0, 2, 10, 12], [0, 0, 40, 40]


def test_single_objects_first_and_no_second_choice() -> None:
    assert outcomes([A, A, B], [(A, 0), (B, 0)]) == ["T0", "F", "T1"]  # IoU of A and B: 2 / 3
    assert outcomes([A, A], [(A, 0), (A, 0)]) == ["T0", "F"]  # the earlier of equal ones, for both


def test_groups_take_what_is_left() -> None:
    group = CROWD | GROUP
    assert outcomes([A, A, A], [(ROUND, group), (A, 0)]) == ["T1", "T0", "I0"]
    assert outcomes([A, A, A], [(ROUND, CROWD), (A, 0)]) == ["T1", "I0", "I0"]
    assert outcomes([A, A], [(ROUND, group), (ROUND, group)]) == ["T0", "I0"]
    assert outcomes([A, [0, 0, 60, 40]], [(A, group)]) == ["T0", "F"]  # 100 / 2400 of the second lie in the group


def test_ignored_ground_truths_ignore_their_detections() -> None:
    assert outcomes([A, A], [(A, IGNORED)]) == ["I0", "I0"]
    assert outcomes([A, B], [(A, IGNORED), (B, 0)]) == ["I0", "T1"]
    assert outcomes([B, A], [(A, IGNORED), (B, 0)], [0.5]) == ["T1", "I0"]
    assert outcomes([A, A], [(A, CROWD | GROUP | IGNORED)]) == ["I0", "I0"]


def test_groups_that_count_are_ground_truths() -> None:
    batch = grouped_scene(7)
    out = assign(batch, rule("one_setting"))
    flags = torch.cat(list(batch.gt_flags))
    counts = ((flags & IGNORED) == 0) & ((flags & (CROWD | GROUP)) != CROWD)
    assert torch.equal((out.ground_truths[:, 4] & 1).bool(), counts)
    assert torch.equal((out.ground_truths[:, 4] >> 2 & 1).bool(), ~counts)


def test_unknown_kinds_are_errors() -> None:
    with pytest.raises(InputError, match="kind must be one of 0, 1 but got 2"):
        MatchRule.make([0.5], EVERY, [100], 0, 2)
