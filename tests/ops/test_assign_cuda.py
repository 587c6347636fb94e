"""assign on CUDA: under the simulator and on a device, equal to the C++ kernel by bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import valor_gpu.ops.assign.op as op_module
from testing.scenes import COCO_AREAS, COCO_THRESHOLDS, Scene, random_scene
from tests.detection.test_open_images import random_images
from tests.native.sim import simulated_kernel
from tests.ops.backends import BACKENDS, SIM_SEEDS
from tests.ops.test_assign import ERRORS, RULES, SQUARE, arguments, one_image
from valor_gpu.errors import InputError
from valor_gpu.inputs.expansion import Rows
from valor_gpu.inputs.hierarchy import ClassHierarchy
from valor_gpu.inputs.open_images import Expansion, open_images_batch
from valor_gpu.ops import _library
from valor_gpu.ops.assign import cuda as _assign_cuda
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    CROWD,
    FREE,
    GROUP,
    GROUP_OF,
    HASHED,
    IGNORED,
    UNMATCHED_IGNORED,
    WANT_MATCHES,
    MatchBatch,
    Matched,
    MatchRule,
)
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error

COLUMNS = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags", "gt_areas")
Op = Callable[[MatchBatch, MatchRule], Matched]


def on_device(batch: MatchBatch, rule: MatchRule) -> Matched:
    def move(value: Any) -> Any:
        return [t.cuda() for t in value] if isinstance(value, list) else value.cuda()

    names = [*COLUMNS, "areas", "flags", *(["image_ids"] if len(batch.image_ids) > 1 else [])]
    names += [name for name in ("counts", "gt_counts") if getattr(batch, name) is not None]
    there = replace(batch, **{name: move(getattr(batch, name)) for name in names})
    out = torch.ops.valor_gpu.assign.default(*arguments(there, rule))
    return Matched(*(tensor.cpu() for tensor in out))


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "cpu"])
def op(request: pytest.FixtureRequest) -> Op:
    if request.param != "simulated":
        return on_device
    kernel = simulated_kernel(op_module._assign_on_cuda)
    return lambda batch, rule: kernel(*arguments(batch, rule))


@pytest.fixture(params=["", *SIM_SEEDS])
def order_of_lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("VALOR_SIM_SEED", request.param)
    yield


def cpu(batch: MatchBatch, rule: MatchRule) -> Matched:
    served = next(op for op in _library.backends() if op.name == "assign")
    assert served.cpu.kind == "C++", served.cpu.reason
    return Matched(*torch.ops.valor_gpu.assign.default(*arguments(batch, rule)))


def assert_same(got: Matched, expected: Matched) -> Matched:
    for name, mine, other in zip(Matched._fields, got, expected):
        assert mine.dtype == other.dtype and torch.equal(mine, other), name
    return got


def check(op: Op, batch: MatchBatch, rule: MatchRule) -> Matched:
    return assert_same(op(batch, rule), cpu(batch, rule))


def sized_scene(sizes: list[tuple[int, int]], classes: int = 3, seed: int = 0) -> Scene:
    """Images of (detections, ground truths) each; ground truths overlap, so that candidates are many."""
    rng = np.random.default_rng(seed)
    scene = Scene([], [], [], [], [], [], [])
    for found, num in sizes:
        gt_boxes = np.round(np.concatenate([rng.uniform(0, 30, (num, 2)), rng.uniform(10, 40, (num, 2))], 1))
        boxes = np.round(np.concatenate([rng.uniform(0, 30, (found, 2)), rng.uniform(10, 40, (found, 2))], 1))
        hits = rng.random(found) < 0.5
        if num:
            boxes[hits] = gt_boxes[rng.integers(0, num, hits.sum())] + rng.integers(-1, 2, (hits.sum(), 4))
        scene.boxes.append(torch.tensor(boxes))
        scene.scores.append(torch.tensor(np.round(rng.random(found), 2)))
        scene.labels.append(torch.tensor(rng.integers(0, classes, found)))
        scene.gt_boxes.append(torch.tensor(gt_boxes))
        scene.gt_labels.append(torch.tensor(rng.integers(0, classes, num)))
        scene.crowds.append(torch.tensor((rng.random(num) < 0.1).astype(np.int64)))
        scene.areas.append(torch.tensor(gt_boxes[:, 2] * gt_boxes[:, 3]))
    return scene


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("images", [1, 16, pytest.param(17, marks=pytest.mark.smoke), 40])
def test_equals_the_cpu_kernel(op: Op, name: str, images: int) -> None:
    scene = random_scene(np.random.default_rng([images, 3]), images=images, most=60)
    check(op, scene.batch(), MatchRule.make(*RULES[name]))


@pytest.mark.parametrize("name", ["coco", "agnostic", "many_settings"])
def test_the_order_of_lanes_changes_nothing(op: Op, name: str, order_of_lanes: None) -> None:
    scene = sized_scene([(40, 9), (0, 3), (70, 50), (3, 0), (33, 33)], classes=2)
    check(op, scene.batch(), MatchRule.make(*RULES[name]))


@pytest.mark.parametrize("classes", [1, 2, 40])
def test_images_and_cells_of_every_size(op: Op, classes: int) -> None:
    sizes = [(n, m) for n in (0, 1, 31, 32, 33, 65, 129) for m in (0, 1, 31, 32, 33, 66)]
    check(op, sized_scene(sizes, classes).batch(), MatchRule.make(*RULES["coco"]))


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["coco", "agnostic", "many_settings"])
def test_images_too_large_for_shared_memory(op: Op, name: str) -> None:
    scene = sized_scene([(20, 5), (700, 90), (3, 400), (500, 0), (10, 10)])
    found = check(op, scene.batch(), MatchRule.make(*RULES[name]))
    assert (found.matches >= 0).sum() > 1000


ZERO = ([0.0, 0.3, 0.5, 0.5], COCO_AREAS, [1, 10, 100], HASHED | WANT_MATCHES)
"""Every pair of a class is a candidate."""


@pytest.mark.parametrize("options", [0, AGNOSTIC])
def test_lists_of_candidates_that_fill_up_many_times(op: Op, order_of_lanes: None, options: int) -> None:
    scene = sized_scene([(60, 70), (100, 33), (64, 96), (40, 129), (90, 1)], classes=2)
    rule = MatchRule.make(*ZERO[:3], ZERO[3] | options)
    assert (check(op, scene.batch(), rule).matches >= 0).sum() > 1000


@pytest.mark.parametrize("name", ["coco", "zero"])
def test_images_of_equal_size_need_no_table(op: Op, name: str) -> None:
    rule = MatchRule.make(*{**RULES, "zero": ZERO}[name])
    for sizes in ((20, 6), (0, 4), (400, 300)):
        scene = sized_scene([sizes] * 18, classes=2)
        batch = scene.batch(image_ids=[torch.arange(18)])
        flat = replace(batch, **{column: [torch.cat(getattr(batch, column))] for column in COLUMNS})
        assert_same(op(batch, rule), check(op, flat, rule))


def test_no_capacity_limit_on_ground_truths_of_a_cell(op: Op) -> None:
    n = 300
    batch = one_image([SQUARE] * n, [1 - i / n for i in range(n)], [SQUARE] * n)
    out = op(batch, MatchRule.make([0.5], [[0, 1e10]], [n], WANT_MATCHES))
    assert out.matches.reshape(-1).tolist() == list(range(n))[::-1]


@pytest.mark.smoke
@pytest.mark.parametrize("areas", [COCO_AREAS, [[0, 1e10]]])
def test_numbers_that_parameters_have_no_room_for(op: Op, areas: list[list[float]]) -> None:
    rule = MatchRule.make(np.linspace(0.05, 0.95, 70).tolist(), areas, [1, 10, 100], HASHED | WANT_MATCHES)
    check(op, random_scene(np.random.default_rng(4), images=5).batch(), rule)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("box_format", [0, 1, 2])
def test_dtypes_and_formats(op: Op, dtype: torch.dtype, box_format: int) -> None:
    scene = random_scene(np.random.default_rng(box_format), dtype=dtype)
    batch = scene.batch(box_format=box_format, gt_box_format=(box_format + 1) % 3)
    check(op, batch, MatchRule.make(*RULES["coco"]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_label_and_flag_dtypes(op: Op, dtype: torch.dtype) -> None:
    scene = random_scene(np.random.default_rng(5))
    changes = {name: [x.to(dtype) for x in getattr(scene.batch(), name)] for name in COLUMNS if "label" in name}
    flags = [x.to(torch.bool if dtype == torch.uint8 else dtype) for x in scene.crowds]
    check(op, scene.batch(gt_flags=flags, **changes), MatchRule.make(*RULES["coco"]))


def test_labels_at_the_ends_of_int32(op: Op) -> None:
    scene = random_scene(np.random.default_rng(11))
    far = torch.tensor([-(2**31), 2**31 - 1, -1, 0])
    batch = scene.batch(labels=[far[x] for x in scene.labels], gt_labels=[far[x] for x in scene.gt_labels])
    check(op, batch, MatchRule.make(*RULES["coco"]))


@pytest.mark.parametrize("images", [3, 70])
def test_one_flat_tensor_equals_a_tensor_an_image(op: Op, images: int) -> None:
    batch = random_scene(np.random.default_rng(9), images=images).batch()
    rule = MatchRule.make(*RULES["coco"])
    flat = replace(batch, **{name: [torch.cat(getattr(batch, name))] for name in COLUMNS})
    assert_same(op(batch, rule), check(op, flat, rule))


@pytest.mark.parametrize("images", [1, 5, 20])
@pytest.mark.parametrize("where", ["by_value", "by_address"])
def test_image_ids(op: Op, images: int, where: str) -> None:
    ids = torch.randint(-(2**62), 2**62, (images,), generator=torch.Generator().manual_seed(images))
    scene = random_scene(np.random.default_rng(images), images=images)
    batch = scene.batch(image_ids=[ids] if where == "by_value" else list(ids.reshape(-1, 1)))
    out = check(op, batch, MatchRule.make(*RULES["coco"]))
    assert out.images[:, 0].tolist() == ids.tolist() and out.images[:, 1].tolist() == [1] * images


@pytest.mark.smoke
@pytest.mark.parametrize("images", [4, 30])
def test_padded_batches(op: Op, images: int) -> None:
    scene = random_scene(np.random.default_rng(13), images=images, most=50, dtype=torch.float32)
    batch = scene.batch()
    counts = batch.lengths.clone()
    wide = (counts.amax(1) + 2).tolist()
    columns = {}
    for name in COLUMNS:
        size = wide[name.startswith("gt_")]
        rows = [torch.cat((x, x.new_full((size - len(x), *x.shape[1:]), 7))) for x in getattr(batch, name)]
        columns[name] = [torch.cat(rows)]
    lengths = torch.tensor([[size] * images for size in wide])
    padded = replace(batch, **columns, lengths=lengths, counts=counts[0], gt_counts=counts[1])
    out = check(op, padded, MatchRule.make(*RULES["coco"]))
    assert (out.detections[:, 12] == 255).sum() == images * wide[0] - counts[0].sum()


def test_flags_and_areas_that_only_coco_gives(op: Op) -> None:
    scene = sized_scene([(60, 20), (10, 40), (200, 3)], classes=2)
    rng = np.random.default_rng(1)
    sizes = [[len(x) for x in side] for side in (scene.labels, scene.gt_labels)]
    batch = scene.batch(
        gt_flags=[torch.tensor(rng.integers(0, 8, m)) for m in sizes[1]],
        gt_areas=[torch.tensor(rng.choice([-5.0, 0.0, 1024.0, 9216.0, 50.5], m)) for m in sizes[1]],
        areas=[torch.tensor(rng.choice([0.0, 1024.0, 9216.0, 1e5], n)) for n in sizes[0]],
        flags=[torch.tensor(rng.choice([0, 0, FREE, UNMATCHED_IGNORED, 3], n), dtype=torch.uint8) for n in sizes[0]],
    )
    check(op, batch, MatchRule.make(COCO_THRESHOLDS, COCO_AREAS, [0, 1, 10], WANT_MATCHES))


@pytest.mark.parametrize("thresholds", [COCO_THRESHOLDS, np.linspace(0, 0.95, 40).tolist()])
def test_the_rule_of_open_images(op: Op, thresholds: list[float], order_of_lanes: None) -> None:
    scene = sized_scene([(60, 20), (10, 40), (90, 3), (500, 200)], classes=2)
    rng = np.random.default_rng(1)
    batch = scene.batch(
        gt_flags=[torch.tensor(rng.choice([0, 0, CROWD, CROWD | GROUP, IGNORED], len(x))) for x in scene.gt_labels],
        flags=[torch.tensor(rng.choice([0, FREE, UNMATCHED_IGNORED], len(x)), dtype=torch.uint8) for x in scene.labels],
    )
    check(op, batch, MatchRule.make(thresholds, COCO_AREAS, [1, 100], WANT_MATCHES, GROUP_OF))


@pytest.mark.parametrize("expand", [False, True])
def test_an_expanded_batch_of_open_images(op: Op, expand: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of verified classes first in the room of each image, as update hands them over on a GPU."""
    monkeypatch.setattr(Rows, "compact", lambda rows: (rows.sorted(), rows.count(rows.real)))
    preds, target = random_images(9, images=20)
    hierarchy = ClassHierarchy.of({1: [0], 2: [0], 3: [1, 2]}, None)
    batch = open_images_batch(preds, target, "xyxy", Expansion(hierarchy, expand, 1)).batch
    assert batch.counts is not None and bool((batch.counts < batch.lengths[0]).any())
    check(op, batch, MatchRule.make([0.5], [[-np.inf, np.inf]], [2**31 - 1], HASHED | WANT_MATCHES, GROUP_OF))


