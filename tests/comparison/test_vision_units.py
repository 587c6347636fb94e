"""Two detection models on the same images: the same draws for both, swaps of images, and what tells images apart."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from testing.coco_scenes import FIRST_ID, ID_STEP, dataset, evaluated, scored_scene
from testing.scenes import Scene
from tests.coco.test_intervals import STATS, ours, repeated, same, state_of
from tests.detection.test_mean_ap import fed, inputs
from valor_gpu import detection
from valor_gpu.detection import MeanAveragePrecision, OpenImagesAveragePrecision
from valor_gpu.stats import compare
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.methods import Replicates, interval_by
from valor_gpu.stats.resample import LOST_CLASSES
from valor_gpu.stats.units import pair_units

IMAGES = 8
IDS = [FIRST_ID + ID_STEP * i for i in range(IMAGES)]
SHORT = {"iou_thresholds": [0.5]}


def models(seed: int, images: int = IMAGES) -> tuple[Scene, Scene]:
    """Two models on the same ground truth; the second has other boxes, on another scale of scores, some tied."""
    first = scored_scene(seed, images=images)
    rng = np.random.default_rng(100 + seed)
    second = copy.deepcopy(first)
    for i, boxes in enumerate(second.boxes):
        kept = torch.from_numpy(rng.random(len(boxes)) < 0.8)
        moved = boxes + torch.from_numpy(rng.normal(0, 2, boxes.shape).round(2)) * (torch.tensor([1, 1, 0, 0]))
        second.boxes[i], second.labels[i] = moved[kept], second.labels[i][kept]
        second.scores[i] = ((second.scores[i] * 0.4) ** 3)[kept].mul(50).round().div(50)
    return first, second


def states(*results: Any) -> list[Any]:
    return [state_of(result) for result in results]


def swap_draws(units: int, count: int, codes: Any, **choices: Any) -> Draws:
    joined = np.concatenate((codes[0], codes[1] + codes[0].max() + 1))
    return Draws(2 * units, count, kind="swap", clusters=joined, **choices)


def ranked(scene: Scene) -> Scene:
    """Scores as ranks within their labels, by a loop."""
    found = copy.deepcopy(scene)
    rows = [(int(label), float(score)) for part in zip(scene.labels, scene.scores) for label, score in zip(*part)]
    for i, (labels, scores) in enumerate(zip(scene.labels, scene.scores)):
        ranks = []
        for label, score in zip(labels.tolist(), scores.tolist()):
            of_label = [other for name, other in rows if name == label]
            ranks.append(2 - sum(other >= score for other in of_label) / len(of_label))
        found.scores[i] = torch.tensor(ranks, dtype=torch.float64)
    return found


def mixed(first: Scene, second: Scene, chosen: Any) -> Scene:
    """The images of one model where ``chosen`` is 1, else those of the other."""
    columns = zip(vars(first).values(), vars(second).values())
    return Scene(*([a if bit else b for a, b, bit in zip(*pair, chosen)] for pair in columns))


def agree(numbers: Mapping[str, Any], column: int, expected: Mapping[str, float]) -> None:
    for name, values in numbers.items():
        if not name.endswith(LOST_CLASSES):
            other = expected.get(name, math.nan)
            assert values[column] == other or np.isnan([values[column], other]).all(), name


@pytest.mark.parametrize("seed", range(2))
def test_both_models_are_drawn_alike(seed: int) -> None:
    scenes = models(seed)
    pair = states(*(ours(dataset(scene)).result() for scene in scenes))
    codes = pair_units(*(state.identities() for state in pair)).codes
    for scene, state, own in zip(scenes, pair, codes):
        draws = Draws(IMAGES, 3, seed=seed, clusters=own)
        found, weights = state.replicates(draws), replace(draws, clusters=None).array()
        for column in range(3):
            stats = evaluated(*dataset(repeated(scene, weights[:, column]))).stats
            assert all(same(found[name][column], stat) for name, stat in zip(STATS, stats, strict=True))


def test_the_interval_of_a_difference_is_that_of_a_plain_loop() -> None:
    scenes = models(3)
    found = compare(*(ours(dataset(scene)) for scene in scenes), replicates=12, seed=4)
    loops = []
    for kind in ("multinomial", "half"):
        weights = Draws(IMAGES, 12, seed=4, kind=kind).array()
        loop = [[evaluated(*dataset(repeated(scene, column))).stats[0] for scene in scenes] for column in weights.T]
        loops.append(np.array([second - first for first, second in loop]))
    interval, difference = found.intervals["difference/map"], found.values["difference"]["map"]
    assert difference == found.values["second"]["map"] - found.values["first"]["map"]
    sample = Replicates(*loops, freedom=1 / (1 / (IMAGES - 1) + 1 / (12 - 1)))
    expected = interval_by("half_normal", difference, sample, 0.95, "images")
    assert (interval.low, interval.high) == (expected.low, expected.high)


@pytest.mark.parametrize("seed", range(3))
def test_swapped_images_are_those_of_a_plain_loop_of_pycocotools(seed: int) -> None:
    scenes = models(seed)
    first, second = states(*(ours(dataset(scene)).result() for scene in scenes))
    codes = pair_units(first.identities(), second.identities()).codes
    state, draws = first.swapping(second), swap_draws(IMAGES, 4, codes, seed=seed)
    found, bits = state.replicates(draws), draws.array()
    assert bits[:IMAGES].min() == 0 and (bits[:IMAGES] + bits[IMAGES:] == 1).all()
    ranks = [ranked(scene) for scene in scenes]
    for column in range(4):
        theirs = evaluated(*dataset(mixed(*ranks, bits[:IMAGES, column])))
        assert all(same(found[name][column], stat) for name, stat in zip(STATS, theirs.stats, strict=True))
        for place, category in enumerate(theirs.params.catIds):
            values = np.ascontiguousarray(theirs.eval["precision"][:, :, place, 0, -1])
            number = found[f"map_per_class/{(category - 1) // 3}"][column]
            assert same(number, values[values > -1].mean() if (values > -1).any() else -1)


class Chosen(Draws):
    """Weights of one model alone, then of the other."""

    def array(self) -> Any:
        assert self.clusters is not None
        half = len(self.clusters) // 2
        return np.stack([np.repeat([1, 0], half), np.repeat([0, 1], half)], 1).astype(np.uint8)[self.clusters]


def unswapped(first: Any, second: Any, results: Any) -> Any:
    """Checks that a state of both models has the numbers of each, where no image is swapped; returns them."""
    codes = pair_units(first.identities(), second.identities()).codes
    draws = Chosen(2 * first.units, 2, clusters=np.concatenate((codes[0], codes[1] + codes[0].max() + 1)))
    state = first.swapping(second)
    if hasattr(inner := getattr(state, "_state", state), "_weights"):
        tensors = inner._weights is not Draws.array
        inner._weights = lambda drawn: torch.from_numpy(drawn.array()) if tensors else drawn.array()
    found = state.replicates(draws)
    for column, result in enumerate(results):
        agree(found, column, result.scalars())
    return found


CHOICES: list[dict[str, Any]] = [
    {}, {"average": "micro"}, {"average": "micro", "class_metrics": True}, {"tie_order": "arrival"},
]  # fmt: skip


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_no_swap_leaves_each_model_its_bits(choices: dict[str, Any]) -> None:
    scenes = models(5)
    results = [fed(MeanAveragePrecision("xywh", **choices), *inputs(scene, True)).result() for scene in scenes]
    assert unswapped(*states(*results), results)


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("seed", range(5, 8))
def test_no_swap_leaves_each_model_the_order_of_its_own_ties(ids: bool, seed: int) -> None:
    """Content hashes, or arrival, order the images of each model in another way than those of both."""
    makes: list[Any] = [MeanAveragePrecision, OpenImagesAveragePrecision]
    if ids:
        makes = [partial(MeanAveragePrecision, tie_order="arrival")]
    order = np.random.default_rng(seed).permutation(IMAGES) if ids else None
    for make in makes:
        pair = [plain(scene) for scene in models(seed)]
        kept = [(preds, target if ids else [_without_id(item) for item in target]) for preds, target in pair]
        results = [fed(make(box_format="xywh"), *each, order).result() for each in kept]
        assert unswapped(*states(*results), results)


def boxes_and_masks(seed: int, ids: bool) -> MeanAveragePrecision:
    """A metric of two geometries, whose content hashes order images differently."""
    truth, own = torch.Generator().manual_seed(4), torch.Generator().manual_seed(seed)
    labels = torch.tensor([0, 1])
    metric = MeanAveragePrecision(iou_type=("bbox", "segm"), **SHORT)
    for i in range(IMAGES):
        masks = torch.rand((2, 12, 12), generator=truth) > 0.5
        boxes = torch.tensor([[0.0, 0, 11, 11], [1, 1, 9, 10]]) + i
        found = masks ^ (torch.rand((2, 12, 12), generator=own) > 0.85)
        moved = boxes + torch.rand((2, 4), generator=own) * 3
        scores = torch.rand(2, generator=own).double()
        target = {"masks": masks, "boxes": boxes, "labels": labels} | ({"image_id": i} if ids else {})
        metric.update([{"masks": found, "boxes": moved, "scores": scores, "labels": labels}], [target])
    return metric


@pytest.mark.parametrize("ids", [True, False])
def test_geometries_of_one_metric_are_drawn_alike(ids: bool) -> None:
    results = [boxes_and_masks(seed, ids).result() for seed in (7, 8)]
    first, second = states(*results)
    unswapped(first, second, results)
    if not ids:
        named = states(*(boxes_and_masks(seed, True).result() for seed in (7, 8)))
        codes = [pair_units(*(state.identities() for state in pair)).codes for pair in (named, (first, second))]
        arrival = first.identities().arrival
        assert sorted(arrival.tolist()) == list(range(IMAGES)) and arrival.tolist() != sorted(arrival.tolist())
        drawn = np.empty(IMAGES, np.int64)  # of each image, in the order of ids
        drawn[arrival] = codes[1][0]
        for pair, own in ((named, drawn), ((first, second), codes[1][0])):
            assert (own == own).all() and pair[0].units == IMAGES
        with_ids = named[0].replicates(Draws(IMAGES, 5, clusters=drawn))
        without = first.replicates(Draws(IMAGES, 5, clusters=codes[1][0]))
        assert with_ids.keys() == without.keys()
        assert all(np.array_equal(with_ids[name], without[name], equal_nan=True) for name in with_ids)


def plain(scene: Scene) -> Any:
    """Inputs of a model without crowds, as Valor's metrics and Open Images take them."""
    preds, target = inputs(scene, True)
    return preds, [{k: v for k, v in item.items() if k not in ("iscrowd", "area")} for item in target]


