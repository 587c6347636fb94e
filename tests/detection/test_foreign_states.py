"""States of detection that contradict themselves are rejected, and choices that nothing else pins."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contract import condition
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.op import order_records

BOX = torch.tensor([[0.0, 0, 10, 10]])


def metric_of_four_images(**choices: Any) -> MeanAveragePrecision:
    metric = MeanAveragePrecision(**choices)
    for image in range(4):
        labels = torch.tensor([0])
        metric.update(
            [dict(boxes=BOX, scores=torch.tensor([0.5]), labels=labels)],
            [dict(boxes=BOX, labels=labels, image_id=image)],
        )
    return metric


def tables(metric: MeanAveragePrecision) -> dict[str, Tensor]:
    return {
        name: (torch.cat(part) if isinstance(part, list) else part).clone()
        for name, part in metric.metric_state.items()
    }


def cut(field: str, rows: int) -> Any:
    return lambda state: state.update({field: state[field][:rows]})


def put(field: str, place: Any, value: float) -> Any:
    return lambda state: state[field].__setitem__(place, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("images", (0, 4), 10**6), r"images\[0\] must count from 0 to 4 detections in column 4 but is"),
        (put("images", (0, 4), -1), r"images\[0\] must count from 0 to 4 detections in column 4"),
        (put("images", (2, 4), 0), "detections must have 3 rows, as images say, but has 4"),
        (put("images", (0, 5), -3), r"images\[0\] must count from 0 to 4 ground_truths in column 5"),
        (put("images", (0, 1), 2), r"images\[0\] must say by 0 or 1 in column 1 whether it has an id"),
        (cut("detections", 2), "detections must have 4 rows, as images say, but has 2"),
        (cut("ground_truths", 1), "ground_truths must have 4 rows, as images say, but has 1"),
        (cut("images", 2), "detections must have 2 rows, as images say, but has 4"),
        (put("detections", slice(None), 255), r"detections\[0\] must hold a score that is not NaN"),
        (put("detections", (1, 12), 4), r"detections\[1\] must hold a limit from 0 to 3, or 255, in byte 12"),
        (put("ground_truths", (1, 4), 255), r"ground_truths\[1\] must hold the bits of one that counts"),
        (put("error", (), -5), "error must be an error code but is -5"),
    ],
)
def test_a_state_that_contradicts_itself_is_rejected(change: Any, message: str) -> None:
    source = metric_of_four_images()
    state = tables(source)
    change(state)
    merged, loaded = metric_of_four_images(), MeanAveragePrecision()
    before = condition(merged)
    with pytest.raises(InputError, match=message):
        merged.merge_state(state)
    assert condition(merged) == before
    loaded.persistent(True)
    lists = {name: [part] if part.ndim == 2 else part for name, part in state.items()}
    with pytest.raises(RuntimeError, match=message):
        loaded.load_state_dict(lists)
    assert int(loaded.update_count) == 0 and loaded.images == []


@pytest.mark.parametrize("byte", [13, 14])
def test_bits_beyond_the_settings_are_rejected(byte: int) -> None:
    """Of one threshold and four area ranges half a byte says what is matched, and half a byte what is ignored."""
    metric = metric_of_four_images(iou_thresholds=[0.5])
    state = tables(metric)
    assert state["detections"].shape[1] == 15
    state["detections"][2, byte] |= 0x10
    with pytest.raises(InputError, match=r"detections\[2\] must have no bits beyond the 4 settings"):
        metric.merge_state(state)


def test_kept_boxes_belong_to_the_rows() -> None:
    source = metric_of_four_images(extended_summary=True)
    for change, message in (
        (cut("boxes", 3), "boxes must have 4 rows, as detections says, but has 3"),
        (put("boxes", (1, 2), torch.nan), r"boxes\[1\] must be finite"),
        (put("gt_boxes", (0, 4), 0.5), r"gt_boxes\[0\] must be finite, with a crowd flag of 0 or 1"),
    ):
        state = tables(source)
        change(state)
        with pytest.raises(InputError, match=message):
            MeanAveragePrecision(extended_summary=True).merge_state(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Tensor.to_sparse, "state field images must be a dense tensor but is torch.sparse_coo"),
        (lambda images: images.to("meta"), "state field images must hold data but is on the device meta"),
    ],
)
def test_states_are_dense_and_hold_data(change: Any, message: str) -> None:
    metric, states = metric_of_four_images(), tables(metric_of_four_images())
    before = condition(metric)
    with pytest.raises(InputError, match=message):
        metric.merge_state({**states, "images": change(states["images"])})
    assert condition(metric) == before


def test_rows_to_order_lie_in_the_table() -> None:
    detections = tables(metric_of_four_images())["detections"]
    for start, length in ((0, 5), (-1, 1), (4, 1), (0, -1), (2**62, 2**62)):
        with pytest.raises(InputError, match="starts and lengths must name rows from 0 to 3"):
            order_records(detections, torch.tensor([start]), torch.tensor([length]), torch.tensor([0]), 3)


def test_of_copies_of_an_image_the_one_with_the_smallest_record_hash_counts() -> None:
    """docs/conventions.md promises it; whichever copy comes first, the same one counts."""
    target = [dict(boxes=BOX, labels=torch.tensor([0]), image_id=7)]
    copies = [
        [dict(boxes=BOX + shift, scores=torch.tensor([score]), labels=torch.tensor([0]))]
        for shift, score in ((0.0, 0.5), (0.5, 0.6), (1.0, 0.7), (1.5, 0.4))
    ]
    alone = []
    for copy in copies:
        metric = MeanAveragePrecision()
        metric.update(copy, target)
        alone.append((int(metric.images[0][0, 3]), float(metric.compute()["map"])))
    assert len({value for _, value in alone}) == 4 and min(alone)[0] != max(alone)[0]
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
        metric = MeanAveragePrecision()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for index in order:
                metric.update(copies[index], target)
            assert float(metric.compute()["map"]) == min(alone)[1]


def test_the_tie_order_is_in_the_signature() -> None:
    for tie_order in ("image", "arrival"):
        assert metric_of_four_images(tie_order=tie_order).result().signature["tie_order"] == tie_order
