"""Average precision of Open Images: numbers worked by hand, the plain definition, and what must not change a bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from tests.detection import open_images_reference as plain
from tests.fuzz import seeds
from valor_gpu.detection import OpenImagesAveragePrecision
from valor_gpu.errors import InputError, SyncError
from valor_gpu.inputs.expansion import Rows

Item = dict[str, Any]
A, B = [0, 0, 10, 10], [0, 2, 10, 12]  # IoU 80 / 120 = 2 / 3
FAR = [80, 80, 90, 90]


def detections(*rows: tuple[list[int], float, int]) -> Item:
    """One image: (box, score, label)."""
    return {
        "boxes": torch.tensor([row[0] for row in rows], dtype=torch.float64).reshape(-1, 4),
        "scores": torch.tensor([row[1] for row in rows], dtype=torch.float64),
        "labels": torch.tensor([row[2] for row in rows], dtype=torch.int64),
    }


def ground_truths(*rows: tuple[list[int], int, int], **lists: list[int]) -> Item:
    """One image: (box, label, is_group_of), and lists of verified labels."""
    return {
        "boxes": torch.tensor([row[0] for row in rows], dtype=torch.float64).reshape(-1, 4),
        "labels": torch.tensor([row[1] for row in rows], dtype=torch.int64),
        "is_group_of": torch.tensor([row[2] for row in rows], dtype=torch.int64),
        **{key: torch.tensor(values, dtype=torch.int64) for key, values in lists.items()},
    }


def evaluated(preds: Sequence[Item], target: Sequence[Item], *args: Any, **choices: Any) -> OpenImagesAveragePrecision:
    metric = OpenImagesAveragePrecision(*args, **choices)
    metric.update(preds, target)
    return metric


def value(preds: Item, target: Item, *args: Any, **choices: Any) -> float:
    return float(evaluated([preds], [target], *args, **choices).result().values["map"])


def per_class(metric: OpenImagesAveragePrecision) -> dict[str, float]:
    return dict(metric.result().values["map_per_class"])


# ------------------------------------------------------------------------------------------- numbers worked by hand


def test_group_hit_by_several_detections() -> None:
    group = [20, 0, 60, 40]
    found = detections(
        (FAR, 0.95, 0),  # in no ground truth: false positive
        ([20, 0, 30, 10], 0.9, 0),  # inside the group, first: true positive
        (A, 0.8, 0),  # true positive
        ([30, 0, 40, 10], 0.7, 0),  # inside the group, second: ignored
        (A, 0.6, 0),  # A is held, and the group does not contain it: false positive
        ([50, 30, 60, 40], 0.5, 0),  # inside the group, third: ignored
    )
    target = ground_truths((A, 0, 0), (group, 0, 1))
    # What counts, by rank: F T T F, of 2 ground truths. Precision at the true positives 1/2 and 2/3; interpolated 2/3
    # at both. AP = (2/3 + 2/3) / 2.
    metric = evaluated([found], [target])
    assert metric.result().values["map"] == pytest.approx(2 / 3, abs=1e-15)
    assert metric.result().counts["ignored_detections"] == 2
    # Weight 0: all three in the group are ignored and it does not count: F T F, of 1. AP = 1/2.
    metric = evaluated([found], [target], group_weight=0)
    assert metric.result().values["map"] == 0.5
    assert metric.result().counts["ignored_detections"] == 3


def test_missed_group_counts_with_weight_1_alone() -> None:
    found, target = detections((A, 0.9, 0)), ground_truths((A, 0, 0), ([20, 0, 60, 40], 0, 1))
    assert value(found, target) == 0.5  # one of two found, with precision 1
    assert value(found, target, group_weight=0) == 1.0


def test_duplicate_of_a_single_object_falls_into_the_group_around_it() -> None:
    found = detections((A, 0.9, 0), (A, 0.8, 0), (A, 0.7, 0), (FAR, 0.6, 0))
    target = ground_truths(([0, 0, 50, 50], 0, 1), (A, 0, 0))
    # A: true positive. Its copy finds A held and lies in the group: the group's true positive. The next is ignored.
    metric = evaluated([found], [target])
    assert metric.result().values["map"] == 1.0 and metric.result().counts["ignored_detections"] == 1
    metric = evaluated([found], [target], group_weight=0)
    assert metric.result().values["map"] == 1.0 and metric.result().counts["ignored_detections"] == 2


def test_no_second_choice() -> None:
    found = detections((A, 0.9, 0), (A, 0.8, 0), (B, 0.7, 0))
    # The second looks at A alone (IoU 1), which is held, though B is free with IoU 2/3: T F T, of 2.
    # Precision 1 and 2/3: AP = (1 + 2/3) / 2. COCO's rule gives the second B, and the third nothing: AP 1.
    assert value(found, ground_truths((A, 0, 0), (B, 0, 0))) == pytest.approx(5 / 6, abs=1e-15)


def test_earlier_of_equal_ground_truths() -> None:
    found = detections((A, 0.9, 0), (A, 0.8, 0))
    # Both look at the first copy: T F, of 2.
    assert value(found, ground_truths((A, 0, 0), (A, 0, 0))) == 0.5
    # Of two equal groups the first takes both, the second is missed: T and ignored, of 2.
    metric = evaluated([found], [ground_truths((A, 0, 1), (A, 0, 1))])
    assert metric.result().values["map"] == 0.5 and metric.result().counts["ignored_detections"] == 1


def test_thresholds_are_reached_exactly() -> None:
    half = [0, 0, 20, 10]  # IoU with A, and half of it in A: 100 / 200
    assert value(detections((half, 0.9, 0)), ground_truths((A, 0, 0))) == 1.0
    assert value(detections((half, 0.9, 0)), ground_truths((A, 0, 1))) == 1.0
    assert value(detections((half, 0.9, 0)), ground_truths((A, 0, 0)), iou_thresholds=[0.5000001]) == 0.0
    assert value(detections((A, 0.9, 0)), ground_truths((A, 0, 0)), iou_thresholds=[1.0]) == 1.0


def test_several_thresholds() -> None:
    found, target = detections((A, 0.9, 0), (B, 0.8, 0)), ground_truths((B, 0, 0))
    # 0.5: A takes B (IoU 2/3), B itself comes late: T F, AP 1. 0.75: F T, AP 1/2.
    result = evaluated([found], [target], iou_thresholds=(0.5, 0.75)).result()
    assert dict(result.values["map_per_iou_threshold"]) == {"0.5": 1.0, "0.75": 0.5}
    assert result.values["map"] == 0.75


VEHICLES = {"car": "vehicle", "vehicle": "object"}
LABELS = {"object": 0, "vehicle": 1, "car": 2}


def test_a_box_counts_for_two_ancestors() -> None:
    found, target = [detections((A, 0.9, 2))], [ground_truths((A, 2, 0))]
    metric = evaluated(found, target, VEHICLES, LABELS)
    assert per_class(metric) == {"object": 0.0, "vehicle": 0.0, "car": 1.0}  # nobody predicted its ancestors
    assert metric.result().counts["expanded_ground_truths"] == 2
    metric = evaluated(found, target, VEHICLES, LABELS, expand_detections=True)
    assert per_class(metric) == {"object": 1.0, "vehicle": 1.0, "car": 1.0}
    assert metric.result().counts["expanded_detections"] == 2


def test_a_diamond_counts_an_ancestor_once() -> None:
    parents = {3: [1, 2], 1: 0, 2: [0]}  # 0 by way of 1 and by way of 2
    metric = evaluated([detections((A, 0.9, 0))], [ground_truths((A, 3, 0))], parents)
    # One ground truth of each class; with two of class 0 its AP would be 1/2.
    assert per_class(metric) == {"0": 1.0, "1": 0.0, "2": 0.0, "3": 0.0}
    assert metric.result().values["map"] == 0.25


def test_official_form_of_the_hierarchy() -> None:
    wheel = {"LabelName": "/m/wheel"}
    tree = {
        "LabelName": "/m/0bl9f",  # stands for everything, is no class
        "Subcategory": [
            {"LabelName": "/m/vehicle", "Subcategory": [{"LabelName": "/m/car", "Part": [wheel]}]},
            {"LabelName": "/m/toy", "Subcategory": [{"LabelName": "/m/car"}]},
        ],
    }
    labels = {"/m/vehicle": 0, "/m/car": 1, "/m/wheel": 2, "/m/toy": 3}
    hierarchy = OpenImagesAveragePrecision(tree, labels).hierarchy
    assert hierarchy.ancestors == {1: (0, 3)}  # a wheel is a part of a car, and no kind of it
    with_root = OpenImagesAveragePrecision(tree, {**labels, "/m/0bl9f": 9}).hierarchy
    assert with_root.ancestors == {0: (9,), 1: (0, 3, 9), 3: (9,)}


@pytest.mark.parametrize(
    ("lists", "expected", "unverified"),
    [
        ({}, 0.5, 0),  # the image does not say: a false positive before the true positive
        ({"positive_labels": [7]}, 1.0, 1),  # nobody looked for class 1: left out
        ({"negative_labels": [1]}, 0.5, 0),  # somebody looked and found none
        ({"negative_labels": [0]}, 0.5, 0),  # no object of its ancestor
        ({"negative_labels": [2]}, 1.0, 1),  # no object of its descendant: there may be others of class 1
        ({"positive_labels": [2], "negative_labels": []}, 0.5, 0),  # an object of its descendant
        ({"positive_labels": [0]}, 1.0, 1),  # an object of its ancestor: may be another kind
    ],
)
def test_detections_of_unverified_classes(lists: dict[str, list[int]], expected: float, unverified: int) -> None:
    preds = [detections((A, 0.5, 1)), detections((A, 0.9, 1))]
    target = [ground_truths((A, 1, 0)), ground_truths(**lists)]
    metric = evaluated(preds, target, {2: 1, 1: 0})
    assert per_class(metric)["1"] == expected
    assert metric.result().counts["unverified_detections"] == unverified


def test_classes_of_ground_truths_are_verified() -> None:
    target = [ground_truths((A, 2, 0), positive_labels=[])]
    found = [detections((FAR, 0.9, 1), (A, 0.8, 2), (A, 0.7, 3))]
    metric = evaluated(found, target, {2: 1})
    # 1 is an ancestor of 2, so FAR is a false positive of it; nobody looked for 3.
    assert per_class(metric) == {"1": 0.0, "2": 1.0} and metric.result().counts["unverified_detections"] == 1


def test_counts_and_reasons() -> None:
    preds = [detections((A, 0.9, 1), (A, 0.8, 5)), detections()]
    target = [ground_truths((A, 1, 0), (B, 1, 1)), ground_truths((B, 2, 1))]
    result = evaluated(preds, target, {1: 0}).result()
    assert {name: count for name, count in result.counts.items() if count} == {
        "images": 2, "ground_truths": 3, "groups": 2, "detections": 2, "expanded_ground_truths": 2,
    }  # fmt: skip
    assert math.isnan(result.values["map_per_class"]["5"])
    assert result.reason("map_per_class/5") == "no ground truth counts for it"
    assert evaluated([detections()], [ground_truths()]).result().reason("map") == "no ground truth counts for it"


def test_compute_gives_tensors() -> None:
    metric = evaluated([detections((A, 0.9, 2), (A, 0.5, 4))], [ground_truths((A, 2, 0))])
    values = metric.compute()
    assert values["map"].dtype == torch.float32 and float(values["map"]) == 1.0
    assert values["classes"].tolist() == [2, 4]
    assert values["map_per_class"][0] == 1 and values["map_per_class"][1].isnan()


# ------------------------------------------------------------------------------------------------ the plain definition

PARENTS = {1: [0], 2: [0], 3: [1, 2], 5: [4]}


def random_images(seed: int, images: int = 12, verified: bool = True) -> tuple[list[Item], list[Item]]:
    """Images with ids, small integer boxes, few scores: equal similarities and scores everywhere."""
    rng = np.random.default_rng([seed, 31])
    preds, target = [], []
    for image in range(images):
        sizes = rng.integers(0, 8), rng.integers(0, 14)
        corners = [rng.integers(0, 7, (size, 2)) for size in sizes]
        gt_boxes, boxes = (np.concatenate([c, c + rng.integers(1, 6, c.shape)], 1) for c in corners)
        preds.append({
            "boxes": torch.from_numpy(boxes).double(),
            "scores": torch.from_numpy(rng.integers(0, 6, sizes[1]) / 5),
            "labels": torch.from_numpy(rng.integers(0, 7, sizes[1])),
        })  # fmt: skip
        target.append({
            "boxes": torch.from_numpy(gt_boxes).double(), "labels": torch.from_numpy(rng.integers(0, 6, sizes[0])),
            "is_group_of": torch.from_numpy((rng.random(sizes[0]) < 0.3).astype(np.int64)), "image_id": image,
        })  # fmt: skip
        labels = rng.permutation(8)
        if verified and rng.random() < 0.7:
            target[-1]["positive_labels"] = torch.from_numpy(labels[: rng.integers(0, 3)])
        if verified and rng.random() < 0.7:
            target[-1]["negative_labels"] = torch.from_numpy(labels[3 : 3 + rng.integers(0, 3)])
    return preds, target


@pytest.mark.parametrize("weight", [0, 1])
@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("seed", seeds(6))
def test_equals_the_plain_definition(seed: int, expand: bool, weight: int) -> None:
    preds, target = random_images(seed)
    thresholds = (0.5, 0.25, 0.6)
    metric = evaluated(preds, target, PARENTS, iou_thresholds=thresholds, group_weight=weight, expand_detections=expand)
    answer = plain.evaluate(preds, target, PARENTS, thresholds, weight, expand)
    reduced = metric._reduce(metric.state())
    got = {
        (t, label): number
        for t, row in zip(thresholds, reduced.precision.tolist())
        for label, number in zip(reduced.labels.tolist(), row) if not math.isnan(number)
    }  # fmt: skip
    assert got == pytest.approx(answer.precision, abs=1e-14)
    assert reduced.counts["unverified_detections"] == answer.unverified
    assert reduced.counts["ignored_detections"] == answer.ignored[0.5]


def test_order_and_batch_size_change_no_bit() -> None:
    preds, target = random_images(3, images=9)
    whole = evaluated(preds, target, PARENTS).result()
    order = np.random.default_rng(0).permutation(9).tolist()
    for size in (1, 2, 4):
        metric = OpenImagesAveragePrecision(PARENTS)
        for start in range(0, 9, size):
            some = order[start : start + size]
            metric.update([preds[i] for i in some], [target[i] for i in some])
        assert metric.result().to_dict() == whole.to_dict()


def test_repeated_images_count_once() -> None:
    preds, target = random_images(5, images=6)
    once = evaluated(preds, target, PARENTS).result()
    twice = evaluated([*preds, *preds[:2]], [*target, *target[:2]], PARENTS).result()
    assert twice.values["map"] == once.values["map"]
    assert dict(twice.counts) == {**once.counts, "repeated_images": 2}


def padded(items: Sequence[Item], keys: Sequence[str]) -> Item:
    sizes = [len(item["labels"]) for item in items]
    out: Item = {"counts": torch.tensor(sizes)}
    for key in keys:
        rows = [item[key] for item in items]
        shape = (len(items), max(sizes) + 1, *rows[0].shape[1:])
        out[key] = torch.full(shape, 3, dtype=rows[0].dtype)
        for i, row in enumerate(rows):
            out[key][i, : len(row)] = row
    return out


def test_padded_tensors_equal_lists() -> None:
    preds, target = random_images(7, verified=False)
    lists = evaluated(preds, target, PARENTS, expand_detections=True)
    side = padded(target, ("boxes", "labels", "is_group_of")) | {"image_id": torch.arange(len(target))}
    tensors = OpenImagesAveragePrecision(PARENTS, expand_detections=True)
    tensors.update(padded(preds, ("boxes", "scores", "labels")), side)
    assert tensors.result().to_dict() == lists.result().to_dict()


@pytest.mark.parametrize("expand", [False, True])
def test_rows_left_behind_as_on_a_gpu_change_nothing(expand: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody waits for counts, rows that do not count get records of padding."""
    preds, target = random_images(8)
    usual = evaluated(preds, target, PARENTS, expand_detections=expand)
    monkeypatch.setattr(Rows, "compact", lambda rows: (rows.sorted(), rows.count(rows.real)))
    behind = evaluated(preds, target, PARENTS, expand_detections=expand)
    assert len(behind.state().detections) > len(usual.state().detections)
    assert behind.result().to_dict() == usual.result().to_dict()
    loaded = OpenImagesAveragePrecision(PARENTS, expand_detections=expand).from_bytes(behind.to_bytes())
    assert loaded.result().to_dict() == usual.result().to_dict()


