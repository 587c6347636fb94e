"""Keypoints: similarities and pairs against pycocotools and the reference, on every kernel."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from testing.oracles import pycocotools
from tests.fuzz import seeds
from tests.numpy_sums import needs_recorded_order
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.keypoints.cpu import COCO_SIGMAS, keypoint_pairs, keypoint_similarity

Floats = NDArray[np.float64]


def rounded_exp(values: Floats) -> Floats:
    """The exponential of each value, correctly rounded; 0 below -708."""
    with localcontext() as context:
        context.prec = 40
        return np.array([float(Decimal(v).exp()) if v >= -708 else 0.0 for v in values.tolist()])


def people(rng: np.random.Generator, number: int, keypoints: int) -> tuple[Floats, Floats, Floats]:
    """Keypoints, boxes and areas of people near one another; some without visible keypoints."""
    middle = rng.random((number, 1, 2)) * 60
    points = np.round(middle + rng.normal(0, 8, (number, keypoints, 2)), rng.integers(0, 3))
    seen = rng.integers(0, 3, (number, keypoints, 1)) * (rng.random((number, 1, 1)) < 0.8)
    low, high = points.min(1), points.max(1)
    boxes = np.concatenate((low, high - low), 1)
    areas = boxes[:, 2] * boxes[:, 3] * rng.uniform(0.3, 1, number) * (rng.random(number) > 0.05)
    return np.concatenate((points, seen), 2), boxes, areas


def oracle(points: Floats, gt_points: Floats, boxes: Floats, areas: Floats, sigmas: Floats) -> Floats:
    """computeOks of one image and category."""
    evaluation = pycocotools("cocoeval").COCOeval(iouType="keypoints")
    evaluation.params.kpt_oks_sigmas, evaluation.params.maxDets = sigmas, [len(points)]
    rows = zip(gt_points.reshape(len(gt_points), -1).tolist(), boxes.tolist(), areas.tolist())
    evaluation._gts = {(1, 1): [{"keypoints": k, "bbox": b, "area": a} for k, b, a in rows]}
    evaluation._dts = {(1, 1): [{"keypoints": k, "score": 1.0} for k in points.reshape(len(points), -1).tolist()]}
    return np.asarray(evaluation.computeOks(1, 1)).reshape(len(points), len(gt_points))


class _Numpy:
    """numpy with an exponential that is correctly rounded."""

    exp = staticmethod(rounded_exp)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("keypoints", [1, 7, 8, 17, 133, 240, 241, 294, 478, 1000])
def test_similarities_are_those_of_pycocotools(keypoints: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit but for the exponential, which in numpy depends on the processor."""
    rng = np.random.default_rng([keypoints, seed])
    sigmas = np.array(COCO_SIGMAS) if keypoints == 17 else rng.uniform(0.01, 0.2, keypoints)
    gts, boxes, areas = people(rng, 6, keypoints)
    points = people(rng, 5, keypoints)[0]
    points[0], points[1] = gts[0], gts[1] + 0.25
    got = keypoint_similarity(points, gts, boxes, areas, sigmas.tolist())
    given = (points, gts, boxes, areas, sigmas)
    np.testing.assert_array_max_ulp(np.maximum(got, 1e-300), np.maximum(oracle(*given), 1e-300), 4)
    monkeypatch.setattr(pycocotools("cocoeval"), "np", _Numpy())
    assert np.array_equal(got, oracle(*given))


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((*range(1, 1200), 2047, 2048, 2049, 4096, 5000), id="few"),
        pytest.param((9_999, 65_536, 70_001), id="many", marks=needs_recorded_order),
    ],
)
def test_any_number_of_keypoints_is_summed_in_the_order_of_numpy(counts: tuple[int, ...]) -> None:
    """Against numpy's sum of the terms: those are the similarities of rows with one keypoint each."""
    most = max(counts)
    points = np.random.default_rng(7).normal(0, 30, (most, 3))
    gt, area, sigma = np.array([[[0.0, 0.0, 1.0]]]), np.array([4000.0]), 0.3
    terms = keypoint_similarity(points[:, None], gt, None, area, [sigma])[:, 0]
    assert 0 < terms.min() < terms.max() < 1
    for n in counts:
        got = keypoint_similarity(points[None, :n], gt.repeat(n, 1), None, area, [sigma] * n)
        assert got.item() == terms[:n].sum() / n, n


