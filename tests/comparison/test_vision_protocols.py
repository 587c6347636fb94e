"""Two models under LVIS, CrowdPose, keypoints and parts of a dataset; what makes a comparison of detection an error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testing.coco_scenes import dataset, scored_scene
from testing.keypoint_scenes import random_keypoints
from testing.lvis_scenes import random_lvis
from tests.coco.comparison import OURS, run
from tests.coco.test_intervals import ours
from tests.coco.test_keypoints import keypoint_evaluator
from tests.coco.test_lvis import evaluated as lvis_evaluated
from tests.comparison.test_vision_units import IDS, IMAGES, SHORT, models, states, swap_draws, unswapped
from tests.ddp import run_ranks
from tests.detection.test_mean_ap import fed, inputs
from valor_gpu.detection import MeanAveragePrecision, mAP
from valor_gpu.errors import InputError
from valor_gpu.stats import compare
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.units import pair_units


def lvis(tmp_path: Path, results: Any = None, frequencies: str = "rcf") -> Any:
    objects = random_lvis(8)
    for place, category in enumerate(objects[0]["categories"]):
        category["frequency"] = frequencies[place % 3]
    return lvis_evaluated(tmp_path, objects[0], objects[1] if results is None else results(objects[1])).result()


def keypoints(kind: str, results: Any = None) -> Any:
    crowd = kind == "keypoints_crowd"
    truth, found = random_keypoints(2, 14 if crowd else 17, crowdpose=crowd)
    objects = truth, found if results is None else results(found)
    return run(keypoint_evaluator(OURS, objects, kind, convention="corrected"), summarize=False).e.result()


def part(results: Any = None) -> Any:
    truth, found = dataset(scored_scene(3, images=9))
    chosen = [image["id"] for image in truth["images"]][1:8:2]
    objects = truth, found if results is None else results(found)
    return ours(objects, maxDets=[1, 5, 20], useCats=0, imgIds=chosen).result()


KINDS: dict[str, Callable[..., Any]] = {
    "lvis": lvis,
    "keypoints": lambda tmp_path, *results: keypoints("keypoints", *results),
    "crowdpose": lambda tmp_path, *results: keypoints("keypoints_crowd", *results),
    "part": lambda tmp_path, *results: part(*results),
}


def fewer(results: Any) -> Any:
    """Another model, with scores of its own."""
    rng = np.random.default_rng(0)
    return [{**row, "score": float(rng.integers(20)) / 5} for row in results if rng.random() < 0.8]


def cubed(results: Any) -> Any:
    """The same model on another scale of scores."""
    return [{**row, "score": row["score"] ** 3 / 8 + 0.01} for row in results]


@pytest.mark.parametrize("kind", KINDS)
def test_no_swap_leaves_each_model_its_bits(kind: str, tmp_path: Path) -> None:
    results = [KINDS[kind](tmp_path), KINDS[kind](tmp_path, fewer)]
    found = states(*results)
    for state in found:
        state._weights = Draws.array
    assert any(one != other for one, other in zip(results[0].scalars().values(), results[1].scalars().values()))
    numbers = unswapped(*found, results)
    assert numbers.keys() == found[0].replicates(Draws(found[0].units, 1)).keys()


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_of_scores_does_not_matter(kind: str, tmp_path: Path) -> None:
    results = [KINDS[kind](tmp_path), KINDS[kind](tmp_path, cubed)]
    first, second = states(*results)
    codes = pair_units(first.identities(), second.identities()).codes
    found = first.swapping(second).replicates(swap_draws(first.units, 6, codes, seed=3))
    for name, values in found.items():
        if "lost" not in name:
            expected = results[0].scalars()[name]
            assert np.array_equal(values, np.full(6, expected), equal_nan=True), name


def evaluation(place: int = 0, change: Callable[[Any], None] | None = None, **params: Any) -> Any:
    truth, results = copy.deepcopy(dataset(models(2)[place]))
    if change is not None:
        change(truth)
    return ours((truth, results), **params)


def moved(truth: Any) -> None:
    row = next(row for row in truth["annotations"] if row["image_id"] == IDS[4])
    row["bbox"][0] += 1


def crowded(truth: Any) -> None:
    row = next(row for row in truth["annotations"] if row["image_id"] == IDS[4])
    row["iscrowd"] = 1 - row["iscrowd"]


@pytest.mark.parametrize("change", [moved, crowded])
def test_another_truth_is_an_error_that_names_the_image(change: Any) -> None:
    with pytest.raises(InputError, match=f"same ground truth but that of image {IDS[4]} differs"):
        compare(evaluation(), evaluation(1, change), replicates=4)


@pytest.mark.parametrize("frequencies", ["fff", "crf"])
def test_other_frequencies_of_categories_are_an_error(frequencies: str, tmp_path: Path) -> None:
    first, second = lvis(tmp_path), lvis(tmp_path, frequencies=frequencies)
    with pytest.raises(InputError, match=r"both sides must have the same categories of map_\w+ but '.*' is of one of"):
        compare(first, second, replicates=20, permutations=0)


def test_the_order_of_truths_within_an_image_is_none() -> None:
    expected = compare(evaluation(), evaluation(1), replicates=6)
    assert repr(
        compare(evaluation(), evaluation(1, lambda truth: truth["images"].reverse()), replicates=6).intervals
    ) == (repr(expected.intervals))
    first, second = states(evaluation().result(), evaluation(1, lambda t: t["annotations"].reverse()).result())
    assert np.array_equal(first.identities().truths, second.identities().truths)


def test_other_images_are_an_error() -> None:
    with pytest.raises(InputError, match=rf"1 of {IMAGES} are missing from the second, such as {IDS[-1]}$"):
        compare(evaluation(), evaluation(1, imgIds=IDS[:-1]), replicates=4)
    with pytest.raises(InputError, match=rf"2 of {IMAGES} are missing from the first, such as {IDS[0]}$"):
        compare(evaluation(imgIds=IDS[2:]), evaluation(1), replicates=4)


def metrics(ids: bool = True, order: Any = None, make: Any = MeanAveragePrecision, **choices: Any) -> list[Any]:
    found = []
    for scene in models(2):
        preds, target = inputs(scene, ids)
        if make is mAP:
            target = [{k: v for k, v in item.items() if k not in ("iscrowd", "area")} for item in target]
        found.append(fed(make("xywh", **choices), preds, target, order))
    return found


@pytest.mark.parametrize("make", [MeanAveragePrecision, mAP])
@pytest.mark.parametrize("ids", [True, False])
def test_order_and_split_change_no_bit(make: Any, ids: bool) -> None:
    expected = compare(*metrics(ids, make=make), replicates=30)
    order = np.random.default_rng(1).permutation(IMAGES)
    assert repr(compare(*metrics(ids, order, make), replicates=30).intervals) == repr(expected.intervals)
    if ids:
        mixed = metrics(ids, make=make)[0], metrics(ids, order, make)[1]
        assert repr(compare(*mixed, replicates=30).intervals) == repr(expected.intervals)


def test_ids_of_other_kinds_of_integers_are_the_same() -> None:
    first, second = metrics()
    preds, target = inputs(models(2)[1], True)
    target = [{**item, "image_id": torch.tensor(item["image_id"])} for item in target]
    other = fed(MeanAveragePrecision("xywh"), preds, target, [*range(IMAGES)][::-1])
    found, expected = compare(first, other, replicates=10), compare(first, second, replicates=10)
    assert repr(found.intervals) == repr(expected.intervals)


def test_images_without_ids_in_another_order_are_an_error() -> None:
    first, second = metrics(False)[0], metrics(False, [*range(IMAGES)][::-1])[1]
    with pytest.raises(InputError, match=r"same ground truth but that of image 0 \(counted from 0\) differs"):
        compare(first, second, replicates=4)


@pytest.mark.parametrize("ids", [True, False])
def test_clusters_are_drawn_as_a_whole(ids: bool) -> None:
    videos = [place // 2 for place in range(IMAGES)]
    pair = metrics(ids, **SHORT)
    found = compare(*pair, replicates=10, clusters=videos)
    assert found.counts["clusters"] == 4
    named = dict(zip(IDS, videos)) if ids else videos
    states_of = states(*(metric.result() for metric in pair))
    pairing = pair_units(*(state.identities() for state in states_of), named)
    for state, codes in zip(states_of, pairing.codes):
        arrival = state.identities().arrival
        by_video = {videos[place]: set() for place in arrival.tolist()}
        for place, code in zip(arrival.tolist(), codes.tolist()):
            by_video[videos[place]].add(code)
        assert all(len(each) == 1 for each in by_video.values()) and len({*map(tuple, by_video.values())}) == 4


def _of_ranks(rank: int, world: int) -> str:
    share = range(rank, IMAGES, world)
    return repr(dict(compare(*metrics(True, share, **SHORT), replicates=10).intervals))


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_ranks_have_the_bits_of_one_process(tmp_path: Path) -> None:
    expected = repr(dict(compare(*metrics(**SHORT), replicates=10).intervals))
    assert run_ranks(_of_ranks, tmp_path) == [expected] * 3


def test_a_state_file_keeps_the_hashes_of_ground_truths(tmp_path: Path) -> None:
    first, second = evaluation(), evaluation(1, moved)
    first.save_state(tmp_path / "first.npz")
    expected = compare(first, evaluation(1), replicates=4)
    assert repr(compare(tmp_path / "first.npz", evaluation(1), replicates=4).intervals) == repr(expected.intervals)
    with pytest.raises(InputError, match=f"same ground truth but that of image {IDS[4]} differs"):
        compare(tmp_path / "first.npz", second, replicates=4)
