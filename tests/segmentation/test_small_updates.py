"""Updates of region counts by plans leave the states of the checked path, and errors leave the metric alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.contract import METRICS, condition, unchanged
from valor_gpu.errors import InputError
from valor_gpu.plans import checked_only
from valor_gpu.segmentation import IOU, MeanIoU, mIOU
from valor_gpu.segmentation.region_base import RegionState

_CASES = [case for case in METRICS if isinstance(case.make(), RegionState)]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_plans_leave_the_state_of_the_checked_path(case: Any) -> None:
    metric, checked = case.make(), case.make()
    for batch in (case.batch(0), case.single(), case.empty(), case.batch(1)):
        metric.update(*batch)
        with checked_only():
            checked.update(*batch)
        assert condition(metric) == condition(checked)
    with unchanged(metric), pytest.raises(InputError, match="must"):
        metric.update(*case.bad())
    with unchanged(metric), pytest.raises((InputError, TypeError), match=r"preds|target"):
        metric.update({}, batch[1])


def test_other_channels_change_nothing() -> None:
    metric = MeanIoU()
    metric.update(*(torch.ones(1, 2, 4, 4, dtype=torch.bool),) * 2)
    with unchanged(metric), pytest.raises(InputError, match="2"):
        metric.update(*(torch.ones(1, 3, 4, 4, dtype=torch.bool),) * 2)


_TYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32)


def _laid_out(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same values in another memory layout."""
    order = torch.randperm(values.ndim, generator=generator).tolist()
    moved = values.permute(order).contiguous().permute([order.index(i) for i in range(values.ndim)])
    kind = int(torch.randint(4, (), generator=generator))
    if kind == 0:
        return values.contiguous()
    if kind == 1 and values.ndim > 2:  # as torch.nn.functional.one_hot and movedim leave it
        return values.movedim(1, -1).contiguous().movedim(-1, 1)
    wide = torch.zeros((*values.shape[:-1], 2 * values.shape[-1]), dtype=values.dtype)
    return moved if kind == 2 else wide[..., ::2].copy_(values)


def region_batch(
    generator: torch.Generator, classes: int, form: str, ignore: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maps of 1 to 3 images, of any layout and dtype; one in ten has a value out of range."""
    images, height, width = (int(torch.randint(1, top, (), generator=generator)) for top in (4, 9, 70))
    sides = []
    for one_hot in {"index": (0, 0), "one-hot": (1, 1), "mixed": (1, 0)}[form]:
        dtype = _TYPES[int(torch.randint(len(_TYPES), (), generator=generator))]
        size = (images, classes, height, width) if one_hot else (images, height, width)
        side = torch.randint(2 if one_hot else classes, size, generator=generator)
        if dtype is torch.bool and not one_hot:
            dtype = torch.uint8
        if float(torch.rand((), generator=generator)) < 0.1 and dtype is not torch.bool:
            side.view(-1)[int(torch.randint(side.numel(), (), generator=generator))] = 101
        if not one_hot and ignore is not None and ignore >= 0:
            side[:, :1] = ignore
        sides.append(_laid_out(side.to(dtype), generator))
    return sides[0], sides[1]


def _outcome(metric: Any, batch: tuple[Any, Any]) -> str:
    try:
        metric.update(*batch)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("form", ["index", "one-hot", "mixed"])
@pytest.mark.parametrize("per_image", [False, True])
def test_plans_of_random_maps_do_what_the_checked_path_does(form: str, per_image: bool) -> None:
    generator = torch.Generator().manual_seed(len(form) + per_image)
    planned = refused = 0
    for turn in range(60):
        classes = (1, 2, 5, 19, 128, 129)[turn % 6]
        ignore = (None, None, 0, classes - 1, 77, -1)[int(torch.randint(6, (), generator=generator))]
        metrics: list[Any] = [IOU(classes, ignore_index=ignore, input_format=form) for _ in range(2)]
        if per_image:
            metrics = [mIOU(classes, ignore_index=ignore, input_format=form) for _ in range(2)]
        batch = region_batch(generator, classes, form, ignore)
        for _ in range(2):  # a plan is made, then found
            said = _outcome(metrics[0], batch)
            with checked_only():
                assert _outcome(metrics[1], batch) == said
            assert condition(metrics[0]) == condition(metrics[1])
        refused += bool(said)
        planned += metrics[0].update.step(metrics[0]._defaults, batch, {}) is not None
    assert planned > 30 and refused > 2


def test_a_plan_serves_no_map_in_another_place_of_its_memory() -> None:
    metric, checked = IOU(3), IOU(3)
    memory = torch.randint(3, (2, 4, 6), generator=torch.Generator().manual_seed(1))
    for at in (0, 1):
        metric.update(memory[at : at + 1], memory[1 - at : 2 - at])
        with checked_only():
            checked.update(memory[at : at + 1], memory[1 - at : 2 - at])
    assert condition(metric) == condition(checked)


def test_another_task_makes_other_plans() -> None:
    metric: Any = IOU(3)
    maps = torch.tensor([[[0, 1], [2, 2]]])
    metric.update(maps, maps)
    metric.task = metric.task._replace(ignore_index=2)
    metric.update(maps, maps)
    assert metric.seen.tolist() == [2, 8, 2]


def test_a_subclass_counts_as_it_says() -> None:
    class Crossed(IOU):
        def _batch_state(self, batch: Any, counts: Any, seen: Any) -> Any:
            return super()._batch_state(batch, counts.flip(-1), seen)

    metric, checked = Crossed(2), Crossed(2)
    maps = torch.tensor([[[0, 0], [0, 1]]])
    metric.update(maps, maps)
    with checked_only():
        checked.update(maps, maps)
    assert metric.counts.tolist() == checked.counts.tolist() == [[1, 3]] * 3


def test_more_values_than_an_error_code_tells_apart_are_an_error() -> None:
    many = torch.zeros((1, 1, 1, 1), dtype=torch.bool).expand(1, 20, 15_000, 15_000)  # one byte
    with pytest.raises(InputError, match="must have at most 4294967296 values an image"):
        MeanIoU(20).update(many, many)