def test_nan_and_infinite_scores_where_allowed(op: Op) -> None:
    batch = sized_scene([(64, 12), (40, 8)], classes=2).batch()
    odd = torch.tensor([float("nan"), float("inf"), -0.0, 0.0, -float("inf"), 0.5], dtype=torch.float64)
    scores = [odd[torch.arange(len(x)) % 6] for x in batch.scores]
    check(op, replace(batch, scores=scores), MatchRule.make(COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], WANT_MATCHES))


def reference(batch: MatchBatch, rule: MatchRule) -> Matched:
    return Matched(*_library.reference("assign")(*arguments(batch, rule)))


@pytest.mark.parametrize("name", ERRORS)
def test_an_image_with_an_error_counts_as_empty(op: Op, name: str) -> None:
    batch = replace(one_image([SQUARE, SQUARE], [0.9, 0.8], [SQUARE]), **ERRORS[name][0])
    rule = MatchRule.make(*RULES["coco"])
    found = assert_same(op(batch, rule), reference(batch, rule))
    with pytest.raises(InputError, match=ERRORS[name][1]):
        raise_error(found.error, describe_box)


def test_the_first_error_of_a_batch_is_reported(op: Op, order_of_lanes: None) -> None:
    batch = sized_scene([(50, 40), (50, 40), (50, 40), (50, 40)]).batch()
    for image, row in ((3, 1), (2, 45), (2, 37)):
        batch.boxes[image][row, 2] = float("inf")
    batch.gt_areas[2][35] = float("nan")
    batch.scores[2][35] = float("nan")
    rule = MatchRule.make(*RULES["coco"])
    found = assert_same(op(batch, rule), reference(batch, rule))
    with pytest.raises(InputError, match=r"preds\[2\]\['scores'\]\[35\] must not be NaN"):
        raise_error(found.error, describe_box)
    assert (found.detections[:, 12] == 255).tolist() == [False] * 100 + [True] * 100


