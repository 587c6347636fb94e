"""MeanAveragePrecision in three processes: padding samplers, empty ranks, one id with two ground truths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from testing.coco_scenes import scored_scene
from tests.ddp import WORLD, run_ranks
from tests.detection.test_mean_ap import fed, inputs
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError

IMAGES = 10


def _scene(ids: bool = True) -> Any:
    return inputs(scored_scene(21, images=IMAGES), ids=ids)


def _scalars(metric: MeanAveragePrecision) -> dict[str, Any]:
    result = metric.result(tie_interval=True)
    return {"values": {k: v.hex() for k, v in result.scalars().items()}, "counts": dict(result.counts)}


def _padding_sampler(rank: int, world: int) -> dict[str, Any]:
    data = torch.utils.data.DistributedSampler(range(IMAGES), num_replicas=world, rank=rank, shuffle=True, seed=3)
    return _scalars(fed(MeanAveragePrecision("xywh"), *_scene(), order=list(data), size=1 + rank))


def _one_rank_has_it_all(rank: int, world: int) -> dict[str, Any]:
    order = list(range(IMAGES))[::-1] if rank == 1 else []
    return _scalars(fed(MeanAveragePrecision("xywh"), *_scene(ids=False), order=order))


def _constant_id(rank: int, world: int) -> str:
    preds, target = _scene()
    target = [dict(item, image_id=5) for item in target]
    metric = fed(MeanAveragePrecision("xywh"), preds, target, order=range(rank, IMAGES, world))
    with pytest.raises(InputError, match="image_id 5 must name one image") as caught:
        metric.compute()
    assert not metric._is_synced and len(metric.state().images) == len(range(rank, IMAGES, world))
    return str(caught.value)


def _all(rank: int, world: int) -> list[Any]:
    return [work(rank, world) for work in (_padding_sampler, _one_rank_has_it_all, _constant_id)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    return run_ranks(_all, tmp_path_factory.mktemp("ranks"))


def test_images_repeated_by_a_padding_sampler_count_once(answers: list[list[Any]]) -> None:
    alone = _scalars(fed(MeanAveragePrecision("xywh"), *_scene()))
    for answer in answers:
        assert answer[0]["values"] == alone["values"]
        assert answer[0]["counts"] == {**alone["counts"], "repeated_images": -IMAGES % WORLD}


def test_ranks_without_data_give_the_value_of_one_process(answers: list[list[Any]]) -> None:
    alone = _scalars(fed(MeanAveragePrecision("xywh"), *_scene(ids=False)))
    assert [answer[1] for answer in answers] == [alone] * WORLD


def test_one_id_with_two_ground_truths_raises_on_every_rank(answers: list[list[Any]]) -> None:
    assert len({answer[2] for answer in answers}) == 1