def test_states_of_other_choices_do_not_merge() -> None:
    metric = OpenImagesAveragePrecision({1: 0})
    for other in ({2: 0}, {1: 0, 2: 0}, None):
        with pytest.raises(SyncError, match="hierarchy"):
            metric.merge_state(OpenImagesAveragePrecision(other))
    metric.merge_state(OpenImagesAveragePrecision({1: [0]}))


def test_states_of_other_known_classes_do_not_merge() -> None:
    """The hierarchy is the same in both; a label is an error in one of them alone."""
    labels, tree = {"vehicle": 0, "car": 1}, {"car": "vehicle"}
    metric = OpenImagesAveragePrecision(tree, {**labels, "tree": 2})
    other = OpenImagesAveragePrecision(tree, {**labels, "tree": 3})
    assert metric.hierarchy.ancestors == other.hierarchy.ancestors == {1: (0,)}
    with pytest.raises(SyncError, match="hierarchy"):
        metric.merge_state(other)


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({1: 2, 2: 3, 3: 1},), "hierarchy must have no cycle but 1 -> 2 -> 3 -> 1"),
        (({"a": "a"}, {"a": 4}), "hierarchy must have no cycle but 'a' -> 'a'"),
        (({"a": "b"},), "class_labels must give the integer label of every class, since .* is named 'a'"),
        (({"a": "b"}, {"a": 4}), "a parent of 'a' in hierarchy must be a name in class_labels but is 'b'"),
        (({"LabelName": "r", "Subcategory": [{"LabelName": "x"}]}, {"y": 1}),
         r"hierarchy\['Subcategory'\]\[0\]\['LabelName'\] must be a name in class_labels but is 'x'"),
        (({"LabelName": "r", "Subcategory": {"LabelName": "x"}}, {"x": 1}), r"\['Subcategory'\] must be list or tuple"),
        (({"LabelName": "r", "Subcategory": ["x"]}, {"x": 1}), r"hierarchy\['Subcategory'\]\[0\] must be Mapping"),
        (({1: True},), "a parent of 1 in hierarchy must be an int that fits in int32 but is True"),
        (({1: 2**31},), "must be an int that fits in int32"),
        ((None, {"a": 1, "b": 1}), "class_labels must give every class its own label but 'a' and 'b' have 1"),
        ((None, {"a": 1.0}), r"class_labels\['a'\] must be an int that fits in int32 but is 1.0"),
        (([1],), "hierarchy must be Mapping but got list"),
    ],
)  # fmt: skip
def test_bad_hierarchies(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OpenImagesAveragePrecision(*arguments)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"group_weight": 0.5}, "group_weight must be one of 0, 1 but got 0.5"),
        ({"iou_thresholds": []}, "iou_thresholds must hold at least one number"),
        ({"iou_thresholds": [0.5, 1.5]}, r"a number in iou_thresholds must be in \[0, 1\] but got 1.5"),
        ({"expand_detections": 1}, "expand_detections must be bool but got int"),
        ({"box_format": "yxyx"}, "box_format must be one of"),
    ],
)
def test_bad_choices(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OpenImagesAveragePrecision(**choices)


def _bad(side: str, key: str, new: Any) -> tuple[list[Item], list[Item]]:
    """Two images, the second with two rows a side and one bad entry."""
    preds = [detections(), detections((A, 0.9, 1), (A, 0.8, 2))]
    target = [ground_truths(), ground_truths((A, 1, 0), (B, 2, 1), positive_labels=[1], negative_labels=[0])]
    items: Mapping[str, list[Item]] = {"preds": preds, "target": target}
    items[side][1][key] = new
    return preds, target


INF = math.inf


@pytest.mark.parametrize(
    ("side", "key", "new", "message"),
    [
        ("target", "is_group_of", [0, 2], r"target\[1\]\['is_group_of'\]\[1\] must be 0 or 1$"),
        ("target", "is_group_of", [0.0, 1.0], r"target\[1\]\['is_group_of'\] must be integer or bool"),
        ("target", "is_group_of", [0], r"target\[1\]\['is_group_of'\] must have shape \[2\]"),
        ("target", "labels", [1, 9], r"target\[1\]\['labels'\]\[1\] must be a label of class_labels or of the hier"),
        ("preds", "labels", [9, 1], r"preds\[1\]\['labels'\]\[0\] must be a label of class_labels or of the hier"),
        ("target", "positive_labels", [1, 9], r"target\[1\]\['positive_labels'\]\[1\] must be a label of class_labels"),
        ("target", "negative_labels", [9], r"target\[1\]\['negative_labels'\]\[0\] must be a label of class_labels"),
        ("target", "negative_labels", [0, 1], r"target\[1\]\['negative_labels'\]\[1\] must not be one of the positive"),
        ("target", "negative_labels", [[0]], r"\['negative_labels'\] must be integer labels of shape \[N\] but got"),
        ("target", "positive_labels", [0.5], r"\['positive_labels'\] must be integer labels of shape \[N\] but got"),
        ("target", "boxes", [A, [0, 0, 1, INF]], r"target\[1\]\['boxes'\]\[1\] must be finite"),
        ("preds", "boxes", [[0, 0, 1, INF], A], r"preds\[1\]\['boxes'\]\[0\] must be finite"),
        ("preds", "scores", [0.5, math.nan], r"preds\[1\]\['scores'\]\[1\] must not be NaN"),
    ],
)
def test_bad_inputs_name_the_users_row(side: str, key: str, new: Any, message: str) -> None:
    dtype = torch.float64 if key in ("boxes", "scores") else None
    preds, target = _bad(side, key, torch.tensor(new, dtype=dtype))
    metric = OpenImagesAveragePrecision({"b": "a", "c": "b"}, {"a": 0, "b": 1, "c": 2}, expand_detections=True)
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert len(metric.state().images) == 0


def test_lists_of_labels_need_lists_of_images() -> None:
    side = {"boxes": torch.zeros(1, 1, 4), "labels": torch.zeros(1, 1).long(), "scores": torch.zeros(1, 1)}
    with pytest.raises(InputError, match="target must be a list of dicts, one per image, to hold positive_labels or"):
        OpenImagesAveragePrecision().update(side, {**side, "positive_labels": torch.zeros(1, 1).long()})
    preds, target = _bad("target", "positive_labels", {1})
    with pytest.raises(
        InputError, match=r"target\[1\]\['positive_labels'\] must be Tensor or ndarray or list or tuple but got set"
    ):
        OpenImagesAveragePrecision().update(preds, target)


def test_foreign_counts_are_checked() -> None:
    preds, target = random_images(2)
    metric = evaluated(preds, target)
    for wrong, message in ((metric.given[0] - 100, r"given\[0\] must count boxes of its image"),
                           (metric.given[0][1:], "given must have 12 rows, as images says, but has 11")):  # fmt: skip
        with pytest.raises(InputError, match=message):
            OpenImagesAveragePrecision().merge_state({**metric.metric_state, "given": [wrong]})


def test_nodes_that_hold_themselves_or_occur_often_end() -> None:
    labels = {name: i for i, name in enumerate("abcdefghijklmnopqrstuvwxyz")}
    itself: dict[str, Any] = {"LabelName": "a"}
    itself["Subcategory"] = [{"LabelName": "b", "Subcategory": [itself]}]
    with pytest.raises(InputError, match="hierarchy must have no cycle but 'a' -> 'b' -> 'a'"):
        OpenImagesAveragePrecision(itself, labels)
    node: dict[str, Any] = {"LabelName": "z"}
    for name in "yxwvutsrqponmlkjihgfedcba":
        node = {"LabelName": name, "Subcategory": [node, node, node]}
    assert len(OpenImagesAveragePrecision(node, labels).hierarchy.ancestors[25]) == 25


def test_empty_labels_of_another_dtype_round_no_verified_label() -> None:
    label = 2**24 + 1
    preds = [detections(), detections((A, 0.5, label))]
    target = [{**ground_truths(), "positive_labels": torch.tensor([])}, ground_truths(positive_labels=[label])]
    assert evaluated(preds, target).result().counts["unverified_detections"] == 0


@pytest.mark.parametrize("key", ["positive_labels", "negative_labels"])
def test_verified_labels_fit_in_int32(key: str) -> None:
    with pytest.raises(InputError, match=rf"target\[0\]\['{key}'\]\[1\] must fit in int32"):
        evaluated([detections((A, 0.5, 1))], [ground_truths(**{key: [3, 2**32 + 1]})])