VALOR = ("AP", "APAveragedOverIOUs", "mAP", "mAPAveragedOverIOUs", "AR", "mAR")


@pytest.mark.parametrize("name", [*VALOR, "OpenImagesAveragePrecision"])
@pytest.mark.parametrize("ids", [True, False])
def test_swapped_images_of_other_metrics_are_those_of_a_plain_loop(name: str, ids: bool) -> None:
    make = getattr(detection, name)
    scenes = models(6)
    if name == "OpenImagesAveragePrecision" and not ids:  # nothing else breaks ties of images of both models
        scenes = tuple(_without_ties(scene) for scene in scenes)
    pair = [plain(scene) for scene in scenes]
    kept = [(preds, target if ids else [_without_id(item) for item in target]) for preds, target in pair]
    results = [fed(make(box_format="xywh"), *each).result() for each in kept]
    first, second = states(*results)
    unswapped(first, second, results)
    units = first.identities(), second.identities()
    codes = pair_units(*units).codes
    draws = swap_draws(IMAGES, 3, codes, seed=2)
    found, bits = first.swapping(second).replicates(draws), draws.array()
    places = units[0].arrival if not ids else np.arange(IMAGES)
    scores = [scene.scores if name in ("AR", "mAR") else _ranked_above_0(scene, name) for scene in scenes]
    for column in range(3):
        of_first = np.empty(IMAGES, np.int64)
        of_first[places] = bits[:IMAGES, column]
        chosen = [0 if bit else 1 for bit in of_first]
        preds = [{**pair[model][0][i], "scores": scores[model][i]} for i, model in enumerate(chosen)]
        agree(found, column, fed(make(box_format="xywh"), preds, kept[0][1]).result().scalars())


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "image_id"}


def _without_ties(scene: Scene) -> Scene:
    sizes = [len(part) for part in scene.scores]
    order = torch.cat(scene.scores).argsort(stable=True).argsort()
    return Scene(**{**vars(scene), "scores": list(((order + 1) / (len(order) + 1)).double().split(sizes))})


def _ranked_above_0(scene: Scene, name: str) -> list[Any]:
    """Ranks; in Valor's metrics a score of 0 never counts."""
    pairs = zip(ranked(scene).scores, scene.scores)
    return [torch.where(own > 0, ranks, own) if name in VALOR else ranks for ranks, own in pairs]
