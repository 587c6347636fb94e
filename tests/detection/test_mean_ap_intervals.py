"""Intervals of detection metrics: their replicates, and that no order, batch, rank or state file changes a bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from testing.coco_scenes import dataset, evaluated, scored_scene
from testing.scenes import Scene
from tests.coco.test_intervals import STATS, repeated, same
from tests.ddp import run_ranks
from tests.detection.test_mean_ap import fed, inputs
from valor_gpu import detection
from valor_gpu.detection import AP, MeanAveragePrecision, OpenImagesAveragePrecision, mAP
from valor_gpu.errors import InputError
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.draws import Draws

IMAGES = 10
SHORT = {"iou_thresholds": [0.5]}
VALOR = ("AP", "APAveragedOverIOUs", "mAP", "mAPAveragedOverIOUs", "AR", "mAR")


def scene() -> Scene:
    return scored_scene(21, images=IMAGES)


def no_crowds(found: Scene) -> Scene:
    found.crowds = [torch.zeros_like(crowd) for crowd in found.crowds]
    return found


def state_of(result: Any) -> Any:
    return vars(result)["_state"]()


def intervals(metric: Any, **choices: Any) -> dict[str, Any]:
    return dict(metric.result(intervals=Bootstrap(6, seed=3, **choices)).intervals)


@pytest.mark.parametrize("ids", [True, False])
def test_replicates_are_those_of_pycocotools_over_copies_of_images(ids: bool) -> None:
    found = scene()
    state = state_of(fed(MeanAveragePrecision("xywh"), *inputs(found, ids)).result())
    draws = Draws(IMAGES, 3, seed=9)
    numbers, weights = state.replicates(draws), draws.array()
    for column in range(3):
        table = fed(MeanAveragePrecision("xywh"), *inputs(found, ids)).state().images.numpy()
        order = np.argsort(table[:, 0], kind="stable")  # content hashes are the keys of images without ids
        parts = Scene(*([values[i] for i in order] for values in vars(found).values()))
        stats = evaluated(*dataset(repeated(parts, weights[:, column]))).stats
        for name, stat in zip(STATS, stats, strict=True):
            assert same(numbers[name][column], stat), name


@pytest.mark.parametrize(
    "choices",
    [{}, {"average": "micro"}, {"average": "micro", "class_metrics": True}, {"tie_order": "arrival"}],
    ids=["macro", "micro", "micro-classes", "arrival"],
)
def test_weights_of_one_give_the_number_itself(choices: dict[str, Any]) -> None:
    result = fed(MeanAveragePrecision("xywh", **SHORT, **choices), *inputs(scene(), True)).result(tie_interval=True)
    state = state_of(result)
    ones = np.ones((IMAGES, 1), np.uint8)
    state._weights = lambda draws: torch.from_numpy(ones)
    found = {name: values[0] for name, values in state.replicates(Draws(IMAGES, 1)).items() if "lost" not in name}
    numbers = result.scalars()
    assert set(found) == {name for name in numbers if "tie_interval" not in name}
    for name, value in found.items():
        assert value == numbers[name] or np.isnan([value, numbers[name]]).all(), name


@pytest.mark.parametrize("ids", [True, False])
def test_order_batches_merging_and_files_change_no_bit(ids: bool) -> None:
    images = inputs(scene(), ids)
    whole = intervals(fed(MeanAveragePrecision("xywh", **SHORT), *images, size=IMAGES))
    order = np.random.default_rng(2).permutation(IMAGES)
    assert intervals(fed(MeanAveragePrecision("xywh", **SHORT), *images, order, size=3)) == whole
    one, other = (fed(MeanAveragePrecision("xywh", **SHORT), *images, part) for part in (order[:4], order[4:]))
    one.merge_state(other.to_bytes())
    assert intervals(one) == whole
    assert intervals(MeanAveragePrecision("xywh", **SHORT).from_bytes(one.to_bytes())) == whole


def test_a_result_keeps_what_it_came_from() -> None:
    images = inputs(scene(), True)
    metric = fed(MeanAveragePrecision("xywh", **SHORT), *images)
    result = metric.result()
    metric.update(*(side[:2] for side in inputs(scored_scene(22, images=4))))
    metric.reset()
    assert dict(result.with_intervals(Bootstrap(6, seed=3)).intervals) == intervals(
        fed(MeanAveragePrecision("xywh", **SHORT), *images)
    )


def test_copies_of_an_image_id_are_one_unit() -> None:
    images = inputs(scene(), True)
    twice = [[*side, *side[:3]] for side in images]
    assert intervals(fed(MeanAveragePrecision("xywh", **SHORT), *twice)) == intervals(
        fed(MeanAveragePrecision("xywh", **SHORT), *images)
    )


def test_several_types_have_intervals_with_prefixes() -> None:
    generator = torch.Generator().manual_seed(4)
    masks = torch.rand((4, 2, 12, 12), generator=generator) > 0.5
    labels = torch.tensor([0, 1])
    preds = [{"masks": m, "scores": torch.tensor([0.9, 0.4]), "labels": labels} for m in masks]
    target = [{"masks": m.roll(i % 2, -1), "labels": labels, "image_id": i} for i, m in enumerate(masks)]
    metric = MeanAveragePrecision(iou_type=("bbox", "segm"), **SHORT)
    metric.update(
        [{**p, "boxes": torch.tensor([[0.0, 0, 11, 11], [1, 1, 9, 9]])} for p in preds],
        [{**t, "boxes": torch.tensor([[0.0, 0, 11, 11], [1, 1, 9, 10]])} for t in target],
    )
    found = metric.result(intervals=4).intervals
    assert {"bbox_map", "segm_map", "bbox_map_per_class/1", "segm_mar_per_class/0"} <= set(found)
    alone = MeanAveragePrecision(iou_type="segm", **SHORT)
    alone.update(preds, target)
    assert alone.result(intervals=4).intervals["map_50"] == found["segm_map_50"]


@pytest.mark.parametrize("make", [MeanAveragePrecision, mAP])
@pytest.mark.parametrize("images", [0, 1])
def test_no_image_and_one_have_no_interval_but_a_reason(make: Any, images: int) -> None:
    metric = make("xywh")
    if images:
        metric.update(*(side[:1] for side in inputs(no_crowds(scene()), True)))
    for method in (None, "bca", "half_basic"):
        found = metric.result(intervals=Bootstrap(2, method=method)).intervals
        assert found and all(np.isnan(each.low) and each.reason for each in found.values())


def test_clusters_need_ids() -> None:
    metric = fed(MeanAveragePrecision("xywh", **SHORT), *inputs(scene(), False))
    with pytest.raises(InputError, match="give every image of target an image_id"):
        intervals(metric, clusters=list(range(IMAGES)))
    named = fed(MeanAveragePrecision("xywh", **SHORT), *inputs(scene(), True))
    ids = [3 + 7 * i for i in range(IMAGES)]
    alone = intervals(named, clusters={number: number for number in ids})
    assert alone.keys() == (plain := intervals(named)).keys()
    assert all(alone[name] == plain[name] for name in plain if "/" not in name)
    assert intervals(named, clusters={number: number % 2 for number in ids}) != alone


@pytest.mark.parametrize("make", [MeanAveragePrecision, AP, OpenImagesAveragePrecision])
def test_clusters_hold_a_class_not_their_images(make: Any) -> None:
    preds, target = inputs(no_crowds(scored_scene(4, images=IMAGES)), True)
    target = [{k: v for k, v in item.items() if k not in ("iscrowd", "area")} for item in target]
    metric = fed(make(box_format="xywh"), preds, target, np.random.default_rng(1).permutation(IMAGES))
    state, videos = state_of(metric.result()), {item["image_id"]: item["image_id"] % 4 for item in target}
    held: dict[str, set[int]] = {}
    for item in target:
        for label in item["labels"].tolist():
            held.setdefault(str(label), set()).add(item["image_id"])
    images, clusters = state.supports(), state.supports(state.clusters(videos))
    assert set(images) == set(clusters) and any(images[name] != clusters[name] for name in images)
    for name in images:
        ids = held.get(name.rpartition("/")[2], set())
        assert (images[name], clusters[name]) == (len(ids), len({videos[number] for number in ids})), name
    reasons = [each.reason for each in metric.result(intervals=Bootstrap(4, clusters=videos)).intervals.values()]
    assert any(reason.startswith("too few clusters: ") for reason in reasons)


@pytest.mark.parametrize("name", VALOR)
def test_replicates_of_valors_metrics_are_those_of_copies_of_images(name: str) -> None:
    found = no_crowds(scored_scene(5, images=7))
    metric = getattr(detection, name)("xywh")
    preds, target = inputs(found, True)
    state = state_of(fed(metric, preds, target).result())
    draws = Draws(7, 4, seed=11)
    numbers, weights = state.replicates(draws), draws.array()
    for column in range(4):
        again = getattr(detection, name)("xywh")
        rows = [i for i in range(7) for _ in range(weights[i, column])]
        again.update([preds[i] for i in rows], [{k: v for k, v in target[i].items() if k != "image_id"} for i in rows])
        theirs = again.result().scalars()
        for leaf, values in numbers.items():
            if "lost classes" not in leaf:
                other = theirs.get(leaf, np.nan)
                assert values[column] == other or np.isnan([values[column], other]).all(), leaf


@pytest.mark.parametrize("make", [mAP, OpenImagesAveragePrecision])
def test_order_changes_no_bit_of_other_metrics(make: Any) -> None:
    for ids in (True, False):
        preds, target = inputs(no_crowds(scene()), ids)
        target = [{k: v for k, v in item.items() if k not in ("iscrowd", "area")} for item in target]
        order = np.random.default_rng(3).permutation(IMAGES)
        make_one = {"box_format": "xywh"}
        assert intervals(fed(make(**make_one), preds, target)) == intervals(fed(make(**make_one), preds, target, order))


def test_replicates_of_open_images_are_those_of_copies_of_images() -> None:
    preds, target = inputs(no_crowds(scene()), True)
    target = [{k: v for k, v in item.items() if k not in ("iscrowd", "area")} for item in target]
    state = state_of(fed(OpenImagesAveragePrecision({1: 0}, box_format="xywh"), preds, target).result())
    draws = Draws(IMAGES, 3, seed=2)
    numbers, weights = state.replicates(draws), draws.array()
    for column in range(3):
        rows = [i for i in range(IMAGES) for _ in range(weights[i, column])]
        again = OpenImagesAveragePrecision({1: 0}, box_format="xywh")
        again.update([preds[i] for i in rows], [{**target[i], "image_id": n} for n, i in enumerate(rows)])
        theirs = again.result().scalars()
        for leaf in ("map", "map_per_iou_threshold/0.5", *(name for name in theirs if "per_class" in name)):
            assert numbers[leaf][column] == theirs[leaf] or np.isnan([numbers[leaf][column], theirs[leaf]]).all()


ARRAYS = ("DetectionF1", "DetectionCounts", "DetectionConfusionMatrix", "DetectionExamples",
          "DetectionPrecisionRecallCurve", "DetectionDetailedPrecisionRecallCurve")  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_results_of_arrays_say_which_metric_to_ask(name: str) -> None:
    metric = getattr(detection, name)("xywh")
    metric.update(*inputs(no_crowds(scene()), True))
    for ask in (lambda: metric.result(intervals=4), lambda: metric.result().with_intervals(4)):
        with pytest.raises(InputError, match=rf"a result of {name} has arrays alone: ask mAP"):
            ask()


def _of_ranks(rank: int, world: int) -> Any:
    share = range(rank, IMAGES, world) if rank else range(0)  # one rank has nothing, so that the work is that of two
    share = [i for i in range(IMAGES) if i % (world - 1) == rank - 1] if rank else share
    padded = [i for i in range(IMAGES) if i % world == rank] + [0]
    found = [fed(MeanAveragePrecision("xywh", **SHORT), *inputs(scene(), True), order=o) for o in (share, padded)]
    found.append(fed(mAP("xywh"), *inputs(no_crowds(scene()), False), order=share))
    return [{name: repr(interval) for name, interval in intervals(metric).items()} for metric in found]


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_ranks_change_no_bit(tmp_path: Any) -> None:
    alone = intervals(fed(MeanAveragePrecision("xywh", **SHORT), *inputs(scene(), True)))
    valor = intervals(fed(mAP("xywh"), *inputs(no_crowds(scene()), False)))
    wanted = [{name: repr(interval) for name, interval in found.items()} for found in (alone, alone, valor)]
    assert run_ranks(_of_ranks, tmp_path) == [wanted] * 3
