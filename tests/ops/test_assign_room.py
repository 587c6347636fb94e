"""assign on CUDA where images do not fit into 16 KiB: shared memory on demand, counts that decide, workspaces."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import valor_gpu.ops.assign.op as op_module
from testing.scenes import COCO_AREAS, COCO_THRESHOLDS
from tests.native import sim
from tests.ops.backends import SIM_SEEDS
from tests.ops.test_assign import RULES, arguments
from tests.ops.test_assign_cuda import COLUMNS, assert_same, cpu, reference, sized_scene
from valor_gpu import native
from valor_gpu.ops.assign import cuda as _assign_cuda
from valor_gpu.ops.assign.match_batch import HASHED, WANT_MATCHES, MatchBatch, Matched, MatchRule

ROOM = (100, 600)
"""Room of a padded image: 47 KiB, with which two work on a multiprocessor at once."""
KIB = 1 << 10
MULTIPROCESSORS, OF_MULTIPROCESSOR, OF_BLOCK, RESERVED = 2, 100 * KIB, 99 * KIB, KIB
"""As csrc/sim/machine.h has them."""


def padded(sizes: list[tuple[int, int]], room: tuple[int, int] = ROOM) -> MatchBatch:
    batch = sized_scene(sizes, classes=2, seed=len(sizes)).batch()
    counts = batch.lengths.clone()
    columns = {}
    for name in COLUMNS:
        size = room[name.startswith("gt_")]
        rows = [torch.cat((x, x.new_full((size - len(x), *x.shape[1:]), 7))) for x in getattr(batch, name)]
        columns[name] = [
            torch.cat(rows).to(torch.float32 if name in ("boxes", "scores", "gt_boxes") else rows[0].dtype)
        ]
    lengths = torch.tensor([[size] * len(sizes) for size in room])
    return replace(batch, **columns, lengths=lengths, counts=counts[0], gt_counts=counts[1])


def run(batch: MatchBatch, rule: MatchRule) -> Matched:
    return Matched(*sim.simulated_kernel(op_module._assign_on_cuda)(*arguments(batch, rule)))  # type: ignore[misc]


SIZES = [(100, 7), (0, 0), (30, 500), (100, 250), (1, 1), (100, 500)]


@pytest.mark.smoke
@pytest.mark.parametrize("seed", ["", *SIM_SEEDS])
@pytest.mark.parametrize(("images", "name"), [(4, "coco"), (6, "coco"), (24, "coco"), (24, "many_settings")])
def test_padding_beyond_16_kib(images: int, name: str, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    batch, rule = padded((SIZES * 4)[:images]), MatchRule.make(*RULES[name])
    sim.simulated()
    sim.launches()
    assert_same(run(batch, rule), cpu(batch, rule))
    assert len(sim.launches()) == (2 if images > 4 and name == "coco" else 1)


def test_small_counts_leave_the_workspace_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made, empty = [], torch.empty

    def recorded(*shape: Any, **options: Any) -> torch.Tensor:
        made.append(empty(*shape, **options))
        return made[-1].fill_(77) if made[-1].dtype == torch.uint8 else made[-1]

    batch, rule = padded(SIZES * 4), MatchRule.make(*RULES["coco"])
    expected = cpu(batch, rule)
    monkeypatch.setattr(torch, "empty", recorded)
    assert_same(run(batch, rule), expected)
    pieces = max(made, key=torch.numel).reshape(24, -1)
    touched = [bool((piece != 77).any()) for piece in pieces]
    assert touched == [size in ((30, 500), (100, 250), (100, 500)) for size in SIZES * 4]


@pytest.mark.parametrize("images", [4, 24])
@pytest.mark.parametrize("fault", ["scores", "counts", "gt_counts"])
def test_an_error_empties_its_image_alone(images: int, fault: str) -> None:
    batch, rule = padded((SIZES * 4)[:images]), MatchRule.make(*RULES["coco"])
    if fault == "scores":
        batch.scores[0][5] = torch.nan
    else:
        getattr(batch, fault)[1] = 601 if fault == "gt_counts" else -1
    found = assert_same(run(batch, rule), reference(batch, rule))
    image = int(fault != "scores")
    assert (found.detections[100 * image : 100 * image + 100, 12] == 255).all()


def plan_of(sizes: list[tuple[int, int]], equal: bool = False) -> tuple[list[int], list[int]]:
    """Returns the words of the plan, and the images in the order of its table."""
    images, rule = len(sizes), MatchRule.make(COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], HASHED)
    words = rule.words({"boxes": 0}, 0, 0)
    with sim.serving("valor_cuda", sim.simulated()):
        places = native.fields("valor_cuda", "Segment")
        segments = np.zeros((len(places), images), np.int64)
        segments[places["detections"]], segments[places["ground_truths"]] = zip(*sizes)
        table, found = np.zeros((len(places) + 2, images), np.int64), array("q", bytes(24))
        each = np.array(sizes[0])
        native.function("valor_cuda", "valor_plan_assign_cuda")(
            segments.ctypes.data, images, each.ctypes.data if equal else 0, words, 0, table.ctypes.data,
            found.buffer_info()[0],
        )  # fmt: skip
    return found.tolist(), table[len(places)].tolist()


def need_of(detections: int, ground_truths: int) -> tuple[int, int]:
    """Working memory of an image, and shared memory with its rows of 23 bytes."""
    memory = 16 * detections + 16 * max(128, ground_truths + 32) + (32 + 25) * ground_truths
    memory = -(-memory // 16) * 16
    return memory, memory + 16 + 23 * detections


def room_of(blocks: int) -> int:
    return (min(OF_BLOCK, OF_MULTIPROCESSOR // blocks - RESERVED) - KIB) // 128 * 128


@pytest.mark.parametrize("images", [1, 2, 3, 6, 7, 40])
@pytest.mark.parametrize("room", [(100, 7), (100, 300), (100, 1000), (300, 2000)])
def test_padded_images_have_room_while_all_work_at_once(images: int, room: tuple[int, int]) -> None:
    memory, shared = need_of(*room)
    most = max(16 * KIB, room_of(-(-images // MULTIPROCESSORS)))
    expected = [0, shared, 0] if shared <= most else [images * memory, most, images]
    assert plan_of([room] * images, equal=True)[0] == expected


SHAPES: dict[str, Callable[[np.random.Generator], list[tuple[int, int]]]] = {
    "small": lambda rng: [(int(n), 7) for n in rng.integers(0, 100, 300)],
    "one large": lambda rng: [(50, 5)] * 200 + [(700, 90)],
    "two, one large": lambda rng: [(50, 5), (300, 900)],
    "one larger than a block": lambda rng: [(50, 5), (300, 3000)],
    "many large": lambda rng: [(100, int(m)) for m in rng.integers(0, 900, 100)],
    "few large": lambda rng: [(100, 7)] * 900 + [(300, 100)] * 30,
    "empty": lambda rng: [(0, 0)] * 3,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_images_of_a_table_share_the_multiprocessors(shape: str) -> None:
    """The cost of each number of blocks at once, by a plain loop; the fewest of equal cost."""
    sizes = SHAPES[shape](np.random.default_rng(3))
    needs = [need_of(*size) for size in sizes]
    costs = {}
    for blocks in range(1, 22):
        large = sum(shared > room_of(blocks) for _, shared in needs)
        costs[blocks] = max(1.0, (len(sizes) - large) / (MULTIPROCESSORS * blocks))
        costs[blocks] += 4.0 * max(1.0, large / (MULTIPROCESSORS * 16)) if large else 0.0
    most = room_of(min(costs, key=costs.__getitem__))
    large = [i for i, (_, shared) in enumerate(needs) if shared > most]
    words, order = plan_of(sizes)
    small = [shared for _, shared in needs if shared <= most]
    assert words == [sum(needs[i][0] for i in large), max(small, default=0), len(large)]
    assert sorted(order) == list(range(len(sizes))) and order[: len(large)] == large


def test_a_table_whose_images_take_more_than_48_kib() -> None:
    batch = sized_scene([(300, 700), (20, 3)], classes=2).batch()
    rule = MatchRule.make(COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], HASHED | WANT_MATCHES)
    assert plan_of([(300, 700), (20, 3)])[0] == [0, need_of(300, 700)[1], 0] and need_of(300, 700)[1] > 48 * KIB
    assert (assert_same(run(batch, rule), cpu(batch, rule)).matches >= 0).sum() > 1000


def test_fields_of_the_table_are_those_of_the_plan() -> None:
    with sim.serving("valor_cuda", sim.simulated()):
        assert _assign_cuda._table_fields() == len(native.fields("valor_cuda", "Segment")) + 2