def test_nothing_found_leaves_the_error_code(op: Op) -> None:
    assert int(op(random_scene(np.random.default_rng(2)).batch(), MatchRule.make(*RULES["coco"])).error) == NO_ERROR


@pytest.mark.smoke
def test_errors_go_into_the_word_that_is_given() -> None:
    batch, rule = sized_scene([(20, 4)] * 3).batch(), MatchRule.make(*RULES["coco"])
    run = simulated_kernel(_assign_cuda.run)
    word = torch.tensor(NO_ERROR)
    assert run(batch, rule, word).error is word and int(word) == NO_ERROR
    batch.scores[1][7] = float("nan")
    own = run(batch, rule).error
    assert describe_box(int(own)) == "preds[1]['scores'][7] must not be NaN"
    for held, expected in ((NO_ERROR, own), (own + 16, own), (own - 16, own - 16)):
        word.fill_(held)
        assert run(batch, rule, word).error is word and word == expected


def test_columns_of_other_lengths_are_rejected() -> None:
    batch = sized_scene([(5, 4)]).batch()
    kernel = simulated_kernel(op_module._assign_on_cuda)
    with pytest.raises(InputError, match="scores must have 5 rows, as lengths say, but has 4"):
        kernel(*arguments(replace(batch, scores=[batch.scores[0][:4]]), MatchRule.make(*RULES["coco"])))


