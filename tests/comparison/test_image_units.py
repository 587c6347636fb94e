"""Two models of segmentation on the same images: the same draws for both, swaps of images, what tells images apart."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.contract_panoptic import panoptic_batch
from tests.segmentation.test_intervals import ALL, IMAGES, images, state_of, taken, updated
from tests.test_cli_image_intervals import counted, evaluation
from valor_gpu import segmentation
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.stats import compare
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.units import Pairing, pair_units

Batch = Any


def names(value: Any) -> str:
    return value if isinstance(value, str) else ""


def batches(name: str) -> tuple[Batch, Batch]:
    """Predictions of two models for the same images."""
    preds, target = images(name)
    generator = torch.Generator().manual_seed(2)
    other = (panoptic_batch(11, IMAGES) if "Panoptic" in name else images(name, 6))[0]
    chosen = torch.rand(preds.shape[:3], generator=generator) < 0.4
    mask = chosen[..., None].expand_as(preds) if preds.dim() == 4 else chosen
    return (preds, target), (torch.where(mask, other, preds), target)


def paired(first: Any, second: Any) -> Pairing:
    return pair_units(first.identities(), second.identities())


def check(numbers: Any, column: int, metric: Any) -> None:
    expected = dict(numbers_of(metric.result().values))
    for number, values in numbers.items():
        assert repr(float(values[column])) == repr(float(expected[number])), number


@pytest.mark.parametrize(("name", "choices"), ALL, ids=names)
def test_both_models_are_drawn_and_swapped_as_in_a_plain_loop(name: str, choices: dict[str, Any]) -> None:
    make, pair = partial(getattr(segmentation, name), **choices), batches(name)
    first, second = (state_of(updated(make, batch, [range(IMAGES)]).result()) for batch in pair)
    codes = paired(first, second).codes
    order = first.identities().arrival
    drawn = Draws(IMAGES, 3, seed=4).array()
    for state, own, batch in zip((first, second), codes, pair):
        found = state.replicates(Draws(IMAGES, 3, seed=4, clusters=own))
        times = np.empty((IMAGES, 3), np.int64)
        times[order if state is first else second.identities().arrival] = drawn[own]
        for column in range(3):
            places = np.repeat(np.arange(IMAGES), times[:, column]).tolist()
            check(found, column, updated(make, batch, [places]))
    joined = np.concatenate((codes[0], codes[1] + IMAGES))
    draws = Draws(2 * IMAGES, 4, seed=1, kind="swap", clusters=joined)
    found = first.swapping(second).replicates(draws)
    bits = np.empty((IMAGES, 4), np.int64)
    bits[order] = draws.array()[:IMAGES]
    assert len(found) and 0 < bits.mean() < 1
    for column in range(4):
        chosen = torch.from_numpy(bits[:, column] == 1).reshape(-1, *[1] * (pair[0][0].dim() - 1))
        check(found, column, updated(make, (torch.where(chosen, pair[0][0], pair[1][0]), pair[0][1]), [range(IMAGES)]))


def test_weights_of_one_draw_hit_the_same_images_of_both() -> None:
    """Equal images of a model may stand for each other, no others may."""
    (preds, target), (other, _) = batches("mIOU")
    preds, other, target = preds.clone(), other.clone(), target.clone()
    target[3:6], preds[3:6] = target[3].clone(), preds[3].clone()
    make = partial(segmentation.mIOU, num_classes=4, keep_images=True)
    whole = [updated(make, (side, target), [range(IMAGES)]) for side in (preds, other)]
    order = np.random.default_rng(3).permutation(IMAGES).tolist()
    moved = [updated(make, taken((side, target), order), [range(7), range(7, IMAGES)]) for side in (preds, other)]
    expected = compare(*whole, replicates=40)
    assert repr(compare(*moved, replicates=40).intervals) == repr(expected.intervals)
    assert not math.isnan(expected.intervals["difference/mIOU"].low)


@pytest.mark.parametrize(("name", "choices"), [ALL[0], ALL[10], ALL[-2]], ids=names)
def test_other_images_and_another_truth_are_errors(name: str, choices: dict[str, Any]) -> None:
    make, ((preds, target), (other, _)) = partial(getattr(segmentation, name), **choices), batches(name)
    first = updated(make, (preds, target), [range(IMAGES)])
    with pytest.raises(InputError, match="both sides must have the same images but 24 came to the first and 23 to the"):
        compare(first, updated(make, (other, target), [range(IMAGES - 1)]), replicates=4)
    changed = target.clone()
    changed[5] = changed[6]
    with pytest.raises(InputError, match=r"both sides must have the same ground truth but that of image 5 .*differs"):
        compare(first, updated(make, (other, changed), [range(IMAGES)]), replicates=4)


def test_images_with_names_are_paired_by_name() -> None:
    first = counted([*range(12)]).result({})
    second = counted([*range(11, -1, -1)]).result({})
    differences = dict(numbers_of(compare(first, second, replicates=20).values["difference"]))
    assert differences and all(each == 0 or math.isnan(each) for each in differences.values())
    with pytest.raises(InputError, match="1 of 12 are missing from the second, such as '11'"):
        compare(first, counted([*range(11)]).result({}), replicates=4)


def test_panoptic_images_are_paired_by_id() -> None:
    first, second = evaluation(6), evaluation(6)
    clusters = {image: place % 4 for place, image in enumerate(first.ground_truth.annotations)}
    found = compare(first.result(), second.result(), replicates=10, clusters=clusters)
    assert found.values["difference"]["pq"] == 0 and found.counts["clusters"] == 4
    lacking = {image: cluster for image, cluster in clusters.items() if image != (last := list(clusters)[-1])}
    with pytest.raises(InputError, match=f"clusters must name every one of the images but lack '{last}'"):
        compare(first.result(), second.result(), replicates=4, clusters=lacking)
