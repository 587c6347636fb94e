"""Intervals of metrics of images: replicates are the numbers of images that are there as often as they were drawn."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.contract_panoptic import PANOPTIC, panoptic_batch
from tests.contract_regions import maps_batch
from tests.ddp import run_ranks
from valor_gpu import segmentation
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.segmentation.resampled_images import KEEP_IMAGES, ResampledImages, Weights
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.draws import Draws

IMAGES, CLASSES = 24, 4
Batch = tuple[Tensor, Tensor]
_INDEX: dict[str, Any] = dict(num_classes=CLASSES, input_format="index")
_KEEP: dict[str, Any] = dict(num_classes=CLASSES, keep_images=True)
_MEANS: dict[str, Any] = dict(num_classes=CLASSES, aggregation_level="samplewise")

REGIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mIOU", _KEEP),
    ("IOU", dict(_KEEP, include_background=False, ignore_index=1)),
    ("PixelF1", dict(_KEEP, average="weighted")),
    ("PixelAccuracy", dict(_KEEP, average="micro")),
    ("PixelPrecision", dict(_MEANS, zero_division=math.nan)),
    ("PixelRecall", dict(_MEANS, average="none")),
    ("DiceScore", dict(_INDEX, aggregation_level="global", keep_images=True)),
    ("DiceScore", dict(_INDEX, include_background=False)),
    ("GeneralizedDiceScore", _INDEX),
    ("MeanIoU", _INDEX),
    ("MeanIoU", dict(_INDEX, include_background=False)),
    *(("PixelConfusionMatrix", dict(_KEEP, normalize=by)) for by in ("none", "true", "pred", "all", "iou")),
    ("SurfaceDistance", dict(num_classes=CLASSES)),
    ("SurfaceDistance", dict(num_classes=CLASSES, statistic="percentile", average="micro")),
    ("BoundaryF1", dict(num_classes=CLASSES, average="none")),
)
SEGMENTS = tuple((name, dict(PANOPTIC, keep_images=True)) for name in ("PanopticQuality", "ModifiedPanopticQuality"))
ALL = (*REGIONS, *SEGMENTS)


def images(name: str, seed: int = 5) -> Batch:
    """Images of which half lack a class that others have."""
    if "Panoptic" in name:
        return panoptic_batch(seed, IMAGES)
    preds, target = maps_batch(seed, IMAGES)
    target[::2][target[::2] == 3] = 0
    return preds, target


def taken(batch: Batch, places: Sequence[int]) -> Batch:
    index = torch.tensor(places, dtype=torch.int64)
    return batch[0][index], batch[1][index]


def updated(make: Callable[[], Any], batch: Batch, parts: Sequence[Sequence[int]]) -> Any:
    metric = make()
    for part in parts:
        metric.update(*taken(batch, part))
    return metric


def state_of(result: Any) -> ResampledImages:
    found: ResampledImages = vars(result)["_state"]()
    return found


def ids(value: Any) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("name", "choices"), ALL, ids=ids)
@pytest.mark.parametrize("kind", ["multinomial", "half"])
def test_replicates_have_the_bits_of_repeated_images(name: str, choices: dict[str, Any], kind: str) -> None:
    make, batch = partial(getattr(segmentation, name), **choices), images(name)
    state = state_of(updated(make, batch, [range(IMAGES)]).result())
    draws = Draws(IMAGES, 6, seed=3, kind=kind)
    weights, found = draws.array(), state.replicates(draws)
    assert len(found) > CLASSES - 2
    for column in range(draws.count):
        places = np.repeat(state._order, weights[:, column]).tolist()
        expected = dict(numbers_of(updated(make, batch, [places]).result().values))
        for number, values in found.items():
            assert repr(float(values[column])) == repr(expected[number]), number


@pytest.mark.parametrize(("name", "choices"), ALL, ids=ids)
def test_order_split_and_merge_change_no_bit(name: str, choices: dict[str, Any]) -> None:
    make, batch = partial(getattr(segmentation, name), **choices), images(name)
    whole = updated(make, batch, [range(IMAGES)])
    split = updated(make, batch, [range(20, IMAGES), [], [3, 1, 2, 0], range(19, 3, -1)])
    merged, other = updated(make, batch, [range(9, IMAGES)]), updated(make, batch, [range(9)])
    merged.merge_state(other)
    read = make().from_bytes(merged.to_bytes())
    expected = whole.result(intervals=20).intervals
    assert any(not math.isnan(each.low) for each in expected.values())
    for metric in (split, merged, read, pickle.loads(pickle.dumps(split))):
        assert repr(metric.result(intervals=20).intervals) == repr(expected)
    assert repr(whole.result().with_intervals(20).intervals) == repr(expected)
    assert repr(whole.result(intervals=Bootstrap(20, seed=1)).intervals) != repr(expected)


@pytest.mark.parametrize(("name", "choices"), ALL, ids=ids)
def test_a_result_keeps_what_it_came_from(name: str, choices: dict[str, Any]) -> None:
    make, batch = partial(getattr(segmentation, name), **choices), images(name)
    metric = updated(make, batch, [range(9), range(9, IMAGES)])
    result, expected = metric.result(), metric.result(intervals=6).intervals
    metric.update(*batch)
    assert repr(metric.result(intervals=6).intervals) != repr(expected)
    metric.reset()
    assert repr(result.with_intervals(6).intervals) == repr(expected)
    with pytest.raises(InputError, match="intervals need the state that the result came from"):
        pickle.loads(pickle.dumps(result)).with_intervals(6)


def ranks_of_metrics(rank: int, world: int) -> list[str]:
    found = []
    for name, choices in (("mIOU", _KEEP), ("MeanIoU", _INDEX), ("PixelConfusionMatrix", _KEEP), SEGMENTS[0]):
        make = partial(getattr(segmentation, name), **choices)
        shares = [range(15, IMAGES), [], range(14, -1, -1)]
        found.append(repr(updated(make, images(name), [shares[rank]]).result(intervals=20).intervals))
    return found


def test_ranks_have_the_bits_of_one_process(tmp_path: Path) -> None:
    expected = []
    for name, choices in (("mIOU", _KEEP), ("MeanIoU", _INDEX), ("PixelConfusionMatrix", _KEEP), SEGMENTS[0]):
        make = partial(getattr(segmentation, name), **choices)
        expected.append(repr(updated(make, images(name), [range(IMAGES)]).result(intervals=20).intervals))
    assert run_ranks(ranks_of_metrics, tmp_path) == [expected] * 3


def text_of(result: Any) -> str:
    """All that the result says but where it came from: hashes need the images."""
    return json.dumps({name: value for name, value in result.to_dict().items() if name != "provenance"})


@pytest.mark.parametrize(("name", "choices"), [each for each in ALL if each[1].get("keep_images")], ids=ids)
def test_what_is_kept_changes_no_number(name: str, choices: dict[str, Any]) -> None:
    kind, batch = getattr(segmentation, name), images(name)
    kept, sums = (
        updated(partial(kind, **dict(choices, keep_images=keep)), batch, [range(9), range(9, IMAGES)])
        for keep in (True, False)
    )
    assert torch.equal(kept.compute().nan_to_num(-1), sums.compute().nan_to_num(-1))
    assert kept.compute().dtype == sums.compute().dtype
    assert text_of(kept.result()) == text_of(sums.result())
    empty = (kind(**dict(choices, keep_images=keep)) for keep in (True, False))
    texts = []
    for metric in empty:
        metric.update(*taken(batch, []))
        texts.append((repr(metric.compute()), text_of(metric.result())))
    assert texts[0] == texts[1]
    with pytest.raises(InputError, match=f"^{KEEP_IMAGES}$"):
        sums.result(intervals=100)
    with pytest.raises(InputError, match=f"^{KEEP_IMAGES}$"):
        sums.result().with_intervals(100)


@pytest.mark.parametrize(
    ("name", "kept", "each"),
    [("mIOU", _KEEP, 12 * CLASSES), ("PixelConfusionMatrix", _KEEP, 4 * CLASSES**2), (*SEGMENTS[0], 64 * 6)],
)
def test_the_memory_of_what_is_kept(name: str, kept: dict[str, Any], each: int) -> None:
    kind, batch = getattr(segmentation, name), images(name)
    assert kind(**kept).memory_plan(*batch, updates=3).per_update == IMAGES * each
    assert kind(**dict(kept, keep_images=False)).memory_plan(*batch).per_update == 0


def test_keep_images_is_a_bool() -> None:
    for name, choices in (("mIOU", _KEEP), ("PixelConfusionMatrix", _KEEP), SEGMENTS[0], ("DiceScore", _INDEX)):
        with pytest.raises(TypeError, match="keep_images must be bool"):
            getattr(segmentation, name)(**dict(choices, keep_images=1))


@pytest.mark.parametrize(
    ("name", "choices"), [("HausdorffDistance", _INDEX), ("SurfaceDistance", dict(num_classes=3, statistic="max"))]
)
def test_maxima_have_no_interval(name: str, choices: dict[str, Any]) -> None:
    preds, target = images(name)
    metric = getattr(segmentation, name)(**choices)
    metric.update(preds.clamp(max=choices["num_classes"] - 1), target.clamp(max=choices["num_classes"] - 1))
    found = metric.result(intervals=10).intervals
    assert {name, "per_class/0", "per_class/1"} <= set(found)
    assert all(each.reason.startswith("a maximum") and math.isnan(each.low) for each in found.values())


def test_classes_of_few_images_have_no_interval() -> None:
    preds, target = images("mIOU")
    metric = segmentation.mIOU(**_KEEP)
    metric.update(preds, target)
    found = metric.result(intervals=30).intervals
    assert found["per_class/3"].reason == "too few images: 12 hold a truth, it takes 20"
    assert not found["per_class/0"].reason and found["per_class/0"].low < found["per_class/0"].high
    assert not found["mIOU"].reason
    assert set(found) == {"mIOU", *(f"per_class/{c}" for c in range(CLASSES))}
    assert found.choices["unit"] == "images" and found.choices["units"] == IMAGES


def test_without_images_there_are_no_intervals() -> None:
    for name, choices in ALL:
        metric = getattr(segmentation, name)(**choices)
        metric.update(*taken(images(name), []))
        assert not metric.result(intervals=4).intervals


def test_clusters_are_drawn_as_a_whole() -> None:
    batch = images("mIOU")
    clusters = [f"video {place // 4}" for place in range(IMAGES)]
    backwards = segmentation.mIOU(**_KEEP)
    backwards.update(*taken(batch, range(IMAGES - 1, -1, -1)))
    metric = segmentation.mIOU(**_KEEP)
    metric.update(*batch)
    choices = Bootstrap(20, clusters=clusters)
    expected = metric.result(intervals=choices).intervals
    assert expected.choices["clusters"] == 6
    assert repr(backwards.result(intervals=Bootstrap(20, clusters=clusters[::-1])).intervals) == repr(expected)
    draws = Draws(IMAGES, 5, clusters=state_of(metric.result()).clusters(clusters))
    state = state_of(metric.result())
    weights = np.empty((IMAGES, 5), np.int64)
    weights[state._order] = draws.array()
    assert all(len(set(map(tuple, group))) == 1 for group in weights.reshape(6, 4, 5).tolist())
    assert weights.sum(0).tolist() == [IMAGES] * 5


def test_equal_images_of_two_clusters_are_told_apart_by_the_names_of_the_clusters() -> None:
    counts = np.array([[3, 3], [1, 1], [3, 3]])
    there = ResampledImages("pixels", counts, lambda weights: {})
    back = ResampledImages("pixels", counts[::-1], lambda weights: {})
    assert there.clusters(["b", "c", "a"]).tolist() == [0, 2, 1]  # in the order of the keys: c, then b and a
    assert sorted(back.clusters(["a", "c", "b"]).tolist()) == [0, 1, 2]
    for state, given in ((there, ["b", "c", "a"]), (back, ["a", "c", "b"])):
        codes = dict(zip([given[place] for place in state._order.tolist()], state.clusters(given).tolist()))
        assert codes == {"c": 0, "a": 1, "b": 2}


@pytest.mark.parametrize(
    ("keys", "given", "message"),
    [
        (np.zeros((3, 1)), ["a", "b"], "clusters must have the cluster of each of 3 images but has 2"),
        (np.zeros((3, 1)), {0: "a"}, "clusters must be a sequence with the cluster of every image in their order"),
        (["x", "y", "z"], {"x": 1, "z": 1}, "clusters must have every image but 1 are missing, such as 'y'"),
    ],
)
def test_clusters_that_do_not_fit(keys: Any, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ResampledImages("pixels", keys, lambda weights: {}).clusters(given)


def test_images_with_ids_are_in_their_order() -> None:
    state = ResampledImages("pixels", ["b", "a", "c"], lambda weights: {"sum": weights.sums(np.array([1, 10, 100]))})
    draws = Draws(3, 40)
    assert state.replicates(draws)["sum"].tolist() == (draws.array().T @ np.array([10, 1, 100])).tolist()
    assert state.clusters({"b": 5, "a": 7, "c": 7}).tolist() == [0, 1, 0]


def test_sums_beyond_the_integers_of_float64_are_exact() -> None:
    weights = Draws(50, 8, seed=1).array()
    table = np.random.default_rng(0).integers(0, 2**53, (50, 3, 2))
    table[:, 0] = 1
    expected = np.einsum("nl,nab->lab", weights.astype(np.int64), table)
    assert expected.max() > 2**56
    assert Weights(weights).sums(table).tolist() == expected.tolist()


def test_means_are_those_of_the_exact_sum() -> None:
    generator = np.random.default_rng(2)
    values = generator.random((30, 4)) * 10.0 ** generator.integers(-17, 3, (30, 4))
    values[generator.random((30, 4)) < 0.3] = math.nan
    values[:, 3] = math.nan
    weights = Draws(30, 9).array()
    means, of_all = Weights(weights).means(values), Weights(weights).means_of_all(values)
    for row, drawn in enumerate(weights.T.tolist()):
        sums = [[(w, Fraction(v)) for w, v in zip(drawn, column) if v == v] for column in values.T.tolist()]
        for column, parts in enumerate([*sums, [part for each in sums for part in each]]):
            found = means[row, column] if column < 4 else of_all[row]
            count = sum(w for w, _ in parts)
            assert repr(float(found)) == (repr(float(sum(w * v for w, v in parts)) / count) if count else "nan")


@pytest.mark.parametrize("name", ["mIOU", "PixelConfusionMatrix"])
def test_clusters_hold_a_class_not_their_images(name: str) -> None:
    batch = images(name)
    state = state_of(updated(partial(getattr(segmentation, name), **_KEEP), batch, [range(IMAGES)]).result())
    videos = [image // 6 for image in range(IMAGES)]
    held = state.supports(state.clusters(videos))
    prefix = "per_class/{}" if name == "mIOU" else "confusion_matrix/{},0"
    for label in range(CLASSES):
        there = [video for video, target in zip(videos, batch[1]) if bool((target == label).any())]
        number = prefix.format(label)
        assert (state.supports()[number], held[number]) == (len(there), len(set(there)))