@pytest.mark.parametrize(("name", "at"), [("scores", 1), ("gt_flags", 0), ("counts", 0), ("image_ids", 1)])
def test_tensors_on_another_device_are_named(name: str, at: int) -> None:
    batch = random_scene(np.random.default_rng(2), images=2).batch(image_ids=list(torch.arange(2)))
    elsewhere: Any = batch.lengths[0].to("meta")
    if name != "counts":
        elsewhere = list(getattr(batch, name))
        elsewhere[at] = elsewhere[at].to("meta")
    kernel = simulated_kernel(op_module._assign_on_cuda)
    with pytest.raises(InputError, match=rf"{name}\[{at}\] must be on cpu like boxes\[0\] but is on meta"):
        kernel(*arguments(replace(batch, **{name: elsewhere}), MatchRule.make(*RULES["coco"])))


@pytest.mark.parametrize(("constant", "value"), [("_IMAGES_BY_VALUE", 99), ("_NUMBERS_BY_VALUE", 999)])
def test_the_kernel_rejects_what_it_has_no_room_for(monkeypatch: pytest.MonkeyPatch, constant: str, value: int) -> None:
    monkeypatch.setattr(_assign_cuda, constant, value)
    batch = sized_scene([(1000, 1)] + [(1, 1)] * 16).batch()
    rule = MatchRule.make(np.linspace(0.05, 0.95, 70).tolist(), COCO_AREAS, [100])
    with pytest.raises(AssertionError, match="valor_assign_cuda failed with status 1"):
        simulated_kernel(op_module._assign_on_cuda)(*arguments(batch, rule))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("images", [2, 40])
