"""Matching of stored pairs at one threshold, against a plain loop of COCO's rule."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import seeds
from valor_gpu.analysis.matching import match_rows
from valor_gpu.analysis.rows import CROWD, IGNORED, Matching, Pairs, Rows


def _table(rng: np.random.Generator) -> tuple[Rows, Pairs]:
    """Random rows of three images, and every pair of an image that overlaps."""
    lengths = rng.integers(0, 6, (2, 3))
    found, truths = lengths.sum(1)
    gt_flags = rng.choice(np.array([0, 0, 0, CROWD, IGNORED], np.uint8), truths)
    rows = Rows(
        [7, 8, 9], ["cat", "dog"], lengths, rng.integers(1, 4, found) / 4, rng.integers(0, 2, found),
        rng.random(found) < 0.8, rng.random(found) < 0.2, rng.integers(0, 2, truths), gt_flags,
    )  # fmt: skip
    counts, partners, ious = [], [], []
    for row in range(found):
        own = np.flatnonzero(rows.gt_images == rows.images[row])
        values = rng.integers(0, 9, len(own)) / 8
        order = np.lexsort((-own, -values))
        order = order[values[order] > 0]
        counts.append(len(order))
        partners += own[order].tolist()
        ious += values[order].tolist()
    return rows, Pairs(0.0, np.array(counts, np.int64), np.array(partners, np.int64), np.array(ious))


def _by_loop(rows: Rows, pairs: Pairs, iou: float) -> tuple[list[bool], list[bool], list[int]]:
    """Hits, false positives and partners, detection after detection by score."""
    taken: set[int] = set()
    found: dict[int, int] = {}
    for row in np.argsort(-rows.scores, kind="stable").tolist():
        if not rows.kept[row]:
            continue
        best, best_key = -1, (False, iou)
        for place in np.flatnonzero(pairs.detections == row).tolist():
            truth, value = int(pairs.ground_truths[place]), float(pairs.ious[place])
            crowd = bool(rows.gt_flags[truth] & CROWD)
            counts = rows.gt_flags[truth] == 0
            if rows.gt_labels[truth] != rows.labels[row] or (truth in taken and not crowd) or value < iou:
                continue
            key = (bool(counts), value)
            if best < 0 or key > best_key or (key == best_key and truth > best):
                best, best_key = truth, key
        if best >= 0:
            taken.add(best)
            found[row] = best
    hits = [row in found and rows.gt_flags[found[row]] == 0 for row in range(len(rows.labels))]
    ignored = [
        rows.gt_flags[found[row]] != 0 if row in found else bool(rows.unmatched_ignored[row])
        for row in range(len(rows.labels))
    ]
    wrong = [bool(kept) and not hit and not left for kept, hit, left in zip(rows.kept, hits, ignored)]
    return hits, wrong, [found[row] if hit else -1 for row, hit in enumerate(hits)]


def _assert_is(matching: Matching, rows: Rows, pairs: Pairs, iou: float) -> None:
    hits, wrong, partners = _by_loop(rows, pairs, iou)
    assert matching.hits.tolist() == hits
    assert matching.false_positives.tolist() == wrong
    assert matching.partners is not None and matching.partners.tolist() == partners
    assert matching.found is not None and np.flatnonzero(matching.found).tolist() == sorted(set(partners) - {-1})
    values = dict(zip(zip(pairs.detections.tolist(), pairs.ground_truths.tolist()), pairs.ious.tolist()))
    expected = [values[row, partner] if partner >= 0 else np.nan for row, partner in enumerate(partners)]
    np.testing.assert_array_equal(matching.ious, expected)
    assert matching.positives.tolist() == np.bincount(rows.gt_labels[rows.gt_flags == 0], minlength=2).tolist()


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("iou", [0.125, 0.5, 0.75, 1.0])
def test_matching_is_that_of_a_plain_loop(seed: int, iou: float) -> None:
    rows, pairs = _table(np.random.default_rng(seed))
    _assert_is(match_rows(rows, pairs, iou), rows, pairs, iou)


@pytest.mark.parametrize("seed", seeds(10))
def test_torch_matches_likewise(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.native.usable", lambda name: False)
    rows, pairs = _table(np.random.default_rng(seed))
    _assert_is(match_rows(rows, pairs, 0.5), rows, pairs, 0.5)


def test_no_rows_at_all() -> None:
    none = np.zeros(0, np.int64)
    rows = Rows([], [], np.zeros((2, 0), np.int64), none * 1.0, none, none > 0, none > 0, none, none.astype(np.uint8))
    matching = match_rows(rows, Pairs(0.0, none, none, none * 1.0), 0.5)
    assert len(matching.hits) == 0 and len(matching.positives) == 0
