"""Panoptic quality: torchmetrics' values, numbers by hand, and what a result says of segments that do not count."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torchmetrics.detection import ModifiedPanopticQuality as PeerModified
from torchmetrics.detection import PanopticQuality as Peer

from testing.examples_panoptic import CATEGORIES, THINGS, batch_of
from tests.fuzz import seeds
from valor_gpu import functional
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.segmentation import ModifiedPanopticQuality, PanopticQuality

CHOICES: dict[str, Any] = {
    "things": list(CATEGORIES[:THINGS]),
    "stuffs": list(CATEGORIES[THINGS:]),
    "allow_unknown_preds_category": True,
}
FLOAT32 = 1e-7
"""torchmetrics rounds each IoU, which is at most 1, to float32."""


@pytest.mark.parametrize(("sq_and_rq", "per_class"), [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("seed", seeds(4))
def test_torchmetrics_panoptic_quality(seed: int, sq_and_rq: bool, per_class: bool) -> None:
    choices = dict(CHOICES, return_sq_and_rq=sq_and_rq, return_per_class=per_class)
    ours, theirs = PanopticQuality(**choices), Peer(**choices)
    for batch in range(3):
        preds, target = batch_of(10 * seed + batch, 2, 23, 30)
        ours.update(preds, target)
        theirs.update(preds, target)
    value, expected = ours.compute(), theirs.compute()
    assert value.dtype == expected.dtype and value.shape == expected.shape
    assert torch.allclose(value, expected, rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("seed", seeds(4))
def test_torchmetrics_modified_panoptic_quality(seed: int) -> None:
    ours, theirs = ModifiedPanopticQuality(**CHOICES), PeerModified(**CHOICES)
    for batch in range(3):
        preds, target = batch_of(10 * seed + batch, 2, 23, 30)
        assert torch.allclose(ours(preds, target), theirs(preds, target), rtol=0, atol=FLOAT32)
    assert torch.allclose(ours.compute(), theirs.compute(), rtol=0, atol=FLOAT32)


def test_points_without_rows_and_many_dimensions() -> None:
    preds, target = batch_of(3, 2, 12, 20)
    for shape in ((2, 240, 2), (2, 3, 4, 20, 2)):
        sides = preds.reshape(shape), target.reshape(shape)
        assert torch.allclose(PanopticQuality(**CHOICES)(*sides), Peer(**CHOICES)(*sides), rtol=0, atol=FLOAT32)


def test_by_hand() -> None:
    """Category 1: IoU 4/5 and a false positive, 0.8 / 1.5; category 2: a segment that is missed; category 3: none."""
    target = torch.tensor([[[1, 0]] * 4 + [[2, 9]] * 4 + [[7, 7]] * 2])
    preds = torch.tensor([[[1, 5]] * 5 + [[1, 6]] * 3 + [[1, 8]] * 2])
    metric = PanopticQuality([1], [2, 3], return_sq_and_rq=True, return_per_class=True)
    expected = torch.tensor([[0.8 / 1.5, 0.8, 1 / 1.5], [0, 0, 0], [0, 0, 0]], dtype=torch.float64)
    assert torch.allclose(metric(preds, target), expected, rtol=0, atol=1e-15)
    result = metric.result()
    assert result.values["pq"] == pytest.approx(0.4 / 1.5, abs=1e-15)
    assert result.values["sq"] == pytest.approx(0.4, abs=1e-15)
    assert result.values["pq_things"] == pytest.approx(0.8 / 1.5, abs=1e-15)
    assert [result.values[f"{name}_per_class"]["1"] for name in ("tp", "fp", "fn")] == [1, 1, 0]
    assert [result.values[f"{name}_per_class"]["2"] for name in ("tp", "fp", "fn")] == [0, 0, 1]
    assert math.isnan(result.values["sq_per_class"]["2"]) and result.values["pq_per_class"]["2"] == 0
    assert result.reason("sq_per_class/2") == "no segment of it matches; means take it as 0"
    assert result.reason("pq_per_class/3") == "no segment counts for it, true or predicted"
    assert dict(result.counts) == {
        "images": 1, "ground_truths": 2, "ignored_ground_truths": 0, "predictions": 3, "ignored_predictions": 1,
        "absent_classes": 1,
    }  # fmt: skip


def test_any_order_and_split_gives_the_same_bits() -> None:
    preds, target = batch_of(8, 12, 30, 40)
    whole = PanopticQuality(**CHOICES)(preds, target)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    parts = PanopticQuality(**CHOICES)
    for chosen in order.split(5):
        parts.update(preds[chosen], target[chosen])
    assert torch.equal(parts.compute(), whole)


def test_without_data_there_is_no_number() -> None:
    result = PanopticQuality([1], [2]).result()
    assert math.isnan(result.values["pq"]) and result.counts["absent_classes"] == 2
    assert result.reason("pq") == "no segment of any of its categories counts"
    preds = torch.full((1, 4, 2), 9)
    assert PanopticQuality([1], [2], True)(preds, preds).isnan()
    assert PanopticQuality([1], [2], True, return_per_class=True)(preds, preds).tolist() == [[0, 0]]


def test_modified_counts_stuff_once_an_image() -> None:
    preds, target = batch_of(2, 3, 20, 20)
    metric = ModifiedPanopticQuality(**CHOICES)
    metric.update(preds, target)
    values = metric.result().values
    for category in metric.stuffs:
        images = int((target[..., 0] == category).flatten(1).any(1).sum())
        assert values["tp_per_class"][str(category)] == images
        assert values["fp_per_class"][str(category)] == values["fn_per_class"][str(category)] == 0
    assert float(metric.compute()) == values["pq"]


def test_modified_ignores_no_segment_of_stuff() -> None:
    """A predicted segment of stuff is no false positive there, and yet not ignored; one of things in void is."""
    target = torch.tensor([[[2, 0], [2, 0], [7, 0]]])
    preds = torch.tensor([[[2, 0], [3, 0], [1, 4]]])
    metric = ModifiedPanopticQuality([1], [2, 3], allow_unknown_preds_category=True)
    metric.update(preds, target)
    assert dict(metric.result().counts) == {
        "images": 1, "ground_truths": 1, "ignored_ground_truths": 0, "predictions": 3, "ignored_predictions": 1,
        "absent_classes": 2,
    }  # fmt: skip


def test_an_unknown_category_is_an_error_and_leaves_the_metric_alone() -> None:
    metric = PanopticQuality([1], [2])
    target = torch.tensor([[[1, 0], [2, 0], [5, 0]]])
    metric.update(target.clamp(max=2), target)
    with pytest.raises(InputError, match=r"preds\[0, 2\] must have a category of 1, 2 but has 5: allow_unknown_preds"):
        metric.update(target, target)
    assert metric.update_count == 1 and metric.result().counts["images"] == 1


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (([1, 2], [2]), InputError, r"things and stuffs must have no category in common but both have \[2\]"),
        (([], []), InputError, "things or stuffs must have a category but both are empty"),
        (([1.0], []), InputTypeError, r"things must hold int categories but has 1\.0"),
        (([], [True]), InputTypeError, "stuffs must hold int categories but has True"),
        ((3, [1]), InputTypeError, "things must be Iterable but got int"),
        (([2**63], [1]), InputError, "categories must fit in int64 but got 9223372036854775808"),
        (([1], [2], 1), InputTypeError, "allow_unknown_preds_category must be bool but got int"),
        (([1], [2], False, None), InputTypeError, "return_sq_and_rq must be bool but got NoneType"),
    ],
)
def test_arguments(arguments: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        PanopticQuality(*arguments)


def test_a_category_given_twice_is_one() -> None:
    with pytest.warns(UserWarning, match=r"things must hold each category once: duplicates of \[1, 1\]"):
        assert PanopticQuality([1, 1], [2]).things == {1}


@pytest.mark.parametrize(
    ("row", "value", "said"),
    [(0, 9, "have no more matches than segments"), (1, 9, "have no more matches"), (6, 2**40, "be words of 32 bits"),
     (3, -1, "be from 0 to 1e")],
)  # fmt: skip
def test_states_from_elsewhere_are_checked(row: int, value: int, said: str) -> None:
    preds, target = batch_of(1, 1, 9, 9)
    metric = PanopticQuality(**CHOICES)
    metric.update(preds, target)
    state = {name: torch.as_tensor(tensor).clone() for name, tensor in metric.metric_state.items()}
    state["counts"][row, 1] = value
    with pytest.raises(InputError, match=rf"state field counts\[.*\] must {said}"):
        PanopticQuality(**CHOICES).merge_state(state)


def one_image() -> tuple[torch.Tensor, torch.Tensor]:
    """A thing of 18 x 10 pixels, found as 18 x 6, on stuff, in an image ``[18, 20, 2]``."""
    target = torch.zeros(18, 20, 2, dtype=torch.int64)
    target[..., 0] = 2
    preds = target.clone()
    target[:, :10] = torch.tensor([1, 5])
    preds[:, :6] = torch.tensor([1, 7])
    return preds, target


@pytest.mark.parametrize("kind", [PanopticQuality, ModifiedPanopticQuality])
def test_one_image_without_a_batch_is_warned_of(kind: Any) -> None:
    """Thing IoU 6 / 10, stuff IoU 10 / 14."""
    preds, target = one_image()
    with pytest.warns(
        UserWarning, match=r"^preds \[18, 20, 2\] are read as 18 images of 20 pixels in one dimension: one"
    ):
        kind([1], [2]).update(preds, target)
    assert float(kind([1], [2])(preds[None], target[None])) == pytest.approx((6 / 10 + 10 / 14) / 2)
    function = functional.panoptic_quality if kind is PanopticQuality else functional.modified_panoptic_quality
    with pytest.warns(UserWarning, match=r"needs preds\[None\] and target\[None\]"):
        function(preds, target, [1], [2])


@pytest.mark.parametrize("shape", [(18, 20, 1, 2), (1, 18, 20, 2), (2, 240, 2), (15, 15, 2), (16, 129, 2), (360, 1, 2)])
def test_batches_are_not_warned_of(shape: tuple[int, ...]) -> None:
    sides = torch.full(shape, 1), torch.full(shape, 1)
    assert float(PanopticQuality([1], [2])(*sides)) == 1
