"""Keypoints on every kernel: what the reference gives, bit by bit, and what matching makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from testing.examples_keypoints import defined, pair_arguments, pair_examples, rows, similarity_examples
from testing.parity import differences
from tests.native.sim import simulated
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library, keypoint_similarity
from valor_gpu.ops.assign.cpu import assign as assign_arrays
from valor_gpu.ops.assign.match_batch import HASHED, WANT_MATCHES, MatchBatch, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.error_codes import describe_box
from valor_gpu.ops.keypoints import cpu as _keypoints_cpu
from valor_gpu.ops.keypoints import op as keypoints
from valor_gpu.ops.keypoints.cpu import COCO_SIGMAS, Keypoints
from valor_gpu.ops.keypoints.op import keypoint_pairs

Op = Callable[..., Any]
_SIMILARITIES, _PAIRS = dict(similarity_examples(True)), dict(pair_examples(True))


@pytest.fixture(params=BACKENDS)
def similarity(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "keypoint_similarity", keypoints._similarity_on_cuda)


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "keypoint_pairs", keypoints._pairs_on_cuda)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["7 keypoints", "294 keypoints"])
def test_similarities_small(similarity: Op, name: str) -> None:
    given = _SIMILARITIES[name]
    assert not differences(similarity(*given), _library.reference("keypoint_similarity")(*given))


@pytest.mark.parametrize("name", sorted(set(_SIMILARITIES) - {"7 keypoints", "294 keypoints"}))
def test_similarities_are_the_reference(similarity: Op, name: str) -> None:
    given = _SIMILARITIES[name]
    assert not differences(similarity(*given), _library.reference("keypoint_similarity")(*given))


def check(op: Op, given: Any) -> Any:
    got, expected = defined(op(*given)), defined(_library.reference("keypoint_pairs")(*given))
    assert not differences(got, expected)
    return got


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["torch.float32", "padded"])
def test_pairs_small(op: Op, name: str) -> None:
    assert check(op, _PAIRS[name])[0].sum() > 0


@pytest.mark.parametrize("name", sorted(set(_PAIRS) - {"torch.float32", "padded"}))
def test_pairs_are_the_reference(op: Op, name: str) -> None:
    check(op, _PAIRS[name])


@pytest.mark.parametrize("spread", [0.3, 3.0, 40.0])
def test_a_pair_that_just_reaches_the_threshold_is_found(spread: float) -> None:
    rng = np.random.default_rng(int(spread * 10))
    gts = np.concatenate([rng.random((30, 17, 2)) * 100, rng.integers(0, 3, (30, 17, 1))], 2)
    points = gts[::-1] + rng.normal(0, spread, gts.shape)
    areas, labels = rng.random(30) * 4000, [np.zeros(30, int)]
    given = points, gts[::-1].copy(), None, areas, COCO_SIGMAS
    expected = _keypoints_cpu.keypoint_similarity(*given)
    batch = MatchBatch(np.array([[30], [30]]), [], [np.ones(30)], labels, gt_labels=labels)
    for lowest in np.sort(expected, axis=None)[::37]:
        pairs = _keypoints_cpu.keypoint_pairs(batch, *given, float(lowest), hashed=False).pairs
        assert pairs is not None
        assert sorted(pairs.similarities) == sorted(expected[expected >= lowest])


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kernel("simulated", "keypoint_pairs", keypoints._pairs_on_cuda)
    given = pair_arguments([(9, 40), (3, 0), (1, 5)], 8, lowest=0.0)
    expected = defined(run(*given))
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated()
    assert not differences(defined(run(*given)), expected)


@pytest.mark.parametrize("seed", SIM_SEEDS)
@pytest.mark.parametrize("name", ["7 keypoints", "294 keypoints"])
def test_the_order_of_lanes_changes_no_similarity(name: str, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    test_similarities_small(kernel("simulated", "keypoint_similarity", keypoints._similarity_on_cuda), name)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, np.nan, "preds[1]['keypoints'][1] must be finite"),
        (1, np.inf, "target[1]['keypoints'][1] must be finite"),
        (2, np.nan, "target[1]['boxes'][1] must be finite"),
        (3, 0.0, "target[1]['area'][1] must be finite and above 0"),
        (3, np.nan, "target[1]['area'][1] must be finite and above 0"),
        (7, 2, "target[1]['iscrowd'][1] must be 0 or 1"),
    ],
)
def test_the_first_bad_row_is_reported(op: Op, place: int, value: float, message: str) -> None:
    given = list(pair_arguments([(2, 3), (3, 2), (2, 2)], 3))
    column = given[place][0] if place == 7 else given[place]
    row = 3 if place == 0 else 4
    for bad in (row, row + 2):
        column[bad : bad + 1] = value
    assert describe_box(int(check(op, given)[-2])) == message


RULE = MatchRule.make([0.5, 0.75], [[0, 1e10], [0, 900], [900, 1e10]], [20], HASHED | WANT_MATCHES)


def batch_of(given: Any) -> tuple[MatchBatch, Keypoints]:
    labels, gt_labels, flags, lengths = given[5:9]
    scores = [torch.rand(len(labels[0]), generator=torch.Generator().manual_seed(1))]
    return MatchBatch(lengths, [], scores, labels, gt_labels=gt_labels, gt_flags=flags), Keypoints(*given[:5])


def test_ground_truths_without_visible_keypoints_are_ignored() -> None:
    batch, given = batch_of(pair_arguments([(9, 7), (4, 12)], 5))
    stored, _ = keypoint_pairs(batch, given, RULE)
    hidden = ~(given.gt_points[:, :, 2] > 0).any(1)
    assert hidden.any() and torch.equal(stored.gt_flags[0], batch.gt_flags[0] + 2 * hidden.to(torch.uint8))
    with pytest.raises(InputError, match=r"target\[0\]\['area'\]\[0\] must be finite and above 0"):
        keypoint_pairs(batch, given._replace(gt_areas=given.gt_areas * 0), RULE)


def test_numpy_arrays_give_what_tensors_give() -> None:
    batch, given = batch_of(pair_arguments([(9, 7), (4, 12)], 5))
    stored, _ = keypoint_pairs(batch, given, RULE)
    arrays = Keypoints._make(x.numpy() if isinstance(x, torch.Tensor) else x for x in given)
    named: dict[str, Any] = {name: [getattr(batch, name)[0].numpy()] for name in ("scores", "labels", "gt_labels")}
    named |= {"gt_flags": [stored.gt_flags[0].numpy()], "gt_areas": [arrays.gt_areas]}
    made = _keypoints_cpu.keypoint_pairs(MatchBatch(batch.lengths.numpy(), **named), *arrays, 0.5)
    for a, b in zip(assign_arrays(made, RULE)[:4], assign(stored, RULE)[:4]):
        assert np.array_equal(a, b.numpy())


def test_threads_change_nothing() -> None:
    given = pair_arguments([(40, 30)] * 40, 5, 0.1)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 4):
            torch.set_num_threads(threads)
            found.append(defined(torch.ops.valor_gpu.keypoint_pairs(*given)))
    finally:
        torch.set_num_threads(before)
    assert not differences(*found)


def test_opcheck() -> None:
    for name, given in (
        ("keypoint_pairs", pair_arguments([(3, 2)], 2)),
        ("keypoint_similarity", _SIMILARITIES["2 keypoints"]),
    ):
        op = getattr(torch.ops.valor_gpu, name).default
        torch.library.opcheck(op, given, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keypoints": rows(2, 3, 1).long()}, "keypoints must have dtype .* but got torch.int64"),
        ({"keypoints": rows(2, 4, 1)}, r"keypoints must have shape \[N, 3, 3\] but got \[2, 4, 3\]"),
        ({"gt_keypoints": rows(2, 3, 1) * np.nan}, r"gt_keypoints\[0\] must be finite"),
        ({"keypoints": rows(2, 3, 1) * np.nan}, r"^keypoints\[0\] must be finite"),
        ({"gt_areas": torch.tensor([1.0, -1])}, r"gt_areas\[1\] must be finite and at least 0"),
        ({"gt_areas": torch.ones(3)}, r"gt_areas must have shape \[2\] but got \[3\]"),
        ({"gt_boxes": torch.full((2, 4), np.inf)}, r"gt_boxes\[0\] must be finite"),
        ({"gt_boxes": [1]}, "gt_boxes must be Tensor but got list"),
        ({"sigmas": COCO_SIGMAS}, r"keypoints must have shape \[N, 17, 3\] but got \[2, 3, 3\]"),
        ({"gt_areas": torch.ones(2, device="meta")}, "gt_areas must be on cpu like keypoints but is on meta"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"keypoints": rows(2, 3, 1), "gt_keypoints": rows(2, 3, 2), "gt_areas": torch.ones(2)}
    with pytest.raises(InputError, match=message):
        keypoint_similarity(**{**given, "sigmas": [0.1, 0.2, 0.3], **change})