def test_the_exponential_is_correctly_rounded() -> None:
    """By a keypoint whose distance is the square root of what is wanted."""
    rng = np.random.default_rng(1)
    distances = np.concatenate((rng.random(3000) * 4, 10 ** rng.uniform(-9, 1.6, 3000), [0.0, 37.6, 38.0, 1e200]))
    points = np.zeros((len(distances), 1, 3))
    points[:, 0, 0] = distances
    got = keypoint_similarity(points, np.array([[[0.0, 0, 1]]]), None, np.array([1 - 2.0**-52]), [0.5])
    with np.errstate(over="ignore"):
        assert np.array_equal(got[:, 0], rounded_exp(-(distances * distances / 2)))


def test_pairs_are_the_similarities_that_reach_the_threshold() -> None:
    rng = np.random.default_rng(3)
    lengths = np.array([[3, 0, 9], [2, 4, 7]])
    gts, boxes, areas = people(rng, 13, 5)
    points = np.concatenate((gts[6:], people(rng, 5, 5)[0]))[:12]
    labels, gt_labels, sigmas = rng.integers(0, 2, 12), rng.integers(0, 2, 13), [0.3, 0.4, 0.2, 0.9, 0.5]
    batch = MatchBatch(lengths, [], [rng.random(12)], [labels], gt_labels=[gt_labels])
    whole = keypoint_similarity(points, gts, boxes, areas, sigmas)
    for lowest, agnostic in ((0.3, False), (0.3, True), (0.0, False)):
        found = keypoint_pairs(batch, points, gts, boxes, areas, sigmas, lowest, agnostic)
        assert found.pairs is not None
        for row in range(12):
            image = 0 if row < 3 else 2
            first = int(lengths[1, :image].sum())
            end = first + lengths[1, image]
            rows = [j for j in range(first, end) if agnostic or labels[row] == gt_labels[j]]
            expected = sorted(((whole[row, j], j - first) for j in rows if whole[row, j] >= lowest), reverse=True)
            at, count = found.pairs.offsets[row], found.pairs.counts[row]
            got = zip(found.pairs.similarities[at : at + count], found.pairs.ground_truths[at : at + count])
            assert list(got) == expected
        assert found.pairs.counts.sum() > 5
    low, high = points[:, :, :2].min(1), points[:, :, :2].max(1)
    assert np.array_equal(found.areas[0], (high - low).prod(1)) and np.array_equal(found.gt_own_areas[0], areas)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keypoints": np.full((1, 2, 3), np.inf)}, r"preds\[0\]\['keypoints'\]\[0\] must be finite"),
        ({"gt_keypoints": np.full((1, 2, 3), np.nan)}, r"target\[0\]\['keypoints'\]\[0\] must be finite"),
        ({"gt_boxes": np.full((1, 4), np.inf)}, r"target\[0\]\['boxes'\]\[0\] must be finite"),
        ({"gt_areas": np.array([-1.0])}, r"target\[0\]\['area'\]\[0\] must be finite and at least 0"),
        ({"gt_areas": np.array([np.inf])}, r"target\[0\]\['area'\]\[0\] must be finite and at least 0"),
        ({"gt_areas": np.array([1])}, "gt_areas must be float64 but is int64"),
        ({"keypoints": np.ones((1, 3, 3))}, r"keypoints must have shape \[1, 2, 3\] but has \[1, 3, 3\]"),
        ({"gt_boxes": np.ones((1, 5))}, r"gt_boxes must have shape \[1, 4\] but has \[1, 5\]"),
        ({"sigmas": []}, "sigmas must be one number for each keypoint, at least one, but got none"),
        ({"sigmas": [0.1] * 241}, r"keypoints must have shape \[1, 241, 3\] but has \[1, 2, 3\]"),
        ({"sigmas": [0.1, 0.0]}, r"sigmas must be above 0 and finite but got 0.0 at index 1"),
        ({"sigmas": [0.1] * 300 + [float("nan")]}, r"sigmas must be above 0 and finite but got nan at index 300"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    rows = np.ones((1, 2, 3))
    given: dict[str, Any] = {
        "keypoints": rows,
        "gt_keypoints": rows,
        "gt_boxes": np.ones((1, 4)),
        "gt_areas": np.ones(1),
        "sigmas": [1, 2],
    }
    batch = MatchBatch(np.array([[1], [1]]), [], [np.ones(1)], [np.zeros(1, int)], gt_labels=[np.zeros(1, int)])
    keypoint_pairs(batch, **given, lowest=0.5)
    with pytest.raises(InputError, match=message):
        keypoint_similarity(**{**given, **change})
    with pytest.raises(InputError, match=message):
        given |= change
        keypoint_pairs(batch, **given, lowest=0.5)
