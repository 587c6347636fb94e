"""assign: the C++ kernel against the reference, and the reference's own corner cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from testing.scenes import COCO_AREAS, COCO_THRESHOLDS, Scene, random_scene
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.ops._library import reference
from valor_gpu.ops.assign.cpu import assign as assign_arrays
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    CHECK_SCORES,
    COLUMNS,
    HASHED,
    ID_ZERO,
    USER_INPUT,
    WANT_MATCHES,
    MatchBatch,
    Matched,
    MatchRule,
    to_arguments,
)
from valor_gpu.ops.assign.op import assign

ALL = HASHED | CHECK_SCORES | USER_INPUT | WANT_MATCHES
RULES = {
    "coco": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], ALL),
    "agnostic": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], ALL | AGNOSTIC),
    "unsorted_and_repeated": ([0.75, 0.5, 0.5, 0.3], COCO_AREAS, [1, 2, 3], ALL),
    "threshold_zero": ([0.0, 0.5], COCO_AREAS, [5], ALL),
    "threshold_above_one": ([0.5, 1.0, 1.5], COCO_AREAS, [3, 3], ALL),
    "many_settings": (np.linspace(0.1, 0.9, 37), COCO_AREAS, [1, 100], ALL),
    "one_setting": ([0.5], [[0, 1e10]], [100], ALL),
    "wide_area_table": ([0.5, 0.6], [[i * 100, i * 100 + 250] for i in range(13)], [100], ALL),
    "empty_area_range": ([0.5], [[5, 4], [1024, 1024]], [100], ALL),
    "plain": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], 0),
}


def arguments(batch: MatchBatch, rule: MatchRule) -> tuple[object, ...]:
    return to_arguments(batch, rule, torch.from_numpy)


def assert_equals_reference(batch: MatchBatch, rule: MatchRule) -> Matched:
    ours, theirs = assign(batch, rule), Matched(*reference("assign")(*arguments(batch, rule)))
    for name, mine, other in zip(Matched._fields, ours, theirs):
        assert torch.equal(mine, other), name
    return ours


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", seeds(4))
def test_kernel_equals_reference(name: str, seed: int) -> None:
    scene = random_scene(np.random.default_rng([seed, 1]), most=60 if seed else 25)
    assert_equals_reference(scene.batch(), MatchRule.make(*RULES[name]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("box_format", [0, 1, 2])
def test_dtypes_and_formats(dtype: torch.dtype, box_format: int) -> None:
    scene = random_scene(np.random.default_rng(box_format), dtype=dtype)
    batch = scene.batch(box_format=box_format, gt_box_format=(box_format + 1) % 3)
    assert_equals_reference(batch, MatchRule.make(*RULES["coco"]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_label_dtypes(dtype: torch.dtype) -> None:
    scene = random_scene(np.random.default_rng(5))
    labels = [x.to(dtype) for x in scene.labels]
    assert_equals_reference(scene.batch(labels=labels), MatchRule.make(*RULES["coco"]))


def test_one_flat_tensor_equals_a_tensor_an_image() -> None:
    scene = random_scene(np.random.default_rng(9), images=70)
    rule = MatchRule.make(*RULES["coco"])
    batch = scene.batch()
    names = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags", "gt_areas")
    flat = scene.batch(**{name: [torch.cat(getattr(batch, name))] for name in names})
    for mine, other in zip(assign(batch, rule), assign(flat, rule)):
        assert torch.equal(mine, other)


def test_large_labels_and_ids() -> None:
    scene = random_scene(np.random.default_rng(11))
    far = {0: -(2**31), 1: 2**31 - 1, 2: 4000, 3: 0}
    move = lambda column: [torch.tensor([far[int(v)] for v in x], dtype=torch.int64) for x in column]  # noqa: E731
    ids = [torch.tensor([2**62, -1, 0, 5, 5, -(2**63)])]
    batch = scene.batch(labels=move(scene.labels), gt_labels=move(scene.gt_labels), image_ids=ids)
    out = assert_equals_reference(batch, MatchRule.make(*RULES["coco"]))
    assert out.images[:, 0].tolist() == ids[0].tolist() and out.images[:, 1].tolist() == [1] * 6


def test_padded_rows_are_marked_and_change_nothing() -> None:
    scene = random_scene(np.random.default_rng(13), images=5, dtype=torch.float32)
    sizes = [[len(x) for x in scene.labels], [len(x) for x in scene.gt_labels]]
    wide = [max(side) + 2 for side in sizes]
    pad = torch.nn.functional.pad
    fill = {name: 0 if name in ("boxes", "scores", "labels") else 1 for name in
            ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags", "gt_areas")}  # fmt: skip
    columns = {}
    for name, side in fill.items():
        rows = getattr(scene.batch(), name)
        edge = [(0, wide[side] - len(x)) if x.ndim == 1 else (0, 0, 0, wide[side] - len(x)) for x in rows]
        columns[name] = [torch.cat([pad(x, e, value=7) for x, e in zip(rows, edge)])]
    padded = scene.batch(
        lengths=torch.tensor([[w] * 5 for w in wide]), counts=torch.tensor(sizes[0]),
        gt_counts=torch.tensor(sizes[1]), **columns,
    )  # fmt: skip
    rule = MatchRule.make(*RULES["coco"])
    out = assert_equals_reference(padded, rule)
    tight = assign(scene.batch(), rule)
    assert torch.equal(out.detections[out.detections[:, 12] != 255], tight.detections)
    assert torch.equal(out.ground_truths[(out.ground_truths[:, 4] >> 4 & 1).bool()], tight.ground_truths)
    assert torch.equal(out.images[:, :4], tight.images[:, :4])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads: int) -> None:
    scene = random_scene(np.random.default_rng(17), images=1500)  # enough work for three threads
    rule, before = MatchRule.make(*RULES["coco"]), torch.get_num_threads()
    single = [x.clone() for x in assign(scene.batch(), rule)]
    try:
        torch.set_num_threads(threads)
        assert all(torch.equal(a, b) for a, b in zip(single, assign(scene.batch(), rule)))
    finally:
        torch.set_num_threads(before)


def one_image(boxes, scores, gt_boxes, labels=None, gt_labels=None, **changes):
    n, m = len(scores), len(gt_boxes)
    scene = Scene(
        [torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4)], [torch.tensor(scores, dtype=torch.float64)],
        [torch.tensor(labels or [0] * n)], [torch.tensor(gt_boxes, dtype=torch.float64).reshape(-1, 4)],
        [torch.tensor(gt_labels or [0] * m)], [torch.zeros(m, dtype=torch.int64)],
        [torch.zeros(m, dtype=torch.float64)],
    )  # fmt: skip
    return scene.batch(**changes)


SQUARE = [0.0, 0.0, 10.0, 10.0]


def test_iou_exactly_on_the_threshold_matches() -> None:
    batch = one_image([[0.0, 0.0, 10.0, 5.0]], [0.9], [SQUARE])
    out = assign(batch, MatchRule.make([0.5, np.nextafter(0.5, 1)], [[0, 1e10]], [100], WANT_MATCHES))
    assert out.matches.tolist() == [[0, -1]]


def test_equal_iou_takes_the_later_ground_truth() -> None:
    out = assign(one_image([SQUARE], [0.9], [SQUARE] * 3), MatchRule.make([0.5], [[0, 1e10]], [9], WANT_MATCHES))
    assert out.matches.tolist() == [[2]]


def test_no_capacity_limit_on_ground_truths_of_a_cell() -> None:
    n = 1300
    batch = one_image([SQUARE] * n, [1 - i / n for i in range(n)], [SQUARE] * n)
    out = assign(batch, MatchRule.make([0.5], [[0, 1e10]], [n], WANT_MATCHES))
    assert out.matches.reshape(-1).tolist() == list(range(n))[::-1]


def test_annotation_id_zero_is_taken_but_not_seen() -> None:
    flags = [torch.tensor([ID_ZERO])]
    batch = one_image([SQUARE, SQUARE], [0.9, 0.8], [SQUARE], gt_flags=flags)
    out = assign(batch, MatchRule.make([0.5], [[0, 1e10]], [9], WANT_MATCHES))
    assert out.matches.tolist() == [[0], [-1]] and out.detections[:, 13].tolist() == [0, 0]


def test_free_detection_leaves_its_ground_truth() -> None:
    batch = one_image([SQUARE, SQUARE], [0.9, 0.8], [SQUARE], flags=[torch.tensor([1, 0], dtype=torch.uint8)])
    out = assign(batch, MatchRule.make([0.5], [[0, 1e10]], [9], WANT_MATCHES))
    assert out.matches.tolist() == [[0], [0]]


def test_nan_scores_come_last_where_allowed() -> None:
    batch = one_image([SQUARE, SQUARE], [np.nan, 0.1], [SQUARE])
    out = assign(batch, MatchRule.make([0.5], [[0, 1e10]], [9], WANT_MATCHES))
    assert out.matches.tolist() == [[-1], [0]]


def test_ground_truth_hash_is_free_of_order_and_record_hash_is_not() -> None:
    boxes, scores = [[0.0, 0, 10, 10], [5.0, 5, 20, 20]], [0.5, 0.5]
    rule = MatchRule.make([0.5], [[0, 1e10]], [9], HASHED)
    first = assign(one_image(boxes, scores, boxes), rule).images[0].tolist()
    second = assign(one_image(boxes[::-1], scores, boxes[::-1]), rule).images[0].tolist()
    assert first[2] == second[2] and first[3] != second[3] and first[0] != second[0]


def test_boxes_without_an_area_are_none_of_negative_size() -> None:
    flat, negative = [[5.0, 5, 0, 4], [1.0, 1, 1, 0], [3.0, 3, 0, 0]], [[5.0, 5, -1, 4], [5.0, 5, 4, -1]]  # xywh
    batch = one_image([*flat, negative[0]], [0.5] * 4, [*negative, flat[0]])
    out = assert_equals_reference(batch, MatchRule.make([0.5], [[0, 1e10]], [9], HASHED))
    assert out.images[:, 6].tolist() == [1 | 2 << 32]


ERRORS = {
    "boxes": (dict(boxes=[torch.tensor([SQUARE, [0, 0, np.inf, 1]])]), r"preds\[0\]\['boxes'\]\[1\] must be finite"),
    "scores": (dict(scores=[torch.tensor([0.5, np.nan])]), r"preds\[0\]\['scores'\]\[1\] must not be NaN"),
    "labels": (dict(labels=[torch.tensor([0, 2**31])]), r"preds\[0\]\['labels'\]\[1\] must fit in int32"),
    "gt_boxes": (dict(gt_boxes=[torch.tensor([[np.nan] * 4])]), r"target\[0\]\['boxes'\]\[0\] must be finite"),
    "gt_labels": (dict(gt_labels=[torch.tensor([-(2**31) - 1])]), r"target\[0\]\['labels'\]\[0\] must fit"),
    "areas": (dict(gt_areas=[torch.tensor([np.nan])]), r"target\[0\]\['area'\]\[0\] must be finite"),
    "no_end_of_areas": (dict(gt_areas=[torch.tensor([np.inf])]), r"target\[0\]\['area'\]\[0\] must be finite"),
    "flags": (dict(gt_flags=[torch.tensor([2])]), r"target\[0\]\['iscrowd'\]\[0\] must be 0 or 1"),
    "counts": (dict(counts=torch.tensor([3])), r"preds\[0\]\['counts'\] must lie between 0"),
    "gt_counts": (dict(gt_counts=torch.tensor([-1])), r"target\[0\]\['counts'\] must lie between 0"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_row(name: str) -> None:
    changes, message = ERRORS[name]
    batch, rule = replace(one_image([SQUARE, SQUARE], [0.9, 0.8], [SQUARE]), **changes), MatchRule.make(*RULES["coco"])
    theirs = Matched(*reference("assign")(*arguments(batch, rule)))
    with pytest.raises(InputError, match=message):
        assign(batch, rule)
    assert int(theirs.error) < torch.iinfo(torch.int64).max


BAD_RULES = {
    "no_threshold": (([], COCO_AREAS, [1]), "iou_thresholds must hold at least one finite number"),
    "nan_threshold": (([np.nan], COCO_AREAS, [1]), "iou_thresholds must hold at least one finite number"),
    "areas": (([0.5], [[0, 1, 2]], [1]), "area_ranges must be pairs"),
    "limits": (([0.5], COCO_AREAS, [10, 1]), "ascending numbers"),
    "no_limit": (([0.5], COCO_AREAS, []), "ascending numbers"),
}


@pytest.mark.parametrize("name", BAD_RULES)
def test_bad_rules(name: str) -> None:
    with pytest.raises(InputError, match=BAD_RULES[name][1]):
        MatchRule.make(*BAD_RULES[name][0])


def test_opcheck() -> None:
    batch, rule = random_scene(np.random.default_rng(3)).batch(), MatchRule.make(*RULES["coco"])
    torch.library.opcheck(torch.ops.valor_gpu.assign.default, arguments(batch, rule))


@pytest.mark.parametrize("lengths", [[[2, 5], [1, 1]], [[2, 2, 2], [1, 1, 1]], [[2, -1], [1, 1]]])
def test_rooms_must_hold_the_rows_of_each_image(lengths: list[list[int]]) -> None:
    boxes, scores, labels = np.ones((8, 4)), np.ones(8), np.zeros(8, np.int64)
    batch = MatchBatch(np.array(lengths), [boxes], [scores], [labels], gt_boxes=[boxes[:2]], gt_labels=[labels[:2]])
    with pytest.raises(InputError, match=r"detections must have \d rooms of 4 rows but have 8 rows, \[2, "):
        assign_arrays(replace(batch, room=4), MatchRule.make([0.5], [[0, 1e10]], [100]))


@pytest.mark.parametrize("column", ["boxes", "scores", "gt_boxes", "image_ids"])
def test_a_fake_tensor_among_real_ones_is_an_error(column: str) -> None:
    """Its memory lies nowhere, so that no kernel may be given its address."""
    batch = replace(one_image([SQUARE], [0.9], [SQUARE]), image_ids=[torch.tensor([5])])
    fake = [FakeTensorMode().from_tensor(tensor) for tensor in getattr(batch, column)]
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
        assign(replace(batch, **{column: fake}), MatchRule.make(*RULES["coco"]))


@pytest.mark.parametrize("column", ["boxes", "scores", "gt_boxes"])
def test_columns_that_kernels_read_are_there(column: str) -> None:
    batch, rule = one_image([SQUARE], [0.9], [SQUARE]), MatchRule.make(*RULES["coco"])
    lacking = {name: [tensor.numpy() for tensor in getattr(batch, name)] for name in COLUMNS} | {column: []}
    with pytest.raises(InputError, match=f"{column} must have 1 rows, one for each label, but is absent"):
        assign(replace(batch, **{column: []}), rule)
    with pytest.raises(InputError, match=f"{column} must have 1 rows, one for each label, but is absent"):
        assign_arrays(replace(batch, lengths=batch.lengths.numpy(), **lacking), rule)


@pytest.mark.parametrize("lengths", [[[2, 1], [1, 1]], [[5, -1], [1, 1]], [[4], [1]]])
def test_lengths_must_sum_up_to_the_rows(lengths: list[list[int]]) -> None:
    boxes, scores, labels = np.ones((4, 4)), np.ones(4), np.zeros(4, np.int64)
    batch = MatchBatch(np.array(lengths), [boxes], [scores], [labels], gt_boxes=[boxes[:2]], gt_labels=[labels[:2]])
    with pytest.raises(InputError, match=r"lengths must be counts that sum up to the \d (detections|ground_truths)"):
        assign_arrays(batch, MatchRule.make([0.5], [[0, 1e10]], [100]))
