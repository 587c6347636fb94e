"""Arguments of the ops that rank overlaps and pair them off, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from testing import examples_boxes
from testing.datasets import BoxDataset
from valor_gpu.ops.assign.match_batch import AGNOSTIC, MatchBatch, MatchRule
from valor_gpu.ops.box_pairs.op import box_pairs
from valor_gpu.ops.overlaps.op import Overlaps

Example = tuple[str, tuple[Any, ...]]
SIZES = [(0, 0), (1, 0), (0, 1), (1, 1), (5, 3), (0, 0), (31, 9), (33, 40), (7, 7), (0, 2)]


def random_overlaps(
    sizes: list[tuple[int, int]], seed: int = 0, labels: int = 3, share: float = 0.5, ties: int = 4
) -> Overlaps:
    """Pairs of datums of so many detections and ground truths; scores and IoUs take few values, some scores 0 or less.

    Args:
        sizes: detections and ground truths of each datum.
        seed: of the random numbers.
        labels: how many there are.
        share: of the pairs that overlap.
        ties: how many values of an IoU; scores have one more, which is 0, and some of them are negative.
    """
    rng = np.random.default_rng([seed, len(sizes)])
    table = np.array(sizes, np.int64).reshape(-1, 2).T
    rows, gts = (int(n) for n in table.sum(1))
    counts, ground_truths, ious, first = [], [], [], 0
    for detections, of_datum in sizes:
        for _ in range(detections):
            chosen = np.flatnonzero(rng.random(of_datum) < share)
            values = rng.integers(1, ties + 1, len(chosen)) / ties
            order = np.lexsort((-chosen, -values))
            counts.append(len(chosen))
            ground_truths.append(first + chosen[order])
            ious.append(values[order])
        first += of_datum
    scores = rng.integers(0, ties + 1, rows) / ties
    scores[rng.random(rows) < 0.1] *= -1  # -0.0 too, a tie with 0
    columns = (
        table, rng.integers(0, labels, rows), scores, rng.integers(0, labels, gts), np.array(counts, np.int64),
        np.concatenate([np.zeros(0, np.int64), *ground_truths]), np.concatenate([np.zeros(0), *ious]),
    )  # fmt: skip
    return Overlaps(*(torch.from_numpy(np.ascontiguousarray(column)) for column in columns))


def chain(length: int) -> Overlaps:
    """One datum in which every detection waits for the one before it, which takes what both like best."""
    gts = torch.stack((torch.arange(length), torch.arange(length) + 1), 1)
    gts[:, 0] = (gts[:, 0] - 1).clamp(min=0)
    gts[:, 1] -= 1
    ious = torch.tensor([0.9, 0.8], dtype=torch.float64).repeat(length)
    zeros = torch.zeros(length, dtype=torch.int64)
    scores = 1 - torch.arange(length, dtype=torch.float64) / (length + 1)
    gts[0] = torch.tensor([0, 0])
    counts = torch.full((length,), 2)
    return Overlaps(torch.tensor([[length], [length]]), zeros, scores, zeros, counts, gts.reshape(-1), ious)


def tables(quick: bool) -> Iterator[tuple[str, Overlaps]]:
    """Small overlaps in which every rule decides somewhere."""
    for seed in range(2 if quick else 6):
        yield f"ties {seed}", random_overlaps(SIZES, seed)
    yield "one label", random_overlaps(SIZES, 7, labels=1, ties=2)
    yield "many labels", random_overlaps(SIZES, 8, labels=1000, ties=50)
    yield "all pairs", random_overlaps(SIZES, 9, share=1.0)
    yield "no pair", random_overlaps(SIZES, 10, share=0.0)
    yield "no datum", random_overlaps([])
    yield "empty datums", random_overlaps([(0, 0)] * 40)
    yield "one datum", random_overlaps([(1000, 60)], 11, labels=5, share=0.2, ties=8)
    yield "a chain", chain(70)


def rank_examples(quick: bool) -> Iterator[Example]:
    """Arguments of ``rank_overlaps``."""
    for name, overlaps in tables(quick):
        for document in (False, True):
            yield f"{name}, {'document' if document else 'valor'}", (*overlaps.columns(), document)


def confuse_examples(quick: bool) -> Iterator[Example]:
    """Arguments of ``confuse_overlaps``."""
    thresholds = torch.tensor([0.25, 0.5, 0.75, 1.0, 0.3], dtype=torch.float64)
    for name, overlaps in tables(quick):
        for dissolve in (False, True):
            yield f"{name}, {'dissolved' if dissolve else 'kept'}", (*overlaps.columns(), thresholds, dissolve)
    yield "no threshold", (*random_overlaps(SIZES).columns(), thresholds[:0], False)


def scene_overlaps(scene: BoxDataset) -> Overlaps:
    """Every pair of boxes of the scene that overlap."""
    boxes, labels, gt_boxes, gt_labels, *_ = arguments = examples_boxes.load(scene)
    scores = torch.rand(len(labels[0]), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    lengths, lowest = arguments[5], arguments[10]
    batch = MatchBatch(lengths, boxes, [scores], labels, gt_boxes=gt_boxes, gt_labels=gt_labels)
    pairs = box_pairs(batch, MatchRule.make([lowest], [[0, 1e10]], [1], AGNOSTIC))[0].pairs
    assert pairs is not None
    counts = pairs.counts.long()
    first_gts = (lengths[1].cumsum(0) - lengths[1]).repeat_interleave(lengths[0]).repeat_interleave(counts)
    return Overlaps(
        lengths, labels[0].long(), scores, gt_labels[0].long(), counts, first_gts + pairs.ground_truths,
        pairs.similarities,
    )  # fmt: skip


def rank_load(scene: BoxDataset) -> tuple[Any, ...]:
    """All detections of the scene."""
    return *scene_overlaps(scene).columns(), False


def confuse_load(scene: BoxDataset) -> tuple[Any, ...]:
    """All detections of the scene at ten thresholds."""
    return *scene_overlaps(scene).columns(), torch.arange(10, 20, dtype=torch.float64) / 20, False
