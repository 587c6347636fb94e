"""Masks and their boundaries against what faster-coco-eval finds in synthetic scenes."""

from __future__ import annotations

import numpy as np
import pytest

from testing.digests import digest
from testing.goldens import golden, real_masks
from testing.lvis_scenes import random_masks
from tests.coco.comparison import OURS, run
from tests.coco.test_keypoints import keypoint_evaluator

GOLDEN = golden("boundary_golden.npz")
ROUNDING = 2.3e-16
"""faster-coco-eval rounds precision in another order."""


def test_the_file_says_that_it_is_synthetic():
    assert "synthetic" in GOLDEN.about["note"] and "faster-coco-eval 1.8.0" in GOLDEN.about["note"]


@pytest.mark.parametrize("seed", range(12))
def test_random_scenes(seed):
    objects, about = random_masks(seed), GOLDEN.about["scenes"][str(seed)]
    assert digest(objects) == about["objects"], "not the scene that was evaluated"
    e = run(keypoint_evaluator(OURS, objects, "boundary")).e
    for name in ("precision", "recall"):
        theirs, ours = GOLDEN.arrays[f"{seed}_{name}"], e.eval[name]
        assert theirs.shape == ours.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(e.stats, about["stats"], rtol=0, atol=1e-14)


def test_real_masks():
    """9 crowds among 839 objects; the masks are those of the COCO API's examples."""
    about = GOLDEN.about["scenes"]["real"]
    assert digest(real_masks()) == about["objects"]
    e = run(keypoint_evaluator(OURS, real_masks(), "boundary")).e
    np.testing.assert_allclose(e.stats, about["stats"], rtol=0, atol=1e-14)
    assert round(float(e.stats[0]), 4) == 0.2264  # as masks 0.3195


def test_boundaries_decide_something():
    differences = []
    for seed in range(12):
        both = [run(keypoint_evaluator(OURS, random_masks(seed), kind)).e.stats[0] for kind in ("segm", "boundary")]
        differences.append(both[0] - both[1])
    assert min(differences) >= 0 and max(differences) > 0.05