def test_nothing_waits_for_the_device(images: int) -> None:
    batch = random_scene(np.random.default_rng(1), images=images).batch()
    there = {name: [x.cuda() for x in getattr(batch, name)] for name in COLUMNS}
    ids = torch.arange(images)
    moved = replace(batch, **there, image_ids=[ids.cuda()])
    rule = MatchRule.make(*RULES["coco"])
    for mode in ("default", "error"):  # the first call may load the library
        torch.cuda.set_sync_debug_mode(mode)
        try:
            out = op_module.assign(moved, rule)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    expected = cpu(replace(batch, image_ids=[ids]), rule)
    assert_same(Matched(*(tensor.cpu() for tensor in out)), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("images", [2, 40])
def test_a_cuda_graph_captures_it(images: int) -> None:
    rule = MatchRule.make(*RULES["coco"])
    batches = [random_scene(np.random.default_rng(seed), images=images).batch() for seed in (1, 1)]
    there = {name: [x.cuda() for x in getattr(batches[0], name)] for name in COLUMNS}
    moved, graph, word = replace(batches[0], **there), torch.cuda.CUDAGraph(), torch.tensor(NO_ERROR).cuda()
    op_module.assign(moved, rule, word)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = op_module.assign(moved, rule, word)
    for mine, other in zip(there["scores"], batches[1].scores):
        mine.copy_(other.neg_())  # a replay reads what the tensors hold by then
    graph.replay()
    torch.cuda.synchronize()
    assert_same(Matched(*(tensor.cpu() for tensor in out)), cpu(batches[1], rule))
