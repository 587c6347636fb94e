"""assign over stored pairs: random tables against the plain reference, tables of boxes against the fused path."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
import torch

from testing.pairs import pairs_of, random_pairs, stored, to_arrays, to_tensors
from testing.scenes import COCO_AREAS, COCO_THRESHOLDS, random_scene
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.ops._library import reference
from valor_gpu.ops.assign import cpu as _assign_cpu
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    BATCH_FIELDS,
    CHECK_SCORES,
    CROWD,
    HASHED,
    RULE_FIELDS,
    SEGMENT_FIELDS,
    UNMATCHED_IGNORED,
    USER_INPUT,
    WANT_MATCHES,
    BatchWords,
    MatchBatch,
    Matched,
    MatchRule,
    Pairs,
    RuleWords,
    native_layout,
    to_arguments,
)
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.error_codes import PAIR_CLASS, describe_box

FULL = HASHED | CHECK_SCORES | WANT_MATCHES
RULES = {
    "coco": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], FULL),
    "users": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], FULL | USER_INPUT),
    "one_class": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], FULL | AGNOSTIC),
    "unsorted_and_repeated": ([0.75, 0.5, 0.5, 0.25], COCO_AREAS, [1, 2, 3], FULL),
    "threshold_zero": ([0.0, 0.5, 0.5], COCO_AREAS, [5], FULL),
    "threshold_below_zero": ([-1.0, 0.5], COCO_AREAS, [0, 5], FULL),
    "one_setting": ([0.5], [[0, 1e10]], [100], FULL),
    "64_settings": (np.linspace(0.1, 0.9, 16), COCO_AREAS, [100], FULL),
    "70_settings": (np.linspace(0.1, 0.9, 35), COCO_AREAS[:2], [100], FULL),
    "156_settings": (np.linspace(0.9, 0.1, 39), COCO_AREAS, [1, 100], FULL),
    "200_settings": (np.linspace(0.1, 0.9, 50), COCO_AREAS, [2, 100], FULL | USER_INPUT),
    "plain": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], 0),
}


def by_reference(batch: MatchBatch, rule: MatchRule) -> Matched:
    return Matched(*reference("assign")(*to_arguments(batch, rule, torch.from_numpy)))


def assert_same(got: Matched, expected: Matched) -> Matched:
    for name, mine, other in zip(Matched._fields, got, expected):
        assert torch.equal(torch.as_tensor(mine), torch.as_tensor(other)), name
    return got


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", seeds(4))
def test_random_tables_equal_the_reference(name: str, seed: int) -> None:
    rng, rule = np.random.default_rng([seed, 7]), MatchRule.make(*RULES[name])
    batch = random_pairs(rng, rule, room=int(rng.integers(0, 3)))
    tensors = to_tensors(batch)
    found = assert_same(assign(tensors, rule), by_reference(tensors, rule))
    assert_same(_assign_cpu.assign(batch, rule), found)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", seeds(4))
def test_tables_of_boxes_equal_the_fused_path(name: str, seed: int) -> None:
    thresholds, areas, limits, options = RULES[name]
    rule = MatchRule.make(thresholds, areas, limits, (options | USER_INPUT) & ~HASHED)
    scene = random_scene(np.random.default_rng([seed, 8]), images=9, most=50)
    boxes = to_arrays(scene.batch())
    fused, paired = (_assign_cpu.assign(batch, rule) for batch in (boxes, stored(boxes, rule, room=seed % 3)))
    assert fused.detections.tobytes() == paired.detections.tobytes()
    assert fused.ground_truths.tobytes() == paired.ground_truths.tobytes()
    assert fused.matches.tobytes() == paired.matches.tobytes()
    assert fused.images[:, :6].tobytes() == paired.images[:, :6].tobytes() and not paired.images[:, 6:].any()


def one(table: list[list[float]], scores: list[float], rule: MatchRule, **columns: object) -> MatchBatch:
    """One image of one class."""
    values = np.array(table, np.float64).reshape(len(scores), -1)
    count = values.shape[1]
    labels, gt_labels = np.zeros(len(scores), np.int64), np.zeros(count, np.int64)
    batch = MatchBatch(
        np.array([[len(scores)], [count]]), scores=[np.array(scores)], labels=[labels], gt_labels=[gt_labels],
        areas=[np.full(len(scores), 100.0)], gt_own_areas=[np.full(count, 100.0)],
        pairs=pairs_of([values], [labels], [gt_labels], rule),
    )  # fmt: skip
    return replace(batch, **columns)  # type: ignore[arg-type]


ONE = MatchRule.make([0.5], [[0, 1e10]], [100], WANT_MATCHES)


def test_a_detection_takes_its_second_choice_and_a_crowd_serves_all() -> None:
    table = [[0.9, 0.6], [0.8, 0.7], [0.6, 0.0]]
    assert _assign_cpu.assign(one(table, [0.9, 0.8, 0.7], ONE), ONE).matches.tolist() == [[0], [1], [-1]]
    crowd = one(table, [0.9, 0.8, 0.7], ONE, gt_flags=[np.array([CROWD, 0])])
    out = _assign_cpu.assign(crowd, ONE)
    assert out.matches.tolist() == [[1], [0], [0]] and out.detections[:, 14].tolist() == [0, 1, 1]


def test_a_similarity_above_one_and_infinite_is_one_like_others() -> None:
    batch = one([[np.inf, 3.0], [2.0, 0.5]], [0.9, 0.8], ONE)
    assert _assign_cpu.assign(batch, ONE).matches.tolist() == [[0], [1]]


def test_unmatched_detections_of_a_class_that_is_not_exhaustive_are_ignored() -> None:
    rule = MatchRule.make([0.5, 0.75], [[0, 1e10], [0, 50]], [1, 2], WANT_MATCHES)
    flags = [np.full(3, UNMATCHED_IGNORED, np.uint8)]
    out = _assign_cpu.assign(one([[0.6], [0.0], [0.0]], [0.9, 0.8, 0.7], rule, flags=flags), rule)
    # a detection beyond the last limit has no bits; the ground truth is too large for the second range
    assert out.detections[:, 13:].tolist() == [[0b0101, 0b1110], [0, 0b1111], [0, 0]]


def test_the_geometry_gives_areas_where_the_user_does_not() -> None:
    rule = MatchRule.make([0.5], [[0, 50], [50, 200], [200, 1e10]], [9], USER_INPUT)
    batch = one([[0.9, 0.8, 0.7]], [0.9], rule, gt_own_areas=[np.array([10.0, 100.0, 300.0])])
    assert (_assign_cpu.assign(batch, rule).ground_truths[:, 4] & 7).tolist() == [1, 2, 4]
    given = replace(batch, gt_areas=[np.array([60.0, 0.0, -1.0])])
    assert (_assign_cpu.assign(given, rule).ground_truths[:, 4] & 7).tolist() == [2, 2, 4]


def test_hashes_name_the_image_by_its_content() -> None:
    rule = MatchRule.make([0.5], [[0, 1e10]], [9], HASHED)
    hashes = {"hashes": [np.array([5, 6])], "gt_hashes": [np.array([7])]}
    first = _assign_cpu.assign(one([[0.9], [0.8]], [0.9, 0.8], rule, **hashes), rule).images[0]
    for name in hashes:
        other = {**hashes, name: [hashes[name][0] + 1]}
        second = _assign_cpu.assign(one([[0.9], [0.8]], [0.9, 0.8], rule, **other), rule).images[0]
        assert (first[2] == second[2], first[3] == second[3]) == (name == "hashes", name == "gt_hashes")
        assert first[0] != second[0]


def test_padded_batches() -> None:
    rule = MatchRule.make(*RULES["coco"])
    batch = random_pairs(np.random.default_rng(3), rule, images=1, most=20)
    padded = replace(
        batch, counts=batch.lengths[0] - 2, gt_counts=batch.lengths[1] * 0, pairs=_without(batch.pairs)
    )  # fmt: skip
    tensors = to_tensors(padded)
    found = assert_same(assign(tensors, rule), by_reference(tensors, rule))
    assert (found.detections[:, 12] == 255).tolist() == [False] * (int(batch.lengths[0, 0]) - 2) + [True] * 2


def _without(pairs: Pairs | None) -> Pairs:
    assert pairs is not None
    return replace(pairs, counts=pairs.counts * 0)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_nothing(threads: int) -> None:
    rule, before = MatchRule.make(*RULES["coco"]), torch.get_num_threads()
    batch = to_tensors(random_pairs(np.random.default_rng(17), rule, images=900))  # enough work for three threads
    try:
        torch.set_num_threads(1)
        single = assign(batch, rule)
        torch.set_num_threads(threads)
        assert_same(assign(batch, rule), single)
    finally:
        torch.set_num_threads(before)


def test_opcheck() -> None:
    rule = MatchRule.make(*RULES["coco"])
    batch = to_tensors(random_pairs(np.random.default_rng(3), rule))
    torch.library.opcheck(torch.ops.valor_gpu.assign.default, to_arguments(batch, rule, torch.from_numpy))


BAD_PAIRS = {
    "offsets": ({"offsets": {2: 1}}, r"pairs.offsets\[1\] and the next must ascend .* 0 and 4, .* but are 2 and 1"),
    "past_the_end": ({"offsets": {3: 9}}, r"pairs.offsets\[2\] and the next must ascend .* but are 3 and 9"),
    "below_zero": ({"offsets": {0: -1}}, r"pairs.offsets\[0\] and the next must ascend .* but are -1 and 2"),
    "counts": ({"counts": {1: 2}}, r"pairs.counts\[1\] must lie between 0 and 1 \(1 entries of room, 2 .* but is 2"),
    "more_than_ground_truths": (
        {"offsets": {1: 3, 2: 3, 3: 3}, "counts": {0: 3}},
        r"counts\[0\] .* 0 and 2 \(3 .* 3",
    ),
    "counts_below_zero": ({"counts": {1: -1}}, r"pairs.counts\[1\] must lie between 0 and 1 \(.* but is -1"),
    "ground_truths": (
        {"ground_truths": {3: 2}},
        r"pairs.ground_truths\[3\] must lie between 0 and 1, .* but is 2 \(detection 2, image 0 of the batch\)",
    ),
    "negative": ({"ground_truths": {2: -1}}, r"pairs.ground_truths\[2\] must lie between 0 and 1, .* but is -1"),
    "similarities": ({"similarities": {1: np.nan}}, r"pairs.similarities\[1\] must not be NaN \(detection 0, image 0"),
    "order": (
        {"similarities": {1: 0.95}},
        r"pairs.similarities\[1\] must follow a larger one, .* is 0.95 of ground truth 1 after 0.9 of ground truth 0",
    ),
    "ties": ({"similarities": {1: 0.9}}, r"pairs.similarities\[1\] must follow .* is 0.9 of ground truth 1 after 0.9"),
    "twice": ({"similarities": {1: 0.9}, "ground_truths": {1: 0}}, r"pairs.similarities\[1\] must follow a larger one"),
}


def three_detections(second_image: bool) -> MatchBatch:
    """Two ground truths; similarities 0.9 and 0.6, 0.8, 0.7. Behind an image of one detection without pairs."""
    batch = one([[0.9, 0.6], [0.0, 0.8], [0.7, 0.0]], [0.9, 0.8, 0.7], ONE)
    return batch if not second_image else replace(batch, lengths=np.array([[0, 3], [0, 2]]))


@pytest.mark.parametrize("name", BAD_PAIRS)
@pytest.mark.parametrize("second_image", [False, True])
def test_errors_name_the_column_and_the_row(name: str, second_image: bool) -> None:
    changes, message = BAD_PAIRS[name]
    batch = three_detections(second_image)
    assert batch.pairs is not None
    for column, entries in changes.items():
        for row, value in entries.items():
            getattr(batch.pairs, column)[row] = value
    tensors, message = to_tensors(batch), message.replace("image 0", f"image {int(second_image)}")
    with pytest.raises(InputError, match=message):
        _assign_cpu.assign(batch, ONE)
    with pytest.raises(InputError, match=message):
        assign(tensors, ONE)
    raw = torch.ops.valor_gpu.assign.default(*to_arguments(tensors, ONE, torch.from_numpy))
    error = int(by_reference(tensors, ONE).error)
    assert error == int(raw[4])
    assert describe_box(error).startswith(f"preds[{int(second_image)}]['pairs.")


@pytest.mark.parametrize("options", [0, AGNOSTIC])
def test_pairs_stay_inside_a_class(options: int) -> None:
    rule = MatchRule.make([0.5], [[0, 1e10]], [100], options)
    batch = replace(three_detections(False), gt_labels=[np.array([0, 4])])
    if options:
        _assign_cpu.assign(batch, rule)
        return
    with pytest.raises(InputError, match=r"pairs.ground_truths\[1\] must have label 0 .* but has label 4"):
        _assign_cpu.assign(batch, rule)
    assert int(by_reference(to_tensors(batch), rule).error) & 31 == PAIR_CLASS


BAD_COLUMNS = {
    "areas": ({"areas": []}, "areas must come with stored pairs but is absent"),
    "gt_own_areas": ({"gt_own_areas": []}, "gt_own_areas must come with stored pairs but is absent"),
    "hashes": ({}, "hashes must come with stored pairs but is absent"),
    "scores": ({"scores": [np.zeros(2)]}, "scores must have 3 rows, one for each label, but has 2"),
    "offsets": ({"pairs": "offsets"}, "pairs.offsets must have 4 entries, .* but has 3"),
    "counts": ({"pairs": "counts"}, "pairs.counts must have 3 entries, .* but has 2"),
    "ground_truths": ({"pairs": "ground_truths"}, "pairs.ground_truths must have 4 entries, .* but has 3"),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_columns_that_are_missing_or_short(name: str) -> None:
    changes, message = BAD_COLUMNS[name]
    batch = three_detections(False)
    if column := changes.get("pairs"):
        changes = {"pairs": replace(batch.pairs, **{column: getattr(batch.pairs, column)[:-1]})}
    with pytest.raises(InputError, match=message):
        _assign_cpu.assign(replace(batch, **changes), MatchRule.make([0.5], [[0, 1e10]], [100], HASHED))


def test_scores_labels_and_flags_are_checked_as_for_boxes() -> None:
    rule = MatchRule.make([0.5], [[0, 1e10]], [100], CHECK_SCORES | USER_INPUT)
    batch = three_detections(False)
    with pytest.raises(InputError, match=r"preds\[0\]\['scores'\]\[1\] must not be NaN"):
        _assign_cpu.assign(replace(batch, scores=[np.array([0.5, np.nan, 0.1])]), rule)
    with pytest.raises(InputError, match=r"target\[0\]\['iscrowd'\]\[1\] must be 0 or 1"):
        _assign_cpu.assign(replace(batch, gt_flags=[np.array([0, 2])]), rule)
    with pytest.raises(InputError, match=r"target\[0\]\['area'\]\[0\] must be finite"):
        _assign_cpu.assign(replace(batch, gt_areas=[np.array([np.inf, 2])]), rule)


def test_arrays_of_another_shape_are_not_read() -> None:
    batch = three_detections(False)
    with pytest.raises(InputError, match="image_ids must have 1 entries, one for each image, but has 2"):
        _assign_cpu.assign(replace(batch, image_ids=[np.arange(2)]), ONE)
    with pytest.raises(InputError, match="gt_counts must have 1 entries, one for each image, but has 0"):
        _assign_cpu.assign(replace(batch, gt_counts=np.arange(0)), ONE)
    boxes = replace(batch, pairs=None, boxes=[np.zeros((3, 5))], gt_boxes=[np.zeros((2, 4))])
    with pytest.raises(InputError, match=r"boxes must have shape \[3, 4\] but has \[3, 5\]"):
        _assign_cpu.assign(boxes, ONE)


def test_dtypes_that_cannot_be_read() -> None:
    batch = three_detections(False)
    with pytest.raises(InputError, match="scores must be floating but is int64"):
        _assign_cpu.assign(replace(batch, scores=[np.arange(3)]), ONE)
    with pytest.raises(InputError, match="flags must be uint8 but is int64"):
        _assign_cpu.assign(replace(batch, flags=[np.arange(3)]), ONE)
    assert batch.pairs is not None
    pairs = replace(batch.pairs, counts=batch.pairs.counts.astype(np.int64))
    with pytest.raises(InputError, match=r"pairs.counts must be int32 but is int64"):
        _assign_cpu.assign(replace(batch, pairs=pairs), ONE)


def test_lengths_that_do_not_sum_to_the_rows_are_not_read() -> None:
    with pytest.raises(InputError, match="lengths must be counts that sum up to the 3 detections"):
        _assign_cpu.assign(replace(three_detections(False), lengths=np.array([[4], [2]])), ONE)


def test_the_fields_of_the_words_are_those_of_csrc() -> None:
    ours = [list(SEGMENT_FIELDS), list(RULE_FIELDS), list(BATCH_FIELDS)]
    assert list(native_layout()) == ours
    for words, names in zip((RuleWords, BatchWords), ours[1:]):
        assert [getattr(words, name).offset for name in names] == list(range(0, ctypes.sizeof(words), 8))
